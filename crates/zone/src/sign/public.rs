//! Public keys of DNSKEY records, and signature verification.

use rsa::pkcs1v15::Pkcs1v15Sign;
use rsa::signature::Verifier;
use rsa::{BoxedUint, RsaPublicKey};
use sha1::{Digest as _, Sha1};
use sha2::{Digest as _, Sha256, Sha512};

use super::key::key_tag;

/// Sizes of RSA keys in bits that are tried; RFC 3110 §2 has them from 512 to 4096.
const RSA_BITS: std::ops::RangeInclusive<usize> = 512..=4096;
/// What stands before a SHA-1 hash in an RSA signature (RFC 8017 §9.2, note 1).
const SHA1_PREFIX: [u8; 15] = [0x30, 0x21, 0x30, 9, 6, 5, 0x2b, 0x0e, 3, 2, 0x1a, 5, 0, 4, 20];
/// The flag of zone keys (RFC 4034 §2.1.1).
const ZONE_KEY: u8 = 1;
/// The flag of revoked keys (RFC 5011 §2.1).
const REVOKED: u8 = 0x80;

/// A public key.
pub(super) struct Public<'a> {
    data: &'a [u8],
    kind: KeyKind,
}

enum KeyKind {
    Rsa(RsaPublicKey, Hash),
    P256(p256::ecdsa::VerifyingKey),
    P384(p384::ecdsa::VerifyingKey),
    Ed25519(ed25519_dalek::VerifyingKey),
    /// An unsupported algorithm, or an invalid key.
    Unknown,
}

#[derive(Clone, Copy)]
enum Hash {
    Sha1,
    Sha256,
    Sha512,
}

/// What a key says to a signature.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Good,
    Bad,
    /// The key's algorithm is unknown.
    Unknown,
}

impl<'a> Public<'a> {
    /// Whether it is a zone's key, and not revoked.
    pub fn is_of_zone(&self) -> bool {
        matches!(self.data, [high, low, ..] if high & ZONE_KEY != 0 && low & REVOKED == 0)
    }

    /// The number of its algorithm; 0 for an invalid key.
    pub fn algorithm(&self) -> u8 {
        self.data.get(3).copied().unwrap_or(0)
    }

    /// From the data of a DNSKEY record.
    pub fn read(data: &'a [u8]) -> Self {
        let kind = match data {
            [_, _, 3, algorithm, key @ ..] => read_kind(*algorithm, key).unwrap_or(KeyKind::Unknown),
            _ => KeyKind::Unknown,
        };
        Self { data, kind }
    }

    /// The data of the DNSKEY record.
    pub const fn data(&self) -> &'a [u8] {
        self.data
    }

    /// Whether it may have signed with this tag and algorithm (RFC 4035 §5.3.1).
    pub fn may_have_signed(&self, tag: u16, algorithm: u8) -> bool {
        let is_zone_key = self.is_of_zone() && self.algorithm() == algorithm;
        is_zone_key && key_tag(self.data) == tag
    }

    /// Whether the octets have this signature.
    pub fn verify(&self, octets: &[u8], signature: &[u8]) -> Verdict {
        let is_good = match &self.kind {
            KeyKind::Unknown => return Verdict::Unknown,
            KeyKind::Rsa(key, hash) => verify_rsa(key, *hash, octets, signature),
            KeyKind::P256(key) => p256::ecdsa::Signature::from_slice(signature)
                .is_ok_and(|signature| key.verify(octets, &signature).is_ok()),
            KeyKind::P384(key) => p384::ecdsa::Signature::from_slice(signature)
                .is_ok_and(|signature| key.verify(octets, &signature).is_ok()),
            KeyKind::Ed25519(key) => ed25519_dalek::Signature::from_slice(signature)
                .is_ok_and(|signature| key.verify(octets, &signature).is_ok()),
        };
        if is_good { Verdict::Good } else { Verdict::Bad }
    }
}

fn read_kind(algorithm: u8, key: &[u8]) -> Option<KeyKind> {
    let point = || [&[4], key].concat();
    Some(match algorithm {
        5 | 7 => KeyKind::Rsa(read_rsa(key)?, Hash::Sha1),
        8 => KeyKind::Rsa(read_rsa(key)?, Hash::Sha256),
        10 => KeyKind::Rsa(read_rsa(key)?, Hash::Sha512),
        13 => KeyKind::P256(p256::ecdsa::VerifyingKey::from_sec1_bytes(&point()).ok()?),
        14 => KeyKind::P384(p384::ecdsa::VerifyingKey::from_sec1_bytes(&point()).ok()?),
        15 => KeyKind::Ed25519(ed25519_dalek::VerifyingKey::from_bytes(key.try_into().ok()?).ok()?),
        _ => return None,
    })
}

/// RFC 3110 §2.
fn read_rsa(key: &[u8]) -> Option<RsaPublicKey> {
    let (length, rest) = match key {
        [0, high, low, rest @ ..] => (usize::from(u16::from_be_bytes([*high, *low])), rest),
        [length, rest @ ..] => (usize::from(*length), rest),
        [] => return None,
    };
    let (exponent, modulus) = rest.split_at_checked(length)?;
    // Longer numbers are no key, and take long.
    if modulus.len() > RSA_BITS.end() / 8 || exponent.len() > modulus.len() || exponent.is_empty() {
        return None;
    }
    let number = |octets| BoxedUint::from_be_slice_vartime(octets);
    RsaPublicKey::new_with_size_limits(number(modulus), number(exponent), RSA_BITS).ok()
}

fn verify_rsa(key: &RsaPublicKey, hash: Hash, octets: &[u8], signature: &[u8]) -> bool {
    let (scheme, digest) = match hash {
        Hash::Sha1 => {
            let scheme = Pkcs1v15Sign { hash_len: Some(20), prefix: SHA1_PREFIX.into() };
            (scheme, Sha1::digest(octets).to_vec())
        }
        Hash::Sha256 => (Pkcs1v15Sign::new::<Sha256>(), Sha256::digest(octets).to_vec()),
        Hash::Sha512 => (Pkcs1v15Sign::new::<Sha512>(), Sha512::digest(octets).to_vec()),
    };
    key.verify(scheme, &digest, signature).is_ok()
}
