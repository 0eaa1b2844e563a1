//! Handles the loss of an agent during a run.

use ldplayer_run::Observer;

use super::{Directing, look_at};
use crate::error::ClusterError;
use crate::gather::spare;
use crate::member::{LOST_AFTER, Member};
use crate::message::{Ask, FeedPart, Hello};
use crate::order::OnLoss;

/// Lead time of a takeover: the new agent must have read its first queries by then.
const TAKEOVER_NS: i64 = 3_000_000_000;

/// First seat number of feeders that replace lost ones, so that seats stay unique.
const FEEDERS: u32 = 1 << 20;

impl Directing<'_> {
    /// Handles the loss of an agent.
    ///
    /// # Errors
    /// The state for another controller cannot be saved.
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
                "stopping all others (see --on-agent-loss continue or reassign)".to_owned()
            }
            OnLoss::Continue => {
                self.give_up(shard);
                "the others continue".to_owned()
            }
            OnLoss::Reassign => match self.take_over(at, first_ns) {
                Ok(successor) => format!("{successor} takes over its clients"),
                Err(error) => {
                    self.give_up(shard);
                    format!("no agent can take over its clients: {error}")
                }
            },
        };
        observer.notice(&format!("lost {who}: {why}; {done}"));
        self.keep()
    }

    /// Gives the share of a lost agent to another one, from a time on at which the lost one can no longer send anything.
    fn take_over(&mut self, at: usize, first_ns: i64) -> Result<String, ClusterError> {
        let seat = (self.members.len() + self.order.feeders) as u32;
        // Queries that it had read ahead may be due for longer than it takes to detect the loss.
        let still_due_ns = (self.order.ahead_ns - LOST_AFTER.as_nanos() as i64).max(0);
        let from_ns = self.now_ns() + still_due_ns + TAKEOVER_NS;
        let mut successor = Member::new(self.successor()?, seat, self.members[at].shard);
        successor.took_over_from = Some(self.members[at].hello.name.clone());
        let part = self.part(&successor, self.shared_spec()?, first_ns, Some(from_ns));
        self.tell(&successor, &Ask::Prepare(Box::new(part)), "prepare request")?;
        successor.measured.push(crate::controller::offset(self.bus, &successor.hello)?);
        let who = successor.who();
        self.members[at].replaced_by = Some(successor.hello.name.clone());
        self.members.push(successor);
        Ok(who)
    }

    /// Checks the progress of the feeders, and replaces lost ones.
    ///
    /// # Errors
    /// No agent is free: queries would be missing.
    pub fn look_after_feeders(&mut self, observer: &mut dyn Observer) -> Result<(), ClusterError> {
        for (at, why) in look_at(self.bus, self.run, &mut self.feeders, false) {
            let who = self.feeders[at].who();
            let other = self.spare().ok_or_else(|| {
                let reason = format!(
                    "{why}; it read a part of the trace for the other agents, and no other agent is free to take over"
                );
                ClusterError::Failed { who: who.clone(), reason }
            })?;
            let seat = (self.members.len() + self.feeders.len()) as u32 + FEEDERS;
            let feeder = Member::new(other, seat, self.feeders[at].shard);
            observer.notice(&format!(
                "lost {who}, which read a part of the trace for the other agents: {why}; {} takes over",
                feeder.who()
            ));
            self.have_fed(&feeder, self.shared_spec()?)?;
            self.feeders.push(feeder);
        }
        Ok(())
    }

    /// Has an agent deal its shards, continuing after what their streams hold.
    ///
    /// # Errors
    /// It does not answer, or refuses.
    pub fn have_fed(&self, feeder: &Member, spec: serde_json::Value) -> Result<(), ClusterError> {
        let part = FeedPart {
            run: self.run,
            name: self.order.name.clone(),
            seat: feeder.seat,
            feeder: feeder.shard,
            feeders: self.order.feeders as u32 + 1,
            agents: self.names(),
            spec,
            tls_ca: self.tls_ca(),
        };
        self.tell(feeder, &Ask::Feed(Box::new(part)), "feed request")
    }

    /// A free agent that has not had a part of this run.
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
            "unknown value `ignore`: use stop, continue or reassign"
        );
    }
}
