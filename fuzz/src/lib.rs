//! What the fuzz targets have in common: a trace read to its end, and a directory of a run or a set, and what must hold of them and of errors whatever was in it.

use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use ldplayer_trace::{Input, Inspector, OpenOptions, open};

/// The file that inputs are read from, since Parquet is read by its end.
static SCRATCH: LazyLock<PathBuf> =
    LazyLock::new(|| std::env::temp_dir().join(format!("ldplayer-fuzz-{}", std::process::id())));

/// A directory with this file of it, and nothing else.
///
/// # Panics
/// Where no temporary files can be written.
pub fn directory(name: &str, data: &[u8]) -> &'static Path {
    static DIRECTORY: LazyLock<PathBuf> = LazyLock::new(|| SCRATCH.with_extension("directory"));
    // It is not there the first time.
    let _ = std::fs::remove_dir_all(&*DIRECTORY);
    let file = DIRECTORY.join(name);
    let made = std::fs::create_dir_all(file.parent().unwrap_or(&DIRECTORY)).and_then(|()| std::fs::write(file, data));
    // Without a place to write there is nothing to fuzz.
    made.expect("a folder for temporary files that can be written");
    &DIRECTORY
}

/// Reads `head` with `data` behind it as a trace. Any input ends in transactions whose accounts add up, or in an error
/// of one line.
///
/// # Panics
/// When it does not: that is what fuzzing looks for.
pub fn read(head: &[u8], data: &[u8]) {
    // Without a place to write there is nothing to fuzz.
    std::fs::write(&*SCRATCH, [head, data].concat()).expect("a folder for temporary files that can be written");
    let mut source = match open(&[Input::File(SCRATCH.clone())], &OpenOptions::default()) {
        Ok(source) => source,
        Err(error) => return assert!(!error.to_string().contains('\n'), "{error}"),
    };
    let (mut queries, mut responses, mut batch) = (0, 0, Vec::new());
    let mut inspector = Inspector::default();
    while let Ok(more) = source.read(&mut batch) {
        queries += batch.iter().filter(|row| row.query.is_some()).count() as u64;
        responses += batch.iter().filter(|row| row.response.is_some()).count() as u64;
        inspector.add(&batch);
        batch.clear();
        if !more {
            let tally = source.tally();
            assert_eq!((tally.queries, tally.responses), (queries, responses));
            return;
        }
    }
}

/// Checks that an error of a file that a user wrote is one line, and names a line of the file.
///
/// # Panics
/// When it does not.
pub fn check_error((line, what): (usize, &str), text: &str) {
    assert!(!what.contains('\n'), "line {line}: {what}");
    let lines = text.bytes().filter(|&octet| octet == b'\n').count() + 1;
    assert!((1..=lines).contains(&line), "line {line} of {lines}: {what}");
}
