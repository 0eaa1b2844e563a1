//! Neighbours on the link: answers for addresses that are ours, and questions for the MAC addresses of next hops (ARP and
//! RFC 4861).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ldplayer_core::RunTime;

use crate::frame::{Arp, Discovery, Link, Mac};

/// How a neighbour is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Asking {
    /// Time between questions, in nanoseconds: 1 s (RETRANS_TIMER, RFC 4861 section 10).
    pub interval_ns: i64,
    /// Questions before a neighbour counts as not there: 3 (MAX_MULTICAST_SOLICIT, RFC 4861 section 10).
    pub questions: u8,
    /// How long it counts as not there, before it is asked for again.
    pub failed_ns: i64,
    /// How long its MAC address is believed, before it is asked for again; meanwhile the old one is used.
    pub known_ns: i64,
}

impl Default for Asking {
    fn default() -> Self {
        const S: i64 = 1_000_000_000;
        Self { interval_ns: S, questions: 3, failed_ns: 20 * S, known_ns: 60 * S }
    }
}

/// What is known of a neighbour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// It was not asked for.
    Unknown,
    /// It is being asked for, for the first time or since it failed.
    Asking,
    /// Its MAC address.
    Known(Mac),
    /// It does not answer.
    Failed,
}

/// A neighbour, such as the next hop to servers: asked for when it is wanted, again when its answer is old.
#[derive(Clone, Copy, Debug)]
pub struct Neighbour {
    address: IpAddr,
    /// Who asks: an address of ours.
    source: IpAddr,
    mac: Mac,
    asking: Asking,
    standing: Standing,
    /// Questions since the last answer.
    asked: u8,
    /// When the next question goes out, or the standing ends.
    next: i64,
}

impl Neighbour {
    /// A neighbour of `source` and `mac`, which are ours. `None` if the addresses are of two families.
    pub fn new(address: IpAddr, source: IpAddr, mac: Mac, asking: Asking) -> Option<Self> {
        let neighbour = Self { address, source, mac, asking, standing: Standing::Unknown, asked: 0, next: i64::MAX };
        (address.is_ipv4() == source.is_ipv4()).then_some(neighbour)
    }

    /// What is known of it.
    pub const fn standing(&self) -> Standing {
        self.standing
    }

    /// A packet wants to go to it at `now`: it is asked for, if it is not known.
    pub fn want(&mut self, now: RunTime) -> Standing {
        if self.standing == Standing::Unknown {
            (self.standing, self.asked, self.next) = (Standing::Asking, 0, now.0);
        }
        self.standing
    }

    /// When [`Self::poll_transmit`] has something to do.
    pub fn poll_timeout(&self) -> Option<RunTime> {
        (self.next != i64::MAX).then_some(RunTime(self.next))
    }

    /// Writes the next question into `frame`, if one is due at `now`; returns its length. A neighbour that has been asked for
    /// often enough has failed.
    pub fn poll_transmit(&mut self, now: RunTime, frame: &mut [u8], vlan: Option<u16>) -> Option<usize> {
        if now.0 < self.next {
            return None;
        }
        if self.standing == Standing::Failed {
            // It is asked for again when something wants to go to it.
            (self.standing, self.next) = (Standing::Unknown, i64::MAX);
            return None;
        }
        if self.asked >= self.asking.questions {
            (self.standing, self.asked) = (Standing::Failed, 0);
            self.next = now.0.saturating_add(self.asking.failed_ns);
            return None;
        }
        self.asked += 1;
        self.next = now.0.saturating_add(self.asking.interval_ns);
        self.write_question(frame, &Link::new(self.mac, [0; 6], vlan))
    }

    fn write_question(&self, frame: &mut [u8], link: &Link) -> Option<usize> {
        match (self.source, self.address) {
            (IpAddr::V4(source), IpAddr::V4(address)) => Arp::request(self.mac, source, address).write(frame, link),
            (IpAddr::V6(source), IpAddr::V6(address)) => {
                Discovery::solicitation(self.mac, source, address).write(frame, link, [0; 6])
            }
            _ => None,
        }
    }

    /// Takes a message of ARP: a reply, or a request, which says who asks as well.
    pub fn handle_arp(&mut self, now: RunTime, arp: &Arp) {
        self.learn(now, IpAddr::V4(arp.sender_ip), arp.sender, arp.is_reply);
    }

