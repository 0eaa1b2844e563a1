//! An agent: announces itself, shows its clock, and carries out requests.

use std::io::Write;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use async_nats::Subscriber;
use futures_util::StreamExt;
use ldplayer_core::TraceTime;
use ldplayer_core::printable::Printable;
use ldplayer_net::clock;
use ldplayer_replay::RunStart;
use tokio::time::interval;

use crate::bus::{Bus, encode};
use crate::error::ClusterError;
use crate::feeder::Feeder;
use crate::host;
use crate::limits::{self, Limits};
use crate::message::{Ask, FeedPart, Hello, Part, Say};
use crate::player::Player;
use crate::subjects;

/// How long a run continues without requests from a controller. Longer than a controller waits for the NATS server, which both may have
/// lost.
const FORGOTTEN_AFTER: Duration = Duration::from_secs(180);
/// How long a run that was told to stop may take to do so.
const LEFT_AFTER: Duration = Duration::from_secs(60);
/// How often to check whether to stop.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// A connected and listening agent.
pub struct Agent {
    bus: Arc<Bus>,
    hello: Hello,
    everybody: Subscriber,
    own: Subscriber,
    desk: Desk,
}

/// The state of an agent: its run, and files not yet fetched by the controller.
struct Desk {
    bus: Arc<Bus>,
    scratch: PathBuf,
    limits: Limits,
    /// The parts of the run: more than one if the agent took over from a lost one.
    players: Vec<Player>,
    /// The parts that it feeds.
    feeders: Vec<Feeder>,
    /// When the run was last asked about.
    asked: Instant,
}

impl Agent {
    /// Registers an agent of this name with these source addresses, a scratch directory, and the limits that its user gives.
    ///
    /// # Errors
    /// The server does not accept the subscriptions.
    pub fn register(
        bus: Bus,
        name: &str,
        sources: &[IpAddr],
        scratch: PathBuf,
        limits: Limits,
    ) -> Result<Self, ClusterError> {
        let hello = host::hello(name, &host::new_id(), sources);
        let listen = async {
            let everybody = bus.client().subscribe(subjects::AGENTS).await?;
            let own = bus.client().subscribe(subjects::agent(&hello.id)).await?;
            Ok::<_, async_nats::SubscribeError>((everybody, own))
        };
        let (everybody, own) = bus.wait(listen).map_err(|error| ClusterError::store("registering", error))?;
        // The subscriptions are active once the server has answered.
        bus.wait(bus.client().flush()).map_err(|error| ClusterError::store("registering", error))?;
        let bus = Arc::new(bus);
        // Agents on the same host need separate directories.
        let scratch = scratch.join(format!("ldplayer-agent-{}", hello.id));
        let desk = Desk {
            bus: Arc::clone(&bus),
            scratch,
            limits,
            players: Vec::new(),
            feeders: Vec::new(),
            asked: Instant::now(),
        };
        Ok(Self { bus, hello, everybody, own, desk })
    }

    /// How the agent introduces itself.
    pub const fn hello(&self) -> &Hello {
        &self.hello
    }

    /// Serves requests until `stop` is set.
    pub fn run(self, stop: &AtomicBool) {
        let Self { bus, hello, mut everybody, mut own, mut desk } = self;
        let scratch = desk.scratch.clone();
        bus.wait(async {
            let mut look = interval(LOOK_EVERY);
            while !stop.load(Ordering::Relaxed) {
                let (message, is_own) = tokio::select! {
                    message = everybody.next() => (message, false),
                    message = own.next() => (message, true),
                    _ = look.tick() => {
                        desk.look();
                        continue;
                    }
                };
                let Some(message) = message else { return };
                let received_ns = clock::monotonic_ns();
                let Some(reply) = message.reply.clone() else { continue };
                let say = match serde_json::from_slice::<Ask>(&message.payload) {
                    Ok(Ask::Who) => Say::Hello(Hello { run: desk.run_name(), ..hello.clone() }),
                    Ok(Ask::Clock) => Say::Clock { received_ns, answered_ns: clock::monotonic_ns() },
                    Ok(Ask::Wall) => Say::Wall(host::wall()),
                    Ok(_) if !is_own => Say::No { reason: "a request about a run is for one agent".to_owned() },
                    Ok(ask) => desk.answer(ask),
                    Err(error) => {
                        let (name, release) = (&hello.name, &hello.release);
                        Say::No {
                            reason: format!(
                                "agent {name} (release {release}) does not understand the request: {error}"
                            ),
                        }
                    }
                };
                // A request whose answer is lost is repeated.
                let _ = bus.client().publish(reply, encode(&say)).await;
                let _ = bus.client().flush().await;
            }
        });
        // It may not exist; it stays if it holds results that no controller has fetched.
        let _ = std::fs::remove_dir(scratch);
    }
}

impl Desk {
    fn run_name(&self) -> Option<String> {
        let played = self.players.iter().find(|player| !player.has_ended()).map(Player::name);
        let fed = || self.feeders.iter().find(|feeder| !feeder.has_ended()).map(Feeder::name);
        played.or_else(fed).map(str::to_owned)
    }

    fn feeder(&self, run: u64, seat: u32) -> Option<&Feeder> {
        self.feeders.iter().find(|feeder| feeder.is(run, seat))
    }

