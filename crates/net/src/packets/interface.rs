//! Network interfaces by name.

use super::{PacketError, sockets};

/// An interface that frames are sent and received on, as it was when it was looked up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interface {
    /// Its name.
    pub name: String,
    /// Its number in the network namespace.
    pub index: u32,
    /// Its hardware address; zeros where it is not Ethernet.
    pub mac: [u8; 6],
    /// Octets of the longest packet in a frame; 65,535 where it is more.
    pub mtu: u16,
    /// Whether it is up.
    pub is_up: bool,
    /// Whether its frames are of Ethernet (ARPHRD_ETHER).
    pub is_ethernet: bool,
}

impl Interface {
    /// Looks up an interface of the network namespace of the calling thread. Needs no right.
    ///
    /// # Errors
    /// There is no interface of that name.
    pub fn find(name: &str) -> Result<Self, PacketError> {
        sockets::look_up(name)
    }

    /// Makes sure that frames can be sent and received on it now.
    ///
    /// # Errors
    /// It is gone, down or not Ethernet.
    pub fn check(&self) -> Result<(), PacketError> {
        let name = || self.name.clone();
        match self {
            Self { is_ethernet: false, .. } => Err(PacketError::NotEthernet { name: name() }),
            // It may have come up since it was looked up.
            _ if !Self::find(&self.name)?.is_up => Err(PacketError::Down { name: name() }),
            _ => Ok(()),
        }
    }
}
