//! `ldplayer man`: writes the manual pages that packages install, one for each subcommand.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context;
use clap::{Command, CommandFactory};
use clap_mangen::Man;
use clap_mangen::roff::{Roff, bold, roman};
use ldplayer_net::output;

use crate::failure::Failure;

/// Options of `man`.
#[derive(clap::Args)]
pub struct Args {
    /// Directory for the pages; made where it is missing
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
}

/// Exit statuses, for the page of the whole command.
const STATUSES: [(&str, &str); 6] = [
    ("0", "Success."),
    ("1", "The run was made, but its verdict or a gate failed."),
    ("2", "Bad usage or bad input."),
    ("3", "The environment cannot do it: a missing right, or a missing program."),
    ("4", "Noise leaves a gate undecided."),
    ("130", "Interrupted. What was measured is complete."),
];

/// Runs the command.
pub fn run(args: &Args) -> Result<ExitCode, Failure> {
    let directory = args.out.display();
    fs::create_dir_all(&args.out).with_context(|| format!("{directory}: cannot make the directory"))?;
    let mut root = crate::Cli::command().disable_help_subcommand(true);
    root.build();
    write(root, None, &args.out).with_context(|| format!("{directory}: cannot write the pages"))?;
    Ok(ExitCode::SUCCESS)
}

/// Writes the pages of a command and its subcommands.
fn write(command: Command, parent: Option<&str>, directory: &Path) -> io::Result<()> {
    let name = command.get_display_name().unwrap_or(command.get_name()).to_owned();
    for subcommand in command.get_subcommands().filter(|subcommand| !subcommand.is_hide_set()) {
        write(subcommand.clone(), Some(&name), directory)?;
    }
    output::write(&directory.join(format!("{name}.1")), page(command, parent)?)
}

fn page(command: Command, parent: Option<&str>) -> io::Result<Vec<u8>> {
    let after = command.get_after_long_help().or_else(|| command.get_after_help());
    let after = after.map(ToString::to_string).unwrap_or_default();
    let (options, subcommands) = (command.get_arguments().count() > 0, command.has_subcommands());
    let release = concat!("ldplayer ", env!("CARGO_PKG_VERSION"));
    let man = Man::new(command).source(release).manual("ldplayer manual");
    let mut page = Vec::new();
    man.render_title(&mut page)?;
    man.render_name_section(&mut page)?;
    man.render_synopsis_section(&mut page)?;
    man.render_description_section(&mut page)?;
    if options {
        man.render_options_section(&mut page)?;
    }
    if subcommands {
        man.render_subcommands_section(&mut page)?;
    }
    let mut roff = Roff::new();
    notes_and_examples(&mut roff, &after);
    match parent {
        Some(parent) => see_also(&mut roff, parent),
        None => statuses(&mut roff),
    }
    roff.to_writer(&mut page)?;
    Ok(page)
}

/// What stands below the options in `--help`: prose, then examples.
fn notes_and_examples(roff: &mut Roff, after: &str) {
    let lines: Vec<&str> = after.lines().collect();
    let first = lines.iter().position(|line| line.starts_with("Example")).unwrap_or(lines.len());
    for (heading, lines) in [("NOTES", &lines[..first]), ("EXAMPLES", &lines[first..])] {
        if lines.iter().any(|line| !line.is_empty()) {
            roff.control("SH", [heading]);
            paragraphs(roff, lines);
        }
    }
}

/// Indented lines stay as they are; others are filled.
fn paragraphs(roff: &mut Roff, lines: &[&str]) {
    for block in lines.chunk_by(|one, next| one.starts_with(' ') == next.starts_with(' ')) {
        if block[0].starts_with(' ') {
            roff.control("PP", []).control("RS", ["4"]).control("nf", []);
            for line in block {
                roff.text([roman(line.trim_start())]);
            }
            roff.control("fi", []).control("RE", []);
        } else {
            block.iter().for_each(|line| prose(roff, line));
        }
    }
}

/// A line of prose, without the word that the heading says already.
fn prose(roff: &mut Roff, line: &str) {
    match line.strip_prefix("Example: ").unwrap_or(line) {
        "" => roff.control("PP", []),
        "Example:" | "Examples:" => roff,
        line => roff.text([roman(line)]),
    };
}

fn statuses(roff: &mut Roff) {
    roff.control("SH", ["EXIT STATUS"]);
    for (status, meaning) in STATUSES {
        roff.control("TP", []).text([bold(status)]).text([roman(meaning)]);
    }
}

fn see_also(roff: &mut Roff, parent: &str) {
    roff.control("SH", ["SEE ALSO"]).text([bold(parent), roman("(1)")]);
}
