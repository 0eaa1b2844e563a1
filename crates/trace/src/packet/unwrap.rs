//! Removes the headers around the innermost IP packet of a frame: tags, labels, PPP and, with `tunnel.rs`, tunnels and mirrors.
//!
//! Every header has a name in the accounts. What is nested deeper than [`MAX_DEPTH`] headers is not read.

use std::hash::{DefaultHasher, Hash, Hasher};

use ldplayer_core::damage::Flaw;

use super::{ip, long, word};
use crate::refused::{Refused, Unknown};

/// Maximum number of headers taken off a frame; a stack of tags or of labels counts as one.
pub(crate) const MAX_DEPTH: usize = 16;
/// Maximum number of tags in a stack.
const MAX_TAGS: usize = 4;
/// Maximum number of labels in a stack.
const MAX_LABELS: usize = 16;

/// EtherType of IPv4.
const IPV4: u16 = 0x0800;
/// EtherType of IPv6.
const IPV6: u16 = 0x86dd;
/// EtherType of Ethernet within something else (RFC 1701).
const ETHERNET: u16 = 0x6558;
/// EtherTypes of VLAN tags: 802.1Q, 802.1ad and older forms.
const VLAN: [u16; 4] = [0x8100, 0x88a8, 0x9100, 0x9200];
/// EtherTypes of MPLS (RFC 5332).
const MPLS: [u16; 2] = [0x8847, 0x8848];
const PPPOE_SESSION: u16 = 0x8864;
/// The tag of provider backbone bridges (802.1ah): four octets, then the customer's frame.
const BACKBONE: u16 = 0x88e7;
/// The largest value of the field that is a length (802.3 §3.2.6).
const MAX_LENGTH_FIELD: u16 = 1_500;
/// The label before an entropy label (RFC 6790 §4).
const ENTROPY_INDICATOR: u32 = 7;

/// EtherTypes of frames without an IP packet, or without a readable one.
const FOREIGN: [(u16, &str); 13] = [
    (0x0806, "arp"),
    (0x8035, "rarp"),
    (0x8137, "ipx"),
    (0x8808, "flow_control"),
    (0x8809, "lacp"),
    (0x8863, "pppoe_discovery"),
    (0x888e, "eapol"),
    (0x88cc, "lldp"),
    (0x88e5, "macsec"),
    (0x88f7, "ptp"),
    (0x8902, "cfm"),
    (0x8926, "vn_tag"),
    (0x9000, "loopback_test"),
];

