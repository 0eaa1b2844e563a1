//! A mount namespace that replaces the host's name resolution by given name servers.
//!
//! A network namespace keeps packets in. A program can still resolve names through files of the host, and through its name services, whose
//! sockets are files and can be reached from any network namespace. Here `/etc/resolv.conf` and `/etc/hosts` are others,
//! `/etc/nsswitch.conf` asks for hosts in files and in the DNS only, folders of name services are empty, and so is every other socket that
//! a program outside has below `/run`. Files on disk are not changed: what is seen instead is in memory, and is gone with the last process
//! in the namespace.

use std::collections::BTreeSet;
use std::ffi::CString;
use std::fs;
use std::io;
use std::net::IpAddr;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use rustix::fs::{Mode, OFlags, fchmod, open};

use crate::system::{self, Kind, bind_mount};

/// Where the kernel lists the sockets of the network namespace that the calling thread is in.
const SOCKETS: &str = "/proc/thread-self/net/unix";
/// Folders of name services in the folder for runtime files: nscd, systemd-resolved and -machined, Avahi and mDNSResponder (mDNS), nslcd
/// (LDAP), SSSD, winbindd (WINS), and the system's D-Bus, through which programs query some of them.
const SERVICES: [&str; 11] = [
    "nscd",
    "systemd/resolve",
    "systemd/resolve.hook",
    "systemd/machine",
    "avahi-daemon",
    "mdnsd",
    "nslcd",
    "sssd",
    "samba/winbindd",
    "dbus",
    "lwresd",
];
/// Folders of what runs. The second is most often the first by another name.
const RUNNING: [&str; 2] = ["/run", "/var/run"];
/// Folders of name services elsewhere.
const ELSEWHERE: [&str; 2] = ["/var/lib/sss/pipes", "/var/cache/nscd"];
/// Below the folders of what runs, sockets of users and of the log are left alone.
const KEPT: [&str; 2] = ["user", "systemd/journal"];
/// A folder that is covered for a moment, while the new files are made. The first that there is.
const STAGES: [&str; 3] = ["/tmp", "/mnt", "/var"];
/// Octets of files in memory at most, for each folder.
const ROOM: &std::ffi::CStr = c"mode=0755,size=1m";

/// What programs are to find.
#[derive(Clone, Debug, Default)]
pub struct Names {
    /// Recursive servers for `/etc/resolv.conf`.
    pub servers: Vec<IpAddr>,
    /// Addresses and their names for `/etc/hosts`, in addition to `localhost`.
    pub hosts: Vec<(IpAddr, String)>,
    /// A folder whose sockets are left alone, wherever it is.
    pub kept: Option<PathBuf>,
    /// A word without spaces that marks processes in the namespace: it appears in their `/proc/PID/mountinfo`.
    pub mark: String,
}

/// What is put over what, worked out beforehand: entering must not allocate, as it may happen between fork and exec.
#[derive(Clone, Debug)]
pub struct OwnNames {
    mark: CString,
    stage: CString,
    /// Folders that become empty.
    folders: Vec<CString>,
    /// Files with new content: where it is made on the stage, what it covers, and whether that is in one of the folders.
    files: Vec<Cover>,
    /// Sockets that become an empty file.
    sockets: Vec<CString>,
    empty: CString,
}

#[derive(Clone, Debug)]
struct Cover {
    staged: CString,
    target: CString,
    content: Vec<u8>,
    is_in_folder: bool,
}

/// Why the name resolution of the host cannot be hidden. Exit status 3.
#[derive(Debug, thiserror::Error)]
#[error(
    "cannot hide the name resolution of this host ({what}): {source}; this needs the right to mount, which containers have only with --security-opt apparmor=unconfined or --privileged"
)]
pub struct NamesError {
    /// What was to be done.
    pub what: &'static str,
    /// What the system said.
    pub source: io::Error,
}

impl Names {
    /// Names of a network namespace where every address is local, and a name server, if there is one, is found at 127.0.0.1.
    pub fn of_loopback() -> Self {
        let servers = vec![IpAddr::from([127, 0, 0, 1])];
        Self { servers, mark: "ldplayer".to_owned(), ..Self::default() }
    }

    /// Looks at what this host has. To be called in its own network namespace, before another is entered.
    pub fn prepare(&self) -> OwnNames {
        let listed = fs::read(SOCKETS).unwrap_or_default();
        let folders = folders();
        let sockets = sockets(&String::from_utf8_lossy(&listed), &folders, self.kept.as_deref());
        let stage = STAGES.into_iter().find(|folder| Path::new(folder).is_dir()).unwrap_or("/");
        let contents = [
            ("/etc/resolv.conf", Some(self.resolv_conf())),
            ("/etc/hosts", Some(self.hosts_file())),
            ("/etc/nsswitch.conf", fs::read_to_string("/etc/nsswitch.conf").ok().map(|text| switch(&text))),
        ];
        let covers = contents.into_iter().filter_map(|(file, content)| cover(stage, file, content?, &folders));
        OwnNames {
            mark: c_string(&self.mark),
            stage: c_string(stage),
            files: covers.collect(),
            sockets: sockets.iter().map(|path| c_string(path)).collect(),
            empty: c_string(&format!("{stage}/empty")),
            folders: folders.iter().map(|folder| c_string(&folder.to_string_lossy())).collect(),
        }
    }

