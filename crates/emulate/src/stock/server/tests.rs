//! Tests of configurations.

use super::*;

const NAMES: [&str; 2] = ["127.0.0.1:5300", "[::1]:5301"];

fn listen() -> [SocketAddr; 2] {
    NAMES.map(|address| address.parse().unwrap())
}

fn text(kind: Kind, zones: &[Zone], settings: StockSettings) -> Result<String, StockError> {
    let tls = Tls {
        listen: vec!["127.0.0.1:853".parse().unwrap(), "[::1]:853".parse().unwrap()],
        certificate: "/c.pem".into(),
        key: "/k.pem".into(),
    };
    let settings = StockSettings { tls: Some(tls), backends: vec!["127.0.0.1:5353".parse().unwrap()], ..settings };
    StockServer { kind, zones: zones.to_vec(), settings }.configuration(Path::new("/srv"), &listen())
}

/// Lines of each configuration with the settings of the test below.
const WANTED: [(Kind, &[&str]); 9] = [
    (Kind::NSD, &["ip-address: ::1@5301", "::1@853", "server-count: 3", "tcp-timeout: 3", "name: \"example.\""]),
    (
        Kind::BIND,
        &[
            "listen-on-v6 port 5301 { ::1; };",
            "port 853 tls experiment { 127.0.0.1; };",
            "port 443 tls experiment http default { ::1; };",
            "tcp-idle-timeout 25;",
            "tcp-clients 80;",
            "zone \"example.\"",
            "\"/zones/example.zone\"",
        ],
    ),
    (Kind::KNOT, &["listen: ::1@5301", "tcp-idle-timeout: 3", "- domain: \"example.\"", "tcp-max-clients: 80"]),
    (
        Kind::UNBOUND,
        &[
            "interface: ::1@853",
            "msg-cache-size: 1048576",
            "incoming-num-tcp: 5",
            "qname-minimisation: no",
            "do-ip6: no",
            "interface: 127.0.0.1@5300",
            "module-config: \"iterator\"",
        ],
    ),
    (
        Kind::BIND_RESOLVER,
        &[
            "listen-on port 5300 { 127.0.0.1; };",
            "listen-on-v6 port 853 tls experiment { ::1; };",
            "max-cache-size 1048576;",
            "tcp-clients 80;",
            "qname-minimization off;",
            "server ::/0 { bogus yes; };",
            "dnssec-validation no;",
        ],
    ),
    (
        Kind::KNOT_RESOLVER,
        &[
            "cache.open(1048576, 'lmdb://.')",
            "net.listen('::1', 853, { kind = 'tls' })",
            "option('NO_MINIMIZE', true)",
            "net.ipv6 = false",
            "trust_anchors.remove('.')",
        ],
    ),
    (Kind::POWERDNS, &["local-address=127.0.0.1:5300, [::1]:5301", "receiver-threads=3"]),
    (
        Kind::PDNS_RECURSOR,
        &[
            "local-address=127.0.0.1:5300,[::1]:5301",
            "client-tcp-timeout=3",
            "qname-minimization=no",
            "query-local-address=0.0.0.0\n",
            "dnssec=process-no-validate",
        ],
    ),
    (
        Kind::DNSDIST,
        &[
            "setTCPRecvTimeout(3)",
            "addLocal('[::1]:5301')",
            "addTLSLocal('[::1]:853', \"/c.pem\", \"/k.pem\")",
            "newServer({ address = '127.0.0.1:5353'",
        ],
    ),
];

#[test]
fn every_template_says_where_it_listens_and_what_it_is_told() {
    let zones = [Zone::new("example.", "/zones/example.zone")];
    for (kind, wanted) in WANTED {
        let settings = StockSettings {
            threads: 3,
            cache: Some(1 << 20),
            idle_timeout: Some(Span::from_ns(2_500_000_000)),
            connections: Some(80),
            qname_minimisation: false,
            ipv6: false,
            extra: "the last line".to_owned(),
            ..StockSettings::default()
        };
        let text = text(kind, &zones, settings).unwrap();
        for line in wanted {
            assert!(text.contains(line), "{line} is not in {text}");
        }
        assert!(text.ends_with("\nthe last line\n"), "{text}");
    }
}

#[test]
fn what_is_not_told_is_the_servers_own() {
    for kind in Kind::ALL.into_iter().filter(|kind| kind.has_template()) {
        let text = kind.head(Path::new("/srv"), &listen()).unwrap();
        for word in ["tcp-clients", "tcp-max-clients", "tcp-count", "incoming-num-tcp", "timeout", "max-tcp", "853"] {
            assert!(!text.to_lowercase().contains(word), "{word} is in {text}");
        }
    }
}

