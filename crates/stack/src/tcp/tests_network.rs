//! Tests over a simulated network: whatever it does to packets, streams arrive exactly, and everything ends.

use proptest::prelude::*;

use super::Config;
use super::simulation::{Network, Simulation};

fn check(config: Config, network: Network, request: usize, response: usize, clients: usize, nagle: bool) {
    let mut simulation = Simulation::new(config, network);
    for client in 0..clients {
        simulation.open((0..request).map(|at| (at * 7 + client) as u8).collect(), response, nagle);
    }
    simulation.run();
    assert_eq!(simulation.finished.len(), clients);
    let expected: Vec<u8> = (0..response as u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    for (sent, got, client) in &simulation.finished {
        assert_eq!(got, &expected);
        assert_eq!(simulation.got(*client), sent);
    }
    let counts = simulation.tcp.counts();
    assert!(simulation.tcp.is_empty() && simulation.tcp.active() == 0, "{counts:?}");
    assert_eq!((counts.octets_in, counts.established), ((response * clients) as u64, clients as u64));
    assert_eq!(counts.octets_out, (request * clients) as u64);
}

fn network() -> impl Strategy<Value = Network> {
    let bad = (any::<u64>(), 0_u64..30, 0_u64..30, 0_u64..300);
    (bad, 88_usize..1_461, 1_u16.., any::<bool>(), any::<bool>()).prop_map(
        |((seed, loss, twice, delay), mss, window, options, server_closes)| Network {
            seed,
            loss,
            twice,
            delay,
            mss,
            window,
            options,
            server_closes,
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, ..ProptestConfig::default() })]

    #[test]
    fn streams_arrive_exactly_whatever_the_network_does(
        network in network(), request in 0_usize..20_000, response in 0_usize..20_000, clients in 1_usize..4, nagle: bool,
        timestamps: bool, sack: bool, tells_rest: bool,
    ) {
        let network = Network { window: network.window.max(100), ..network };
        // No response and a client that is done at once: its FIN may be first.
        let config = Config {
            timestamps, sack, tells_rest, retransmits: 60, syn_retries: 30, max_rto_ns: 2_000_000_000, ..Config::default()
        };
        check(config, network, request, response.max(1), clients, nagle);
    }
}

#[test]
fn a_good_network_needs_no_retransmission() {
    let network = Network {
        seed: 1,
        loss: 0,
        twice: 0,
        delay: 0,
        mss: 1_460,
        window: 60_000,
        options: true,
        server_closes: false,
    };
    let mut simulation = Simulation::new(Config::default(), network);
    simulation.open(vec![1; 200_000], 200_000, false);
    simulation.run();
    let counts = simulation.tcp.counts();
    assert_eq!((counts.retransmitted, counts.duplicates, counts.out_of_order), (0, 0, 0));
    assert_eq!(simulation.finished.len(), 1);
}

#[test]
fn connections_are_parked_on_the_way_where_that_is_asked_for() {
    let network =
        Network { seed: 1, loss: 0, twice: 0, delay: 50, mss: 500, window: 1_000, options: true, server_closes: false };
    let mut simulation = Simulation::new(Config { tells_rest: true, ..Config::default() }, network);
    (0..3).for_each(|_| simulation.open(vec![1; 3_000], 5_000, false));
    simulation.run();
    assert_eq!(simulation.finished.len(), 3);
    assert!(simulation.parked >= 3, "{}", simulation.parked);
}
