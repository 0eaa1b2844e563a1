//! What a connection has while something is in flight, or waits to be sent or read.

use ldplayer_core::Segments;

use super::blocks::Blocks;
use super::index::NONE;
use super::reassembly::Reassembly;
use super::rtt::Rtt;

/// No deadline.
pub const NEVER: i64 = i64::MAX;
/// Buffers that are kept to be used again.
const SPARE: usize = 1_024;
/// Octets of a buffer that is worth keeping.
const SPARE_OCTETS: usize = 4_096;

/// The active part of a connection.
#[derive(Debug)]
pub struct Active {
    /// The connection; or the next of those that are free.
    pub connection: u32,
    /// Whether it is in use.
    pub is_used: bool,
    /// Whether it is on the list of those that may have something to send. It stays there when it becomes free.
    pub is_queued: bool,
    /// SND.UNA: the first octet that is not acknowledged.
    pub unacknowledged: u32,
    /// Behind the last that was ever sent: `sent` of the connection goes back when it is sent again.
    pub highest: u32,
    /// Sequence number of the first octet of `output`.
    pub base: u32,
    /// Data that is not acknowledged, from `start` on.
    output: Vec<u8>,
    start: usize,
    /// Whether FIN follows the data.
    pub has_fin: bool,
    /// What arrived ahead, or was not read.
    pub input: Option<Box<Reassembly>>,
    /// Where FIN of the server is that arrived ahead.
    pub peer_fin: Option<u32>,
    /// The last acknowledgement that we sent.
    pub acknowledged: u32,
    /// Full segments that arrived since.
    pub full_segments: u8,
    /// Whether the last segment said that its data is to be handed over: that no more follows for now.
    pub is_pushed: bool,
    /// Acknowledgements to be sent at once.
    pub acks_due: u8,
    /// Whether SYN is to be sent.
    pub syn_due: bool,
    /// Whether the first segment in flight is to be sent again.
    pub resend_due: bool,
    /// Whether the window is to be probed.
    pub probe_due: bool,
    /// Whether the caller waits for room.
    pub wants_room: bool,
    /// Whether an ICMP error said that the server cannot be reached.
    pub is_unreachable: bool,
    /// Congestion window in octets.
    pub congestion: u32,
    /// Slow start threshold in octets.
    pub threshold: u32,
    /// Duplicate acknowledgements in a row.
    pub duplicates: u8,
    /// What was in flight when fast recovery began; recovery ends when it is acknowledged (RFC 6582).
    pub recover: Option<u32>,
    /// Estimates of the round trip.
    pub rtt: Rtt,
    /// The segment whose round trip is measured: what acknowledges it, and when it was sent.
    pub timed: Option<(u32, i64)>,
    /// Times that the timeout has doubled.
    pub backoff: u8,
    /// How often the same was sent again.
    pub retries: u8,
    /// When to send again, to probe or to give up.
    pub resend_at: i64,
    /// When to acknowledge.
    pub ack_at: i64,
    /// Since when the server's window is closed.
    pub closed_since: i64,
    /// Octets of data in SYN.
    pub syn_data: u16,
    /// Segments since the connection was idle.
    pub segments: Segments,
}

impl Active {
    fn new(connection: u32, sequence: u32, output: Vec<u8>) -> Self {
        Self {
            connection,
            is_used: true,
            is_queued: false,
            unacknowledged: sequence,
            highest: sequence,
            base: sequence,
            output,
            start: 0,
            has_fin: false,
            input: None,
            peer_fin: None,
            acknowledged: 0,
            full_segments: 0,
            is_pushed: false,
            acks_due: 0,
            syn_due: false,
            resend_due: false,
            probe_due: false,
            wants_room: false,
            is_unreachable: false,
            congestion: 0,
            threshold: u32::MAX,
            duplicates: 0,
            recover: None,
            rtt: Rtt::default(),
            timed: None,
            backoff: 0,
            retries: 0,
            resend_at: NEVER,
            ack_at: NEVER,
            closed_since: NEVER,
            syn_data: 0,
            segments: Segments::default(),
        }
    }

    /// Data that is not acknowledged.
    pub fn output(&self) -> &[u8] {
        &self.output[self.start..]
    }

    /// The sequence number behind the data: of FIN, if there is one.
    pub fn end(&self) -> u32 {
        self.base.wrapping_add(self.output().len() as u32)
    }

