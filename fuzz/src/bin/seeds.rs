//! Writes what `responses` begins with: pairs of real responses, from captures.
//!
//! Arguments: a folder that is there, and captures.

use std::collections::HashSet;
use std::path::PathBuf;

use ldplayer_trace::{Input, OpenOptions, open};

/// Pairs that are written at most.
const MAX_PAIRS: usize = 500;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args_os().skip(1).map(PathBuf::from);
    let folder = arguments.next().ok_or("give a folder and captures")?;
    let inputs: Vec<Input> = arguments.map(Input::File).collect();
    let mut source = open(&inputs, &OpenOptions::default())?;
    let (mut rows, mut seen, mut responses) = (Vec::new(), HashSet::new(), Vec::new());
    while responses.len() < 2 * MAX_PAIRS {
        let more = source.read(&mut rows)?;
        let found = rows.drain(..).filter_map(|row| row.response);
        // What differs by its ID alone says nothing new.
        responses.extend(found.filter(|response| seen.insert(response.slice(2..))));
        if !more {
            break;
        }
    }
    for (number, pair) in responses.chunks_exact(2).take(MAX_PAIRS).enumerate() {
        let cut = u16::try_from(pair[0].len())?.to_be_bytes();
        std::fs::write(folder.join(format!("real-{number}")), [&cut[..], &pair[0], &pair[1]].concat())?;
    }
    Ok(())
}
