//! What ICMP says of segments of ours (RFC 5927, RFC 1191, RFC 8201).

use std::net::SocketAddr;

use super::connection::State;
use super::opening::is_in_flight;
use super::{Failure, Tcp};
use crate::frame::{IcmpError, IcmpKind, ip};

impl Tcp {
    /// Handles an error about a packet of ours; others than of TCP are passed over.
    pub fn handle_icmp(&mut self, error: &IcmpError<'_>) {
        let quoted = &error.quoted;
        if quoted.protocol != ip::TCP {
            return;
        }
        let (local, server, sequence) = (quoted.source, quoted.destination, quoted.sequence);
        match error.kind {
            IcmpKind::PortUnreachable => self.handle_unreachable(local, server, sequence, Failure::Refused),
            IcmpKind::Unreachable(_) | IcmpKind::TimeExceeded => {
                self.handle_unreachable(local, server, sequence, Failure::Unreachable);
            }
            IcmpKind::TooBig(mtu) => self.handle_too_big(local, server, sequence, mtu),
        }
    }

    /// A segment from `local` to `server` that begins at `sequence` did not get there. That is the end of a connection that
    /// is being opened, and is remembered of others, whose `failure` is this if they time out (RFC 5927 section 5).
    pub fn handle_unreachable(&mut self, local: SocketAddr, server: SocketAddr, sequence: u32, failure: Failure) {
        let Some(slot) = self.in_flight(local, server, sequence) else { return };
        if self.connections[slot].state() == State::SynSent {
            return self.fail(slot, failure);
        }
        self.counts.soft_errors += 1;
        if let Some(place) = self.place(slot) {
            self.actives[place].is_unreachable = true;
        }
    }

    /// A segment from `local` to `server` that begins at `sequence` was too long for a link of `mtu` octets. The MTU counts for
    /// all connections to the server that are opened from now on, and what this one has in flight is sent again.
    pub fn handle_too_big(&mut self, local: SocketAddr, server: SocketAddr, sequence: u32, mtu: u32) {
        let Some(slot) = self.in_flight(local, server, sequence) else { return };
        let number = self.connections[slot].server;
        if self.servers.get_mut(number).lower_mtu(mtu) {
            self.counts.mtu_lowered += 1;
        }
        let before = self.connections[slot].mss;
        self.fit_to_path(slot);
        let Some(place) = self.place(slot) else { return };
        if self.connections[slot].mss < before && self.connections[slot].state() != State::SynSent {
            let active = &mut self.actives[place];
            self.connections[slot].sent = active.unacknowledged;
            (active.recover, active.resend_due, active.timed) = (None, false, None);
            self.queue(place);
        }
    }

    /// The connection that has `sequence` in flight; anything else is old or forged (RFC 5927 section 4.1).
    fn in_flight(&mut self, local: SocketAddr, server: SocketAddr, sequence: u32) -> Option<u32> {
        let slot = self.find(local, server);
        let place = slot.and_then(|slot| self.place(slot));
        let active = place.map(|place| &self.actives[place]);
        if active.is_none_or(|active| !is_in_flight(sequence, active.unacknowledged, active.highest)) {
            self.counts.errors_ignored += 1;
            return None;
        }
        slot
    }
}
