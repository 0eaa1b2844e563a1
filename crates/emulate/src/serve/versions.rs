//! The versions of record sets that a zone set has beside its zone files: `versions.json`.

mod entries;
mod sign;

use std::fs;
use std::io;
use std::net::IpAddr;
use std::path::Path;

use ldplayer_core::Cidr;
use ldplayer_core::name;
use ldplayer_core::time::NS_PER_S;
use ldplayer_zone::{Version, VersionedSet, load, rtype};
use serde::{Deserialize, Serialize};

use super::set::SetError;
pub use entries::{Entries, File, apply};
pub use sign::sign;

/// The file name in a zone set; by its suffix it is not a zone file.
pub const FILE: &str = "versions.json";

/// The content of the file.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Content {
    /// When the recording began, as RFC 3339 has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start: Option<String>,
    /// The record sets.
    pub sets: Vec<SetEntry>,
}

/// A record set with its versions. Its texts are its own, or those of the file.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SetEntry<T = String> {
    /// The zone, in presentation form.
    pub zone: T,
    /// The owner, in presentation form.
    pub name: T,
    /// The type, as in zone files.
    #[serde(rename = "type")]
    pub rtype: T,
    /// The versions, the first seen first.
    pub versions: Vec<VersionEntry<T>>,
}

/// A version of a record set.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, bound(deserialize = "T: Deserialize<'de>"))]
pub struct VersionEntry<T = String> {
    /// In seconds.
    pub ttl: u32,
    /// The data of the records, as in zone files.
    pub records: Vec<T>,
    /// The data of their RRSIG records.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub signatures: Vec<T>,
    /// How often it was seen.
    #[serde(default)]
    pub count: u64,
    /// When it began to hold, each time, in seconds since the start.
    #[serde(default)]
    pub from: Vec<f64>,
    /// When it was seen last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last: Option<f64>,
    /// Who sent it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub servers: Vec<IpAddr>,
    /// To whom it was sent.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub resolvers: Vec<IpAddr>,
    /// Subnets of clients that it was for, as `192.0.2.0/24`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub subnets: Vec<T>,
}

impl Content {
    /// Reads the file of a zone set; `None` if it has none.
    ///
    /// # Errors
    /// It cannot be read, or is not of this form.
    pub fn read(directory: &Path) -> Result<Option<Self>, SetError> {
        let file = directory.join(FILE);
        let failed = |problem: String| SetError::Versions { file: file.clone(), problem };
        match fs::read(&file) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(failed(error.to_string())),
            Ok(text) => Self::parse(&text).map(Some).map_err(failed),
        }
    }

    /// Reads the content of the file.
    ///
    /// # Errors
    /// What is wrong, for people.
    pub fn parse(text: &[u8]) -> Result<Self, String> {
        // It repeats names of keys as they are.
        serde_json::from_slice(text).map_err(|error| error.to_string().replace('\n', " "))
    }
}

impl<T: AsRef<str>> SetEntry<T> {
    /// The apex of the zone in wire format and lower case.
    ///
    /// # Errors
    /// What is wrong with it, for people.
    pub fn apex(&self) -> Result<Vec<u8>, String> {
        wire(self.zone.as_ref())
    }

    /// The apex, and the versions in wire format.
    ///
    /// # Errors
    /// What is wrong, for people.
    pub fn read(&self) -> Result<(Vec<u8>, VersionedSet), String> {
        let (apex, owner, rtype) = (self.apex()?, wire(self.name.as_ref())?, self.rtype.as_ref());
        let rtype =
            rtype::parse(rtype.as_bytes()).ok_or_else(|| format!("`{}` is no record type", rtype.escape_debug()))?;
        let versions = (1..).zip(&self.versions).map(|(number, version)| {
            version.read(&owner, rtype).map_err(|problem| format!("version {number}: {problem}"))
        });
        let versions = versions.collect::<Result<_, _>>()?;
        Ok((apex, VersionedSet { owner, rtype, versions }))
    }
}

fn wire(text: &str) -> Result<Vec<u8>, String> {
    let mut wire = Vec::with_capacity(text.len() + 2);
    name::parse(text, &mut wire).map_err(|error| format!("`{}`: {error}", text.escape_debug()))?;
    wire.make_ascii_lowercase();
    Ok(wire)
}

impl<T: AsRef<str>> VersionEntry<T> {
    fn read(&self, owner: &[u8], rtype: u16) -> Result<Version, String> {
        let subnet = |text: &T| {
            let text = text.as_ref();
            let block = text.parse::<Cidr>();
            block.map_err(|_| format!("`{}` is not an address block such as 192.0.2.0/24", text.escape_debug()))
        };
        let mut clients = self.subnets.iter().map(subnet).collect::<Result<Vec<_>, _>>()?;
        clients.extend(self.resolvers.iter().map(|&resolver| Cidr::new(resolver, u8::MAX)));
        if self.from.iter().any(|seconds| !seconds.is_finite()) {
            return Err("`from` has a time that is none".to_owned());
        }
        Ok(Version {
            ttl: self.ttl,
            records: data(owner, rtype, &self.records)?,
            signatures: data(owner, rtype::RRSIG, &self.signatures)?,
            count: self.count,
            from_ns: self.from.iter().map(|seconds| (seconds * NS_PER_S as f64).round() as i64).collect(),
            clients,
        })
    }
}

/// The data of records in wire format.
fn data(owner: &[u8], rtype: u16, texts: &[impl AsRef<str>]) -> Result<Vec<Vec<u8>>, String> {
    let read = |text| load::data(rtype, str::as_bytes(text), Some(owner)).map_err(|problem| problem.to_string());
    texts.iter().map(AsRef::as_ref).map(read).collect()
}

#[cfg(test)]
mod tests;
