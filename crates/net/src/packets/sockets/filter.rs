//! Which frames a worker takes: a classic BPF program that the kernel runs before a frame gets into the ring.

use socket2::SockFilter;

/// Offset of the type in an Ethernet header.
const TYPE: u32 = 12;
/// Octets of an Ethernet header.
const HEADER: u32 = 14;
/// Octets of an 802.1Q tag before the type.
const TAG: u32 = 4;

const ARP: u32 = 0x0806;
const IPV4: u32 = 0x0800;
const IPV6: u32 = 0x86dd;
/// A customer's and a provider's tag (802.1Q, 802.1ad).
const TAGS: [u32; 2] = [0x8100, 0x88a8];

const ICMP: u32 = 1;
const TCP: u32 = 6;
const UDP: u32 = 17;
const ICMPV6: u32 = 58;
/// Extension headers behind which a port may be: hop-by-hop options, routing, fragment, destination options.
const EXTENSIONS: [u32; 4] = [0, 43, 44, 60];
/// More fragments, or an offset (RFC 791 §3.1).
const FRAGMENT: u32 = 0x3fff;

const LOAD_HALF: u32 = libc::BPF_LD | libc::BPF_H | libc::BPF_ABS;
const LOAD_OCTET: u32 = libc::BPF_LD | libc::BPF_B | libc::BPF_ABS;
/// A half word behind the offset in X.
const LOAD_HALF_X: u32 = libc::BPF_LD | libc::BPF_H | libc::BPF_IND;
/// Four times the lower half of an octet into X: the length of an IPv4 header.
const LOAD_LENGTH: u32 = libc::BPF_LDX | libc::BPF_B | libc::BPF_MSH;
const MODULO: u32 = libc::BPF_ALU | libc::BPF_MOD | libc::BPF_K;
const IF_EQUAL: u32 = libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K;
const IF_ANY: u32 = libc::BPF_JMP | libc::BPF_JSET | libc::BPF_K;
const RETURN: u32 = libc::BPF_RET | libc::BPF_K;

/// Takes the whole frame.
const ALL: u32 = u32::MAX;
/// Takes nothing.
const NONE: u32 = 0;

/// Which frames get into a ring: a classic BPF program.
#[derive(Debug)]
pub struct Filter {
    program: Vec<SockFilter>,
}

impl Filter {
    /// All frames.
    pub fn all() -> Self {
        let mut filter = Self { program: Vec::new() };
        filter.step(RETURN, ALL);
        filter
    }

    /// The frames of one of several workers, numbered from 0: UDP and TCP of both families, with and without a VLAN tag, to
    /// the ports with `port % workers == worker`. Every worker also gets what tells no port: fragments, IPv6 packets with other
    /// extension headers, ICMP, ICMPv6 and ARP. Of `workers` 0 is taken as 1.
    pub fn of_worker(worker: u16, workers: u16) -> Self {
        let owner = Owner { worker: worker.into(), workers: workers.max(1).into() };
        let mut filter = Self { program: Vec::new() };
        filter.step(LOAD_HALF, TYPE);
        for tag in TAGS {
            // The kernel takes the outermost tag off frames that arrive; one that is there is the next.
            filter.when(IF_EQUAL, tag, |inside| {
                inside.step(LOAD_HALF, TYPE + TAG);
                inside.network(HEADER + TAG, owner);
            });
        }
        filter.network(HEADER, owner);
        filter
    }

    /// What neighbours ask and answer: ARP, and ICMPv6 without extension headers (RFC 4861 needs none). Those of a VLAN, whose
    /// outermost tag the kernel has taken off, are among them.
    pub fn neighbours() -> Self {
        let mut filter = Self { program: Vec::new() };
        filter.step(LOAD_HALF, TYPE);
        filter.take_if(ARP);
        filter.when(IF_EQUAL, IPV6, |inside| {
            inside.step(LOAD_OCTET, HEADER + 6);
            inside.take_if(ICMPV6);
            inside.step(RETURN, NONE);
        });
        filter.step(RETURN, NONE);
        filter
    }

    /// The instructions.
    pub(super) fn program(&self) -> &[SockFilter] {
        &self.program
    }

    /// Decides by the type, which is loaded, and the packet behind the offset.
    fn network(&mut self, at: u32, owner: Owner) {
        self.take_if(ARP);
        self.when(IF_EQUAL, IPV4, |inside| {
            inside.step(LOAD_HALF, at + 6);
            inside.when(IF_ANY, FRAGMENT, |fragment| fragment.step(RETURN, ALL));
            inside.step(LOAD_OCTET, at + 9);
            inside.take_if(ICMP);
            inside.when_port(|ports| {
                ports.step(LOAD_LENGTH, at);
                ports.step(LOAD_HALF_X, at + 2);
                ports.take_own(owner);
            });
        });
        self.when(IF_EQUAL, IPV6, |inside| {
            inside.step(LOAD_OCTET, at + 6);
            inside.take_if(ICMPV6);
            EXTENSIONS.into_iter().for_each(|extension| inside.take_if(extension));
            inside.when_port(|ports| {
                ports.step(LOAD_HALF, at + 40 + 2);
                ports.take_own(owner);
            });
        });
        self.step(RETURN, NONE);
    }

    /// Goes on inside where the protocol, which is loaded, has ports; takes nothing otherwise.
    fn when_port(&mut self, inside: impl Fn(&mut Self)) {
        self.when(IF_EQUAL, TCP, &inside);
        self.when(IF_EQUAL, UDP, &inside);
        self.step(RETURN, NONE);
    }

    /// Takes the frame if the destination port, which is loaded, is the worker's.
    fn take_own(&mut self, owner: Owner) {
        self.step(MODULO, owner.workers);
        self.take_if(owner.worker);
        self.step(RETURN, NONE);
    }

    fn take_if(&mut self, value: u32) {
        self.when(IF_EQUAL, value, |inside| inside.step(RETURN, ALL));
    }

    /// Runs the instructions of `inside`, which must end with a return, if the condition holds for the loaded value.
    fn when(&mut self, condition: u32, value: u32, inside: impl FnOnce(&mut Self)) {
        let mut block = Self { program: Vec::new() };
        inside(&mut block);
        // A jump leads over at most 255 instructions; the longest block has about 40.
        let over = block.program.len() as u8;
        self.program.push(SockFilter::new(condition as u16, 0, over, value));
        self.program.append(&mut block.program);
    }

    fn step(&mut self, code: u32, value: u32) {
        self.program.push(SockFilter::new(code as u16, 0, 0, value));
    }
}

/// Whose ports are taken.
#[derive(Clone, Copy)]
struct Owner {
    worker: u32,
    workers: u32,
}
