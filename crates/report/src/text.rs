//! A run in a few lines for a terminal.

use std::fmt;

use ldplayer_core::printable::Printable;

use ldplayer_results::numbers::{counted, counts, counts_in_words, fixed, grouped, in_bytes, queries};
use ldplayer_results::{
    AgentShare, AnswersCompared, Check, Fidelity, Good, LinkUse, Lookups, RunReport, ServerAnswers, SideUsage, Spread,
    Tail, Warning, words,
};

/// What is known of a run, as text.
#[derive(Clone, Copy)]
pub struct RunText<'a>(pub &'a RunReport);

impl fmt::Display for RunText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let summary = &self.0.summary;
        writeln!(f, "run        {}", self.title())?;
        let started = words::to_the_second(&self.0.started);
        writeln!(f, "           {}, {:.1} s, started {started}", self.0.state, summary.elapsed_s)?;
        self.write_verdicts(f)?;
        self.write_accounts(f)?;
        // Where nothing was due at any time, nothing was late.
        let has_times = self.0.limits.timing.is_some();
        if let Some(error) = summary.timing.error_us.filter(|_| has_times) {
            writeln!(f, "timing     {}", SpreadLine(&error))?;
        }
        if let Some(error) = summary.timing.interarrival_error_us.filter(|_| has_times) {
            writeln!(f, "gaps       {}", SpreadLine(&error))?;
        }
        self.write_rate(f)?;
        writeln!(f, "latency    {}", TailLine(&summary.latency_ms.from_sent))?;
        writeln!(f, "  from due {}", TailLine(&summary.latency_ms.from_intended))?;
        summary.lookups.iter().try_for_each(|lookups| writeln!(f, "lookups    {}", LookupsLine(lookups)))?;
        writeln!(f, "rcodes     {}", counts(&summary.rcodes))?;
        let waited = summary.recorded.iter().find_map(|recorded| recorded.dependencies.as_ref());
        waited.map_or(Ok(()), |by| {
            writeln!(f, "waited     {} for an answer: {}", by.values().sum::<u64>(), counts(by))
        })?;
        if !summary.ede.is_empty() {
            writeln!(f, "errors     {} (EDE)", counts(&summary.ede))?;
        }
        if !summary.nsid.is_empty() {
            writeln!(f, "servers    {} (NSID)", ServersLine(&summary.nsid))?;
        }
        summary.answers_compared.iter().try_for_each(|answers| AnswersText(answers).fmt(f))?;
        writeln!(
            f,
            "clients    {} ({} had every query answered)",
            grouped(summary.clients.total),
            grouped(summary.clients.answered_all)
        )?;
        self.write_connections(f)?;
        summary.link.iter().try_for_each(|link| writeln!(f, "link       {}", LinkLine(link)))?;
        self.write_usage(f)?;
        for (class, tail) in &summary.latency_ms.by_class {
            let clients = summary.clients.by_class.get(class).copied();
            let clients = clients.map_or("? clients".to_owned(), |count| counted(count, "client", "clients"));
            writeln!(f, "class      {class}: {clients}, {}, {}", queries(tail.queries), TailLine(tail))?;
        }
        self.0.agents.iter().try_for_each(|agent| writeln!(f, "agent      {}", AgentLine(agent)))?;
        write!(f, "{}", self.check_lines().join("\n"))
    }
}

/// The latency without queries that were late, in a line.
pub fn without_late(report: &RunReport) -> String {
    let (latency, limits) = (&report.summary.latency_ms, &report.limits);
    match &latency.without_late {
        Some(tail) => {
            let late = queries(latency.from_sent.queries - tail.queries);
            format!("without {late} later than {} ms: {}", limits.late_ns() as f64 / 1e6, TailLine(tail))
        }
        None => "no query was late".to_owned(),
    }
}

/// What users saw of clients that react.
struct LookupsLine<'a>(&'a Lookups);

impl fmt::Display for LookupsLine<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Lookups { asked, failed, attempts, retries, retries_by_reason, failovers, time_ms, .. } = self.0;
        write!(f, "{}, {} failed; {}", grouped(*asked), grouped(*failed), TailLine(time_ms))?;
        write!(f, "; {attempts:.3} attempts each, {}", counted(*retries, "retry", "retries"))?;
        if *retries > 0 {
            write!(f, " after {}", counts(retries_by_reason))?;
        }
        write!(f, ", {} at another server", grouped(*failovers))
    }
}

