//! Manual pages and completions, as packages install them: readable by those who read them, and complete.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use tempfile::TempDir;

fn ldplayer(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_ldplayer")).args(arguments).output().unwrap()
}

/// What a program says; a program that is missing or fails ends the test.
fn said(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).output();
    let output = output.unwrap_or_else(|error| panic!("{program}: {error}; scripts/need.sh {program} installs it"));
    let text = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program} {arguments:?}: {text}");
    text
}

fn pages() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    // In a directory that is not there yet.
    let output = ldplayer(&["man", "--out", folder.path().join("man1").to_str().unwrap()]);
    assert!(output.status.success() && output.stdout.is_empty(), "{output:?}");
    folder
}

fn page(folder: &TempDir, name: &str) -> PathBuf {
    folder.path().join("man1").join(name)
}

/// A page as a terminal shows it, without bold and underline.
fn rendered(page: &Path) -> String {
    let text = said("mandoc", &["-T", "ascii", page.to_str().unwrap()]);
    let mut plain = String::new();
    for letter in text.chars() {
        if letter == '\u{8}' {
            plain.pop();
        } else {
            plain.push(letter);
        }
    }
    plain
}

/// The names under "Commands:" of a help.
fn subcommands(command: &[&str]) -> Vec<String> {
    let help = ldplayer(&[command, &["--help"]].concat());
    let help = String::from_utf8(help.stdout).unwrap();
    let lines = help.lines().skip_while(|line| *line != "Commands:").skip(1).take_while(|line| !line.is_empty());
    let names = lines.filter(|line| !line.starts_with("   ")).filter_map(|line| line.split_whitespace().next());
    names.filter(|name| *name != "help").map(str::to_owned).collect()
}

#[test]
fn each_command_in_the_help_has_a_page_and_no_other_has() {
    let mut expected = BTreeSet::from(["ldplayer.1".to_owned()]);
    for command in subcommands(&[]) {
        expected.insert(format!("ldplayer-{command}.1"));
        expected.extend(subcommands(&[&command]).iter().map(|verb| format!("ldplayer-{command}-{verb}.1")));
    }
    assert!(expected.contains("ldplayer-zones-build.1") && !expected.contains("ldplayer-man.1"), "{expected:?}");
    let folder = pages();
    let files = fs::read_dir(folder.path().join("man1")).unwrap();
    let found: BTreeSet<String> = files.map(|file| file.unwrap().file_name().into_string().unwrap()).collect();
    assert_eq!(found, expected);
}

#[test]
fn mandoc_finds_no_fault_with_the_pages() {
    let folder = pages();
    for file in fs::read_dir(folder.path().join("man1")).unwrap() {
        said("mandoc", &["-T", "lint", "-W", "error", file.unwrap().path().to_str().unwrap()]);
    }
}

/// What `--help` has below the options: prose is filled, and each line of an example stays a line.
#[test]
fn pages_have_notes_and_examples() {
    let folder = pages();
    let text = rendered(&page(&folder, "ldplayer-completions.1"));
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    for line in ["NOTES", "EXAMPLES", "ldplayer completions fish >~/.config/fish/completions/ldplayer.fish", "SEE ALSO"]
    {
        assert!(lines.contains(&line), "{line} in {text}");
    }
    assert!(!lines.contains(&"Examples:"), "the heading says it already: {text}");
    assert!(text.contains(concat!("ldplayer ", env!("CARGO_PKG_VERSION"))), "{text}");
    let text = rendered(&page(&folder, "ldplayer.1"));
    assert!(text.contains("EXIT STATUS") && text.contains("ldplayer-replay(1)"), "{text}");
}

/// The script for a shell, in a file.
fn script(folder: &TempDir, shell: &str) -> String {
    let output = ldplayer(&["completions", shell]);
    assert!(output.status.success(), "{output:?}");
    let file = folder.path().join(shell);
    fs::write(&file, output.stdout).unwrap();
    file.to_str().unwrap().to_owned()
}

