//! The table of answers that were compared.

use super::{Line, share};
use ldplayer_results::AnswersCompared;
use ldplayer_results::numbers::grouped;
use ldplayer_results::words;

/// The lines of the table; empty if nothing was compared.
pub fn lines(compared: Option<&AnswersCompared>) -> Vec<Line> {
    let Some(all) = compared else { return Vec::new() };
    let cells = |count: u64| vec![grouped(count), share(count, Some(all.compared))];
    let line = |name: &str, count: u64| Line::new(name, cells(count));
    let part = |name: &str, count: u64| Line::sub(name, cells(count));
    let mut lines = vec![
        line("compared", all.compared),
        line("match", all.matching),
        line("better", all.better),
        line("worse", all.worse),
        part("without an answer", all.unanswered),
        line("changed", all.changed),
    ];
    lines.extend(all.by_field.iter().map(|(field, &count)| part(&format!("differs in: {field}"), count)));
    let bare = |name: &str, count: u64, sub: bool| Line { sub, ..Line::new(name, vec![grouped(count), String::new()]) };
    lines.push(bare("not comparable", all.not_comparable, false));
    let reasons = all.not_comparable_by_reason.iter();
    lines.extend(reasons.map(|(reason, &count)| bare(&words::reason(reason), count, true)));
    if let Some(again) = &all.again {
        lines.push(bare("asked again", again.asked, false));
        lines.push(bare("as expected now", again.flapped, true));
        lines.push(bare("confirmed", again.confirmed, true));
        lines.push(bare("not asked again", again.left_out, true));
    }
    lines
}