#[test]
fn without_a_trust_anchor_nothing_validates() {
    for (kind, wanted) in [
        (Kind::UNBOUND, "module-config: \"validator iterator\""),
        (Kind::KNOT_RESOLVER, "trust_anchors.add_file("),
        (Kind::PDNS_RECURSOR, "dnssec=validate"),
        (Kind::BIND_RESOLVER, "dnssec-validation yes;"),
    ] {
        let with = |trust_anchor| text(kind, &[], StockSettings { trust_anchor, ..StockSettings::default() }).unwrap();
        assert!(!with(None).contains(wanted));
        assert!(with(Some("Cargo.toml".into())).contains(wanted), "{kind}");
    }
}

#[test]
fn a_family_without_an_address_is_not_listened_on() {
    let text = Kind::BIND.head(Path::new("."), &["[::1]:53".parse().unwrap()]).unwrap();
    assert!(text.contains("listen-on { none; };") && text.contains("listen-on-v6 port 53 { ::1; };"), "{text}");
}

#[test]
fn a_complete_configuration_is_taken_as_it_is() {
    let bind = Kind::BIND.configured("view \"{{ a }}\" { };", Vec::new());
    assert_eq!(bind.configuration(Path::new("/srv"), &[]).unwrap(), "view \"{{ a }}\" { };");
}

#[test]
fn neither_a_path_nor_a_name_can_add_options() {
    for zone in [Zone::new(".", "x\"\nserver: chroot: \""), Zone::new("a\"; file \"b", "x")] {
        for kind in [Kind::NSD, Kind::BIND, Kind::KNOT, Kind::POWERDNS] {
            let error = text(kind, std::slice::from_ref(&zone), StockSettings::default()).unwrap_err();
            assert!(matches!(error, StockError::Unquotable(_)), "{error}");
        }
    }
}

#[test]
fn a_template_of_the_user_is_taken_and_its_errors_are_told_on_one_line() {
    let own = |template: &str| {
        let template = Some(("mine.conf".to_owned(), template.to_owned()));
        text(Kind::NSD, &[], StockSettings { template, ..StockSettings::default() })
    };
    assert_eq!(own("{{ threads }} on {{ listen[0].address }}").unwrap(), "1 on 127.0.0.1:5300\n");
    for wrong in ["{{ thread }}", "{% if %}"] {
        let error = own(wrong).unwrap_err().to_string();
        assert!(error.contains("mine.conf: ") && !error.contains('\n'), "{error}");
    }
}

#[test]
fn lists_are_texts_by_themselves_and_a_command_has_its_words() {
    let zones = [Zone::new("example.", "/zones/example.zone"), Zone::new("test.", "/zones/test.zone")];
    let template = "{{ listen }} {{ port }} {{ zones }} {{ dir }} {{ config }} {{ upstream }} {{ threads }} {{ certificate }} {{ key }}";
    let template = Some((String::new(), template.to_owned()));
    let settings = StockSettings { template, threads: 2, ..StockSettings::default() };
    let words = "127.0.0.1,::1 5300 /zones /srv /srv/config 127.0.0.1:5353 2 /c.pem /k.pem\n";
    assert_eq!(text(Kind::COMMAND, &zones, settings).unwrap(), words);
    for (word, ready) in [("example.", Ready::Name("example.".into())), ("log: up", Ready::Log("up".into()))] {
        assert_eq!(word.parse(), Ok(ready));
    }
    assert!("a..b".parse::<Ready>().unwrap_err().contains("or log:TEXT"));
}

#[test]
fn a_file_that_is_not_there_or_cannot_be_named_is_told() {
    for kind in Kind::resolvers() {
        for file in ["no/such.file", "a\"b"] {
            let settings = StockSettings { root_hints: Some(file.into()), ..StockSettings::default() };
            let error = kind.with(settings).configuration(Path::new("/srv"), &[]).unwrap_err().to_string();
            assert!(error.contains("No such file") && error.contains(file), "{error}");
        }
    }
}

#[test]
fn a_zone_that_is_not_there_or_none_is_told_before_anything_starts() {
    let told = |zone| Kind::NSD.serving(vec![zone]).start(&[]).unwrap_err().to_string();
    let missing = told(Zone::new(".", "no/such.zone"));
    assert!(missing.starts_with("no/such.zone: No such file"), "{missing}");
    let name = told(Zone::new("a..b", "Cargo.toml"));
    assert!(name.starts_with("zone \"a..b\": "), "{name}");
}
