//! Signs the versions of record sets, so that each of them validates.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::io;
use std::path::Path;

use ldplayer_net::output;
use ldplayer_zone::sign::{self, Policy};
use ldplayer_zone::{Records, rtype, write};

use super::{Content, FILE, SetEntry};

impl Content {
    /// The record sets of each zone, by its apex in wire format and lower case.
    ///
    /// # Errors
    /// What is wrong with the name of a zone, for people.
    pub fn by_zone(&self) -> Result<HashMap<Vec<u8>, Vec<SetEntry>>, String> {
        let mut zones: HashMap<Vec<u8>, Vec<SetEntry>> = HashMap::new();
        for entry in &self.sets {
            zones.entry(entry.apex()?).or_default().push(entry.clone());
        }
        Ok(zones)
    }

    /// Writes the file into another set; without content, removes that of an earlier set.
    ///
    /// # Errors
    /// An error of the system.
    pub fn save(content: Option<Self>, directory: &Path) -> io::Result<()> {
        let file = directory.join(FILE);
        match content {
            Some(content) => output::write(&file, serde_json::to_vec_pretty(&content)?),
            None => match fs::remove_file(&file) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
                _ => Ok(()),
            },
        }
    }
}

/// Signs versions of sets that are signed in the zone; the others lose their signatures.
///
/// # Errors
/// What is wrong with an entry, for people.
pub fn sign(entries: &mut [SetEntry], apex: &[u8], signed: &Records, policy: &Policy<'_>) -> Result<(), String> {
    if entries.is_empty() {
        return Ok(());
    }
    let signatures = signed.iter().filter(|record| record.rtype == rtype::RRSIG);
    let covered = |data: &[u8]| data.first_chunk().map_or(0, |&octets| u16::from_be_bytes(octets));
    let signed: HashSet<(&[u8], u16)> = signatures.map(|record| (record.owner, covered(record.data))).collect();
    for entry in entries {
        let named = |problem: String| format!("{FILE}: {} {}: {problem}", entry.name, entry.rtype);
        let (_, set) = entry.read().map_err(named)?;
        let is_signed = signed.contains(&(&*set.owner, set.rtype));
        for (version, entry) in set.versions.iter().zip(&mut entry.versions) {
            let of = (set.rtype, version.ttl);
            let made = match is_signed {
                true => sign::set_alone(apex, &set.owner, of, &version.records, policy)
                    .map_err(|error| error.to_string())?,
                false => Vec::new(),
            };
            entry.signatures = made.iter().map(|data| write::data(&set.owner, rtype::RRSIG, data)).collect();
        }
    }
    Ok(())
}
