//! A host that feeds: it reads the trace, which it has, too, and deals the shards that fall to it, as the controller does with the others (the paper's
//! split input).

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread;

use ldplayer_run::{RunSpec, prepare_whole};

use crate::bus::Bus;
use crate::distribute::{Distributor, Outlook, Turn, deal};
use crate::limits::Limits;
use crate::message::{FeedPart, Progress, Stage};
use crate::player::{PANICKED, trusted};

/// A feeding in progress.
#[derive(Debug)]
pub struct Feeder {
    run: u64,
    seat: u32,
    name: String,
    stage: Arc<Mutex<Stage>>,
    ended: Arc<AtomicBool>,
    /// The handle of the dealing, once begun.
    outlook: Arc<OnceLock<Arc<Outlook>>>,
}

impl Feeder {
    /// Begins to read and deal, continuing after what the streams already hold.
    ///
    /// # Errors
    /// The part is beyond the limits of this agent.
    pub fn begin(bus: &Arc<Bus>, part: FeedPart, scratch: &Path, limits: &Limits) -> Result<Self, String> {
        let spec = limits.of_feed(&part).map_err(|refused| refused.to_string())?;
        let (stage, ended) = (Arc::new(Mutex::new(Stage::Running)), Arc::<AtomicBool>::default());
        let outlook = Arc::<OnceLock<Arc<Outlook>>>::default();
        let feeder = Self {
            run: part.run,
            seat: part.seat,
            name: part.name.clone(),
            stage: Arc::clone(&stage),
            ended: Arc::clone(&ended),
            outlook: Arc::clone(&outlook),
        };
        let (bus, scratch) = (Arc::clone(bus), scratch.to_owned());
        let feed = move || {
            let feeding = AssertUnwindSafe(|| {
                let (_certificates, spec) = trusted(spec, part.tls_ca.as_deref(), &scratch.join("feed"))?;
                feed(&bus, &part, spec, &ended, &outlook)
            });
            let fed = catch_unwind(feeding).unwrap_or_else(|_| Err(PANICKED.to_owned()));
            let end = match fed {
                Ok(()) => Stage::Returned { files: Vec::new(), ended_early: None },
                Err(reason) => Stage::Failed { reason },
            };
            *stage.lock().unwrap_or_else(PoisonError::into_inner) = end;
        };
        thread::Builder::new().name("feeder".to_owned()).spawn(feed).map_err(|error| error.to_string())?;
        Ok(feeder)
    }

    /// The number of the run.
    pub const fn run(&self) -> u64 {
        self.run
    }

    /// Whether this is the given part of the given run.
    pub const fn is(&self, run: u64, seat: u32) -> bool {
        self.run == run && self.seat == seat
    }

    /// The name of the run.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Stops dealing, without waiting for full streams.
    pub fn stop(&self) {
        self.ended.store(true, Ordering::Relaxed);
        self.outlook.get().into_iter().for_each(|outlook| outlook.give_up_all());
    }

    /// Stops dealing a shard.
    pub fn give_up(&self, shard: u32) {
        self.outlook.get().into_iter().for_each(|outlook| outlook.give_up(shard as usize));
    }

    /// Whether it has ended, successfully or not.
    pub fn has_ended(&self) -> bool {
        matches!(self.progress().stage, Stage::Returned { .. } | Stage::Failed { .. })
    }

    /// The progress.
    pub fn progress(&self) -> Progress {
        let stage = self.stage.lock().unwrap_or_else(PoisonError::into_inner).clone();
        Progress { stage, ..Progress::default() }
    }
}

fn feed(
    bus: &Bus,
    part: &FeedPart,
    spec: RunSpec,
    ended: &AtomicBool,
    told: &OnceLock<Arc<Outlook>>,
) -> Result<(), String> {
    let mut whole = prepare_whole(spec).map_err(|error| error.to_string())?;
    let turn = Turn { own: part.feeder, of: part.feeders };
    let mut distributor = Distributor::resume(bus, part.run, &part.agents, turn).map_err(|error| error.to_string())?;
    let outlook = told.get_or_init(|| distributor.outlook());
    // It may have been stopped before it began.
    if ended.load(Ordering::Relaxed) {
        outlook.give_up_all();
    }
    let dealt = deal(bus, &mut whole, &mut distributor, ended);
    dealt.and_then(|()| distributor.finish(bus).map(drop)).map_err(|error| error.to_string())
}
