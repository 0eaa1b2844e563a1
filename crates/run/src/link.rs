//! The link that the sender itself makes between clients and servers, where it makes their frames.

use ldplayer_core::text::counted;
use ldplayer_link::LinkSpec;
use ldplayer_replay::Ended;
use ldplayer_results::{LinkUse, Warning, WarningCode};

use crate::error::RunError;
use crate::keys::RunSpec;

/// How much later than its delay a frame may leave before the run says so, in milliseconds.
const LATE_MS: f64 = 1.0;

/// The link that the specification asks for; `None` if it asks for none.
///
/// # Errors
/// An invalid property, a file that cannot be read, or stamps, which are of the moment after the link.
pub fn of(spec: &RunSpec) -> Result<Option<LinkSpec>, RunError> {
    if !is_asked_for(spec) {
        return Ok(None);
    }
    if spec.stamp_sends {
        return Err(RunError::Spec(
            "--stamp-sends: the kernel stamps frames as they leave the link of --rtt, --jitter, --loss and --bandwidth, \
            and not as clients send them; leave it out"
                .to_owned(),
        ));
    }
    let link = LinkSpec::of(spec.rtt.as_ref(), spec.jitter.as_ref(), spec.loss.as_ref(), spec.bandwidth.as_ref());
    link.map(Some).map_err(|error| RunError::Spec(format!("--rtt: {error}")))
}

/// Refuses a link where the kernel has the clients' sockets.
///
/// # Errors
/// One is asked for.
pub fn refuse_without_frames(spec: &RunSpec) -> Result<(), RunError> {
    if !is_asked_for(spec) {
        return Ok(());
    }
    Err(RunError::Spec(
        "--rtt, --jitter, --loss, --bandwidth: a link of the sender's own needs --path packets; between sockets, \
        `ldplayer testbed up` makes one"
            .to_owned(),
    ))
}

fn is_asked_for(spec: &RunSpec) -> bool {
    spec.rtt.is_some() || spec.jitter.is_some() || spec.loss.is_some() || spec.bandwidth.is_some()
}

/// What the links of all workers did; `None` where there were none.
pub fn used(ended: &Ended) -> Option<LinkUse> {
    let links = ended.workers.iter().filter_map(|worker| worker.link.as_ref());
    let each = links.map(|counts| LinkUse {
        crossed: counts.crossed,
        lost: counts.lost,
        queue_full: counts.queue_full,
        no_room: counts.no_room,
        latest_ms: counts.latest_ns as f64 / 1e6,
    });
    each.reduce(|one, other| one.and(&other))
}

/// What the link did beside what it was told to.
pub fn warnings(ended: &Ended) -> impl Iterator<Item = Warning> {
    let used = used(ended).unwrap_or_default();
    let full = (used.no_room > 0).then(|| {
        Warning::new(
            WarningCode::LinkFull,
            format!("{} dropped: too many were on the link of --rtt at once", counted(used.no_room, "frame", "frames")),
        )
    });
    let late = (used.latest_ms > LATE_MS).then(|| {
        Warning::new(
            WarningCode::LinkLate,
            format!("frames left the link of --rtt up to {:.1} ms later than its delay", used.latest_ms),
        )
    });
    full.into_iter().chain(late)
}
