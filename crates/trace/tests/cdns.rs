//! C-DNS says the same as the capture that it was made of.

use std::path::{Path, PathBuf};

use domain::base::Message as Parsed;
use domain::rdata::AllRecordData;
use ldplayer_core::{Message, Transaction};
use ldplayer_trace::{Input, OpenOptions, Role, Tally, TraceError, open};
use proptest::prelude::*;

fn read_with(path: &Path, options: &OpenOptions) -> Result<(Vec<Transaction>, Tally), TraceError> {
    let mut source = open(&[Input::File(path.to_owned())], options)?;
    let mut rows = Vec::new();
    while source.read(&mut rows)? {}
    let tally = source.tally().clone();
    let queries = rows.iter().filter(|row| row.query.is_some()).count() as u64;
    let responses = rows.iter().filter(|row| row.response.is_some()).count() as u64;
    assert_eq!((tally.queries, tally.responses), (queries, responses), "{}", path.display());
    Ok((rows, tally))
}

fn read(path: &Path) -> (Vec<Transaction>, Tally) {
    read_with(path, &OpenOptions::default()).unwrap_or_else(|error| panic!("{error}"))
}

fn bundled(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../data").join(name)
}

/// The octets of the bundled file, decompressed.
fn octets() -> Vec<u8> {
    let file = std::fs::File::open(bundled("clients-20160629.cdns.xz")).unwrap();
    let mut octets = Vec::new();
    std::io::Read::read_to_end(&mut liblzma::read::XzDecoder::new(file), &mut octets).unwrap();
    octets
}

fn read_octets(octets: &[u8]) -> Result<(Vec<Transaction>, Tally), TraceError> {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), octets).unwrap();
    read_with(file.path(), &OpenOptions::default())
}

/// The records of all sections in words, whatever the compression.
fn records(octets: &[u8]) -> Vec<String> {
    let message = Parsed::from_octets(octets).unwrap();
    let sections = [message.answer(), message.authority(), message.additional()];
    let all = sections.into_iter().flat_map(|section| section.unwrap().into_iter());
    all.map(|record| record.unwrap().into_record::<AllRecordData<_, _>>().unwrap().unwrap().to_string()).collect()
}

/// Header and question of a response are the same to the octet; compression is not kept, and so records are compared as
/// such.
fn assert_same_response(rebuilt: &[u8], captured: &[u8]) {
    let (mine, theirs) = (Message::new(rebuilt).unwrap(), Message::new(captured).unwrap());
    assert_eq!((mine.id(), mine.flags(), mine.counts()), (theirs.id(), theirs.flags(), theirs.counts()));
    assert_eq!(mine.question_octets(), theirs.question_octets());
    assert_eq!(records(rebuilt), records(captured));
}

#[test]
fn the_bundled_file_is_the_bundled_capture() {
    let (rows, tally) = read(&bundled("clients-20160629.cdns.xz"));
    let (captured, accounts) = read(&bundled("clients-20160629.pcap.xz"));
    assert!(!rows.is_empty(), "{tally:?}");
    assert_eq!((tally.queries, tally.responses, rows.len()), (accounts.queries, accounts.responses, captured.len()));
    assert!(tally.lost.is_empty() && tally.damaged.is_empty() && tally.skipped.is_empty(), "{tally:?}");
    for (row, captured) in rows.iter().zip(&captured) {
        assert_eq!((row.time, row.client, row.server), (captured.time, captured.client, captured.server));
        assert_eq!((row.transport, row.response_delay), (captured.transport, captured.response_delay));
        assert_eq!(row.query, captured.query);
        assert_same_response(row.response.as_ref().unwrap(), captured.response.as_ref().unwrap());
    }
}

#[test]
fn a_file_without_roles_has_none_that_is_wanted() {
    let clients = OpenOptions { roles: vec![Role::Client], ..OpenOptions::default() };
    let (rows, tally) = read_with(&bundled("clients-20160629.cdns.xz"), &clients).unwrap();
    assert_eq!((rows.len(), tally.skipped["unknown_role"]), (0, 999));
}

#[test]
fn a_file_cut_off_is_refused_or_says_so() {
    let octets = octets();
    for end in (8..octets.len()).step_by(997) {
        match read_octets(&octets[..end]) {
            Ok((_, tally)) => assert_eq!(tally.damaged[0].reason.as_str(), "truncated_capture", "{end}"),
            Err(error) => {
                assert!(error.to_string().contains("the preamble of this C-DNS file is damaged"), "{end}: {error}")
            }
        }
    }
}

#[test]
fn another_version_is_refused_in_one_line() {
    let mut octets = octets();
    // The preamble is the map behind the text; its first key is the major version.
    assert_eq!(octets[7..10], [0xa4, 0x00, 0x01]);
    octets[9] = 0x02;
    let error = read_octets(&octets).err().unwrap().to_string();
    assert!(error.contains("unsupported C-DNS version 2.0") && !error.contains('\n'), "{error}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]

    #[test]
    fn octets_changed_anywhere_end_in_transactions_or_one_line(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..20),
    ) {
        let mut octets = octets();
        for (at, octet) in changes {
            let at = at.index(octets.len());
            octets[at] = octet;
        }
        if let Err(error) = read_octets(&octets) {
            prop_assert!(!error.to_string().contains('\n'));
        }
    }

    #[test]
    fn any_octets_behind_a_preamble_end_in_transactions_or_one_line(behind: Vec<u8>) {
        // Version 1, one set of parameters that says nothing, and an array of blocks without a length.
        let head = b"\x83\x65C-DNS\xa2\x00\x01\x03\x81\xa0\x9f";
        if let Err(error) = read_octets(&[head, &*behind].concat()) {
            prop_assert!(!error.to_string().contains('\n'));
        }
    }
}
