//! Testbeds that outlive the command that made them: each has a holder process and a state file.
//!
//! A testbed NAME has the files `NAME.lock` (locked by the holder while it lives), `NAME.json` (the holder and its
//! namespaces) and `NAME.sock` (on which the holder reports the statistics of the wire). After a crash the kernel has ended
//! the wire; what remains are these files, and processes in namespaces without a way out, which
//! [`State::down`] cleans up.

use std::fs::{self, DirBuilder, File};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{IpAddr, Ipv4Addr};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use ldplayer_core::random::subkey;
use ldplayer_net::names::{Names, NamesError};
use ldplayer_net::namespace::Namespace;
use ldplayer_net::poll::Poll;
use ldplayer_net::rights::enter_user_of;
use rustix::fs::{FlockOperation, flock};
use rustix::process::getuid;
use serde::{Deserialize, Serialize};

use super::inside::{Inside, PATIENCE as ENDS_WITHIN, Stuck};
use super::process::Identity;
use super::{Report, Testbed, TestbedError};
use crate::wire::ProxyKind;

/// The version of the state file.
const VERSION: u32 = 2;
/// How often the holder checks whether to stop, in nanoseconds.
const LOOK: i64 = 100_000_000;
/// Timeout of a request to the holder.
const PATIENCE: Duration = Duration::from_secs(5);
/// Maximum size of a request, in octets.
const REQUEST: u64 = 1_024;
/// Maximum length of a name: socket paths are short.
const NAME: usize = 32;

/// Why a testbed cannot be held, found or taken down.
#[derive(Debug, thiserror::Error)]
pub enum StateError {
    /// The name is not valid in file names.
    #[error("invalid testbed name `{0}`: use up to {NAME} letters, digits, - and _")]
    Name(String),
    /// The folder cannot be made, or does not belong to this user.
    #[error("{}: {source}; set XDG_RUNTIME_DIR to a directory of your own", path.display())]
    Folder {
        /// The folder.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The testbed already exists.
    #[error(
        "testbed {0} is already up: take it down first (ldplayer testbed down --name {0}), or choose another --name"
    )]
    IsUp(String),
    /// The testbed does not exist.
    #[error("testbed {0} is not up: bring it up first (ldplayer testbed up --name {0})")]
    NotUp(String),
    /// Its holder has died.
    #[error(
        "the process that holds testbed {0} has exited: take it down (ldplayer testbed down --name {0}) and bring it up again"
    )]
    Crashed(String),
    /// A file cannot be read or written.
    #[error("{}: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The namespaces of a testbed cannot be entered.
    #[error("cannot enter host {host} of testbed {name}: {source}; only root and the user who made it may")]
    Enter {
        /// The testbed.
        name: String,
        /// The host.
        host: String,
        /// What the system said.
        source: io::Error,
    },
    /// A process does not exit.
    #[error("process {0} in the testbed does not exit; see ps -p {0}")]
    Stuck(u32),
    /// The name resolution of the machine cannot be hidden.
    #[error(transparent)]
    Names(#[from] NamesError),
    /// An error of the testbed itself.
    #[error(transparent)]
    Testbed(#[from] TestbedError),
}

/// The right to hold the testbed of a name.
#[derive(Debug)]
pub struct Claim {
    files: Files,
    _lock: File,
}

/// The state file of a testbed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct State {
    version: u32,
    /// Its name.
    pub name: String,
    holder: Identity,
    /// Whether it was made without privileges.
    pub rootless: bool,
    /// A loopback address unique to its hosts, as a mark.
    loopback: Ipv4Addr,
    /// Its hosts.
    pub hosts: Vec<HostState>,
}

/// A host of a testbed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostState {
    /// Its name.
    pub name: String,
    /// Addresses of its interface.
    pub addresses: Vec<IpAddr>,
    /// File descriptor of its network namespace in the holder.
    fd: i32,
    /// Inode number of the namespace.
    inode: u64,
}

