//! What was found out, as values.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::Serialize;

use super::coverage::Coverage;

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
    /// How bad it is.
    pub severity: Severity,
    /// The check that found it: load, nsd, bind, delegation, dnssec.
    pub check: &'static str,
    /// The file.
    pub file: PathBuf,
    /// From 1; 0 when it is about the whole zone.
    pub line: u32,
    /// What.
    pub text: String,
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
    /// Files of the set.
    pub files: usize,
    /// Zones that each program loads.
    pub loaded: BTreeMap<&'static str, usize>,
    /// Delegations.
    pub delegations: Delegations,
    /// The zones that load, by name.
    pub zones: Vec<ZoneReport>,
    /// What a trace would be answered with.
    pub coverage: Option<Coverage>,
    /// All findings, in the order of the checks.
    pub findings: Vec<Finding>,
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
}
