//! The denial chain of a zone in order: NSEC (RFC 4034 §4) or NSEC3 (RFC 5155).

use sha1::{Digest, Sha1};

use super::order::{self, Labels};

/// Octets of a SHA-1 hash, the only one there is for NSEC3 (RFC 5155 §11).
pub(crate) const HASH: usize = 20;

/// A record of the chain.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry {
    /// Where the owner is among the octets.
    pub name: u32,
    /// The set.
    pub set: u32,
}

/// The chain of a zone.
#[derive(Clone, Debug, Default)]
pub(crate) struct Denial {
    /// In the order of names or of hashes.
    entries: Box<[Entry]>,
    /// What the order goes by, its first eight octets.
    prefixes: Box<[u64]>,
    hashing: Option<Hashing>,
}

#[derive(Clone, Debug)]
struct Hashing {
    parameters: Parameters,
    hashes: Box<[[u8; HASH]]>,
}

/// What NSEC3 hashes are made with (RFC 5155 §4).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Parameters {
    iterations: u16,
    salt: Box<[u8]>,
}

impl Parameters {
    /// From the data of an NSEC3PARAM or NSEC3 record; `None` where the algorithm is another than SHA-1.
    pub fn read(data: &[u8]) -> Option<Self> {
        let &[algorithm, _, high, low, length, ..] = data else { return None };
        let salt = data.get(5..5 + usize::from(length))?;
        (algorithm == 1).then(|| Self { iterations: u16::from_be_bytes([high, low]), salt: salt.into() })
    }

    /// SHA-1 with these iterations and salt.
    pub fn sha1(iterations: u16, salt: &[u8]) -> Self {
        Self { iterations, salt: salt.into() }
    }

    /// The hash of a name in lower case (RFC 5155 §5).
    pub fn hash(&self, name: &[u8]) -> [u8; HASH] {
        let digest = |octets: &[u8]| -> [u8; HASH] {
            Sha1::new().chain_update(octets).chain_update(&self.salt).finalize().into()
        };
        (0..self.iterations).fold(digest(name), |hash, _| digest(&hash))
    }
}

impl Denial {
    /// A chain of NSEC records, with the prefixes of their owners' keys below the apex.
    pub fn plain(entries: Vec<(u64, Entry)>) -> Self {
        let (prefixes, entries) = entries.into_iter().unzip::<_, _, Vec<_>, Vec<_>>();
        Self { entries: entries.into(), prefixes: prefixes.into(), hashing: None }
    }

    /// A chain of NSEC3 records in any order.
    pub fn hashed_with(parameters: Parameters, mut chain: Vec<([u8; HASH], Entry)>) -> Self {
        chain.sort_unstable_by_key(|&(hash, _)| hash);
        let prefixes = chain.iter().map(|(hash, _)| first_eight(hash)).collect();
        let (hashes, entries) = chain.into_iter().unzip::<_, _, Vec<_>, Vec<_>>();
        Self { entries: entries.into(), prefixes, hashing: Some(Hashing { parameters, hashes: hashes.into() }) }
    }

    /// Whether it is empty.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Whether it is one of NSEC3 records.
    pub const fn is_hashed(&self) -> bool {
        self.hashing.is_some()
    }

    /// A record of it.
    pub fn entry(&self, at: u32) -> &Entry {
        &self.entries[at as usize]
    }

    /// One of the NSEC3 records.
    pub fn hashed_at(&self, at: u32) -> Option<&Entry> {
        self.entries.get(at as usize).filter(|_| self.is_hashed())
    }

    /// The NSEC3 records.
    pub fn hashed(&self) -> impl Iterator<Item = &Entry> {
        self.entries.iter().filter(|_| self.is_hashed())
    }

