//! What agents bring back: their run directories, what of them counts, and what is to be told of them.

use std::fs;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use ldplayer_results::{Part as Piece, Place, Warning, read_document};

use crate::account::{Rows, Share};
use crate::bus::Bus;
use crate::error::ClusterError;
use crate::files;
use crate::member::Member;
use crate::message::{Ask, Hello, Say, Stage};
use crate::subjects;

/// How long an agent that was lost and answers again has to bring what it has.
const BACK_WITHIN: Duration = Duration::from_secs(10);
/// How long it has to answer.
const ANSWER_WITHIN: Duration = Duration::from_secs(1);
/// How often it is asked.
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// Whether an agent that was lost is there again and brings what it has.
pub fn comes_back(bus: &Bus, run: u64, member: &mut Member) -> bool {
    let (subject, who, seat) = (subjects::agent(&member.hello.id), member.who(), member.seat);
    let ask = |ask: Ask| bus.ask::<_, Say>(&subject, &ask, (&who, "whether it is back"), ANSWER_WITHIN);
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

/// Gets the files of all agents, each into a directory of its own below `agents/` of the run directory.
///
/// # Errors
/// A file cannot be had or written.
pub fn collect(bus: &Bus, run: u64, members: &[Member], output: &Path) -> Result<Vec<Piece>, ClusterError> {
    let all = output.join("agents");
    // Those of an earlier run in this directory, which was replaced.
    let _ = fs::remove_dir_all(&all);
    let names = folder_names(members.iter().map(|member| member.hello.name.as_str()));
    let (mut pieces, mut wanted) = (Vec::new(), Vec::new());
    for (member, name) in members.iter().zip(names) {
        let (share, mut directory) = (member.share(&name), None);
        if let Stage::Returned { files, .. } = &member.progress.stage {
            wanted.push((files.as_slice(), all.join(&name)));
            directory = Some(all.join(name));
        }
        let Hello { program, network, boot, .. } = member.hello.clone();
        pieces.push(Piece { share, directory, place: Place { program, network, machine: boot } });
    }
    files::get(bus, run, &wanted)?;
    Ok(pieces)
}

/// What of each agent's share counts.
///
/// # Errors
/// The report of one cannot be read.
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

/// Of how many queries agents kept the responses.
///
/// # Errors
/// The report of one cannot be read.
pub fn responses_kept(directories: &[&Path]) -> Result<u64, ClusterError> {
    let kept = |directory: &&Path| {
        let report = read_document::<serde_json::Value>(directory)?.report;
        Ok(report.summary.responses.kept.unwrap_or(0))
    };
    directories.iter().map(kept).sum()
}

/// What is to be told of the agents.
pub fn warnings(members: &[Member]) -> Vec<Warning> {
    let early = members.iter().filter_map(|member| {
        let text = format!(
            "{} ended before its queries did: {}; its rows until then are here",
            member.who(),
            member.ended_early()?
        );
        Some(Warning::new("agent_ended_early", text, "mend what it says on its host, and make the run once more"))
    });
    let lost = members.iter().filter_map(|member| {
        let why = member.lost.as_ref()?;
        let sent = member.counts().sent;
        let text = format!(
            "{} was lost ({why}) when it had sent {sent} queries by its last word; its rows are not here",
            member.who()
        );
        Some(Warning::new(
            "agent_lost",
            text,
            "what it recorded may be on its host: `ldplayer agent` says where when it ends",
        ))
    });
    let behind = members.iter().filter(|member| member.is_behind).map(|member| {
        let text = format!("{} had queries for less than a second ahead at a time", member.who());
        Warning::new(
            "agent_behind",
            text,
            "use more agents, or a faster way to the NATS server; with --local agents read the trace themselves",
        )
    });
    early.chain(lost).chain(behind).collect()
}

/// Names of directories, each once: an agent calls itself what it likes, and two may do so alike.
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
