//! A small hierarchy with what real ones have: signed and unsigned zones, shared servers, servers out of bailiwick.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// How a zone is signed.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Signed {
    No,
    Nsec,
    Nsec3,
    OptOut,
}

/// A zone to be written: its apex, how it is signed, its records behind the SOA.
type Plain = (&'static str, Signed, &'static str);

/// Children before their parents, which have the DS records.
const ZONES: [Plain; 13] = [
    (
        "sub.example.com.",
        Signed::Nsec3,
        "@ NS ns1.example.com.
         @ NS ns2.example.com.
         www A 192.0.2.80
         www AAAA 2001:db8:80::80
         *.wild TXT \"any name below wild\"
         deep.ent A 192.0.2.81",
    ),
    (
        "example.com.",
        Signed::Nsec,
        "@ NS ns1
         @ NS ns2
         @ MX 10 mail
         @ MX 20 mx.insecure.com.
         ns1 A 192.0.2.11
         ns1 AAAA 2001:db8::11
         ns2 A 192.0.2.12
         mail A 192.0.2.25
         www A 192.0.2.82
         alias CNAME www
         chain CNAME alias
         away CNAME www.example.net.
         lost CNAME nothing.insecure.com.
         tree DNAME other.example.net.
         *.wild A 192.0.2.83
         *.wildalias CNAME www
         a.b.c.ent A 192.0.2.84
         _sip._tcp SRV 1 2 5060 mail
         insecure NS ns.insecure.com.
         sub NS ns1
         sub NS ns2",
    ),
    ("insecure.com.", Signed::No, "@ NS ns\nns A 192.0.2.13\nns AAAA 2001:db8::13\nwww A 192.0.2.85\nmx A 192.0.2.86"),
    ("insecure.example.com.", Signed::No, "@ NS ns.insecure.com.\nwww A 192.0.2.87\n*.any A 192.0.2.88"),
    (
        "example.net.",
        Signed::Nsec3,
        "@ NS ns.host.org.
         www A 198.51.100.80
         host.other A 198.51.100.81
         *.wild A 198.51.100.82
         x.zone NS ns.host.org.",
    ),
    ("x.zone.example.net.", Signed::No, "@ NS ns.host.org.\nwww A 198.51.100.83\nhost.www AAAA 2001:db8:81::1"),
    ("host.org.", Signed::No, "@ NS ns\nns A 198.51.100.20\nns AAAA 2001:db8::20\nwww A 198.51.100.84"),
    ("gtld.net.", Signed::No, "@ NS a\n@ NS b\na A 192.0.2.1\na AAAA 2001:db8::1\nb A 192.0.2.2"),
    (
        "com.",
        Signed::OptOut,
        "@ NS a.gtld.net.
         @ NS b.gtld.net.
         example NS ns1.example
         example NS ns2.example
         ns1.example A 192.0.2.11
         ns1.example AAAA 2001:db8::11
         ns2.example A 192.0.2.12
         insecure NS ns.insecure
         ns.insecure A 192.0.2.13
         ns.insecure AAAA 2001:db8::13",
    ),
    (
        "net.",
        Signed::Nsec,
        "@ NS a.gtld.net.
         @ NS b.gtld.net.
         gtld NS a.gtld
         gtld NS b.gtld
         a.gtld A 192.0.2.1
         a.gtld AAAA 2001:db8::1
         b.gtld A 192.0.2.2
         example NS ns.host.org.
         root-servers NS a.root-servers
         root-servers NS b.root-servers
         a.root-servers A 198.41.0.4
         a.root-servers AAAA 2001:503:ba3e::2:30
         b.root-servers A 170.247.170.2",
    ),
    (
        "org.",
        Signed::No,
        "@ NS ns1\nns1 A 203.0.113.1\nns1 AAAA 2001:db8:113::1\nhost NS ns.host\nns.host A 198.51.100.20\nns.host AAAA 2001:db8::20",
    ),
    ("root-servers.net.", Signed::No, "@ NS a\n@ NS b\na A 198.41.0.4\na AAAA 2001:503:ba3e::2:30\nb A 170.247.170.2"),
    (
        ".",
        Signed::Nsec,
        "@ NS a.root-servers.net.
         @ NS b.root-servers.net.
         a.root-servers.net. A 198.41.0.4
         a.root-servers.net. AAAA 2001:503:ba3e::2:30
         b.root-servers.net. A 170.247.170.2
         com. NS a.gtld.net.
         com. NS b.gtld.net.
         net. NS a.gtld.net.
         net. NS b.gtld.net.
         a.gtld.net. A 192.0.2.1
         a.gtld.net. AAAA 2001:db8::1
         b.gtld.net. A 192.0.2.2
         org. NS ns1.org.
         ns1.org. A 203.0.113.1
         ns1.org. AAAA 2001:db8:113::1",
    ),
];

/// Addresses of root servers in the root hints of the resolver.
pub const HINTS: &str = ". 3600000 NS a.root-servers.net.\n. 3600000 NS b.root-servers.net.\n\
    a.root-servers.net. 3600000 A 198.41.0.4\na.root-servers.net. 3600000 AAAA 2001:503:ba3e::2:30\n\
    b.root-servers.net. 3600000 A 170.247.170.2\n";
/// Host names in `insecure.com`, and unsigned zones below `org` on the servers of `host.org`.
pub const MANY: usize = 150;

/// The hierarchy on disk.
pub struct Zones {
    scratch: tempfile::TempDir,
}