    /// Takes an advertisement, or a solicitation, which says who asks as well.
    pub fn handle_discovery(&mut self, now: RunTime, message: &Discovery) {
        let who = if message.is_advertisement { message.target } else { message.source };
        if let Some(mac) = message.mac {
            self.learn(now, IpAddr::V6(who), mac, message.is_advertisement);
        }
    }

    fn learn(&mut self, now: RunTime, who: IpAddr, mac: Mac, is_answer: bool) {
        // Nobody has a group's address, or none.
        if who != self.address || mac[0] & 1 != 0 || mac == [0; 6] {
            return;
        }
        let was_wanted = self.standing != Standing::Unknown;
        if is_answer || was_wanted {
            (self.standing, self.asked) = (Standing::Known(mac), 0);
            self.next = now.0.saturating_add(self.asking.known_ns);
        }
    }
}

/// Writes the reply to an ARP request for an address that is ours, from `mac`; returns its length. `None` if it is no request,
/// or for somebody else.
pub fn answer_arp(
    arp: &Arp,
    mac: Mac,
    vlan: Option<u16>,
    is_ours: impl FnOnce(Ipv4Addr) -> bool,
    frame: &mut [u8],
) -> Option<usize> {
    // One who asks for the own address only announces itself (RFC 5227 section 1.1).
    let is_asked = !arp.is_reply && arp.sender_ip != arp.target_ip && is_ours(arp.target_ip);
    if !is_asked {
        return None;
    }
    arp.reply(mac).write(frame, &Link::new(mac, arp.sender, vlan))
}

