//! The questions of a run's queries by the row of the trace, for rows, which have none of their own.

use hashbrown::HashMap;

/// A query's name and type in presentation form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Question {
    /// The name; the case of its letters is that of the query.
    pub name: Box<str>,
    /// The mnemonic of the type.
    pub kind: Box<str>,
}

impl Question {
    /// Whether this is the name, which is in lower case: case is ignored (RFC 4343).
    pub(crate) fn is_named(&self, name: &str) -> bool {
        self.name.eq_ignore_ascii_case(name)
    }

    /// Whether the name is this zone's, which is in lower case, or below it.
    pub(crate) fn is_under(&self, zone: &str) -> bool {
        let Some(start) = self.name.len().checked_sub(zone.len()) else { return false };
        let is_end = self.name.get(start..).is_some_and(|end| end.eq_ignore_ascii_case(zone));
        zone == "."
            || is_end && (start == 0 || self.name.as_bytes()[start - 1] == b'.' && !is_escaped(&self.name, start - 1))
    }

    /// The zone of its last labels, so many, in lower case.
    pub(crate) fn zone(&self, labels: usize) -> String {
        let name = self.name.to_ascii_lowercase();
        let dots = name.rmatch_indices('.').filter(|&(at, _)| !is_escaped(&name, at));
        // The dot of the root comes first, and the one before these labels last.
        let before = dots.map(|(at, _)| at + 1).nth(labels);
        before.map_or(name.clone(), |at| name[at..].to_owned())
    }
}

/// Whether the character there belongs to a label: an odd number of backslashes stands before it.
fn is_escaped(name: &str, at: usize) -> bool {
    name[..at].bytes().rev().take_while(|&octet| octet == b'\\').count() % 2 == 1
}

/// Questions by rows of the trace: four octets for each row, and each distinct question once.
#[derive(Debug, Default)]
pub struct Questions {
    distinct: Vec<Question>,
    /// Numbers of questions by their octets.
    numbers: HashMap<Box<[u8]>, u32>,
    /// The number of each row's question, or [`NONE`].
    rows: Vec<u32>,
    /// Rows that rules copied and gave another question, by when each copy is due; `None` where no copy is due at a time of its own.
    copies: HashMap<u64, Option<Vec<(i64, u32)>>>,
    is_paced: bool,
}

/// Of a row without question.
const NONE: u32 = u32::MAX;

impl Questions {
    /// No questions yet. Copies of a row are told apart by when they are due, which only paced queries are.
    pub fn new(is_paced: bool) -> Self {
        Self { is_paced, ..Self::default() }
    }

    /// Adds the question of a query that is due at `due` and comes of the row `index`. `octets` is the question in wire format, which `shown`
    /// shows.
    pub fn add(&mut self, index: u64, due: i64, octets: &[u8], shown: impl FnOnce() -> Question) {
        let number = self.number(octets, shown);
        let row = index as usize;
        if self.rows.len() <= row {
            self.rows.resize(row + 1, NONE);
        }
        match self.rows[row] {
            NONE => self.rows[row] = number,
            same if same == number => {}
            _ => {
                let copies = self.copies.entry(index).or_insert_with(|| self.is_paced.then(Vec::new));
                copies.iter_mut().for_each(|copies| copies.push((due, number)));
            }
        }
    }

    fn number(&mut self, octets: &[u8], shown: impl FnOnce() -> Question) -> u32 {
        if let Some(&number) = self.numbers.get(octets) {
            return number;
        }
        let number = self.distinct.len() as u32;
        self.distinct.push(shown());
        self.numbers.insert(octets.into(), number);
        number
    }

    /// The distinct questions by their numbers.
    pub fn distinct(&self) -> &[Question] {
        &self.distinct
    }

    /// The number of the question of the row `index` that is due at `due`; `None` where it is not known.
    pub fn number_at(&self, index: u64, due: i64) -> Option<usize> {
        let first = *self.rows.get(usize::try_from(index).ok()?)?;
        let number = match self.copies.get(&index) {
            None => first,
            Some(None) => NONE,
            Some(Some(copies)) => copies.iter().find(|(at, _)| *at == due).map_or(first, |(_, number)| *number),
        };
        (number != NONE).then_some(number as usize)
    }

    /// The question of the row `index` that is due at `due`; `None` where it is not known.
    pub fn at(&self, index: u64, due: i64) -> Option<&Question> {
        self.number_at(index, due).and_then(|number| self.distinct.get(number))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn add(questions: &mut Questions, index: u64, due: i64, name: &str) {
        questions.add(index, due, name.as_bytes(), || Question { name: name.into(), kind: "A".into() });
    }

    fn name(questions: &Questions, index: u64, due: i64) -> Option<&str> {
        questions.at(index, due).map(|question| &*question.name)
    }

    #[test]
    fn rows_have_the_question_of_their_query_and_gaps_have_none() {
        let mut questions = Questions::new(true);
        add(&mut questions, 0, 0, "a.");
        add(&mut questions, 2, 5, "b.");
        add(&mut questions, 3, 6, "a.");
        assert_eq!(
            [0, 1, 2, 3, 4].map(|row| name(&questions, row, 0)),
            [Some("a."), None, Some("b."), Some("a."), None]
        );
        assert_eq!(questions.distinct().len(), 2);
    }

    #[test]
    fn zones_are_found_by_labels_and_not_by_letters() {
        let question = |name: &str| Question { name: name.into(), kind: "A".into() };
        let www = question("WWW.Example.co.uk.");
        assert_eq!(
            [1, 2, 3, 9].map(|labels| www.zone(labels)),
            ["uk.", "co.uk.", "example.co.uk.", "www.example.co.uk."]
        );
        assert_eq!((question(".").zone(1), question("com.").zone(2)), (".".into(), "com.".into()));
        assert_eq!(question("a\\.b.example.").zone(2), "a\\.b.example.");
        for (name, zone, is_under) in [
            ("www.EXAMPLE.", "example.", true),
            ("example.", "example.", true),
            ("anexample.", "example.", false),
            ("a\\.example.", "example.", false),
            ("le.", "example.", false),
            (".", ".", true),
            ("x.", ".", true),
        ] {
            assert_eq!(question(name).is_under(zone), is_under, "{name} {zone}");
        }
        assert!(www.is_named("www.example.co.uk.") && !www.is_named("example.co.uk."));
    }

    #[test]
    fn copies_with_a_question_of_their_own_are_told_apart_by_their_time_or_not_at_all() {
        for (is_paced, found) in [(true, [Some("a."), Some("b.")]), (false, [None, None])] {
            let mut questions = Questions::new(is_paced);
            add(&mut questions, 7, 10, "a.");
            add(&mut questions, 7, 20, "b.");
            assert_eq!([10, 20].map(|due| name(&questions, 7, due)), found);
        }
    }
}
