//! What a testbed shall be like, as the user says.

use std::net::IpAddr;
use std::path::PathBuf;

use ldplayer_core::Cidr;
use ldplayer_emulate::testbed::{CLIENTS, INTERNET, Plan, RESOLVER};
use ldplayer_emulate::wire::{Precision, ProxySettings, WirePath};
use ldplayer_link::{Jitter, LinkSpec, Loss, Rate, Rtt};

/// Options of `testbed up` that make a plan.
#[derive(clap::Args)]
pub struct Options {
    /// Round-trip time of each client: 20ms, normal:20ms,5ms, uniform:10ms,30ms, lognormal:20ms,0.5, pareto:10ms,2,
    /// or FILE.csv with lines `prefix,ms`
    #[arg(long, value_name = "SPEC", default_value = "0ms")]
    rtt: Rtt,
    /// Jitter: 2ms (up to 2 ms more or less), or a distribution as for --rtt; `,reorder` lets packets overtake each
    /// other
    #[arg(long, value_name = "SPEC")]
    jitter: Option<Jitter>,
    /// Packet loss in each direction: 1%, or ge:P,R[,LOSS-IN-BAD[,LOSS-IN-GOOD]] for bursts (Gilbert-Elliott)
    #[arg(long, value_name = "P")]
    loss: Option<Loss>,
    /// Bandwidth of each client in each direction: 10Mbit, or with the length of its queue: 10Mbit,50ms
    #[arg(long, alias = "rate", value_name = "SPEC")]
    bandwidth: Option<Rate>,
    /// Round-trip time between resolver and Internet, per server
    #[arg(long, value_name = "SPEC", default_value = "0ms")]
    upstream_rtt: Rtt,
    /// Jitter between resolver and Internet
    #[arg(long, value_name = "SPEC")]
    upstream_jitter: Option<Jitter>,
    /// Packet loss between resolver and Internet
    #[arg(long, value_name = "P")]
    upstream_loss: Option<Loss>,
    /// Addresses that the Internet owns besides those of --zones [default: those for documentation and benchmarks]; a
    /// packet to any other is a leak
    #[arg(long, value_name = "CIDR,...", value_delimiter = ',')]
    internet: Vec<Cidr>,
    /// Rewrite addresses between resolver and Internet as the paper's two proxies do, towards a server on 10.53.0.3 and fd53::3
    #[arg(long)]
    proxies: bool,
    /// Seed of every random choice
    #[arg(long, value_name = "N", default_value = "0", hide_short_help = true)]
    seed: u64,
    /// MTU in bytes
    #[arg(long, value_name = "N", default_value = "1500", value_parser = clap::value_parser!(u16).range(1280..), hide_short_help = true)]
    mtu: u16,
    /// Processor time spent on precise delays: low, normal or high
    #[arg(long, default_value = "normal", hide_short_help = true)]
    precision: Precision,
    /// Pin the wire to this core
    #[arg(long, value_name = "N", hide_short_help = true)]
    core: Option<usize>,
    /// Write every delivered packet to this capture (pcap with nanoseconds)
    #[arg(long, value_name = "FILE")]
    capture: Option<PathBuf>,
}

impl Options {
    /// Whether addresses are rewritten.
    pub const fn has_proxies(&self) -> bool {
        self.proxies
    }

    /// The seed of random choices.
    pub const fn seed(&self) -> u64 {
        self.seed
    }

    /// The plan of a testbed whose Internet has these name servers, if any.
    pub fn plan(&self, name_servers: Option<&[IpAddr]>) -> Plan {
        let mut plan = Plan {
            seed: self.seed,
            mtu: self.mtu,
            precision: self.precision,
            core: self.core,
            capture: self.capture.clone(),
            ..Plan::default()
        };
        let Self { rtt, jitter, loss, bandwidth, .. } = self;
        let clients = LinkSpec { rtt: rtt.clone(), jitter: *jitter, loss: *loss, rate: *bandwidth };
        let Self { upstream_rtt, upstream_jitter, upstream_loss, .. } = self;
        let upstream =
            LinkSpec { rtt: upstream_rtt.clone(), jitter: *upstream_jitter, loss: *upstream_loss, rate: None };
        plan.paths = vec![
            WirePath { far: CLIENTS, near: RESOLVER, link: clients.clone() },
            WirePath { far: CLIENTS, near: INTERNET, link: clients },
            WirePath { far: INTERNET, near: RESOLVER, link: upstream },
        ];
        let internet = &mut plan.hosts[usize::from(INTERNET.0)];
        if !self.internet.is_empty() || name_servers.is_some() {
            internet.owns.clone_from(&self.internet);
        }
        // A single address reads as a block of its own.
        let blocks = name_servers.into_iter().flatten().filter_map(|address| address.to_string().parse().ok());
        internet.owns.extend::<Vec<Cidr>>(blocks.collect());
        let peers = internet.addresses.clone();
        plan.proxies = self.proxies.then_some(ProxySettings { resolver: RESOLVER, server: INTERNET, peers, port: 53 });
        plan
    }
}