/// What [`State::down`] found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Was {
    /// A running testbed.
    Up,
    /// The remains of a crash.
    Crashed,
    /// Nothing.
    Absent,
}

/// The result of [`State::down`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Down {
    /// What it found.
    pub was: Was,
    /// Number of processes ended, except the holder.
    pub ended: usize,
}

/// The files of a testbed.
#[derive(Clone, Debug)]
struct Files {
    folder: PathBuf,
    name: String,
}

/// The folder of this user's state files, created if necessary: `ldplayer` in `$XDG_RUNTIME_DIR`, in `/run` for root, or
/// `ldplayer-UID` in the folder for temporary files. Must be called before a user namespace is entered.
///
/// # Errors
/// It cannot be created, or belongs to another user.
pub fn folder() -> Result<PathBuf, StateError> {
    let uid = getuid().as_raw();
    let runtime = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from).filter(|path| path.is_absolute());
    let path = match runtime {
        Some(runtime) => runtime.join("ldplayer"),
        None if uid == 0 && Path::new("/run").is_dir() => PathBuf::from("/run/ldplayer"),
        None => std::env::temp_dir().join(format!("ldplayer-{uid}")),
    };
    let failed = |source| StateError::Folder { path: path.clone(), source };
    DirBuilder::new().recursive(true).mode(0o700).create(&path).map_err(failed)?;
    let metadata = fs::symlink_metadata(&path).map_err(failed)?;
    if !metadata.is_dir() || metadata.uid() != uid {
        return Err(failed(io::ErrorKind::PermissionDenied.into()));
    }
    Ok(path)
}

impl Claim {
    /// Claims a name, before the testbed is made.
    ///
    /// # Errors
    /// Another process holds it, or the remains of a crash have not been cleaned up.
    pub fn new(folder: &Path, name: &str) -> Result<Self, StateError> {
        let files = Files::new(folder, name)?;
        let path = files.with("lock");
        let failed = |source| StateError::File { path: path.clone(), source };
        let lock = File::options().create(true).truncate(false).write(true).open(&path).map_err(failed)?;
        let is_ours = flock(&lock, FlockOperation::NonBlockingLockExclusive).is_ok();
        let left = files.read()?.is_some_and(|state| !state.holder.is_alive());
        match (is_ours, left) {
            (_, true) => return Err(StateError::Crashed(name.to_owned())),
            (false, false) => return Err(StateError::IsUp(name.to_owned())),
            (true, false) => {}
        }
        Ok(Self { files, _lock: lock })
    }

    /// Holds a testbed: writes its state, calls `ready`, then answers requests for the wire's statistics until `stop` is set.
    /// Removes the files in the end; the testbed is still up then.
    ///
    /// # Errors
    /// The files cannot be written, or the wire fails.
    pub fn hold(&self, testbed: &Testbed, stop: &AtomicBool, ready: impl FnOnce()) -> Result<(), StateError> {
        let socket = self.files.with("sock");
        let failed = |source| StateError::File { path: socket.clone(), source };
        // A leftover socket: the lock is ours.
        let _ = fs::remove_file(&socket);
        let listener = UnixListener::bind(&socket).map_err(failed)?;
        listener.set_nonblocking(true).map_err(failed)?;
        self.files.write(&State::of(&self.files.name, testbed)?)?;
        ready();
        let served = serve(testbed, &listener, stop);
        self.files.remove();
        served.map_err(failed)
    }
}

/// Answers a request.
fn serve(testbed: &Testbed, listener: &UnixListener, stop: &AtomicBool) -> io::Result<()> {
    let mut poll = Poll::new()?;
    poll.add(listener, 0)?;
    while !stop.load(Ordering::Relaxed) {
        if poll.wait(LOOK)?.count() == 0 {
            continue;
        }
        // A client that goes away, or does not read, gets no answer.
        if let Ok((asker, _)) = listener.accept() {
            let _ = answer(testbed, asker);
        }
    }
    Ok(())
}

