//! A made-up Internet of more than 300 zones with what real ones have.
//!
//! Root, top-level domains (one on IPv6 alone, one whose second level is on the same servers, one that delegates names of the third level), in-addr.arpa, providers whose name servers are
//! those of many unrelated zones and out of their bailiwick, chains of aliases through two content networks, wildcards, empty non-terminals, and zones below zones.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

/// Second-level domains.
const SITES: usize = 300;
/// Providers of name service.
const PROVIDERS: usize = 6;
/// What sites are below: co.uk is a zone of its own, or.jp is a name in the zone jp, and six has IPv6 only.
const TOPS: [&str; 9] = ["com", "net", "org", "de", "nl", "info", "co.uk", "or.jp", "six"];
/// TXT, MX, NS, SOA, DS, DNSKEY, PTR.
const OTHERS: [u16; 6] = [16, 15, 2, 6, 43, 48];

/// A question of a client: name and type.
pub type Question = (String, u16);

/// Zone files by their names, and what to sign.
#[derive(Default)]
pub struct Hierarchy {
    zones: BTreeMap<String, String>,
    /// Apexes of zones to be signed.
    pub signed: Vec<String>,
}

impl Hierarchy {
    /// All zones.
    pub fn new() -> Self {
        let mut all = Self::default();
        all.roots();
        (0..PROVIDERS).for_each(|number| all.provider(number));
        all.content_networks();
        (0..SITES).for_each(|number| all.site(number));
        all.reverse();
        all
    }

    /// Writes the zone files.
    pub fn write(&self, directory: &Path) {
        fs::create_dir(directory).unwrap();
        for (apex, text) in &self.zones {
            let name = if apex == "." { "root" } else { apex };
            fs::write(directory.join(format!("{name}.zone")), text).unwrap();
        }
    }

    /// Whether there is a zone of this name, which ends in a dot.
    pub fn has(&self, apex: &str) -> bool {
        self.zones.contains_key(if apex == "." { apex } else { apex.trim_end_matches('.') })
    }

    /// Names of all name servers, without the last dot.
    pub fn name_servers(&self) -> BTreeSet<&str> {
        let lines = self.zones.values().flat_map(|text| text.lines());
        lines.filter_map(|line| Some(line.split_once(" NS ")?.1.trim_end_matches('.'))).collect()
    }

    /// How many zones there are.
    pub fn len(&self) -> usize {
        self.zones.len()
    }

    fn zone(&mut self, apex: &str, is_signed: bool) {
        let dotted = if apex == "." { ".".to_owned() } else { format!("{apex}.") };
        let soa = "SOA ns.made-up.invalid. hostmaster.made-up.invalid. 1 3600 900 604800 300";
        let text = format!("$ORIGIN {dotted}\n$TTL 3600\n@ {soa}\n");
        self.zones.insert(apex.to_owned(), text);
        if is_signed {
            self.signed.push(apex.to_owned());
        }
    }

    fn add(&mut self, apex: &str, lines: &str) {
        let text = self.zones.get_mut(apex).unwrap_or_else(|| panic!("no zone {apex}"));
        lines.lines().for_each(|line| writeln!(text, "{}", line.trim()).unwrap());
    }

    /// Delegates a zone in its parent.
    fn delegate(&mut self, parent: &str, child: &str, lines: &str) {
        let servers: String = lines
            .lines()
            .filter(|line| line.contains(" NS "))
            .map(|line| line.trim().replacen('@', &format!("{child}."), 1) + "\n")
            .collect();
        self.add(parent, &servers);
    }

