//! Signing keys: derived from a seed, published as DNSKEY and DS records.

use std::fmt;

use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::SeedableRng;
use rsa::RsaPrivateKey;
use rsa::pkcs1v15;
use rsa::signature::{SignatureEncoding, Signer};
use rsa::traits::PublicKeyParts;
use sha2::{Digest, Sha256, Sha384, Sha512};

use super::algorithm::Algorithm;
use super::error::KeyError;

/// Least bits of an RSA key (RFC 5702 §2.1 would allow less).
pub const MIN_RSA_BITS: usize = 1024;
/// Most bits of an RSA key (RFC 5702 §2.1).
pub const MAX_RSA_BITS: usize = 4096;
/// The protocol field of DNSKEY records (RFC 4034 §2.1.2).
const PROTOCOL: u8 = 3;

/// What a key is for (RFC 4034 §2.1.1, RFC 6781 §3.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    /// Signs the keys; the parent's DS record is made of it.
    Ksk,
    /// Signs all else.
    Zsk,
}

impl Role {
    /// The flags of the DNSKEY record: zone key, and for a KSK secure entry point.
    pub const fn flags(self) -> u16 {
        match self {
            Self::Ksk => 257,
            Self::Zsk => 256,
        }
    }
}

/// The abbreviation.
impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Ksk => "KSK",
            Self::Zsk => "ZSK",
        })
    }
}

/// A key with its private part.
#[derive(Clone)]
pub struct Key {
    role: Role,
    algorithm: Algorithm,
    secret: Secret,
    data: Vec<u8>,
}

/// The private part.
#[derive(Clone)]
pub(super) enum Secret {
    RsaSha256(pkcs1v15::SigningKey<Sha256>),
    RsaSha512(pkcs1v15::SigningKey<Sha512>),
    P256(p256::ecdsa::SigningKey),
    P384(p384::ecdsa::SigningKey),
    Ed25519(ed25519_dalek::SigningKey),
}

/// The public part only.
impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {}", self.role, self.algorithm, self.tag())
    }
}

impl Key {
    /// Makes a key; the same seed always gives the same key. `bits` counts for RSA only.
    ///
    /// # Errors
    /// RSA keys of other than 1024 to 4096 bits in steps of 8, and what the library refuses.
    pub fn generate(role: Role, algorithm: Algorithm, bits: usize, seed: &[u8; 32]) -> Result<Self, KeyError> {
        let secret = match algorithm {
            Algorithm::RsaSha256 => Secret::RsaSha256(pkcs1v15::SigningKey::new(rsa(bits, seed)?)),
            Algorithm::RsaSha512 => Secret::RsaSha512(pkcs1v15::SigningKey::new(rsa(bits, seed)?)),
            Algorithm::EcdsaP256Sha256 => Secret::P256(scalar(algorithm, seed, p256::ecdsa::SigningKey::from_slice)?),
            Algorithm::EcdsaP384Sha384 => Secret::P384(scalar(algorithm, seed, p384::ecdsa::SigningKey::from_slice)?),
            Algorithm::Ed25519 => Secret::Ed25519(ed25519_dalek::SigningKey::from_bytes(seed)),
        };
        Ok(Self::new(role, secret))
    }

    pub(super) fn new(role: Role, secret: Secret) -> Self {
        let algorithm = secret.algorithm();
        let mut data = role.flags().to_be_bytes().to_vec();
        data.extend_from_slice(&[PROTOCOL, algorithm.number()]);
        data.extend(secret.public());
        Self { role, algorithm, secret, data }
    }

    /// What it is for.
    pub const fn role(&self) -> Role {
        self.role
    }

    /// What it signs with.
    pub const fn algorithm(&self) -> Algorithm {
        self.algorithm
    }

    /// The data of its DNSKEY record (RFC 4034 §2).
    pub fn data(&self) -> &[u8] {
        &self.data
    }

    /// The key tag (RFC 4034 appendix B).
    pub fn tag(&self) -> u16 {
        key_tag(&self.data)
    }

    /// Bits of the modulus of an RSA key.
    pub fn bits(&self) -> Option<usize> {
        self.secret.rsa().map(|key| key.n().bits() as usize)
    }

    /// The signature of octets, as RRSIG records have it.
    pub(super) fn sign(&self, octets: &[u8]) -> Result<Vec<u8>, KeyError> {
        let failed = |reason: rsa::signature::Error| KeyError::Crypto {
            algorithm: self.algorithm.name(),
            reason: reason.to_string(),
        };
        match &self.secret {
            Secret::RsaSha256(key) => key.try_sign(octets).map(|made| made.to_vec()).map_err(failed),
            Secret::RsaSha512(key) => key.try_sign(octets).map(|made| made.to_vec()).map_err(failed),
            Secret::P256(key) => {
                key.try_sign(octets).map(|made: p256::ecdsa::Signature| made.to_bytes().to_vec()).map_err(failed)
            }
            Secret::P384(key) => {
                key.try_sign(octets).map(|made: p384::ecdsa::Signature| made.to_bytes().to_vec()).map_err(failed)
            }
            Secret::Ed25519(key) => key.try_sign(octets).map(|made| made.to_bytes().to_vec()).map_err(failed),
        }
    }

