//! Reads the file entry by entry: a list of a million versions takes many times its memory as a whole.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};

use super::SetEntry;

/// The keys of the file.
const KEYS: [&str; 2] = ["start", "sets"];

/// Reads the content of the file; each record set goes to `take`. Returns the start.
///
/// # Errors
/// What is wrong, for people.
pub fn read(text: &[u8], mut take: impl FnMut(SetEntry)) -> Result<Option<String>, String> {
    let mut json = serde_json::Deserializer::from_slice(text);
    let start = json.deserialize_map(Whole(&mut take)).and_then(|start| json.end().map(|()| start));
    // An error repeats names of keys as they are.
    start.map_err(|error| error.to_string().replace('\n', " "))
}

/// The object that the file is.
struct Whole<'a, F>(&'a mut F);

impl<'de, F: FnMut(SetEntry)> Visitor<'de> for Whole<'_, F> {
    type Value = Option<String>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object with `sets`")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let (mut start, mut has_sets) = (None, false);
        while let Some(key) = map.next_key::<String>()? {
            match key.as_str() {
                "start" => start = map.next_value()?,
                "sets" => {
                    map.next_value_seed(Sets(self.0))?;
                    has_sets = true;
                }
                _ => return Err(A::Error::unknown_field(&key, &KEYS)),
            }
        }
        if has_sets { Ok(start) } else { Err(A::Error::missing_field("sets")) }
    }
}

/// The list of record sets.
struct Sets<'a, F>(&'a mut F);

impl<'de, F: FnMut(SetEntry)> DeserializeSeed<'de> for Sets<'_, F> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<(), D::Error> {
        json.deserialize_seq(self)
    }
}

impl<'de, F: FnMut(SetEntry)> Visitor<'de> for Sets<'_, F> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of record sets")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        while let Some(entry) = list.next_element()? {
            (self.0)(entry);
        }
        Ok(())
    }
}
