//! Turns the items of a C-DNS block into transactions.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use bytes::Bytes;
use ldplayer_core::damage::Flaw;
use ldplayer_core::time::NS_PER_S;
use ldplayer_core::{Message, TraceTime, Transaction, Transport};

use super::block::{Block, Signature};
use super::item::{Item, Malformed};
use super::lost::{Counts, Losses, Lost};
use super::place;
use super::preamble::{FLAGS, Parameters, Preamble};
use super::rebuild::{Rebuilder, part};
use crate::Tally;
use crate::arena::Arena;
use crate::pair::Room;
use crate::refused::{Refused, count_message};
use crate::source::buffer::LazyPlace;
use crate::source::role::Role;

/// The default server port.
const DNS_PORT: u16 = 53;
/// The roles by their numbers (`qr-type`; RFC 8618, section 7.3.2.3.2).
const ROLES: [Role; 6] = [Role::Stub, Role::Client, Role::Resolver, Role::Auth, Role::Forwarder, Role::Tool];

/// What turns blocks into transactions.
pub(crate) struct Transactions {
    preamble: Preamble,
    roles: Vec<Role>,
    block: Block,
    parameters: Parameters,
    /// Where the block begins.
    at: LazyPlace,
    lost: Counts,
    /// Transactions by role.
    kinds: [u64; ROLES.len()],
    arena: Arena,
    wire: Vec<u8>,
    places: Vec<(u32, u16)>,
    pub tally: Tally,
}

/// Who was asked, who asked, and how.
struct Ends {
    client: SocketAddr,
    server: SocketAddr,
    transport: Transport,
}

/// What was stored of them.
#[derive(Clone, Copy)]
struct Stored {
    client: Option<u32>,
    client_port: Option<u16>,
    server: Option<u32>,
    server_port: Option<u16>,
    transport: Option<u8>,
}

impl Transactions {
    /// Takes transactions of the `roles`; all if there are none.
    pub fn new(preamble: Preamble, roles: &[Role]) -> Self {
        Self {
            preamble,
            roles: roles.to_vec(),
            block: Block::default(),
            parameters: Parameters::default(),
            at: LazyPlace { packet: 0, offset: 0 },
            lost: Counts::default(),
            kinds: [0; ROLES.len()],
            arena: Arena::default(),
            wire: Vec::new(),
            places: Vec::new(),
            tally: Tally::default(),
        }
    }

    /// Goes on with another file.
    pub fn begin(&mut self, preamble: Preamble) {
        self.preamble = preamble;
    }

    /// Takes up a block that begins at `at`.
    pub fn take_block(&mut self, octets: Vec<u8>, at: LazyPlace) -> Result<(), Flaw> {
        let block = Block::parse(octets).map_err(|_| Flaw::BadBlock)?;
        // A file without any set has the defaults; a missing set cannot be guessed.
        let set = self.preamble.sets.get(block.parameters).copied();
        self.parameters = match set {
            None if !self.preamble.sets.is_empty() => return Err(Flaw::BadBlock),
            set => set.unwrap_or_default(),
        };
        (self.block, self.at) = (block, at);
        Ok(())
    }

    /// Adds the gathered counts to the tally.
    pub fn account(&mut self) {
        self.lost.account(&mut self.tally);
        let kinds = ROLES.map(|role| role.as_str().into()).into_iter().zip(self.kinds).filter(|(_, count)| *count > 0);
        self.tally.kinds.extend(kinds);
    }

    /// Yields the next transaction of the block, unless it is of no use; `false` at the block's end.
    pub fn next(&mut self, batch: &mut Vec<Transaction>, room: &mut Room, name: &str) -> bool {
        let mut block = std::mem::take(&mut self.block);
        let before = block.taken();
        let done = match block.next_item() {
            Some(Ok(item)) => Some(self.transaction(&block, &item)),
            Some(Err(_)) => Some(Err(Refused::Damaged(Flaw::BadItem))),
            None => match block.next_malformed() {
                Some(Ok(malformed)) => Some(self.malformed(&block, &malformed)),
                Some(Err(_)) => Some(Err(Refused::Damaged(Flaw::BadItem))),
                None => None,
            },
        };
        let octets = block.taken() - before;
        self.block = block;
        let Some(done) = done else { return false };
        self.tally.packets += 1;
        let (number, block) = (self.tally.packets, self.at);
        if let Err(refused) = done.and_then(|row| self.count(row, batch, room)) {
            refused.count(&mut self.tally, octets, || place(name, number, block));
        }
        true
    }

