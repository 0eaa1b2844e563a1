//! Client classes: shares given on the command line, class files, and their meaning.

use std::collections::BTreeMap;
use std::path::Path;

use ldplayer_core::{Policy, Transport, UnknownTransport};
use ldplayer_workload::mutate::Share;
use ldplayer_workload::{ClassDraws, ClientClass, check_shares, read_classes};

use crate::error::RunError;

/// Parses client shares in percent, such as `udp=60,tcp=5,dot=35`.
pub fn parse_shares(word: &str) -> Result<Vec<ClientClass>, String> {
    let classes = word.split(',').map(|part| {
        let (transport, percent) =
            part.split_once('=').ok_or_else(|| format!("`{part}` has no share: write udp=60, for example"))?;
        let share = format!("{}%", percent.trim_end_matches('%'));
        let share: Share = share.parse().map_err(|error| format!("{part}: {error}"))?;
        Ok(ClientClass::over(transport.parse().map_err(|error: UnknownTransport| error.to_string())?, share))
    });
    let classes = classes.collect::<Result<Vec<_>, String>>()?;
    check_shares(&classes).map(|()| classes)
}

/// Reads a file of classes.
pub fn read_file(file: &Path) -> Result<Vec<ClientClass>, RunError> {
    let failed = |why: &dyn std::fmt::Display| {
        let what = why.to_string();
        RunError::File { option: "--transport-shares", file: file.to_owned(), what }
    };
    let text = std::fs::read_to_string(file).map_err(|error| failed(&error))?;
    read_classes(&text).map_err(|error| failed(&error))
}

/// The first encrypted transport of a class.
pub fn encrypted(classes: &[ClientClass]) -> Option<Transport> {
    classes.iter().filter_map(|class| class.transport).find(|transport| transport.is_encrypted())
}

/// The policy of each class: the common one with the class' overrides.
pub fn policies(classes: &[ClientClass], all: Policy) -> Vec<Policy> {
    classes.iter().map(|class| class.policy.over(all).bounded()).collect()
}

/// The number of clients per class.
pub fn counts(classes: &[ClientClass], draws: Option<&ClassDraws>) -> BTreeMap<String, u64> {
    let names = classes.iter().map(|class| class.name.clone());
    draws.map(|draws| names.zip(draws.clients()).collect()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use ldplayer_core::policy::{MAX_PIPELINE, TlsVersion};

    #[test]
    fn shares_are_percent_and_sum_up() {
        let classes = parse_shares("udp=60,tcp=5,dot=35").unwrap();
        let parts: Vec<_> = classes.iter().map(|class| (class.name.as_str(), class.share.part())).collect();
        assert_eq!(parts, [("udp", 0.6), ("tcp", 0.05), ("dot", 0.35)]);
        assert!(parse_shares("udp=62.5%,tcp=37.5%").is_ok());
        for (bad, word) in [
            ("udp=60,tcp=5", "the shares add up to 65 %"),
            ("udp=60,tcp=50", "the shares add up to 110 %"),
            ("udp=50,udp=50", "the class name `udp` is used twice"),
            ("udp=50,tcp", "`tcp` has no share"),
            ("udp=all", "udp=all"),
            ("sctp=100", "sctp"),
        ] {
            let error = parse_shares(bad).unwrap_err();
            assert!(error.contains(word), "{error}");
        }
    }

    #[test]
    fn a_class_says_what_is_otherwise() {
        let text = "[[class]]\nname = 'a'\nshare = '40 %'\nidle-timeout = '0s'\n[[class]]\nname = 'b'\nshare = 0.6\npipeline = 3";
        let classes = read_classes(text).unwrap();
        let all = Policy { queries_per_connection: 9, ..Policy::default() };
        let [a, b] = policies(&classes, all)[..] else { panic!("two classes") };
        assert_eq!((a.idle_timeout, a.pipeline, a.queries_per_connection), (0, MAX_PIPELINE, 9));
        assert_eq!((b.idle_timeout, b.pipeline, b.queries_per_connection), (20_000_000_000, 3, 9));
        let text = "[[class]]\nname = 'a'\nshare = '100 %'\nconnect-timeout = 1\nhandshake-timeout = 2\nnagle = true\n\
            fast-open = true\ntls-version = '1.2'\npadding = 0\ntc-fallback = true";
        let expected = Policy {
            connect_timeout: 1_000_000_000,
            handshake_timeout: 2_000_000_000,
            nagle: true,
            fast_open: true,
            tls_version: TlsVersion::Tls12,
            padding: 0,
            tc_fallback: true,
            ..all
        };
        assert_eq!(policies(&read_classes(text).unwrap(), all), [expected]);
    }
}
