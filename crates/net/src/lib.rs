//! What ldplayer asks of Linux, and the only crate with unsafe code.

pub mod awake;
pub mod clock;
pub mod interfaces;
pub mod limits;
pub mod machine;
pub mod namespace;
mod netlink;
pub mod netns;
pub mod pace;
pub mod pin;
pub mod poll;
pub mod process;
pub mod refusal;
pub mod rights;
pub mod signals;
pub mod tcp;
pub mod tun;
pub mod udp;
pub mod watched;
pub mod wiring;
