//! Which addresses clients may have on a path.

use ldplayer_replay::Sources;

use super::common::{IS_LINKED, pool};

/// The sources that clients may have.
pub fn all_sources() -> Vec<Sources> {
    if IS_LINKED.get() { vec![Sources::Pool(vec![pool()])] } else { vec![Sources::Ports, Sources::Pool(vec![pool()])] }
}
