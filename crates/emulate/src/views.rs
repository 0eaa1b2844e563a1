//! The paper's server for the whole hierarchy: BIND with split horizon, one view for each set of name server addresses.
//!
//! The proxies on the wire make each query appear to come from the address that was queried, and `match-clients`
//! chooses the view by it (ISI-TR-722 §2.4). A zone in several views is stored once (`in-view`).

use std::collections::HashMap;
use std::fmt::Write as _;
use std::net::SocketAddr;
use std::path::PathBuf;

use ldplayer_core::name::Presentation;

use crate::serve::set::ZoneSet;
use crate::stock::{Kind, StockError, quoted, quoted_path};

/// The complete configuration of a BIND that listens on these addresses. Zone files have absolute paths: those of the set, or of what takes their
/// place.
///
/// # Errors
/// A path or name cannot be quoted in the configuration.
pub fn configuration(
    set: &ZoneSet,
    listen: &[SocketAddr],
    instead: &HashMap<PathBuf, PathBuf>,
) -> Result<String, StockError> {
    let mut text = Kind::BIND.head(std::path::Path::new("."), listen)?;
    let mut defined: HashMap<u32, usize> = HashMap::new();
    let views = set.index().views();
    for (number, (addresses, zones)) in views.iter().filter(|(_, zones)| !zones.is_empty()).enumerate() {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "view \"v{number}\" {{\n  match-clients {{");
        for address in addresses {
            let _ = writeln!(text, "    {address};");
        }
        text.push_str("  };\n");
        for &zone in *zones {
            let statement = statement(set, zone, defined.get(&zone).copied(), instead)?;
            defined.entry(zone).or_insert(number);
            let _ = writeln!(text, "  {statement}");
        }
        text.push_str("};\n");
    }
    Ok(text)
}

fn statement(
    set: &ZoneSet,
    zone: u32,
    view: Option<usize>,
    instead: &HashMap<PathBuf, PathBuf>,
) -> Result<String, StockError> {
    let zone = &set.zones()[zone as usize];
    let apex = quoted(&Presentation(zone.apex()).to_string())?;
    Ok(match view {
        Some(view) => format!("zone {apex} {{ in-view \"v{view}\"; }};"),
        None => {
            let file = instead.get(zone.file()).map_or(zone.file(), PathBuf::as_path);
            format!("zone {apex} {{ type primary; file {}; }};", quoted_path(file)?)
        }
    })
}
