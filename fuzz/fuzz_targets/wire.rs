//! Packets of hosts on the wire: any octets are delivered, delayed, or dropped for a reason, through links and proxies.
#![no_main]

use ldplayer_emulate::wire::{Fate, Host, HostId, LinkSpec, Settings, Wire, WirePath};
use libfuzzer_sys::fuzz_target;

fn host(name: &str, block: &str) -> Host {
    // The blocks below are blocks.
    Host { name: name.to_owned(), owns: vec![block.parse().expect("a block")], learns: true }
}

fuzz_target!(|packets: Vec<&[u8]>| {
    // It is a time.
    let link = LinkSpec { rtt: "1ms".parse().expect("a time"), ..LinkSpec::default() };
    let hosts = vec![host("a", "192.0.2.0/24"), host("b", "2001:db8::/32"), host("c", "0.0.0.0/0")];
    let paths = vec![WirePath { far: HostId(0), near: HostId(1), link }];
    let mut wire = Wire::new(&Settings { hosts, paths, waiting: 64, flows: 64, ..Settings::default() });
    let mut sent = 0;
    for (packet, now) in packets.iter().zip(0..) {
        let mut packet = packet.to_vec();
        sent += 1;
        if wire.handle_packet(now, HostId((now % 3) as u8), &mut packet) == Fate::Wait {
            assert!(wire.poll_timeout().is_some());
        }
    }
    while wire.poll_transmit(i64::MAX / 2).is_some() {}
    assert!(wire.counts().delivered() <= sent);
});
