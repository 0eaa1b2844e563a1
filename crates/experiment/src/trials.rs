//! Makes the trials of all cells in turn, one of each unfinished search at a time.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use ldplayer_results::read_document;
use serde_json::Value;

use crate::cell::Cell;
use crate::error::ExperimentError;
use crate::find::{
    Allowed, Discarded, Ended, Find, GoalResult, Intended, Limit, Search, SearchRecord, ServerUse, Took, TrialRecord,
};
use crate::maker::{Maker, Making};
use crate::record::{Record, RunRecord, RunState};
use crate::watcher::Position;

/// The directory of a run's rows.
const ROWS: &str = "queries";

/// Searches in all cells. Trials that an earlier call made are taken as they are, in their order.
pub(crate) fn search_all(maker: &mut Maker<'_>, find: &Find, record: &mut Record) -> Result<(), ExperimentError> {
    let experiment = &maker.plan.experiment;
    let searches = experiment.cells.iter().map(|_| find.search(experiment.max_retries)).collect();
    let cells = experiment.cells.len();
    let (took_s, failures, discarded) = (vec![0.0; cells], vec![0; cells], vec![Vec::new(); cells]);
    let missed = vec![BTreeMap::new(); cells];
    let mut all = All { find, searches, used: BTreeSet::new(), took_s, failures, discarded, missed };
    let ended = all.turns(maker, record);
    record.searches = all.results(maker);
    record.save(maker.plan, maker.directory)?;
    ended
}

struct All<'a> {
    find: &'a Find,
    /// By cell.
    searches: Vec<Search>,
    /// Runs of the record that have been taken.
    used: BTreeSet<usize>,
    /// By cell.
    took_s: Vec<f64>,
    /// By cell: trials in succession that could not be made.
    failures: Vec<u32>,
    /// By cell.
    discarded: Vec<Vec<Discarded>>,
    /// By cell and load: what the server did in the least crowded trial that missed a goal.
    missed: Vec<BTreeMap<u64, ServerUse>>,
}

impl All<'_> {
    fn turns(&mut self, maker: &mut Maker<'_>, record: &mut Record) -> Result<(), ExperimentError> {
        let mut is_working = true;
        while is_working {
            is_working = false;
            for cell in 0..self.searches.len() {
                let Some(intended) = self.searches[cell].next_trial() else { continue };
                is_working = true;
                self.trial(maker, record, cell, intended)?;
            }
            record.searches = self.results(maker);
        }
        Ok(())
    }

    /// Makes a trial, or takes the one that was made.
    fn trial(
        &mut self,
        maker: &mut Maker<'_>,
        record: &mut Record,
        cell: usize,
        intended: Intended,
    ) -> Result<(), ExperimentError> {
        let known = self.known(maker, record, cell, intended);
        if known.is_none() && maker.watcher.is_stopped() {
            self.searches[cell].stop(Ended::Interrupted);
            return Ok(());
        }
        let at = match known {
            Some(at) => at,
            None => self.make(maker, record, cell, intended)?,
        };
        self.used.insert(at);
        self.take(maker, &record.runs[at], cell, intended)
    }

    /// The place of a run in the record that was made for this trial and has not been taken.
    fn known(&self, maker: &Maker<'_>, record: &Record, cell: usize, intended: Intended) -> Option<usize> {
        let wanted = TrialRecord { load: intended.load, duration_s: intended.duration_s };
        let (name, digest) = (&maker.plan.experiment.cells[cell].name, &maker.plan.digests[cell]);
        record.runs.iter().enumerate().position(|(at, run)| {
            run.trial == Some(wanted)
                && run.cell == *name
                && run.digest == *digest
                && matches!(run.state, RunState::Done | RunState::Disturbed | RunState::ServerDied)
                && !self.used.contains(&at)
        })
    }

    fn make(
        &self,
        maker: &mut Maker<'_>,
        record: &mut Record,
        cell: usize,
        intended: Intended,
    ) -> Result<usize, ExperimentError> {
        let Intended { load, duration_s } = intended;
        let search = &self.searches[cell];
        let position = Position {
            number: search.made() as usize + 1,
            of: None,
            cell: maker.plan.experiment.cells[cell].name.clone(),
            what: format!("{load} {} for {duration_s} s{}", self.find.what.unit(), self.known_so_far(search)),
            estimated_s: None,
        };
        let spec = self.find.run(&maker.plan.experiment.cells[cell].spec, intended);
        let making = Making { cell, spec, name: format!("{load}-{duration_s}s") };
        let trial = Some(TrialRecord { load, duration_s });
        let begun = RunRecord { trial, ..record.begun(maker.plan, crate::plan::Slot { cell, repeat: 1 }) };
        let (run, is_full) = maker.one(making, &position, begun);
        if let Some(directory) = run.directory.as_ref().filter(|_| !self.find.keep_rows) {
            // Rows that stay are room that is lost, and no more.
            let _ = fs::remove_dir_all(maker.directory.join(directory).join(ROWS));
        }
        record.runs.push(run);
        record.save(maker.plan, maker.directory)?;
        if is_full {
            return Err(ExperimentError::DiskFull(maker.directory.to_owned()));
        }
        Ok(record.runs.len() - 1)
    }

    /// The bounds so far of each goal, in words.
    fn known_so_far(&self, search: &Search) -> String {
        let bounds = (0..self.find.goals.len()).map(|goal| match search.bounds(goal) {
            (Some(lower), Some(upper)) => format!("{lower} to {upper}"),
            (Some(lower), None) => format!("{lower} or more"),
            (None, Some(upper)) => format!("less than {upper}"),
            (None, None) => "unknown".to_owned(),
        });
        format!(", capacity so far {}", bounds.collect::<Vec<_>>().join("; "))
    }

    /// Gives the search the result of a trial.
    fn take(
        &mut self,
        maker: &Maker<'_>,
        run: &RunRecord,
        cell: usize,
        intended: Intended,
    ) -> Result<(), ExperimentError> {
        self.took_s[cell] += run.took_s;
        let search = &mut self.searches[cell];
        let took = match run.state {
            RunState::Done | RunState::Disturbed => {
                let report = read(maker, run)?;
                let took = self.find.judge(intended, &report);
                match &took {
                    Took::Unfit(why) => {
                        let missed = self.find.is_missed(intended, &report);
                        discard(&mut self.discarded[cell], intended.load, missed, why.reason());
                    }
                    Took::Measured { is_high_loss, .. } if is_high_loss.contains(&true) => {
                        if let Some(of) = ServerUse::of(&report.summary) {
                            let known = self.missed[cell].entry(intended.load).or_insert(of);
                            *known = known.or(of);
                        }
                    }
                    Took::Measured { .. } => {}
                }
                took
            }
            RunState::ServerDied => {
                // Under this load: nothing speaks more against a server.
                Took::Measured { loss_ratio: 1.0, is_high_loss: vec![true; self.find.goals.len()] }
            }
            RunState::Interrupted | RunState::Planned => {
                search.stop(Ended::Interrupted);
                return Ok(());
            }
            RunState::Failed => {
                // A server may fail to start once; one that does again and again does not start.
                discard(&mut self.discarded[cell], intended.load, false, run.reason.as_deref().unwrap_or("it failed"));
                self.failures[cell] += 1;
                if self.failures[cell] > maker.plan.experiment.max_retries {
                    search.stop(Ended::Failed(run.reason.clone().unwrap_or_default()));
                }
                return Ok(());
            }
        };
        self.failures[cell] = 0;
        search.took(intended, took, run.took_s);
        Ok(())
    }

    fn results(&self, maker: &Maker<'_>) -> Vec<SearchRecord> {
        let cells = maker.plan.experiment.cells.iter().zip(&self.searches).zip(self.took_s.iter().zip(&self.discarded));
        let of = cells.zip(&self.missed).flat_map(|(((cell, search), (took_s, discarded)), missed)| {
            let results = search.results().into_iter().map(|result| weighed(result, cell, missed));
            results.map(|result| SearchRecord {
                cell: cell.name.clone(),
                keys: cell.keys.iter().cloned().collect(),
                unit: self.find.what.unit().to_owned(),
                took_s: *took_s,
                discarded: discarded.clone(),
                result,
            })
        });
        of.collect()
    }
}