/// Requests to the holder.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Request {
    Report,
    Proxy { kind: ProxyKind, is_on: bool },
}

fn answer(testbed: &Testbed, mut asker: UnixStream) -> io::Result<()> {
    asker.set_write_timeout(Some(PATIENCE))?;
    asker.set_read_timeout(Some(PATIENCE))?;
    let mut line = String::new();
    BufReader::new(&asker).take(REQUEST).read_line(&mut line)?;
    if let Request::Proxy { kind, is_on } = serde_json::from_str(&line)? {
        testbed.switch_proxy(kind, is_on).map_err(io::Error::other)?;
    }
    let report = testbed.report().map_err(io::Error::other)?;
    asker.write_all(&serde_json::to_vec(&report)?)
}

impl State {
    /// Reads the state of a testbed whose holder is alive.
    ///
    /// # Errors
    /// There is none, or its holder has died.
    pub fn load(folder: &Path, name: &str) -> Result<Self, StateError> {
        let state = Files::new(folder, name)?.read()?.ok_or_else(|| StateError::NotUp(name.to_owned()))?;
        if state.holder.is_alive() { Ok(state) } else { Err(StateError::Crashed(name.to_owned())) }
    }

    /// The names of all testbeds in a folder, including crashed ones.
    pub fn names(folder: &Path) -> Vec<String> {
        let entries = fs::read_dir(folder).into_iter().flatten().flatten();
        let name = |entry: fs::DirEntry| Some(entry.file_name().to_str()?.strip_suffix(".json")?.to_owned());
        let mut names: Vec<String> = entries.filter_map(name).collect();
        names.sort_unstable();
        names
    }

    /// The holder process.
    pub const fn holder(&self) -> u32 {
        self.holder.pid
    }

    /// Requests the statistics of the wire.
    ///
    /// # Errors
    /// The holder does not answer.
    pub fn report(&self, folder: &Path) -> Result<Report, StateError> {
        let path = Files::new(folder, &self.name)?.with("sock");
        ask(&path, Request::Report).map_err(|source| StateError::File { path, source })
    }

    /// Switches one of the paper's proxies on or off.
    ///
    /// # Errors
    /// The holder does not answer.
    pub fn switch_proxy(&self, folder: &Path, kind: ProxyKind, is_on: bool) -> Result<Report, StateError> {
        let path = Files::new(folder, &self.name)?.with("sock");
        ask(&path, Request::Proxy { kind, is_on }).map_err(|source| StateError::File { path, source })
    }

    /// Moves this process, which must be single-threaded, to a host of the testbed, with its future children, and hides
    /// the name resolution of
    /// this machine. The folder of state files is the one that this was loaded from.
    ///
    /// There is no such host, or this user may not enter it.
    /// When there is no such host, or this user may not.
    pub fn enter(&self, folder: &Path, host: &str) -> Result<(), StateError> {
        let Some(state) = self.hosts.iter().find(|state| state.name == host) else {
            let names: Vec<&str> = self.hosts.iter().map(|state| state.name.as_str()).collect();
            return Err(TestbedError::UnknownHost { name: host.to_owned(), hosts: names.join(", ") }.into());
        };
        let failed = |source| StateError::Enter { name: self.name.clone(), host: host.to_owned(), source };
        let pid = self.holder.pid;
        // Read while this process still sees the machine's own files.
        let names = self.own_names(folder).prepare();
        if self.rootless {
            enter_user_of(pid).map_err(failed)?;
        }
        let namespace = Namespace::open(Path::new(&format!("/proc/{pid}/fd/{}", state.fd))).map_err(failed)?;
        if namespace.inode().map_err(failed)? != state.inode {
            return Err(StateError::Crashed(self.name.clone()));
        }
        namespace.enter().map_err(failed)?;
        Ok(names.enter()?)
    }