/// Kept responses by the server that sent them.
struct ServersLine<'a>(&'a [ServerAnswers]);

/// Servers named in the line.
const SERVERS: usize = 8;

impl fmt::Display for ServersLine<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, server) in self.0.iter().take(SERVERS).enumerate() {
            let comma = if at == 0 { "" } else { ", " };
            write!(f, "{comma}{} {}", server.name(), grouped(server.latency_ms.queries))?;
        }
        let more = self.0.len().saturating_sub(SERVERS);
        if more > 0 { write!(f, ", and {more} more") } else { Ok(()) }
    }
}

/// What the link in the sender did.
struct LinkLine<'a>(&'a LinkUse);

impl fmt::Display for LinkLine<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let link = self.0;
        let dropped = link.queue_full + link.no_room;
        write!(f, "{} crossed, {} lost", counted(link.crossed, "frame", "frames"), grouped(link.lost))?;
        if dropped > 0 {
            write!(f, ", {} dropped by full queues", grouped(dropped))?;
        }
        write!(f, "; at most {:.2} ms later than asked", link.latest_ms)
    }
}

/// An agent and its share.
struct AgentLine<'a>(&'a AgentShare);

impl fmt::Display for AgentLine<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let agent = self.0;
        write!(f, "{}", agent.name)?;
        if let Some(before) = &agent.took_over_from {
            write!(f, ", for {before}")?;
        }
        write!(f, ": sent {}, answered {}", grouped(agent.sent), grouped(agent.answered))?;
        if let Some(why) = &agent.lost {
            return write!(f, " by its last word; LOST: {why}");
        }
        if let Some(why) = &agent.ended_early {
            write!(f, ", ENDED EARLY: {why}")?;
        }
        let figures = [
            ("p99 late", agent.timing_p99_us, 1, "µs"),
            ("latency p50", agent.latency_p50_ms, 3, "ms"),
            ("p99", agent.latency_p99_ms, 3, "ms"),
            ("clock within", agent.skew_us, 1, "µs"),
        ];
        let mut known =
            figures.into_iter().filter_map(|(name, value, digits, unit)| Some((name, value?, digits, unit)));
        known.try_for_each(|(name, value, digits, unit)| write!(f, ", {name} {} {unit}", fixed(value, digits)))
    }
}

/// Cores and memory of a side; `None` where neither is known.
fn used(side: &SideUsage) -> Option<String> {
    let cores = side.cores_mean.map(|mean| format!("{mean:.2} cores"));
    let busiest = side.cores_peak.map(|peak| format!("{peak:.2} in its busiest second"));
    let resident = side.rss_peak_bytes.map(|bytes| format!("{} resident", in_bytes(bytes)));
    let shared_once = side.pss_peak_bytes.map(|bytes| format!("{} PSS", in_bytes(bytes)));
    let parts: Vec<String> = [cores, busiest, resident, shared_once].into_iter().flatten().collect();
    (!parts.is_empty()).then(|| parts.join(", "))
}