    /// The NSEC record at a name, or else the one before it. `owner` returns the name of an entry.
    #[inline]
    pub fn at_or_before<'a>(
        &self,
        name: &[u8],
        labels: &Labels,
        apex_labels: usize,
        owner: impl Fn(&Entry) -> &'a [u8],
    ) -> Option<u32> {
        let prefix = order::prefix(name, labels, apex_labels);
        let less = self.prefixes.partition_point(|&other| other < prefix);
        let same = self.prefixes[less..].partition_point(|&other| other == prefix);
        let among = &self.entries[less..less + same];
        let not_after = among.partition_point(|entry| order::compare(owner(entry), name).is_le());
        // The apex has the first record of the chain, and is before all names of the zone.
        (less + not_after).checked_sub(1).map(|at| at as u32)
    }

    /// The hash of a name in lower case, where this is a chain of NSEC3 records.
    pub fn hash(&self, name: &[u8]) -> Option<[u8; HASH]> {
        self.hashing.as_ref().map(|hashing| hashing.parameters.hash(name))
    }

    /// The NSEC3 record with this hash.
    pub fn matching(&self, hash: &[u8; HASH]) -> Option<u32> {
        let hashing = self.hashing.as_ref()?;
        let at = self.before(hash);
        (hashing.hashes.get(at)? == hash).then_some(at as u32)
    }

    /// The NSEC3 record whose span covers a hash: the one before it, or the last for the first span. `None` for a hash that a
    /// record has: what is there is covered by nothing.
    pub fn covering(&self, hash: &[u8; HASH]) -> Option<u32> {
        let at = self.before(hash);
        if self.hashing.as_ref()?.hashes.get(at) == Some(hash) {
            return None;
        }
        let before = at.checked_sub(1).or_else(|| self.entries.len().checked_sub(1));
        before.map(|at| at as u32)
    }

    /// How many records have a lower hash.
    fn before(&self, hash: &[u8; HASH]) -> usize {
        let Some(hashing) = &self.hashing else { return 0 };
        let prefix = first_eight(hash);
        let mut at = self.prefixes.partition_point(|&other| other < prefix);
        while self.prefixes.get(at) == Some(&prefix) && hashing.hashes[at] < *hash {
            at += 1;
        }
        at
    }

    /// Octets of memory.
    pub fn memory(&self) -> usize {
        let hashes =
            self.hashing.as_ref().map_or(0, |hashing| size_of_val(&*hashing.hashes) + hashing.parameters.salt.len());
        size_of_val(&*self.entries) + size_of_val(&*self.prefixes) + hashes
    }
}

fn first_eight(hash: &[u8; HASH]) -> u64 {
    hash.first_chunk().map_or(0, |&octets| u64::from_be_bytes(octets))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_are_those_of_rfc_5155() {
        // RFC 5155 appendix A.
        let parameters = Parameters::read(&[1, 0, 0, 12, 4, 0xaa, 0xbb, 0xcc, 0xdd]).unwrap();
        for (name, hash) in [
            (&b"\x07example\0"[..], "0p9mhaveqvm6t7vbl5lop2u3t2rp3tom"),
            (b"\x01a\x07example\0", "35mthgpgcu1qg68fab165klnsnk3dpvl"),
            (b"\x01*\x01w\x07example\0", "r53bq7cc2uvmubfu5ocmm6pers9tk9en"),
        ] {
            assert_eq!(parameters.hash(name).to_vec(), crate::rdata::base32(hash.as_bytes()).unwrap());
        }
    }

    #[test]
    fn spans_go_around() {
        let hash = |first: u8| [first; HASH];
        let entry = |number| Entry { name: number, set: number };
        let parameters = Parameters { iterations: 0, salt: Box::default() };
        let chain = [9, 3, 6].map(|first| (hash(first), entry(u32::from(first))));
        let denial = Denial::hashed_with(parameters, chain.to_vec());
        let covering = |first| denial.entry(denial.covering(&hash(first)).unwrap()).name;
        assert_eq!([1, 4, 8, 10].map(covering), [9, 3, 6, 9]);
        assert_eq!(denial.matching(&hash(6)).map(|at| denial.entry(at).name), Some(6));
        assert_eq!(denial.matching(&hash(5)), None);
        assert_eq!(
            [3, 6, 9].map(|first| denial.covering(&hash(first))),
            [None; 3],
            "a hash that exists is not covered"
        );
    }
}
