//! What ldplayer asks of Linux, and the only crate with unsafe code.