    fn roots(&mut self) {
        let hosts = [("a", "198.41.0.4", "2001:503:ba3e::2:30"), ("b", "170.247.170.2", "2801:1b8:10::b")];
        self.zone(".", true);
        self.zone("root-servers.net", false);
        for (host, v4, v6) in hosts {
            let addresses = format!("{host}.root-servers.net. A {v4}\n{host}.root-servers.net. AAAA {v6}\n");
            self.add(".", &format!("@ NS {host}.root-servers.net.\n{addresses}"));
            self.add("root-servers.net", &format!("@ NS {host}.root-servers.net.\n{addresses}"));
        }
        for (number, top) in ["com", "net", "org", "de", "nl", "info", "uk", "six", "jp", "arpa"].iter().enumerate() {
            self.zone(top, number % 4 != 3);
            // com and net are on the same servers, which are below net.
            let home = if *top == "com" { "net" } else { top };
            let lines = format!("@ NS a.nic.{home}.\n@ NS b.nic.{home}.\n");
            self.add(top, &lines);
            self.delegate(".", top, &lines);
            if home == *top {
                let address =
                    format!("a.nic.{top}. AAAA 2001:db8:{number}::a\nb.nic.{top}. AAAA 2001:db8:{number}::b\n");
                let v4 = format!("a.nic.{top}. A 192.0.2.{}\n", number + 1);
                let addresses = if *top == "six" { address } else { address + &v4 };
                self.add(top, &addresses);
                self.add(".", &addresses);
            }
        }
        self.delegate("net", "root-servers.net", "@ NS a.root-servers.net.\n@ NS b.root-servers.net.");
        self.add("net", "a.root-servers.net. A 198.41.0.4\nb.root-servers.net. A 170.247.170.2");
        // Parent and child on the same servers: nobody ever sees the delegation.
        self.zone("co.uk", false);
        self.add("co.uk", "@ NS a.nic.uk.\n@ NS b.nic.uk.");
        self.delegate("uk", "co.uk", "@ NS a.nic.uk.\n@ NS b.nic.uk.");
    }

    fn provider(&mut self, number: usize) {
        let (apex, parent) = (format!("provider{number}.net"), "net");
        self.zone(&apex, number.is_multiple_of(2));
        let lines = format!("@ NS ns1.{apex}.\n@ NS ns2.{apex}.\n");
        let addresses = format!(
            "ns1.{apex}. A 198.51.100.{}\nns1.{apex}. AAAA 2001:db8:f{number}::1\nns2.{apex}. A 198.51.100.{}\n",
            number + 1,
            number + 101
        );
        self.add(&apex, &format!("{lines}{addresses}www A 198.51.100.200"));
        self.delegate(parent, &apex, &lines);
        self.add(parent, &addresses);
    }

    /// A name of a site leads to one network by its number, and from there to the other.
    fn content_networks(&mut self) {
        for (apex, parent, provider) in [("content.org", "org", 0), ("edge.info", "info", 1)] {
            self.zone(apex, false);
            let lines = format!("@ NS ns1.provider{provider}.net.\n@ NS ns2.provider{provider}.net.");
            self.add(apex, &lines);
            self.delegate(parent, apex, &lines);
        }
        for number in 0..SITES {
            self.add("content.org", &format!("s{number} CNAME e{}.edge.info.", number % 40));
        }
        for number in 0..40 {
            self.add("edge.info", &format!("e{number} A 203.0.113.{number}\ne{number} AAAA 2001:db8:e::{number:x}"));
        }
    }

    fn site(&mut self, number: usize) {
        let apex = apex_of(number);
        let parent = match TOPS[number % TOPS.len()] {
            "or.jp" => "jp",
            top => top,
        };
        self.zone(&apex, number.is_multiple_of(3));
        let lines = servers_of(number, &apex);
        self.add(&apex, &lines);
        self.delegate(parent, &apex, &lines);
        let glue: String = lines
            .lines()
            .filter(|line| line.contains(" A ") || line.contains(" AAAA "))
            .fold(String::new(), |glue, line| glue + line.trim() + "\n");
        self.add(parent, &glue);
        self.add(
            &apex,
            &format!(
                "@ A 203.0.113.{low}
                 @ MX 10 mail
                 @ TXT \"v=spf1 include:{apex} -all\"
                 mail A 203.0.113.{low}
                 mail AAAA 2001:db8:a::{number:x}
                 www CNAME s{number}.content.org.
                 alias CNAME www
                 *.wild A 203.0.113.{low}
                 a.b.ent TXT \"below nothing\"
                 lost CNAME nothing.provider0.net.",
                low = number % 250
            ),
        );
        (0..20).for_each(|host| self.add(&apex, &format!("h{host} A 203.0.113.{host}")));
        if number.is_multiple_of(10) {
            let (sub, servers) = (format!("sub.{apex}"), "@ NS ns1.provider2.net.\n@ NS ns2.provider2.net.");
            self.zone(&sub, number.is_multiple_of(30));
            self.add(&sub, servers);
            self.add(&sub, "www A 203.0.113.7\n*.deep TXT \"any\"");
            self.delegate(&apex, &sub, servers);
        }
    }

