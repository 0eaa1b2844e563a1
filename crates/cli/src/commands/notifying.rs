//! The option for telling secondaries of zones.

use std::net::SocketAddr;
use std::sync::Arc;
use std::thread;

use ldplayer_core::text::counted;
use ldplayer_emulate::serve::notify::{self, Told};
use ldplayer_emulate::serve::set::ZoneSet;

use super::encrypting::parse_address;

/// The port of DNS.
const PORT: u16 = 53;

/// Options of commands that let zones be transferred.
#[derive(clap::Args)]
pub struct Notifying {
    /// Secondaries to tell of all zones at the start and after each reload (NOTIFY)
    #[arg(long, value_name = "ADDR[:PORT],...", value_delimiter = ',', value_parser = parse, requires = "transfers", hide_short_help = true)]
    notify: Vec<SocketAddr>,
}

impl Notifying {
    /// Tells each secondary, on a thread of its own, and then prints what it said.
    pub fn tell(&self, set: &Arc<ZoneSet>) {
        for &secondary in &self.notify {
            let set = Arc::clone(set);
            thread::spawn(move || match notify::tell(secondary, set.zones()) {
                Ok(told) => tell!("ldplayer: NOTIFY to {secondary}: {}", words(&told)),
                Err(error) => tell!("ldplayer: NOTIFY to {secondary}: {error}"),
            });
        }
    }
}

fn words(told: &Told) -> String {
    let zones = counted(told.zones as u64, "zone", "zones");
    let others = [(told.refused, "refused"), (told.silent(), "without an answer")];
    let others = others.iter().filter(|(count, _)| *count > 0).map(|(count, what)| format!(", {count} {what}"));
    format!("{zones}, {} accepted{}", told.accepted, others.collect::<String>())
}

fn parse(word: &str) -> Result<SocketAddr, String> {
    parse_address(word, PORT)
}
