//! `zones sign` as a user runs it, and what stock validators say of the result.

mod common;
#[path = "common/served.rs"]
mod served;

use std::fs;
use std::net::{SocketAddr, UdpSocket};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use ldplayer_emulate::stock::{Kind, StockSettings};
use serde_json::Value;
use served::Served;

/// A hierarchy whose root has DS records of nobody knows which keys.
const ROOT: &str = ". 60 SOA a. b. 1 2 3 4 60\n. 60 NS a.root-servers.net.\nexample. 60 NS ns.example.\n\
    example. 60 DS 1 8 2 DIGEST\nns.example. 60 A 192.0.2.53\nother. 60 NS ns.example.\nplain. 60 NS ns.example.\n\
    plain. 60 DS 2 8 2 DIGEST\noutside. 60 NS ns.example.\noutside. 60 DS 3 8 2 DIGEST\n";
const EXAMPLE: &str = "$TTL 60\n@ SOA ns h 1 2 3 4 60\n@ NS ns\nns A 192.0.2.53\nwww A 192.0.2.80\n*.wild TXT w\na.ent A 192.0.2.81\n\
    alias CNAME www.other.\nsub NS ns\ninsecure NS ns\n";
const SUB: &str = "$TTL 60\n@ SOA ns.example. h 1 2 3 4 60\n@ NS ns.example.\nwww A 192.0.2.82\n";

fn ldplayer() -> Command {
    Command::new(env!("CARGO_BIN_EXE_ldplayer"))
}

/// A hierarchy in a scratch directory: `zones` in it.
fn scratch() -> tempfile::TempDir {
    let scratch = tempfile::tempdir().unwrap();
    let zones = scratch.path().join("zones");
    fs::create_dir(&zones).unwrap();
    for (name, text) in [
        ("root.zone", ROOT),
        ("example.zone", EXAMPLE),
        ("other.zone", SUB),
        ("plain.zone", SUB),
        ("sub.example.zone", SUB),
    ] {
        fs::write(zones.join(name), text.replace("DIGEST", &"00".repeat(32))).unwrap();
    }
    scratch
}

/// Signs `zones` into `output`; gives its JSON, or the message of the failure.
fn try_sign(scratch: &Path, zones: &str, output: &str, options: &[&str]) -> Result<Value, String> {
    let mut command = ldplayer();
    command
        .args(["zones", "sign"])
        .arg(scratch.join(zones))
        .arg("-o")
        .arg(scratch.join(output))
        .arg("--json")
        .args(options);
    let made = command.output().unwrap();
    let [stdout, stderr] = [made.stdout, made.stderr].map(|said| String::from_utf8(said).unwrap());
    match made.status.code() {
        Some(0) => Ok(serde_json::from_str(&stdout).unwrap()),
        code => {
            assert_eq!((code, stderr.lines().count()), (Some(2), 1), "{stderr}");
            Err(stderr)
        }
    }
}

fn sign(scratch: &Path, zones: &str, output: &str, options: &[&str]) -> Value {
    try_sign(scratch, zones, output, options).unwrap()
}

