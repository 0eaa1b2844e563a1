//! Which files zone files may include: an option of commands that read zone sets.

use ldplayer_zone::load::Includes;

/// The option.
#[derive(clap::Args, Clone, Copy, Debug)]
pub struct Including {
    /// Let $INCLUDE name files anywhere; otherwise it names those in the zone file's folder and below it
    #[arg(long, hide_short_help = true)]
    include_anywhere: bool,
}

impl Including {
    /// What it says.
    pub const fn includes(self) -> Includes {
        if self.include_anywhere { Includes::Anywhere } else { Includes::Below }
    }
}