/// The result, with what limited the server where that was not its processors, and doubt where it may have been the machine.
fn weighed(result: GoalResult, cell: &Cell, missed: &BTreeMap<u64, ServerUse>) -> GoalResult {
    let limit = result.upper.and_then(|upper| missed.get(&upper)).and_then(|of| of.limit(allowed(cell)));
    match (&result.ended, limit) {
        (Ended::Width, Some(Limit::Machine(why))) => GoalResult { ended: Ended::Crowded(why), ..result },
        (Ended::Width, Some(Limit::Other(why))) => GoalResult { limit: Some(why), ..result },
        _ => result,
    }
}

/// The processors that the server of a cell has.
fn allowed(cell: &Cell) -> Allowed {
    if let Some(share) = cell.spec.server_cpu {
        return Allowed { cores: share.0, is_quota: true };
    }
    let threads = cell.stage.server.as_ref().map_or(1, |server| server.threads);
    let pinned = cell.spec.server_cpus.len();
    let cores = if pinned == 0 { threads } else { threads.min(pinned as u16) };
    Allowed { cores: cores.into(), is_quota: false }
}

/// Counts a trial that does not count.
fn discard(discarded: &mut Vec<Discarded>, load: u64, missed: bool, reason: &str) {
    let is_alike = |of: &&mut Discarded| of.load == load && of.missed == missed && of.reason == reason;
    match discarded.iter_mut().find(is_alike) {
        Some(known) => known.trials += 1,
        None => discarded.push(Discarded { load, trials: 1, missed, reason: reason.to_owned() }),
    }
}

fn read(maker: &Maker<'_>, run: &RunRecord) -> Result<ldplayer_results::RunReport, ExperimentError> {
    let path = maker.directory.join(run.directory.as_deref().unwrap_or("".as_ref()));
    let failed = |error: ldplayer_results::ResultsError| ExperimentError::Record {
        file: path.clone(),
        what: format!("cannot read a trial of the search: {error}"),
    };
    Ok(read_document::<Value>(&path).map_err(failed)?.report)
}
