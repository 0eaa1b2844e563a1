//! Transfers run directories and traces through an object store of the NATS server.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_nats::jetstream::object_store::{Config, ObjectStore};
use async_nats::jetstream::stream::StorageType;
use futures_util::{StreamExt, TryStreamExt, stream};
use ldplayer_net::{disk, output};
use tokio::fs::File;
use tokio::io::{AsyncReadExt, AsyncWriteExt, BufReader, copy_buf};
use tokio::time::{Instant, sleep, timeout};

use crate::bus::Bus;
use crate::error::ClusterError;

/// How long to retry a transfer, and the pause between tries.
const PATIENCE: Duration = Duration::from_secs(180);
const PAUSE: Duration = Duration::from_millis(500);
/// Timeout of one transfer.
const AT_MOST: Duration = Duration::from_secs(3_600);

/// Octets that files leave free on the disk.
const SPARE: u64 = 256 << 20;
/// Maximum number of parallel transfers.
const AT_A_TIME: usize = 16;
/// Read and write size in octets.
const AT_ONCE: usize = 256 << 10;

/// The bucket of a run.
fn bucket(run: u64) -> String {
    format!("ldplayer-{run:016x}")
}

/// Creates the bucket of a run.
///
/// # Errors
/// The server refuses.
pub fn open(bus: &Bus, run: u64, replicas: usize) -> Result<(), ClusterError> {
    let config =
        Config { bucket: bucket(run), storage: StorageType::File, num_replicas: replicas, ..Config::default() };
    let made = bus.wait(bus.context().create_object_store(config));
    made.map(drop).map_err(|error| ClusterError::store("creating the object store", error))
}

/// Deletes the bucket of a run with its files.
pub fn remove(bus: &Bus, run: u64) {
    // Errors of cleaning up are ignored.
    let _ = bus.wait(bus.context().delete_object_store(bucket(run)));
}

/// Uploads the files of a trace, for agents to fetch.
///
/// # Errors
/// A file cannot be read or stored.
pub fn put_trace(bus: &Bus, run: u64, trace: &[String]) -> Result<(), ClusterError> {
    let store = store(bus, run)?;
    trace.iter().zip(trace_names(trace)).try_for_each(|(file, name)| put_one(bus, &store, Path::new(file), &name))
}

/// The object names of the files of a trace.
pub fn trace_names(trace: &[String]) -> Vec<String> {
    let last = |file: &str| Path::new(file).file_name().unwrap_or_default().display().to_string();
    trace.iter().enumerate().map(|(number, file)| format!("trace/{number}/{}", last(file))).collect()
}

/// Fetches the files of a trace into a directory. Returns their paths.
///
/// # Errors
/// A file cannot be fetched or written.
pub fn fetch_trace(bus: &Bus, run: u64, names: &[String], directory: &Path) -> Result<Vec<String>, ClusterError> {
    get(bus, run, &[(names, directory.to_owned())])?;
    let file = |name: &String| Ok(place(name, directory)?.1.display().to_string());
    names.iter().map(file).collect()
}

/// Whether a file of a run is taken from an agent: data, and no page that a browser would run.
pub fn is_data(file: &Path) -> bool {
    file.extension().is_some_and(|extension| extension == "json" || extension == "parquet")
}

/// Uploads the data of a run directory ([`is_data`]). Returns the object names: the agent, and the path in the directory.
///
/// # Errors
/// A file cannot be read or stored.
pub fn put(bus: &Bus, run: u64, agent: u32, directory: &Path) -> Result<Vec<String>, ClusterError> {
    let store = store(bus, run)?;
    let mut names = Vec::new();
    for file in files_below(directory)?.into_iter().filter(|file| is_data(file)) {
        let inner = file.strip_prefix(directory).unwrap_or(&file).display().to_string();
        let name = format!("{agent}/{inner}");
        put_one(bus, &store, &file, &name)?;
        names.push(name);
    }
    Ok(names)
}

