//! Batches of queries and outcomes between hosts: any octets are rows, which are written back as they were, or an error.
#![no_main]

use bytes::Bytes;
use ldplayer_core::wire::{BatchHeader, BatchWriter, Row, read, split};
use ldplayer_core::{Outcome, Query};
use libfuzzer_sys::fuzz_target;

fn check<R: Row + std::fmt::Debug + PartialEq>(octets: &Bytes) {
    let Ok((header, rows)) = read::<R>(octets) else { return };
    // A writer numbers the next batch, too.
    let header = BatchHeader { sequence: header.sequence.min(u64::MAX - 1), ..header };
    let mut writer = BatchWriter::new(header);
    for row in &rows {
        // What was read has room: the target looks for rows of which that is not so.
        writer.push(row).expect("what was read has room");
    }
    // What was written is read.
    assert_eq!(read::<R>(&writer.take()).expect("what was written is read").1, rows);
}

fuzz_target!(|data: &[u8]| {
    let octets = Bytes::copy_from_slice(data);
    check::<Query>(&octets);
    check::<Outcome>(&octets);
    if let Ok(Some(end)) = split(data) {
        assert!(end <= data.len());
    }
});
