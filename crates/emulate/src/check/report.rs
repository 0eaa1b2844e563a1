//! The findings of a check.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::Serialize;

use super::coverage::Coverage;
use super::resolved::Resolved;

/// A set that answers less than one in so many queries of a trace is not made for it.
const HARDLY: u64 = 100;

/// The severity of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Something does not work.
    Error,
    /// Something is odd.
    Warning,
}

/// A finding and its place.
#[derive(Clone, Debug, Serialize)]
pub struct Finding {
    /// How bad it is.
    pub severity: Severity,
    /// The check that found it: load, nsd, bind, delegation, dnssec.
    pub check: &'static str,
    /// The file.
    pub file: PathBuf,
    /// From 1; 0 when it is about the whole zone.
    pub line: u32,
    /// The description.
    pub text: String,
}

impl Finding {
    /// A finding about something that does not work.
    pub const fn error(check: &'static str, file: PathBuf, line: u32, text: String) -> Self {
        Self { severity: Severity::Error, check, file, line, text }
    }

    /// A finding about an oddity.
    pub const fn warning(check: &'static str, file: PathBuf, line: u32, text: String) -> Self {
        Self { severity: Severity::Warning, check, file, line, text }
    }
}

/// Delegations of all zones.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Delegations {
    /// The total.
    pub total: usize,
    /// Those to zones of the set.
    pub within: usize,
    /// Those without a name server address in the set.
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
    /// Verified signatures.
    pub signatures: usize,
    /// Its state for a validating resolver: anchor, secure, unsigned, broken, below-broken.
    pub dnssec: String,
}

/// The report of a check.
#[derive(Debug, Serialize)]
pub struct Report {
    /// Number of files in the set.
    pub files: usize,
    /// Number of zones loaded by each program.
    pub loaded: BTreeMap<&'static str, usize>,
    /// Delegations.
    pub delegations: Delegations,
    /// The loaded zones, by name.
    pub zones: Vec<ZoneReport>,
    /// The predicted answers to a trace.
    pub coverage: Option<Coverage>,
    /// What clients would get from a stock resolver.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resolver: Option<Resolved>,
    /// All findings, in the order of the checks.
    pub findings: Vec<Finding>,
}

impl Report {
    /// An empty report about this many files.
    pub fn new(files: usize) -> Self {
        let (loaded, zones, findings) = (BTreeMap::new(), Vec::new(), Vec::new());
        Self { files, loaded, delegations: Delegations::default(), zones, coverage: None, resolver: None, findings }
    }

    /// Adds a finding.
    pub fn add(&mut self, finding: Finding) {
        self.findings.push(finding);
    }

    /// Adds what a trace would be answered with by the set in `directory`. A set that answers hardly any of it is an error.
    pub fn cover(&mut self, coverage: Coverage, directory: &Path) {
        let Coverage { queries, referred, unknown_queries, .. } = coverage;
        let answered = coverage.answered();
        if answered * HARDLY < queries {
            let text = format!(
                "the set answers {answered} of the {queries} queries of the trace: {unknown_queries} have no answer in it, {referred} are only \
                 referred elsewhere"
            );
            self.add(Finding::error("coverage", directory.to_owned(), 0, text));
        }
        self.coverage = Some(coverage);
    }

    /// Adds what clients would get from a resolver in front of the set in `directory`. It is an error where that is hardly anything.
    pub fn resolve(&mut self, resolved: Resolved, directory: &Path) {
        let (answered, Resolved { resolver, queries, .. }) = (resolved.answered(), &resolved);
        if answered * HARDLY < *queries {
            let text = format!("{resolver} answers {answered} of the {queries} queries of the trace that were tried");
            self.add(Finding::error("resolver", directory.to_owned(), 0, text));
        }
        self.resolver = Some(resolved);
    }

    /// The number of errors.
    pub fn errors(&self) -> usize {
        self.findings.iter().filter(|finding| finding.severity == Severity::Error).count()
    }
}
