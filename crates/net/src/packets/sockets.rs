//! The sockets, rings and devices of Linux that frames go through.

mod batch;
mod buffers;
mod filter;
mod memory;
mod offloads;
mod queues;
mod request;
mod ring;
mod rings;
mod sender;
mod socket;
mod stamps;
mod tap;
#[cfg(test)]
mod tests;
mod xdp;

use super::{BATCH, Checksum, ETHERNET, Frame, Interface, Offloads, PacketError, SenderKind};

pub use filter::Filter;
pub use offloads::{offloads, switch_off_offloads};
pub(super) use request::look_up;
pub use ring::FrameRing;
pub use rings::FrameRings;
pub use sender::FrameSender;
