//! The preamble of a C-DNS file: its version and block parameters (RFC 8618, section 7.3.1).

use minicbor::Decoder;
use minicbor::decode::Error;

use super::cbor::{array, map};
use super::lost::Lost;

/// Sets of parameters of a file; writers use one or two.
const MAX_SETS: usize = 1_024;

/// The preamble.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Preamble {
    /// Major and minor version of the format.
    pub version: (u64, u64),
    /// The sets of parameters; a block names one by its number.
    pub sets: Vec<Parameters>,
}

/// What a block was made by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Parameters {
    /// Ticks of its clock in a second.
    pub ticks: i64,
    /// Bits of `query-response-hints`: fields of a transaction that were stored where they were known.
    pub fields: u64,
    /// Bits of `storage-flags`.
    pub flags: u64,
}

/// Bits of `query-response-hints` (RFC 8618, section 7.3.1.1.1).
pub(crate) mod hint {
    /// Sections of a query behind its question.
    pub const QUERY_RECORDS: u64 = 1 << 12 | 1 << 13 | 1 << 14;
    /// Answer section of a response.
    pub const RESPONSE_ANSWERS: u64 = 1 << 15;
    /// Authority section.
    pub const RESPONSE_AUTHORITIES: u64 = 1 << 16;
    /// Additional section.
    pub const RESPONSE_ADDITIONALS: u64 = 1 << 17;
}

/// What `storage-flags` say that the writer did not keep, by bit (RFC 8618, section 7.3.1.1.1).
pub(crate) const FLAGS: [Lost; 3] = [Lost::TrueAddresses, Lost::UnsampledTraffic, Lost::CaseOfNames];

impl Default for Parameters {
    /// What holds where nothing is said: everything was stored.
    fn default() -> Self {
        Self { ticks: 1_000_000, fields: u64::MAX, flags: 0 }
    }
}

impl Preamble {
    /// Reads the preamble.
    pub fn parse(octets: &[u8]) -> Result<Self, Error> {
        let mut preamble = Self::default();
        map(&mut Decoder::new(octets), |key, value| {
            match key {
                0 => preamble.version.0 = value.u64()?,
                1 => preamble.version.1 = value.u64()?,
                3 => array(value, MAX_SETS, &mut preamble.sets, Parameters::parse)?,
                _ => {}
            }
            Ok(())
        })?;
        Ok(preamble)
    }
}

impl Parameters {
    fn parse(decoder: &mut Decoder<'_>) -> Result<Self, Error> {
        let mut parameters = Self::default();
        map(decoder, |key, value| if key == 0 { parameters.storage(value) } else { Ok(()) })?;
        Ok(parameters)
    }

    fn storage(&mut self, decoder: &mut Decoder<'_>) -> Result<(), Error> {
        map(decoder, |key, value| {
            match key {
                0 => self.ticks = value.i64()?,
                2 => map(value, |key, value| {
                    if key == 0 {
                        self.fields = value.u64()?;
                    }
                    Ok(())
                })?,
                5 => self.flags = value.u64()?,
                _ => {}
            }
            Ok(())
        })?;
        if (1..=1_000_000_000).contains(&self.ticks) { Ok(()) } else { Err(Error::message("invalid ticks per second")) }
    }
}
