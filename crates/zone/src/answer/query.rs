//! Reads and validates a query: what to answer, or why not (RFC 1035 §4.1, RFC 6891 §6.1).

use ldplayer_core::Message;
use ldplayer_core::client_subnet::CLIENT_SUBNET;
use ldplayer_core::message::{HEADER, OPT, Question, flag};

use crate::rtype;
use crate::store::Pick;

/// RCODEs (RFC 1035 §4.1.1, RFC 6672 §2.2, RFC 6891 §6.1.3).
pub(super) mod rcode {
    pub const NOERROR: u16 = 0;
    pub const FORMERR: u16 = 1;
    pub const NXDOMAIN: u16 = 3;
    pub const NOTIMP: u16 = 4;
    pub const REFUSED: u16 = 5;
    pub const YXDOMAIN: u16 = 6;
    pub const BADVERS: u16 = 16;
}

/// A query that has a header.
#[derive(Clone, Copy, Debug)]
pub(super) struct Query<'q> {
    pub octets: &'q [u8],
    pub flags: u16,
    /// The only question, where there is one and it is sound.
    pub question: Option<Question<'q>>,
    pub edns: Option<Edns>,
    /// The value of the option for the client's subnet, as it came.
    pub client_subnet: Option<&'q [u8]>,
    /// Which versions of sets the answer takes.
    pub pick: Pick,
    /// The answer when there is nothing to look up.
    pub error: Option<u16>,
}

/// The OPT record of a query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Edns {
    pub udp_size: u16,
    pub version: u8,
    pub dnssec_ok: bool,
}

impl<'q> Query<'q> {
    /// Reads a message; `None` for one that is not to be answered: no header, or a response.
    pub fn read(octets: &'q [u8]) -> Option<Self> {
        let message = Message::new(octets).filter(|message| !message.is_response())?;
        let (flags, pick) = (message.flags(), Pick::Fixed);
        let mut query = Self { octets, flags, question: None, edns: None, client_subnet: None, pick, error: None };
        query.error = query.read_rest(&message).err();
        Some(query)
    }

    /// The octets of the question as responses repeat them.
    pub fn question_octets(&self) -> &'q [u8] {
        self.question.map_or(&[], |question| &self.octets[HEADER..HEADER + question.len()])
    }

    pub fn dnssec_ok(&self) -> bool {
        self.edns.is_some_and(|edns| edns.dnssec_ok)
    }

    /// The data of the SOA record at an offset, if one is there.
    pub fn soa_at(&self, at: usize) -> Option<&'q [u8]> {
        let record = Fixed::read(self.octets, at).filter(|record| record.rtype == rtype::SOA)?;
        self.octets.get(record.data..record.end)
    }

    fn read_rest(&mut self, message: &Message<'q>) -> Result<(), u16> {
        let [questions, answers, authorities, additionals] = message.counts();
        if questions == 1 {
            self.question = message.question();
        }
        if message.opcode() != 0 {
            // What such a message holds is not known, but for EDNS, which is the same for all of them, and follows one question or
            // none, as in DSO messages (RFC 8490 §5.4).
            let length = self.question.map_or(0, |question| question.len());
            if questions == u16::from(self.question.is_some()) {
                let _ = self.read_edns(length, u32::from(answers) + u32::from(authorities), additionals);
            }
            return Err(rcode::NOTIMP);
        }
        let question = self.question.ok_or(rcode::FORMERR)?;
        // An incremental transfer has the SOA of the asker's version there (RFC 1995 §3).
        let is_clean = answers == 0 && (authorities == 0 || question.qtype == rtype::IXFR) && !message.has(flag::TC);
        if !is_clean {
            return Err(rcode::FORMERR);
        }
        self.read_edns(question.len(), authorities.into(), additionals)?;
        if self.edns.is_some_and(|edns| edns.version > 0) {
            return Err(rcode::BADVERS);
        }
        Ok(())
    }

    /// Finds the OPT record among the additional records. More than one are an error (RFC 6891 §6.1.1).
    fn read_edns(&mut self, question: usize, skipped: u32, additionals: u16) -> Result<(), u16> {
        let mut at = HEADER + question;
        for number in 0..skipped + u32::from(additionals) {
            let record = Fixed::read(self.octets, at).ok_or(rcode::FORMERR)?;
            if number >= skipped && record.rtype == OPT {
                let subnet = client_subnet_in(&self.octets[record.data..record.end]).ok_or(rcode::FORMERR)?;
                if self.edns.is_some() || !record.is_of_root {
                    return Err(rcode::FORMERR);
                }
                (self.edns, self.client_subnet) = (Some(record.edns()), subnet);
            }
            at = record.end;
        }
        Ok(())
    }
}

/// The fixed fields of a record and where it ends.
struct Fixed {
    is_of_root: bool,
    rtype: u16,
    class: u16,
    ttl: u32,
    data: usize,
    end: usize,
}

impl Fixed {
    fn read(octets: &[u8], at: usize) -> Option<Self> {
        let fixed = skip_name(octets, at)?;
        let &[t, u, c, d, a, b, e, f, l, m] = octets.get(fixed..)?.first_chunk()?;
        let end = fixed + 10 + usize::from(u16::from_be_bytes([l, m]));
        (end <= octets.len()).then_some(Self {
            is_of_root: octets[at] == 0,
            rtype: u16::from_be_bytes([t, u]),
            class: u16::from_be_bytes([c, d]),
            ttl: u32::from_be_bytes([a, b, e, f]),
            data: fixed + 10,
            end,
        })
    }

    const fn edns(&self) -> Edns {
        Edns { udp_size: self.class, version: (self.ttl >> 16) as u8, dnssec_ok: self.ttl & flag::DO as u32 != 0 }
    }
}

/// The client's subnet in the data of an OPT record, which consists of options: code, length, value (RFC 6891 §6.1.2). `None` where it does not.
fn client_subnet_in(mut data: &[u8]) -> Option<Option<&[u8]>> {
    let mut subnet = None;
    while let &[c, d, high, low, ref rest @ ..] = data {
        let (value, next) = rest.split_at_checked(usize::from(u16::from_be_bytes([high, low])))?;
        if u16::from_be_bytes([c, d]) == CLIENT_SUBNET {
            subnet = Some(value);
        }
        data = next;
    }
    data.is_empty().then_some(subnet)
}

fn skip_name(octets: &[u8], mut at: usize) -> Option<usize> {
    loop {
        match *octets.get(at)? {
            0 => return Some(at + 1),
            length @ 1..=63 => at += 1 + usize::from(length),
            0xc0..=0xff => return (at + 2 <= octets.len()).then_some(at + 2),
            _ => return None,
        }
    }
}