    /// Counts the messages of a transaction and yields it.
    fn count(&mut self, row: Transaction, batch: &mut Vec<Transaction>, room: &mut Room) -> Result<(), Refused> {
        let mut counted = Ok(());
        for octets in [&row.query, &row.response].into_iter().flatten() {
            room.octets = room.octets.saturating_sub(octets.len());
            if let Some(message) = Message::new(octets) {
                counted = counted.and(count_message(&mut self.tally, &message));
            }
        }
        room.rows -= 1;
        batch.push(row);
        counted
    }

    fn transaction(&mut self, block: &Block, item: &Item) -> Result<Transaction, Refused> {
        let mut losses = self.losses_of_all();
        let signature = match item.signature {
            Some(index) => block.tables.signature(index).ok_or(Refused::Damaged(Flaw::BadIndex))?,
            None => Signature::default(),
        };
        self.check_role(&signature)?;
        let (has_query, has_response) = parts(item, &signature);
        let stored = Stored {
            client: item.client,
            client_port: item.client_port,
            server: signature.server,
            server_port: signature.server_port,
            transport: signature.transport,
        };
        let ends = ends(block, stored, &mut losses).map_err(Refused::Damaged)?;
        let offset = losses.or(item.time, Lost::Time, 0);
        let time = self.time(block, offset).ok_or(Refused::Damaged(Flaw::BadTime))?;
        let mut message = |is_response, losses: &mut Losses| {
            self.rebuild(block, item, &signature, is_response, losses).map_err(Refused::Damaged)
        };
        let query = has_query.then(|| message(false, &mut losses)).transpose()?;
        let response = has_response.then(|| message(true, &mut losses)).transpose()?;
        let response_delay = match (has_query && has_response, item.delay) {
            (false, _) => None,
            (true, Some(delay)) => Some(self.nanoseconds(delay).ok_or(Refused::Damaged(Flaw::BadTime))?),
            (true, None) => Some(losses.or(None, Lost::ResponseDelay, 0)),
        };
        if query.is_none() && response.is_none() {
            return Err(Refused::Foreign("no_message"));
        }
        self.lost.add(losses);
        let Ends { client, server, transport } = ends;
        Ok(Transaction {
            index: 0,
            time,
            client,
            server,
            transport,
            stream: None,
            query,
            response,
            response_delay,
            retry_of: None,
        })
    }

    /// A message that the writer of the file could not read, if its octets were kept: it was really sent.
    fn malformed(&mut self, block: &Block, malformed: &Malformed) -> Result<Transaction, Refused> {
        let mut losses = self.losses_of_all();
        let data = malformed.data.and_then(|index| block.tables.malformed(index)).unwrap_or_default();
        let octets = data.payload.map(|payload| block.octets(payload)).ok_or(Refused::Foreign("malformed_message"))?;
        let message = Message::new(octets).ok_or(Refused::Damaged(Flaw::ShortMessage))?;
        let stored = Stored {
            client: malformed.client,
            client_port: malformed.client_port,
            server: data.server,
            server_port: data.server_port,
            transport: data.transport,
        };
        let Ends { client, server, transport } = ends(block, stored, &mut losses).map_err(Refused::Damaged)?;
        let offset = losses.or(malformed.time, Lost::Time, 0);
        let time = self.time(block, offset).ok_or(Refused::Damaged(Flaw::BadTime))?;
        self.lost.add(losses);
        let mut row = Transaction {
            index: 0,
            time,
            client,
            server,
            transport,
            stream: None,
            query: None,
            response: None,
            response_delay: None,
            retry_of: None,
        };
        let kept = Some(self.arena.keep(octets));
        match message.is_response() {
            true => row.response = kept,
            false => row.query = kept,
        }
        Ok(row)
    }

    /// What no transaction of the block has.
    fn losses_of_all(&self) -> Losses {
        let mut losses = Losses::default();
        for (bit, lost) in FLAGS.into_iter().enumerate() {
            if self.parameters.flags & 1 << bit != 0 {
                losses.note(lost);
            }
        }
        losses
    }

    fn check_role(&mut self, signature: &Signature) -> Result<(), Refused> {
        let role = signature.role.and_then(|role| ROLES.get(usize::from(role)));
        if let (Some(_), Some(number)) = (role, signature.role) {
            self.kinds[usize::from(number)] += 1;
        }
        match role {
            _ if self.roles.is_empty() => Ok(()),
            Some(role) if self.roles.contains(role) => Ok(()),
            Some(_) => Err(Refused::Foreign("other_role")),
            None => Err(Refused::Foreign("unknown_role")),
        }
    }

