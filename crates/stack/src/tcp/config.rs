//! How a machine is set up.

/// The settings of a machine. Times are nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// Octets of the longest IP packet on our link, 576 to 65,535; with IPv6, 1,280 at least.
    pub mtu: u16,
    /// Decides ports, initial sequence numbers and offsets of timestamps.
    pub seed: u64,
    /// Which of the `workers` this is: it uses the local ports p with p % workers == worker.
    pub worker: u16,
    /// Workers that share all client addresses, at least 1.
    pub workers: u16,
    /// Maximum number of connections, those in TIME_WAIT included.
    pub max_connections: u32,
    /// How long a tuple is not used again: Linux has 60 s.
    pub time_wait_ns: i64,
    /// How long a connection that we closed waits for the FIN of the server: Linux has 60 s.
    pub fin_wait_ns: i64,
    /// How often SYN is sent again: Linux has 6, which is 127 s in all.
    pub syn_retries: u8,
    /// How often the same data is sent again before the connection fails: Linux has 15.
    pub retransmits: u8,
    /// How long the server may keep its window closed.
    pub zero_window_ns: i64,
    /// Retransmission timeout before a round trip was measured: 1 s (RFC 6298 section 2.1).
    pub initial_rto_ns: i64,
    /// Least retransmission timeout: 200 ms, as Linux has it, where RFC 6298 has 1 s.
    pub min_rto_ns: i64,
    /// Largest retransmission timeout.
    pub max_rto_ns: i64,
    /// How long an acknowledgement waits for data to ride on; 0 for those that are sent at once. 40 ms as in Linux: a server sends again 200 ms after its
    /// estimate of the round trip at the earliest, so that it never does for this. At once are acknowledged: every second full
    /// segment, a full one that more follows, the last of a gap, and FIN.
    pub delayed_ack_ns: i64,
    /// Shorter segments are acknowledged at once: a server that writes the length of a message apart from it, with Nagle's
    /// algorithm on, holds the rest back until then. 14 octets: no DNS response with its length is shorter.
    pub quick_ack_below: u16,
    /// Our receive window, which is constant, and the octets that a connection holds in reassembly; less than 1 GiB.
    pub window: u32,
    /// Octets of data that a connection takes ahead of the server.
    pub send_buffer: u32,
    /// Cookies of Fast Open that are kept: one for each client and server (RFC 7413 section 4.1.3). Some 60 octets each.
    pub max_cookies: u32,
    /// Whether to offer timestamps (RFC 7323).
    pub timestamps: bool,
    /// Whether to offer selective acknowledgements (RFC 2018).
    pub sack: bool,
    /// Whether the machine reports [`super::Event::Rests`].
    pub tells_rest: bool,
}

/// The largest window that can be told (RFC 7323 section 2.2).
const MAX_WINDOW: u32 = (1 << 30) - 1;
/// What every IPv4 host takes (RFC 791 section 3.1).
const LEAST_MTU: u16 = 576;
/// Nanoseconds in a millisecond.
const MS: i64 = 1_000_000;
/// Nanoseconds in a second.
const S: i64 = 1_000 * MS;

impl Default for Config {
    fn default() -> Self {
        Self {
            mtu: 1_500,
            seed: 0,
            worker: 0,
            workers: 1,
            max_connections: 1 << 24,
            time_wait_ns: 60 * S,
            fin_wait_ns: 60 * S,
            syn_retries: 6,
            retransmits: 15,
            zero_window_ns: 300 * S,
            initial_rto_ns: S,
            min_rto_ns: 200 * MS,
            max_rto_ns: 120 * S,
            delayed_ack_ns: 40 * MS,
            quick_ack_below: 14,
            window: 65_535,
            send_buffer: 64 << 10,
            max_cookies: 1 << 20,
            timestamps: true,
            sack: true,
            tells_rest: false,
        }
    }
}

impl Config {
    /// The settings with those that are out of range at the end of it.
    pub(crate) fn possible(self) -> Self {
        let workers = self.workers.max(1);
        Self {
            workers,
            worker: self.worker % workers,
            mtu: self.mtu.max(LEAST_MTU),
            window: self.window.max(1),
            ..self
        }
    }

    /// The shift of our windows (RFC 7323 section 2.2).
    pub(crate) fn window_scale(&self) -> u8 {
        let bits = u32::BITS - self.window.min(MAX_WINDOW).leading_zeros();
        bits.saturating_sub(16) as u8
    }

    /// The window in the header of a segment other than SYN.
    pub(crate) fn scaled_window(&self) -> u16 {
        (self.window.min(MAX_WINDOW) >> self.window_scale()) as u16
    }
}

/// How to open a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OpenOptions<'a> {
    /// Whether to use Nagle's algorithm (RFC 9293 section 3.7.4).
    pub nagle: bool,
    /// Whether to use Fast Open (RFC 7413): a cookie is asked for, and with one `data` goes out with SYN.
    pub fast_open: bool,
    /// What is written first.
    pub data: &'a [u8],
}

/// Why a connection cannot be opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OpenError {
    /// There are as many connections as configured.
    #[error("too many connections")]
    TooManyConnections,
    /// There are more than a million servers.
    #[error("too many servers")]
    TooManyServers,
    /// The client has used all its ports to this server.
    #[error("no free port")]
    NoPort,
    /// Client and server are of different families.
    #[error("client and server have addresses of different families")]
    Family,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_out_of_range_are_at_the_end_of_it() {
        let config = Config { workers: 0, worker: 7, mtu: 0, window: 0, ..Config::default() }.possible();
        assert_eq!((config.workers, config.worker, config.mtu, config.window), (1, 0, 576, 1));
    }

    #[test]
    fn windows_are_scaled_to_fit_the_header() {
        for (window, scale, scaled) in
            [(65_535, 0, 65_535), (65_536, 1, 32_768), (1 << 20, 5, 32_768), (u32::MAX, 14, 65_535)]
        {
            let config = Config { window, ..Config::default() };
            assert_eq!((config.window_scale(), config.scaled_window()), (scale, scaled));
        }
    }
}
