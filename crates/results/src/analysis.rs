//! From rows on disk to the figures of a run: two passes, the second in the order of due times.

mod accounts;
mod compared;
mod connections;
mod curve;
mod delayed;
mod drift;
pub mod figures;
mod lookups;
mod ordered;
mod outcomes;
mod phases;
pub(crate) mod read;
mod resources;
mod sampled;
mod slices;
pub(crate) mod spread;
mod timeline;
mod usage;

use std::collections::BTreeMap;

use ldplayer_core::Transport;
use ldplayer_core::time::NS_PER_S;

pub use self::accounts::UdpAnswers;
pub(crate) use self::accounts::status;
use self::accounts::{Accounts, Activity};
use self::curve::Curve;
pub use self::delayed::Delayed;
use self::figures::Figures;
use self::ordered::CONNECTIONS;
use self::read::RowFiles;
pub use self::read::damaged_rows;
use self::sampled::Sampled;
pub use self::slices::needed;
use self::spread::Censored;
use self::timeline::Timeline;
use crate::error::ResultsError;
use crate::limits::VerdictLimits;
use crate::model::{Latency, Rate, RateError, Summary, Tail, Telemetry, Timing};
use crate::store::RunDir;

/// What the rows say.
#[derive(Debug, Default)]
pub struct Analysis {
    /// The figures of `run.json`; the number of queries in the trace is for the caller to fill in.
    pub summary: Summary,
    /// The figures of the page.
    pub figures: Figures,
    /// Queries not sent although this run should have sent them.
    pub unsent_without_design: u64,
    /// When the first query was due, on the run's clock in nanoseconds.
    pub first_due: Option<i64>,
    /// When the last answer came that was in time, in nanoseconds of run time.
    pub last_answered: Option<i64>,
    /// Where responses that belong to no query came from, the most frequent first.
    pub stray_sources: Vec<(String, u64)>,
    /// Answers over UDP, and what may have been kept from them.
    pub udp: UdpAnswers,
    /// Answers over connections that seem to have waited for an acknowledgement.
    pub delayed: Option<Delayed>,
    /// What was sampled of both ends.
    sampled: Sampled,
    /// Row files that could not be read.
    pub unreadable: usize,
}

/// Reads all whole row files of a run, in which an answer was waited for so many nanoseconds; queries are late beyond these limits.
///
/// Memory: some 50 MB for a slice of rows, up to 8 MB per distribution, about 100 octets a client and 40 a connection.
pub fn analyse(dir: &RunDir, query_timeout: i64, limits: &VerdictLimits) -> Result<Analysis, ResultsError> {
    let files = RowFiles::open(dir)?;
    let mut accounts = Accounts::new(query_timeout);
    files.scan(&accounts::COLUMNS, &(i64::MIN..i64::MAX), |batch| accounts.add(batch))?;
    let (clients, activity) = accounts.clients();
    let mut summary = Summary {
        elapsed_s: accounts.elapsed_s(),
        queries: accounts.queries(),
        rcodes: accounts.rcodes(),
        ede: accounts.extended_errors(),
        responses: accounts.responses(),
        connections: accounts.connections(),
        clients,
        answers: accounts.answers().by_word(),
        answers_compared: accounts.answers().compared(),
        ..Summary::default()
    };
    let (first, _) = accounts.span().unwrap_or_default();
    let lookups = lookups::read(dir, &files, first)?;
    summary.lookups = lookups.as_ref().map(|found| found.summary.clone());
    let sampled = Sampled::read(&dir.telemetry())?;
    let mut figures = Figures::default();
    let mut delayed = None;
    if let Some((first, last)) = accounts.span() {
        let mut timeline = Timeline::new(first, last, limits.late_ns(), &accounts);
        let classes = ordered::scan(&files, &accounts.due_by_second, &activity, |rows| timeline.add(rows))?;
        summary.timing = timing(&mut timeline);
        summary.rate = rate(&timeline, summary.queries.answered);
        summary.latency_ms = latency(&mut timeline);
        delayed = delayed::most(&mut timeline.by_transport);
        summary.latency_ms.by_phase = accounts.phases();
        let classes: Vec<&str> = classes.0.iter().map(String::as_str).collect();
        summary.latency_ms.by_class = tails(&classes, &mut timeline.by_class);
        figures = figures::draw(&mut timeline, &summary);
        summary.latency_ms.drift_percent = drift::percent(&figures.latency_time);
        connections::draw(&sampled, &mut figures);
    }
    if let Some(lookups::LookupFigures { times, load, .. }) = lookups {
        (figures.lookup_time, figures.attempts_time) = (times, load);
    }
    resources::draw(&sampled, &mut figures);
    let unsent_without_design = accounts.unsent_without_design();
    Ok(Analysis {
        summary,
        figures,
        unsent_without_design,
        first_due: accounts.span().map(|(first, _)| first),
        last_answered: accounts.last_answered(),
        delayed,
        sampled,
        stray_sources: accounts.stray_sources(),
        udp: accounts.udp,
        unreadable: files.unreadable.len(),
    })
}

