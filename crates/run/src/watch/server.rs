//! Telemetry of a server alone, on the run's clock, while other hosts replay.

use std::mem;
use std::sync::mpsc::{self, Sender};
use std::thread::{self, JoinHandle};

use ldplayer_replay::Monitor;
use ldplayer_results::{Side, TelemetrySample};

use super::sampler::{Plan, Sampler};

/// A server that is to be watched, or is.
#[derive(Debug)]
pub enum ServerWatch {
    /// What is to be sampled of it.
    Planned(Plan),
    /// Samples are taken until the sender is gone.
    Running(Sender<()>, JoinHandle<(Vec<TelemetrySample>, u64)>),
    /// The run has ended.
    Ended,
}

impl ServerWatch {
    /// Begins to sample; run time 0 is at `origin` of CLOCK_MONOTONIC. Told again, it changes nothing.
    pub fn begin(&mut self, origin: i64) {
        *self = match mem::replace(self, Self::Ended) {
            Self::Planned(plan) => {
                let (end, until) = mpsc::channel();
                let sample = move || Sampler::new(&Monitor::new(0), &plan, origin).run(&until);
                Self::Running(end, thread::spawn(sample))
            }
            begun => begun,
        };
    }

    /// What was sampled; `None` where it never began.
    pub fn end(&mut self) -> Option<Vec<TelemetrySample>> {
        let Self::Running(end, sampler) = mem::replace(self, Self::Ended) else { return None };
        drop(end);
        // A sampler that panicked has nothing to tell. The client that it sees is whoever watches, which replays nothing.
        let (samples, _) = sampler.join().unwrap_or_default();
        Some(samples.into_iter().filter(|sample| sample.side == Side::Server).collect())
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use ldplayer_net::clock;
    use ldplayer_net::watched::Watched;
    use ldplayer_results::Figure;

    use super::*;

    #[test]
    fn a_server_is_watched_without_a_replay_and_only_the_server_is_told() {
        let mut server = Command::new("sleep").arg("60").spawn().unwrap();
        let plan = Plan { server: Some(Watched::Pid(server.id())), ports: vec![53], interval: 1_000_000 };
        let mut watch = ServerWatch::Planned(plan);
        assert_eq!(ServerWatch::Planned(Plan { server: None, ports: Vec::new(), interval: 1 }).end(), None);
        watch.begin(clock::monotonic_ns());
        watch.begin(0);
        let samples = watch.end().unwrap();
        server.kill().unwrap();
        server.wait().unwrap();
        assert!(samples.iter().all(|sample| sample.side == Side::Server && sample.at.0 < 1_000_000_000_000));
        let of = |figure| samples.iter().filter(|sample| sample.figure == figure && sample.value.is_some()).count();
        // One at the beginning and one at the end, at least.
        assert!(of(Figure::CpuSeconds) >= 2 && of(Figure::RssBytes) >= 2, "{samples:?}");
        assert_eq!(watch.end(), None);
    }
}
