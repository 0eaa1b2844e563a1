//! Crypto-PAn: pseudonyms of addresses that keep common prefixes (Xu, Fan, Ammar, Moon: "Prefix-preserving IP address
//! anonymization", ICNP 2002).

use std::net::IpAddr;

use aes::cipher::{BlockCipherEncrypt, KeyInit};
use aes::{Aes128, Block};

/// Octets of a key: one half for the cipher, the other one for the padding.
pub const KEY: usize = 32;
/// Number of remembered pseudonyms; a new one replaces the one in its slot.
const REMEMBERED: usize = 1 << 14;

/// Computes pseudonyms with one key.
#[derive(Clone)]
pub struct CryptoPan {
    cipher: Aes128,
    pad: u128,
    remembered: Vec<Option<(IpAddr, IpAddr)>>,
}

/// The key is not shown.
impl std::fmt::Debug for CryptoPan {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("CryptoPan")
    }
}

impl CryptoPan {
    /// Takes a key.
    pub fn new(key: [u8; KEY]) -> Self {
        let (mut cipher_key, mut pad) = ([0; 16], [0; 16]);
        cipher_key.copy_from_slice(&key[..16]);
        pad.copy_from_slice(&key[16..]);
        let cipher = Aes128::new(&cipher_key.into());
        let mut made = Self { cipher, pad: 0, remembered: Vec::new() };
        made.pad = made.encrypt(u128::from_be_bytes(pad));
        made
    }

    /// The pseudonym of an address, of the same family.
    pub fn pseudonym(&mut self, address: IpAddr) -> IpAddr {
        self.remembered.resize(REMEMBERED, None);
        let place = ldplayer_core::shard::client_hash(address) as usize % REMEMBERED;
        match self.remembered[place] {
            Some((known, pseudonym)) if known == address => pseudonym,
            _ => {
                let pseudonym = self.compute(address);
                self.remembered[place] = Some((address, pseudonym));
                pseudonym
            }
        }
    }

    fn compute(&self, address: IpAddr) -> IpAddr {
        match address {
            IpAddr::V4(v4) => {
                let high = u128::from(v4.to_bits()) << 96;
                std::net::Ipv4Addr::from_bits(((high ^ self.mask(high, 32)) >> 96) as u32).into()
            }
            IpAddr::V6(v6) => std::net::Ipv6Addr::from_bits(v6.to_bits() ^ self.mask(v6.to_bits(), 128)).into(),
        }
    }

    /// The one-time pad of the first `width` bits, each derived from the bits before it.
    fn mask(&self, address: u128, width: u32) -> u128 {
        (0..width).fold(0, |mask, bit| {
            let known = if bit == 0 { 0 } else { u128::MAX << (128 - bit) };
            let input = address & known | self.pad & !known;
            mask | (self.encrypt(input) >> 127) << (127 - bit)
        })
    }

    fn encrypt(&self, block: u128) -> u128 {
        let mut block = Block::from(block.to_be_bytes());
        self.cipher.encrypt_block(&mut block);
        u128::from_be_bytes(block.into())
    }
}

/// Reads a key of 64 hexadecimal digits.
pub fn parse_key(text: &str) -> Option<[u8; KEY]> {
    let digits = text.trim();
    if digits.len() != 2 * KEY || !digits.is_ascii() {
        return None;
    }
    let mut key = [0; KEY];
    for (at, octet) in key.iter_mut().enumerate() {
        *octet = u8::from_str_radix(&digits[2 * at..2 * at + 2], 16).ok()?;
    }
    Some(key)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::net::Ipv6Addr;

    /// The key of the sample trace that comes with the authors' implementation.
    const SAMPLE_KEY: [u8; KEY] = [
        21, 34, 23, 141, 51, 164, 207, 128, 19, 10, 91, 22, 73, 144, 125, 16, 216, 152, 143, 131, 121, 121, 101, 39,
        98, 87, 76, 45, 42, 132, 34, 2,
    ];

    #[test]
    fn the_pseudonyms_are_those_of_other_implementations() {
        let mut pan = CryptoPan::new(SAMPLE_KEY);
        for (address, pseudonym) in [
            ("128.11.68.132", "135.242.180.132"),
            ("129.118.74.4", "134.136.186.123"),
            ("130.132.252.244", "133.68.164.234"),
            ("141.223.7.43", "141.167.8.160"),
            ("141.233.145.108", "141.129.237.235"),
            ("::1", "78ff:f001:9fc0:20df:8380:b1f1:704:ed"),
            ("2001:db8::1", "4401:2bc:603f:d91d:27f:ff8e:e6f1:dc1e"),
        ] {
            assert_eq!(pan.pseudonym(address.parse().unwrap()).to_string(), pseudonym);
        }
    }

    proptest! {
        #[test]
        fn common_prefixes_stay_common(a: u128, flipped in 0..128_u32) {
            let b = a ^ (1 << flipped);
            let pan = CryptoPan::new(SAMPLE_KEY);
            let [x, y] = [a, b].map(|bits| match pan.compute(Ipv6Addr::from_bits(bits).into()) {
                IpAddr::V6(v6) => v6.to_bits(),
                IpAddr::V4(_) => unreachable!(),
            });
            prop_assert_eq!((x ^ y).leading_zeros(), (a ^ b).leading_zeros());
        }
    }

    #[test]
    fn keys_are_64_hexadecimal_digits() {
        assert_eq!(parse_key(&"0f".repeat(KEY)), Some([15; KEY]));
        for bad in ["", "0f", &"zz".repeat(KEY), &"0f".repeat(KEY + 1), &"é".repeat(KEY)] {
            assert_eq!(parse_key(bad), None);
        }
    }
}