impl RunText<'_> {
    /// Both verdicts on one line, each with what failed: `replay ok · server FAILED (answered 85.1 %)`.
    pub fn outcome(&self) -> String {
        let failed = |checks: &[Check], words: fn(&str) -> String| {
            let failed = checks.iter().filter(|check| !check.ok);
            // What stands behind the figure is in the lines above.
            let figure = |check: &Check| check.value.split(" (").next().unwrap_or_default().to_owned();
            failed.map(|check| named(&words(&check.name), &figure(check))).collect::<Vec<_>>().join(", ")
        };
        let replay = match self.0.verdict.fidelity() {
            Fidelity::Faithful => "replay ok".to_owned(),
            Fidelity::Harmless => "replay ok (late, harmless)".to_owned(),
            Fidelity::Disturbed => format!("replay FAILED ({})", failed(&self.0.verdict.checks, words::check)),
        };
        match self.0.verdict.server.ok {
            None => format!("{replay} · server not judged"),
            Some(true) => format!("{replay} · server ok"),
            Some(false) => {
                format!("{replay} · server FAILED ({})", failed(&self.0.verdict.server.checks, words::quantity))
            }
        }
    }

    /// What was replayed and against what.
    pub fn asked(&self) -> String {
        let or = |text: String, other: &str| if text.is_empty() { other.to_owned() } else { text };
        let trace = or(first_of(&self.0.config.words("trace")), "a trace");
        let servers = ["server", "map"].map(|key| self.0.config.words(key)).concat();
        format!("{trace} → {}", or(servers.join(", "), "a server"))
    }

    /// The same, with the transports.
    pub fn title(&self) -> String {
        let or = |text: String, other: &str| if text.is_empty() { other.to_owned() } else { text };
        let sent = &self.0.summary.queries.sent_by_transport;
        let mut used: Vec<(&str, u64)> = sent.iter().map(|(name, &count)| (name.as_str(), count)).collect();
        used.sort_by_key(|&(_, count)| std::cmp::Reverse(count));
        let used: Vec<&str> = used.into_iter().map(|(name, _)| words::transport(name)).collect();
        let asked = words::transport(&self.0.config.word("transport")).to_owned();
        format!("{} over {}", self.asked(), or(used.join(", "), or(asked, "nothing").as_str()))
    }

    /// Both verdicts and every doubt, before any figure.
    fn write_verdicts(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let checks = &self.0.verdict.checks;
        match self.0.verdict.fidelity() {
            Fidelity::Faithful => writeln!(f, "replay     ok: faithful")?,
            Fidelity::Harmless => {
                writeln!(f, "replay     ok: late, harmless: {}", chosen(checks, words::check, |check| check.harmless))?;
            }
            Fidelity::Disturbed => writeln!(f, "replay     FAILED: {}", failed(checks, words::check))?,
        }
        match self.0.verdict.server.ok {
            None => writeln!(f, "server     not judged: nothing was expected of it (--expect)")?,
            Some(true) => writeln!(f, "server     ok: as expected")?,
            Some(false) => {
                writeln!(f, "server     FAILED: {}", failed(&self.0.verdict.server.checks, words::quantity))?
            }
        }
        let line = |warning: &Warning| match warning.remedy.as_str() {
            "" => format!("{warning} [{}]", warning.code),
            remedy => format!("{warning}; {remedy} [{}]", warning.code),
        };
        self.0.warnings.iter().try_for_each(|warning| writeln!(f, "warning    {}", line(warning)))
    }

    /// Every check on a line of its own, the server's last.
    fn check_lines(&self) -> Vec<String> {
        let replay = self.0.verdict.checks.iter().map(|check| (words::check(&check.name), check, ""));
        let server = self.0.verdict.server.checks.iter();
        let server = server.map(|check| (words::quantity(&check.name), check, ", expected of the server"));
        let all: Vec<_> = replay.chain(server).collect();
        let width = all.iter().map(|(name, ..)| name.chars().count()).max().unwrap_or(0);
        all.iter().map(|(name, check, whose)| format!("{}{whose}", CheckLine { name, check, width })).collect()
    }

    fn write_accounts(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let queries = &self.0.summary.queries;
        let trace = queries.trace.map_or("unknown".to_owned(), grouped);
        let lost = if queries.lost > 0 { format!(" + lost {}", grouped(queries.lost)) } else { String::new() };
        let [sent, not_sent] = [queries.sent, queries.not_sent].map(grouped);
        write!(f, "queries    trace {trace} = sent {sent} + not sent {not_sent}{lost}; ")?;
        write!(f, "sent = answered {} + timed out {}", grouped(queries.answered), grouped(queries.timed_out))?;
        writeln!(f, " + failed {}", grouped(queries.failed))?;
        if queries.late + queries.stray > 0 {
            let stray = counted(queries.stray, "stray response", "stray responses");
            writeln!(f, "           besides: {} late and {stray}", grouped(queries.late))?;
        }
        Ok(())
    }

    fn write_connections(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let connections = &self.0.summary.connections;
        if connections.opened + connections.failed == 0 {
            return Ok(());
        }
        let [opened, failed, peak, rest] =
            [connections.opened, connections.failed, connections.peak_open, connections.open_at_end].map(grouped);
        writeln!(f, "connected  opened {opened}, failed {failed}, at most {peak} open; {rest} open at the end")?;
        if connections.resumed > 0 {
            writeln!(f, "           with a resumed TLS session: {}", grouped(connections.resumed))?;
        }
        if !connections.closed.is_empty() {
            writeln!(f, "           closed: {}", counts_in_words(&connections.closed, words::closed))?;
        }
        for (class, tail) in words::in_order(&words::CONNECTIONS, &self.0.summary.latency_ms.by_connection) {
            writeln!(f, "           over {class}: {}", TailLine(tail))?;
        }
        let queries = &self.0.summary.queries;
        if queries.resent + queries.fell_back > 0 {
            let [resent, fell_back] = [queries.resent, queries.fell_back].map(grouped);
            writeln!(
                f,
                "           queries sent again on a new connection: {resent}, over TCP after truncation: {fell_back}"
            )?;
        }
        Ok(())
    }

    /// The resources that both ends used, as far as they were measured, and the server's losses.
    fn write_usage(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let telemetry = &self.0.summary.telemetry;
        let sides = [("server", &telemetry.server), ("client", &telemetry.client)];
        let quota = self.0.config.word("server_cpu");
        let quota = if quota.is_empty() { quota } else { format!(" within a quota of {quota} cores") };
        let parts = sides.into_iter().filter_map(|(name, side)| {
            let quota = if name == "server" { quota.as_str() } else { "" };
            Some(format!("{name} {}{quota}", used(side.as_ref()?)?))
        });
        let parts: Vec<String> = parts.collect();
        if !parts.is_empty() {
            writeln!(f, "used       {}", parts.join("; "))?;
        }
        let Some(server) = &telemetry.server else { return Ok(()) };
        let lost = [
            (server.udp_drops, ["datagram", "datagrams"], "dropped by the server's sockets"),
            (server.accept_queue_overflows, ["connection", "connections"], "lost since its accept queue was full"),
        ];
        let lost = lost.into_iter().filter_map(|(count, of, what)| Some((count.filter(|&count| count > 0)?, of, what)));
        let lost: Vec<String> =
            lost.map(|(count, [one, many], what)| format!("{} {what}", counted(count, one, many))).collect();
        if lost.is_empty() { Ok(()) } else { writeln!(f, "lost       {}", lost.join(", ")) }
    }

    fn write_rate(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rate = &self.0.summary.rate;
        let per_second = |(sent, answered): (f64, f64)| {
            let [sent, answered] = [sent, answered].map(|qps| qps.round() as u64);
            format!("{}/s sent, {} answered", queries(sent), grouped(answered))
        };
        let qps =
            rate.sent_qps.zip(rate.answered_qps).map_or("no rate, for queries of one moment".to_owned(), per_second);
        write!(f, "rate       {qps}")?;
        match rate.within_0_1_percent.filter(|_| self.0.limits.timing.is_some()) {
            Some(within) => {
                let windows = counted(rate.windows, "window", "windows");
                writeln!(f, ", {within:.2} % of {windows} within 0.1 % of the trace")
            }
            None => writeln!(f),
        }
    }
}