    fn own_names(&self, folder: &Path) -> Names {
        let hosts = self.hosts.iter().map(|host| (host.name.as_str(), host.addresses.as_slice()));
        Names { kept: Some(folder.to_owned()), ..super::names(hosts, self.mark()) }
    }

    /// A mark unique to the processes of this testbed.
    fn mark(&self) -> String {
        format!("ldplayer:{}:{}:{}", self.name, self.holder.pid, self.holder.start)
    }

    /// Takes down a testbed, or what is left of it, with all processes in its namespaces.
    ///
    /// # Errors
    /// A process does not exit, or a file cannot be removed.
    pub fn down(folder: &Path, name: &str) -> Result<Down, StateError> {
        let files = Files::new(folder, name)?;
        let Some(state) = files.read()? else { return Ok(Down { was: Was::Absent, ended: 0 }) };
        // While these are open, their inode numbers are not reused.
        let kept = state.open();
        let was = if state.holder.is_alive() { Was::Up } else { Was::Crashed };
        let inside = Inside {
            namespaces: state.hosts.iter().map(|host| host.inode).collect(),
            loopback: kept.is_none().then_some(state.loopback),
            mark: state.mark(),
        };
        let stuck = |Stuck(pid)| StateError::Stuck(pid);
        let ended = inside.end(ENDS_WITHIN).map_err(stuck)?;
        if !state.holder.end() {
            return Err(StateError::Stuck(state.holder.pid));
        }
        // Processes that came in while there was a holder.
        let ended = ended + inside.end(ENDS_WITHIN).map_err(stuck)?;
        drop(kept);
        files.remove();
        Ok(Down { was, ended })
    }

    /// The namespaces of a testbed whose holder is alive.
    fn open(&self) -> Option<Vec<Namespace>> {
        let path = |fd| format!("/proc/{}/fd/{fd}", self.holder.pid);
        let open = |host: &HostState| {
            let namespace = Namespace::open(Path::new(&path(host.fd))).ok()?;
            (namespace.inode().ok()? == host.inode).then_some(namespace)
        };
        self.hosts.iter().map(open).collect::<Option<_>>().filter(|_| self.holder.is_alive())
    }

    fn of(name: &str, testbed: &Testbed) -> Result<Self, StateError> {
        let unknown = |source| StateError::File { path: "/proc/self".into(), source };
        let host = |(plan, namespace): &(super::HostPlan, Namespace)| {
            let (name, addresses) = (plan.name.clone(), plan.addresses.clone());
            Ok(HostState { name, addresses, fd: namespace.number(), inode: namespace.inode()? })
        };
        let hosts: io::Result<Vec<HostState>> = testbed.hosts.iter().map(host).collect();
        let holder = Identity::own().ok_or_else(|| unknown(io::ErrorKind::NotFound.into()))?;
        let loopback = loopback(holder);
        testbed.hosts.iter().try_for_each(|(_, namespace)| namespace.add_loopback(loopback)).map_err(unknown)?;
        Ok(Self {
            version: VERSION,
            name: name.to_owned(),
            holder,
            rootless: testbed.is_rootless,
            loopback,
            hosts: hosts.map_err(unknown)?,
        })
    }
}

/// One of 2^23 loopback addresses, by holder, so that testbeds have different ones.
fn loopback(holder: Identity) -> Ipv4Addr {
    let [a, b, c, ..] = subkey(holder.start, holder.pid.into()).to_be_bytes();
    Ipv4Addr::new(127, a | 0x80, b, c)
}

fn ask(path: &Path, request: Request) -> io::Result<Report> {
    let mut holder = UnixStream::connect(path)?;
    holder.set_read_timeout(Some(PATIENCE))?;
    holder.write_all(format!("{}\n", serde_json::to_string(&request)?).as_bytes())?;
    let mut answer = Vec::new();
    holder.read_to_end(&mut answer)?;
    if answer.is_empty() {
        return Err(io::Error::other("the wire has stopped; take the testbed down and bring it up again"));
    }
    Ok(serde_json::from_slice(&answer)?)
}

