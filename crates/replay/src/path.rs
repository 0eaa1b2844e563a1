//! How packets of clients reach the network: through sockets of the kernel, or as frames that the workers make.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use ldplayer_core::Cidr;
use ldplayer_link::LinkSpec;
use ldplayer_net::packets::SenderKind;
use ldplayer_stack::frame::Mac;

/// How the packets of clients reach the network.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum NetworkPath {
    /// Through sockets of the kernel.
    #[default]
    Sockets,
    /// As frames on an interface: the workers are the clients' hosts.
    Packets(Packets),
}

/// An interface, and what clients are on it.
#[derive(Clone, Debug, PartialEq)]
pub struct Packets {
    /// Its name in the network namespace of the workers.
    pub interface: String,
    /// The name of the interface through which the host sends to clients, if it is another one.
    pub answers: Option<String>,
    /// The name of the TAP device through which frames reach the host without the interface, if there is one and its queue is free. Not
    /// used with AF_XDP or send timestamps.
    pub queries: Option<String>,
    /// The MAC address that clients have.
    pub mac: Mac,
    /// Where frames to servers go.
    pub next_hop: NextHop,
    /// The IPv4 and IPv6 addresses used for clients without an address of their own.
    pub nobody: [IpAddr; 2],
    /// Socket type used to send frames.
    pub sender: SenderKind,
    /// What the sender itself does to frames as a link would; `None` for nothing.
    pub link: Option<Box<LinkSpec>>,
}

/// The neighbours on the link that frames to servers go to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NextHop {
    /// All frames go to this MAC address.
    Mac(Mac),
    /// Neighbours are asked for their MAC addresses when the path is opened.
    Asked(Box<OnLink>),
}

/// What clients on a link with other hosts need to know of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OnLink {
    /// Each server with the neighbour that frames to it go to: the server itself, or a router.
    pub hops: Vec<(IpAddr, IpAddr)>,
    /// The addresses, of IPv4 and of IPv6, from which neighbours are asked for.
    pub askers: [IpAddr; 2],
    /// The addresses that neighbours may ask for: the clients', which no host has.
    pub claims: Vec<Cidr>,
    /// The addresses of this host. What arrives for these is not for clients.
    pub own: Vec<IpAddr>,
}

impl Packets {
    /// What clients know of a link with other hosts; `None` where they are alone with their server.
    pub const fn on_link(&self) -> Option<&OnLink> {
        match &self.next_hop {
            NextHop::Mac(_) => None,
            NextHop::Asked(on_link) => Some(on_link),
        }
    }
}

impl NetworkPath {
    /// The choice that gives it.
    pub const fn choice(&self) -> PathChoice {
        match self {
            Self::Sockets => PathChoice::Sockets,
            Self::Packets(Packets { sender: SenderKind::Packet, .. }) => PathChoice::Packets,
            Self::Packets(_) => PathChoice::PacketsXdp,
        }
    }

    /// The interface, for frames.
    pub const fn packets(&self) -> Option<&Packets> {
        match self {
            Self::Sockets => None,
            Self::Packets(packets) => Some(packets),
        }
    }
}

/// A path as chosen by the user.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PathChoice {
    /// Frames where the namespace was made for them, and sockets elsewhere.
    #[default]
    Auto,
    /// Sockets.
    Sockets,
    /// Frames, written into a TAP device of a namespace, or sent by AF_PACKET.
    Packets,
    /// Frames, sent by AF_XDP, which is faster than AF_PACKET, takes a transmit queue of the interface for each worker and has no stamps.
    PacketsXdp,
}

/// An unknown path.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown path `{0}`: use auto, sockets, packets or packets:xdp")]
pub struct UnknownPath(String);

impl PathChoice {
    /// All choices.
    const ALL: [Self; 4] = [Self::Auto, Self::Sockets, Self::Packets, Self::PacketsXdp];

    /// The word of the command line.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Sockets => "sockets",
            Self::Packets => "packets",
            Self::PacketsXdp => "packets:xdp",
        }
    }

    /// Whether frames are asked for.
    pub const fn is_packets(self) -> bool {
        matches!(self, Self::Packets | Self::PacketsXdp)
    }
}

impl FromStr for PathChoice {
    type Err = UnknownPath;

    fn from_str(word: &str) -> Result<Self, UnknownPath> {
        let found = Self::ALL.into_iter().find(|choice| choice.as_str() == word);
        found.ok_or_else(|| UnknownPath(word.to_owned()))
    }
}

impl fmt::Display for PathChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_paths_are_read_back() {
        for choice in PathChoice::ALL {
            assert_eq!(choice.to_string().parse(), Ok(choice));
        }
        let error = "raw".parse::<PathChoice>().unwrap_err().to_string();
        assert_eq!(error, "unknown path `raw`: use auto, sockets, packets or packets:xdp");
    }
}