/// What bash offers for the last of these words.
fn bash_offers(script: &str, words: &str) -> Vec<String> {
    let ask = format!(
        "source {script}; COMP_WORDS=({words}); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1)); \
         _ldplayer ldplayer \"${{COMP_WORDS[COMP_CWORD]}}\" \"${{COMP_WORDS[COMP_CWORD - 1]}}\"; printf '%s\\n' \"${{COMPREPLY[@]}}\""
    );
    said("bash", &["--norc", "-c", &ask]).lines().map(str::to_owned).collect()
}

#[test]
fn bash_completes_commands_options_and_values() {
    let folder = tempfile::tempdir().unwrap();
    let script = script(&folder, "bash");
    said("bash", &["-n", &script]);
    assert_eq!(bash_offers(&script, "ldplayer rep"), ["replay", "report"]);
    assert_eq!(bash_offers(&script, "ldplayer zones bu"), ["build"]);
    assert!(bash_offers(&script, "ldplayer replay --metr").contains(&"--metrics".to_owned()));
    assert_eq!(bash_offers(&script, "ldplayer completions z"), ["zsh"]);
    let all = bash_offers(&script, "ldplayer ''");
    assert!(all.contains(&"completions".to_owned()), "{all:?}");
    assert!(!all.contains(&"man".to_owned()), "hidden commands are offered: {all:?}");
    let of_doctor = bash_offers(&script, "ldplayer doctor --");
    assert!(of_doctor.contains(&"--json".to_owned()), "{of_doctor:?}");
    assert!(!of_doctor.contains(&"--version".to_owned()), "only the whole command has a version: {of_doctor:?}");
}

#[test]
fn fish_completes_commands() {
    let folder = tempfile::tempdir().unwrap();
    let script = script(&folder, "fish");
    said("fish", &["--no-execute", &script]);
    let offered =
        said("fish", &["--no-config", "-c", &format!("source {script}; complete --do-complete 'ldplayer rep'")]);
    let names: Vec<&str> = offered.lines().filter_map(|line| line.split('\t').next()).collect();
    assert_eq!(names, ["replay", "report"]);
}

#[test]
fn zsh_takes_the_completion_for_its_command() {
    let folder = tempfile::tempdir().unwrap();
    let script = script(&folder, "zsh");
    said("zsh", &["-n", &script]);
    let ask =
        format!("autoload -Uz compinit; compinit -D -u; source {script}; print $_comps[ldplayer]; whence -w _ldplayer");
    let taken = said("zsh", &["-f", "-c", &ask]);
    assert_eq!(taken, "_ldplayer\n_ldplayer: function\n");
}

/// What is linked into the binary, by the bill of materials of the packages.
#[test]
fn the_bill_of_materials_has_each_library_with_its_checksum() {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../packaging/sbom.py");
    let bill = said("python3", &[script, "x86_64-unknown-linux-gnu"]);
    assert_eq!(bill, said("python3", &[script, "x86_64-unknown-linux-gnu"]), "the same commit gives the same octets");
    let bill: serde_json::Value = serde_json::from_str(&bill).unwrap();
    let parts = bill["components"].as_array().unwrap();
    let of = |name: &str| parts.iter().find(|part| part["name"] == name).unwrap_or_else(|| panic!("no {name}"));
    for name in ["rustls", "parquet", "domain", "clap"] {
        let part = of(name);
        assert_eq!(part["hashes"][0]["content"].as_str().map(str::len), Some(64), "{part}");
        assert!(
            part["licenses"][0]["expression"].is_string() && part["purl"].as_str().unwrap().starts_with("pkg:cargo/")
        );
    }
    // Scripts and the font of the report; tests' libraries are not in the binary.
    of("d3");
    assert!(parts.len() > 100 && parts.iter().all(|part| part["name"] != "proptest"));
}
