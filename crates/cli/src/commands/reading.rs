//! How the inputs of a command are read: its options, and signals where an input has no end of its own.

use std::sync::Arc;

use ldplayer_core::size::Size;
use ldplayer_net::signals::Signals;
use ldplayer_trace::{Expansion, Input, OpenOptions, Role, TextFormat};

/// Options of every command that reads traces.
#[derive(clap::Args, Clone, Debug)]
pub struct Reading {
    /// Port that carries DNS in captures; several times for several ports
    #[arg(long, alias = "port", value_name = "PORT", default_value = "53", value_delimiter = ',')]
    pub capture_port: Vec<u16>,
    /// Roles to take from dnstap and C-DNS: auth, resolver, client, forwarder, stub, tool, update
    #[arg(long, value_name = "ROLE", value_delimiter = ',')]
    pub role: Vec<Role>,
    /// Leave out datagrams that a capture has twice: of two interfaces, VLANs, or directions of a mirror
    #[arg(long)]
    pub drop_duplicates: bool,
    /// Format of text without a header line: ldplayer or dnsperf [default: what most of its first lines are]
    #[arg(long, value_name = "FORMAT", hide_short_help = true)]
    pub text_format: Option<TextFormat>,
    /// Refuse inputs of more than SIZE, decompressed, such as 10GB
    #[arg(long, value_name = "SIZE")]
    pub max_input: Option<Size>,
}

impl Reading {
    /// What a resolver was recorded to ask.
    pub fn of_resolver() -> Self {
        Self {
            capture_port: vec![53],
            role: vec![Role::Resolver],
            drop_duplicates: false,
            text_format: None,
            max_input: None,
        }
    }

    /// The inputs and how they are read. Where one is a socket, the first Ctrl-C ends what comes through it, and what came
    /// is kept; the second ends the process.
    pub fn of(&self, traces: &[String]) -> (Vec<Input>, OpenOptions) {
        let inputs: Vec<Input> = traces.iter().map(|word| word.as_str().into()).collect();
        let options = OpenOptions {
            ports: self.capture_port.clone(),
            roles: self.role.clone(),
            drop_duplicates: self.drop_duplicates,
            text_format: self.text_format,
            max_input: self.max_input,
            tell_expansion: Some(tell_expansion),
            ..OpenOptions::default()
        };
        if is_live(&inputs) {
            // Where they cannot be caught, signals end the process as they would without us.
            let _ = Signals::catch_or_end(Arc::clone(&options.stop));
        }
        (inputs, options)
    }
}

/// Says how far an archive has expanded.
pub fn tell_expansion(expansion: Expansion<'_>) {
    tell!("{expansion}");
}

/// Whether one of the inputs is a socket, which has no end of its own: Ctrl-C is the regular one.
pub fn is_live(inputs: &[Input]) -> bool {
    inputs.iter().any(|input| matches!(input, Input::Unix(_)))
}
