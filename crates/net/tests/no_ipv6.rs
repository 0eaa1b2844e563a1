//! A testbed on a machine without IPv6: IPv4 works in it as ever.

use std::io;
use std::net::UdpSocket;

use ldplayer_net::netns::{Testbed, has_any_ip};
use ldplayer_net::settings::has_ipv6;

/// Makes the kernel answer every request for an IPv6 socket as if it had been started with `ipv6.disable=1`.
fn forbid_ipv6() -> io::Result<()> {
    const LOAD: u16 = (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16;
    const EQUAL: u16 = (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16;
    const RETURN: u16 = (libc::BPF_RET | libc::BPF_K) as u16;
    // Of `struct seccomp_data`: the number of the call, and the lower half of its first argument.
    const NUMBER: u32 = 0;
    const FAMILY: u32 = if cfg!(target_endian = "little") { 16 } else { 20 };
    let step = |code, jt, jf, k| libc::sock_filter { code, jt, jf, k };
    let mut program = [
        step(LOAD, 0, 0, NUMBER),
        step(EQUAL, 0, 3, libc::SYS_socket as u32),
        step(LOAD, 0, 0, FAMILY),
        step(EQUAL, 0, 1, libc::AF_INET6 as u32),
        step(RETURN, 0, 0, libc::SECCOMP_RET_ERRNO | libc::EAFNOSUPPORT as u32),
        step(RETURN, 0, 0, libc::SECCOMP_RET_ALLOW),
    ];
    let filter = libc::sock_fprog { len: program.len() as u16, filter: program.as_mut_ptr() };
    // SAFETY: the filter and its program live through the call, which copies them.
    let status = unsafe {
        libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
        libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const filter)
    };
    if status == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// No harness: a user namespace is only given to a process of one thread.
fn main() {
    forbid_ipv6().unwrap();
    assert!(!has_ipv6());
    Testbed::enter().unwrap();
    assert!(has_any_ip());
    let server = UdpSocket::bind("203.0.113.9:53").unwrap();
    let client = UdpSocket::bind("198.51.100.7:0").unwrap();
    client.send_to(b"x", "203.0.113.9:53").unwrap();
    assert_eq!(server.recv_from(&mut [0; 2]).unwrap(), (1, client.local_addr().unwrap()));
}
