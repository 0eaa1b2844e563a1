//! The signing algorithms (RFC 8624, RFC 9905).

use std::fmt;
use std::str::FromStr;

/// An algorithm that zones are signed with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Algorithm {
    /// RSA with SHA-256 (RFC 5702).
    RsaSha256,
    /// RSA with SHA-512 (RFC 5702).
    RsaSha512,
    /// ECDSA on P-256 with SHA-256 (RFC 6605).
    EcdsaP256Sha256,
    /// ECDSA on P-384 with SHA-384 (RFC 6605).
    EcdsaP384Sha384,
    /// EdDSA on Curve25519 (RFC 8080).
    Ed25519,
}

impl Algorithm {
    /// All of them.
    pub const ALL: [Self; 5] =
        [Self::RsaSha256, Self::RsaSha512, Self::EcdsaP256Sha256, Self::EcdsaP384Sha384, Self::Ed25519];

    /// The number in DNSKEY, DS and RRSIG records.
    pub const fn number(self) -> u8 {
        match self {
            Self::RsaSha256 => 8,
            Self::RsaSha512 => 10,
            Self::EcdsaP256Sha256 => 13,
            Self::EcdsaP384Sha384 => 14,
            Self::Ed25519 => 15,
        }
    }

    /// The algorithm with this number.
    pub fn of_number(number: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|algorithm| algorithm.number() == number)
    }

    /// Whether keys may have different sizes.
    pub const fn is_rsa(self) -> bool {
        matches!(self, Self::RsaSha256 | Self::RsaSha512)
    }

    /// The mnemonic in lower case, as options have it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::RsaSha256 => "rsasha256",
            Self::RsaSha512 => "rsasha512",
            Self::EcdsaP256Sha256 => "ecdsap256sha256",
            Self::EcdsaP384Sha384 => "ecdsap384sha384",
            Self::Ed25519 => "ed25519",
        }
    }
}

/// The mnemonic.
impl fmt::Display for Algorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A text that is no signing algorithm.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown signing algorithm `{0}`: use rsasha256, rsasha512, ecdsap256sha256, ecdsap384sha384 or ed25519")]
pub struct BadAlgorithm(String);

/// A mnemonic in any case, or a number.
impl FromStr for Algorithm {
    type Err = BadAlgorithm;

    fn from_str(text: &str) -> Result<Self, BadAlgorithm> {
        let is_it = |one: &Self| one.name().eq_ignore_ascii_case(text) || one.number().to_string() == text;
        Self::ALL.into_iter().find(is_it).ok_or_else(|| BadAlgorithm(text.to_owned()))
    }
}
