//! Which worker, thread or host, owns a client: one function for all of them.

use std::net::IpAddr;

/// The shard that owns `client`, in `0..shards`; 0 when there is but one.
///
/// Stable across versions, machines and runs: traces split by one release replay on another.
pub fn shard(client: IpAddr, shards: usize) -> usize {
    if shards <= 1 {
        return 0;
    }
    // Multiply-shift instead of a remainder: even for any count, and without a division.
    ((u128::from(client_hash(client)) * shards as u128) >> 64) as usize
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

fn mix(value: u64) -> u64 {
    let value = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
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
    fn the_mapping_never_changes() {
        assert_eq!(shard(Ipv4Addr::new(192, 0, 2, 1).into(), 64), 37);
        assert_eq!(shard(Ipv6Addr::LOCALHOST.into(), 64), 2);
        assert_eq!(shard(Ipv6Addr::LOCALHOST.into(), 1), 0);
    }
}
