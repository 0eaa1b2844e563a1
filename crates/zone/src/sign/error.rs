//! What keeps a zone from being signed.

use crate::error::Problem;

/// What keeps a zone from being signed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SignError {
    /// The records are no zone, or too many.
    #[error(transparent)]
    Zone(#[from] Problem),
    /// There is no key of a role.
    #[error("there is no {0} to sign with")]
    NoKey(&'static str),
    /// A key failed.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// Two names with one hash (RFC 5155 §7.1).
    #[error("`{0}` and `{1}` have one NSEC3 hash: choose another salt (RFC 5155 7.1)")]
    Collision(String, String),
    /// A DS record that belongs to no delegation (RFC 4035 §2.4); the name.
    #[error(
        "`{0}` has a DS record and is no delegation: remove the record, or add the NS records of the zone that it is for (RFC 4035 2.4)"
    )]
    LoneDs(String),
    /// No room for a hash before the name of the zone (RFC 1035 §3.1).
    #[error("the name of the zone is too long for names of NSEC3 records: sign it with NSEC")]
    LongApex,
}

/// What is wrong with a key.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    /// RSA keys of another size.
    #[error("RSA keys of {0} bits: expected 1024 to 4096, in steps of 8")]
    Bits(usize),
    /// The library failed.
    #[error("{algorithm}: {reason}")]
    Crypto {
        /// The algorithm's mnemonic.
        algorithm: &'static str,
        /// What the library said.
        reason: String,
    },
    /// A field of a private key file that is missing, or whose value is none.
    #[error("expected a field `{0}:` with its value, as dnssec-keygen writes private keys")]
    Field(&'static str),
    /// A private key of an algorithm that is not for signing.
    #[error("algorithm {0} is not one to sign with: rsasha256, rsasha512, ecdsap256sha256, ecdsap384sha384 or ed25519")]
    Algorithm(String),
    /// The public key is another's.
    #[error("the private key does not belong to the public key beside it")]
    Mismatch,
}
