//! Turns a trial into a run: the specification of a cell with the load set.

use ldplayer_core::Transport;
use ldplayer_core::time::Span;
use ldplayer_results::Expectation;
use ldplayer_run::{RunSpec, TransportChoice};
use ldplayer_workload::{Passes, Timing};

use super::search::Intended;
use super::{Find, Load};
use crate::cell::Cell;
use crate::transports;

/// Nanoseconds by which idle connections outlive a trial that counts connections.
const BEYOND: i64 = 60_000_000_000;

impl Find {
    /// Why a cell cannot be searched.
    pub(crate) fn refuses(&self, cell: &Cell) -> Option<String> {
        let spec = &cell.spec;
        let given = [
            ("loop", spec.passes.is_some()),
            ("for", spec.duration.is_some()),
            ("stop", spec.stop.is_some()),
            ("clients", spec.clients.is_some() && !self.what.is_rate()),
        ];
        if let Some((key, _)) = given.into_iter().find(|(_, given)| *given) {
            return Some(format!(
                "a search sets the length of trials and the number of clients itself: remove `{key}`"
            ));
        }
        match self.what {
            Load::Qps => refuses_rate(spec.timing()),
            Load::Handshakes => refuses_rate(spec.timing()).or_else(|| over_connections(spec)),
            Load::Clients => refuses_times(spec.timing()),
            Load::Connections => self.refuses_connections(spec),
        }
    }

    fn refuses_connections(&self, spec: &RunSpec) -> Option<String> {
        if let Some(why) = over_connections(spec) {
            return Some(why);
        }
        let longest = self.goals.iter().map(|goal| goal.final_trial_duration_s).fold(0.0, f64::max);
        let idle_s = spec.policy.idle_timeout.map(|ns| ns as f64 / 1e9);
        idle_s.filter(|idle_s| *idle_s < longest).map(|idle_s| {
            format!("`idle_timeout` closes connections after {idle_s} s, before the end of a trial of {longest} s: remove it")
        })
    }

    /// The run of a trial.
    pub(crate) fn run(&self, spec: &RunSpec, intended: Intended) -> RunSpec {
        let ns = (intended.duration_s * 1e9).round() as i64;
        let mut run = RunSpec {
            passes: Some(Passes::Forever),
            duration: Some(Span::from_ns(ns)),
            expect: self.criteria(),
            ..spec.clone()
        };
        match self.what {
            Load::Qps | Load::Handshakes => {
                let rate = intended.load as f64;
                let is_random = matches!(spec.timing, Timing::Poisson(_));
                (run.speed, run.rate) = (None, None);
                run.timing = if is_random { Timing::Poisson(rate) } else { Timing::Rate(rate) };
                if self.what == Load::Handshakes {
                    run.policy.queries_per_connection = Some(1);
                }
            }
            Load::Clients => run.clients = Some(intended.load),
            Load::Connections => {
                run.clients = Some(intended.load);
                run.policy.idle_timeout.get_or_insert(ns.saturating_add(BEYOND));
            }
        }
        run
    }

    /// The load of the longest trial of a trace, without a limit of clients.
    pub(crate) fn longest(&self, spec: &RunSpec) -> RunSpec {
        let longest = self.goals.iter().map(|goal| goal.final_trial_duration_s).fold(0.0, f64::max);
        RunSpec { clients: None, ..self.run(spec, Intended { load: self.start, duration_s: longest }) }
    }

    /// The conditions of all goals, each once, so that the report of a trial shows them.
    fn criteria(&self) -> Vec<Expectation> {
        let mut all: Vec<Expectation> = Vec::new();
        for expectation in self.goals.iter().flat_map(|goal| &goal.hold) {
            if !all.contains(expectation) {
                all.push(*expectation);
            }
        }
        all
    }
}

