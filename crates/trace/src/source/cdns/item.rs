//! One transaction of a C-DNS block (RFC 8618, sections 7.3.2.4 and 7.3.2.6).

use minicbor::Decoder;
use minicbor::decode::Error;

use super::cbor::map;

/// A query, a response, or both.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Item {
    /// Ticks behind the earliest transaction of the block.
    pub time: Option<i64>,
    /// Index of the client's address.
    pub client: Option<u32>,
    pub client_port: Option<u16>,
    pub id: Option<u16>,
    /// Index of the signature.
    pub signature: Option<u32>,
    /// Ticks from the query to the response.
    pub delay: Option<i64>,
    /// Index of the name in the first question.
    pub name: Option<u32>,
    /// Octets of the query; only whether it is known is of use here.
    pub has_query_size: bool,
    /// The same of the response.
    pub has_response_size: bool,
    pub query: Sections,
    pub response: Sections,
}

/// Indexes of the lists of what stands behind the first question.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sections {
    /// More questions.
    pub questions: Option<u32>,
    /// Answer, authority and additional section.
    pub records: [Option<u32>; 3],
}

/// A message that the writer could not read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Malformed {
    /// Ticks behind the earliest transaction of the block.
    pub time: Option<i64>,
    /// Index of the client's address.
    pub client: Option<u32>,
    pub client_port: Option<u16>,
    /// Index of what else is known.
    pub data: Option<u32>,
}

impl Item {
    /// Reads a `QueryResponse`.
    pub fn parse(decoder: &mut Decoder<'_>) -> Result<Self, Error> {
        let mut item = Self::default();
        map(decoder, |key, value| {
            match key {
                0 => item.time = Some(value.i64()?),
                1 => item.client = Some(value.u32()?),
                2 => item.client_port = Some(value.u16()?),
                3 => item.id = Some(value.u16()?),
                4 => item.signature = Some(value.u32()?),
                6 => item.delay = Some(value.i64()?),
                7 => item.name = Some(value.u32()?),
                8 => item.has_query_size = true,
                9 => item.has_response_size = true,
                11 => item.query = Sections::parse(value)?,
                12 => item.response = Sections::parse(value)?,
                _ => {}
            }
            Ok(())
        })?;
        Ok(item)
    }
}

impl Sections {
    fn parse(decoder: &mut Decoder<'_>) -> Result<Self, Error> {
        let mut sections = Self::default();
        map(decoder, |key, value| {
            match key {
                0 => sections.questions = Some(value.u32()?),
                1..=3 => sections.records[key as usize - 1] = Some(value.u32()?),
                _ => {}
            }
            Ok(())
        })?;
        Ok(sections)
    }
}

impl Malformed {
    /// Reads a `MalformedMessage`.
    pub fn parse(decoder: &mut Decoder<'_>) -> Result<Self, Error> {
        let mut malformed = Self::default();
        map(decoder, |key, value| {
            match key {
                0 => malformed.time = Some(value.i64()?),
                1 => malformed.client = Some(value.u32()?),
                2 => malformed.client_port = Some(value.u16()?),
                3 => malformed.data = Some(value.u32()?),
                _ => {}
            }
            Ok(())
        })?;
        Ok(malformed)
    }
}
