//! Queues of an interface by which frames leave (`ethtool --show-channels`).

use std::ptr;

use super::PacketError;
use super::request::Request;

/// ETHTOOL_GCHANNELS of linux/ethtool.h.
const GET_CHANNELS: u32 = 0x3c;

/// `struct ethtool_channels`, of which the kernel says the present numbers behind the largest.
#[repr(C)]
#[derive(Default)]
struct Channels {
    command: u32,
    largest: [u32; 4],
    receiving: u32,
    transmitting: u32,
    other: u32,
    both: u32,
}

/// How many transmit queues an interface of the calling thread's network namespace has; `None` where its driver does not say. Needs no right.
///
/// # Errors
/// There is no such interface.
pub(super) fn transmit_queues(name: &str) -> Result<Option<u32>, PacketError> {
    let request = Request::new(name)?;
    let mut channels = Channels { command: GET_CHANNELS, ..Channels::default() };
    let union = libc::__c_anonymous_ifr_ifru { ifru_data: ptr::from_mut(&mut channels).cast() };
    // SAFETY: this command of SIOCETHTOOL reads and writes one `struct ethtool_channels`, which lives through the call.
    match unsafe { request.exchange(libc::SIOCETHTOOL, union) } {
        Ok(_) => Ok(Some(channels.transmitting + channels.both).filter(|&queues| queues > 0)),
        Err(error) if error.raw_os_error() == Some(libc::EOPNOTSUPP) => Ok(None),
        Err(error) => Err(request.error("count the queues of a network interface", error)),
    }
}