/// How answers compare with the expected ones, as text.
pub struct AnswersText<'a>(pub &'a AnswersCompared);

impl fmt::Display for AnswersText<'_> {
    /// Whole lines.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let percent = self.0.matching as f64 * 100.0 / self.0.compared.max(1) as f64;
        let [all, worse, without, better, changed] =
            [self.0.compared, self.0.worse, self.0.unanswered, self.0.better, self.0.changed].map(grouped);
        writeln!(
            f,
            "answers    {percent:.2} % of {all} compared match; worse {worse} ({without} without an answer), better {better}, changed {changed}"
        )?;
        if !self.0.by_field.is_empty() {
            writeln!(f, "           they differ in: {}", counts(&self.0.by_field))?;
        }
        if self.0.not_comparable > 0 {
            let reasons = counts_in_words(&self.0.not_comparable_by_reason, words::reason);
            writeln!(f, "           not comparable: {reasons}")?;
        }
        let Some(again) = &self.0.again else { return Ok(()) };
        let [asked, flapped, confirmed, left_out] =
            [again.asked, again.flapped, again.confirmed, again.left_out].map(grouped);
        writeln!(
            f,
            "           asked again: {asked}, of which {flapped} are as expected now and {confirmed} are not; not asked again {left_out}"
        )
    }
}

/// The failed checks, each with its figure and its limit.
fn failed(checks: &[Check], words: fn(&str) -> String) -> String {
    chosen(checks, words, |check| !check.ok)
}

fn chosen(checks: &[Check], words: fn(&str) -> String, is_chosen: fn(&Check) -> bool) -> String {
    let told = |check: &Check| {
        let note = check.note.iter().filter(|_| check.is_of_timing() && !check.ok);
        let note: String = note.map(|note| format!("; {note}")).collect();
        format!("{} (limit {}{note})", named(&words(&check.name), &check.value), check.limit)
    };
    checks.iter().filter(|check| is_chosen(check)).map(told).collect::<Vec<_>>().join("; ")
}

