//! A run in a few lines for a terminal.

use std::collections::BTreeMap;
use std::fmt;

use ldplayer_core::printable::Printable;

use crate::model::{AgentShare, AnswersCompared, Check, LinkUse, RunReport, SideUsage, Spread, State, Tail};
use crate::setup::Warning;
use crate::words;

impl fmt::Display for RunReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let summary = &self.summary;
        writeln!(f, "run        {}", self.title())?;
        let started = words::to_the_second(&self.started);
        writeln!(f, "           {}, {:.1} s, started {started}", self.state, summary.elapsed_s)?;
        self.write_verdicts(f)?;
        self.write_accounts(f)?;
        // Where nothing was due at any time, nothing was late.
        let has_times = self.limits.timing.is_some();
        if let Some(error) = summary.timing.error_us.filter(|_| has_times) {
            writeln!(f, "timing     {}", SpreadLine(&error))?;
        }
        if let Some(error) = summary.timing.interarrival_error_us.filter(|_| has_times) {
            writeln!(f, "gaps       {}", SpreadLine(&error))?;
        }
        self.write_rate(f)?;
        writeln!(f, "latency    {}", TailLine(&summary.latency_ms.from_sent))?;
        writeln!(f, "  from due {}", TailLine(&summary.latency_ms.from_intended))?;
        writeln!(f, "rcodes     {}", counts(&summary.rcodes))?;
        summary.answers_compared.iter().try_for_each(|answers| answers.fmt(f))?;
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
        self.agents.iter().try_for_each(|agent| writeln!(f, "agent      {}", AgentLine(agent)))?;
        write!(f, "{}", self.check_lines().join("\n"))
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

/// Bytes in a unit that leaves three digits or less before the point.
pub fn in_bytes(bytes: u64) -> String {
    let units = [(1e9, "GB"), (1e6, "MB"), (1e3, "kB")];
    let unit = units.into_iter().find(|&(size, _)| bytes as f64 >= size);
    unit.map_or_else(|| format!("{bytes} B"), |(size, unit)| format!("{:.1} {unit}", bytes as f64 / size))
}

impl RunReport {
    /// Both verdicts on one line, each with what failed: `replay ok · server FAILED (answered 85.1 %)`.
    pub fn outcome(&self) -> String {
        let failed = |checks: &[Check], words: fn(&str) -> String| {
            let failed = checks.iter().filter(|check| !check.ok);
            // What stands behind the figure is in the lines above.
            let figure = |check: &Check| check.value.split(" (").next().unwrap_or_default().to_owned();
            failed.map(|check| named(&words(&check.name), &figure(check))).collect::<Vec<_>>().join(", ")
        };
        let replay = match self.verdict.ok {
            true => "replay ok".to_owned(),
            false => format!("replay FAILED ({})", failed(&self.verdict.checks, words::check)),
        };
        match self.verdict.server.ok {
            None => format!("{replay} · server not judged"),
            Some(true) => format!("{replay} · server ok"),
            Some(false) => {
                format!("{replay} · server FAILED ({})", failed(&self.verdict.server.checks, words::quantity))
            }
        }
    }

    /// What was replayed and against what.
    pub fn asked(&self) -> String {
        let or = |text: String, other: &str| if text.is_empty() { other.to_owned() } else { text };
        let trace = or(first_of(&self.config.trace), "a trace");
        format!("{trace} → {}", or(self.config.servers.join(", "), "a server"))
    }

    /// The same, with the transports.
    pub fn title(&self) -> String {
        let or = |text: String, other: &str| if text.is_empty() { other.to_owned() } else { text };
        let sent = &self.summary.queries.sent_by_transport;
        let mut used: Vec<(&str, u64)> = sent.iter().map(|(name, &count)| (name.as_str(), count)).collect();
        used.sort_by_key(|&(_, count)| std::cmp::Reverse(count));
        let used: Vec<&str> = used.into_iter().map(|(name, _)| words::transport(name)).collect();
        let asked = words::transport(&self.config.transport).to_owned();
        format!("{} over {}", self.asked(), or(used.join(", "), or(asked, "nothing").as_str()))
    }

    /// Both verdicts and every doubt, before any figure.
    fn write_verdicts(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.verdict.ok {
            true => writeln!(f, "replay     ok: faithful")?,
            false => writeln!(f, "replay     FAILED: {}", failed(&self.verdict.checks, words::check))?,
        }
        match self.verdict.server.ok {
            None => writeln!(f, "server     not judged: nothing was expected of it (--expect)")?,
            Some(true) => writeln!(f, "server     ok: as expected")?,
            Some(false) => writeln!(f, "server     FAILED: {}", failed(&self.verdict.server.checks, words::quantity))?,
        }
        let line = |warning: &Warning| match warning.remedy.as_str() {
            "" => format!("{} [{}]", warning.text, warning.code),
            remedy => format!("{}; {remedy} [{}]", warning.text, warning.code),
        };
        self.warnings.iter().try_for_each(|warning| writeln!(f, "warning    {}", line(warning)))
    }

