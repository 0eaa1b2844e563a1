//! Tests on both paths: through sockets on loopback, and by frames on a link to a namespace.

use std::net::SocketAddr;

use ldplayer_net::namespace::Namespace;
use ldplayer_net::veth;

use super::common::IS_LINKED;

/// Runs `test` on a thread in a namespace that clients reach by frames: what is bound by [`any_port`] and asked by [`super::common::settings`]
/// is there.
pub fn in_link(test: fn()) {
    let namespace = Namespace::create().unwrap();
    veth::connect(&namespace, veth::MTU).unwrap();
    let inside = namespace.run(|| {
        IS_LINKED.set(true);
        test();
    });
    inside.unwrap();
}

/// Makes tests of these functions, each on both paths.
macro_rules! on_each_path {
    ($($name:ident),* $(,)?) => {
        mod sockets {
            $(#[test] fn $name() { super::$name(); })*
        }
        mod packets {
            $(#[test] fn $name() { super::link::in_link(super::$name); })*
        }
    };
}
pub(crate) use on_each_path;

/// Where a server of a test listens.
pub fn any_port() -> SocketAddr {
    if IS_LINKED.get() { "203.0.113.53:0" } else { "127.0.0.1:0" }.parse().unwrap()
}
