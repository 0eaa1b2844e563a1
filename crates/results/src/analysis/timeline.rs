//! What is learnt from rows in the order of their due times: lateness, rate, latency.

use ldplayer_core::time::NS_PER_S;
use ldplayer_core::{Answer, Transport};

use super::Curve;
use super::accounts::{Accounts, Activity};
use super::figures::{Box5, LatencyPoint, LatencySlices};
use super::ordered::{CONNECTIONS, Row};
use super::outcomes::Outcomes;
use super::slices::{Grid, Slice, Slices, needed};
use super::spread::{Censored, Spread};

/// Time slices of the figure of timing errors, at most.
const BOXES: i64 = 60;
/// Slices without which the figure of timing errors leaves out the percentiles that need many queries.
const FEW_BOXES: u64 = 4;
/// Time slices of the figure of latency over time, at most.
const LATENCY_SLOTS: i64 = 240;
/// The percentiles of latency over time, each of slices that are as wide as it needs.
const PERCENTILES: [(f64, Curve); 3] = [(0.5, Curve::Median), (0.9, Curve::P90), (0.99, Curve::P99)];
/// Short windows of the rate, in nanoseconds.
const SHORT_WINDOW: i64 = NS_PER_S / 10;
/// Part of a window that does not matter at its end.
const BORDER: i64 = 100;
/// Windows kept at most, whatever the times in the rows say: ten days of seconds.
pub const MAX_WINDOWS: usize = 864_000;

/// Everything that grows while the ordered rows go by.
pub struct Timeline {
    first: i64,
    span: i64,
    /// Queries due at one moment have no order but their sending's.
    is_by_sending: bool,
    /// Lateness of the first query sent.
    pub first_error: Option<i64>,
    /// Lateness against the schedule.
    pub errors: Spread,
    /// Lateness minus the previous query's.
    pub gap_errors: Spread,
    previous_error: i64,
    /// Gaps between due times.
    pub gaps_due: Spread,
    /// Gaps between the times of sending.
    pub gaps_sent: Spread,
    previous_due: Option<i64>,
    previous_sent: Option<i64>,
    /// First and last time of sending.
    submitted: Option<(i64, i64)>,
    /// Last answer.
    last_answer: Option<i64>,
    box_slot: Option<Slice<Spread>>,
    box_slices: Slices<Spread>,
    boxes: Vec<Box5>,
    /// Rate by second.
    pub seconds: Windows,
    /// Rate by tenth of a second.
    pub tenths: Windows,
    /// What became of queries over time.
    pub outcomes: Outcomes,
    /// Queries by second in which they were due, by how their answers compare.
    pub compared: [Vec<u64>; Answer::ALL.len()],
    /// Answer less due time.
    pub from_intended: Censored,
    /// Answer less sending.
    pub from_sent: Censored,
    /// The same without queries that were sent later than this many nanoseconds.
    pub on_time: Censored,
    late: i64,
    /// As `from_sent`, by transport.
    pub by_transport: [Censored; Transport::ALL.len()],
    /// As `from_sent`, by how busy the client is among all.
    pub by_rank: [Censored; Activity::RANKS.len()],
    /// The same by how many queries the client has.
    pub by_volume: [Censored; Activity::VOLUMES.len()],
    /// The same by how a query came by its connection.
    pub by_connection: [Censored; CONNECTIONS.len()],
    /// The same for each transport by itself.
    pub by_transport_and_connection: [[Censored; CONNECTIONS.len()]; Transport::ALL.len()],
    /// The same by class of the client.
    pub by_class: Vec<Censored>,
    latency_slot: Option<Slice<Censored>>,
    latency_slices: [Slices<Censored>; PERCENTILES.len()],
    latency: Vec<LatencyPoint>,
    scratch: Vec<i64>,
}