    fn rebuild(
        &mut self,
        block: &Block,
        item: &Item,
        signature: &Signature,
        is_response: bool,
        losses: &mut Losses,
    ) -> Result<Bytes, Flaw> {
        let (parameters, wire, places) = (&self.parameters, &mut self.wire, &mut self.places);
        let mut rebuilder = Rebuilder { block, parameters, item, signature, losses, wire, places };
        if is_response { rebuilder.response() } else { rebuilder.query() }?;
        Ok(self.arena.keep(&self.wire))
    }

    /// The time this many ticks after the earliest of the block.
    fn time(&self, block: &Block, offset: i64) -> Option<TraceTime> {
        let (seconds, ticks) = block.earliest;
        TraceTime::from_parts(seconds, self.nanoseconds(ticks.checked_add(offset)?)?)
    }

    fn nanoseconds(&self, ticks: i64) -> Option<i64> {
        i64::try_from(i128::from(ticks) * i128::from(NS_PER_S) / i128::from(self.parameters.ticks)).ok()
    }
}

/// Whether there is a query, and a response, inferred from other fields if that was not stored.
fn parts(item: &Item, signature: &Signature) -> (bool, bool) {
    match signature.parts {
        Some(parts) => (parts & part::QUERY != 0, parts & part::RESPONSE != 0),
        None => {
            let response = item.delay.is_some() || item.has_response_size || signature.response_rcode.is_some();
            (item.has_query_size || item.delay.is_some() || !response, response)
        }
    }
}

fn ends(block: &Block, stored: Stored, losses: &mut Losses) -> Result<Ends, Flaw> {
    let flags = stored.transport;
    let octets = |index: Option<u32>| index.map(|index| block.address(index).ok_or(Flaw::BadIndex)).transpose();
    let (client, server) = (octets(stored.client)?, octets(stored.server)?);
    let is_ipv6 = match flags {
        Some(flags) => flags & 1 != 0,
        None => [client, server].into_iter().flatten().any(|octets| octets.len() > 4),
    };
    let mut end = |octets: Option<&[u8]>, lost| match octets {
        Some(octets) => address(octets, is_ipv6, losses).ok_or(Flaw::BadAddress),
        None => {
            losses.note(lost);
            address(&[], is_ipv6, &mut Losses::default()).ok_or(Flaw::BadAddress)
        }
    };
    let (client, server) = (end(client, Lost::ClientAddress)?, end(server, Lost::ServerAddress)?);
    let (client, server) = (of_family(client, server), of_family(server, client));
    let client_port = losses.or(stored.client_port, Lost::ClientPort, 0);
    let server_port = losses.or(stored.server_port, Lost::ServerPort, DNS_PORT);
    let transport = transport(losses.or(flags, Lost::Transport, 0), losses).ok_or(Flaw::BadTransport)?;
    Ok(Ends { client: SocketAddr::new(client, client_port), server: SocketAddr::new(server, server_port), transport })
}

/// `address`, or the unspecified IPv4 address where it is unknown and the other end is IPv4 (stored as an IPv4-mapped address).
fn of_family(address: IpAddr, other: IpAddr) -> IpAddr {
    if address.is_unspecified() && other.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { address }
}

/// An address of which only a prefix may be stored; the rest is zeros. Some writers store that of an IPv4 client as IPv4-mapped,
/// whatever family they say.
fn address(octets: &[u8], is_ipv6: bool, losses: &mut Losses) -> Option<IpAddr> {
    let is_mapped = |octets: [u8; 16]| Ipv6Addr::from(octets).to_ipv4_mapped().is_some();
    let is_ipv6 = is_ipv6 || octets.try_into().is_ok_and(is_mapped);
    let mut whole = [0; 16];
    let length = if is_ipv6 { 16 } else { 4 };
    whole.get_mut(..octets.len()).filter(|_| octets.len() <= length)?.copy_from_slice(octets);
    if octets.len() < length {
        losses.note(Lost::AddressSuffix);
    }
    let [a, b, c, d, ..] = whole;
    Some(if is_ipv6 { Ipv6Addr::from(whole).to_canonical() } else { Ipv4Addr::from([a, b, c, d]).into() })
}

/// The transport among the flags (`qr-transport-flags`). DTLS is taken as DNS over TLS, which is replayed over TCP.
fn transport(flags: u8, losses: &mut Losses) -> Option<Transport> {
    if flags & 1 << 5 != 0 {
        losses.note(Lost::TrailingData);
    }
    Some(match flags >> 1 & 0xf {
        0 => Transport::Udp,
        1 => Transport::Tcp,
        2 => Transport::Dot,
        3 => {
            losses.note(Lost::Dtls);
            Transport::Dot
        }
        4 => Transport::Doh2,
        _ => return None,
    })
}
