//! Errors of signing.

use crate::error::Problem;

/// Why a zone cannot be signed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SignError {
    /// The records are not a valid zone, or are too many.
    #[error(transparent)]
    Zone(#[from] Problem),
    /// There is no key of a role.
    #[error("no {0} to sign with")]
    NoKey(&'static str),
    /// A key failed.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// Two names with one hash (RFC 5155 §7.1).
    #[error("`{0}` and `{1}` have the same NSEC3 hash: choose another salt (RFC 5155 7.1)")]
    Collision(String, String),
    /// A DS record that belongs to no delegation (RFC 4035 §2.4); the name.
    #[error(
        "`{0}` has a DS record but is not a delegation: remove the record, or add the NS records of the child zone (RFC 4035 2.4)"
    )]
    LoneDs(String),
    /// No room for a hash before the name of the zone (RFC 1035 §3.1).
    #[error("the zone name is too long for NSEC3 owner names: sign with NSEC")]
    LongApex,
}

/// What is wrong with a key.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    /// An unsupported RSA key size.
    #[error("unsupported RSA key size of {0} bits: use 1024 to 4096, in steps of 8")]
    Bits(usize),
    /// The library failed.
    #[error("{algorithm}: {reason}")]
    Crypto {
        /// The algorithm's mnemonic.
        algorithm: &'static str,
        /// What the library said.
        reason: String,
    },
    /// A missing or invalid field of a private key file.
    #[error("missing or invalid field `{0}:`; expected a private key file as written by dnssec-keygen")]
    Field(&'static str),
    /// A private key of an unsupported algorithm.
    #[error("unsupported signing algorithm {0}: use rsasha256, rsasha512, ecdsap256sha256, ecdsap384sha384 or ed25519")]
    Algorithm(String),
    /// So many other keys with the tag of one cannot be made.
    #[error(
        "{count} key{} of {algorithm} with one tag cannot be made: use ed25519, rsasha256 or rsasha512",
        if *count == 1 { "" } else { "s" }
    )]
    Collisions {
        /// The algorithm's mnemonic.
        algorithm: &'static str,
        /// How many were wanted.
        count: usize,
    },
    /// The public key does not match.
    #[error("the private key does not match the public key")]
    Mismatch,
}
