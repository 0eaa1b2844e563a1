//! The actions of rules.

use std::net::{IpAddr, SocketAddr};

use ldplayer_core::random::draw;
use ldplayer_core::shard::client_hash;
use ldplayer_core::{Transaction, Transport};

use super::Origin;
use super::clients::Remap;
use super::edit::{EditError, Edited, Editor};
use super::names::NameEdit;

/// One change.
#[derive(Debug)]
pub enum Action {
    /// Drops the transaction.
    Drop,
    /// Changes the client's address.
    Client(Remap),
    /// Sets the bits of a mask in the header.
    Flags(u16, u16),
    /// Adds or removes EDNS.
    Edns(bool),
    /// Sets the UDP payload size.
    Size(u16),
    /// Sets the EDNS version.
    Version(u8),
    /// Sets or clears the DO bit.
    Do(bool),
    /// Removes options with this code.
    RemoveOption(u16),
    /// Sets an option with this code.
    Option(u16, OptionValue),
    /// Pads to a multiple of this many octets.
    Pad(u16),
    /// Changes the name.
    Name(NameEdit),
    /// Changes the type.
    Qtype(u16),
    /// Changes the transport.
    Transport(Transport),
    /// Changes the server's port.
    ServerPort(u16),
    /// Shifts by nanoseconds, possibly negative.
    Shift(i64),
    /// Shifts by a random time of up to this many nanoseconds in either direction.
    Jitter(i64),
    /// Adds this many copies, this many nanoseconds apart.
    Duplicate(u32, i64),
}

/// The value of an option.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OptionValue {
    /// Fixed octets.
    Octets(Box<[u8]>),
    /// The client's subnet, with these prefix lengths for IPv4 and IPv6 (RFC 7871 §6).
    Subnet(u8, u8),
    /// A client cookie, fixed for each pair of client and server (RFC 7873 §4.1).
    Cookie,
}

/// A transaction being changed.
pub struct Work<'a> {
    /// As it was read.
    pub row: &'a Transaction,
    /// Its number in the trace, from 0.
    pub number: u64,
    /// Its query.
    pub editor: &'a mut Editor,
    /// A buffer for a name.
    pub name: &'a mut Vec<u8>,
    /// Current time.
    pub time: i64,
    /// Current client.
    pub client: SocketAddr,
    /// Current server.
    pub server: SocketAddr,
    /// Current transport.
    pub transport: Transport,
    /// Current connection.
    pub stream: Option<u64>,
    /// Whether it is dropped.
    pub is_dropped: bool,
    /// Copies, and nanoseconds between them.
    pub copies: (u32, i64),
    /// Whether the question was changed, so that the recorded response no longer matches.
    pub is_other_question: bool,
}

impl Action {
    /// Applies the action; `key` is that of the rule's draws.
    pub fn apply(&mut self, work: &mut Work<'_>, key: u64) -> Edited {
        match self {
            Self::Drop => Ok(!std::mem::replace(&mut work.is_dropped, true)),
            Self::Client(remap) => {
                let port = work.client.port();
                let client = remap.apply(work.client.ip(), port, key)?;
                Ok(changes(&mut work.client, SocketAddr::new(client, port)))
            }
            Self::Transport(transport) => Ok(work.set_transport(*transport)),
            Self::ServerPort(port) => {
                let server = SocketAddr::new(work.server.ip(), *port);
                Ok(changes(&mut work.server, server))
            }
            Self::Shift(shift) => Ok(work.shift(*shift)),
            Self::Jitter(jitter) => {
                let width = 2 * i128::from(*jitter) + 1;
                let offset = ((i128::from(draw(key, work.number)) * width) >> 64) as i64 - *jitter;
                Ok(work.shift(offset))
            }
            Self::Duplicate(copies, gap) => {
                work.copies = (work.copies.0.saturating_add(*copies), *gap);
                Ok(true)
            }
            _ => self.edit(work, key),
        }
    }

    /// Changes of the message.
    fn edit(&self, work: &mut Work<'_>, key: u64) -> Edited {
        let query = work.row.query.as_deref().ok_or(EditError::NoQuery)?;
        work.editor.load(query)?;
        match self {
            Self::Flags(mask, value) => work.editor.set_flags(*mask, *value),
            Self::Edns(wanted) => work.editor.set_edns(*wanted),
            Self::Size(size) => work.editor.set_size(*size),
            Self::Version(version) => work.editor.set_version(*version),
            Self::Do(wanted) => work.editor.set_do(*wanted),
            Self::RemoveOption(code) => work.editor.remove_option(*code),
            Self::Pad(block) => work.editor.pad(usize::from(*block)),
            Self::Option(code, value) => work.set_option(*code, value, key),
            Self::Name(edit) => work.set_name(edit, key),
            Self::Qtype(qtype) => {
                let changed = work.editor.set_qtype(*qtype)?;
                work.is_other_question |= changed;
                Ok(changed)
            }
            _ => Ok(false),
        }
    }
}

