//! Gates as JUnit XML, which continuous integration shows as tests.

use std::fmt::Write as _;

use ldplayer_experiment::gate::Undecided;
use ldplayer_report::xml::escaped;
use ldplayer_results::compare::{GateResult, Outcome};

use super::text::in_order;

/// The document: a test for each gate. One that is undecided fails, or is skipped where that is allowed.
pub fn document(kept: &[GateResult], undecided: Undecided) -> String {
    let count = |outcome| kept.iter().filter(|gate| gate.outcome == outcome).count();
    let open = count(Outcome::Undecided);
    let (failed, skipped) = if undecided.is_allowed { (0, open) } else { (open, 0) };
    let mut text = format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n<testsuite name=\"ldplayer compare\" tests=\"{}\" failures=\"{}\" skipped=\"{skipped}\">\n",
        kept.len(),
        count(Outcome::Broken) + failed,
    );
    for gate in in_order(kept) {
        let (name, place) = (escaped(&gate.keep.to_string()), escaped(&format!("{} against {}", gate.b, gate.a)));
        let inside = match gate.outcome {
            Outcome::Held => String::new(),
            Outcome::Undecided if undecided.is_allowed => format!("<skipped message=\"{}\"/>", escaped(&gate.words)),
            Outcome::Undecided => format!("<failure type=\"undecided\" message=\"{}\"/>", escaped(&gate.words)),
            Outcome::Broken => format!("<failure type=\"broken\" message=\"{}\"/>", escaped(&gate.words)),
        };
        // Writing to a string cannot fail.
        let _ = writeln!(text, "<testcase classname=\"{place}\" name=\"{name}\">{inside}</testcase>");
    }
    text + "</testsuite>\n</testsuites>\n"
}
