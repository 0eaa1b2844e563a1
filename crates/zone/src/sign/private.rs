//! Private key files in the format of BIND's tools (`K<zone>+<algorithm>+<tag>.private`, format v1.3).

use std::fmt::Write;

use domain::utils::base64;
use ldplayer_core::name::Presentation;
use rsa::pkcs1v15;
use rsa::traits::{PrivateKeyParts, PublicKeyParts};
use rsa::{BoxedUint, RsaPrivateKey};

use super::algorithm::Algorithm;
use super::error::KeyError;
use super::key::{Key, Role, Secret};

/// When keys were made and are to be used from: BIND's tools use no key without a time, and ours have always been there.
const ALWAYS: &str = "20000101000000";

/// The name that the files of a key have before `.key` and `.private`.
pub fn file_stem(zone: &[u8], key: &Key) -> String {
    // A slash (as in RFC 2317 names) is no part of a file's name.
    let zone = Presentation(zone).to_string().replace('/', "%2F");
    format!("K{zone}+{:03}+{:05}", key.algorithm().number(), key.tag())
}

/// The text of the private key file.
pub fn private_text(key: &Key) -> String {
    let algorithm = key.algorithm();
    let mnemonic = algorithm.name().to_ascii_uppercase();
    let mut text = format!("Private-key-format: v1.3\nAlgorithm: {} ({mnemonic})\n", algorithm.number());
    for (field, value) in fields(key.secret()) {
        // Writing to a string does not fail.
        let _ = writeln!(text, "{field}: {}", base64::encode_string(&value));
    }
    for field in ["Created", "Publish", "Activate"] {
        let _ = writeln!(text, "{field}: {ALWAYS}");
    }
    text
}

fn fields(secret: &Secret) -> Vec<(&'static str, Vec<u8>)> {
    match secret {
        Secret::P256(key) => vec![("PrivateKey", key.to_bytes().to_vec())],
        Secret::P384(key) => vec![("PrivateKey", key.to_bytes().to_vec())],
        Secret::Ed25519(key) => vec![("PrivateKey", key.to_bytes().to_vec())],
        Secret::RsaSha256(key) => rsa_fields(key.as_ref()),
        Secret::RsaSha512(key) => rsa_fields(key.as_ref()),
    }
}

/// The fields of RFC 8017 appendix A.1.2.
fn rsa_fields(key: &RsaPrivateKey) -> Vec<(&'static str, Vec<u8>)> {
    let octets = |value: &BoxedUint| {
        let all = value.to_be_bytes();
        all[all.iter().position(|&octet| octet != 0).unwrap_or(all.len())..].to_vec()
    };
    let mut fields = vec![
        ("Modulus", key.n_bytes().to_vec()),
        ("PublicExponent", key.e_bytes().to_vec()),
        ("PrivateExponent", octets(key.d())),
    ];
    let primes = ["Prime1", "Prime2"].into_iter().zip(key.primes());
    fields.extend(primes.map(|(field, prime)| (field, octets(prime.as_ref()))));
    let parts =
        [("Exponent1", key.dp().cloned()), ("Exponent2", key.dq().cloned()), ("Coefficient", key.crt_coefficient())];
    fields.extend(parts.into_iter().filter_map(|(field, value)| Some((field, octets(&value?)))));
    fields
}

/// Reads the text of a private key file.
///
/// # Errors
/// A field that is missing or no key's, or an algorithm that zones are not signed with.
pub fn read_private(text: &str, role: Role) -> Result<Key, KeyError> {
    let number = word(text, "Algorithm")?.split_whitespace().next().unwrap_or_default().to_owned();
    let algorithm: Algorithm = number.parse().map_err(|_| KeyError::Algorithm(number))?;
    let failed = |reason: String| KeyError::Crypto { algorithm: algorithm.name(), reason };
    let octets = || value(text, "PrivateKey");
    let secret = match algorithm {
        Algorithm::RsaSha256 => Secret::RsaSha256(pkcs1v15::SigningKey::new(rsa(text)?)),
        Algorithm::RsaSha512 => Secret::RsaSha512(pkcs1v15::SigningKey::new(rsa(text)?)),
        Algorithm::EcdsaP256Sha256 => {
            Secret::P256(p256::ecdsa::SigningKey::from_slice(&octets()?).map_err(|error| failed(error.to_string()))?)
        }
        Algorithm::EcdsaP384Sha384 => {
            Secret::P384(p384::ecdsa::SigningKey::from_slice(&octets()?).map_err(|error| failed(error.to_string()))?)
        }
        Algorithm::Ed25519 => {
            let octets = <[u8; 32]>::try_from(octets()?).map_err(|_| KeyError::Field("PrivateKey"))?;
            Secret::Ed25519(ed25519_dalek::SigningKey::from_bytes(&octets))
        }
    };
    Ok(Key::new(role, secret))
}

fn rsa(text: &str) -> Result<RsaPrivateKey, KeyError> {
    let number = |field| value(text, field).map(|octets| BoxedUint::from_be_slice_vartime(&octets));
    let primes = vec![number("Prime1")?, number("Prime2")?];
    let made = RsaPrivateKey::from_components(
        number("Modulus")?,
        number("PublicExponent")?,
        number("PrivateExponent")?,
        primes,
    );
    made.map_err(|error| KeyError::Crypto { algorithm: "RSA", reason: error.to_string() })
}

fn word<'t>(text: &'t str, field: &'static str) -> Result<&'t str, KeyError> {
    let value = |line: &'t str| line.strip_prefix(field)?.strip_prefix(':').map(str::trim);
    text.lines().find_map(value).ok_or(KeyError::Field(field))
}

fn value(text: &str, field: &'static str) -> Result<Vec<u8>, KeyError> {
    base64::decode(word(text, field)?).map_err(|_| KeyError::Field(field))
}
