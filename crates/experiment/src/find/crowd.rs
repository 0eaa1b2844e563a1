//! Whose limit an upper bound is: that of the server's processors, another one of the server, or that of a machine on which it did not get
//! the core that it wanted.

use ldplayer_core::text::counted;
use ldplayer_results::Summary;

/// The share of its cores that a server uses at its limit.
const AT_LIMIT: f64 = 0.9;
/// The share of its cores below which a server idles: its quota cannot have held it up.
const IDLES: f64 = 0.5;
/// The share of its cores that a server at least used or waited for, where waiting can have limited it: one that wanted less had nothing to do for
/// nine tenths of the time.
const WANTED: f64 = 0.1;
/// The share of the time for which a server that is not held up waits for a core at most.
const WAITS: f64 = 0.01;

/// What a server did in a trial that missed a goal.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ServerUse {
    /// Cores that it used.
    cores: f64,
    /// The share of the time for which it waited for one.
    waited: f64,
    /// What its sockets lost, where they did: datagrams, or connections that found the accept queue full.
    lost: u64,
}

/// The processors that a server has.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Allowed {
    /// How many.
    pub cores: f64,
    /// Whether they are a quota, within which it waits by design.
    pub is_quota: bool,
}

/// Whose limit it is, where it is not that of the server's processors.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Limit {
    /// The server's own, of another kind.
    Other(String),
    /// It may be the machine's.
    Machine(String),
}

impl ServerUse {
    /// Of a trial; `None` where the server was not watched.
    pub fn of(summary: &Summary) -> Option<Self> {
        let server = summary.telemetry.server.as_ref()?;
        let lost = [server.udp_drops, server.accept_queue_overflows, server.listen_drops];
        Some(Self {
            cores: server.cores_mean?,
            waited: summary.cpu_wait.server?.share,
            lost: lost.into_iter().flatten().sum(),
        })
    }

    /// Of two trials at one load, the one in which the server waited less for a core: other programs on the machine come and go.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        if other.waited < self.waited { other } else { self }
    }

    /// What limited a server that missed a load while it was allowed so much; `None` if it used it up.
    pub fn limit(&self, allowed: Allowed) -> Option<Limit> {
        let Allowed { cores, is_quota } = allowed;
        if self.cores >= AT_LIMIT * cores {
            return None;
        }
        let used =
            format!("the server used {:.2} of {cores} {}", self.cores, if cores > 1.0 { "cores" } else { "core" });
        Some(match self.lost {
            0 if !is_quota && self.waited > WAITS && self.cores + self.waited >= WANTED * cores => {
                Limit::Machine(format!("{used} and waited for one for {:.1} % of the time", self.waited * 100.0))
            }
            0 if is_quota && self.cores > IDLES * cores => {
                Limit::Other(format!("{used}: bursts may have met the quota before the processor was full"))
            }
            0 => Limit::Other(format!(
                "{used}: its processors were not the limit; another may be a rate that it allows a client (RRL)"
            )),
            lost => Limit::Other(format!("{used}: its sockets dropped {}", counted(lost, "packet", "packets"))),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is said of a server that used, waited and lost so much, of one core or of a quota of one.
    fn told(cores: f64, waited: f64, lost: u64, is_quota: bool) -> Option<Limit> {
        ServerUse { cores, waited, lost }.limit(Allowed { cores: 1.0, is_quota })
    }

    #[test]
    fn a_bound_is_the_machines_where_a_server_with_room_waited_for_its_core() {
        let crowded = "the server used 0.43 of 1 core and waited for one for 3.1 % of the time".to_owned();
        assert_eq!(told(0.43, 0.031, 0, false), Some(Limit::Machine(crowded)));
        assert_eq!(told(0.95, 0.2, 0, false), None, "it used its core");
        let of_two = ServerUse { cores: 0.95, waited: 0.05, lost: 0 }.limit(Allowed { cores: 2.0, is_quota: false });
        assert!(matches!(of_two, Some(Limit::Machine(_))));
        assert_eq!(ServerUse::of(&Summary::default()), None);
    }

    /// A server that held 40 connections was called crowded, although it neither ran nor waited for 94 % of the time.
    #[test]
    fn a_server_that_wants_next_to_no_core_is_not_limited_by_waiting_for_one() {
        let Some(Limit::Other(why)) = told(0.04, 0.02, 0, false) else { panic!() };
        assert!(why.contains("its processors were not the limit"), "{why}");
        assert!(matches!(told(0.31, 0.02, 0, false), Some(Limit::Machine(_))));
        assert!(matches!(told(0.04, 0.3, 0, false), Some(Limit::Machine(_))), "it wanted more than it got");
    }

    /// A server that held 40 connections and idled was called crowded for the last of three trials at 41, beside which something else ran.
    #[test]
    fn of_several_trials_at_a_load_the_least_crowded_one_counts() {
        let of = |waited| ServerUse { cores: 0.01, waited, lost: 0 };
        let limit = of(0.011).or(of(0.002)).or(of(0.3)).limit(Allowed { cores: 1.0, is_quota: false });
        assert!(matches!(limit, Some(Limit::Other(_))), "{limit:?}");
    }

    /// A search said that NSD does "329 to 332 q/s at 0.2 cores". NSD used 0.007 cores: it limited the responses to each client.
    #[test]
    fn a_server_that_idles_at_its_limit_is_not_measured_in_cores() {
        for (used, waited, lost, is_quota, part) in [
            (0.01, 0.3, 0, true, "its processors were not the limit"),
            (0.1, 0.001, 0, false, "its processors were not the limit"),
            (0.7, 0.5, 0, true, "bursts may have met the quota"),
            (0.43, 0.031, 7, false, "its sockets dropped 7 packets"),
            (0.43, 0.5, 1, true, "its sockets dropped 1 packet"),
        ] {
            let Some(Limit::Other(why)) = told(used, waited, lost, is_quota) else { panic!("{used}") };
            assert!(why.contains(part), "{why}");
        }
        assert_eq!(told(0.95, 0.9, 3, true), None);
    }
}
