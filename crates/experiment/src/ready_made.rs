//! Servers that come as files of `data/servers`: commands that a `kind` may name.

const ALL: [(&str, &str); 3] = [
    ("coredns", include_str!("../../../data/servers/coredns.toml")),
    ("dnsmasq", include_str!("../../../data/servers/dnsmasq.toml")),
    ("dnsproxy", include_str!("../../../data/servers/dnsproxy.toml")),
];

/// The keys of a server, as a file has them.
pub(crate) fn find(name: &str) -> Option<&'static str> {
    ALL.iter().find(|(known, _)| *known == name).map(|(_, text)| *text)
}

/// The names of all.
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    ALL.iter().map(|(name, _)| *name)
}