impl Analysis {
    /// What both ends used until the last outcome of a run whose figures are `summary`.
    pub fn telemetry(&self, summary: &Summary) -> Telemetry {
        let from = self.first_due.unwrap_or(0);
        let to = from.saturating_add((summary.elapsed_s * NS_PER_S as f64) as i64);
        usage::of(&self.sampled, usage::Load { from, to, queries: summary.queries.sent })
    }
}

fn timing(timeline: &mut Timeline) -> Timing {
    Timing {
        error_us: timeline.errors.summary_us(),
        interarrival_error_us: timeline.gap_errors.summary_us(),
        first_error_us: timeline.first_error.map(|ns| ns as f64 / 1e3),
    }
}

fn rate(timeline: &Timeline, answered: u64) -> Rate {
    let sent_qps = timeline.qps_mean();
    let windows = timeline.seconds.whole(timeline.scheduled()).map(|(_, counts)| counts);
    let windows: Vec<(u64, u64)> = windows.filter(|&(due, sent)| due + sent > 0).collect();
    let close = windows.iter().filter(|&&(due, sent)| is_close(due, sent)).count();
    let mut due: Vec<u64> = windows.iter().map(|&(due, _)| due).collect();
    due.sort_unstable();
    Rate {
        sent_qps,
        answered_qps: sent_qps.map(|sent| sent * answered as f64 / timeline.errors.len().max(1) as f64),
        qps_mean: sent_qps,
        window_s: timeline.seconds.length_s(),
        windows: windows.len() as u64,
        window_queries_p50: due.get(due.len().saturating_sub(1) / 2).copied().unwrap_or_default(),
        within_0_1_percent: (!windows.is_empty()).then(|| close as f64 * 100.0 / windows.len() as f64),
        error_percent: rate_error(&windows),
    }
}

/// Within 0.1 %, where one query more or less is always allowed: it may only have crossed the border of a window.
fn is_close(due: u64, sent: u64) -> bool {
    due.abs_diff(sent) as f64 <= (due as f64 / 1_000.0).max(1.0)
}

fn rate_error(windows: &[(u64, u64)]) -> Option<RateError> {
    let mut errors: Vec<f64> = windows.iter().filter_map(|&counts| figures::percent(counts)).collect();
    errors.sort_unstable_by(f64::total_cmp);
    let at = |quantile| errors.get(spread::rank(quantile, errors.len() as u64).checked_sub(1)? as usize).copied();
    let mut distances: Vec<f64> = errors.iter().map(|percent| percent.abs()).collect();
    distances.sort_unstable_by(f64::total_cmp);
    let nine_of_ten = *distances.get(spread::rank(0.9, distances.len() as u64).checked_sub(1)? as usize)?;
    Some(RateError { p1: at(0.01)?, p50: at(0.5)?, p99: at(0.99)?, nine_of_ten })
}

fn latency(timeline: &mut Timeline) -> Latency {
    let transports = Transport::ALL.map(Transport::as_str);
    let of_both = transports.iter().zip(&mut timeline.by_transport_and_connection);
    let of_both = of_both.map(|(name, classes)| ((*name).to_owned(), tails(&CONNECTIONS, classes)));
    Latency {
        from_intended: timeline.from_intended.tail(),
        from_sent: timeline.from_sent.tail(),
        answered_only: timeline.from_sent.known().tail(),
        without_late: (timeline.on_time.len() < timeline.from_sent.len()).then(|| timeline.on_time.tail()),
        by_transport: tails(&transports, &mut timeline.by_transport),
        by_connection: tails(&CONNECTIONS, &mut timeline.by_connection),
        by_transport_and_connection: of_both.filter(|(_, tails)| !tails.is_empty()).collect(),
        by_client_activity: tails(&Activity::RANKS, &mut timeline.by_rank),
        by_client_queries: tails(&Activity::VOLUMES, &mut timeline.by_volume),
        by_phase: BTreeMap::new(),
        by_class: BTreeMap::new(),
        drift_percent: None,
    }
}

/// The tails of the classes that have a query.
fn tails(names: &[&str], classes: &mut [Censored]) -> BTreeMap<String, Tail> {
    let used = names.iter().zip(classes).filter(|(_, latency)| latency.len() > 0);
    used.map(|(name, latency)| ((*name).to_owned(), latency.tail())).collect()
}
