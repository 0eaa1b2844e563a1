//! Refuses zones with several aliases at a name.

use ldplayer_core::name::Presentation;

use crate::error::{LoadError, Problem};
use crate::records::{Record, Records};
use crate::rtype;

/// Looks for a second, different CNAME or DNAME record at a name (RFC 2181 §10.1, RFC 6672 §2.4). Nothing is shown of the files `outside`.
///
/// # Errors
/// There is one: the first in the zone.
pub(super) fn check(records: &Records, outside: &[u16]) -> Result<(), LoadError> {
    let mut aliases: Vec<usize> = (0..records.len()).filter(|&at| rtype::is_alias(records.get(at).rtype)).collect();
    aliases.sort_by_key(|&at| set(&records.get(at)));
    let sets = aliases.chunk_by(|&a, &b| set(&records.get(a)) == set(&records.get(b)));
    let second = sets.filter_map(|set| {
        let first = records.get(*set.first()?).data;
        set.iter().find(|&&at| records.get(at).data != first)
    });
    let Some(&second) = second.min() else { return Ok(()) };
    let Record { owner, rtype, place: (file, line), .. } = records.get(second);
    let problem = match outside.contains(&file) {
        true => Problem::Hidden,
        false => Problem::SecondAlias(Presentation(owner).to_string(), rtype::name_of(rtype)),
    };
    Err(LoadError::Entry { file: records.file(file).to_owned(), line, problem })
}

/// What all records of a set share.
fn set<'a>(record: &Record<'a>) -> (&'a [u8], u16) {
    (record.owner, record.rtype)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use crate::load;

    fn load(text: &str) -> Result<usize, String> {
        let text = format!("$TTL 60\n@ SOA a b 1 2 3 4 5\n@ NS a.other.\n{text}");
        let records = load::text_of(text.as_bytes(), Path::new("z"), Some(b"\x07example\0"), &mut |_| unreachable!());
        records.map(|records| records.len()).map_err(|error| error.to_string())
    }

    #[test]
    fn two_aliases_at_a_name_are_a_load_error() {
        for (text, line, rtype) in [
            ("w CNAME a\nw CNAME b\n", 5, "CNAME"),
            ("w DNAME a\nw DNAME b\n", 5, "DNAME"),
            ("w CNAME a\nx A 192.0.2.1\nw CNAME a\nW CNAME b\n", 7, "CNAME"),
            ("w CNAME \\# 3 016100\nw CNAME b.\n", 5, "CNAME"),
            ("w 1 CNAME a\nw 2 DNAME a\nw 3 DNAME b\n", 6, "DNAME"),
        ] {
            let wanted = format!(
                "z:{line}: a second, different {rtype} record at `w.example.`: a name has one at most (RFC 2181 10.1, RFC 6672 2.4); with \
                 --keep-going, serve and testbed up serve the first"
            );
            assert_eq!(load(text), Err(wanted), "{text}");
        }
    }

    #[test]
    fn an_alias_twice_is_one_and_kinds_are_apart() {
        for text in ["w CNAME a\nw CNAME a\n", "w CNAME a\nw DNAME b\n", "w CNAME a\nx CNAME b\n*.w CNAME c\n"] {
            assert!(load(text).is_ok(), "{text}");
        }
    }
}
