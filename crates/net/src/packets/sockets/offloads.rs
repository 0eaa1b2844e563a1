//! Offloads of an interface: what the kernel leaves to the device, and which frames of a veth pair therefore never get (ethtool(8)).

use std::io;
use std::ptr;

use super::request::Request;
use super::{Offloads, PacketError};

/// `struct ethtool_value`.
#[repr(C)]
struct Value {
    command: u32,
    data: u32,
}

/// Commands of linux/ethtool.h that get and set an offload.
struct Commands {
    get: u32,
    set: u32,
}

const TSO: Commands = Commands { get: 0x1e, set: 0x1f };
const GSO: Commands = Commands { get: 0x23, set: 0x24 };
const GRO: Commands = Commands { get: 0x2b, set: 0x2c };
const TX_CHECKSUM: Commands = Commands { get: 0x16, set: 0x17 };

/// Which offloads an interface of the calling thread's network namespace has on. Needs no right.
///
/// # Errors
/// There is no such interface.
pub fn offloads(name: &str) -> Result<Offloads, PacketError> {
    let request = Request::new(name)?;
    Ok(Offloads {
        tso: is_on(&request, &TSO)?,
        gso: is_on(&request, &GSO)?,
        gro: is_on(&request, &GRO)?,
        tx_checksum: is_on(&request, &TX_CHECKSUM)?,
    })
}

/// Switches off the offloads of an interface of the calling thread's network namespace: what is sent by it has its checksums and keeps
/// to the MTU. Of a veth pair, do it at the end that sends.
///
/// # Errors
/// There is no such interface, it does not let an offload be switched off, or the right is missing (CAP_NET_ADMIN).
pub fn switch_off_offloads(name: &str) -> Result<(), PacketError> {
    let request = Request::new(name)?;
    for commands in [TSO, GSO, GRO, TX_CHECKSUM] {
        // A device that has no such offload refuses even to switch it off.
        if is_on(&request, &commands)? {
            let refused = |error| request.error("switch off the offloads of a network interface", error);
            exchange(&request, commands.set).map_err(refused)?;
        }
    }
    Ok(())
}

fn is_on(request: &Request<'_>, commands: &Commands) -> Result<bool, PacketError> {
    match exchange(request, commands.get) {
        Err(error) if error.raw_os_error() == Some(libc::EOPNOTSUPP) => Ok(false),
        answer => answer
            .map(|data| data != 0)
            .map_err(|error| request.error("read the offloads of a network interface", error)),
    }
}

/// A command with the value 0, and the value that the kernel answers with.
fn exchange(request: &Request<'_>, command: u32) -> io::Result<u32> {
    let mut value = Value { command, data: 0 };
    let union = libc::__c_anonymous_ifr_ifru { ifru_data: ptr::from_mut(&mut value).cast() };
    // SAFETY: these commands of SIOCETHTOOL read and write one `struct ethtool_value`, which lives through the call.
    unsafe { request.exchange(libc::SIOCETHTOOL, union)? };
    Ok(value.data)
}
