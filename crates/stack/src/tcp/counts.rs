//! What a machine has counted.

/// Counts since the machine was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Segments that arrived.
    pub segments_in: u64,
    /// Segments that were sent, with those that follow.
    pub segments_out: u64,
    /// Octets of data in order that arrived.
    pub octets_in: u64,
    /// Octets of data that were sent for the first time.
    pub octets_out: u64,
    /// Connections that were opened by us.
    pub opened: u64,
    /// Connections that the server has taken.
    pub established: u64,
    /// Connections that failed before the server took them.
    pub failed: u64,
    /// Segments sent again, SYN among them.
    pub retransmitted: u64,
    /// Retransmission timeouts.
    pub timeouts: u64,
    /// Retransmissions after three duplicate acknowledgements (RFC 5681 section 3.2).
    pub fast_retransmits: u64,
    /// Probes of a window of zero (RFC 9293 section 3.8.6.1).
    pub probes: u64,
    /// Segments ahead of the next octet expected.
    pub out_of_order: u64,
    /// Segments with nothing new, keepalive probes among them.
    pub duplicates: u64,
    /// Octets of data for which there was no room.
    pub dropped_octets: u64,
    /// Segments with data behind the peer's FIN.
    pub after_fin: u64,
    /// Resets that ended a connection.
    pub resets_in: u64,
    /// Resets that were sent.
    pub resets_out: u64,
    /// Resets that were not believed (RFC 5961 section 3).
    pub resets_ignored: u64,
    /// Challenge acknowledgements (RFC 5961).
    pub challenge_acks: u64,
    /// Challenge acknowledgements that were not sent, since there were too many (RFC 5961 section 7).
    pub challenges_withheld: u64,
    /// Segments of no connection.
    pub unknown: u64,
    /// Segments with an older timestamp than one before (RFC 7323 section 5).
    pub paws: u64,
    /// Segments without the timestamp that was agreed upon (RFC 7323 section 3.2).
    pub without_timestamp: u64,
    /// Acknowledgements of data that was not sent, or was acknowledged long before.
    pub bad_acknowledgements: u64,
    /// Segments that mean nothing in the state of their connection.
    pub meaningless: u64,
    /// Answers to segments that were not sent, since too many waited.
    pub replies_dropped: u64,
    /// Data that arrived after the caller had closed the connection, which resets it (RFC 9293 section 3.6.1).
    pub data_after_close: u64,
    /// ICMP errors about established connections, which are remembered only (RFC 5927 section 5).
    pub soft_errors: u64,
    /// ICMP errors about nothing that is in flight (RFC 5927 section 4).
    pub errors_ignored: u64,
    /// Times that an ICMP error lowered the MTU to a server.
    pub mtu_lowered: u64,
    /// SYNs with data and a cookie (RFC 7413).
    pub fast_opens: u64,
    /// Those of which the server took data.
    pub fast_opens_accepted: u64,
    /// Connections opened over one in TIME_WAIT (RFC 6191).
    pub time_wait_reused: u64,
}