/// Writes the advertisement in answer to a solicitation for an address that is ours, from `mac` to `asker`, the MAC address
/// that the solicitation came from; returns its length. `None` if it is no solicitation, or for somebody else.
pub fn answer_discovery(
    message: &Discovery,
    asker: Mac,
    mac: Mac,
    vlan: Option<u16>,
    is_ours: impl FnOnce(Ipv6Addr) -> bool,
    frame: &mut [u8],
) -> Option<usize> {
    if message.is_advertisement || !is_ours(message.target) {
        return None;
    }
    message.advertisement(mac).write(frame, &Link::new(mac, asker, vlan), message.mac.unwrap_or(asker))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::{Check, Content, Ethernet, Transport};

    const OURS: Mac = [2, 0, 0, 0, 0, 1];
    const THEIRS: Mac = [2, 0, 0, 0, 0, 2];
    const S: i64 = 1_000_000_000;

    fn addresses(v6: bool) -> [IpAddr; 2] {
        let texts = if v6 { ["2001:db8::1", "2001:db8::2"] } else { ["192.0.2.1", "192.0.2.2"] };
        texts.map(|text| text.parse().unwrap())
    }

    /// Answers a question, as one who has `own` and the MAC address `mac`.
    fn answered(question: &[u8], own: IpAddr, mac: Mac) -> Option<Vec<u8>> {
        let ethernet = Ethernet::read(question).unwrap();
        let mut frame = vec![0; 100];
        let length = match Content::read(ethernet.ethertype, ethernet.payload, Check::Verify).unwrap() {
            Content::Arp(arp) => answer_arp(&arp, mac, ethernet.vlan, |target| own == target, &mut frame),
            Content::Transport(_, _, Transport::Discovery(message)) => {
                answer_discovery(&message, ethernet.source, mac, ethernet.vlan, |target| own == target, &mut frame)
            }
            other => panic!("{other:?}"),
        }?;
        frame.truncate(length);
        Some(frame)
    }

    fn handle(neighbour: &mut Neighbour, now: i64, frame: &[u8]) {
        let ethernet = Ethernet::read(frame).unwrap();
        match Content::read(ethernet.ethertype, ethernet.payload, Check::Verify).unwrap() {
            Content::Arp(arp) => neighbour.handle_arp(RunTime(now), &arp),
            Content::Transport(_, _, Transport::Discovery(it)) => neighbour.handle_discovery(RunTime(now), &it),
            other => panic!("{other:?}"),
        }
    }

    fn question(neighbour: &mut Neighbour, now: i64) -> Option<Vec<u8>> {
        let mut frame = vec![0; 100];
        let length = neighbour.poll_transmit(RunTime(now), &mut frame, Some(7))?;
        frame.truncate(length);
        Some(frame)
    }

    #[test]
    fn a_neighbour_is_asked_for_when_it_is_wanted_and_again_when_the_answer_is_old() {
        for v6 in [false, true] {
            let [ours, theirs] = addresses(v6);
            let mut neighbour = Neighbour::new(theirs, ours, OURS, Asking::default()).unwrap();
            assert_eq!((neighbour.standing(), neighbour.poll_timeout()), (Standing::Unknown, None));
            assert_eq!(neighbour.want(RunTime(5)), Standing::Asking);
            assert_eq!(neighbour.poll_timeout(), Some(RunTime(5)));
            let asked = question(&mut neighbour, 5).unwrap();
            assert_eq!(question(&mut neighbour, 6), None);
            assert_eq!(answered(&asked, ours, THEIRS), None, "for somebody else");
            let answer = answered(&asked, theirs, THEIRS).unwrap();
            assert_eq!((&answer[..6], &answer[6..12]), (&OURS[..], &THEIRS[..]));
            handle(&mut neighbour, 10, &answer);
            assert_eq!(neighbour.want(RunTime(11)), Standing::Known(THEIRS));
            assert_eq!(neighbour.poll_timeout(), Some(RunTime(10 + 60 * S)));
            assert!(question(&mut neighbour, 10 + 60 * S).is_some());
            assert_eq!(neighbour.standing(), Standing::Known(THEIRS), "while it is asked again");
            handle(&mut neighbour, 61 * S, &answer);
            assert_eq!(neighbour.poll_timeout(), Some(RunTime(121 * S)));
        }
    }

    #[test]
    fn one_that_does_not_answer_has_failed_after_three_questions_and_is_asked_for_later() {
        for v6 in [false, true] {
            let [ours, theirs] = addresses(v6);
            let mut neighbour = Neighbour::new(theirs, ours, OURS, Asking::default()).unwrap();
            neighbour.want(RunTime(0));
            let mut questions = 0;
            while neighbour.standing() != Standing::Failed {
                let now = neighbour.poll_timeout().unwrap();
                questions += usize::from(question(&mut neighbour, now.0).is_some());
            }
            assert_eq!((questions, neighbour.poll_timeout()), (3, Some(RunTime(23 * S))));
            assert_eq!(neighbour.want(RunTime(22 * S)), Standing::Failed);
            assert_eq!(question(&mut neighbour, 23 * S), None);
            assert_eq!(neighbour.want(RunTime(24 * S)), Standing::Asking);
        }
    }

    #[test]
    fn answers_of_others_and_impossible_addresses_are_not_believed() {
        let [ours, theirs] = addresses(false);
        let mut neighbour = Neighbour::new(theirs, ours, OURS, Asking::default()).unwrap();
        neighbour.want(RunTime(0));
        let asked = question(&mut neighbour, 0).unwrap();
        for mac in [[0; 6], [0xff; 6], [1, 0, 0x5e, 0, 0, 1]] {
            handle(&mut neighbour, 0, &answered(&asked, theirs, mac).unwrap());
        }
        let IpAddr::V4(target) = theirs else { unreachable!() };
        let other = Arp::request(OURS, Ipv4Addr::new(192, 0, 2, 1), Ipv4Addr::new(192, 0, 2, 9)).reply(THEIRS);
        neighbour.handle_arp(RunTime(0), &other);
        assert_eq!(neighbour.standing(), Standing::Asking);
        // One who asks us says where it is.
        neighbour.handle_arp(RunTime(0), &Arp::request(THEIRS, target, Ipv4Addr::new(192, 0, 2, 1)));
        assert_eq!(neighbour.standing(), Standing::Known(THEIRS));
        assert!(Neighbour::new(theirs, addresses(true)[0], OURS, Asking::default()).is_none());
    }

    #[test]
    fn rfc_5227_section_1_1_announcements_and_replies_are_not_answered() {
        let IpAddr::V4(ours) = addresses(false)[0] else { unreachable!() };
        let mut frame = [0; 60];
        let announced = Arp::request(THEIRS, ours, ours);
        assert_eq!(answer_arp(&announced, OURS, None, |_| true, &mut frame), None);
        let request = Arp::request(THEIRS, Ipv4Addr::new(192, 0, 2, 2), ours);
        assert_eq!(answer_arp(&request.reply(OURS), OURS, None, |_| true, &mut frame), None);
        assert_eq!(answer_arp(&request, OURS, None, |target| target == ours, &mut frame), Some(42));
        assert_eq!(answer_arp(&request, OURS, None, |_| true, &mut frame[..41]), None);
    }
}
