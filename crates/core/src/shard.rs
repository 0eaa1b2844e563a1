//! Maps clients to shards, by one function for worker threads and hosts.

use std::net::IpAddr;

use crate::random::mix;

/// The shard that owns `client`, in `0..shards`; 0 when there is but one.
///
/// Stable across versions, machines and runs: traces split by one release replay on another.
///
/// It nests: a shard is the part of all hashes that begins with its number, so that `shard(c, n * m) / m` is `shard(c, n)`.
/// With `n` hosts of `m` workers each, host and worker of a client are the quotient and the remainder of one number, and either
/// division is as even as the whole. (The same function of the client for the hosts and then again for the workers of each
/// would put all clients of a host on one of its workers.)
pub fn shard(client: IpAddr, shards: usize) -> usize {
    if shards <= 1 {
        return 0;
    }
    // Multiply-shift instead of a remainder: even for any count, and without a division.
    ((u128::from(client_hash(client)) * shards as u128) >> 64) as usize
}

/// The shards that one host plays, one for each of its workers, with consecutive numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shards {
    /// The shard of its first worker.
    pub first: usize,
    /// The shards of all hosts together: at least one more than any number of a shard.
    pub total: usize,
}

impl Shards {
    /// Those of a host that is alone and has so many workers.
    pub const fn all(workers: usize) -> Self {
        Self { first: 0, total: workers }
    }

    /// Whether a host with so many workers plays all shards.
    pub const fn is_whole(self, workers: usize) -> bool {
        self.first == 0 && self.total <= workers
    }

    /// Which of the host's `workers` workers owns a client; `None` when that is one of another host.
    pub fn worker(self, client: IpAddr, workers: usize) -> Option<usize> {
        shard(client, self.total).checked_sub(self.first).filter(|&worker| worker < workers)
    }
}

/// A stable 64-bit hash of a client's address (the finalizer of splitmix64 over both halves).
pub fn client_hash(client: IpAddr) -> u64 {
    match client {
        IpAddr::V4(v4) => mix(u64::from(v4.to_bits())),
        IpAddr::V6(v6) => {
            let bits = v6.to_bits();
            mix(mix((bits >> 64) as u64) ^ bits as u64)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{Ipv4Addr, Ipv6Addr};

    #[test]
    fn shards_are_even_and_in_range() {
        let mut counts = [0usize; 7];
        for host in 0..70_000u32 {
            counts[shard(IpAddr::V4(Ipv4Addr::from_bits(0x0a00_0000 + host)), 7)] += 1;
        }
        assert!(counts.iter().all(|&count| (9_500..10_500).contains(&count)), "{counts:?}");
    }

    #[test]
    fn hosts_and_their_workers_share_the_clients_evenly() {
        for (hosts, workers) in [(4, 4), (3, 5)] {
            let mut counts = vec![0_usize; hosts * workers];
            for host in 0..100_000_u32 {
                let client = IpAddr::V4(Ipv4Addr::from_bits(0x0a00_0000 + host));
                let global = shard(client, hosts * workers);
                assert_eq!(global / workers, shard(client, hosts), "the host is the same whoever asks");
                let shards = Shards { first: global / workers * workers, total: hosts * workers };
                assert_eq!(shards.worker(client, workers), Some(global % workers));
                let other = Shards { first: (global / workers + 1) % hosts * workers, ..shards };
                assert_eq!(other.worker(client, workers), None);
                counts[global] += 1;
            }
            let even = 100_000 / counts.len();
            assert!(counts.iter().all(|&count| count.abs_diff(even) < even / 10), "{counts:?}");
        }
    }

    #[test]
    fn the_mapping_never_changes() {
        assert_eq!(shard(Ipv4Addr::new(192, 0, 2, 1).into(), 64), 37);
        assert_eq!(shard(Ipv6Addr::LOCALHOST.into(), 64), 2);
        assert_eq!(shard(Ipv6Addr::LOCALHOST.into(), 1), 0);
    }
}