impl Zones {
    /// Writes and signs all zones.
    pub fn new() -> Self {
        let zones = Self { scratch: tempfile::tempdir().unwrap() };
        for folder in ["set", "plain", "keys"] {
            fs::create_dir(zones.path(folder)).unwrap();
        }
        for number in 0..MANY / 5 {
            let text = "@ NS ns.host.org.\n@ A 198.51.100.90\nwww CNAME @\n*.any TXT wild";
            zones.write(&format!("d{number}.org."), Signed::No, text);
        }
        for (apex, signed, text) in ZONES {
            let mut text = text.to_owned();
            if apex == "insecure.com." {
                (0..MANY).for_each(|number| text += &format!("\nh{number} A 192.0.2.{}", number + 100));
            } else if apex == "org." {
                (0..MANY / 5).for_each(|number| text += &format!("\nd{number} NS ns.host.org."));
            } else if apex == "example.com." {
                // More than a datagram of 1,232 octets holds.
                (0..12).for_each(|number| text += &format!("\nlarge TXT \"{number} {}\"", "x".repeat(200)));
            }
            zones.write(apex, signed, &text);
        }
        zones
    }

    /// The directory of the zone set.
    pub fn set(&self) -> PathBuf {
        self.path("set")
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.scratch.path().join(name)
    }

    /// The DS record of the root, a trust anchor.
    pub fn anchor(&self) -> PathBuf {
        self.path("plain").join("dsset-.")
    }

    fn write(&self, apex: &str, signed: Signed, text: &str) {
        let name = if apex == "." { "root.zone".to_owned() } else { format!("{}zone", apex) };
        let text = format!(
            "$TTL 3600\n$ORIGIN {apex}\n@ SOA ns.{} hostmaster 1 3600 900 604800 300\n",
            apex.trim_start_matches('.')
        ) + &text.lines().map(|line| line.trim().to_owned() + "\n").collect::<String>();
        let into = if signed == Signed::No { self.set() } else { self.path("plain") };
        fs::write(into.join(&name), text).unwrap();
        if signed != Signed::No {
            self.sign(apex, &name, signed);
        }
    }

    fn sign(&self, apex: &str, name: &str, signed: Signed) {
        let keys = self.path("keys");
        for options in [&["-f", "KSK"][..], &[]] {
            let mut keygen = Command::new("dnssec-keygen");
            run(keygen.args(["-q", "-a", "ECDSAP256SHA256", "-K"]).arg(&keys).args(options).arg(apex), &keys);
        }
        let mut sign = Command::new("dnssec-signzone");
        sign.args(["-q", "-S", "-g", "-O", "full", "-o", apex, "-K"]).arg(&keys);
        match signed {
            Signed::Nsec3 => drop(sign.args(["-3", "-"])),
            Signed::OptOut => drop(sign.args(["-3", "abcd", "-A", "-H", "2"])),
            _ => {}
        }
        run(sign.arg("-f").arg(self.set().join(name)).arg(name), &self.path("plain"));
    }
}

fn run(command: &mut Command, directory: &Path) {
    let output = command.current_dir(directory).output().expect("bind9-utils are installed");
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
}

/// A question of a client: name and type.
pub type Question = (String, u16);

const TYPES: [(&str, &[u16]); 34] = [
    (".", &[2, 6, 48]),
    ("com", &[2, 43, 48]),
    ("www.example.com", &[1, 28, 16]),
    ("alias.example.com", &[1]),
    ("chain.example.com", &[28]),
    ("away.example.com", &[1]),
    ("lost.example.com", &[1]),
    ("a.tree.example.com", &[1]),
    ("host.tree.example.com", &[1]),
    ("one.wild.example.com", &[1, 28]),
    ("two.three.wild.example.com", &[1]),
    ("x.wildalias.example.com", &[1]),
    ("ent.example.com", &[1]),
    ("b.c.ent.example.com", &[1]),
    ("a.b.c.ent.example.com", &[1]),
    ("missing.example.com", &[1]),
    ("large.example.com", &[16]),
    ("example.com", &[15, 6, 2]),
    ("_sip._tcp.example.com", &[33]),
    ("www.sub.example.com", &[1, 28]),
    ("sub.example.com", &[43, 48, 2]),
    ("some.wild.sub.example.com", &[16, 1]),
    ("ent.sub.example.com", &[1]),
    ("missing.sub.example.com", &[1]),
    ("www.insecure.example.com", &[1]),
    ("a.b.any.insecure.example.com", &[1, 28]),
    ("nothing.insecure.com", &[1]),
    ("insecure.com", &[43, 2]),
    ("www.example.net", &[1, 28]),
    ("q.wild.example.net", &[1]),
    ("missing.example.net", &[1]),
    ("host.www.x.zone.example.net", &[28, 1]),
    ("www.host.org", &[1, 28]),
    ("missing.tld-that-is-not", &[1]),
];

/// Questions about everything that is odd.
pub fn odd_questions() -> Vec<Question> {
    let all = TYPES.iter().flat_map(|(name, types)| types.iter().map(|&qtype| ((*name).to_owned(), qtype)));
    all.collect()
}

/// 500 questions: the odd ones that need no TCP, and many plain ones.
pub fn many_questions() -> Vec<Question> {
    let mut questions: Vec<Question> =
        odd_questions().into_iter().filter(|(name, _)| !name.starts_with("large")).collect();
    for number in 0..MANY {
        questions.push((format!("h{number}.insecure.com"), 1));
        questions.push((format!("n{number}.example.com"), 1));
        let (zone, host) = (number % (MANY / 5), ["", "www.", "a.any.", "no."][number % 4]);
        questions.push((format!("{host}d{zone}.org"), if number % 4 == 2 { 16 } else { 1 }));
    }
    questions.truncate(500);
    questions
}