fn changes<T: PartialEq>(place: &mut T, value: T) -> bool {
    let changed = *place != value;
    *place = value;
    changed
}

impl Work<'_> {
    /// The transaction as changed so far, without copies.
    pub fn so_far(&self) -> Transaction {
        let query = self.editor.current().map(bytes::Bytes::copy_from_slice).or_else(|| self.row.query.clone());
        Transaction {
            index: self.row.index,
            time: ldplayer_core::TraceTime(self.time),
            client: self.client,
            server: self.server,
            transport: self.transport,
            stream: self.stream,
            query,
            response: self.row.response.clone().filter(|_| !self.is_other_question),
            response_delay: self.row.response_delay.filter(|_| !self.is_other_question),
            retry_of: self.row.retry_of,
        }
    }

    fn shift(&mut self, offset: i64) -> bool {
        self.time = self.time.saturating_add(offset);
        offset != 0
    }

    /// Changes the transport. If the server's port is the default of the old one, it becomes the default of the new one.
    fn set_transport(&mut self, transport: Transport) -> bool {
        if self.server.port() == usual_port(self.transport) {
            self.server.set_port(usual_port(transport));
        }
        let changed = changes(&mut self.transport, transport);
        if changed {
            self.stream = None;
        }
        changed
    }

    fn set_option(&mut self, code: u16, value: &OptionValue, key: u64) -> Edited {
        match value {
            OptionValue::Octets(octets) => self.editor.set_option(code, octets),
            OptionValue::Subnet(v4, v6) => {
                let (octets, length) = subnet(self.client.ip(), *v4, *v6);
                self.editor.set_option(code, &octets[..length])
            }
            OptionValue::Cookie => {
                let ends = client_hash(self.client.ip()) ^ client_hash(self.server.ip()).rotate_left(1);
                self.editor.set_option(code, &draw(key, ends).to_be_bytes())
            }
        }
    }

    fn set_name(&mut self, edit: &NameEdit, key: u64) -> Edited {
        let origin = Origin { number: self.number, key, client: self.client.ip() };
        self.name.clear();
        if !edit.apply(self.editor.qname()?, &origin, self.name)? {
            return Ok(false);
        }
        let is_other = !self.editor.qname()?.eq_ignore_ascii_case(self.name);
        let changed = self.editor.set_qname(self.name)?;
        self.is_other_question |= is_other;
        Ok(changed)
    }
}

/// The default port of a transport.
const fn usual_port(transport: Transport) -> u16 {
    match transport {
        Transport::Udp | Transport::Tcp => 53,
        Transport::Dot | Transport::Doq => 853,
        Transport::Doh2 | Transport::Doh3 => 443,
    }
}

/// The value of a client subnet option and its length: family, prefix, scope 0, address octets (RFC 7871 §6).
fn subnet(client: IpAddr, v4: u8, v6: u8) -> ([u8; 20], usize) {
    let mut value = [0; 20];
    let (family, prefix) = match client {
        IpAddr::V4(client) => {
            value[4..8].copy_from_slice(&client.octets());
            (1, v4)
        }
        IpAddr::V6(client) => {
            value[4..20].copy_from_slice(&client.octets());
            (2, v6)
        }
    };
    (value[1], value[2]) = (family, prefix);
    let octets = usize::from(prefix.div_ceil(8));
    if prefix % 8 != 0 {
        value[3 + octets] &= 0xff << (8 - prefix % 8); // bits behind the prefix must be 0
    }
    (value, 4 + octets)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn subnets_are_cut_at_the_prefix() {
        let of = |client: &str, v4, v6| {
            let (value, length) = subnet(client.parse().unwrap(), v4, v6);
            value[..length].to_vec()
        };
        assert_eq!(of("192.0.2.129", 24, 56), [0, 1, 24, 0, 192, 0, 2]);
        assert_eq!(of("192.0.2.129", 25, 56), [0, 1, 25, 0, 192, 0, 2, 128]);
        assert_eq!(of("192.0.2.255", 30, 56), [0, 1, 30, 0, 192, 0, 2, 252]);
        assert_eq!(of("192.0.2.1", 0, 0), [0, 1, 0, 0]);
        assert_eq!(of("2001:db8:ff:ffff::1", 24, 52), [0, 2, 52, 0, 0x20, 1, 0xd, 0xb8, 0, 0xff, 0xf0]);
    }
}