/// A check with its finding: a figure stands right behind the name, words behind a colon.
fn named(name: &str, value: &str) -> String {
    let is_figure = value.starts_with(|letter: char| letter.is_ascii_digit() || letter == '-');
    if is_figure { format!("{name} {value}") } else { format!("{name}: {value}") }
}

/// A check whose name fills so many columns.
struct CheckLine<'a> {
    name: &'a str,
    check: &'a Check,
    width: usize,
}

impl fmt::Display for CheckLine<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, check, width } = *self;
        let mark = match check.ok {
            true if check.harmless => "late  ",
            true => "ok    ",
            false => "FAILED",
        };
        write!(f, "  {mark}   {name:<width$}  {} (limit {})", check.value, check.limit)?;
        check.note.iter().try_for_each(|note| write!(f, "; {note}"))
    }
}

/// The first of several names, and how many more there are.
fn first_of(names: &[String]) -> String {
    match names {
        [] => String::new(),
        [only] => Printable(file_name(only)).to_string(),
        [first, rest @ ..] => format!("{} and {} more", Printable(file_name(first)), rest.len()),
    }
}

/// The last part of a path; a title has no room for folders.
fn file_name(path: &str) -> &str {
    path.rsplit('/').next().filter(|name| !name.is_empty()).unwrap_or(path)
}

struct SpreadLine<'a>(&'a Spread);

impl fmt::Display for SpreadLine<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Spread { p25, p50, p75, p99, p999, max, .. } = *self.0;
        let [p25, p50, p75, p99, p999, max] = [p25, p50, p75, p99, p999, max].map(|us| fixed(us, 1));
        write!(f, "error µs: p25 {p25}, p50 {p50}, p75 {p75}, p99 {p99}, p99.9 {p999}, max {max}")
    }
}

/// A latency; the mean only where it is known.
pub(crate) struct TailLine<'a>(pub &'a Tail);