/// The lines of a file in the scratch directory with this text in them.
fn lines(file: PathBuf, wanted: &str) -> Vec<String> {
    let text = fs::read_to_string(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    text.lines().filter(|line| line.contains(wanted)).map(str::to_owned).collect()
}

fn verify(file: PathBuf, origin: &str) {
    for (program, options) in [("dnssec-verify", &["-o", origin][..]), ("ldns-verify-zone", &[])] {
        let output = Command::new(program).args(options).arg(&file).output();
        let output = output.expect("bind9-utils and ldnsutils: scripts/need.sh bind-utils ldns");
        assert!(
            output.status.success(),
            "{program} {}: {:.2000}",
            file.display(),
            String::from_utf8_lossy(&output.stderr)
        );
    }
}

/// All but `plain.`.
const SIGNED: [&str; 8] = ["--zone", ".", "--zone", "Example.", "--zone", "other", "--zone", "sub.example"];

/// RCODE and AD of the answer.
fn ask(server: SocketAddr, name: &str, qtype: u16) -> (u8, bool) {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    // RD and AD set; no EDNS.
    let mut query = vec![0, 1, 1, 0x20, 0, 1, 0, 0, 0, 0, 0, 0];
    ldplayer_core::name::parse(name, &mut query).unwrap();
    query.extend(qtype.to_be_bytes());
    query.extend([0, 1]);
    socket.send_to(&query, server).unwrap();
    let mut answer = [0; 512];
    socket.recv(&mut answer).unwrap();
    (answer[3] & 15, answer[3] & 0x20 != 0)
}

/// Asks a stock unbound that has nothing but the trust anchor and `serve`. What an opt-out span proves is not authentic (RFC 5155
/// §9.2).
fn ensure_validated(directory: &Path, opt_out: bool) {
    let scratch = tempfile::tempdir().unwrap();
    let serving = Served::start(scratch.path(), directory.to_str().unwrap(), &[]);
    let forward = format!("forward-zone:\n  name: \".\"\n  forward-addr: 127.0.0.1@{}\n", serving.port);
    let unbound = Kind::UNBOUND.with(StockSettings {
        trust_anchor: Some(directory.join("trust-anchors.ds")),
        extra: forward,
        ..StockSettings::default()
    });
    let free = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let started = unbound.start(&[free]).unwrap();
    for (name, qtype, wanted) in [
        ("www.example.", 1, (0, true)),
        ("www.example.", 28, (0, true)),
        ("nothing.example.", 1, (3, !opt_out)),
        ("any.wild.example.", 16, (0, !opt_out)),
        ("ent.example.", 1, (0, true)),
        ("alias.example.", 1, (0, true)),
        ("www.sub.example.", 1, (0, true)),
        ("example.", 48, (0, true)),
        ("sub.example.", 43, (0, true)),
        (".", 6, (0, true)),
        ("nothing.", 1, (3, !opt_out)),
        ("plain.", 43, (0, !opt_out)),
        // Unsigned, and the parent proves it.
        ("www.plain.", 1, (0, false)),
    ] {
        assert_eq!(ask(free, name, qtype), wanted, "{name} {qtype}: {}", started.log());
    }
}

#[test]
fn a_stock_resolver_validates_with_nothing_but_the_trust_anchor() {
    let scratch = scratch();
    for (number, options) in [
        &["--algorithm", "rsasha256", "--ksk-bits", "1024", "--zsk-bits", "1024", "--zsks", "2"][..],
        &["--algorithm", "rsasha512", "--ksk-bits", "1024", "--zsk-bits", "1024", "--nsec3", "--salt", "ab01"],
        &["--nsec3", "--iterations", "3", "--ksks", "2"],
        &["--algorithm", "ecdsap384sha384", "--zsks", "2", "--double-signature"],
        &["--algorithm", "ED25519", "--nsec3", "--opt-out"],
    ]
    .into_iter()
    .enumerate()
    {
        let output = format!("signed{number}");
        let said = sign(scratch.path(), "zones", &output, &[&SIGNED, options].concat());
        let directory = scratch.path().join(output);
        assert_eq!(said["anchors"], serde_json::json!(["."]));
        assert_eq!(said["zones"].as_array().unwrap().len(), 5);
        for (file, origin) in [("root.zone", "."), ("example.zone", "example"), ("sub.example.zone", "sub.example")] {
            verify(directory.join(file), origin);
        }
        ensure_validated(&directory, options.contains(&"--opt-out"));
        let ds = lines(directory.join("root.zone"), " DS ");
        let owners: Vec<&str> =
            ds.iter().filter(|line| !line.contains("RRSIG")).map(|line| &line[..line.find(' ').unwrap()]).collect();
        let mut distinct = owners.clone();
        distinct.dedup();
        assert_eq!(distinct, ["example.", "other.", "outside."], "none for a zone that is there unsigned");
    }
}

#[test]
fn a_seed_or_kept_keys_give_the_same_set_again() {
    let scratch = scratch();
    let times = ["--inception", "2020-01-01", "--expiration", "20700101000000"];
    let all = |directory: &str| {
        let mut files: Vec<PathBuf> =
            fs::read_dir(scratch.path().join(directory)).unwrap().map(|entry| entry.unwrap().path()).collect();
        files.sort_unstable();
        let read = |file: PathBuf| (file.file_name().unwrap().to_owned(), fs::read_to_string(file).unwrap());
        files.into_iter().map(read).collect::<Vec<_>>()
    };
    let keys = scratch.path().join("keys");
    let keys = ["--keys", keys.to_str().unwrap()];
    sign(scratch.path(), "zones", "first", &[&times[..], &["--seed", "7"], &keys].concat());
    sign(scratch.path(), "zones", "seeded", &[&times[..], &["--seed", "7"]].concat());
    sign(scratch.path(), "first", "kept", &[&times[..], &keys].concat());
    assert_eq!(all("first"), all("seeded"));
    assert_eq!(all("first"), all("kept"));
    sign(scratch.path(), "zones", "other", &[&times[..], &["--seed", "8"]].concat());
    assert_ne!(all("first"), all("other"));
    let private: Vec<u32> = fs::read_dir(keys[1])
        .unwrap()
        .map(|entry| entry.unwrap())
        .filter(|entry| entry.file_name().to_string_lossy().ends_with(".private"))
        .map(|entry| entry.metadata().unwrap().permissions().mode() & 0o777)
        .collect();
    assert_eq!(private, [0o600; 10], "a KSK and a ZSK for each of five zones, for their owner only");
    // The keys are BIND's, too: it signs with them.
    let mut command = Command::new("dnssec-signzone");
    // It leaves a file where it is started.
    command
        .current_dir(scratch.path())
        .args(["-S", "-K", keys[1], "-o", "example", "-f"])
        .arg(scratch.path().join("by-bind"));
    let output = command.arg(scratch.path().join("zones/example.zone")).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn many_iterations_are_told_when_a_zone_is_signed_and_when_it_is_loaded() {
    let scratch = scratch();
    let (zones, signed) = (scratch.path().join("zones"), scratch.path().join("signed"));
    for (iterations, is_told) in [("100", false), ("101", true)] {
        let mut sign = ldplayer();
        sign.args([
            "zones",
            "sign",
            "--zone",
            "example",
            "--zone",
            "sub.example",
            "--nsec3",
            "--iterations",
            iterations,
        ]);
        let signing = sign.arg(&zones).arg("-o").arg(&signed).output().unwrap();
        let loading = ldplayer().args(["zones", "check", "--without", "nsd,bind"]).arg(&signed).output().unwrap();
        let wanted =
            format!("NSEC3 with {iterations} extra iterations: each denial costs as many extra hashes per name, ");
        assert_eq!(String::from_utf8(signing.stderr).unwrap().contains(&wanted), is_told);
        assert_eq!(String::from_utf8(loading.stdout).unwrap().contains(&wanted), is_told);
    }
}

#[test]
fn trust_anchors_are_read_by_bind() {
    let scratch = scratch();
    sign(scratch.path(), "zones", "signed", &["--zone", "example", "--zone", "sub.example"]);
    let clause = scratch.path().join("signed/trust-anchors.conf");
    let output = Command::new("named-checkconf").arg(&clause).output().expect("bind9-utils");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    assert_eq!(lines(clause, "static-ds").len(), 1, "example has the DS of sub.example, and the root is not signed");
    assert_eq!(lines(scratch.path().join("signed/root.zone"), "RRSIG"), [""; 0]);
}

#[test]
fn what_cannot_be_is_bad_input_told_on_one_line() {
    let scratch = scratch();
    sign(scratch.path(), "zones", "signed", &["--seed", "1"]);
    fs::create_dir(scratch.path().join("foreign")).unwrap();
    fs::write(scratch.path().join("foreign/net.zone"), SUB).unwrap();
    for (zones, output, options, message) in [
        ("zones", "zones", &[][..], "this is the zone set itself; choose another directory"),
        ("zones", "foreign", &[], "net.zone: a zone of another set; empty the directory, or choose another with -o"),
        ("zones", "x", &["--zone", "com"], "--zone com: "),
        ("zones", "x", &["--expiration", "-2h"], "--expiration: signatures would expire before their inception"),
        (
            "zones",
            "x",
            &["--algorithm", "rsasha256", "--zsk-bits", "512"],
            "unsupported RSA key size of 512 bits: use 1024 to 4096",
        ),
        (
            "signed",
            "x",
            &["--zone", "example"],
            "example. gets new keys, but the signed zone . still has DS records of the old ones: sign . as well",
        ),
        ("none", "x", &[], "none: No such file or directory"),
    ] {
        let said = try_sign(scratch.path(), zones, output, options).unwrap_err();
        assert!(said.contains(message), "{said}");
    }
    for options in
        [&["--salt", "abc", "--nsec3"][..], &["--opt-out"], &["--algorithm", "md5"], &["--inception", "soon"]]
    {
        let output = ldplayer().args(["zones", "sign", "x", "-o", "y"]).args(options).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{options:?}");
    }
}

/// KeyTrap: validators of files find the right signature; delv gives up at a wrong one, as patched validators do.
#[test]
fn keys_collide_and_signatures_are_wrong_where_that_is_asked_for() {
    let scratch = scratch();
    let options = ["--zone", "other", "--algorithm", "ed25519", "--collisions", "5"];
    sign(scratch.path(), "zones", "trap", &options);
    let (trap, file) = (scratch.path().join("trap"), scratch.path().join("trap/other.zone"));
    verify(file.clone(), "other");
    assert_eq!(lines(file.clone(), " DNSKEY 25").len(), 7);
    let signatures = lines(file, "www.other. 60 RRSIG A ").len();
    assert_eq!(signatures, 6, "five wrong ones and the right one");
    let folder = tempfile::tempdir().unwrap();
    let serving = Served::start(folder.path(), trap.to_str().unwrap(), &[]);
    let mut delv = Command::new("delv");
    delv.args(["@127.0.0.1", "-p", &serving.port.to_string(), "+root=other", "-a"])
        .arg(trap.join("trust-anchors.conf"));
    let output = delv.args(["www.other", "A"]).output().unwrap();
    let told = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    assert!(told.contains("no valid signature found"), "{told}");
    let refused = try_sign(scratch.path(), "zones", "none", &["--collisions", "5"]).unwrap_err();
    assert!(refused.contains("5 keys of ecdsap256sha256 with one tag cannot be made: use ed25519"), "{refused}");
}
