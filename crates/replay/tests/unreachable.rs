//! A host without a way to the server: every query fails for that reason, and the run ends.

mod common;

use ldplayer_core::Transport;
use ldplayer_net::namespace::Namespace;
use ldplayer_replay::{Monitor, Settings, Sources, TlsSettings, TlsTrust};

use common::{queries, replay, settings, tally};

#[test]
fn queries_without_a_way_to_their_server_fail_and_do_not_hold_up_others() {
    // Not even its loopback interface is up.
    let nowhere = Namespace::create().unwrap();
    for sources in [Sources::Ports, Sources::Pool(vec!["127.9.0.0/16".parse().unwrap()])] {
        let ca = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/ca.pem");
        let tls = TlsSettings { trust: TlsTrust::from_file(ca.as_ref()).unwrap(), name: None, resumption: true };
        let settings = Settings { sources, tls: Some(tls), ..settings("192.0.2.1:53".parse().unwrap()) };
        let transports =
            [Transport::Udp, Transport::Tcp, Transport::Dot, Transport::Doq, Transport::Doh2, Transport::Doh3];
        let mut trace = queries(600, 10_000);
        trace.iter_mut().zip(transports.into_iter().cycle()).for_each(|(query, transport)| query.transport = transport);
        let monitor = Monitor::new(settings.workers);
        let rows = nowhere.run(|| replay(&settings, trace, &monitor)).unwrap();
        assert_eq!(tally(&rows), [(("connect_failed".into(), Some("unreachable")), 600)].into());
    }
}
