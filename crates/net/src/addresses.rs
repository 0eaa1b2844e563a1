//! The addresses of this host, as getifaddrs(3) tells of them.

use std::ffi::CStr;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::ptr;

/// An address of an interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnAddress {
    /// The name of the interface.
    pub interface: String,
    /// The address.
    pub address: IpAddr,
}

/// The addresses of all interfaces in the network namespace of the calling thread, those that are down included.
///
/// # Errors
/// When the process is out of memory or descriptors.
pub fn own() -> io::Result<Vec<OwnAddress>> {
    let mut first = ptr::null_mut();
    // SAFETY: the pointer is to a place for the list's head, which the call writes.
    if unsafe { libc::getifaddrs(&raw mut first) } != 0 {
        return Err(io::Error::last_os_error());
    }
    let mut found = Vec::new();
    let mut next = first;
    // SAFETY: the members of the list are valid until it is freed, and its end is null.
    while let Some(entry) = unsafe { next.as_ref() } {
        // SAFETY: as above; an address is null or of the family that it says.
        if let Some(address) = unsafe { read(entry.ifa_addr) } {
            // SAFETY: the name ends with a NUL.
            let name = unsafe { CStr::from_ptr(entry.ifa_name) };
            found.push(OwnAddress { interface: name.to_string_lossy().into_owned(), address });
        }
        next = entry.ifa_next;
    }
    // SAFETY: this is the list, to which nothing points any more.
    unsafe { libc::freeifaddrs(first) };
    Ok(found)
}

/// The address at a pointer; `None` if there is none, or one of another family.
///
/// # Safety
/// The pointer must be null, or point to an address of the family that it says.
unsafe fn read(address: *const libc::sockaddr) -> Option<IpAddr> {
    if address.is_null() {
        return None;
    }
    // SAFETY: the caller vouches for the type that the family stands for; no alignment is asked for.
    unsafe {
        match i32::from((&raw const (*address).sa_family).read_unaligned()) {
            libc::AF_INET => {
                let v4 = address.cast::<libc::sockaddr_in>().read_unaligned();
                Some(Ipv4Addr::from_bits(u32::from_be(v4.sin_addr.s_addr)).into())
            }
            libc::AF_INET6 => {
                let v6 = address.cast::<libc::sockaddr_in6>().read_unaligned();
                Some(Ipv6Addr::from(v6.sin6_addr.s6_addr).into())
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::namespace::Namespace;
    use crate::netlink::{LOOPBACK, Netlink};

    #[test]
    fn addresses_of_both_families_are_those_of_the_namespace_with_their_interface() {
        let given: [IpAddr; 2] = ["203.0.113.7", "2001:db8::7"].map(|address| address.parse().unwrap());
        let namespace = Namespace::create().unwrap();
        let found = namespace.run(|| {
            let netlink = Netlink::open().unwrap();
            netlink.loopback_up().unwrap();
            given.iter().for_each(|&address| netlink.add_address(LOOPBACK, address).unwrap());
            own().unwrap()
        });
        let found = found.unwrap();
        for address in given {
            assert!(found.contains(&OwnAddress { interface: "lo".to_owned(), address }), "{found:?}");
        }
        assert!(own().unwrap().iter().all(|own| !given.contains(&own.address)), "not those of this namespace");
    }
}
