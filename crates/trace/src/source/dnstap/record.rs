//! One dnstap frame, borrowed: addresses, time and message.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use ldplayer_core::damage::Flaw;
use ldplayer_core::{Message, TraceTime, Transport};

use crate::pair::Seen;
use crate::refused::Refused;
use crate::source::protobuf::{Fields, Malformed};

/// The default server port.
const DNS_PORT: u16 = 53;
/// Maximum number of fields in a frame; the schema has five.
const MAX_FIELDS: usize = 64;

/// The numbers of the fields of a frame (`Dnstap`).
mod frame {
    pub const MESSAGE: u64 = 14;
    pub const TYPE: u64 = 15;
    /// The only type defined: a message.
    pub const TYPE_MESSAGE: u64 = 1;
}

/// A record of a query, a response, or both.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Record<'a> {
    /// Index in [`crate::source::role::KINDS`]; beyond its end where the kind is unknown.
    pub kind: usize,
    is_ipv6: bool,
    protocol: u64,
    http: u64,
    client: Option<&'a [u8]>,
    client_port: u64,
    server: Option<&'a [u8]>,
    server_port: Option<u64>,
    query: Part<'a>,
    response: Part<'a>,
}

/// A query or a response with its time.
#[derive(Clone, Copy, Debug, Default)]
struct Part<'a> {
    seconds: Option<u64>,
    nanoseconds: u64,
    octets: Option<&'a [u8]>,
}

/// Whether octets can be a dnstap frame: fields up to the last octet, its type among them.
pub(crate) fn is_plausible(octets: &[u8]) -> bool {
    let mut fields = Fields(octets);
    let mut typed = false;
    for _ in 0..MAX_FIELDS {
        match fields.next() {
            Ok(Some((number, _))) => typed |= number == frame::TYPE,
            Ok(None) => return typed,
            Err(Malformed) => return false,
        }
    }
    false
}

impl<'a> Record<'a> {
    /// Reads a frame.
    pub fn parse(octets: &'a [u8]) -> Result<Self, Refused> {
        let message = Self::message_of(octets).map_err(|Malformed| Refused::Damaged(Flaw::BadFrame))?;
        let octets = message.ok_or(Refused::Foreign("not_a_message"))?;
        Self::of(octets).map_err(|Malformed| Refused::Damaged(Flaw::BadDnstapMessage))
    }

    /// The message in a frame, if it holds one.
    fn message_of(octets: &'a [u8]) -> Result<Option<&'a [u8]>, Malformed> {
        let (mut fields, mut is_message, mut message) = (Fields(octets), false, None);
        while let Some((number, value)) = fields.next()? {
            match number {
                frame::MESSAGE => message = Some(value.octets()?),
                frame::TYPE => is_message = value.number()? == frame::TYPE_MESSAGE,
                _ => {}
            }
        }
        Ok(message.filter(|_| is_message))
    }

    /// The fields of `Message`. Those not needed here, such as policies and zones, are skipped.
    fn of(octets: &'a [u8]) -> Result<Self, Malformed> {
        let mut fields = Fields(octets);
        let mut record = Self { kind: usize::MAX, ..Self::default() };
        while let Some((number, value)) = fields.next()? {
            match number {
                1 => record.kind = usize::try_from(value.number()?).unwrap_or(0).wrapping_sub(1),
                2 => record.is_ipv6 = value.number()? == 2,
                3 => record.protocol = value.number()?,
                4 => record.client = Some(value.octets()?),
                5 => record.server = Some(value.octets()?),
                6 => record.client_port = value.number()?,
                7 => record.server_port = Some(value.number()?),
                8 => record.query.seconds = Some(value.number()?),
                9 => record.query.nanoseconds = value.number()?,
                10 => record.query.octets = Some(value.octets()?),
                12 => record.response.seconds = Some(value.number()?),
                13 => record.response.nanoseconds = value.number()?,
                14 => record.response.octets = Some(value.octets()?),
                16 => record.http = value.number()?,
                _ => {}
            }
        }
        Ok(record)
    }

    /// The query, if the record holds it.
    pub fn query(&self) -> Result<Option<Seen<'a>>, Refused> {
        self.seen(&self.query, &self.response, false)
    }

    /// The response, if the record holds it.
    pub fn response(&self) -> Result<Option<Seen<'a>>, Refused> {
        self.seen(&self.response, &self.query, true)
    }

    /// Fields missing from the record, for which defaults are used.
    pub fn missing(&self) -> [Option<&'static str>; 3] {
        [
            self.client.is_none().then_some("client_address"),
            self.server.is_none().then_some("server_address"),
            matches!(self.protocol, 5 | 6).then_some("dnscrypt"),
        ]
    }

    fn seen(&self, part: &Part<'a>, other: &Part<'a>, is_response: bool) -> Result<Option<Seen<'a>>, Refused> {
        let Some(octets) = part.octets else { return Ok(None) };
        let message = Message::new(octets).ok_or(Refused::Damaged(Flaw::ShortMessage))?;
        if message.is_response() != is_response {
            return Err(Refused::Damaged(Flaw::WrongDirection));
        }
        let time = part.time().or(other.time()).ok_or(Refused::Damaged(Flaw::BadTime))?;
        let (client, server) = self.ends().ok_or(Refused::Damaged(Flaw::BadAddress))?;
        let (from, to) = if is_response { (server, client) } else { (client, server) };
        let transport = self.transport().ok_or(Refused::Damaged(Flaw::BadTransport))?;
        Ok(Some(Seen { time, from, to, transport, stream: None, octets }))
    }

    /// Client and server. A missing address is the unspecified one of the family.
    fn ends(&self) -> Option<(SocketAddr, SocketAddr)> {
        let is_ipv6 = match self.client.or(self.server) {
            Some(octets) => address(octets)?.is_ipv6(),
            None => self.is_ipv6,
        };
        let end = |octets: Option<&[u8]>, port: u64| {
            let ip = octets.map_or(Some(unspecified(is_ipv6)), address)?;
            Some(SocketAddr::new(ip, u16::try_from(port).ok()?))
        };
        Some((end(self.client, self.client_port)?, end(self.server, self.server_port.unwrap_or(DNS_PORT.into()))?))
    }

    /// `SocketProtocol` and `HttpProtocol`. DNSCrypt counts as the plain transport below it.
    fn transport(&self) -> Option<Transport> {
        Some(match (self.protocol, self.http) {
            (0 | 1 | 5, _) => Transport::Udp,
            (2 | 6, _) => Transport::Tcp,
            (3, _) => Transport::Dot,
            (4, 3) => Transport::Doh3,
            (4, _) => Transport::Doh2,
            (7, _) => Transport::Doq,
            _ => return None,
        })
    }
}

impl Part<'_> {
    fn time(&self) -> Option<TraceTime> {
        TraceTime::from_parts(i64::try_from(self.seconds?).ok()?, i64::try_from(self.nanoseconds).ok()?)
    }
}

fn unspecified(is_ipv6: bool) -> IpAddr {
    if is_ipv6 { Ipv6Addr::UNSPECIFIED.into() } else { Ipv4Addr::UNSPECIFIED.into() }
}

/// Dual-stack servers log IPv4 clients as IPv4-mapped addresses (RFC 4291 §2.5.5.2).
fn address(octets: &[u8]) -> Option<IpAddr> {
    let v4 = || <[u8; 4]>::try_from(octets).ok().map(IpAddr::from);
    v4().or_else(|| <[u8; 16]>::try_from(octets).ok().map(|v6| IpAddr::from(v6).to_canonical()))
}
