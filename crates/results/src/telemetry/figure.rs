//! The figures of telemetry: how each is called, whether it is a total or a level, and what it is of.

use ldplayer_net::inet_diag::TcpState;

/// How a figure behaves over time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// It only grows; a difference says what happened in between.
    Total,
    /// It is a state at the moment of the sample.
    Level,
    /// It is how long something takes: of several hosts the longest counts.
    Duration,
}

/// What a figure is of: two agents that share it have it in common, and it counts once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// The queries of one replay.
    Replay,
    /// The processes.
    Program,
    /// The network namespace.
    Network,
    /// The machine.
    Machine,
}

/// Makes the figures from one table: variant, name in the run directory, kind, scope, what it is.
macro_rules! figures {
    ($($variant:ident $name:literal $kind:ident $scope:ident $what:literal,)*) => {
        /// A figure of telemetry.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Figure {
            $(#[doc = $what] $variant,)*
        }

        impl Figure {
            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$variant,)*];

            /// Its name in the run directory, with its unit at the end.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $name,)* }
            }

            /// How it behaves over time.
            pub const fn kind(self) -> Kind {
                match self { $(Self::$variant => Kind::$kind,)* }
            }

            /// What it is of.
            pub const fn scope(self) -> Scope {
                match self { $(Self::$variant => Scope::$scope,)* }
            }
        }
    };
}

figures! {
    CpuSeconds "cpu_s" Total Program "Processor time of the processes in seconds.",
    CpuUserSeconds "cpu_user_s" Total Program "That in user mode.",
    CpuSystemSeconds "cpu_system_s" Total Program "That in the kernel.",
    CpuWaitSeconds "cpu_wait_s" Total Program "Seconds for which threads of the side could have run and had no core; of the client, those of its workers.",
    CpuRuns "cpu_runs" Total Program "How often these threads got a core.",
    CpuWakeSeconds "cpu_wake_s" Duration Program "Median of how long they waited for one each time, in seconds, of the 10 ms that were looked at closely.",
    CpuPressureSeconds "cpu_pressure_s" Total Machine "Seconds in which a thread of the machine waited for a core.",
    CpuBusySeconds "cpu_busy_s" Total Machine "Processor time of all processes of the machine in seconds.",
    RssBytes "rss_bytes" Level Program "Resident memory of the processes; what they share counts in each.",
    PssBytes "pss_bytes" Level Program "Their proportional set size, where what n processes share counts as an n-th in each.",
    Processes "processes" Level Program "Processes.",
    Threads "threads" Level Program "Their threads.",
    VoluntarySwitches "context_switches_voluntary" Total Program "Context switches of threads that waited for something.",
    InvoluntarySwitches "context_switches_involuntary" Total Program "Context switches of threads whose core was given to another.",
    MinorFaults "minor_faults" Total Program "Page faults without input.",
    MajorFaults "major_faults" Total Program "Page faults that waited for input.",
    StorageReadBytes "storage_read_bytes" Total Program "Bytes fetched from storage.",
    StorageWriteBytes "storage_write_bytes" Total Program "Bytes sent to storage.",
    InBytes "in_bytes" Total Network "Bytes of IP packets that came into the namespace, loopback included.",
    OutBytes "out_bytes" Total Network "Bytes of IP packets that left it, loopback included.",
    UdpIn "udp_in" Total Network "UDP datagrams delivered in the namespace.",
    UdpOut "udp_out" Total Network "UDP datagrams sent from it.",
    UdpReceiveBufferErrors "udp_receive_buffer_errors" Total Network "UDP datagrams dropped in it since a receive buffer was full.",
    UdpSendBufferErrors "udp_send_buffer_errors" Total Network "UDP datagrams not sent since a send buffer was full.",
    UdpNoPorts "udp_no_ports" Total Network "UDP datagrams to a port that nobody listened on.",
    UdpInErrors "udp_in_errors" Total Network "UDP datagrams not delivered for any reason.",
    UdpInUse "udp_in_use" Level Network "UDP sockets of the namespace.",
    UdpMemoryBytes "udp_memory_bytes" Level Machine "Buffers of all UDP sockets of the machine.",
    UdpSocketDrops "udp_socket_drops" Total Network "Datagrams dropped by UDP sockets on the ports that are asked.",
    UdpSocketWaitingBytes "udp_socket_waiting_bytes" Level Network "Bytes that wait in them to be received.",
    TcpInUse "tcp_in_use" Level Network "TCP sockets of the namespace.",
    TcpTimeWait "tcp_time_wait" Level Network "TCP ends of the namespace in TIME_WAIT.",
    TcpOrphans "tcp_orphans" Level Machine "TCP sockets of the machine that no process holds any more.",
    TcpMemoryBytes "tcp_memory_bytes" Level Machine "Buffers of all TCP sockets of the machine.",
    TcpSlabBytes "tcp_slab_bytes" Level Machine "Kernel slabs of TCP sockets of the machine, besides their buffers.",
    TcpOpened "tcp_opened" Total Network "TCP connections opened from the namespace.",
    TcpAccepted "tcp_accepted" Total Network "TCP connections that came up in it from elsewhere.",
    TcpRetransmitted "tcp_retransmitted" Total Network "TCP segments sent again.",
    TcpResets "tcp_resets" Total Network "TCP segments sent with RST.",
    AcceptQueueOverflows "accept_queue_overflows" Total Network "Connections lost since an accept queue was full.",
    ListenDrops "listen_drops" Total Network "Connections lost at a listening socket for any reason.",
    AcceptQueue "accept_queue" Level Network "Connections that wait to be accepted, in the longest queue on the ports that are asked.",
    SlabBytes "slab_bytes" Level Machine "Kernel slabs of the machine.",
    SlabUnreclaimableBytes "slab_unreclaimable_bytes" Level Machine "Those that cannot be given back under pressure.",
    SocketsEstablished "sockets_established" Level Network "TCP sockets of the side that are ESTABLISHED.",
    SocketsSynSent "sockets_syn_sent" Level Network "SYN_SENT.",
    SocketsSynReceived "sockets_syn_received" Level Network "SYN_RECEIVED.",
    SocketsFinWait1 "sockets_fin_wait_1" Level Network "FIN_WAIT_1.",
    SocketsFinWait2 "sockets_fin_wait_2" Level Network "FIN_WAIT_2.",
    SocketsTimeWait "sockets_time_wait" Level Network "TIME_WAIT.",
    SocketsClose "sockets_close" Level Network "Neither open nor listening.",
    SocketsCloseWait "sockets_close_wait" Level Network "CLOSE_WAIT.",
    SocketsLastAck "sockets_last_ack" Level Network "LAST_ACK.",
    SocketsListen "sockets_listen" Level Network "LISTEN.",
    SocketsClosing "sockets_closing" Level Network "CLOSING.",
    ConnectionsOpen "connections_open" Level Replay "Connections of this replay that are open.",
    ConnectionsOpened "connections_opened" Total Replay "Connections that came up.",
    ConnectionsFailed "connections_failed" Total Replay "Connections that did not.",
    ConnectionsResumed "connections_resumed" Total Replay "Those with a resumed session.",
    ConnectionsClosedByClient "connections_closed_by_client" Total Replay "Connections that this replay closed.",
    ConnectionsClosedByServer "connections_closed_by_server" Total Replay "Connections that the server closed.",
    QueriesResent "queries_resent" Total Replay "Queries sent again on a new connection.",
}