    /// Every check on a line of its own, those of the server last.
    fn check_lines(&self) -> Vec<String> {
        let replay = self.verdict.checks.iter().map(|check| (words::check(&check.name), check, ""));
        let server = self.verdict.server.checks.iter();
        let server = server.map(|check| (words::quantity(&check.name), check, ", expected of the server"));
        let all: Vec<_> = replay.chain(server).collect();
        let width = all.iter().map(|(name, ..)| name.chars().count()).max().unwrap_or(0);
        all.iter().map(|(name, check, whose)| format!("{}{whose}", CheckLine { name, check, width })).collect()
    }

    fn write_accounts(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let queries = &self.summary.queries;
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
        let connections = &self.summary.connections;
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
        for (class, tail) in words::in_order(&words::CONNECTIONS, &self.summary.latency_ms.by_connection) {
            writeln!(f, "           over {class}: {}", TailLine(tail))?;
        }
        let queries = &self.summary.queries;
        if queries.resent + queries.fell_back > 0 {
            let [resent, fell_back] = [queries.resent, queries.fell_back].map(grouped);
            writeln!(
                f,
                "           queries sent again on a new connection: {resent}, over TCP after truncation: {fell_back}"
            )?;
        }
        Ok(())
    }

    /// What both ends used, as far as it is known, and what the server lost.
    fn write_usage(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let telemetry = &self.summary.telemetry;
        let sides = [("server", &telemetry.server), ("client", &telemetry.client)];
        let parts = sides.into_iter().filter_map(|(name, side)| Some(format!("{name} {}", used(side.as_ref()?)?)));
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
        let rate = &self.summary.rate;
        let per_second = |(sent, answered): (f64, f64)| {
            let [sent, answered] = [sent, answered].map(|qps| qps.round() as u64);
            format!("{}/s sent, {} answered", queries(sent), grouped(answered))
        };
        let qps =
            rate.sent_qps.zip(rate.answered_qps).map_or("no rate, for queries of one moment".to_owned(), per_second);
        write!(f, "rate       {qps}")?;
        match rate.within_0_1_percent.filter(|_| self.limits.timing.is_some()) {
            Some(within) => {
                let windows = counted(rate.windows, "window", "windows");
                writeln!(f, ", {within:.2} % of {windows} within 0.1 % of the trace")
            }
            None => writeln!(f),
        }
    }
}

impl fmt::Display for AnswersCompared {
    /// Whole lines.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let percent = self.matching as f64 * 100.0 / self.compared.max(1) as f64;
        let [all, worse, without, better, changed] =
            [self.compared, self.worse, self.unanswered, self.better, self.changed].map(grouped);
        writeln!(
            f,
            "answers    {percent:.2} % of {all} compared match; worse {worse} ({without} without an answer), better {better}, changed {changed}"
        )?;
        if !self.by_field.is_empty() {
            writeln!(f, "           they differ in: {}", counts(&self.by_field))?;
        }
        if self.not_comparable > 0 {
            let reasons = counts_in_words(&self.not_comparable_by_reason, words::reason);
            writeln!(f, "           not comparable: {reasons}")?;
        }
        let Some(again) = &self.again else { return Ok(()) };
        let [asked, flapped, confirmed, left_out] =
            [again.asked, again.flapped, again.confirmed, again.left_out].map(grouped);
        writeln!(
            f,
            "           asked again: {asked}, of which {flapped} are as expected now and {confirmed} are not; not asked again {left_out}"
        )
    }
}

/// The checks that failed, each with what was found and its limit.
fn failed(checks: &[Check], words: fn(&str) -> String) -> String {
    let failed = checks.iter().filter(|check| !check.ok);
    failed
        .map(|check| format!("{} (limit {})", named(&words(&check.name), &check.value), check.limit))
        .collect::<Vec<_>>()
        .join("; ")
}

/// A check with what was found: a figure stands right behind its name, words behind a colon.
fn named(name: &str, value: &str) -> String {
    let is_figure = value.starts_with(|letter: char| letter.is_ascii_digit() || letter == '-');
    if is_figure { format!("{name} {value}") } else { format!("{name}: {value}") }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Running => "never ended (incomplete)",
            Self::Complete => "complete",
            Self::Interrupted => "interrupted",
        })
    }
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
        let mark = if check.ok { "ok    " } else { "FAILED" };
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

struct TailLine<'a>(&'a Tail);

impl fmt::Display for TailLine<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ms = |value: Option<f64>| value.map_or("unanswered".to_owned(), |ms| format!("{ms:.3}"));
        let Tail { p50, p90, p99, p999, max, .. } = *self.0;
        write!(f, "ms: p50 {}, p90 {}, p99 {}, p99.9 {}, max {}", ms(p50), ms(p90), ms(p99), ms(p999), ms(max))
    }
}

