//! Which keys each zone gets; all keys of a set are derived from one seed.

use sha2::{Digest, Sha256};

use super::algorithm::Algorithm;
use super::error::KeyError;
use super::key::{Key, Role};

/// Which keys a zone is to have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeySpec {
    /// What all of them sign with.
    pub algorithm: Algorithm,
    /// Bits of each KSK; counts for RSA only.
    pub ksk_bits: usize,
    /// Bits of each ZSK; counts for RSA only.
    pub zsk_bits: usize,
    /// KSKs; more than one during a rollover.
    pub ksks: usize,
    /// ZSKs; more than one during a rollover.
    pub zsks: usize,
}

/// From this the keys of a whole set are made.
pub type Seed = [u8; 32];

impl KeySpec {
    /// The keys of a zone: those that there are already, as many as wanted, and new ones for those that are missing. Key tags differ.
    ///
    /// The same zone, specification and seed always give the same new keys.
    ///
    /// # Errors
    /// As [`Key::generate`].
    pub fn keys(&self, zone: &[u8], seed: &Seed, present: Vec<Key>) -> Result<Vec<Key>, KeyError> {
        let mut keys = Vec::with_capacity(self.ksks + self.zsks);
        let mut present: Vec<Key> = present.into_iter().filter(|key| key.algorithm() == self.algorithm).collect();
        present.sort_by_key(Key::tag);
        for (role, bits, wanted) in [(Role::Ksk, self.ksk_bits, self.ksks), (Role::Zsk, self.zsk_bits, self.zsks)] {
            let before = keys.len();
            keys.extend(present.iter().filter(|key| key.role() == role).take(wanted).cloned());
            let mut number = 0_u32;
            while keys.len() - before < wanted {
                let key = Key::generate(role, self.algorithm, bits, &self.key_seed(zone, seed, role, bits, number))?;
                number += 1;
                // Keys with the same tag could be distinguished only by trying (RFC 4034 §3.1.6).
                if keys.iter().all(|other: &Key| other.tag() != key.tag()) {
                    keys.push(key);
                }
            }
        }
        Ok(keys)
    }

    fn key_seed(&self, zone: &[u8], seed: &Seed, role: Role, bits: usize, number: u32) -> Seed {
        let bits = if self.algorithm.is_rsa() { bits as u32 } else { 0 };
        let hash = Sha256::new().chain_update(b"ldplayer zone key").chain_update(seed);
        let hash = hash.chain_update([self.algorithm.number(), role.flags() as u8]).chain_update(bits.to_be_bytes());
        hash.chain_update(number.to_be_bytes()).chain_update(zone).finalize().into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SPEC: KeySpec = KeySpec { algorithm: Algorithm::Ed25519, ksk_bits: 2048, zsk_bits: 1024, ksks: 1, zsks: 3 };

    fn tags(keys: &[Key]) -> Vec<(Role, u16)> {
        keys.iter().map(|key| (key.role(), key.tag())).collect()
    }

    #[test]
    fn keys_depend_on_seed_zone_and_role_only() {
        let keys = |zone: &[u8], seed: u8| SPEC.keys(zone, &[seed; 32], Vec::new()).unwrap();
        let first = keys(b"\0", 1);
        assert_eq!(first.iter().map(Key::role).collect::<Vec<_>>(), [Role::Ksk, Role::Zsk, Role::Zsk, Role::Zsk]);
        assert_eq!(tags(&first), tags(&keys(b"\0", 1)));
        assert_ne!(tags(&first), tags(&keys(b"\0", 2)));
        assert_ne!(tags(&first), tags(&keys(b"\x01a\0", 1)));
        let mut distinct: Vec<u16> = first.iter().map(Key::tag).collect();
        distinct.sort_unstable();
        distinct.dedup();
        assert_eq!(distinct.len(), 4);
    }

    #[test]
    fn keys_that_there_are_come_first_and_others_are_left_out() {
        let (one, other) = (SPEC.keys(b"\0", &[1; 32], Vec::new()).unwrap(), [2; 32]);
        let rsa = Key::generate(Role::Zsk, Algorithm::RsaSha256, 1024, &[3; 32]).unwrap();
        let kept = SPEC.keys(b"\0", &other, vec![rsa, one[2].clone(), one[0].clone()]).unwrap();
        assert_eq!((kept.len(), kept[0].tag(), kept[1].tag()), (4, one[0].tag(), one[2].tag()));
        assert!(kept.iter().all(|key| key.algorithm() == Algorithm::Ed25519));
    }
}
