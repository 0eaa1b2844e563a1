//! The results that agents return: run directories, accounts and warnings.

use std::fs;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use ldplayer_core::text::counted;
use ldplayer_results::{Part as Piece, Place, Warning, WarningCode, read_document};

use crate::account::{Rows, Share};
use crate::bus::Bus;
use crate::error::ClusterError;
use crate::files;
use crate::member::Member;
use crate::message::{Ask, Hello, Say, Stage};
use crate::subjects;

/// How long a lost agent that answers again has to return its results.
const BACK_WITHIN: Duration = Duration::from_secs(10);
/// Timeout of a request.
const ANSWER_WITHIN: Duration = Duration::from_secs(1);
/// Interval of requests.
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// Whether a lost agent is back and returns its results.
pub fn comes_back(bus: &Bus, run: u64, member: &mut Member) -> bool {
    let (subject, who, seat) = (subjects::agent(&member.hello.id), member.who(), member.seat);
    let ask = |ask: Ask| bus.ask::<_, Say>(&subject, &ask, (&who, "request to return"), ANSWER_WITHIN);
    if ask(Ask::Stop { run, seat, at_once: true }).is_err() {
        return false;
    }
    let begun = Instant::now();
    while begun.elapsed() < BACK_WITHIN {
        match ask(Ask::Progress { run, seat, latencies: false }) {
            Ok(Say::Progress(progress)) => member.progress = progress,
            _ => return false,
        }
        match member.progress.stage {
            Stage::Returned { .. } => return true,
            Stage::Failed { .. } => return false,
            _ => thread::sleep(LOOK_EVERY),
        }
    }
    false
}

/// Fetches the data of all agents, each into a directory below `agents/` of the run directory. A page that an agent made is not taken.
///
/// # Errors
/// A file cannot be fetched or written.
pub fn collect(bus: &Bus, run: u64, members: &[Member], output: &Path) -> Result<Vec<Piece>, ClusterError> {
    let all = output.join("agents");
    // Leftovers of a replaced run in this directory.
    let _ = fs::remove_dir_all(&all);
    let names = folder_names(members.iter().map(|member| member.hello.name.as_str()));
    let (mut pieces, mut wanted) = (Vec::new(), Vec::new());
    for (member, name) in members.iter().zip(names) {
        let (share, mut directory) = (member.share(&name), None);
        if let Stage::Returned { files, .. } = &member.progress.stage {
            // An agent may name other files, which are not fetched.
            let data = files.iter().filter(|file| files::is_data(Path::new(file))).cloned().collect::<Vec<_>>();
            wanted.push((data, all.join(&name)));
            directory = Some(all.join(name));
        }
        let Hello { program, network, boot, .. } = member.hello.clone();
        pieces.push(Piece { share, directory, place: Place { program, network, machine: boot } });
    }
    let wanted: Vec<(&[String], PathBuf)> =
        wanted.iter().map(|(data, directory)| (&data[..], directory.clone())).collect();
    files::get(bus, run, &wanted)?;
    Ok(pieces)
}

/// The accounts of each agent's share.
///
/// # Errors
/// A report cannot be read.
pub fn shares(members: &[Member], pieces: &[Piece]) -> Result<Vec<Share>, ClusterError> {
    let share = |(member, piece): (&Member, &Piece)| {
        let (shard, skipped) = (member.shard as usize, member.progress.skipped);
        let rows = piece.directory.as_deref().map(rows).transpose()?;
        let ended_early = member.ended_early().is_some();
        Ok(Share { shard, rows, skipped, was_lost: member.was_lost, ended_early })
    };
    members.iter().zip(pieces).map(share).collect()
}

fn rows(directory: &Path) -> Result<Rows, ClusterError> {
    let report = read_document::<serde_json::Value>(directory)?.report;
    let queries = report.summary.queries;
    let rows = queries.sent + queries.not_sent;
    Ok(Rows { queries: rows, read: queries.trace.unwrap_or(rows) })
}

/// The number of queries whose responses the agents kept.
///
/// # Errors
/// A report cannot be read.
pub fn responses_kept(directories: &[&Path]) -> Result<u64, ClusterError> {
    let kept = |directory: &&Path| {
        let report = read_document::<serde_json::Value>(directory)?.report;
        Ok(report.summary.responses.kept.unwrap_or(0))
    };
    directories.iter().map(kept).sum()
}

/// Warnings about the agents.
pub fn warnings(members: &[Member]) -> Vec<Warning> {
    let early = members.iter().filter_map(|member| {
        let text = format!("{} ended early: {}; its rows up to then are included", member.who(), member.ended_early()?);
        Some(Warning::new(WarningCode::AgentEndedEarly, text))
    });
    let lost = members.iter().filter_map(|member| {
        let why = member.lost.as_ref()?;
        let sent = counted(member.counts().sent, "query", "queries");
        let text = format!("{} was lost ({why}); its rows are missing, at least {sent}", member.who());
        Some(Warning::new(WarningCode::AgentLost, text))
    });
    let behind = members.iter().filter(|member| member.is_behind).map(|member| {
        let text = format!("{} at times had queries for less than a second ahead", member.who());
        Warning::new(WarningCode::AgentBehind, text)
    });
    early.chain(lost).chain(behind).collect()
}

/// Unique directory names: agents choose their names, and two may choose the same.
fn folder_names<'a>(agents: impl Iterator<Item = &'a str>) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for (number, agent) in agents.enumerate() {
        let is_plain = |letter: &char| letter.is_ascii_alphanumeric() || "-_".contains(*letter);
        let plain: String = agent.chars().map(|letter| if is_plain(&letter) { letter } else { '_' }).take(64).collect();
        let numbered = format!("{plain}.{number}");
        names.push(if plain.is_empty() || names.contains(&plain) { numbered } else { plain });
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agents_of_one_name_have_a_directory_each_and_none_leads_out() {
        let names = folder_names(["a", "a", "../../etc", "", "host.example", "a"].into_iter());
        assert_eq!(names, ["a", "a.1", "______etc", ".3", "host_example", "a.5"]);
    }
}
