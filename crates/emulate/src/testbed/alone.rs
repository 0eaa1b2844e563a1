//! A network namespace for one command: what is left in it when the command has ended is ended, too.

use std::io;
use std::process::Command;

use ldplayer_net::names::{Names, NamesError};
use ldplayer_net::namespace;
use ldplayer_net::netns::{Shortfall, Testbed};
use ldplayer_net::rights::NetError;

use super::inside::{Inside, PATIENCE, Stuck};
use super::process::Identity;

/// What keeps a command from having a namespace of its own. Exit status 3.
#[derive(Debug, thiserror::Error)]
pub enum AloneError {
    /// No namespace.
    #[error(transparent)]
    Net(#[from] NetError),
    /// What the host has is still to be seen.
    #[error(transparent)]
    Names(#[from] NamesError),
    /// The namespace cannot be looked at.
    #[error("cannot look at this process in /proc: {0}; mount it (mount -t proc proc /proc)")]
    Proc(io::Error),
    /// A process does not end.
    #[error("process {0} in the testbed does not end; look at it with ps -p {0}")]
    Stuck(u32),
}

/// The namespace that this process is in, alone with what it starts.
#[derive(Debug)]
pub struct Alone {
    testbed: Testbed,
    inside: Inside,
}

impl Alone {
    /// Puts this process, which must have no other thread, into a new namespace, in which every address is local and nothing is
    /// seen of how the host resolves names.
    ///
    /// # Errors
    /// What the system refused.
    pub fn enter() -> Result<Self, AloneError> {
        let own = Identity::own().ok_or_else(|| AloneError::Proc(io::ErrorKind::NotFound.into()))?;
        let mark = format!("ldplayer:run:{}:{}", own.pid, own.start);
        let names = Names { mark: mark.clone(), ..Names::of_loopback() }.prepare();
        let testbed = Testbed::enter()?;
        names.enter()?;
        Ok(Self { testbed, inside: inside(mark)? })
    }

    /// The kernel settings that could not be made.
    pub fn shortfalls(&self) -> &[Shortfall] {
        self.testbed.shortfalls()
    }

    /// Adds what [`wait_and_end`] is to be told, to a command that this process starts for it.
    pub fn tell(&self, command: &mut Command) {
        command.arg(std::process::id().to_string()).arg(&self.inside.mark);
    }

    /// Ends everything that was started in the namespace and is still there; how many processes that were.
    ///
    /// # Errors
    /// When one does not end.
    pub fn end(&self) -> Result<usize, AloneError> {
        self.inside.end(PATIENCE).map_err(|Stuck(pid)| AloneError::Stuck(pid))
    }
}

/// Waits until the parent of this process, which is to be `parent`, has ended, however that came about, and ends everything else
/// in the namespace that both are in.
///
/// # Errors
/// When a process does not end.
pub fn wait_and_end(parent: u32, mark: &str) -> Result<usize, AloneError> {
    let is_there = || std::os::unix::process::parent_id() == parent;
    if let Some(ending) = Identity::of(parent).and_then(|parent| parent.open()).filter(|_| is_there()) {
        ending.wait();
    }
    inside(mark.to_owned())?.end(PATIENCE).map_err(|Stuck(pid)| AloneError::Stuck(pid))
}

/// The namespace of this process, which keeps its number as long as this process is in it.
fn inside(mark: String) -> Result<Inside, AloneError> {
    let number = namespace::own_number().map_err(AloneError::Proc)?;
    Ok(Inside { namespaces: vec![number], loopback: None, mark })
}
