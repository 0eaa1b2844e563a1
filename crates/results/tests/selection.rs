//! Rows of a run by conditions, as `ldplayer rows` prints them.

mod common;

use std::path::Path;

use ldplayer_core::{Outcome, Status};
use ldplayer_results::{Cell, Recorder, ResultsError, Selection};

/// Four queries a millisecond apart: two are answered, the second of them after 200 ms; then one times out, and one is refused.
fn run(directory: &Path) {
    let row = |index: u64| common::outcome(index, index as i64 * 1_000_000);
    let slow = row(1).answered.map(|answered| answered + 199_000_000);
    let rows = [
        row(0),
        Outcome { answered: slow, rcode: Some(3), ..row(1) },
        Outcome { status: Status::Timeout, answered: None, rcode: None, response_bytes: 0, ..row(2) },
        Outcome { rcode: Some(5), ..row(3) },
    ];
    let mut recorder = Recorder::create(directory, false, common::setup(1), common::SPEC).unwrap();
    recorder.record(0, &rows).unwrap();
    recorder.finish(common::end(4)).unwrap();
}

/// The rows that a condition chooses, with these columns, each as text.
fn rows(run: &Path, condition: Option<&str>, columns: &[&str]) -> Vec<String> {
    let columns: Vec<String> = columns.iter().map(|&name| name.to_owned()).collect();
    let (selection, mut found) = (Selection::new(condition, &columns).unwrap(), Vec::new());
    let unreadable = selection
        .of(run, None, |cells| {
            let words: Vec<String> = cells
                .map(|cell| match cell {
                    Cell::Nothing => "-".to_owned(),
                    Cell::Number(number) => number.to_string(),
                    Cell::Bit(bit) => bit.to_string(),
                    Cell::Word(word) => word.to_owned(),
                })
                .collect();
            found.push(words.join(" "));
            Ok::<(), ResultsError>(())
        })
        .unwrap();
    assert_eq!(unreadable, [""; 0].map(std::path::PathBuf::from));
    found
}

#[test]
fn conditions_choose_rows_and_what_is_not_there_compares_to_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let run_directory = folder.path().join("run");
    run(&run_directory);
    let chosen = |condition: &str| rows(&run_directory, Some(condition), &["index"]).join(" ");
    for (condition, indexes) in [
        ("latency > 100ms", "1"),
        ("latency <= 100ms", "0 3"),
        ("latency != 5s", "0 1 3"),
        ("status == timeout or rcode == REFUSED", "2 3"),
        ("rcode in [NOERROR, NXDOMAIN]", "0 1"),
        ("answered and not rcode == NXDOMAIN", "0 3"),
        ("client in 192.0.2.2", "2"),
        ("client != 192.0.2.2 and server == 198.51.100.0/24", "0 1 3"),
        ("time >= 1ms and time < 3ms", "1 2"),
        ("index == 3", "3"),
        ("late == 0s and transport == udp", "0 1 2 3"),
        ("late > -1us and response_bytes == 0", "2"),
        ("transport in [tcp, dot]", ""),
        ("aa == false", ""),
    ] {
        assert_eq!(chosen(condition), indexes, "{condition}");
    }
}

#[test]
fn columns_are_those_that_are_named_the_computed_ones_among_them() {
    let folder = tempfile::tempdir().unwrap();
    let run_directory = folder.path().join("run");
    run(&run_directory);
    let all = rows(&run_directory, None, &["latency_ns", "client", "aa", "rcode"]);
    assert_eq!(
        all,
        ["1000000 192.0.2.0 true 0", "200000000 192.0.2.1 true 3", "- 192.0.2.2 true -", "1000000 192.0.2.3 true 5"]
    );
    assert_eq!(Selection::new(None, &["all".to_owned()]).unwrap().columns().len(), 40);
    assert!(rows(&run_directory, None, &[])[2].starts_with("2 192.0.2.2 198.51.100.1:53 udp 2000000 0 - timeout"));
}

#[test]
fn what_is_wrong_is_told_with_its_place_and_the_nearest_word() {
    let refusal = |condition: Option<&str>, columns: &[&str]| {
        let columns: Vec<String> = columns.iter().map(|&name| name.to_owned()).collect();
        Selection::new(condition, &columns).unwrap_err().to_string()
    };
    for (condition, said) in [
        ("latncy > 1s", "--where: column 1: unknown field `latncy`: did you mean `latency`?"),
        ("latency > fast", "`fast` is not a valid value of `latency`, which is a duration such as 100ms"),
        ("status > answered", "`status` has no order"),
        ("rcode == NOPE", "`NOPE` is not a valid value of `rcode`"),
        ("client == example.com", "an address or a block"),
        ("status", "`status` alone is not a condition"),
    ] {
        let told = refusal(Some(condition), &[]);
        assert!(told.contains(said), "{condition}: {told}");
    }
    assert_eq!(refusal(None, &["latency_n"]), "--columns: unknown column `latency_n`: did you mean `latency_ns`?");
    assert_eq!(Selection::new(None, &["latency".to_owned()]).unwrap().columns(), ["latency_ns"]);
    let folder = tempfile::tempdir().unwrap();
    let none = Selection::new(None, &[]).unwrap().of(folder.path(), None, |_| Ok::<(), ResultsError>(()));
    assert!(none.is_err(), "an empty directory is no run");
}

#[test]
fn a_reader_that_has_enough_ends_the_reading() {
    let folder = tempfile::tempdir().unwrap();
    let run_directory = folder.path().join("run");
    run(&run_directory);
    let mut given = 0;
    let ended = Selection::new(None, &[]).unwrap().of(&run_directory, None, |_| {
        given += 1;
        Err(ResultsError::KeeperEnded)
    });
    assert!(ended.is_err() && given == 1);
}
