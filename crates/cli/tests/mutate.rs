//! `ldplayer mutate` as a user meets it: rules in, traces out, the same for the same seed; the documentation's rules work.

use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};

const L_ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../data/l-root-20161006.pcap.xz");
const RULES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../data/rules");

fn ldplayer(directory: &Path, args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ldplayer"));
    command.current_dir(directory).args(args).stdin(Stdio::null()).output().unwrap()
}

fn succeed(directory: &Path, args: &[&str]) -> String {
    let output = ldplayer(directory, args);
    assert!(output.status.success(), "{args:?}: {}", stderr(&output));
    String::from_utf8(output.stdout).unwrap()
}

fn refuse(directory: &Path, args: &[&str]) -> String {
    let output = ldplayer(directory, args);
    assert_eq!(output.status.code(), Some(2), "{args:?}: {}", stderr(&output));
    let line = stderr(&output);
    assert_eq!(line.trim_end().lines().count(), 1, "{line}");
    line
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn inspect(directory: &Path, trace: &str) -> serde_json::Value {
    serde_json::from_str(&succeed(directory, &["inspect", "--json", trace])).unwrap()
}

/// The text between fences of a kind in a page of the documentation.
fn fenced(page: &str, kind: &str) -> Vec<String> {
    let text = fs::read_to_string(Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs")).join(page)).unwrap();
    let fence = format!("```{kind}\n");
    let blocks = text.split(&fence).skip(1);
    blocks.map(|block| block.split("```").next().unwrap().to_owned()).collect()
}

#[test]
fn the_papers_questions_are_answered_on_a_real_capture() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    succeed(path, &["convert", L_ROOT, "-o", "real.parquet"]);
    let before = inspect(path, "real.parquet");
    let all_do = format!("{RULES}/all-do.toml");
    let said =
        succeed(path, &["mutate", "real.parquet", "-o", "do.parquet", "--rules", &all_do, "--explain", "--json"]);
    let after = inspect(path, "do.parquet");
    assert_eq!((&after["do"], &after["edns"]), (&before["queries"], &before["queries"]));
    assert_eq!((&after["clients"], &after["unique_qnames"]), (&before["clients"], &before["unique_qnames"]));
    let said: serde_json::Value = serde_json::from_str(&said).unwrap();
    let lacking = before["queries"].as_u64().unwrap() - before["do"].as_u64().unwrap();
    assert_eq!(said["rules"][0]["changed"], lacking);
    let all_tcp = format!("{RULES}/all-tcp.toml");
    succeed(path, &["mutate", "real.parquet", "-o", "tcp.parquet", "--rules", &all_tcp]);
    assert_eq!(inspect(path, "tcp.parquet")["transports"], serde_json::json!({ "tcp": before["transactions"] }));
}

#[test]
fn the_same_seed_gives_the_same_octets() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    let rules = "[[rule]]\nshare='30 %'\ndo=true\ncookie=true\nqname-case='0x20'\n[[rule]]\nsample='90 %'\nper='query'\ntime-jitter='5ms'\n";
    fs::write(path.join("rules.toml"), rules).unwrap();
    for format in ["parquet", "pcap", "tsv"] {
        let write = |name: &str, seed: &str| {
            let name = format!("{name}.{format}");
            succeed(path, &["mutate", L_ROOT, "-o", &name, "--rules", "rules.toml", "--seed", seed]);
            fs::read(path.join(name)).unwrap()
        };
        let first = write("a", "7");
        assert!(first == write("b", "7"), "{format}: two runs differ");
        assert!(first != write("c", "8"), "{format}: the seed changes nothing");
    }
}

#[test]
fn the_documented_rules_are_rules() {
    let directory = tempfile::tempdir().unwrap();
    let blocks = fenced("mutate.md", "toml");
    assert_eq!(blocks.len(), 2);
    for (number, rules) in blocks.iter().enumerate() {
        fs::write(directory.path().join("rules.toml"), rules.replace("slice = \"60s\"", "slice = \"9s\"")).unwrap();
        let name = format!("{number}.parquet");
        succeed(directory.path(), &["mutate", L_ROOT, "-o", &name, "--rules", "rules.toml"]);
    }
    let cut = ["--set", "where=time >= 18s", "--set", "drop=true"];
    succeed(directory.path(), &[&["mutate", L_ROOT, "-o", "cut.parquet"], &cut[..]].concat());
    let [before, after] = ["cut.parquet", "1.parquet"].map(|trace| inspect(directory.path(), trace));
    let of = |value: &serde_json::Value, key: &str| value[key].as_f64().unwrap();
    assert!((17.9..18.01).contains(&of(&after, "span_s")), "{}", after["span_s"]);
    let growth = ["clients", "transactions"].map(|key| of(&after, key) / of(&before, key));
    assert!(growth.iter().all(|growth| (2.7..3.3).contains(growth)), "{growth:?}");
}

