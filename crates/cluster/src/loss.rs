//! What is done where an agent is lost while a run goes on.

use std::fmt;
use std::str::FromStr;

use ldplayer_run::Observer;
use serde::{Deserialize, Serialize};

use crate::director::{Directing, look_at};
use crate::error::ClusterError;
use crate::gather::spare;
use crate::member::{LOST_AFTER, Member};
use crate::message::{Ask, FeedPart, Hello};

/// How long before the queries begin that another agent takes over: it must have read them by then.
const TAKEOVER_NS: i64 = 3_000_000_000;

/// Seats of agents that feed in the place of lost ones begin here, so that they are nobody else's.
const FEEDERS: u32 = 1 << 20;

/// What is done where an agent is lost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnLoss {
    /// The others stop, and what they have measured is the run.
    #[default]
    Stop,
    /// The others go on.
    Continue,
    /// Another agent goes on with its clients: one that has no run, or else the one with the fewest shares.
    Reassign,
}

/// A word that is no policy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0} is not known: give stop, continue or reassign")]
pub struct UnknownPolicy(String);

impl FromStr for OnLoss {
    type Err = UnknownPolicy;

    fn from_str(word: &str) -> Result<Self, Self::Err> {
        match word {
            "stop" => Ok(Self::Stop),
            "continue" => Ok(Self::Continue),
            "reassign" => Ok(Self::Reassign),
            other => Err(UnknownPolicy(other.to_owned())),
        }
    }
}

impl fmt::Display for OnLoss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Stop => "stop",
            Self::Continue => "continue",
            Self::Reassign => "reassign",
        })
    }
}

impl Directing<'_> {
    /// An agent is lost: does what is to be done then.
    ///
    /// # Errors
    /// What another controller would have to know cannot be kept.
    pub fn lose(
        &mut self,
        at: usize,
        why: &str,
        first_ns: i64,
        observer: &mut dyn Observer,
    ) -> Result<(), ClusterError> {
        let (who, shard) = (self.members[at].who(), self.members[at].shard);
        let done = match self.order.on_loss {
            OnLoss::Stop => {
                self.stop(false);
                "the others stop (--on-agent-loss continue or reassign would go on)".to_owned()
            }
            OnLoss::Continue => {
                self.give_up(shard);
                "the others go on".to_owned()
            }
            OnLoss::Reassign => match self.take_over(at, first_ns) {
                Ok(successor) => format!("{successor} goes on with its clients"),
                Err(error) => {
                    self.give_up(shard);
                    format!("nobody goes on with its clients: {error}")
                }
            },
        };
        observer.notice(&format!("{who} is lost: {why}; {done}"));
        self.keep()
    }

    /// Gives the share of an agent that was lost to another one, from a moment on at which nothing of it can be on its way any more.
    fn take_over(&mut self, at: usize, first_ns: i64) -> Result<String, ClusterError> {
        let seat = (self.members.len() + self.order.feeders) as u32;
        // What it had read may be due for so much longer than it takes to find it lost.
        let still_due_ns = (self.order.ahead_ns - LOST_AFTER.as_nanos() as i64).max(0);
        let from_ns = self.now_ns() + still_due_ns + TAKEOVER_NS;
        let mut successor = Member::new(self.successor()?, seat, self.members[at].shard);
        successor.took_over_from = Some(self.members[at].hello.name.clone());
        let part = self.part(&successor, self.shared_spec()?, first_ns, Some(from_ns));
        self.tell(&successor, &Ask::Prepare(Box::new(part)), "to make ready")?;
        successor.measured.push(crate::controller::offset(self.bus, &successor.hello)?);
        let who = successor.who();
        self.members[at].replaced_by = Some(successor.hello.name.clone());
        self.members.push(successor);
        Ok(who)
    }

    /// Looks how far those are that feed. Where one is lost, another one goes on with what it dealt.
    ///
    /// # Errors
    /// There is no other one: queries would be missing.
    pub fn look_after_feeders(&mut self, observer: &mut dyn Observer) -> Result<(), ClusterError> {
        for (at, why) in look_at(self.bus, self.run, &mut self.feeders, false) {
            let who = self.feeders[at].who();
            let other = self.spare().ok_or_else(|| {
                let reason =
                    format!("{why}; it dealt a part of the trace, and no other agent is free to go on with that");
                ClusterError::Failed { who: who.clone(), reason }
            })?;
            let seat = (self.members.len() + self.feeders.len()) as u32 + FEEDERS;
            let feeder = Member::new(other, seat, self.feeders[at].shard);
            observer.notice(&format!(
                "{who}, which dealt a part of the trace, is lost: {why}; {} goes on with that",
                feeder.who()
            ));
            self.have_fed(&feeder, self.shared_spec()?)?;
            self.feeders.push(feeder);
        }
        Ok(())
    }

    /// Has an agent deal its shards, behind what their streams have.
    ///
    /// # Errors
    /// It says nothing, or why it does not.
    pub fn have_fed(&self, feeder: &Member, spec: serde_json::Value) -> Result<(), ClusterError> {
        let part = FeedPart {
            run: self.run,
            name: self.order.name.clone(),
            seat: feeder.seat,
            feeder: feeder.shard,
            feeders: self.order.feeders as u32 + 1,
            agents: self.names(),
            spec,
        };
        self.tell(feeder, &Ask::Feed(Box::new(part)), "to deal a part of the trace")
    }

    /// An agent that has no part of this run, be it one that it has lost, nor of another.
    fn spare(&self) -> Option<Hello> {
        spare(self.bus, |id| self.members.iter().chain(&self.feeders).any(|member| member.hello.id == id))
    }

    fn successor(&self) -> Result<Hello, ClusterError> {
        if let Some(free) = self.spare() {
            return Ok(free);
        }
        let shares = |id: &str| self.members.iter().filter(|member| member.hello.id == id && !member.is_done()).count();
        let is_there = |member: &&Member| {
            let id = &member.hello.id;
            !self.members.iter().any(|other| other.hello.id == *id && other.was_lost)
        };
        let least = self.members.iter().filter(is_there).min_by_key(|member| shares(&member.hello.id));
        least.map(|member| member.hello.clone()).ok_or_else(|| ClusterError::store("taking over", "no agent is left"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn policies_have_words() {
        for policy in [OnLoss::Stop, OnLoss::Continue, OnLoss::Reassign] {
            assert_eq!(policy.to_string().parse(), Ok(policy));
        }
        assert_eq!(
            "ignore".parse::<OnLoss>().unwrap_err().to_string(),
            "ignore is not known: give stop, continue or reassign"
        );
    }
}