impl Timeline {
    /// A timeline for the queries that were counted, due from `first` to `last`, which are late when sent more than `late` nanoseconds after that.
    pub fn new(first: i64, last: i64, late: i64, accounts: &Accounts) -> Self {
        let lasted = (accounts.elapsed_s() * NS_PER_S as f64) as i64;
        let is_by_sending = first == last;
        let span = if is_by_sending { lasted } else { last - first }.max(1);
        let sent = accounts.queries().sent;
        let whiskers = needed(0.99);
        Self {
            first,
            span,
            is_by_sending,
            first_error: None,
            errors: Spread::default(),
            gap_errors: Spread::default(),
            previous_error: 0,
            gaps_due: Spread::default(),
            gaps_sent: Spread::default(),
            previous_due: None,
            previous_sent: None,
            submitted: None,
            last_answer: None,
            box_slot: None,
            box_slices: Slices::new(if sent >= FEW_BOXES * whiskers { whiskers } else { needed(0.25) }),
            boxes: Vec::new(),
            seconds: Windows::new(NS_PER_S),
            tenths: Windows::new(SHORT_WINDOW),
            outcomes: Outcomes::new(first, lasted, accounts.codes()),
            compared: Default::default(),
            from_intended: Censored::default(),
            from_sent: Censored::default(),
            on_time: Censored::default(),
            late,
            by_transport: Default::default(),
            by_rank: Default::default(),
            by_volume: Default::default(),
            by_connection: Default::default(),
            by_transport_and_connection: Default::default(),
            by_class: Vec::new(),
            latency_slot: None,
            latency_slices: PERCENTILES.map(|(quantile, _)| Slices::new(needed(quantile))),
            latency: Vec::new(),
            scratch: Vec::new(),
        }
    }

    /// Adds rows sorted by due time, later than the rows of any call before.
    pub fn add(&mut self, rows: &[Row]) {
        rows.iter().for_each(|row| self.add_row(row));
        self.add_sent_gaps(rows);
    }

    fn add_row(&mut self, row: &Row) {
        let due = row.intended - self.first;
        self.outcomes.add(row);
        self.seconds.due(due);
        self.tenths.due(due);
        if let Some(answer) = row.answer {
            bump(&mut self.compared[answer as usize], due.div_euclid(NS_PER_S));
        }
        if let Some(previous) = self.previous_due.replace(row.intended) {
            self.gaps_due.push(row.intended - previous);
        }
        let Some(submitted) = row.submitted else { return };
        let (earliest, latest) = self.submitted.unwrap_or((submitted, submitted));
        self.submitted = Some((earliest.min(submitted), latest.max(submitted)));
        let at = if self.is_by_sending { submitted - self.first } else { due };
        self.add_error(due, submitted - row.intended, at);
        self.add_latency(at, row);
    }

    /// The error is against the schedule, in which the first query is due at 0. It is not taken relative to the first
    /// query's own: one late first query would shift all others, and hide that they are late as well.
    fn add_error(&mut self, due: i64, error: i64, at: i64) {
        if self.first_error.is_some() {
            self.gap_errors.push(error - self.previous_error);
        }
        self.first_error.get_or_insert(error);
        self.previous_error = error;
        self.errors.push(error);
        self.seconds.sent(due + error);
        self.tenths.sent(due + error);
        let slot = self.grid(BOXES).slot(at);
        if let Some(whole) = next(&mut self.box_slot, slot).and_then(|slot| self.box_slices.add(slot)) {
            self.draw_box(whole);
        }
        self.box_slot.get_or_insert_with(|| empty(slot)).data.push(error);
    }

