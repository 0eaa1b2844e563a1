//! A root, zones signed in every way below it, and the zones that these delegate to.

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

use ldplayer_core::name::{self, Presentation};
use ldplayer_zone::sign::{self, Algorithm, Denial, Key, Policy, Role as KeyRole, Validity};
use ldplayer_zone::{Records, load, rtype, write};

use crate::random::{self, Draw, RandomZone, Role};

/// The name servers of the root, of the zones below it, and of the zones below those: each address has one layer, so that resolvers
/// are referred.
pub const SERVERS: [[u8; 4]; 3] = [[192, 0, 2, 1], [192, 0, 2, 2], [192, 0, 2, 3]];
/// 2020 to 2038.
const VALIDITY: Validity = Validity { inception: 1_577_836_800, expiration: 2_145_916_800 };
/// Zones of each kind, and names of each.
const ROUNDS: usize = 3;
const NAMES: usize = 30;
/// Types that are asked for.
const TYPES: [u16; 14] = [1, 1, 28, 16, 16, 15, 2, 6, 43, 43, CNAME, DNAME, NSEC, 65280];
const CNAME: u16 = 5;
const DNAME: u16 = 39;
const NSEC: u16 = 47;
/// The zone of the issue: a wildcard, and below its parent an empty non-terminal for an insecure delegation alone.
const GAP: &str = "*.example. A 192.0.2.80\ndeep.optent.only.example. NS ns.nowhere.test.\n";

/// A question to the validators.
pub struct Question {
    pub name: Vec<u8>,
    pub qtype: u16,
    /// The code that the answer must have, where that is known.
    pub rcode: Option<u8>,
    /// Whether the answer must be found secure.
    pub is_secure: bool,
    /// Whether a wildcard may stand for the name that has no records, and is there for a name below it.
    pub is_of_empty_wildcard: bool,
}

impl Question {
    fn new(name: &str, qtype: u16, rcode: Option<u8>, is_secure: bool) -> Self {
        Self { name: wire(name), qtype, rcode, is_secure, is_of_empty_wildcard: false }
    }
}

impl fmt::Display for Question {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", Presentation(&self.name), rtype::name_of(self.qtype))
    }
}

/// A zone below the root.
struct Middle {
    apex: String,
    made: RandomZone,
    opts_out: bool,
}

/// All zones, on disk.
pub struct World {
    scratch: tempfile::TempDir,
    keys: Vec<Key>,
    middles: Vec<Middle>,
    files: usize,
}

