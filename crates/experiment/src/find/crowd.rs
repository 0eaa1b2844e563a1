//! Whose limit an upper bound is: the server's, or that of a machine on which it did not get the core that it wanted.

use ldplayer_results::Summary;

/// The share of its cores that a server uses at its limit.
const AT_LIMIT: f64 = 0.9;
/// The share of the time for which a server that is not held up waits for a core at most.
const WAITS: f64 = 0.01;

/// What a server did in a trial that missed a goal.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ServerUse {
    /// Cores that it used.
    cores: f64,
    /// The share of the time for which it waited for one.
    waited: f64,
    /// Whether its own limit was seen: its sockets dropped, or its accept queue was full.
    is_limit_seen: bool,
}

impl ServerUse {
    /// Of a trial; `None` where the server was not watched.
    pub fn of(summary: &Summary) -> Option<Self> {
        let server = summary.telemetry.server.as_ref()?;
        let lost = [server.udp_drops, server.accept_queue_overflows, server.listen_drops];
        Some(Self {
            cores: server.cores_mean?,
            waited: summary.cpu_wait.server?.share,
            is_limit_seen: lost.into_iter().flatten().any(|count| count > 0),
        })
    }

    /// Why a load that the server with so many cores missed may not be beyond its limit. An idle server that was not held up has reached a limit
    /// of another kind, such as a rate that it allows.
    pub fn crowded(&self, cores: f64) -> Option<String> {
        let is_crowded = self.cores < AT_LIMIT * cores && self.waited > WAITS && !self.is_limit_seen;
        is_crowded.then(|| {
            format!(
                "the server used {:.2} of {cores} {} and waited for one for {:.1} % of the time",
                self.cores,
                if cores > 1.0 { "cores" } else { "core" },
                self.waited * 100.0
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bound_is_the_machines_where_a_server_with_room_waited_for_its_core() {
        let used = |cores, waited, is_limit_seen| ServerUse { cores, waited, is_limit_seen }.crowded(1.0);
        let told = used(0.43, 0.031, false).unwrap();
        assert_eq!(told, "the server used 0.43 of 1 core and waited for one for 3.1 % of the time");
        assert_eq!(used(0.95, 0.2, false), None, "it used its core");
        assert_eq!(used(0.43, 0.031, true), None, "its sockets dropped");
        assert_eq!(used(0.1, 0.001, false), None, "it idled, and had its core");
        assert!(ServerUse { cores: 0.95, waited: 0.05, is_limit_seen: false }.crowded(2.0).is_some());
        assert_eq!(ServerUse::of(&Summary::default()), None);
    }
}
