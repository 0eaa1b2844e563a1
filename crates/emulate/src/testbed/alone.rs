//! A network namespace for one command; processes left in it are ended with the command.

use std::io;
use std::process::Command;

use ldplayer_net::names::{Names, NamesError};
use ldplayer_net::namespace;
use ldplayer_net::netns::Testbed;
use ldplayer_net::rights::NetError;
use ldplayer_net::settings::Shortfall;
use ldplayer_net::veth::MTU;

use super::inside::{Inside, PATIENCE, Stuck};
use super::process::Identity;

/// Why a command cannot get a namespace. Exit status 3.
#[derive(Debug, thiserror::Error)]
pub enum AloneError {
    /// A namespace cannot be made.
    #[error(transparent)]
    Net(#[from] NetError),
    /// The host's name resolution cannot be hidden.
    #[error(transparent)]
    Names(#[from] NamesError),
    /// The namespace cannot be inspected.
    #[error("cannot read this process in /proc: {0}; mount it with mount -t proc proc /proc")]
    Proc(io::Error),
    /// A process does not exit.
    #[error("process {0} in the testbed does not exit; see ps -p {0}")]
    Stuck(u32),
}

/// The namespace of this process and its children.
#[derive(Debug)]
pub struct Alone {
    testbed: Testbed,
    inside: Inside,
}

impl Alone {
    /// Moves this process, which must be single-threaded, into a new namespace in which every address is local and the name resolution of
    /// the host is hidden. With `packets`, that is so for what arrives by a link to clients whose frames are made
    /// ([`ldplayer_net::veth`]).
    ///
    /// # Errors
    /// The system refuses.
    pub fn enter(packets: bool) -> Result<Self, AloneError> {
        let own = Identity::own().ok_or_else(|| AloneError::Proc(io::ErrorKind::NotFound.into()))?;
        let mark = format!("ldplayer:run:{}:{}", own.pid, own.start);
        let names = Names { mark: mark.clone(), ..Names::of_loopback() }.prepare();
        let testbed = if packets { Testbed::enter_with_link(MTU)? } else { Testbed::enter()? };
        names.enter()?;
        Ok(Self { testbed, inside: inside(mark)? })
    }

    /// The kernel settings that could not be made.
    pub fn shortfalls(&self) -> &[Shortfall] {
        self.testbed.shortfalls()
    }

    /// Passes to a command what it needs for [`wait_and_end`].
    pub fn tell(&self, command: &mut Command) {
        command.arg(std::process::id().to_string()).arg(&self.inside.mark);
    }

    /// Ends everything still running in the namespace; returns the number of processes.
    ///
    /// # Errors
    /// A process does not exit.
    pub fn end(&self) -> Result<usize, AloneError> {
        self.inside.end(PATIENCE).map_err(|Stuck(pid)| AloneError::Stuck(pid))
    }
}

/// Waits until the parent of this process, which must be `parent`, has ended in whatever way, and ends everything else
/// in their common namespace.
///
/// # Errors
/// A process does not exit.
pub fn wait_and_end(parent: u32, mark: &str) -> Result<usize, AloneError> {
    let is_there = || std::os::unix::process::parent_id() == parent;
    if let Some(ending) = Identity::of(parent).and_then(|parent| parent.open()).filter(|_| is_there()) {
        ending.wait();
    }
    inside(mark.to_owned())?.end(PATIENCE).map_err(|Stuck(pid)| AloneError::Stuck(pid))
}

/// The namespace of this process, whose number stays valid while this process is in it.
fn inside(mark: String) -> Result<Inside, AloneError> {
    let number = namespace::own_number().map_err(AloneError::Proc)?;
    Ok(Inside { namespaces: vec![number], loopback: None, mark })
}
