//! Testbeds and what their wires have done, in words.

use std::io::{self, Write};

use ldplayer_core::text::counted;
use ldplayer_emulate::testbed::{HostState, Report, State};
use serde_json::{Value, json};

/// A line for each host.
pub fn hosts(out: &mut impl Write, state: &State) -> io::Result<()> {
    let how = if state.rootless { ", in a user namespace" } else { "" };
    writeln!(out, "testbed {} is up, held by process {}{how}", state.name, state.holder())?;
    for host in &state.hosts {
        writeln!(out, "  {:10} {}", host.name, addresses(host).join(" "))?;
    }
    Ok(())
}

/// The hosts for programs.
pub fn hosts_json(state: &State) -> Value {
    state.hosts.iter().map(|host| json!({ "name": host.name, "addresses": host.addresses })).collect()
}

/// What the wire has done.
pub fn report(out: &mut impl Write, report: &Report) -> io::Result<()> {
    let wire = &report.wire;
    writeln!(out, "{:10} {:>12} {:>14} {:>12} {:>14} {:>8}", "host", "sent", "bytes", "delivered", "bytes", "unread")?;
    for (host, unread) in wire.hosts.iter().zip(&report.unread) {
        let (sent, delivered) = (host.sent, host.delivered);
        writeln!(
            out,
            "{:10} {:>12} {:>14} {:>12} {:>14} {unread:>8}",
            host.host, sent.packets, sent.bytes, delivered.packets, delivered.bytes
        )?;
    }
    let retransmissions = (wire.tcp_segments, wire.tcp_retransmissions);
    writeln!(
        out,
        "on their way {} · TCP segments {}, retransmissions {} · fragments {} · rewritten {}",
        wire.waiting, retransmissions.0, retransmissions.1, wire.fragments, wire.rewritten
    )?;
    writeln!(out, "dropped {}{}", wire.dropped.total(), reasons(report))?;
    for leak in &wire.leaks {
        let port = leak.port.map_or(String::new(), |port| format!(" port {port}"));
        writeln!(
            out,
            "leak: {} to {} protocol {}{port}: {}, the first from {}",
            leak.host,
            leak.destination,
            leak.protocol,
            counted(leak.count, "packet", "packets"),
            leak.source
        )?;
    }
    Ok(())
}

/// The reasons that there were.
fn reasons(report: &Report) -> String {
    let dropped = report.wire.dropped;
    let reasons = [
        ("lost by the link", dropped.lost),
        ("queue full", dropped.queue_full),
        ("wire full", dropped.wire_full),
        ("malformed", dropped.malformed),
        ("leaks", dropped.leaked),
        ("link-local or multicast", dropped.link_local),
        ("unknown to the proxies", dropped.unmapped),
        ("refused by the host", dropped.refused),
    ];
    let told: Vec<String> =
        reasons.iter().filter(|(_, count)| *count > 0).map(|(reason, count)| format!("{reason} {count}")).collect();
    if told.is_empty() { String::new() } else { format!(": {}", told.join(", ")) }
}

fn addresses(host: &HostState) -> Vec<String> {
    host.addresses.iter().map(ToString::to_string).collect()
}
