//! Which port stands for which socket, where there are no sockets.
//!
//! Clients share ports as they share sockets of the kernel, each from its own address. A worker has the ports whose remainder by the
//! number of workers is its own number, by which the kernel knows whose a frame is.

use crate::route::{SHARED_SOCKETS, SocketKey};
use crate::sockets::Carries;

/// The first port. Those below the kernel's usual range are left to servers.
const FIRST: u16 = 16_384;
/// Ports of a worker for DNS, and again as many for QUIC.
const EACH: u16 = 2 * SHARED_SOCKETS as u16;

/// The ports of a worker.
#[derive(Clone, Copy, Debug)]
pub struct Ports {
    first: u16,
    step: u16,
}

impl Ports {
    /// Workers that can have ports of their own.
    pub const MOST_WORKERS: u16 = (u16::MAX - FIRST) / (2 * EACH) - 1;

    /// The ports of one worker out of so many, [`Self::MOST_WORKERS`] at most.
    pub fn of_worker(worker: u16, workers: u16) -> Self {
        let step = workers.clamp(1, Self::MOST_WORKERS);
        Self { first: FIRST.next_multiple_of(step) + worker % step, step }
    }

    /// The port of a shared socket; `None` for the socket of a single client.
    pub fn of(self, key: SocketKey, carries: Carries) -> Option<u16> {
        let SocketKey::Shared { .. } = key else { return None };
        let place = key.index() as u16 + if carries == Carries::Dns { 0 } else { EACH };
        Some(self.first + place * self.step)
    }

    /// The socket that a port stands for, and whether it carries QUIC; `None` for a port of no client of this worker.
    pub fn socket(self, port: u16) -> Option<(SocketKey, bool)> {
        let offset = port.checked_sub(self.first)?;
        let place = offset / self.step;
        if !offset.is_multiple_of(self.step) || place >= 2 * EACH {
            return None;
        }
        let index = u32::from(place % EACH);
        Some((SocketKey::Shared { v6: index % 2 == 1, number: index / 2 }, place >= EACH))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys() -> impl Iterator<Item = SocketKey> {
        (0..SHARED_SOCKETS).flat_map(|number| [false, true].map(|v6| SocketKey::Shared { v6, number }))
    }

    #[test]
    fn a_port_leads_back_to_its_socket_and_to_its_worker_alone() {
        for workers in [1, 2, 3, 7, 64, Ports::MOST_WORKERS] {
            let mut seen = std::collections::HashSet::new();
            for worker in 0..workers {
                let ports = Ports::of_worker(worker, workers);
                for (key, carries) in keys().flat_map(|key| [(key, Carries::Dns), (key, Carries::Quic(853))]) {
                    let port = ports.of(key, carries).unwrap();
                    assert_eq!(ports.socket(port), Some((key, carries != Carries::Dns)));
                    assert!(
                        seen.insert(port) && port % workers == worker && port >= FIRST,
                        "{worker} of {workers}: {port}"
                    );
                    let other = Ports::of_worker((worker + 1) % workers, workers);
                    assert!(workers == 1 || other.socket(port).is_none());
                }
            }
        }
    }

    #[test]
    fn other_ports_are_no_sockets() {
        let ports = Ports::of_worker(1, 2);
        for port in [
            0,
            53,
            FIRST,
            FIRST + 2,
            ports.of(SocketKey::Shared { v6: true, number: 31 }, Carries::Quic(1)).unwrap() + 2,
        ] {
            assert_eq!(ports.socket(port), None, "{port}");
        }
        assert_eq!(ports.of(SocketKey::Own(7), Carries::Dns), None);
    }
}
