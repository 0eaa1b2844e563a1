//! Builds zones from responses, answers from zones, and signs them. No sockets, no clock.
//!
//! ```text
//!  responses ─► construct ─► Records ─► write ─► zone file          query
//!      ▲                     ▲    │                                   │
//!  harvest (asks for them)  load  ├─► sign ─► Records, signed         ▼
//!                                 ├─► sign::check: what is wrong   respond ─► a whole reply
//!                                 └─► store: Zone, compact, read-only ┘
//! ```
//!
//! # Contract
//!
//! [`load`] reads what RFC 1035 and RFC 3597 allow, and errors name file and line. A [`Zone`] never changes, so that threads share it; [`respond`]
//! makes the whole reply from it (RFC 1034 §4.3.2, RFC 4035 §3.1, RFC 5155 §7.2) and allocates nothing once its buffers have grown. Time,
//! where signatures need it, is an argument.
//!
//! # Limitations
//!
//! Class IN. No zone transfers, no dynamic update, no online signing: a zone is signed as a whole and loaded again. Differences to
//! stock servers stand in `docs/answers.md`.
//!
//! # Example
//!
//! ```
//! use std::path::Path;
//! use ldplayer_zone::{Scratch, Transport, Zone, load, respond};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let text = "$TTL 60\n@ SOA ns mail 1 2 3 4 5\n@ NS ns\nns A 192.0.2.1\nwww A 192.0.2.80\n";
//! let origin = b"\x07example\0";
//! let records = load::text_of(text.as_bytes(), Path::new("example.zone"), Some(origin), &mut |_| unreachable!())?;
//! let (zone, oddities) = Zone::from_records(&records)?;
//! assert!(oddities.is_empty());
//!
//! // www.example. A, with ID 7.
//! let query = b"\0\x07\0\0\0\x01\0\0\0\0\0\0\x03www\x07example\0\0\x01\0\x01";
//! let (mut scratch, mut answer) = (Scratch::default(), Vec::new());
//! let reply = respond(&zone, query, Transport::Udp, &mut scratch, &mut answer);
//! assert_eq!((reply.rcode, &answer[6..8]), (0, &[0, 1][..]), "NOERROR, one record");
//! # Ok(())
//! # }
//! ```
//!
//! # Files
//!
//! From zone files to answers. `load.rs` reads records (`load/` has what `$INCLUDE` and `$GENERATE` may do, `rdata/` the fields
//! of each type), `store/` makes a compact read-only zone of them (names in canonical order, a hash table, the chain of NSEC or
//! NSEC3 records, other versions of sets; `changes.rs`: what one version of a zone has and the next has not), `answer/` turns a query into a whole reply: `query.rs` reads it, `resolve.rs`
//! walks from name to answer, `proofs.rs` and `additional.rs` add the other sections, `writer.rs` and `names.rs` keep to the
//! limit and compress; `referrals.rs` writes those of all cuts beforehand, when `ready.rs` makes a zone. `write.rs` makes zone files of records. `construct/` goes the other way, from responses to zones:
//! `classify.rs` (what a response says), `seen.rs` (each record set once), `history.rs` (when, and to whom), `servers.rs` (who is responsible for what),
//! `place.rs`, `choose.rs` (conflicts), `complete/` (what is made up), `lame.rs` (who was asked in vain), `of_clients.rs` (what a resolver gave its clients). `sign/` makes signed
//! zones of records: `tree.rs` finds which names are the zone's own, `denial.rs` chains them, `signature.rs` signs on all cores,
//! `set.rs` links zones by DS records; `check/` finds what is wrong with signatures, chains and links. `harvest/` asks questions
//! at a rate and remembers how they ended. No sockets, no clock.

#![forbid(unsafe_code)]

pub mod answer;
pub mod construct;
pub mod error;
pub mod finding;
pub mod harvest;
pub mod hints;
pub mod load;
mod rdata;
mod ready;
pub mod records;
pub mod rtype;
mod scan;
pub mod sign;
mod signature_times;
pub mod store;
pub mod write;

pub use answer::{Choose, Reply, ReplyKind, Scratch, Transport, UDP_SIZE, respond, serial_of};
pub use error::LoadError;
pub use finding::{Finding, Oddity};
pub use records::Records;
pub use signature_times::signatures;
pub use store::{
    BuildError, Changes, Pick, Progress, RrSet, Version, VersionedSet, VersionsError, Walk, Zone, can_vary, is_newer,
};