impl Files {
    fn new(folder: &Path, name: &str) -> Result<Self, StateError> {
        let is_good = |octet: u8| octet.is_ascii_alphanumeric() || matches!(octet, b'-' | b'_');
        if name.is_empty() || name.len() > NAME || !name.bytes().all(is_good) {
            return Err(StateError::Name(name.to_owned()));
        }
        Ok(Self { folder: folder.to_owned(), name: name.to_owned() })
    }

    fn with(&self, extension: &str) -> PathBuf {
        self.folder.join(format!("{}.{extension}", self.name))
    }

    fn read(&self) -> Result<Option<State>, StateError> {
        let path = self.with("json");
        let failed = |source: io::Error| StateError::File { path: path.clone(), source };
        let text = match fs::read(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(failed(error)),
        };
        let state: State = serde_json::from_slice(&text).map_err(|error| failed(error.into()))?;
        if state.version != VERSION || state.name != self.name {
            return Err(failed(io::Error::other("written by another release of ldplayer; remove the file")));
        }
        Ok(Some(state))
    }

    /// Writes the state atomically.
    fn write(&self, state: &State) -> Result<(), StateError> {
        let path = self.with("json");
        let failed = |source: io::Error| StateError::File { path: path.clone(), source };
        let text = serde_json::to_vec_pretty(state).map_err(|error| failed(error.into()))?;
        ldplayer_net::output::replace(&path, text).map_err(failed)
    }

    /// Removes the files except the lock, on which others may wait.
    fn remove(&self) {
        for extension in ["json", "sock", "new"] {
            // A file may not exist.
            let _ = fs::remove_file(self.with(extension));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_cannot_lead_elsewhere() {
        for name in ["", "../x", "a b", "a/b", &"a".repeat(NAME + 1)] {
            assert!(matches!(Files::new(Path::new("."), name), Err(StateError::Name(_))), "{name}");
        }
    }

    #[test]
    fn what_is_not_there_is_down_already() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(State::down(folder.path(), "x").unwrap(), Down { was: Was::Absent, ended: 0 });
        assert!(matches!(State::load(folder.path(), "x"), Err(StateError::NotUp(_))));
    }

    #[test]
    fn what_a_crash_left_is_cleared_once() {
        let folder = tempfile::tempdir().unwrap();
        let holder = Identity { pid: std::process::id(), start: 1 };
        let state = State {
            version: VERSION,
            name: "x".into(),
            holder,
            rootless: false,
            loopback: loopback(holder),
            hosts: Vec::new(),
        };
        Files::new(folder.path(), "x").unwrap().write(&state).unwrap();
        assert_eq!(State::names(folder.path()), ["x"]);
        assert!(matches!(State::load(folder.path(), "x"), Err(StateError::Crashed(_))));
        assert!(matches!(Claim::new(folder.path(), "x"), Err(StateError::Crashed(_))));
        assert_eq!(State::down(folder.path(), "x").unwrap().was, Was::Crashed);
        assert_eq!(State::down(folder.path(), "x").unwrap().was, Was::Absent);
        assert_eq!(State::names(folder.path()), [""; 0]);
        drop(Claim::new(folder.path(), "x").unwrap());
    }

    #[test]
    fn a_name_is_held_once() {
        let folder = tempfile::tempdir().unwrap();
        let _held = Claim::new(folder.path(), "x").unwrap();
        assert!(matches!(Claim::new(folder.path(), "x"), Err(StateError::IsUp(_))));
        Claim::new(folder.path(), "y").unwrap();
    }

    #[test]
    fn a_damaged_file_is_told() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("x.json"), "{").unwrap();
        assert!(matches!(State::load(folder.path(), "x"), Err(StateError::File { .. })));
    }
}
