//! A made-up hierarchy below a real root zone: all names that a capture asks for exist, with data that nobody ever had.
//!
//! Each top-level domain asked for that the root zone delegates becomes a zone on the name servers that it really has; each
//! second-level domain a zone on a server of its own. Addresses are from the blocks for documentation and benchmarks
//! (RFC 5737, RFC 2544, RFC 3849), which no host has.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::Path;

use anyhow::Context;
use ldplayer_core::message::Message;
use ldplayer_core::name::{Presentation, labels};
use ldplayer_net::output;
use ldplayer_trace::{Input, OpenOptions, open};
use ldplayer_zone::{Zone, load, rtype};

/// The head of a made-up zone, behind its apex.
const SOA: &str = "3600 SOA ns.made-up.invalid. hostmaster.made-up.invalid. 1 3600 900 604800 300";
/// TTL of made-up data.
const TTL: u32 = 3_600;

/// How much was made up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HierarchySize {
    /// Top-level zones.
    pub top: usize,
    /// Second-level zones.
    pub second: usize,
    /// Names below them.
    pub names: usize,
}

/// Names and the types that they were asked for.
type Asked = BTreeMap<Vec<u8>, BTreeSet<u16>>;

/// Top-level domains, second-level domains below them, and names below those.
type Tops = BTreeMap<Vec<u8>, BTreeMap<Vec<u8>, Asked>>;

/// What the root zone says of its children.
struct Root {
    servers: BTreeMap<Vec<u8>, BTreeSet<Vec<u8>>>,
    hosts: BTreeMap<Vec<u8>, BTreeSet<IpAddr>>,
}

/// Writes zone files for all names in the capture's questions, beside the root zone's.
pub fn write(root_zone: &Path, capture: &Path) -> anyhow::Result<HierarchySize> {
    let directory = root_zone.parent().context("the root zone has no directory")?;
    let root = Root::read(root_zone)?;
    let mut made = HierarchySize::default();
    let mut tops = Tops::new();
    for (name, types) in asked(capture)? {
        let (top, second) = (suffix(&name, 1), suffix(&name, 2));
        if let (Some(top), Some(second)) = (top, second)
            && root.servers.contains_key(top)
        {
            made.names += 1;
            let names = tops.entry(top.to_vec()).or_default().entry(second.to_vec()).or_default();
            names.insert(name, types);
        }
    }
    root.add_servers(&mut tops);
    for (number, (top, seconds)) in tops.iter().enumerate() {
        let text = top_zone(&root, top, seconds.keys().zip(made.second..));
        save(directory, &format!("top-{number}.zone"), &text)?;
        made.top += 1;
        for (second, names) in seconds {
            let text = second_zone(second, names, made.second);
            save(directory, &format!("second-{}.zone", made.second), &text)?;
            made.second += 1;
        }
    }
    Ok(made)
}

fn save(directory: &Path, name: &str, text: &str) -> anyhow::Result<()> {
    let file = directory.join(name);
    output::write(&file, text).with_context(|| format!("cannot write {}; is the disk full?", file.display()))
}

/// The questions of a capture, in lower case.
fn asked(capture: &Path) -> anyhow::Result<Asked> {
    let mut source = open(&[Input::File(capture.to_owned())], &OpenOptions::default())?;
    let (mut asked, mut batch) = (Asked::new(), Vec::new());
    let mut more = true;
    while more {
        more = source.read(&mut batch)?;
        for query in batch.drain(..).filter_map(|transaction| transaction.query) {
            if let Some(question) = Message::new(&query).and_then(|message| message.question()) {
                asked.entry(question.name.to_ascii_lowercase()).or_default().insert(question.qtype);
            }
        }
    }
    Ok(asked)
}

/// The last labels of a name; `None` if it has fewer.
fn suffix(name: &[u8], count: usize) -> Option<&[u8]> {
    let skipped = labels(name).count().checked_sub(count)?;
    let octets: usize = labels(name).take(skipped).map(|label| label.len() + 1).sum();
    Some(&name[octets..])
}

impl Root {
    fn read(file: &Path) -> anyhow::Result<Self> {
        let (zone, _) = Zone::from_records(&load::file(file, None)?)?;
        let mut root = Self { servers: BTreeMap::new(), hosts: BTreeMap::new() };
        for (child, server) in zone.delegations() {
            root.servers.entry(child.to_vec()).or_default().insert(server.to_ascii_lowercase());
        }
        for (owner, _, data) in zone.addresses() {
            let v6 = || <[u8; 16]>::try_from(data).map(IpAddr::from);
            if let Ok(address) = <[u8; 4]>::try_from(data).map(IpAddr::from).or_else(|_| v6()) {
                root.hosts.entry(owner.to_vec()).or_default().insert(address);
            }
        }
        Ok(root)
    }

    /// Adds the domains that the name servers of those there are in, for a resolver may ask for their addresses.
    fn add_servers(&self, tops: &mut Tops) {
        let mut looked_at = 0;
        while looked_at < tops.len() {
            looked_at = tops.len();
            let servers = tops.keys().filter_map(|top| self.servers.get(top)).flatten();
            let more: Vec<&[u8]> = servers.filter_map(|server| suffix(server, 1)).collect();
            for top in
                more.into_iter().filter(|top| self.servers.contains_key(*top)).map(<[u8]>::to_vec).collect::<Vec<_>>()
            {
                tops.entry(top).or_default();
            }
        }
    }
}

