//! Checks the signatures of all zones and the chain of trust between them.

use ldplayer_core::name::Presentation;
use ldplayer_zone::error::Problem;
use ldplayer_zone::sign::check::{self, Checked, LocatedFault, Trust, ZoneChecked};

use super::report::{Finding, Report, ZoneReport};
use crate::sources::{Source, threads};

/// Checks signatures at `now`, in seconds since 1970 modulo 2^32.
///
/// # Errors
/// The records of a file are not a valid zone.
pub fn check(sources: &[Source], now: u32, report: &mut Report) -> Result<(), Problem> {
    let checked = sources.iter().map(|source| check::check(&source.records, now, threads()));
    let checked: Vec<Checked> = checked.collect::<Result<_, _>>()?;
    let zones: Vec<ZoneChecked<'_>> = sources
        .iter()
        .zip(&checked)
        .map(|(source, checked)| ZoneChecked { apex: &source.apex, records: &source.records, checked })
        .collect();
    for ((source, checked), trusted) in sources.iter().zip(&checked).zip(check::trust(&zones)) {
        checked.faults.iter().for_each(|found| report.add(finding(source, found)));
        if checked.more > 0 {
            let text = format!("and {} more errors in its signatures", checked.more);
            report.add(Finding::error("dnssec", source.file.clone(), 0, text));
        }
        if let Some((parent, found)) = &trusted.fault {
            report.add(finding(&sources[*parent], found));
        }
        if trusted.trust == Trust::BelowBroken && checked.is_signed {
            let text =
                "validating resolvers answer SERVFAIL, since the chain of trust is broken in a parent zone".to_owned();
            report.add(Finding::warning("dnssec", source.file.clone(), 0, text));
        }
        report.zones.push(ZoneReport {
            zone: Presentation(&source.apex).to_string(),
            file: source.file.clone(),
            records: source.records.len(),
            signatures: checked.signatures,
            dnssec: trusted.trust.to_string(),
        });
    }
    Ok(())
}

fn finding(source: &Source, found: &LocatedFault) -> Finding {
    let (file, line) = match found.place {
        (_, 0) => (source.file.clone(), 0),
        (file, line) => (source.records.file(file).to_owned(), line),
    };
    let text = found.to_string();
    if found.breaks { Finding::error("dnssec", file, line, text) } else { Finding::warning("dnssec", file, line, text) }
}
