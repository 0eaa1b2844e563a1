//! The transports of a run, as far as its specification says them.

use ldplayer_core::Transport;
use ldplayer_run::{RunSpec, TransportChoice};

/// The transports that a run will certainly use.
pub(crate) fn certain(spec: &RunSpec) -> Vec<Transport> {
    let classes = match &spec.transport {
        TransportChoice::All(transport) => return vec![*transport],
        TransportChoice::Shares(classes) if spec.class.is_empty() => classes,
        _ => &spec.class,
    };
    classes.iter().filter_map(|class| class.transport).collect()
}

/// Whether queries of a run may go over TLS, so that a started server must listen for it.
pub(crate) fn needs_tls(spec: &RunSpec) -> bool {
    certain(spec).into_iter().any(Transport::is_encrypted) || spec.tls_ca.is_some() || spec.tls_insecure
}