    /// The refusal if another run is in progress.
    fn has_another(&self, run: u64) -> Option<Say> {
        let played = self.players.iter().any(|player| player.run() != run && !player.has_ended());
        let fed = self.feeders.iter().any(|feeder| feeder.run() != run && !feeder.has_ended());
        let name = self.run_name().filter(|_| played || fed)?;
        Some(Say::No { reason: format!("it is busy with another run, {name}") })
    }

    fn player(&self, run: u64, seat: u32) -> Option<&Player> {
        self.players.iter().find(|player| player.is(run, seat))
    }

    /// Handles a request about a run. Requests are idempotent.
    fn answer(&mut self, ask: Ask) -> Say {
        if let Err(refused) = limits::check(&ask, clock::monotonic_ns()) {
            return Say::No { reason: refused.to_string() };
        }
        if self.concerns(&ask) {
            self.asked = Instant::now();
        }
        let done = match ask {
            Ask::Prepare(part) => return self.prepare(*part),
            Ask::Feed(part) => return self.feed(*part),
            Ask::Progress { run, seat, latencies } => {
                let played = self.player(run, seat).map(|player| player.progress(latencies));
                let fed = || self.feeder(run, seat).map(Feeder::progress);
                return played.or_else(fed).map_or_else(unknown, Say::Progress);
            }
            Ask::Start { run, seat, at_ns, wall_ns } => {
                let start = RunStart { monotonic_ns: at_ns, wall: Some(TraceTime(wall_ns)) };
                self.player(run, seat).map(|player| player.start(start))
            }
            Ask::Stop { run, seat, at_once } => {
                let played = self.player(run, seat).map(|player| player.stop(at_once));
                played.or_else(|| self.feeder(run, seat).map(Feeder::stop))
            }
            Ask::GiveUp { run, seat, shard } => self.feeder(run, seat).map(|feeder| feeder.give_up(shard)),
            Ask::Release { run, keep } => {
                self.release(run, keep);
                Some(())
            }
            Ask::Who | Ask::Clock | Ask::Wall => None,
        };
        done.map_or_else(unknown, |()| Say::Done)
    }

    /// Whether a request is about the run that this agent has: whoever asks about others does not keep it busy.
    fn concerns(&self, ask: &Ask) -> bool {
        match *ask {
            Ask::Progress { run, seat, .. } | Ask::Start { run, seat, .. } | Ask::GiveUp { run, seat, .. } => {
                self.player(run, seat).is_some() || self.feeder(run, seat).is_some()
            }
            _ => false,
        }
    }

    fn prepare(&mut self, part: Part) -> Say {
        if self.player(part.run, part.seat).is_some() {
            return Say::Done;
        }
        if let Some(no) = self.has_another(part.run) {
            return no;
        }
        match Player::begin(&self.bus, part, &self.scratch, &self.limits) {
            Ok(player) => {
                self.asked = Instant::now();
                self.players.retain(|before| before.run() == player.run());
                self.players.push(player);
                Say::Done
            }
            Err(reason) => Say::No { reason },
        }
    }

    fn feed(&mut self, part: FeedPart) -> Say {
        if self.feeders.iter().any(|feeder| feeder.is(part.run, part.seat)) {
            return Say::Done;
        }
        if let Some(no) = self.has_another(part.run) {
            return no;
        }
        match Feeder::begin(&self.bus, part, &self.scratch, &self.limits) {
            Ok(feeder) => {
                self.asked = Instant::now();
                self.feeders.retain(|before| before.run() == feeder.run());
                self.feeders.push(feeder);
                Say::Done
            }
            Err(reason) => Say::No { reason },
        }
    }

    /// Ends a run that no controller has asked about for too long. What does not end then, because it waits for a transfer, is left to
    /// itself, so that the agent is free.
    fn look(&mut self) {
        let silence = self.asked.elapsed();
        if silence > FORGOTTEN_AFTER {
            self.players.iter().filter(|player| !player.has_ended()).for_each(|player| player.stop(true));
            self.feeders.iter().for_each(Feeder::stop);
        }
        if silence > FORGOTTEN_AFTER + LEFT_AFTER {
            self.players.retain(Player::has_ended);
            self.feeders.retain(Feeder::has_ended);
        }
    }

    /// Ends and forgets a run. Results are removed unless they are the only copy.
    fn release(&mut self, run: u64, keep: bool) {
        self.feeders.extract_if(.., |feeder| feeder.run() == run).for_each(|feeder| feeder.stop());
        for player in self.players.extract_if(.., |player| player.run() == run) {
            player.stop(true);
            let directory = player.directory();
            if !keep {
                // It may be missing or unwritable; it is not needed.
                let _ = std::fs::remove_dir_all(directory);
            } else if directory.exists() {
                let told = format!(
                    "ldplayer: {} was cancelled; its results so far are in {}",
                    player.name(),
                    directory.display()
                );
                // The terminal may be closed.
                let _ = writeln!(std::io::stderr(), "{}", Printable(told));
            }
        }
    }
}

/// The answer about an unknown part: the agent was restarted or has forgotten the run.
fn unknown() -> Say {
    Say::No { reason: "it does not know this run".to_owned() }
}