#[test]
fn every_documented_key_is_known_and_every_key_is_documented() {
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("a.tsv"), "time\tsrc\tqname\tqtype\n1\t192.0.2.1\ta.example\tA\n").unwrap();
    let said = refuse(directory.path(), &["mutate", "a.tsv", "--explain", "--set", "no-such-key-at-all=1"]);
    let known = said.split("expected one of ").nth(1).unwrap().trim();
    let page = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/mutate.md")).unwrap();
    for key in known.split(", ") {
        assert!(page.contains(&format!("`{key}")), "docs/mutate.md lacks `{key}`");
    }
}

#[test]
fn standard_input_to_standard_output() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    succeed(path, &["convert", L_ROOT, "-o", "real.pcap"]);
    let binary = env!("CARGO_BIN_EXE_ldplayer");
    let pipe = format!("{binary} mutate - -o - --to pcap --set transport=tcp < real.pcap | {binary} inspect --json -");
    let output = Command::new("sh").arg("-c").arg(pipe).current_dir(path).output().unwrap();
    let summary: serde_json::Value =
        serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", stderr(&output)));
    let before = inspect(path, "real.pcap");
    assert_eq!(summary["transports"], serde_json::json!({ "tcp": before["transactions"] }));
    assert_eq!(summary["rcodes"], before["rcodes"]);
}

#[test]
fn two_traces_are_compared() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    let rows = "1\t192.0.2.1\ta.example\tA\n2\t192.0.2.2\tb.example\tNS\n3\t192.0.2.2\tc.example\tA\n4\t192.0.2.1\td.example\tA\n";
    fs::write(path.join("a.tsv"), format!("time\tsrc\tqname\tqtype\n{rows}")).unwrap();
    let rules =
        "[[rule]]\nwhere='client == 192.0.2.2'\ntransport='tcp'\n[[rule]]\nwhere='qname == a.example'\ndrop=true\n";
    fs::write(path.join("rules.toml"), rules).unwrap();
    succeed(path, &["mutate", "a.tsv", "-o", "b.tsv", "--rules", "rules.toml"]);
    let expected = "4 transactions in a.tsv, 3 in b.tsv\n1 are the same, 2 differ, 1 only in a.tsv, 0 only in b.tsv\n  \
        transport 2 (66.67 %)\n  row 1     b.example. NS of 192.0.2.2:0: transport udp → tcp\n  \
        row 2     c.example. A of 192.0.2.2:0: transport udp → tcp\n";
    assert_eq!(succeed(path, &["mutate", "--diff", "a.tsv", "b.tsv"]), expected);
    let said = succeed(path, &["mutate", "--diff", "a.tsv", "b.tsv", "--by-row", "--json"]);
    let json: serde_json::Value = serde_json::from_str(&said).unwrap();
    assert_eq!((&json["only_a"], &json["fields"]["qname"]), (&1.into(), &3.into()));
}

/// A capture as DNS Shotgun's extract-clients writes it: raw IPv6, a client an address below fd00::, from port 53 to port 53 of
/// ::1, times from the start of the slice.
fn shotgun_clients(clients: u8) -> Vec<u8> {
    let mut file = [0xa1b2_c3d4_u32, 0x0004_0002, 0, 0, 66_000, 12].map(u32::to_le_bytes).concat();
    for client in 0..clients {
        let query = [&[0, client, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0][..], b"\x07example\0\0\x01\0\x01"].concat();
        let length = 8 + query.len() as u16;
        let mut packet = vec![0x60, 0, 0, 0, 0, length as u8, 17, 64, 0xfd];
        packet.extend([0; 14]);
        packet.push(client);
        packet.extend([0; 15]);
        packet.push(1);
        packet.extend([0, 53, 0, 53, 0, length as u8, 0, 0]);
        packet.extend(query);
        let size = packet.len() as u32;
        file.extend([0, 1_000 * u32::from(client), size, size].map(u32::to_le_bytes).concat());
        file.extend(packet);
    }
    file
}

#[test]
fn client_captures_of_shotgun_are_read_and_overlaid() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    fs::write(path.join("clients.pcap"), shotgun_clients(40)).unwrap();
    let summary = inspect(path, "clients.pcap");
    assert_eq!((&summary["queries"], &summary["clients"], &summary["servers"]), (&40.into(), &40.into(), &1.into()));
    let population = ["--set", "population.times=2", "--set", "population.slice=10ms"];
    succeed(path, &[&["mutate", "clients.pcap", "-o", "two.parquet"], &population[..]].concat());
    let two = inspect(path, "two.parquet");
    // The last of the slices is not full, so the last two are left out.
    assert_eq!((&two["queries"], &two["clients"], &two["span_s"]), (&20.into(), &20.into(), &0.009.into()));
}