    fn add_latency(&mut self, at: i64, row: &Row) {
        let from_sent = row.answered.zip(row.sent).map(|(answered, sent)| answered - sent);
        self.from_intended.push(row.answered.map(|answered| answered - row.intended));
        self.from_sent.push(from_sent);
        if row.submitted.is_some_and(|submitted| submitted - row.intended <= self.late) {
            self.on_time.push(from_sent);
        }
        let (transport, connection) = (usize::from(row.transport), usize::from(row.connection));
        let of_both =
            self.by_transport_and_connection.get_mut(transport).and_then(|classes| classes.get_mut(connection));
        let class = row.class.map(usize::from);
        if class.is_some_and(|class| class >= self.by_class.len()) {
            self.by_class.resize_with(class.unwrap_or_default() + 1, Censored::default);
        }
        let classes = [
            class.and_then(|class| self.by_class.get_mut(class)),
            self.by_transport.get_mut(transport),
            self.by_connection.get_mut(connection),
            of_both,
            self.by_rank.get_mut(usize::from(row.activity.rank)),
            self.by_volume.get_mut(usize::from(row.activity.volume)),
        ];
        classes.into_iter().flatten().for_each(|class| class.push(from_sent));
        let slot = self.grid(LATENCY_SLOTS).slot(at);
        if let Some(before) = next(&mut self.latency_slot, slot) {
            self.add_latency_slice(0, before);
        }
        self.latency_slot.get_or_insert_with(|| empty(slot)).data.push(from_sent);
        self.last_answer = self.last_answer.max(row.answered);
    }

    /// Joins slices for the percentile of this number; slices wide enough for it go on to the next.
    fn add_latency_slice(&mut self, percentile: usize, slice: Slice<Censored>) {
        if let Some(whole) = self.latency_slices.get_mut(percentile).and_then(|slices| slices.add(slice)) {
            self.draw_latency(percentile, whole);
        }
    }

    fn draw_latency(&mut self, percentile: usize, mut slice: Slice<Censored>) {
        let (quantile, of) = PERCENTILES[percentile];
        if slice.data.len() >= needed(quantile) {
            let (from, to) = self.grid(LATENCY_SLOTS).seconds(&slice);
            let ms = slice.data.quantile_ms(quantile);
            self.latency.push(LatencyPoint { t: (from + to) / 2.0, from, to, queries: slice.data.len(), ms, of });
        }
        self.add_latency_slice(percentile + 1, slice);
    }

    fn draw_box(&mut self, slice: Slice<Spread>) {
        if slice.data.len() >= needed(0.25) {
            let reach = self.grid(BOXES).seconds(&slice);
            self.boxes.push(Box5::new(reach, slice.data));
        }
    }

    const fn grid(&self, slots: i64) -> Grid {
        Grid { span: self.span, slots }
    }

    /// Gaps as a receiver would see them: between times of sending in their own order.
    fn add_sent_gaps(&mut self, rows: &[Row]) {
        self.scratch.clear();
        self.scratch.extend(rows.iter().filter_map(|row| row.submitted));
        self.scratch.sort_unstable();
        for &sent in &self.scratch {
            if let Some(previous) = self.previous_sent.replace(sent) {
                // Negative only where a late query of the slice before comes after the first of this one.
                self.gaps_sent.push((sent - previous).max(0));
            }
        }
    }

    /// Quartiles of the timing error over time.
    pub fn boxes(&mut self) -> Vec<Box5> {
        let whole = self.box_slot.take().and_then(|slot| self.box_slices.add(slot));
        whole.into_iter().chain(self.box_slices.end()).for_each(|slice| self.draw_box(slice));
        std::mem::take(&mut self.boxes)
    }

    /// Percentiles of latency over time, one after the other, and what their slices are like.
    pub fn latency_over_time(&mut self) -> (Vec<LatencyPoint>, Vec<LatencySlices>) {
        if let Some(slot) = self.latency_slot.take() {
            self.add_latency_slice(0, slot);
        }
        for percentile in 0..PERCENTILES.len() {
            self.latency_slices[percentile].end().into_iter().for_each(|slice| self.draw_latency(percentile, slice));
        }
        let points = std::mem::take(&mut self.latency);
        let of = |(quantile, of): (f64, Curve)| {
            let points: Vec<LatencyPoint> = points.iter().filter(|point| point.of == of).cloned().collect();
            (LatencySlices::new(of, needed(quantile), &points), points)
        };
        let (slices, points): (Vec<_>, Vec<_>) = PERCENTILES.into_iter().map(of).unzip();
        (points.concat(), slices)
    }