fn denials() -> [(&'static str, Denial); 5] {
    let nsec3 = |iterations, salt: &[u8], opt_out| Denial::Nsec3 { iterations, salt: salt.to_vec(), opt_out };
    [
        ("nsec", Denial::Nsec),
        ("nsec3", nsec3(0, b"", false)),
        ("salt", nsec3(7, b"\xaa\xbb\xcc\xdd", false)),
        ("optout", nsec3(0, b"", true)),
        ("saltout", nsec3(12, b"s", true)),
    ]
}

fn wire(text: &str) -> Vec<u8> {
    let mut wire = Vec::new();
    name::parse(text, &mut wire).unwrap();
    wire
}

impl World {
    pub fn draw(draw: &mut Draw) -> Self {
        let key = |role, number| Key::generate(role, Algorithm::EcdsaP256Sha256, 0, &[number; 32]).unwrap();
        let keys = vec![key(KeyRole::Ksk, 1), key(KeyRole::Zsk, 2)];
        let scratch = tempfile::tempdir().unwrap();
        fs::create_dir(scratch.path().join("set")).unwrap();
        let mut world = Self { scratch, keys, middles: Vec::new(), files: 0 };
        for round in 0..ROUNDS {
            for (kind, denial) in denials() {
                world.add_middle(draw, format!("{kind}-{round}."), denial);
            }
        }
        let gap = random::head("example.", "ns2.root.") + GAP;
        world.add("example.", &gap, Some((denials()[3].1.clone(), Vec::new())));
        world.add_root();
        world
    }

    /// A zone below the root with the zones that it delegates to.
    fn add_middle(&mut self, draw: &mut Draw, apex: String, denial: Denial) {
        let made = RandomZone::draw(draw, NAMES);
        let (own, none) = (format!("www.{apex}"), format!("nothing.www.{apex}"));
        let text = made.text(draw, &apex, ["ns2.root.", "ns3.root."], &[&own, &none, "www.nsec-0.", "elsewhere."]);
        let (secure, insecure) = (made.of_role(&apex, Role::Secure), made.of_role(&apex, Role::Insecure));
        for child in secure.iter().chain(&insecure) {
            let below = format!("www.{child} A 192.0.2.81\n*.wild.{child} TXT \"x\"\na.ent.{child} A 192.0.2.82\n");
            let sign = secure.contains(child).then(|| (Denial::Nsec, Vec::new()));
            self.add(child, &(random::head(child, "ns3.root.") + &below), sign);
        }
        let opts_out = matches!(denial, Denial::Nsec3 { opt_out: true, .. });
        self.add(&apex, &text, Some((denial, secure)));
        self.middles.push(Middle { apex, made, opts_out });
    }

    fn add_root(&mut self) {
        let mut text = random::head(".", "ns1.root.");
        for (number, address) in (1..).zip(SERVERS) {
            text += &format!("ns{number}.root. A {}\n", std::net::Ipv4Addr::from(address));
        }
        let mut below: Vec<String> = self.middles.iter().map(|middle| middle.apex.clone()).collect();
        below.push("example.".to_owned());
        below.iter().for_each(|apex| text += &format!("{apex} NS ns2.root.\n"));
        self.add(".", &text, Some((Denial::Nsec, below)));
    }

    /// Writes a zone, signed where it is said how and which of its delegations have DS records.
    fn add(&mut self, apex: &str, text: &str, signed: Option<(Denial, Vec<String>)>) {
        let mut records = load::text_of(text.as_bytes(), Path::new(apex), None, &mut |_| unreachable!()).unwrap();
        if let Some((denial, secure)) = signed {
            records = self.signed(&records, denial, &secure);
        }
        let mut octets = Vec::new();
        write::zone(&wire(apex), &records, &mut octets).unwrap();
        fs::write(self.set().join(format!("z{}.zone", self.files)), octets).unwrap();
        self.files += 1;
    }

    fn signed(&self, records: &Records, denial: Denial, secure: &[String]) -> Records {
        let ds = |child: &String| (wire(child), vec![sign::ds(&wire(child), self.keys[0].data(), 2).unwrap()]);
        let delegations: BTreeMap<_, _> = secure.iter().map(ds).collect();
        let (validity, keys) = (VALIDITY, self.keys.as_slice());
        let policy =
            Policy { keys, active_zsks: 1, denial, collisions: 0, validity, delegations: &delegations, threads: 2 };
        sign::zone(records, &policy).unwrap().records
    }

    /// The directory of the zones.
    pub fn set(&self) -> PathBuf {
        self.scratch.path().join("set")
    }

    /// Root hints, as a file.
    pub fn hints(&self) -> PathBuf {
        self.file("hints", ". 3600 NS ns1.root.\nns1.root. 3600 A 192.0.2.1\n")
    }

    fn ds_of_root(&self) -> (u16, String) {
        let ds = sign::ds(b"\0", self.keys[0].data(), 2).unwrap();
        (self.keys[0].tag(), ds[4..].iter().map(|octet| format!("{octet:02x}")).collect())
    }

    /// The trust anchor, as a file.
    pub fn anchor(&self) -> PathBuf {
        let (tag, digest) = self.ds_of_root();
        self.file("anchor", &format!(". 3600 DS {tag} 13 2 {digest}\n"))
    }

    /// The trust anchor as a clause of BIND's configuration.
    pub fn anchor_of_bind(&self) -> String {
        let (tag, digest) = self.ds_of_root();
        format!("trust-anchors {{ . static-ds {tag} 13 2 \"{digest}\"; }};\n")
    }

    /// The same as a file, for `delv`.
    pub fn anchor_file_of_bind(&self) -> PathBuf {
        self.file("bind.anchor", &self.anchor_of_bind())
    }

    /// A question that the wildcard of [`GAP`] answers.
    pub fn question_with_address(&self) -> Question {
        Question::new("y.example.", 1, Some(0), false)
    }

    /// Gives the wildcard of [`GAP`] another address, which its signature does not cover.
    pub fn change_address(&self) {
        let files = fs::read_dir(self.set()).unwrap().map(|entry| entry.unwrap().path());
        let holds = |(_, text): &(PathBuf, String)| text.contains("192.0.2.80") && text.contains("deep.optent.only");
        let (file, text) = files.map(|file| (file.clone(), fs::read_to_string(file).unwrap())).find(holds).unwrap();
        fs::write(file, text.replace("192.0.2.80", "192.0.2.66")).unwrap();
    }

    fn file(&self, name: &str, text: &str) -> PathBuf {
        let file = self.scratch.path().join(name);
        fs::write(&file, text).unwrap();
        file
    }

    /// Questions for names that are there, and for those below, beside and above them.
    pub fn questions(&self, draw: &mut Draw) -> Vec<Question> {
        let mut all = vec![
            Question::new("x.only.example.", 1, Some(3), false),
            Question::new("x.optent.only.example.", 1, Some(3), false),
            Question::new("only.example.", 1, Some(0), true),
            Question::new("y.example.", 1, Some(0), false),
        ];
        for middle in &self.middles {
            let lame = middle.made.of_role(&middle.apex, Role::Lame);
            let insecure = middle.made.of_role(&middle.apex, Role::Insecure);
            let redirects = middle.made.of_role(&middle.apex, Role::Redirect);
            let aliases = middle.made.of_role(&middle.apex, Role::Alias);
            // A wildcard may stand for the name.
            let stands_for =
                |alias: &str, name: &str| alias.strip_prefix('*').is_some_and(|above| name.ends_with(above));
            let is_alias = |name: &str| aliases.iter().any(|alias| alias == name || stands_for(alias, name));
            for name in middle.names() {
                let qtype = draw.of(&TYPES);
                let is_at = |cuts: &[String]| cuts.contains(&name);
                let is_below = |cuts: &[String]| cuts.iter().any(|cut| name.ends_with(&format!(".{cut}")));
                // Nobody answers there, but for the parent.
                let is_lost = is_below(&lame) || (is_at(&lame) && qtype != rtype::DS);
                let is_insecure = is_below(&insecure) || (is_at(&insecure) && qtype != rtype::DS);
                // Whoever answers, NSD for one: unbound finds the CNAME that a DNAME makes bogus when it was asked for CNAME or DNAME, and
                // BIND takes an alias for an error when it was asked for NSEC.
                let is_odd = match qtype {
                    CNAME | DNAME => is_below(&redirects),
                    NSEC => is_alias(&name),
                    _ => false,
                };
                if !is_lost && !is_odd {
                    let is_secure = !middle.opts_out && !is_insecure;
                    let is_of_empty_wildcard = middle.is_of_empty_wildcard(&name);
                    all.push(Question { is_of_empty_wildcard, ..Question::new(&name, qtype, None, is_secure) });
                }
            }
        }
        all
    }
}

impl Middle {
    fn is_of_empty_wildcard(&self, name: &str) -> bool {
        self.made.empty_wildcards(&self.apex).iter().any(|wildcard| name.ends_with(&wildcard[1..]))
    }

    fn names(&self) -> Vec<String> {
        let mut all = vec![self.apex.clone(), format!("nothing.{}", self.apex)];
        for role in [Role::Data, Role::Alias, Role::Redirect, Role::Insecure, Role::Secure, Role::Lame, Role::Glue] {
            for name in self.made.of_role(&self.apex, role) {
                all.extend(["", "nothing.", "*.", "a.b.", "www.", "any.wild."].map(|below| format!("{below}{name}")));
                all.push(format!("0{name}"));
                // The name above, twice, so that two types are asked for: often it is an empty non-terminal.
                let above = name.split_once('.').map(|(_, above)| above.to_owned());
                all.extend(above.into_iter().flat_map(|above| [above.clone(), format!("only.{above}"), above]));
            }
        }
        all
    }
}