/// A figure with so many digits after the point; never a zero with a sign.
pub fn fixed(value: f64, digits: usize) -> String {
    let text = format!("{value:.digits$}");
    let is_zero = text.bytes().all(|byte| matches!(byte, b'-' | b'0' | b'.'));
    if is_zero { text.trim_start_matches('-').to_owned() } else { text }
}

/// A count with what is counted: `1 query`, `1,234 queries`.
pub fn counted(count: u64, one: &str, many: &str) -> String {
    format!("{} {}", grouped(count), if count == 1 { one } else { many })
}

/// So many queries.
pub fn queries(count: u64) -> String {
    counted(count, "query", "queries")
}

/// A count with its thousands apart, as `1,234,567`.
pub fn grouped(count: u64) -> String {
    let digits = count.to_string();
    let start = digits.len() % 3;
    let mut text = digits[..start].to_owned();
    for group in digits.as_bytes()[start..].chunks(3) {
        if !text.is_empty() {
            text.push(',');
        }
        text.extend(group.iter().map(|&digit| char::from(digit)));
    }
    text
}

/// Counts by name, the greatest first.
pub fn counts(counts: &BTreeMap<String, u64>) -> String {
    counts_in_words(counts, str::to_owned)
}

/// Counts by key, each with its words, the greatest first.
pub fn counts_in_words(counts: &BTreeMap<String, u64>, words: fn(&str) -> String) -> String {
    if counts.is_empty() {
        return "none".to_owned();
    }
    let mut order: Vec<_> = counts.iter().collect();
    order.sort_by_key(|&(_, &count)| std::cmp::Reverse(count));
    order.iter().map(|&(name, &count)| format!("{} {}", words(name), grouped(count))).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Connections, Summary, Telemetry};

    fn told(server: Option<SideUsage>) -> String {
        let client = SideUsage { cores_mean: Some(0.5), ..SideUsage::default() };
        let telemetry = Telemetry { client: Some(client), server, replay: None };
        RunReport { summary: Summary { telemetry, ..Summary::default() }, ..RunReport::default() }.to_string()
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
        assert!(!RunReport::default().to_string().contains("used "));
    }

    #[test]
    fn zero_has_no_sign_and_one_is_no_plural() {
        let shown = [-0.04, 0.04, -0.05, -0.0, -12.34, f64::NEG_INFINITY].map(|value| fixed(value, 1));
        assert_eq!(shown, ["0.0", "0.0", "-0.1", "0.0", "-12.3", "-inf"]);
        assert_eq!((fixed(-0.4, 0), fixed(0.0, 0)), ("0".to_owned(), "0".to_owned()));
        assert_eq!([0, 1, 1_000].map(queries), ["0 queries", "1 query", "1,000 queries"]);
        let timing = Spread { p25: -0.01, p50: 0.0, p75: 0.0, p99: 0.2, ..Spread::default() };
        assert!(SpreadLine(&timing).to_string().starts_with("error µs: p25 0.0, p50 0.0"));
    }

    #[test]
    fn checks_reasons_and_connections_are_told_in_words_and_not_by_their_keys() {
        let check = |name: &str, ok, value: &str| Check {
            name: name.to_owned(),
            limit: "1000 µs".to_owned(),
            value: value.to_owned(),
            ok,
            note: None,
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
        report.warnings = vec![Warning::new("cpu_stolen", "the core was away", "repeat the run")];
        let (text, outcome) = (report.to_string(), report.outcome());
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
    fn a_check_that_found_no_figure_stands_apart_from_what_it_found() {
        let check = |name: &str, value: &str| Check { value: value.to_owned(), ..named_check(name) };
        let checks = [check("completeness", "interrupted"), check("rate", "-1 %")];
        let told = failed(&checks, words::check);
        assert_eq!(told, "whole trace replayed: interrupted (limit 0); query rate by second -1 % (limit 0)");
    }

    fn named_check(name: &str) -> Check {
        Check { name: name.to_owned(), limit: "0".to_owned(), value: String::new(), ok: false, note: None }
    }

    #[test]
    fn a_run_without_times_has_no_timing_error_in_its_report() {
        let mut report = RunReport { started: "2025-11-24T16:00:00.5Z".to_owned(), ..RunReport::default() };
        report.summary.timing.error_us = Some(Spread::default());
        report.summary.rate.within_0_1_percent = Some(100.0);
        let told = |report: &RunReport| {
            let text = report.to_string();
            (text.contains("\ntiming "), text.contains("within 0.1 % of the trace"))
        };
        assert_eq!(told(&report), (true, true));
        assert!(report.to_string().contains("started 2025-11-24 16:00:00 UTC\n"), "{report}");
        report.limits = crate::setup::VerdictLimits::FAST;
        assert_eq!(told(&report), (false, false));
    }

    #[test]
    fn thousands_are_kept_apart() {
        assert_eq!([0, 12, 999, 1_000, 1_234_567].map(super::grouped), ["0", "12", "999", "1,000", "1,234,567"]);
    }
}
