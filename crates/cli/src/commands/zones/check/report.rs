//! What was found out, as lines and as JSON.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::path::PathBuf;

use serde::Serialize;

use super::coverage::Coverage;

/// Questions without an answer that are shown; the JSON has more.
const SHOWN: usize = 20;

/// How bad a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Something will not work.
    Error,
    /// Something is odd.
    Warning,
}

/// Something that was found, and where.
#[derive(Clone, Debug, Serialize)]
pub struct Finding {
    severity: Severity,
    /// The check that found it: load, nsd, bind, delegation, dnssec.
    check: &'static str,
    file: PathBuf,
    /// From 1; 0 when it is about the whole zone.
    line: u32,
    text: String,
}

impl Finding {
    /// Something that will not work.
    pub const fn error(check: &'static str, file: PathBuf, line: u32, text: String) -> Self {
        Self { severity: Severity::Error, check, file, line, text }
    }

    /// Something that is odd.
    pub const fn warning(check: &'static str, file: PathBuf, line: u32, text: String) -> Self {
        Self { severity: Severity::Warning, check, file, line, text }
    }

    fn line(&self) -> String {
        let word = if self.severity == Severity::Error { "error" } else { "warning" };
        let file = self.file.display();
        match self.line {
            0 => format!("{file}: {word}: {}", self.text),
            line => format!("{file}:{line}: {word}: {}", self.text),
        }
    }
}

/// Delegations of all zones.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Delegations {
    /// All of them.
    pub total: usize,
    /// Those to zones of the set.
    pub within: usize,
    /// Those none of whose name servers has an address in the set.
    pub unreachable: usize,
}

/// A zone.
#[derive(Clone, Debug, Serialize)]
pub struct ZoneReport {
    /// Its name.
    pub zone: String,
    /// Its file.
    pub file: PathBuf,
    /// Records in it.
    pub records: usize,
    /// Signatures that verify.
    pub signatures: usize,
    /// What a validating resolver makes of it: anchor, secure, unsigned, broken, below-broken.
    pub dnssec: String,
}

/// All that was found out.
#[derive(Debug, Serialize)]
pub struct Report {
    files: usize,
    /// Zones that each program loads.
    pub loaded: BTreeMap<&'static str, usize>,
    /// Delegations.
    pub delegations: Delegations,
    /// The zones that load, by name.
    pub zones: Vec<ZoneReport>,
    /// What a trace would be answered with.
    pub coverage: Option<Coverage>,
    findings: Vec<Finding>,
}

impl Report {
    /// Nothing yet, of so many files.
    pub fn new(files: usize) -> Self {
        let (loaded, zones, findings) = (BTreeMap::new(), Vec::new(), Vec::new());
        Self { files, loaded, delegations: Delegations::default(), zones, coverage: None, findings }
    }

    /// Adds a finding.
    pub fn add(&mut self, finding: Finding) {
        self.findings.push(finding);
    }

    /// How many findings are errors.
    pub fn errors(&self) -> usize {
        self.findings.iter().filter(|finding| finding.severity == Severity::Error).count()
    }

    /// Writes it to standard output.
    pub fn print(&self, json: bool) -> anyhow::Result<()> {
        let mut out = io::stdout().lock();
        if json {
            writeln!(out, "{}", serde_json::to_string_pretty(self)?)?;
            return Ok(());
        }
        self.findings.iter().try_for_each(|finding| writeln!(out, "{}", finding.line()))?;
        let loaded: Vec<String> = self.loaded.iter().map(|(program, zones)| format!("{program} {zones}")).collect();
        writeln!(out, "zones: {}; loaded by {}", self.files, loaded.join(", "))?;
        let Delegations { total, within, unreachable } = self.delegations;
        writeln!(out, "delegations: {total}; {within} to zones of the set, {unreachable} without a server in the set")?;
        self.print_dnssec(&mut out)?;
        if let Some(coverage) = &self.coverage {
            print_coverage(coverage, &mut out)?;
        }
        let (errors, all) = (self.errors(), self.findings.len());
        writeln!(out, "{errors} errors, {} warnings", all - errors)?;
        Ok(())
    }

    fn print_dnssec(&self, out: &mut impl Write) -> io::Result<()> {
        let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
        self.zones.iter().for_each(|zone| *counts.entry(&zone.dnssec).or_default() += 1);
        let counts: Vec<String> = counts.iter().map(|(word, zones)| format!("{word} {zones}")).collect();
        let signatures: usize = self.zones.iter().map(|zone| zone.signatures).sum();
        writeln!(out, "dnssec: {}; {signatures} signatures verified", counts.join(", "))
    }
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
