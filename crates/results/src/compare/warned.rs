//! Warnings and failed expectations of single runs, put together for comparisons and experiments.

use crate::model::{RunReport, ServerVerdict};

/// A line for each warning and each failed verdict about the server, with the number of runs that have it and the words of the first.
pub fn of_runs(runs: &[&RunReport]) -> Vec<String> {
    let mut found: Vec<(&str, String, usize)> = Vec::new();
    let told = runs.iter().flat_map(|run| {
        let server = failed(&run.verdict.server).into_iter().map(|text| ("server", text));
        server.chain(run.warnings.iter().map(|warning| (warning.code.as_str(), warning.to_string())))
    });
    for (code, text) in told {
        match found.iter_mut().find(|(known, ..)| *known == code) {
            Some((.., count)) => *count += 1,
            None => found.push((code, text, 1)),
        }
    }
    let all = runs.len();
    found.into_iter().map(|(code, text, count)| format!("{code} in {count} of {all}: {text}")).collect()
}

/// Which expectations of the server failed.
fn failed(server: &ServerVerdict) -> Option<String> {
    let failed = server.checks.iter().filter(|check| !check.ok);
    let failed: Vec<String> =
        failed.map(|check| format!("{} {} (limit {})", check.name, check.value, check.limit)).collect();
    (server.ok == Some(false)).then(|| format!("FAILED: {}", failed.join("; ")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::warning::{Warning, WarningCode};

    /// An experiment whose runs were 80 % SERVFAIL showed nothing of it.
    #[test]
    fn a_warning_of_two_of_three_runs_is_one_line() {
        let run = |share: u32| RunReport {
            warnings: vec![Warning::with_remedy(
                WarningCode::ErrorAnswers,
                format!("{share} % of the answers are errors"),
                "",
            )],
            ..RunReport::default()
        };
        let (first, second, fine) = (run(80), run(81), RunReport::default());
        let told = of_runs(&[&fine, &first, &second]);
        assert_eq!(told, ["error_answers in 2 of 3: 80 % of the answers are errors"]);
        assert_eq!(of_runs(&[&fine]), [""; 0]);
    }
}