    /// Queries per second from the first to the last time of sending; `None` for queries of one moment.
    pub fn qps_mean(&self) -> Option<f64> {
        let (first, last) = self.submitted.filter(|(first, last)| first < last)?;
        Some(self.errors.len() as f64 * NS_PER_S as f64 / (last - first) as f64)
    }

    /// How far the schedule reaches from its first query: to the last one, and the mean gap beyond.
    pub fn scheduled(&self) -> i64 {
        reach(self.span, self.gaps_due.len())
    }

    /// How far the sending reaches.
    pub fn sending(&self) -> i64 {
        self.submitted.map_or(0, |(first, last)| first - self.first + reach(last - first, self.gaps_sent.len()))
    }

    /// How far the answers reach.
    pub fn answering(&self) -> i64 {
        self.last_answer.map_or(0, |last| last - self.first).max(self.sending())
    }
}

/// A stretch with the mean of its gaps added: ten queries, one a second, are ten seconds of queries and not nine.
fn reach(span: i64, gaps: u64) -> i64 {
    span.saturating_add(span.checked_div(gaps as i64).unwrap_or(0))
}

/// The window of this length, in nanoseconds, in the midst of which a stretch ends; of it there is only a part to count.
pub fn partial(reach: i64, length: i64) -> Option<usize> {
    let (whole, rest) = (reach.max(0) / length, reach.max(0) % length);
    let border = length / BORDER;
    // The last gap is estimated, so an end that is this near before a border is on it.
    (rest < length - border && (rest > 0 || whole == 0)).then_some(whole as usize)
}

/// The slot before, when `slot` is another.
fn next<D>(current: &mut Option<Slice<D>>, slot: i64) -> Option<Slice<D>> {
    current.take_if(|current| current.first != slot)
}

fn empty<D: Default>(slot: i64) -> Slice<D> {
    Slice { first: slot, last: slot, data: D::default() }
}

/// Queries due and sent in windows of equal length.
pub struct Windows {
    length: i64,
    due: Vec<u64>,
    sent: Vec<u64>,
}

impl Windows {
    fn new(length: i64) -> Self {
        Self { length, due: Vec::new(), sent: Vec::new() }
    }

    fn due(&mut self, at: i64) {
        bump(&mut self.due, at.div_euclid(self.length));
    }

    fn sent(&mut self, at: i64) {
        bump(&mut self.sent, at.div_euclid(self.length));
    }

    /// Queries due and sent, window by window.
    pub fn counts(&self) -> impl Iterator<Item = (u64, u64)> {
        let windows = self.due.len().max(self.sent.len());
        let of = |counts: &[u64], at: usize| counts.get(at).copied().unwrap_or_default();
        (0..windows).map(move |at| (of(&self.due, at), of(&self.sent, at)))
    }

    /// Windows that lie in the schedule as a whole or after its end, each with its number; `reach` is how far it reaches.
    pub fn whole(&self, reach: i64) -> impl Iterator<Item = (usize, (u64, u64))> {
        let partial = partial(reach, self.length);
        self.counts().enumerate().filter(move |&(at, _)| Some(at) != partial)
    }

    /// Length of a window in nanoseconds.
    pub const fn length(&self) -> i64 {
        self.length
    }

    /// Length of a window in seconds.
    pub fn length_s(&self) -> f64 {
        self.length as f64 / NS_PER_S as f64
    }
}

/// Adds one to the count at `window`; earlier than the first counts there, absurdly late not at all.
fn bump(counts: &mut Vec<u64>, window: i64) {
    add(counts, window, 1);
}

/// As [`bump`], adds more than one.
pub fn add(counts: &mut Vec<u64>, window: i64, more: u64) {
    let at = window.max(0) as usize;
    if at >= MAX_WINDOWS {
        return;
    }
    if at >= counts.len() {
        counts.resize(at + 1, 0);
    }
    counts[at] += more;
}
