//! The servers behind the addresses that were asked, as they name themselves, in run.json.

use serde::{Deserialize, Serialize};

use super::Tail;

/// The responses of one server (NSID, RFC 5001).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ServerAnswers {
    /// Its identifier: the text, or `0x` and hexadecimal digits where it is not printable; `null` of all servers beyond the first hundred.
    pub nsid: Option<String>,
    /// Responses with an RCODE other than NOERROR and NXDOMAIN.
    pub failing: u64,
    /// Time from sending to its responses.
    #[serde(flatten)]
    pub latency_ms: Tail,
}

impl ServerAnswers {
    /// What the server is called.
    pub fn name(&self) -> &str {
        self.nsid.as_deref().unwrap_or("other servers")
    }
}
