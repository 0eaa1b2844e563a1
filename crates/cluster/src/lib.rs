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
//!
//! # Files
//!
//! A run on several hosts, over NATS; the only crate with an async runtime, on one thread of its own. The controller
//! (`director.rs`) finds agents (`gather.rs`), reads the trace and deals its queries by the client's address (`deal.rs`,
//! `distribute.rs`) into one stream an agent (`stream.rs`, `publish.rs`; what is sent again: `window.rs`); an agent (`agent.rs`,
//! `player.rs`) takes them off (`receive.rs`; `arrivals.rs` tells gaps and repeats) and replays its `Share` (`feed.rs`).
//! `clock.rs` compares clocks, `message.rs` is what both say to each other over `bus.rs`. `member.rs` is an agent as the
//! controller sees it, `director/loss.rs` what is done where one is lost, `account.rs` what became of its queries, `shown.rs` the figures
//! of all while the run lasts, `state.rs` what another controller needs to go on. `files.rs` brings run directories back
//! (`returned.rs`), which `results` puts together (`unite.rs`, `unite/telemetry.rs`), and takes traces to agents. What a share is,
//! is `run`'s (`share.rs`), and so is the whole that is dealt (`whole.rs`).

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
mod member;
pub mod message;
mod order;
mod player;
mod publish;
mod reached;
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
pub use director::{direct, resume, run_name};
pub use distribute::{Distributor, Hand, Outlook, Turn};
pub use embedded::{Embedded, EmbeddedError};
pub use error::ClusterError;
pub use feed::{OwnFeed, ShardFeed};
pub use host::name as host_name;
pub use limits::{Limits, Refused};
pub use order::{OnLoss, Order, UnknownPolicy};
pub use reached::Reached;
pub use receive::Ahead;
pub use stream::ShardStream;
pub use window::{Numbered, Window};
