//! How zone sets are read: options of commands that read them.

use ldplayer_zone::load::{Includes, Reading};

/// The option of all.
#[derive(clap::Args, Clone, Copy, Debug)]
pub struct Including {
    /// Let $INCLUDE name files anywhere; otherwise it names those in the zone file's folder and below it
    #[arg(long, hide_short_help = true)]
    include_anywhere: bool,
}

impl Including {
    /// What it says.
    pub fn reading(self) -> Reading {
        if self.include_anywhere { Includes::Anywhere } else { Includes::Below }.into()
    }
}

/// The options of commands that serve them.
#[derive(clap::Args, Clone, Copy, Debug)]
pub struct Serving {
    #[command(flatten)]
    including: Including,
    /// Serve zones with records that no zone may have, without them; of several CNAME or DNAME records at a name, the first
    #[arg(long, hide_short_help = true)]
    keep_going: bool,
}

impl Serving {
    /// What they say.
    pub fn reading(self) -> Reading {
        Reading { keep_going: self.keep_going, ..self.including.reading() }
    }
}