impl Figure {
    /// The figure of a name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|figure| figure.as_str() == name)
    }

    /// The count of sockets in a state.
    pub const fn of_state(state: TcpState) -> Self {
        match state {
            TcpState::Established => Self::SocketsEstablished,
            TcpState::SynSent => Self::SocketsSynSent,
            TcpState::SynReceived => Self::SocketsSynReceived,
            TcpState::FinWait1 => Self::SocketsFinWait1,
            TcpState::FinWait2 => Self::SocketsFinWait2,
            TcpState::TimeWait => Self::SocketsTimeWait,
            TcpState::Close => Self::SocketsClose,
            TcpState::CloseWait => Self::SocketsCloseWait,
            TcpState::LastAck => Self::SocketsLastAck,
            TcpState::Listen => Self::SocketsListen,
            TcpState::Closing => Self::SocketsClosing,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_distinct_and_in_the_documentation() {
        let page = include_str!("../../../../docs/run-directory.md");
        let mut names: Vec<&str> = Figure::ALL.iter().map(|figure| figure.as_str()).collect();
        let missing: Vec<&&str> = names.iter().filter(|name| !page.contains(&format!("`{name}`"))).collect();
        assert!(missing.is_empty(), "docs/run-directory.md lacks {missing:?}");
        assert!(Figure::ALL.iter().all(|&figure| Figure::named(figure.as_str()) == Some(figure)));
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), Figure::ALL.len());
    }
}
