//! Reads a folder as one trace in the order of time: hour after hour of a data set, or all its files at once.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use ldplayer_core::Transaction;
use ldplayer_core::damage::{Ending, Tally};

use super::{merged, open_one};
use crate::manifest::{HOUR, Manifest, files_below};
use crate::{Input, OpenOptions, Source, TraceError};

/// The hours of a folder.
struct Hours {
    /// The files of the hours to come, the next one last.
    hours: Vec<Vec<PathBuf>>,
    current: Box<dyn Source>,
    options: OpenOptions,
    /// Of the hours before the current one, and what the inputs of the data set lacked.
    before: Tally,
    tally: Tally,
}

/// Opens a folder.
///
/// # Errors
/// It cannot be read, or there is no file in it, or one of them cannot be read.
pub(super) fn open(folder: &Path, options: &OpenOptions) -> Result<Box<dyn Source>, TraceError> {
    let manifest = Manifest::of(folder)?;
    let mut files: Vec<PathBuf> = match manifest.parts.is_empty() {
        // What a part that is not complete has left is not read.
        false => manifest.parts.iter().flat_map(|part| &part.files).map(|file| folder.join(&file.path)).collect(),
        true => files_below(folder).map_err(|source| TraceError::File { path: folder.to_owned(), source })?,
    };
    let mut hours = BTreeMap::<_, Vec<PathBuf>>::new();
    // Rows of the same time are numbered in the order of their files, which is the same without a manifest.
    files.sort();
    for file in files {
        hours.entry(hour(&file, folder)).or_default().push(file);
    }
    let mut hours: Vec<_> = hours.into_values().rev().collect();
    let Some(first) = hours.pop() else {
        let (what, remedy) =
            ("a folder without files".into(), "give one with captures, or a data set of `ldplayer convert`".into());
        return Err(TraceError::Format { path: folder.to_owned(), what, remedy });
    };
    let before = Tally { damaged: manifest.tally().damaged, ..Tally::default() };
    let current = merge(&first, options)?;
    Ok(Box::new(Hours { hours, current, options: options.clone(), tally: before.clone(), before }))
}

/// The name of the hour that a file belongs to, below `folder`; none for files that are not divided by hours.
fn hour(file: &Path, folder: &Path) -> Option<String> {
    let within = file.strip_prefix(folder).unwrap_or(file);
    within.components().find_map(|part| part.as_os_str().to_str()?.strip_prefix(HOUR).map(str::to_owned))
}

fn merge(files: &[PathBuf], options: &OpenOptions) -> Result<Box<dyn Source>, TraceError> {
    let open = |file: &PathBuf| open_one(&Input::File(file.clone()), options, files.len());
    Ok(merged(files.iter().map(open).collect::<Result<_, _>>()?))
}

impl Source for Hours {
    fn read(&mut self, batch: &mut Vec<Transaction>) -> Result<bool, TraceError> {
        let more = self.current.read(batch)?;
        self.tally = self.before.clone();
        self.tally.merge(self.current.tally());
        if more {
            return Ok(true);
        }
        let Some(next) = self.hours.pop() else { return Ok(false) };
        self.before = self.tally.clone();
        // Of files that were read in full nothing is left to tell, and a set may have thousands.
        self.before.inputs.retain(|input| input.ending != Ending::Whole || input.unread > 0);
        self.current = merge(&next, &self.options)?;
        Ok(true)
    }

    fn tally(&self) -> &Tally {
        &self.tally
    }

    fn is_list(&self) -> bool {
        self.current.is_list()
    }
}
