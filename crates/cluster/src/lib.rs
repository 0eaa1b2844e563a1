//! Controller and agents over NATS JetStream, for loads that one host cannot make (paper, section 2.6: controller, distributors, queriers).
//!
//! ```text
//!                Query, in the order     Batch            Batch, in order
//!   PlanFeed ──► of the trace ──► Dealer ─────► publish ══ one stream ══► receive ──► Feed of an agent
//!   (controller)                  by client's   window,    an agent,      gaps and     (engine of crates/replay)
//!                                 address       sent again a file         repeats told
//!
//!   controller ── Ask, on core subjects ──► agent ── Say ──► controller         small, with time limits
//! ```
//!
//! # The contract
//!
//! - Each query of the trace goes to exactly one agent, by its client's address, once and in trace order; or an error names the missing
//!   batch. Streams accept a batch only after its predecessor, so that neither a lost message nor a restarted server changes that.
//! - Everything that depends on the order of the trace (rules, shares, classes) is drawn before queries are dealt.
//! - A slow agent fills its own stream. Others continue until that stream is full.
//! - Clocks are compared, not trusted: the start is given on the agent's own monotonic clock, with a bound of its error.
//! - Every wait has a timeout, and an error that names who was waited for.
//!
//! This is the only crate with an async runtime, on a single thread. The workers of a replay do not depend on it.

#![forbid(unsafe_code)]

mod account;
mod agent;
mod arrivals;
mod bus;
pub mod clock;
mod controller;
mod deal;
mod director;
mod distribute;
mod embedded;
mod error;
mod feed;
mod feeder;
mod files;
mod gather;
mod host;
mod limits;
mod loss;
mod member;
pub mod message;
mod player;
mod publish;
mod receive;
mod returned;
mod shown;
mod state;
mod stream;
pub mod subjects;
mod window;

pub use agent::Agent;
pub use arrivals::{Arrival, Arrivals, Misplaced};
pub use bus::{Bus, Link};
pub use controller::{HELLO_WITHIN, agents, offset, offsets};
pub use deal::{Dealer, Dealt};
pub use director::{Order, direct, resume, run_name};
pub use distribute::{Distributor, Hand, Outlook, Turn};
pub use embedded::{Embedded, EmbeddedError};
pub use error::ClusterError;
pub use feed::{OwnFeed, Reached, ShardFeed};
pub use host::name as host_name;
pub use limits::{Limits, Refused};
pub use loss::{OnLoss, UnknownPolicy};
pub use receive::Ahead;
pub use stream::ShardStream;
pub use window::{Numbered, Window};