fn put_one(bus: &Bus, store: &ObjectStore, file: &Path, name: &str) -> Result<(), ClusterError> {
    bus.wait(patiently(async || {
        let opened = File::open(file).await.map_err(failed(file))?;
        let stored = store.put(name, &mut BufReader::with_capacity(AT_ONCE, opened)).await;
        stored.map(drop).map_err(|error| ClusterError::store(format!("storing {name}"), error))
    }))
}

/// Fetches the files of agents, each agent's into its directory, several at a time: after the loss of a cluster member, a file may take ten
/// seconds to be located.
///
/// # Errors
/// A file cannot be fetched or written, or is corrupt; or they take more than the disk has but for [`SPARE`].
pub fn get(bus: &Bus, run: u64, wanted: &[(&[String], PathBuf)]) -> Result<(), ClusterError> {
    let store = store(bus, run)?;
    let room = wanted.first().and_then(|(_, directory)| directory.ancestors().find_map(disk::free));
    let room = AtomicU64::new(room.map_or(u64::MAX, |free| free.saturating_sub(SPARE)));
    let each = wanted.iter().flat_map(|(names, directory)| names.iter().map(move |name| (name, directory)));
    let files = each.map(|(name, directory)| place(name, directory)).collect::<Result<Vec<_>, _>>()?;
    let got = stream::iter(files).map(|(name, file)| get_one(&store, name, file, &room)).buffer_unordered(AT_A_TIME);
    bus.wait(got.try_collect::<()>())
}

/// The local path of an object.
fn place<'a>(name: &'a str, directory: &Path) -> Result<(&'a str, PathBuf), ClusterError> {
    let inner = name.split_once('/').map(|(_, inner)| inner).filter(|inner| is_inside(inner));
    let outside = || ClusterError::store(format!("file {name}"), "its name points outside the directory");
    Ok((name, directory.join(inner.ok_or_else(outside)?)))
}

async fn get_one(store: &ObjectStore, name: &str, file: PathBuf, room: &AtomicU64) -> Result<(), ClusterError> {
    file.parent().map_or(Ok(()), fs::create_dir_all).map_err(failed(&file))?;
    let size = patiently(async || size(store, name).await).await?;
    reserve(room, size, &file)?;
    patiently(async || fetch(store, name, size, &file).await).await
}

/// Takes room on the disk for a file before any of it is fetched.
fn reserve(room: &AtomicU64, size: u64, file: &Path) -> Result<(), ClusterError> {
    let taken = room.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |room| room.checked_sub(size));
    let reason = || format!("{} MB more do not fit on the disk: free space, or use another directory", size >> 20);
    taken.map(drop).map_err(|_| ClusterError::File { file: file.to_owned(), reason: reason() })
}

/// The octets of an object, as its sender claims.
async fn size(store: &ObjectStore, name: &str) -> Result<u64, ClusterError> {
    let info = store.info(name).await.map_err(|error| ClusterError::store(format!("file {name}"), error))?;
    Ok(info.size as u64)
}

fn store(bus: &Bus, run: u64) -> Result<ObjectStore, ClusterError> {
    bus.wait(patiently(async || {
        let found = bus.context().get_object_store(bucket(run)).await;
        found.map_err(|error| ClusterError::store("opening the object store", error))
    }))
}

/// Retries until success: a cluster that has lost a member needs a moment, and so does a restarting server. Errors of local files are not
/// retried.
///
/// # Errors
/// The last error after three minutes.
async fn patiently<T>(act: impl AsyncFn() -> Result<T, ClusterError>) -> Result<T, ClusterError> {
    let begun = Instant::now();
    loop {
        match timeout(AT_MOST, act()).await {
            Err(_) => {
                return Err(ClusterError::store(
                    "fetching a file",
                    format!("not complete after {} s", AT_MOST.as_secs()),
                ));
            }
            Ok(Err(ClusterError::File { file, reason })) => return Err(ClusterError::File { file, reason }),
            Ok(Err(_)) if begun.elapsed() < PATIENCE => sleep(PAUSE).await,
            Ok(done) => return done,
        }
    }
}

