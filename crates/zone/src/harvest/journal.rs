//! A journal of questions and their results, so that an interrupted harvest can be resumed.

use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufReader, BufWriter, Write};
use std::path::{Path, PathBuf};

use ldplayer_core::name::{self, Presentation};

use super::asker::Outcome;
use super::questions::Question;

/// The file's name in the folder of the harvest.
const FILE: &str = "asked.tsv";
/// How it begins.
const HEAD: &str = "#name\ttype\trcode";
/// What stands for a code where nothing came.
const SILENT: &str = "-";

/// What keeps the journal from being used.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    /// It cannot be opened or read.
    #[error("{}: cannot use it as the journal of questions: {source}", path.display())]
    Open {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// It cannot be written.
    #[error("{}: cannot write: {source}; check the free space and permissions", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

/// The journal.
pub struct Journal {
    path: PathBuf,
    known: HashMap<Question, Outcome>,
    out: BufWriter<File>,
}

impl Journal {
    /// Opens the journal in a folder, and reads it. An incomplete last line is skipped.
    ///
    /// # Errors
    /// When the file cannot be read or made.
    pub fn open(folder: &Path) -> Result<Self, JournalError> {
        let path = folder.join(FILE);
        let failed = |source| JournalError::Open { path: path.clone(), source };
        let known = read(&path).map_err(failed)?;
        let mut file = OpenOptions::new().append(true).create(true).open(&path).map_err(failed)?;
        match known.is_empty() {
            true => writeln!(file, "{HEAD}"),
            // Ends a line that may have been cut off.
            false => writeln!(file),
        }
        .map_err(failed)?;
        Ok(Self { path: path.clone(), known, out: BufWriter::new(file) })
    }

    /// What became of a question earlier.
    pub fn outcome(&self, question: &Question) -> Option<Outcome> {
        self.known.get(question).copied()
    }

    /// Writes down the outcome of a question.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn write(&mut self, question: &Question, outcome: Outcome) -> Result<(), JournalError> {
        self.known.insert(question.clone(), outcome);
        let name = Presentation(&question.name);
        let written = match outcome {
            Outcome::Answered(rcode) => writeln!(self.out, "{name}\t{}\t{rcode}", question.qtype),
            Outcome::Silent => writeln!(self.out, "{name}\t{}\t{SILENT}", question.qtype),
        };
        written.map_err(|source| JournalError::Write { path: self.path.clone(), source })
    }

    /// Makes sure that all of it is in the file.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn flush(&mut self) -> Result<(), JournalError> {
        self.out.flush().map_err(|source| JournalError::Write { path: self.path.clone(), source })
    }
}

fn read(path: &Path) -> io::Result<HashMap<Question, Outcome>> {
    let file = match File::open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(HashMap::new()),
        file => file?,
    };
    let mut known = HashMap::new();
    for line in BufReader::new(file).lines() {
        known.extend(parse(&line?));
    }
    Ok(known)
}

fn parse(line: &str) -> Option<(Question, Outcome)> {
    let mut columns = line.split('\t');
    let (text, qtype, rcode) = (columns.next()?, columns.next()?, columns.next()?);
    let mut name = Vec::new();
    name::parse(text, &mut name).ok()?;
    let outcome = match rcode {
        SILENT => Outcome::Silent,
        code => Outcome::Answered(code.parse().ok()?),
    };
    Some((Question { name, qtype: qtype.parse().ok()? }, outcome))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_is_known_later_but_for_a_line_cut_off() {
        let folder = tempfile::tempdir().unwrap();
        let question = |letter| Question { name: vec![2, letter, b'.', 0], qtype: 28 };
        let mut journal = Journal::open(folder.path()).unwrap();
        journal.write(&question(b'a'), Outcome::Answered(3)).unwrap();
        journal.write(&question(b'b'), Outcome::Silent).unwrap();
        journal.flush().unwrap();
        let path = folder.path().join(FILE);
        let mut text = std::fs::read_to_string(&path).unwrap();
        assert_eq!(text, format!("{HEAD}\na\\..\t28\t3\nb\\..\t28\t-\n"));
        text.push_str("c\\..\t2");
        std::fs::write(&path, text).unwrap();
        let mut journal = Journal::open(folder.path()).unwrap();
        assert_eq!(journal.outcome(&question(b'a')), Some(Outcome::Answered(3)));
        assert_eq!((journal.outcome(&question(b'b')), journal.outcome(&question(b'c'))), (Some(Outcome::Silent), None));
        journal.write(&question(b'b'), Outcome::Answered(0)).unwrap();
        journal.flush().unwrap();
        assert_eq!(Journal::open(folder.path()).unwrap().outcome(&question(b'b')), Some(Outcome::Answered(0)));
    }
}
