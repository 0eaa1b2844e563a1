//! What was found out about a zone set, in lines or as JSON.

use std::collections::BTreeMap;
use std::io::{self, Write};

use ldplayer_core::text::counted;
use ldplayer_emulate::check::coverage::Coverage;
use ldplayer_emulate::check::resolved::Resolved;
use ldplayer_emulate::check::{Delegations, Finding, Report, Severity};

use super::sum::{self, Sum};

/// Questions without an answer that are shown; the JSON has more.
const SHOWN: usize = 20;

/// Writes the report to standard output; findings of one kind on one line unless all are wanted.
pub fn print(report: &Report, json: bool, verbose: bool) -> anyhow::Result<()> {
    let mut out = crate::printing::stdout();
    if json {
        crate::printing::json(report)?;
        return Ok(());
    }
    let sums = sum::sum(&report.findings);
    match verbose {
        true => report.findings.iter().try_for_each(|finding| write_line!(out, "{}", line(finding)))?,
        false => {
            sums.iter().flat_map(|sum| lines(sum, report.files)).try_for_each(|line| write_line!(out, "{line}"))?
        }
    }
    let loaded: Vec<String> = report.loaded.iter().map(|(program, zones)| format!("{program} {zones}")).collect();
    writeln!(out, "zones: {}; loaded by {}", report.files, loaded.join(", "))?;
    let Delegations { total, within, unreachable } = report.delegations;
    writeln!(out, "delegations: {total}; {within} to zones of the set, {unreachable} without a server in the set")?;
    print_dnssec(report, &mut out)?;
    if let Some(coverage) = &report.coverage {
        print_coverage(coverage, &mut out)?;
    }
    if let Some(resolved) = &report.resolver {
        print_resolved(resolved, &mut out)?;
    }
    let (errors, all) = (report.errors(), report.findings.len());
    let hint = if !verbose && sums.iter().any(|sum| sum.findings.len() > 2) { "; --verbose lists all" } else { "" };
    let warnings = counted((all - errors) as u64, "warning", "warnings");
    writeln!(out, "{}, {warnings}{hint}", counted(errors as u64, "error", "errors"))?;
    Ok(())
}

fn print_dnssec(report: &Report, out: &mut impl Write) -> io::Result<()> {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    report.zones.iter().for_each(|zone| *counts.entry(&zone.dnssec).or_default() += 1);
    let counts: Vec<String> = counts.iter().map(|(word, zones)| format!("{word} {zones}")).collect();
    let signatures: usize = report.zones.iter().map(|zone| zone.signatures).sum();
    let signatures = counted(signatures as u64, "signature", "signatures");
    writeln!(out, "dnssec: {}; {signatures} verified", counts.join(", "))
}

fn print_coverage(coverage: &Coverage, out: &mut impl Write) -> io::Result<()> {
    let percent = |queries: u64| 100.0 * queries as f64 / coverage.queries.max(1) as f64;
    let rcodes: Vec<String> =
        coverage.rcodes.iter().map(|(rcode, queries)| format!("{rcode} {:.2} %", percent(*queries))).collect();
    let Coverage { queries, questions, unknown_queries, referred, .. } = coverage;
    let unknown = percent(*unknown_queries);
    let referred = if *referred > 0 { format!("; only referred {:.2} %", percent(*referred)) } else { String::new() };
    let rcodes = if rcodes.is_empty() { "none answered".to_owned() } else { rcodes.join(", ") };
    let [queries, questions] =
        [counted(*queries, "query", "queries"), counted(*questions, "different question", "different questions")];
    writeln!(out, "coverage: {queries}, {questions}; {rcodes}{referred}; unknown {unknown:.2} %")?;
    for one in coverage.unknown.iter().take(SHOWN) {
        let queries = counted(one.queries, "query", "queries");
        writeln!(out, "  unknown: {} {}, {queries}: {}", one.name, one.qtype, one.reason)?;
    }
    match coverage.unknown_questions.saturating_sub(SHOWN as u64) {
        0 => Ok(()),
        more => writeln!(out, "  and {} more; --json lists them", counted(more, "question", "questions")),
    }
}

fn print_resolved(resolved: &Resolved, out: &mut impl Write) -> io::Result<()> {
    let of = |all: u64| move |queries: u64| 100.0 * queries as f64 / all.max(1) as f64;
    let Resolved { resolver, questions, queries, rcodes, silent, compared, as_recorded, same_records, .. } = resolved;
    let percent = of(*queries);
    let mut got: Vec<String> =
        rcodes.iter().map(|(rcode, queries)| format!("{rcode} {:.2} %", percent(*queries))).collect();
    got.extend((*silent > 0).then(|| format!("no answer {:.2} %", percent(*silent))));
    let asked = counted(*questions, "different question", "different questions");
    write_line!(out, "{resolver}: {asked} of {}; {}", counted(*queries, "query", "queries"), got.join(", "))?;
    if *compared > 0 {
        let [share, same] = [*as_recorded, *same_records].map(of(*compared));
        write_line!(
            out,
            "  as recorded: {share:.2} % of {}, {same:.2} % with the same records",
            counted(*compared, "answer of the recorded resolver", "answers of the recorded resolver")
        )?;
    }
    let rest = resolved.differ.iter().map(|(what, queries)| ("recorded as", what, queries));
    let failed = resolved.servfail.iter().map(|(cause, queries)| ("SERVFAIL:", cause, queries));
    rest.chain(failed).try_for_each(|(what, words, queries)| {
        write_line!(out, "  {what} {words}: {}", counted(*queries, "query", "queries"))
    })
}

/// A few findings of one kind as they are; of more, `error: KIND: COUNT of ZONES zones, first FILE:LINE: TEXT`.
fn lines(sum: &Sum<'_>, zones: usize) -> Vec<String> {
    let Sum { title, findings, files } = sum;
    let (count, first) = match findings[..] {
        [first, _, _, ..] => (findings.len(), first),
        _ => return findings.iter().map(|finding| line(finding)).collect(),
    };
    let all = if count == *files { String::new() } else { format!(", {count} in all") };
    let (word, place) = (word(first), place(first));
    vec![format!("{word}: {title}: {files} of {zones} zones{all}, first {place}: {}", first.text)]
}

/// `FILE:LINE: error: TEXT`.
fn line(finding: &Finding) -> String {
    format!("{}: {}: {}", place(finding), word(finding), finding.text)
}

const fn word(finding: &Finding) -> &'static str {
    match finding.severity {
        Severity::Error => "error",
        Severity::Warning => "warning",
    }
}

fn place(finding: &Finding) -> String {
    match (finding.file.display(), finding.line) {
        (file, 0) => file.to_string(),
        (file, line) => format!("{file}:{line}"),
    }
}
