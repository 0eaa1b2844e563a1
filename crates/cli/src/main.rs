//! The `ldplayer` command: a subcommand is a thin file.

fn main() {}
