//! `--udp-size`: long UDP answers reach who asks for them, over links whose packets are shorter.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

/// The server of the zone, an address of the testbed's Internet.
const SERVER: &str = "@198.51.100.7";

/// A testbed that serves one zone; it is taken down in the end.
struct Testbed(tempfile::TempDir);

impl Testbed {
    fn up(options: &[&str]) -> Self {
        let testbed = Self(tempfile::tempdir().unwrap());
        let zones = testbed.folder().join("zones");
        fs::create_dir(&zones).unwrap();
        let texts: String = (0..24).map(|at| format!("big TXT \"{at:0>120}\"\n")).collect();
        let head = "$ORIGIN example.\n$TTL 60\n@ SOA ns hostmaster 1 3600 900 604800 60\n@ NS ns\nns A 198.51.100.7\n";
        fs::write(zones.join("example.zone"), format!("{head}{texts}")).unwrap();
        testbed.run(&[&["up", "--zones", "zones"], options].concat());
        testbed
    }

    fn folder(&self) -> &Path {
        self.0.path()
    }

    fn run(&self, arguments: &[&str]) -> String {
        let output = self.command(arguments);
        assert!(output.status.success(), "{arguments:?}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    fn command(&self, arguments: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_ldplayer"));
        command.current_dir(self.folder()).env("XDG_RUNTIME_DIR", self.folder()).arg("testbed").args(arguments);
        command.output().unwrap()
    }

    /// What dig says of the long answer, asked for with an EDNS size.
    fn ask(&self, size: &str) -> String {
        let size = format!("+bufsize={size}");
        self.run(&["exec", "resolver", "--", "dig", SERVER, "big.example", "TXT", "+ignore", "+tries=1", &size])
    }
}

impl Drop for Testbed {
    fn drop(&mut self) {
        self.command(&["down"]);
    }
}

fn is_cut(answer: &str) -> bool {
    answer.lines().find(|line| line.starts_with(";; flags:")).unwrap().contains(" tc")
}

fn octets(answer: &str) -> u32 {
    answer.lines().find_map(|line| line.strip_prefix(";; MSG SIZE  rcvd: ")).unwrap().parse().unwrap()
}

#[test]
fn answers_of_4096_octets_cross_links_of_1500() {
    let testbed = Testbed::up(&["--udp-size", "4096"]);
    let whole = testbed.ask("4096");
    assert!(!is_cut(&whole) && (3_000..4_096).contains(&octets(&whole)), "{whole}");
    let short = testbed.ask("1400");
    assert!(is_cut(&short) && octets(&short) <= 1_400, "{short}");
}

#[test]
fn answers_are_cut_at_1232_octets_unless_told_otherwise() {
    let answer = Testbed::up(&[]).ask("4096");
    assert!(is_cut(&answer) && octets(&answer) <= 1_232, "{answer}");
}