macro_rules! encapsulations {
    ($($(#[$doc:meta])* $variant:ident = $word:literal,)+) => {
        /// A header around an IP packet, by the name in the accounts.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub(crate) enum Encapsulation {
            $($(#[$doc])* $variant,)+
        }

        impl Encapsulation {
            /// The names, in the order of the variants.
            pub const NAMES: &[&'static str] = &[$($word),+];
        }
    };
}

encapsulations! {
    /// VLAN tags (802.1Q, 802.1ad).
    Vlan = "vlan",
    /// Provider backbone bridging (802.1ah).
    Backbone = "pbb",
    /// 802.3 with an LLC header, IP directly behind it.
    Llc = "llc",
    /// 802.3 with LLC and SNAP (RFC 1042).
    Snap = "llc_snap",
    /// A stack of MPLS labels (RFC 3032).
    Mpls = "mpls",
    /// Ethernet over MPLS (RFC 4448).
    Pseudowire = "pseudowire",
    /// A session of PPP over Ethernet (RFC 2516).
    Pppoe = "pppoe",
    /// GRE (RFC 2784, RFC 2890) and PPTP (RFC 2637).
    Gre = "gre",
    /// Ethernet in IP (RFC 3378).
    EtherIp = "etherip",
    /// IPv4 in IPv4 (RFC 2003), IPv6 in IPv6 (RFC 2473).
    IpInIp = "ip_in_ip",
    /// IPv6 in IPv4 (RFC 4213).
    SixInFour = "6in4",
    /// IPv4 in IPv6 (RFC 2473).
    FourInSix = "4in6",
    /// ERSPAN type I: a frame in GRE.
    Erspan1 = "erspan1",
    /// ERSPAN type II.
    Erspan2 = "erspan2",
    /// ERSPAN type III.
    Erspan3 = "erspan3",
    /// VXLAN (RFC 7348).
    Vxlan = "vxlan",
    /// The generic protocol extension of VXLAN.
    VxlanGpe = "vxlan_gpe",
    /// GENEVE (RFC 8926).
    Geneve = "geneve",
    /// User data of GTP (3GPP TS 29.281).
    Gtpu = "gtpu",
    /// TaZmen Sniffer Protocol.
    Tzsp = "tzsp",
    /// L2TP version 2 (RFC 2661).
    L2tp = "l2tp",
}

/// The rest of a frame: octets, and the protocol of their first header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Inner<'a> {
    /// An IP header.
    Ip(&'a [u8]),
    /// Addresses of Ethernet.
    Ethernet(&'a [u8]),
    /// What the EtherType (or a length, 802.3) says.
    EtherType(u16, &'a [u8]),
    /// A header of 802.2.
    Llc(&'a [u8]),
    /// PPP, with or without address and control, protocol of one or two octets.
    Ppp(&'a [u8]),
    /// A label stack.
    Mpls(&'a [u8]),
}

/// What was taken off a frame.
#[derive(Clone, Debug, Default)]
pub(crate) struct Outer {
    taken: [Option<Encapsulation>; MAX_DEPTH],
    depth: usize,
    /// Tells fragments of one tag or tunnel from another's; 0 for a plain frame.
    identity: u64,
}

/// What a datagram would lead to, were it a tunnel's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lead {
    /// An IP packet whose header is right.
    Ip,
    /// Something known that has no IP packet.
    Known,
    /// Nothing that anybody knows.
    Nothing,
}

impl Outer {
    /// The headers taken off, the outermost first.
    pub fn taken(&self) -> impl Iterator<Item = Encapsulation> {
        self.taken[..self.depth].iter().flatten().copied()
    }

    /// The same for all packets of one tag or tunnel, and different for another's.
    pub fn identity(&self) -> u64 {
        self.identity
    }

    /// Notes a header.
    ///
    /// # Errors
    /// When there were too many before it.
    pub fn enter(&mut self, name: Encapsulation) -> Result<(), Refused> {
        let place = self.taken.get_mut(self.depth).ok_or(Refused::Foreign("nested_too_deep"))?;
        *place = Some(name);
        self.depth += 1;
        self.identify(&name);
        Ok(())
    }

    /// Adds a property of a header in which tags and tunnels differ.
    pub fn identify(&mut self, value: &impl Hash) {
        let mut hasher = DefaultHasher::new();
        (self.identity, value).hash(&mut hasher);
        self.identity = hasher.finish();
    }

    /// Takes headers off up to an IP packet.
    pub fn network<'a>(&mut self, mut inner: Inner<'a>) -> Result<&'a [u8], Refused> {
        loop {
            inner = match inner {
                Inner::Ip(octets) => return some(octets),
                Inner::Ethernet(octets) => Inner::EtherType(type_at(octets, 12)?, rest(octets, 14)?),
                Inner::EtherType(kind, octets) => self.ether_type(kind, octets)?,
                Inner::Llc(octets) => self.llc(octets)?,
                Inner::Ppp(octets) => ppp(octets)?,
                Inner::Mpls(octets) => self.mpls(octets)?,
            };
        }
    }

    /// What `inner` would lead to. Its end may be missing: mirrors cut what they copy.
    pub fn lead(&self, inner: Inner<'_>) -> Lead {
        match self.clone().network(inner) {
            Ok(packet) if ip::is_sound(packet) => Lead::Ip,
            Err(Refused::Foreign(_)) => Lead::Known,
            _ => Lead::Nothing,
        }
    }

    fn ether_type<'a>(&mut self, kind: u16, octets: &'a [u8]) -> Result<Inner<'a>, Refused> {
        match kind {
            IPV4 | IPV6 => Ok(Inner::Ip(octets)),
            tag if VLAN.contains(&tag) => self.tags(octets),
            kind if MPLS.contains(&kind) => Ok(Inner::Mpls(octets)),
            PPPOE_SESSION => self.pppoe(octets),
            ETHERNET => Ok(Inner::Ethernet(octets)),
            BACKBONE => {
                self.enter(Encapsulation::Backbone)?;
                self.identify(&(long(octets, 0).ok_or(SHORT)? & 0x00ff_ffff));
                Ok(Inner::Ethernet(rest(octets, 4)?))
            }
            // What follows the length is padding.
            0..=MAX_LENGTH_FIELD => Ok(Inner::Llc(octets.get(..usize::from(kind)).unwrap_or(octets))),
            kind => Err(foreign(kind)),
        }
    }

    /// A stack of VLAN tags, each two octets before the next EtherType.
    fn tags<'a>(&mut self, mut octets: &'a [u8]) -> Result<Inner<'a>, Refused> {
        self.enter(Encapsulation::Vlan)?;
        for _ in 0..MAX_TAGS {
            // Fragments of a datagram may differ in priority.
            self.identify(&(type_at(octets, 0)? & 0x0fff));
            let kind = type_at(octets, 2)?;
            octets = rest(octets, 4)?;
            if !VLAN.contains(&kind) {
                return Ok(Inner::EtherType(kind, octets));
            }
        }
        Err(Refused::Foreign("nested_too_deep"))
    }

    /// 802.2, after a length: IP directly, or an EtherType by SNAP (RFC 1042).
    fn llc<'a>(&mut self, octets: &'a [u8]) -> Result<Inner<'a>, Refused> {
        match some(octets)? {
            [0xaa, 0xaa, 0x03, 0, 0, 0 | 0xf8, high, low, packet @ ..] => {
                let kind = u16::from_be_bytes([*high, *low]);
                self.enter(Encapsulation::Snap)?;
                if kind > MAX_LENGTH_FIELD { Ok(Inner::EtherType(kind, packet)) } else { Err(foreign(kind)) }
            }
            [0x06, 0x06, 0x03, packet @ ..] => {
                self.enter(Encapsulation::Llc)?;
                Ok(Inner::Ip(packet))
            }
            [0xaa, 0xaa, 0x03, 0, 0, 0x0c, ..] => Err(Refused::Foreign("cisco_snap")),
            [0x42, 0x42, ..] => Err(Refused::Foreign("stp")),
            [0xfe, 0xfe, ..] => Err(Refused::Foreign("osi")),
            [0xff, 0xff, ..] | [0xe0, 0xe0, ..] => Err(Refused::Foreign("ipx")),
            [point, ..] => Err(Refused::Unknown(Unknown::Llc(*point))),
            [] => Err(SHORT),
        }
    }

    /// A session of PPPoE (RFC 2516 §4): version and type 1, code 0, session, and the length without padding.
    fn pppoe<'a>(&mut self, octets: &'a [u8]) -> Result<Inner<'a>, Refused> {
        let (session, length) = word(octets, 2).zip(word(octets, 4)).ok_or(SHORT)?;
        if !octets.starts_with(&[0x11, 0]) {
            return Err(Refused::Foreign("pppoe_other"));
        }
        self.enter(Encapsulation::Pppoe)?;
        self.identify(&session);
        let payload = rest(octets, 6)?;
        Ok(Inner::Ppp(payload.get(..usize::from(length)).unwrap_or(payload)))
    }

    /// A label stack (RFC 3032 §2.1).
    fn mpls<'a>(&mut self, mut octets: &'a [u8]) -> Result<Inner<'a>, Refused> {
        self.enter(Encapsulation::Mpls)?;
        let (mut own, mut before) = (0, 0);
        for _ in 0..MAX_LABELS {
            let entry = long(octets, 0).ok_or(SHORT)?;
            octets = rest(octets, 4)?;
            let label = entry >> 12;
            // The last label says to whom the packet belongs; an entropy label may differ between fragments.
            if label != ENTROPY_INDICATOR && before != ENTROPY_INDICATOR {
                own = label;
            }
            before = label;
            if entry & 0x100 != 0 {
                self.identify(&own);
                return self.behind_labels(octets);
            }
        }
        Err(Refused::Foreign("nested_too_deep"))
    }

    /// Nothing in a label stack says what follows: an IP packet by its first nibble, a control word (RFC 4385), or Ethernet
    /// without one.
    fn behind_labels<'a>(&mut self, octets: &'a [u8]) -> Result<Inner<'a>, Refused> {
        let frame = [octets.get(4..).filter(|_| octets.starts_with(&[0, 0])), Some(octets)];
        let leads = |outer: &Self, frame: &&[u8]| outer.lead(Inner::Ethernet(frame)) != Lead::Nothing;
        match octets[0] >> 4 {
            4 | 6 if ip::is_sound(octets) => return Ok(Inner::Ip(octets)),
            1 => return Err(Refused::Foreign("mpls_oam")),
            _ => {}
        }
        match frame.into_iter().flatten().find(|frame| leads(self, frame)) {
            Some(frame) => {
                self.enter(Encapsulation::Pseudowire)?;
                Ok(Inner::Ethernet(frame))
            }
            None if matches!(octets[0] >> 4, 4 | 6) => Ok(Inner::Ip(octets)),
            None => Err(Refused::Foreign("mpls_payload")),
        }
    }
}

