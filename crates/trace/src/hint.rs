//! What to do about an input in which nothing was found, by the reasons for which its packets were left out.

use ldplayer_core::damage::{Counts, Damage, Flaw};

/// The largest number of reasons in a message.
const SHOWN: usize = 8;

const PORT: &str = "give --capture-port if DNS is on another port";
const ENCAPSULATION: &str =
    "what is around the IP packets is not known here: capture behind it (docs/trace-format.md lists what is taken off)";
const HIDDEN: &str = "the packets are encrypted or compressed: capture where they are not";
const ROLE: &str = "give --role for the messages of another role";
const PARTS: &str =
    "only parts of datagrams were captured: a filter such as `port 53` leaves out all fragments but the first";

/// What to do about a reason; those that end in `_` begin the names of kinds that are known by their number.
const HINTS: [(&str, &str); 24] = [
    ("not_dns_port", PORT),
    ("link_type_", "this link type is not read: capture on an interface of Ethernet or IP, or on `any`"),
    ("ethertype_", ENCAPSULATION),
    ("ip_protocol_", ENCAPSULATION),
    ("llc_", ENCAPSULATION),
    ("ppp_0x", ENCAPSULATION),
    ("mpls_payload", ENCAPSULATION),
    ("vn_tag", ENCAPSULATION),
    ("gre_source_route", ENCAPSULATION),
    ("erspan_version", ENCAPSULATION),
    ("l2tp_v3", ENCAPSULATION),
    ("ppp_multilink", ENCAPSULATION),
    ("tzsp_wireless", ENCAPSULATION),
    ("nested_too_deep", "there are more headers around the IP packets than are taken off: capture behind some of them"),
    ("esp", HIDDEN),
    ("macsec", HIDDEN),
    ("ppp_encrypted", HIDDEN),
    ("ppp_compressed", HIDDEN),
    ("fragment", PARTS),
    ("fragments_lack", PARTS),
    (
        "truncated_packet",
        "the packets were cut when they were captured: capture again without a snap length (tcpdump -s 0)",
    ),
    ("other_role", ROLE),
    ("tcp_gap", "parts of the connections were not captured: capture again with a larger buffer (tcpdump -B)"),
    ("tcp_mid_stream", "the connections began before the capture: begin it earlier"),
];

/// The reasons why packets (or rows) gave nothing, the most frequent first, and what to do about the first that something can be done
/// about: ` (esp 3, arp 1); the packets are …`, to follow what was read.
pub fn why_nothing(skipped: &Counts, damaged: &[Damage]) -> String {
    let skipped = skipped.iter().map(|(reason, count)| (reason.as_ref(), *count));
    let damaged = damaged.iter().map(|damage| (Flaw::as_str(damage.reason), damage.count));
    let mut reasons: Vec<(&str, u64)> = skipped.chain(damaged).collect();
    reasons.sort_by_key(|&(_, count)| std::cmp::Reverse(count));
    let hint = reasons.iter().find_map(|(reason, _)| hint(reason)).map_or(String::new(), |hint| format!("; {hint}"));
    let mut texts: Vec<String> =
        reasons.iter().take(SHOWN).map(|(reason, count)| format!("{reason} {count}")).collect();
    if reasons.len() > SHOWN {
        texts.push(format!("{} other reasons", reasons.len() - SHOWN));
    }
    let listed = if texts.is_empty() { String::new() } else { format!(" ({})", texts.join(", ")) };
    format!("{listed}{hint}")
}

/// Reasons that hide packets from the reader, and what to do about each.
pub(crate) fn hidden(skipped: &Counts) -> impl Iterator<Item = (&str, &'static str)> {
    let hinted = skipped.keys().filter_map(|reason| Some((reason.as_ref(), hint(reason)?)));
    hinted.filter(|(_, hint)| ![PORT, PARTS, ROLE].contains(hint)).take(SHOWN)
}

/// What to do about packets that were left out by this reason; `None` where nothing would help.
fn hint(reason: &str) -> Option<&'static str> {
    let fits = |known: &str| reason == known || known.ends_with(['_', 'x']) && reason.starts_with(known);
    HINTS.iter().find(|(known, _)| fits(known)).map(|&(_, hint)| hint)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Place, Tally};

    fn why(skipped: &[(&'static str, u64)]) -> String {
        why_nothing(&skipped.iter().map(|&(reason, count)| (reason.into(), count)).collect(), &[])
    }

    #[test]
    fn the_port_is_named_only_where_it_is_the_reason() {
        assert_eq!(why(&[("not_dns_port", 3)]), format!(" (not_dns_port 3); {PORT}"));
        assert_eq!(why(&[]), "");
        assert_eq!(why(&[("arp", 2), ("icmp", 1)]), " (arp 2, icmp 1)");
        for reason in ["esp", "ethertype_0x1234", "link_type_147", "nested_too_deep", "fragment", "ppp_0x0031"] {
            let said = why(&[(reason, 3), ("arp", 9)]);
            assert!(said.starts_with(&format!(" (arp 9, {reason} 3); ")) && !said.contains("port 53`;"), "{said}");
            assert!(!said.contains("--capture-port"), "{said}");
        }
        // The most frequent reason counts.
        assert!(why(&[("not_dns_port", 1), ("esp", 5)]).ends_with(HIDDEN));
    }

    #[test]
    fn damage_counts_and_the_list_is_short() {
        let mut tally = Tally::default();
        tally.damage(Flaw::TruncatedPacket, 0, Place::default);
        assert!(why_nothing(&tally.skipped, &tally.damaged).ends_with("(tcpdump -s 0)"));
        let many = (0..20).map(|number| (format!("ethertype_{number}").into(), 1)).collect();
        assert!(why_nothing(&many, &[]).contains(", 12 other reasons); "), "{}", why_nothing(&many, &[]));
    }
}
