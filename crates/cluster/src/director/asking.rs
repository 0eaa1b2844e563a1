//! Commands of the controller to agents, and clock measurements.

use std::time::Duration;

use super::Directing;
use crate::clock::Offset;
use crate::controller::offsets;
use crate::error::ClusterError;
use crate::member::Member;
use crate::message::{Ask, Say};
use crate::subjects;

/// How long an agent may take to answer a question about its run.
pub const ANSWER_WITHIN: Duration = Duration::from_secs(5);
/// The same of a question that is asked again, and of one that need not be heard.
pub const PROGRESS_WITHIN: Duration = Duration::from_secs(2);

impl Directing<'_> {
    /// Deals no more, and has the agents send no more.
    pub fn stop(&self, at_once: bool) {
        self.deal_no_more();
        let there = self.members.iter().chain(&self.feeders).filter(|member| !member.is_done());
        // Who does not hear it is asked again with the next look, or lost.
        self.tell_each(there, |member| Ask::Stop { run: self.run, seat: member.seat, at_once }, "stop request");
    }

    /// Deals nothing more for a shard that nobody reads, here and where others deal.
    pub fn give_up(&self, shard: u32) {
        self.outlook.iter().for_each(|outlook| outlook.give_up(shard as usize));
        let there = self.feeders.iter().filter(|feeder| !feeder.is_done());
        self.tell_each(
            there,
            |feeder| Ask::GiveUp { run: self.run, seat: feeder.seat, shard },
            "request to give up a shard",
        );
    }

    /// Tells each of some something, all at once, whether they hear it or not.
    pub fn tell_each<'b>(
        &self,
        members: impl Iterator<Item = &'b Member>,
        ask: impl Fn(&Member) -> Ask,
        what: &'static str,
    ) {
        let asked: Vec<_> =
            members.map(|member| (subjects::agent(&member.hello.id), ask(member), member.who())).collect();
        drop(self.bus.ask_each::<_, Say>(&asked, what, PROGRESS_WITHIN));
    }

    /// Tells an agent something that it has to do.
    ///
    /// # Errors
    /// It says nothing, or why it does not.
    pub fn tell(&self, member: &Member, ask: &Ask, what: &'static str) -> Result<(), ClusterError> {
        let who = member.who();
        match self.bus.ask(&subjects::agent(&member.hello.id), ask, (&who, what), ANSWER_WITHIN)? {
            Say::Done => Ok(()),
            Say::No { reason } => Err(ClusterError::Failed { who, reason }),
            other => Err(ClusterError::store(what, format!("unexpected answer of {who}: {other:?}"))),
        }
    }

    /// Compares the clocks of all agents that are there with ours.
    ///
    /// # Errors
    /// One does not answer that has not brought its files yet.
    pub fn measure(&mut self) -> Result<(), ClusterError> {
        for (at, measured) in self.measured(|member| member.lost.is_none()) {
            // One whose files are here may go; the verdict says that its clock was not compared afterwards.
            match measured {
                Ok(measured) => self.members[at].measured.push(measured),
                Err(_) if self.members[at].has_returned() => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// The same while the run lasts, of those that are heard of; who does not answer will be found lost, or not.
    pub fn measure_meanwhile(&mut self) {
        for (at, measured) in self.measured(|member| member.is_heard() && !member.is_done()) {
            self.members[at].measured.extend(measured.ok());
        }
    }

    /// The clocks of some of the agents.
    fn measured(&self, wanted: impl Fn(&Member) -> bool) -> Vec<(usize, Result<Offset, ClusterError>)> {
        let there: Vec<usize> = (0..self.members.len()).filter(|&at| wanted(&self.members[at])).collect();
        let asked: Vec<_> = there.iter().map(|&at| self.members[at].hello.clone()).collect();
        there.into_iter().zip(offsets(self.bus, &asked)).collect()
    }
}
