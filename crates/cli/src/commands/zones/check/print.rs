//! What was found out about a zone set, in lines or as JSON.

use std::collections::BTreeMap;
use std::io::{self, Write};

use ldplayer_emulate::check::coverage::Coverage;
use ldplayer_emulate::check::{Delegations, Finding, Report, Severity};

/// Questions without an answer that are shown; the JSON has more.
const SHOWN: usize = 20;

/// Writes the report to standard output.
pub fn print(report: &Report, json: bool) -> anyhow::Result<()> {
    let mut out = io::stdout().lock();
    if json {
        writeln!(out, "{}", serde_json::to_string_pretty(report)?)?;
        return Ok(());
    }
    report.findings.iter().try_for_each(|finding| writeln!(out, "{}", line(finding)))?;
    let loaded: Vec<String> = report.loaded.iter().map(|(program, zones)| format!("{program} {zones}")).collect();
    writeln!(out, "zones: {}; loaded by {}", report.files, loaded.join(", "))?;
    let Delegations { total, within, unreachable } = report.delegations;
    writeln!(out, "delegations: {total}; {within} to zones of the set, {unreachable} without a server in the set")?;
    print_dnssec(report, &mut out)?;
    if let Some(coverage) = &report.coverage {
        print_coverage(coverage, &mut out)?;
    }
    let (errors, all) = (report.errors(), report.findings.len());
    writeln!(out, "{errors} errors, {} warnings", all - errors)?;
    Ok(())
}

fn print_dnssec(report: &Report, out: &mut impl Write) -> io::Result<()> {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    report.zones.iter().for_each(|zone| *counts.entry(&zone.dnssec).or_default() += 1);
    let counts: Vec<String> = counts.iter().map(|(word, zones)| format!("{word} {zones}")).collect();
    let signatures: usize = report.zones.iter().map(|zone| zone.signatures).sum();
    writeln!(out, "dnssec: {}; {signatures} signatures verified", counts.join(", "))
}

fn print_coverage(coverage: &Coverage, out: &mut impl Write) -> io::Result<()> {
    let percent = |queries: u64| 100.0 * queries as f64 / coverage.queries.max(1) as f64;
    let rcodes: Vec<String> =
        coverage.rcodes.iter().map(|(rcode, queries)| format!("{rcode} {:.2} %", percent(*queries))).collect();
    let Coverage { queries, questions, unknown_queries, .. } = coverage;
    let unknown = percent(*unknown_queries);
    let rcodes = if rcodes.is_empty() { "none answered".to_owned() } else { rcodes.join(", ") };
    writeln!(out, "coverage: {queries} queries, {questions} different questions; {rcodes}; unknown {unknown:.2} %")?;
    for one in coverage.unknown.iter().take(SHOWN) {
        writeln!(out, "  unknown: {} {}, {} queries: {}", one.name, one.qtype, one.queries, one.reason)?;
    }
    match coverage.unknown_questions.saturating_sub(SHOWN as u64) {
        0 => Ok(()),
        more => writeln!(out, "  and {more} questions more; --json lists them"),
    }
}

/// `FILE:LINE: error: TEXT`.
fn line(finding: &Finding) -> String {
    let word = if finding.severity == Severity::Error { "error" } else { "warning" };
    let file = finding.file.display();
    match finding.line {
        0 => format!("{file}: {word}: {}", finding.text),
        line => format!("{file}:{line}: {word}: {}", finding.text),
    }
}