    fn resolv_conf(&self) -> String {
        self.servers.iter().map(|server| format!("nameserver {server}\n")).collect()
    }

    fn hosts_file(&self) -> String {
        let own = self.hosts.iter().map(|(address, name)| format!("{address} {name}\n"));
        "127.0.0.1 localhost\n::1 localhost\n".to_owned() + &own.collect::<String>()
    }
}

impl OwnNames {
    /// Moves the calling thread, and what it starts from now on, into a mount namespace of its own with these names.
    ///
    /// # Errors
    /// Without CAP_SYS_ADMIN in the user namespace, or where a security policy refuses mounts.
    pub fn enter(&self) -> Result<(), NamesError> {
        let failed = |what| move |error: rustix::io::Errno| NamesError { what, source: error.into() };
        system::leave(&[Kind::Mount]).map_err(failed("creating a mount namespace"))?;
        system::make_mounts_private().map_err(failed("making mounts private"))?;
        for folder in &self.folders {
            self.in_memory(folder).map_err(failed("hiding the folder of a name service"))?;
        }
        self.in_memory(&self.stage).map_err(failed("mounting a temporary folder"))?;
        self.cover().map_err(failed("replacing /etc/resolv.conf and /etc/hosts"))?;
        self.hide_sockets().map_err(failed("hiding a socket"))?;
        system::unmount(&self.stage).map_err(failed("unmounting a temporary folder"))
    }

    /// Whether [`enter`](Self::enter) works here, tried on a thread that ends.
    ///
    /// # Errors
    /// As [`enter`](Self::enter).
    pub fn try_enter(&self) -> Result<(), NamesError> {
        let panicked = || NamesError { what: "starting a thread", source: io::ErrorKind::Other.into() };
        std::thread::scope(|scope| scope.spawn(|| self.enter()).join().unwrap_or_else(|_| Err(panicked())))
    }

    /// Makes `command` start with these names, in the namespaces that it is given before.
    pub fn start_with(self: &Arc<Self>, command: &mut Command) {
        let own = Arc::clone(self);
        // SAFETY: between fork and exec the closure only makes system calls, on values made before; it allocates nothing and takes no lock.
        unsafe { command.pre_exec(move || own.enter().map_err(|error| error.source)) };
    }

    fn in_memory(&self, folder: &CString) -> rustix::io::Result<()> {
        system::mount_memory(&self.mark, folder, ROOM)
    }

    fn cover(&self) -> rustix::io::Result<()> {
        for file in &self.files {
            if file.is_in_folder {
                write(&file.target, &file.content)?;
            } else {
                write(&file.staged, &file.content)?;
                bind_mount(&*file.staged, &*file.target)?;
            }
        }
        Ok(())
    }

    fn hide_sockets(&self) -> rustix::io::Result<()> {
        write(&self.empty, &[])?;
        self.sockets.iter().try_for_each(|socket| match bind_mount(&*self.empty, &**socket) {
            // It went in the meantime, or is in a folder that is not this user's to look into.
            Err(rustix::io::Errno::NOENT | rustix::io::Errno::NOTDIR | rustix::io::Errno::ACCESS) => Ok(()),
            other => other,
        })
    }
}

/// Makes a file that everybody may read.
fn write(path: &CString, content: &[u8]) -> rustix::io::Result<()> {
    let file = open(&**path, OFlags::CREATE | OFlags::WRONLY | OFlags::CLOEXEC, Mode::from_raw_mode(0o644))?;
    fchmod(&file, Mode::from_raw_mode(0o644))?;
    // Small enough to be taken at once.
    if content.is_empty() { Ok(()) } else { rustix::io::write(&file, content).map(drop) }
}

/// Folders of name services that there are, each by the name that it has.
fn folders() -> BTreeSet<PathBuf> {
    let running = RUNNING.iter().flat_map(|root| SERVICES.map(|service| Path::new(root).join(service)));
    let all = running.chain(ELSEWHERE.map(PathBuf::from));
    all.filter_map(|folder| fs::canonicalize(folder).ok()).filter(|folder| folder.is_dir()).collect()
}

