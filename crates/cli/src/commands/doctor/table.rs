//! The findings as a table: one line each, columns as wide as what stands in them.

use super::finding::Finding;

/// Between two columns.
const GAP: &str = "  ";

/// The table, with a line of headings.
pub fn render(findings: &[Finding]) -> String {
    let headings = ["", "what", "found", "needed", "how to lift"];
    let rows: Vec<[&str; 5]> = std::iter::once(headings).chain(findings.iter().map(row)).collect();
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths = [0, 1, 2, 3].map(width);
    rows.iter().map(|row| line(row, &widths)).collect()
}

fn row(finding: &Finding) -> [&str; 5] {
    let mark = match (finding.ok, finding.essential) {
        (true, _) => "ok",
        (false, false) => "limit",
        (false, true) => "LACKS",
    };
    let lift = if finding.ok { "-" } else { &finding.lift };
    [mark, finding.name, &finding.found, finding.needed, lift]
}

fn line(row: &[&str; 5], widths: &[usize; 4]) -> String {
    let padded = row.iter().zip(widths).map(|(word, &width)| format!("{word:width$}{GAP}"));
    padded.collect::<String>() + row[4] + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    fn finding(found: &str, ok: bool, essential: bool) -> Finding {
        Finding { name: "thing", found: found.to_owned(), needed: "much", ok, essential, lift: "do it".to_owned() }
    }

    #[test]
    fn columns_stay_in_line_whatever_stands_in_them() {
        let long = "é".repeat(60);
        let findings = [finding("little", false, false), finding(&long, false, true), finding("enough", true, true)];
        let text = render(&findings);
        let lines: Vec<&str> = text.lines().collect();
        let at = |line: &str, word: &str| line.find(word).map(|at| line[..at].chars().count());
        assert_eq!(lines.len(), 4);
        assert!(lines.iter().skip(1).all(|line| at(line, "much") == at(lines[0], "needed")), "{text}");
        assert!(lines[1..3].iter().all(|line| at(line, "do it") == at(lines[0], "how to lift")), "{text}");
        assert!(lines[1].starts_with("limit") && lines[2].starts_with("LACKS") && lines[3].starts_with("ok"), "{text}");
        // What is as it should be is not to be lifted.
        assert!(lines[3].ends_with("  -"), "{text}");
    }
}