impl fmt::Display for TailLine<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ms = |value: Option<f64>| value.map_or("unanswered".to_owned(), |ms| format!("{ms:.3}"));
        let Tail { mean, p50, p90, p95, p99, p999, max, .. } = *self.0;
        let [p50, p90, p95, p99, p999, max] = [p50, p90, p95, p99, p999, max].map(ms);
        write!(f, "ms: p50 {p50}, p90 {p90}, p95 {p95}, p99 {p99}, p99.9 {p999}, max {max}")?;
        mean.map_or(Ok(()), |mean| write!(f, ", mean {mean:.3}"))?;
        let Good { p50, p90, p95, p99, p999 } = self.0.good.unwrap_or_default();
        let marks = [(p50, "p50"), (p90, "p90"), (p95, "p95"), (p99, "p99"), (p999, "p99.9")];
        let touched: Vec<&str> =
            marks.into_iter().filter(|(good, _)| *good == Some(false)).map(|(_, name)| name).collect();
        if touched.is_empty() { Ok(()) } else { write!(f, " ({} touched by the host)", touched.join(", ")) }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use ldplayer_results::{Connections, Summary, Telemetry, WarningCode};

    fn told(server: Option<SideUsage>) -> String {
        let client = SideUsage { cores_mean: Some(0.5), ..SideUsage::default() };
        let telemetry = Telemetry { client: Some(client), server, replay: None };
        let summary = Summary { telemetry, ..Summary::default() };
        RunText(&RunReport { summary, ..RunReport::default() }).to_string()
    }

    #[test]
    fn what_was_used_and_lost_is_told_as_far_as_it_is_known() {
        let server = SideUsage {
            cores_mean: Some(1.25),
            cores_peak: Some(1.5),
            rss_peak_bytes: Some(52_100_000),
            udp_drops: Some(1_200),
            accept_queue_overflows: Some(0),
            ..SideUsage::default()
        };
        let text = told(Some(server));
        let used = "used       server 1.25 cores, 1.50 in its busiest second, 52.1 MB resident; client 0.50 cores\n";
        assert!(
            text.contains(used) && text.contains("lost       1,200 datagrams dropped by the server's sockets\n"),
            "{text}"
        );
        let alone = told(None);
        assert!(alone.contains("used       client 0.50 cores\n") && !alone.contains("lost "), "{alone}");
        assert!(!RunText(&RunReport::default()).to_string().contains("used "));
    }

    #[test]
    fn checks_reasons_and_connections_are_told_in_words_and_not_by_their_keys() {
        let check = |name: &str, ok, value: &str| Check {
            name: name.to_owned(),
            limit: "1000 µs".to_owned(),
            value: value.to_owned(),
            ok,
            ..Check::default()
        };
        let one = |key: &str| -> BTreeMap<String, u64> { [(key.to_owned(), 1)].into() };
        let mut report = RunReport::default();
        report.verdict.checks = vec![check("timing_p99", false, "3110.0 µs"), check("not_sent", true, "0")];
        report.verdict.server.ok = Some(false);
        report.verdict.server.checks = vec![check("timed_out", false, "3.00 % (3 of 100)")];
        report.summary.connections = Connections { opened: 1, closed: one("client_idle"), ..Connections::default() };
        report.summary.latency_ms.by_connection = [("fresh_resumed".to_owned(), Tail::default())].into();
        report.summary.queries.sent_by_transport = one("doh2");
        let not_comparable_by_reason = one("no_reference");
        let answers = AnswersCompared { not_comparable: 1, not_comparable_by_reason, ..AnswersCompared::default() };
        report.summary.answers_compared = Some(answers);
        report.warnings = vec![Warning::with_remedy(WarningCode::CpuStolen, "the core was away", "repeat the run")];
        let (text, outcome) = (RunText(&report).to_string(), RunText(&report).outcome());
        let told = [
            "replay     FAILED: 99th percentile of the timing error 3110.0 µs (limit 1000 µs)\n",
            "server     FAILED: timed out 3.00 % (3 of 100) (limit 1000 µs)\n",
            "warning    the core was away; repeat the run [cpu_stolen]\n",
            "closed: client: idle 1\n",
            "over new connection, session resumed: ms: p50",
            "not comparable: no expected answer 1\n",
            " over DoH over HTTP/2\n",
            "\n  FAILED   99th percentile of the timing error  3110.0 µs (limit 1000 µs)\n",
            "\n  ok       queries that were not sent           0 (limit 1000 µs)\n",
            "\n  FAILED   timed out                            3.00 % (3 of 100) (limit 1000 µs), expected of the server",
        ];
        told.iter().for_each(|line| assert!(text.contains(line), "{line} is not in\n{text}"));
        assert!(!text.replace("[cpu_stolen]", "").contains('_'), "a key in\n{text}");
        let failed = "replay FAILED (99th percentile of the timing error 3110.0 µs) · server FAILED (timed out 3.00 %)";
        assert_eq!(outcome, failed);
    }

    #[test]
    fn classes_and_queries_sent_again_have_lines() {
        let mut report = RunReport::default();
        report.summary.clients.by_class = [("others".to_owned(), 7)].into();
        report.summary.latency_ms.by_class = [("others".to_owned(), Tail { queries: 3, ..Tail::default() })].into();
        report.summary.connections.opened = 2;
        report.summary.queries.resent = 2;
        let text = RunText(&report).to_string();
        assert!(text.contains("others: 7 clients, 3 queries"), "{text}");
        assert!(text.contains("queries sent again on a new connection: 2"), "{text}");
    }

    #[test]
    fn a_check_that_found_no_figure_stands_apart_from_what_it_found() {
        let check = |name: &str, value: &str| Check { value: value.to_owned(), ..named_check(name) };
        let checks = [check("completeness", "interrupted"), check("rate", "-1 %")];
        let told = failed(&checks, words::check);
        assert_eq!(told, "whole trace replayed: interrupted (limit 0); query rate by second -1 % (limit 0)");
    }

    fn named_check(name: &str) -> Check {
        Check { name: name.to_owned(), limit: "0".to_owned(), ..Check::default() }
    }

    #[test]
    fn a_run_without_times_has_no_timing_error_in_its_report() {
        let mut report = RunReport { started: "2025-11-24T16:00:00.5Z".to_owned(), ..RunReport::default() };
        report.summary.timing.error_us = Some(Spread::default());
        report.summary.rate.within_0_1_percent = Some(100.0);
        let told = |report: &RunReport| {
            let text = RunText(report).to_string();
            (text.contains("\ntiming "), text.contains("within 0.1 % of the trace"))
        };
        assert_eq!(told(&report), (true, true));
        assert!(RunText(&report).to_string().contains("started 2025-11-24 16:00:00 UTC\n"));
        report.limits = ldplayer_results::VerdictLimits::FAST;
        assert_eq!(told(&report), (false, false));
    }
}