/// Why a search for what only connections have is not possible.
fn over_connections(spec: &RunSpec) -> Option<String> {
    let all = transports::certain(spec);
    let has_udp =
        spec.transport == TransportChoice::AsRecorded && spec.class.is_empty() || all.contains(&Transport::Udp);
    has_udp.then(|| {
        "a search for connections is not possible over UDP: add transport = \"tcp\", \"dot\", \"doq\" or \"doh2\""
            .to_owned()
    })
}

fn refuses_rate(timing: Timing) -> Option<String> {
    let is_fine = matches!(timing, Timing::Scaled(1.0) | Timing::Rate(_) | Timing::Poisson(_));
    (!is_fine).then(|| {
        format!(
            "a search for queries per second sets `timing` itself: remove {timing}, or use poisson:1 for random gaps"
        )
    })
}

fn refuses_times(timing: Timing) -> Option<String> {
    let is_fine = matches!(timing, Timing::Scaled(_));
    (!is_fine).then(|| format!("with timing {timing}, more clients do not send more queries: remove `timing`"))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::Experiment;

    fn read(text: &str) -> Result<Experiment, String> {
        let text = format!("trace = 'Cargo.toml'\nserver = '::1'\n{text}");
        let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
        Experiment::parse(&text, folder, "test").map_err(|error| error.to_string())
    }

    fn trial(text: &str, load: u64) -> RunSpec {
        let experiment = read(text).unwrap();
        let find = experiment.find.unwrap();
        find.run(&experiment.cells[0].spec, Intended { load, duration_s: 2.5 })
    }

    const HOLD: &str = "while = ['answered >= 99 %']";

    #[test]
    fn a_trial_is_a_run_with_the_load_in_it() {
        let qps = trial(&format!("[find]\nwhat = 'qps'\n{HOLD}"), 700);
        assert_eq!((qps.timing, qps.passes, qps.expect.len()), (Timing::Rate(700.0), Some(Passes::Forever), 1));
        assert_eq!(qps.duration, Some(Span::from_ns(2_500_000_000)));
        let random = trial(&format!("timing = 'poisson:1'\n[find]\nwhat = 'qps'\n{HOLD}"), 700);
        assert_eq!(random.timing, Timing::Poisson(700.0));
        let clients = trial(&format!("speed = 2\n[find]\nwhat = 'clients'\n{HOLD}"), 40);
        assert_eq!((clients.clients, clients.timing()), (Some(40), Timing::Scaled(2.0)));
        let held = trial(&format!("transport = 'tcp'\n[find]\nwhat = 'connections'\n{HOLD}"), 40);
        assert_eq!((held.clients, held.policy.idle_timeout), (Some(40), Some(62_500_000_000)));
    }

    #[test]
    fn what_cannot_be_searched_is_refused_with_what_to_do() {
        let refusal = |run: &str, what: &str| {
            let told = read(&format!("{run}\n[find]\nwhat = '{what}'\n{HOLD}")).expect_err(run);
            assert!(told.starts_with("line ") && told.contains("`find`: "), "{told}");
            told
        };
        assert!(refusal("", "connections").contains("not possible over UDP: add transport = \"tcp\""));
        assert!(refusal("transport = 'udp'", "connections").contains("UDP"));
        assert!(refusal("transport = 'udp=50,tcp=50'", "connections").contains("UDP"));
        assert!(
            refusal("transport = 'tcp'\nidle_timeout = '1s'", "connections")
                .contains("`idle_timeout` closes connections after 1 s")
        );
        assert!(refusal("timing = 'fast'", "qps").contains("remove fast"));
        assert!(refusal("timing = 'rate:100'", "clients").contains("more clients do not send more queries"));
        assert!(refusal("for = '9s'", "qps").contains("remove `for`"));
        assert!(refusal("clients = 9", "clients").contains("remove `clients`"));
        assert!(refusal("repeats = 3", "qps").contains("remove `repeats`"));
        assert!(read(&format!("transport = 'tcp=50,dot=50'\n[find]\nwhat = 'connections'\n{HOLD}")).is_ok());
    }
}
