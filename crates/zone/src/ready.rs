//! Makes a zone ready to answer: its store, and the referrals written beforehand.

use crate::answer::write_referrals;
use crate::finding::Finding;
use crate::records::Records;
use crate::store::{BuildError, Zone, build};

impl Zone {
    /// Builds a zone from records, and reports its oddities.
    ///
    /// # Errors
    /// When there is no SOA record, there are several apexes, or more than can be numbered.
    pub fn from_records(records: &Records) -> Result<(Self, Vec<Finding>), BuildError> {
        let (mut zone, oddities) = build::zone(records)?;
        write_referrals(&mut zone);
        Ok((zone, oddities))
    }
}
