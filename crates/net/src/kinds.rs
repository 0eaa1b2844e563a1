//! Kinds of namespaces and of netlink sockets, as system calls are asked for them.

/// A namespace of Linux (namespaces(7)).
#[derive(Clone, Copy, Debug)]
pub(crate) enum Kind {
    User,
    Network,
    Mount,
}

/// What a netlink socket talks to.
#[derive(Clone, Copy, Debug)]
pub(crate) enum NetlinkOf {
    Routes,
    Sockets,
}
