//! Lame delegations of a set: addresses of name servers that do not serve a zone despite its NS records.
//!
//! They are listed in a file beside the zone files, since no record can express them.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::net::IpAddr;
use std::path::Path;

use ldplayer_core::name;
use serde::{Deserialize, Serialize};

use super::set::SetError;

/// The file name in a zone set; by its suffix it is not a zone file.
pub const FILE: &str = "lame.json";

/// An entry of the file: a zone, and where it is not served.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Entry {
    /// The zone, in presentation form.
    pub zone: String,
    /// Addresses of its name servers that refuse to answer for it.
    pub addresses: Vec<IpAddr>,
}

/// Zones that are not served at some addresses, by apex in wire format and lower case.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lame {
    addresses: BTreeMap<Vec<u8>, BTreeSet<IpAddr>>,
}

impl Lame {
    /// Reads the file of a zone set; without it, nothing is lame.
    ///
    /// # Errors
    /// It cannot be read, or is invalid.
    pub fn read(directory: &Path) -> Result<Self, SetError> {
        let file = directory.join(FILE);
        let failed = |problem: String| SetError::Lame { file: file.clone(), problem };
        let text = match fs::read(&file) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Self::default()),
            Err(error) => return Err(failed(error.to_string())),
            Ok(text) => text,
        };
        let entries: Vec<Entry> = serde_json::from_slice(&text).map_err(|error| failed(error.to_string()))?;
        let mut lame = Self::default();
        for entry in entries {
            let mut apex = Vec::new();
            name::parse(&entry.zone, &mut apex).map_err(|error| failed(format!("`{}`: {error}", entry.zone)))?;
            apex.make_ascii_lowercase();
            lame.addresses.entry(apex).or_default().extend(entry.addresses);
        }
        Ok(lame)
    }

    /// Writes the list to another set.
    ///
    /// # Errors
    /// An error of the system.
    pub fn copy(from: &Path, to: &Path) -> io::Result<()> {
        let copied = fs::copy(from.join(FILE), to.join(FILE)).map(|_| ());
        let missing = |result: io::Result<()>| match result {
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            other => Some(other),
        };
        // Removes the list of an earlier set.
        missing(copied).or_else(|| missing(fs::remove_file(to.join(FILE)))).unwrap_or(Ok(()))
    }

    /// Whether an address does not serve a zone.
    pub fn is_lame(&self, apex: &[u8], address: IpAddr) -> bool {
        self.addresses.get(apex).is_some_and(|addresses| addresses.contains(&address))
    }
}
