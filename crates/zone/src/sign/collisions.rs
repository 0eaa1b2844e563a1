//! Keys and signatures that make validators try (KeyTrap, CVE-2023-50387): other keys with the tag of a key, and wrong signatures of that tag.

use super::algorithm::Algorithm;
use super::error::KeyError;
use super::key::Key;

/// Octets before the public key in the data of a DNSKEY record (RFC 4034 §2.1).
const BEFORE_KEY: usize = 4;
/// Octets of a public key of Ed25519 (RFC 8080 §3).
const ED25519: usize = 32;

/// The data of so many other DNSKEY records with the tag and the algorithm of a key: each has two words of its public key in each other's
/// place, which leaves the sum that the tag is as it was (RFC 4034 appendix B).
///
/// # Errors
/// A key of ECDSA, whose public key would be no point of its curve, or one that has fewer such others.
pub(super) fn keys(key: &Key, count: usize) -> Result<Vec<Vec<u8>>, KeyError> {
    let none = || KeyError::Collisions { algorithm: key.algorithm().name(), count };
    let data = key.data();
    let words = match key.algorithm() {
        Algorithm::Ed25519 => BEFORE_KEY..data.len(),
        // Exponent and length stay, and the modulus as large and as odd as it was.
        Algorithm::RsaSha256 | Algorithm::RsaSha512 => modulus(data) + 2..data.len() - 2,
        Algorithm::EcdsaP256Sha256 | Algorithm::EcdsaP384Sha384 => return Err(none()),
    };
    let words: Vec<usize> = words.step_by(2).collect();
    let pairs = words.iter().enumerate().flat_map(|(number, &a)| words[number + 1..].iter().map(move |&b| (a, b)));
    let others = pairs.filter_map(|(a, b)| {
        let mut other = data.to_vec();
        (other[a], other[b]) = (data[b], data[a]);
        (other[a + 1], other[b + 1]) = (data[b + 1], data[a + 1]);
        (other != data && is_key(key.algorithm(), &other[BEFORE_KEY..])).then_some(other)
    });
    let found: Vec<Vec<u8>> = others.take(count).collect();
    if found.len() == count { Ok(found) } else { Err(none()) }
}

/// Where the modulus begins, at an even place: behind an exponent of three octets, as all keys here have it (RFC 3110 §2).
fn modulus(data: &[u8]) -> usize {
    BEFORE_KEY + 1 + usize::from(data[BEFORE_KEY])
}

/// Whether a validator takes these octets for a key, with which it then calculates.
fn is_key(algorithm: Algorithm, public: &[u8]) -> bool {
    let octets = <&[u8; ED25519]>::try_from(public);
    algorithm != Algorithm::Ed25519
        || octets.is_ok_and(|octets| ed25519_dalek::VerifyingKey::from_bytes(octets).is_ok())
}

/// So many wrong signatures like a right one: the data of RRSIG records, whose signature begins at `head`. Each has another bit flipped.
pub(super) fn signatures(right: &[u8], head: usize, count: usize) -> impl Iterator<Item = Vec<u8>> {
    // In the first half, whose first octet stays as large as it may be.
    let places = ((right.len() - head) / 2).saturating_sub(1).max(1);
    (0..count).map(move |number| {
        let mut wrong = right.to_vec();
        if let Some(octet) = wrong.get_mut(head + 1 + number % places) {
            *octet ^= 1 << (number / places % 8);
        }
        wrong
    })
}

#[cfg(test)]
mod tests {
    use super::super::key::Role;
    use super::*;

    #[test]
    fn other_keys_have_the_tag_of_a_key_and_are_keys() {
        for algorithm in [Algorithm::Ed25519, Algorithm::RsaSha256] {
            let key = Key::generate(Role::Zsk, algorithm, 1024, &[7; 32]).unwrap();
            let mut others = keys(&key, 40).unwrap();
            assert!(
                others.iter().all(|other| super::super::key_tag(other) == key.tag() && other[..4] == key.data()[..4])
            );
            others.push(key.data().to_vec());
            others.sort();
            others.dedup();
            assert_eq!(others.len(), 41, "{algorithm:?}");
        }
        let key = Key::generate(Role::Zsk, Algorithm::EcdsaP256Sha256, 0, &[7; 32]).unwrap();
        let error = keys(&key, 1).unwrap_err().to_string();
        assert_eq!(error, "1 key of ecdsap256sha256 with one tag cannot be made: use ed25519, rsasha256 or rsasha512");
    }

    #[test]
    fn wrong_signatures_differ_from_the_right_one_and_from_each_other() {
        let right = [[1; 20], [2; 20]].concat();
        let mut all: Vec<Vec<u8>> = signatures(&right, 20, 50).collect();
        assert!(all.iter().all(|wrong| wrong[..20] == right[..20]));
        all.push(right);
        all.sort();
        all.dedup();
        assert_eq!(all.len(), 51);
    }
}