#[test]
fn a_replay_applies_rules_in_flight() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    fs::write(path.join("queries"), "a.example A\nb.example A\n").unwrap();
    fs::write(
        path.join("rules.toml"),
        "[[rule]]\nqname-prefix = 'u{n}'\ndo = true\n[[rule]]\nwhere='qtype == MX'\ndrop=true\n",
    )
    .unwrap();
    let server = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = server.local_addr().unwrap().to_string();
    let common = ["--server", &address, "--query-timeout", "0.1", "--no-probe", "-o", "run"];
    let output = ldplayer(path, &[&["replay", "queries", "--rules", "rules.toml"], &common[..]].concat());
    assert_eq!(output.status.code(), Some(1), "nobody answers: {}", stderr(&output));
    assert!(stderr(&output).contains("warning: `rule 2` matched none of 2"), "{}", stderr(&output));
    let mut buffer = [0; 512];
    for name in [&b"\x02u0\x01a\x07example\0"[..], b"\x02u1\x01b\x07example\0"] {
        let length = server.recv(&mut buffer).unwrap();
        let query = ldplayer_core::Message::new(&buffer[..length]).unwrap();
        assert_eq!(query.question().unwrap().name, name);
        assert!(query.edns().unwrap().dnssec_ok);
    }
}

#[test]
fn explanations_name_rules_and_show_examples() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    let rows = "1\t192.0.2.1\twww.example\tA\n2\t192.0.2.2\twww.example\tNS\n";
    fs::write(path.join("a.tsv"), format!("time\tsrc\tqname\tqtype\n{rows}")).unwrap();
    let args = [
        "mutate",
        "a.tsv",
        "--explain",
        "--set",
        "where=qtype == NS",
        "--set",
        "name=over TLS",
        "--set",
        "transport=dot",
    ];
    let said = succeed(path, &args);
    let expected = "over TLS: changes 1 of 2 transactions (50.00 %), 1 match\n  \
        row 1     www.example. NS of 192.0.2.2:0: server 0.0.0.0:53 → 0.0.0.0:853, transport udp → dot\n";
    assert_eq!(said, expected);
    assert_eq!(fs::read_dir(path).unwrap().count(), 1, "an explanation alone writes nothing");
    let nothing = ldplayer(path, &["mutate", "a.tsv", "-o", "-", "--set", "where=qtype == MX", "--set", "do=true"]);
    assert!(stderr(&nothing).contains("warning: `rule 1` matched none of 2 transactions"), "{}", stderr(&nothing));
}

#[test]
fn wrong_usage_gets_one_line() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    fs::write(path.join("a.tsv"), "time\tsrc\tqname\tqtype\n1\t192.0.2.1\ta.example\tA\n").unwrap();
    fs::write(path.join("bad.toml"), "[[rule]]\ndo = true\nwehre = 'rd'\n").unwrap();
    let line = refuse(path, &["mutate", "a.tsv", "-o", "b.tsv", "--rules", "bad.toml"]);
    assert!(line.contains("bad.toml: line 3: unknown key `wehre`: did you mean `where`?"), "{line}");
    let line = refuse(path, &["mutate", "a.tsv", "-o", "b.tsv", "--set", "where=size == big", "--set", "do=true"]);
    assert!(line.contains("--set: `where`: column 9: `big` is not a valid value of `size`"), "{line}");
    assert!(refuse(path, &["mutate", "a.tsv", "-o", "b.tsv"]).contains("no rules: give --rules FILE or --set"));
    assert!(
        refuse(path, &["mutate", "a.tsv", "-o", "b.tsv", "--set", "do=true", "--set", "share=150 %"])
            .contains("not between 0 % and 100 %")
    );
    let population = ["--set", "population.times=2", "--set", "population.slice=1h"];
    let line = refuse(path, &[&["mutate", "a.tsv", "-o", "b.tsv"], &population[..]].concat());
    assert!(line.contains("a.tsv") && line.contains("choose a shorter slice"), "{line}");
    let line = refuse(path, &[&["mutate", "-", "-o", "b.tsv"], &population[..]].concat());
    assert!(line.contains("give a file"), "{line}");
    assert!(!path.join("b.tsv").exists());
}

#[test]
fn help_has_an_example() {
    let directory = tempfile::tempdir().unwrap();
    assert!(succeed(directory.path(), &["mutate", "--help"]).contains("Examples:\n  ldplayer mutate "));
}