/// A top-level zone with its real name servers and, of all hosts that the root zone knows, those within it.
fn top_zone<'a>(root: &Root, top: &[u8], seconds: impl Iterator<Item = (&'a Vec<u8>, usize)>) -> String {
    let mut text = format!("{} {SOA}\n", Presentation(top));
    for server in root.servers.get(top).into_iter().flatten() {
        // Writing to a string cannot fail; so below.
        let _ = writeln!(text, "{} {TTL} NS {}", Presentation(top), Presentation(server));
    }
    for (host, addresses) in root.hosts.iter().filter(|(host, _)| suffix(host, 1) == Some(top)) {
        addresses.iter().for_each(|&address| text += &host_line(host, address));
    }
    for (second, number) in seconds {
        text += &server_lines(second, number);
    }
    text
}

/// A second-level zone with something for every question.
fn second_zone(second: &[u8], names: &Asked, number: usize) -> String {
    let mut text = format!("{} {SOA}\n{}", Presentation(second), server_lines(second, number));
    let mut needs_mail = false;
    for (at, (name, types)) in names.iter().enumerate() {
        for &qtype in types {
            let owner = Presentation(name);
            let _ = match qtype {
                rtype::A => write!(text, "{}", host_line(name, made_v4(number, at).into())),
                rtype::AAAA => write!(text, "{}", host_line(name, made_v6(number, at).into())),
                rtype::MX => writeln!(text, "{owner} {TTL} MX 10 mail.{}", Presentation(second)),
                12 => writeln!(text, "{owner} {TTL} PTR host-{at}.made-up.invalid."),
                _ => writeln!(text, "{owner} {TTL} TXT \"made up\""),
            };
            needs_mail |= qtype == rtype::MX;
        }
    }
    if needs_mail {
        let _ = writeln!(text, "mail.{} {TTL} A {}", Presentation(second), made_v4(number, names.len()));
    }
    text
}

/// The delegation of a second-level zone and the addresses of its server, which both sides of the cut have.
fn server_lines(second: &[u8], number: usize) -> String {
    let second = Presentation(second);
    let [high, low] = (number as u16).to_be_bytes();
    let (v4, v6) = (Ipv4Addr::new(198, 18, high, low), Ipv6Addr::new(0x2001, 0xdb8, 0x53, 0, 0, 0, 0, number as u16));
    format!("{second} {TTL} NS ns.{second}\nns.{second} {TTL} A {v4}\nns.{second} {TTL} AAAA {v6}\n")
}

fn host_line(host: &[u8], address: IpAddr) -> String {
    let rtype = if address.is_ipv4() { "A" } else { "AAAA" };
    format!("{} {TTL} {rtype} {address}\n", Presentation(host))
}

fn made_v4(zone: usize, host: usize) -> Ipv4Addr {
    Ipv4Addr::new(198, 51, 100, (zone * 7 + host) as u8)
}

fn made_v6(zone: usize, host: usize) -> Ipv6Addr {
    Ipv6Addr::new(0x2001, 0xdb8, 0x80, zone as u16, 0, 0, 0, host as u16)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_labels_of_a_name() {
        let name = b"\x03www\x07example\x03com\0";
        assert_eq!(suffix(name, 1), Some(&b"\x03com\0"[..]));
        assert_eq!(suffix(name, 3), Some(&name[..]));
        assert_eq!((suffix(name, 4), suffix(name, 0)), (None, Some(&b"\0"[..])));
    }

    #[test]
    fn the_domains_of_name_servers_are_there_too() {
        let servers = [("\x03com", "\x01a\x03net"), ("\x03net", "\x01a\x03org"), ("\x03org", "\x01a\x04lost")];
        let name = |text: &str| [text.as_bytes(), &[0]].concat();
        let servers = servers.map(|(top, server)| (name(top), [name(server)].into())).into();
        let mut tops: Tops = [(name("\x03com"), BTreeMap::new())].into();
        Root { servers, hosts: BTreeMap::new() }.add_servers(&mut tops);
        assert_eq!(tops.into_keys().collect::<Vec<_>>(), ["\x03com", "\x03net", "\x03org"].map(name));
    }

    #[test]
    fn all_names_asked_for_exist_below_a_real_top() {
        let root = Root {
            servers: [(b"\x03com\0".to_vec(), [b"\x01a\x03net\0".to_vec()].into())].into(),
            hosts: [(b"\x01a\x03com\0".to_vec(), ["192.0.2.1".parse().unwrap()].into())].into(),
        };
        let second = b"\x07example\x03com\0".to_vec();
        let text = top_zone(&root, b"\x03com\0", [(&second, 300)].into_iter());
        for line in [
            "com. 3600 NS a.net.",
            "a.com. 3600 A 192.0.2.1",
            "example.com. 3600 NS ns.example.com.",
            "ns.example.com. 3600 A 198.18.1.44",
        ] {
            assert!(text.contains(line), "{line} is not in {text}");
        }
        let names = [(second.clone(), [1, 15, 33].into()), (b"\x01x\x07example\x03com\0".to_vec(), [28].into())].into();
        let text = second_zone(&second, &names, 300);
        for line in [
            "example.com. 3600 MX 10 mail.example.com.",
            "mail.example.com. 3600 A ",
            "x.example.com. 3600 AAAA 2001:db8:80:12c::",
            "example.com. 3600 TXT",
        ] {
            assert!(text.contains(line), "{line} is not in {text}");
        }
    }
}