/// The damage of a frame that ends within a header.
pub(super) const SHORT: Refused = Refused::Damaged(Flaw::ShortFrame);

/// PPP (RFC 1661 §2), with or without HDLC address and control; an odd first octet is a protocol of one octet.
fn ppp(octets: &[u8]) -> Result<Inner<'_>, Refused> {
    let octets = octets.strip_prefix(&[0xff, 0x03]).unwrap_or(octets);
    let (protocol, packet) = match octets {
        [short, packet @ ..] if short & 1 == 1 => (u16::from(*short), packet),
        [high, low, packet @ ..] => (u16::from_be_bytes([*high, *low]), packet),
        _ => return Err(SHORT),
    };
    match protocol {
        0x0021 | 0x0057 => Ok(Inner::Ip(packet)),
        0x0281 | 0x0283 => Ok(Inner::Mpls(packet)),
        0x003d => Err(Refused::Foreign("ppp_multilink")),
        0x0053 => Err(Refused::Foreign("ppp_encrypted")),
        0x00fb | 0x00fd => Err(Refused::Foreign("ppp_compressed")),
        // Protocols that set up the link or a network layer.
        0x8000.. => Err(Refused::Foreign("ppp_control")),
        protocol => Err(Refused::Unknown(Unknown::Ppp(protocol))),
    }
}

/// Why a frame of this EtherType yields no message.
fn foreign(kind: u16) -> Refused {
    let known = FOREIGN.iter().find(|(number, _)| *number == kind);
    known.map_or(Refused::Unknown(Unknown::EtherType(kind)), |(_, word)| Refused::Foreign(word))
}

fn type_at(octets: &[u8], at: usize) -> Result<u16, Refused> {
    word(octets, at).ok_or(SHORT)
}

/// What follows `at` octets, which is not nothing.
pub(super) fn rest(octets: &[u8], at: usize) -> Result<&[u8], Refused> {
    octets.get(at..).filter(|rest| !rest.is_empty()).ok_or(SHORT)
}

fn some(octets: &[u8]) -> Result<&[u8], Refused> {
    rest(octets, 0)
}

#[cfg(test)]
mod tests;