    fn reverse(&mut self) {
        for (apex, parent) in [("in-addr.arpa", "arpa"), ("113.0.203.in-addr.arpa", "in-addr.arpa")] {
            self.zone(apex, false);
            let lines = "@ NS ns1.provider3.net.\n@ NS ns2.provider4.net.";
            self.add(apex, lines);
            self.delegate(parent, apex, lines);
        }
        (0..250).for_each(|host| self.add("113.0.203.in-addr.arpa", &format!("{host} PTR h{host}.provider0.net.")));
    }
}

fn apex_of(number: usize) -> String {
    format!("site{number}.{}", TOPS[number % TOPS.len()])
}

/// Own servers, a provider's, both, or own ones on IPv6 alone.
fn servers_of(number: usize, apex: &str) -> String {
    let (provider, third) = (number % PROVIDERS, number % 199 + 1);
    match number % 5 {
        0 => format!("@ NS ns1.{apex}.\nns1.{apex}. A 198.18.{third}.1\nns1.{apex}. AAAA 2001:db8:b::{number:x}"),
        1 => format!("@ NS ns1.{apex}.\n@ NS ns1.provider{provider}.net.\nns1.{apex}. A 198.18.{third}.2"),
        2 => format!("@ NS ns1.{apex}.\nns1.{apex}. AAAA 2001:db8:c::{number:x}"),
        _ => format!("@ NS ns1.provider{provider}.net.\n@ NS ns2.provider{provider}.net."),
    }
}

/// At least 20,000 questions about everything, each once, in an order in which neighbours have little in common.
pub fn questions() -> Vec<Question> {
    let mut questions: Vec<Question> = Vec::new();
    for number in 0..SITES {
        let apex = apex_of(number);
        let mut ask = |name: &str, qtype| questions.push((format!("{name}{apex}"), qtype));
        for (name, types) in [
            ("", &[1, 28, 15, 16, 2, 6, 48, 43][..]),
            ("mail.", &[1, 28, 16]),
            ("www.", &[1, 28, 5]),
            ("alias.", &[1]),
            ("lost.", &[1]),
            ("ent.", &[1]),
            ("b.ent.", &[16]),
            ("a.b.ent.", &[16, 1]),
            ("one.wild.", &[1, 28]),
            ("two.three.wild.", &[1]),
            ("missing.below.h0.", &[1]),
            ("www.sub.", &[1, 28]),
            ("x.deep.sub.", &[16]),
            ("none.sub.", &[1]),
        ] {
            types.iter().for_each(|&qtype| ask(name, qtype));
        }
        (0..20).for_each(|host| ask(&format!("h{host}."), 1));
        (0..8).for_each(|host| ask(&format!("h{host}."), OTHERS[host % OTHERS.len()]));
        (0..14).for_each(|host| ask(&format!("n{host}."), 1));
    }
    (0..255).for_each(|host| questions.push((format!("{host}.113.0.203.in-addr.arpa"), 12)));
    for top in ["com", "net", "uk", "co.uk", "jp", "or.jp", "six", "arpa", "nothing"] {
        OTHERS.iter().for_each(|&qtype| questions.push((top.to_owned(), qtype)));
    }
    // A stride without a common divisor visits each once.
    let count = questions.len();
    let stride = (7_919..).find(|stride| gcd(*stride, count) == 1).unwrap();
    (0..count).map(|at| questions[at * stride % count].clone()).collect()
}

fn gcd(a: usize, b: usize) -> usize {
    if b == 0 { a } else { gcd(b, a % b) }
}
