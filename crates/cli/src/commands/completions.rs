//! `ldplayer completions`: a script for the completion of subcommands and options in a shell.

use std::io::Write;
use std::process::ExitCode;

use clap::{Command, CommandFactory, ValueEnum};
use clap_complete::shells;

use crate::failure::Failure;

/// Options of `completions`.
#[derive(clap::Args)]
#[command(after_help = "\
The packages install these scripts. Without a package, put the script where the shell looks for it.

Examples:
  ldplayer completions bash >~/.local/share/bash-completion/completions/ldplayer
  ldplayer completions zsh >/usr/local/share/zsh/site-functions/_ldplayer
  ldplayer completions fish >~/.config/fish/completions/ldplayer.fish")]
pub struct Args {
    /// Shell that reads the script
    shell: Shell,
}

#[derive(Clone, Copy, ValueEnum)]
enum Shell {
    Bash,
    Zsh,
    Fish,
}

/// Runs the command.
pub fn run(args: &Args) -> Result<ExitCode, Failure> {
    let mut command = visible(&crate::Cli::command());
    let mut script = Vec::new();
    match args.shell {
        Shell::Bash => clap_complete::generate(shells::Bash, &mut command, "ldplayer", &mut script),
        Shell::Zsh => clap_complete::generate(shells::Zsh, &mut command, "ldplayer", &mut script),
        Shell::Fish => clap_complete::generate(shells::Fish, &mut command, "ldplayer", &mut script),
    }
    crate::printing::data().write_all(&script)?;
    Ok(ExitCode::SUCCESS)
}

/// The command without the subcommands that its help hides: the script for bash would offer them.
fn visible(command: &Command) -> Command {
    let shown = Command::new(command.get_name().to_owned())
        .about(command.get_about().cloned().unwrap_or_default())
        .version(command.get_version().map(str::to_owned).unwrap_or_default())
        .args(command.get_arguments())
        .groups(command.get_groups())
        .subcommands(command.get_subcommands().filter(|command| !command.is_hide_set()).map(visible));
    if command.get_version().is_none() { shown.disable_version_flag(true) } else { shown }
}