    /// Appends data.
    pub fn append(&mut self, octets: &[u8]) {
        self.output.extend_from_slice(octets);
    }

    /// Forgets data that is acknowledged; returns how many octets.
    pub fn acknowledge(&mut self, octets: u32) -> u32 {
        let octets = (octets as usize).min(self.output().len());
        self.start += octets;
        self.base = self.base.wrapping_add(octets as u32);
        // What is left is moved once for each time that the buffer halves, which is constant for each octet.
        if self.start * 2 >= self.output.len() {
            self.output.drain(..self.start);
            self.start = 0;
        }
        octets as u32
    }

    /// Octets in flight.
    pub const fn flight(&self, sent: u32) -> u32 {
        sent.wrapping_sub(self.unacknowledged)
    }

    /// Whether anything waits to be read.
    pub fn has_unread(&self) -> bool {
        self.input.as_ref().is_some_and(|input| input.has_unread())
    }

    /// Whether data has arrived ahead of a gap.
    pub fn has_gap(&self) -> bool {
        self.input.as_ref().is_some_and(|input| input.has_gap())
    }

    /// The next deadline.
    pub fn deadline(&self) -> i64 {
        self.resend_at.min(self.ack_at)
    }

    /// That at least one acknowledgement is to be sent at once.
    pub fn ack_now(&mut self) {
        self.acks_due = self.acks_due.max(1);
    }
}

/// All active parts, with places and buffers to be used again.
#[derive(Debug)]
pub struct Actives {
    places: Blocks<Active>,
    free: u32,
    used: u32,
    outputs: Vec<Vec<u8>>,
    #[allow(clippy::vec_box, reason = "they go back into connections as boxes, without allocating")]
    inputs: Vec<Box<Reassembly>>,
}

impl Default for Actives {
    fn default() -> Self {
        Self { places: Blocks::default(), free: NONE, used: 0, outputs: Vec::new(), inputs: Vec::new() }
    }
}

impl Actives {
    /// The active part of a connection whose next sequence number is `sequence`.
    pub fn insert(&mut self, connection: u32, sequence: u32) -> u32 {
        self.used += 1;
        let mut active = Active::new(connection, sequence, self.outputs.pop().unwrap_or_default());
        if self.free == NONE {
            return self.places.push(active);
        }
        let place = self.free;
        self.free = self.places[place].connection;
        active.is_queued = self.places[place].is_queued;
        self.places[place] = active;
        place
    }

    /// Frees a place, and keeps its buffers if they are small.
    pub fn remove(&mut self, place: u32) {
        let active = &mut self.places[place];
        active.is_used = false;
        active.connection = std::mem::replace(&mut self.free, place);
        let (mut output, input) = (std::mem::take(&mut active.output), active.input.take());
        output.clear();
        if output.capacity() > 0 && output.capacity() <= SPARE_OCTETS && self.outputs.len() < SPARE {
            self.outputs.push(output);
        }
        input.into_iter().for_each(|input| self.keep_input(input));
        self.used -= 1;
    }

    /// How many there are.
    pub const fn len(&self) -> u32 {
        self.used
    }

    /// The reassembly of a connection, which begins at `next` if there was none.
    pub fn input(&mut self, place: u32, next: u32) -> &mut Reassembly {
        let spare = &mut self.inputs;
        self.places[place].input.get_or_insert_with(|| {
            let mut input = spare.pop().unwrap_or_default();
            input.start(next);
            input
        })
    }

    /// Takes reassembly from a connection that has nothing in it.
    pub fn drop_empty_input(&mut self, place: u32) {
        if self.places[place].input.as_ref().is_some_and(|input| input.is_empty())
            && let Some(input) = self.places[place].input.take()
        {
            self.keep_input(input);
        }
    }

    fn keep_input(&mut self, input: Box<Reassembly>) {
        if input.capacity() <= SPARE_OCTETS && self.inputs.len() < SPARE {
            self.inputs.push(input);
        }
    }
}

impl std::ops::Index<u32> for Actives {
    type Output = Active;
    fn index(&self, place: u32) -> &Active {
        &self.places[place]
    }
}

impl std::ops::IndexMut<u32> for Actives {
    fn index_mut(&mut self, place: u32) -> &mut Active {
        &mut self.places[place]
    }
}