/// The sockets in the kernel's list (proc_pid_net(5): the path is the eighth field) that are to be hidden.
fn sockets(list: &str, folders: &BTreeSet<PathBuf>, kept: Option<&Path>) -> BTreeSet<String> {
    let paths = list.lines().filter_map(socket_path);
    let is_below = |path: &str, folder: &Path| Path::new(path).starts_with(folder);
    let is_running = |path: &str| {
        let mut roots = RUNNING.iter().map(Path::new).filter(|root| is_below(path, root));
        roots.any(|root| !KEPT.iter().any(|kept| is_below(path, &root.join(kept))))
    };
    let is_hidden = |path: &str| folders.iter().any(|folder| is_below(path, folder));
    let is_kept = |path: &str| kept.is_some_and(|kept| is_below(path, kept));
    paths.filter(|path| is_running(path) && !is_hidden(path) && !is_kept(path)).map(str::to_owned).collect()
}

/// The path, which is the eighth field; `None` for unnamed and abstract sockets.
fn socket_path(line: &str) -> Option<&str> {
    let mut rest = line;
    for _ in 0..7 {
        rest = rest.trim_start();
        rest = &rest[rest.find(' ')?..];
    }
    rest.strip_prefix(' ').filter(|path| path.starts_with('/'))
}

/// How a file that is there is covered; by what name it is known does not matter.
fn cover(stage: &str, file: &str, content: String, folders: &BTreeSet<PathBuf>) -> Option<Cover> {
    let target = fs::canonicalize(file).ok()?;
    let name = Path::new(file).file_name()?.to_string_lossy();
    Some(Cover {
        staged: c_string(&format!("{stage}/{name}")),
        is_in_folder: folders.iter().any(|folder| target.starts_with(folder)),
        target: c_string(&target.to_string_lossy()),
        content: content.into_bytes(),
    })
}

/// A name service switch that looks hosts up in files and in the DNS (nsswitch.conf(5)).
fn switch(text: &str) -> String {
    let is_hosts =
        |line: &&str| line.trim_start().strip_prefix("hosts").is_some_and(|rest| rest.trim_start().starts_with(':'));
    let others = text.lines().filter(|line| !is_hosts(line)).map(|line| format!("{line}\n"));
    others.collect::<String>() + "hosts: files dns\n"
}

/// A path that the kernel has listed has no NUL in it.
fn c_string(text: &str) -> CString {
    CString::new(text).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sockets_of_the_host_are_hidden_but_for_those_of_users_and_of_the_log() {
        let list = "Num       RefCount Protocol Flags    Type St Inode Path\n\
            000000002a830a30: 00000002 00000000 00010000 0001 01    44 /run/resolver/socket\n\
            000000002a830a31: 00000002 00000000 00010000 0001 01  1234 /run/nscd/socket\n\
            000000002a830a32: 00000003 00000000 00000000 0001 03    45 @/run/abstract\n\
            000000002a830a33: 00000003 00000000 00000000 0001 03    46\n\
            000000002a830a34: 00000002 00000000 00000000 0002 01    47 /run/systemd/journal/dev-log\n\
            000000002a830a35: 00000002 00000000 00010000 0001 01    48 /run/user/1000/bus\n\
            000000002a830a36: 00000002 00000000 00010000 0001 01    49 /run/ldplayer/default.sock\n\
            000000002a830a37: 00000002 00000000 00010000 0001 01    50 /srv/other\n\
            000000002a830a38: 00000002 00000000 00010000 0001 01    51 /var/run/with a space\n";
        let folders = [PathBuf::from("/run/nscd")].into();
        let found = sockets(list, &folders, Some(Path::new("/run/ldplayer")));
        assert_eq!(found.into_iter().collect::<Vec<_>>(), ["/run/resolver/socket", "/var/run/with a space"]);
    }

    #[test]
    fn trying_changes_nothing_for_the_caller() {
        let hosts = || fs::read_to_string("/etc/hosts").unwrap_or_default();
        let before = hosts();
        let names = Names { hosts: vec![([192, 0, 2, 1].into(), "only-inside".into())], ..Names::of_loopback() };
        // Without the right to mount, the error is all that happens.
        let tried = names.prepare().try_enter();
        assert!(tried.is_ok() || tried.unwrap_err().to_string().contains("the right to mount"));
        assert_eq!(hosts(), before);
    }

    #[test]
    fn the_switch_knows_files_and_the_dns_only() {
        let text =
            "passwd: files systemd\nhosts:  mymachines resolve [!UNAVAIL=return] files\n hosts : dns\nhostsx: a\n";
        assert_eq!(switch(text), "passwd: files systemd\nhostsx: a\nhosts: files dns\n");
    }

    #[test]
    fn a_file_in_a_folder_that_becomes_empty_is_made_there() {
        let folder = fs::canonicalize("/etc").unwrap();
        let of = |folders| cover("/tmp", "/etc/passwd", "x".into(), &folders).unwrap();
        assert!(of([folder].into()).is_in_folder && !of(BTreeSet::new()).is_in_folder);
        assert!(cover("/tmp", "/etc/no-such-file", "x".into(), &BTreeSet::new()).is_none());
    }
}