    pub(super) const fn secret(&self) -> &Secret {
        &self.secret
    }
}

impl Secret {
    const fn algorithm(&self) -> Algorithm {
        match self {
            Self::RsaSha256(_) => Algorithm::RsaSha256,
            Self::RsaSha512(_) => Algorithm::RsaSha512,
            Self::P256(_) => Algorithm::EcdsaP256Sha256,
            Self::P384(_) => Algorithm::EcdsaP384Sha384,
            Self::Ed25519(_) => Algorithm::Ed25519,
        }
    }

    /// The RSA key, where it is one.
    pub(super) fn rsa(&self) -> Option<&RsaPrivateKey> {
        match self {
            Self::RsaSha256(key) => Some(key.as_ref()),
            Self::RsaSha512(key) => Some(key.as_ref()),
            _ => None,
        }
    }

    /// The public key as DNSKEY records have it (RFC 3110 §2, RFC 6605 §4, RFC 8080 §3).
    fn public(&self) -> Vec<u8> {
        // A point begins with an octet that says that it is not compressed.
        match self {
            Self::RsaSha256(key) => rsa_public(key.as_ref()),
            Self::RsaSha512(key) => rsa_public(key.as_ref()),
            Self::P256(key) => key.verifying_key().to_sec1_point(false).as_bytes()[1..].to_vec(),
            Self::P384(key) => key.verifying_key().to_sec1_point(false).as_bytes()[1..].to_vec(),
            Self::Ed25519(key) => key.verifying_key().to_bytes().to_vec(),
        }
    }
}

fn rsa_public(key: &RsaPrivateKey) -> Vec<u8> {
    let (exponent, modulus) = (key.e_bytes(), key.n_bytes());
    let mut public = match u8::try_from(exponent.len()) {
        Ok(length @ 1..) => vec![length],
        _ => [&[0], &(exponent.len() as u16).to_be_bytes()[..]].concat(),
    };
    public.extend_from_slice(&exponent);
    public.extend_from_slice(&modulus);
    public
}

fn rsa(bits: usize, seed: &[u8; 32]) -> Result<RsaPrivateKey, KeyError> {
    if !(MIN_RSA_BITS..=MAX_RSA_BITS).contains(&bits) || !bits.is_multiple_of(8) {
        return Err(KeyError::Bits(bits));
    }
    let made = RsaPrivateKey::new(&mut ChaCha20Rng::from_seed(*seed), bits);
    made.map_err(|error| KeyError::Crypto { algorithm: "RSA", reason: error.to_string() })
}

/// A scalar from the hash of the seed and a number: the first that is below the order of the curve's group, as nearly all are.
fn scalar<K, E: fmt::Display>(
    algorithm: Algorithm,
    seed: &[u8; 32],
    make: impl Fn(&[u8]) -> Result<K, E>,
) -> Result<K, KeyError> {
    let length = if algorithm == Algorithm::EcdsaP384Sha384 { 48 } else { 32 };
    let mut last = None;
    for attempt in 0..=u8::MAX {
        let hash = Sha384::new().chain_update(seed).chain_update([attempt]).finalize();
        match make(&hash[..length]) {
            Ok(key) => return Ok(key),
            Err(error) => last = Some(error),
        }
    }
    let reason = last.map_or_else(String::new, |error| error.to_string());
    Err(KeyError::Crypto { algorithm: algorithm.name(), reason })
}

/// The key tag of DNSKEY data (RFC 4034 appendix B).
pub fn key_tag(data: &[u8]) -> u16 {
    let sum: u32 =
        data.chunks(2).map(|pair| u32::from(pair[0]) << 8 | u32::from(pair.get(1).copied().unwrap_or(0))).sum();
    (sum + (sum >> 16)) as u16
}

/// The data of the DS record (RFC 4034 §5.1) of a key, its DNSKEY data given, at `owner` in wire format. Digest types are 1 (SHA-1),
/// 2 (SHA-256) and 4 (SHA-384); `None` for others and for what is no key.
pub fn ds(owner: &[u8], key: &[u8], digest: u8) -> Option<Vec<u8>> {
    let &[_, _, _, algorithm, ..] = key else { return None };
    let owner = owner.to_ascii_lowercase();
    let hash = match digest {
        1 => sha1(&owner, key),
        2 => Sha256::new().chain_update(&owner).chain_update(key).finalize().to_vec(),
        4 => Sha384::new().chain_update(&owner).chain_update(key).finalize().to_vec(),
        _ => return None,
    };
    let mut data = key_tag(key).to_be_bytes().to_vec();
    data.extend_from_slice(&[algorithm, digest]);
    data.extend(hash);
    Some(data)
}

fn sha1(owner: &[u8], key: &[u8]) -> Vec<u8> {
    use sha1::Digest;
    sha1::Sha1::new().chain_update(owner).chain_update(key).finalize().to_vec()
}
