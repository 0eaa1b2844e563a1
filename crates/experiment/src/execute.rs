//! Makes the runs of a plan, one after the other.

use std::os::unix::net::UnixListener;
use std::path::Path;

use ldplayer_net::{limits, process, rights};
use rustix::fs::statvfs;

use crate::dataset;
use crate::error::ExperimentError;
use crate::maker::{Maker, needs};
use crate::plan::{Plan, Slot};
use crate::record::{self, Record, Workspace};
use crate::trials::search_all;
use crate::versions::{servers, versions};
use crate::watcher::{Options, Watcher};

/// What experiments on a machine notice each other by.
const ALONE: &[u8] = b"ldplayer-experiment";

/// Makes all missing runs of a plan, and returns the record of all runs.
///
/// Without the right to make namespaces, this process enters a user namespace, for which it must be single-threaded.
///
/// # Errors
/// An error that ends the whole experiment; finished runs are kept.
pub fn execute(
    plan: &Plan,
    workspace: Workspace,
    options: &Options,
    watcher: &mut dyn Watcher,
) -> Result<Record, ExperimentError> {
    // The lock is held until the end.
    let Workspace { directory, before, _lock } = workspace;
    let alone = alone(watcher);
    let mut record = Record::new(plan);
    if let Some(before) = before {
        let has_changed = before.file != record.file;
        record = record.going_on(before);
        record.notes.last().filter(|_| has_changed).into_iter().for_each(|note| watcher.tell(note));
    }
    let left: Vec<Slot> = plan.slots.iter().copied().filter(|slot| !record.is_finished(plan, *slot)).collect();
    if left.is_empty() && plan.experiment.find.is_none() {
        record.save(plan, &directory)?;
        return Ok(record);
    }
    if alone.is_none() {
        record.notes.push("another experiment was running on this machine at the same time".to_owned());
    }
    record::reserve(&directory)?;
    tell_of_room(
        plan,
        if plan.experiment.find.is_some() { plan.all().collect() } else { left.clone() },
        &directory,
        watcher,
    );
    // Servers inherit the limits of this process: raise them first, so that all servers get the same.
    let _ = limits::raise_nofile();
    let is_ours = plan.experiment.cells.iter().any(|cell| cell.stage.is_ours());
    if is_ours && options.replayer.is_some() {
        return Err(ExperimentError::OfOneHost);
    }
    if is_ours {
        rights::ensure_rights()?;
    }
    let servers = servers(plan);
    record.versions = versions(&servers, options)?;
    let mut maker = Maker { plan, directory: &directory, options, needs: needs(plan, &directory, options)?, watcher };
    match &plan.experiment.find {
        Some(find) => search_all(&mut maker, find, &mut record)?,
        None => maker.all(&left, &mut record)?,
    }
    if let Err(error) = dataset::write(&record, &directory) {
        watcher.tell(&format!("{}: the dataset of all rows cannot be made: {error}", directory.display()));
    }
    Ok(record)
}

/// Claims this machine for the experiment; warns and returns `None` if another experiment is running.
fn alone(watcher: &mut dyn Watcher) -> Option<UnixListener> {
    let listener = process::claim(ALONE);
    if listener.is_err() {
        watcher.tell("another experiment is running on this machine: they disturb each other, so their results are less reliable");
    }
    listener.ok()
}

/// Warns if the runs will probably not fit on the disk.
fn tell_of_room(plan: &Plan, left: Vec<Slot>, directory: &Path, watcher: &mut dyn Watcher) {
    let needed = plan.total(left.into_iter()).disk;
    let Ok(disk) = statvfs(directory) else { return };
    let free = disk.f_bavail.saturating_mul(disk.f_frsize);
    if needed > free {
        let (needed, free) = (needed / 1_000_000, free / 1_000_000);
        watcher.tell(&format!(
            "{}: only {free} MB of disk space is free, and the runs need about {needed} MB",
            directory.display()
        ));
    }
}