/// Streams a file of so many octets, since it may be larger than memory. The client verifies the digest.
async fn fetch(store: &ObjectStore, name: &str, size: u64, file: &Path) -> Result<(), ClusterError> {
    let object = store.get(name).await.map_err(|error| ClusterError::store(format!("file {name}"), error))?;
    // A try before this one may have left a part.
    let _ = fs::remove_file(file);
    let mut into = File::from_std(output::create(file).map_err(failed(file))?);
    // One octet more, so that the end is seen, with which the digest is verified.
    let mut object = BufReader::with_capacity(AT_ONCE, object.take(size.saturating_add(1)));
    let copied = copy_buf(&mut object, &mut into).await;
    let copied = copied.map_err(|error| ClusterError::store(format!("file {name}"), error))?;
    if copied > size {
        return Err(ClusterError::store(format!("file {name}"), format!("it has more than its {size} octets")));
    }
    into.flush().await.map_err(failed(file))
}

fn failed(file: &Path) -> impl Fn(std::io::Error) -> ClusterError {
    move |error| ClusterError::File { file: file.to_owned(), reason: error.to_string() }
}

/// All files below a directory.
fn files_below(directory: &Path) -> Result<Vec<PathBuf>, ClusterError> {
    let mut files = Vec::new();
    for entry in fs::read_dir(directory).map_err(failed(directory))? {
        let path = entry.map_err(failed(directory))?.path();
        if path.is_dir() {
            files.extend(files_below(&path)?);
        } else {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

/// Whether a path stays within its directory: agents are not trusted.
fn is_inside(path: &str) -> bool {
    let path = Path::new(path);
    path.is_relative() && path.components().all(|part| matches!(part, std::path::Component::Normal(_)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_a_trace_keep_their_names_and_are_told_apart() {
        let names = trace_names(&["/data/a.pcap.xz".into(), "b/a.pcap.xz".into()]);
        assert_eq!(names, ["trace/0/a.pcap.xz", "trace/1/a.pcap.xz"]);
        assert_eq!(place(&names[1], Path::new("/run")).unwrap().1, Path::new("/run/1/a.pcap.xz"));
    }

    #[test]
    fn pages_are_none_of_the_data_that_is_taken() {
        let taken = [
            "run.json",
            "queries/shard-000-000000.parquet",
            "report.html",
            "x.HTML",
            "a.svg",
            "run.json.html",
            "noend",
        ];
        assert_eq!(taken.map(|file| is_data(Path::new(file))), [true, true, false, false, false, false, false]);
    }

    #[test]
    fn files_that_claim_more_than_the_disk_has_are_refused_before_they_are_fetched() {
        let (room, file) = (AtomicU64::new(10 << 20), Path::new("run/rows.parquet"));
        for size in [4 << 20, 6 << 20, 0] {
            reserve(&room, size, file).unwrap();
        }
        for size in [1, 3 << 20, u64::MAX] {
            let said = reserve(&room, size, file).unwrap_err().to_string();
            assert!(said.contains("run/rows.parquet") && said.contains(" MB more do not fit on the disk"), "{said}");
        }
        assert_eq!(room.into_inner(), 0);
    }

    #[test]
    fn names_that_lead_out_are_none_of_a_run() {
        assert!(is_inside("queries/shard-000-000000.parquet") && is_inside("run.json"));
        assert!(place("3/../run.json", Path::new("/run")).is_err() && place("run.json", Path::new("/run")).is_err());
        assert_eq!(place("3/run.json", Path::new("/run")).unwrap().1, Path::new("/run/run.json"));
        assert!(!is_inside("../run.json") && !is_inside("/etc/passwd") && !is_inside("a/../../b"));
    }
}
