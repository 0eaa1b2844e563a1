//! Files of run directories on their way from agents to the controller, through an object store of the NATS server.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use async_nats::jetstream::object_store::{Config, ObjectStore};
use async_nats::jetstream::stream::StorageType;
use futures_util::{StreamExt, TryStreamExt, stream};
use tokio::io::AsyncReadExt;
use tokio::time::{Instant, sleep};

use crate::bus::Bus;
use crate::error::ClusterError;

/// How long a file is tried to be stored or had, and the pause before the next try.
const PATIENCE: Duration = Duration::from_secs(60);
const PAUSE: Duration = Duration::from_millis(500);

/// Files that are got at a time.
const AT_A_TIME: usize = 16;

/// The store of a run.
fn bucket(run: u64) -> String {
    format!("ldplayer-{run:016x}")
}

/// Makes the store of a run.
///
/// # Errors
/// When the server does not.
pub fn open(bus: &Bus, run: u64, replicas: usize) -> Result<(), ClusterError> {
    let config =
        Config { bucket: bucket(run), storage: StorageType::File, num_replicas: replicas, ..Config::default() };
    let made = bus.wait(bus.context().create_object_store(config));
    made.map(drop).map_err(|error| ClusterError::store("making the store of files", error))
}

/// Removes the store of a run with what is in it.
pub fn remove(bus: &Bus, run: u64) {
    // Whoever cleans up cannot do more.
    let _ = bus.wait(bus.context().delete_object_store(bucket(run)));
}

/// Puts all files of a directory into the store. Returns their names there: that of the agent, and the path in the directory.
///
/// # Errors
/// When a file cannot be read or stored.
pub fn put(bus: &Bus, run: u64, agent: u32, directory: &Path) -> Result<Vec<String>, ClusterError> {
    let store = store(bus, run)?;
    let mut names = Vec::new();
    for file in files_below(directory)? {
        let inner = file.strip_prefix(directory).unwrap_or(&file).display().to_string();
        let name = format!("{agent}/{inner}");
        let octets =
            fs::read(&file).map_err(|error| ClusterError::File { file: file.clone(), reason: error.to_string() })?;
        bus.wait(patiently(async || {
            let stored = store.put(name.as_str(), &mut octets.as_slice()).await;
            stored.map(drop).map_err(|error| ClusterError::store(format!("storing {name}"), error))
        }))?;
        names.push(name);
    }
    Ok(names)
}

/// Gets files of agents out of the store, each agent's into a directory. Some of them at a time: after the loss of a server of a cluster, a file
/// may take ten seconds to be found where it is.
///
/// # Errors
/// When a file cannot be had, is not what was stored, or cannot be written.
pub fn get(bus: &Bus, run: u64, wanted: &[(&[String], PathBuf)]) -> Result<(), ClusterError> {
    let store = store(bus, run)?;
    let each = wanted.iter().flat_map(|(names, directory)| names.iter().map(move |name| (name, directory)));
    let files = each.map(|(name, directory)| place(name, directory)).collect::<Result<Vec<_>, _>>()?;
    let got = stream::iter(files).map(|(name, file)| get_one(&store, name, file)).buffer_unordered(AT_A_TIME);
    bus.wait(got.try_collect::<()>())
}

/// Where a file of that name goes.
fn place<'a>(name: &'a str, directory: &Path) -> Result<(&'a str, PathBuf), ClusterError> {
    let inner = name.split_once('/').map(|(_, inner)| inner).filter(|inner| is_inside(inner));
    let outside = || ClusterError::store(format!("file {name}"), "its name leads out of the directory");
    Ok((name, directory.join(inner.ok_or_else(outside)?)))
}

async fn get_one(store: &ObjectStore, name: &str, file: PathBuf) -> Result<(), ClusterError> {
    let octets = patiently(async || read(store, name).await).await?;
    let write = || {
        file.parent().map_or(Ok(()), fs::create_dir_all)?;
        fs::write(&file, &octets)
    };
    write().map_err(|error| ClusterError::File { file: file.clone(), reason: error.to_string() })
}

fn store(bus: &Bus, run: u64) -> Result<ObjectStore, ClusterError> {
    bus.wait(patiently(async || {
        let found = bus.context().get_object_store(bucket(run)).await;
        found.map_err(|error| ClusterError::store("the store of files", error))
    }))
}

/// Tries until it is done: a cluster that has lost a server needs a moment, and so does a server that is started again.
///
/// # Errors
/// The last one, when it is not done for a minute.
async fn patiently<T>(act: impl AsyncFn() -> Result<T, ClusterError>) -> Result<T, ClusterError> {
    let begun = Instant::now();
    loop {
        match act().await {
            Err(_) if begun.elapsed() < PATIENCE => sleep(PAUSE).await,
            done => return done,
        }
    }
}

/// The client checks what it reads by the digest that was stored.
async fn read(store: &ObjectStore, name: &str) -> Result<Vec<u8>, ClusterError> {
    let mut object = store.get(name).await.map_err(|error| ClusterError::store(format!("file {name}"), error))?;
    let mut octets = Vec::new();
    object.read_to_end(&mut octets).await.map_err(|error| ClusterError::store(format!("file {name}"), error))?;
    Ok(octets)
}

/// Files of a directory and of those in it.
fn files_below(directory: &Path) -> Result<Vec<PathBuf>, ClusterError> {
    let failed = |error: std::io::Error| ClusterError::File { file: directory.to_owned(), reason: error.to_string() };
    let mut files = Vec::new();
    for entry in fs::read_dir(directory).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        if path.is_dir() {
            files.extend(files_below(&path)?);
        } else {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

/// Whether a path stays in the directory that it is in: what an agent says is not believed.
fn is_inside(path: &str) -> bool {
    let path = Path::new(path);
    path.is_relative() && path.components().all(|part| matches!(part, std::path::Component::Normal(_)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_lead_out_are_none_of_a_run() {
        assert!(is_inside("queries/shard-000-000000.parquet") && is_inside("run.json"));
        assert!(place("3/../run.json", Path::new("/run")).is_err() && place("run.json", Path::new("/run")).is_err());
        assert_eq!(place("3/run.json", Path::new("/run")).unwrap().1, Path::new("/run/run.json"));
        assert!(!is_inside("../run.json") && !is_inside("/etc/passwd") && !is_inside("a/../../b"));
    }
}
