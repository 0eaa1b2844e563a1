//! Rows of a run join with the Parquet file that was replayed: `index` is the row of the input, whatever rules do to it.

#[path = "common/command.rs"]
mod command;
#[path = "common/python.rs"]
mod python;
#[path = "common/responder.rs"]
mod responder;

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use command::ldplayer;
use python::python;
use responder::responder;

const ROWS: usize = 400;

/// Answers with the response code that the name asks for: 5 for `r5.n17.example.`
fn server() -> String {
    responder(|response| {
        // A header, the length of the first label, its `r`, and the digit.
        response[3] = response[14] - b'0';
        Some(Duration::ZERO)
    })
}

/// The numbers that DuckDB finds.
fn duckdb(folder: &Path, query: &str) -> Vec<usize> {
    let code = "import duckdb, sys; print(*duckdb.execute(sys.argv[1]).fetchall()[0])";
    let output = Command::new(python()).current_dir(folder).args(["-c", code, query]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let said = String::from_utf8(output.stdout).unwrap();
    said.split_whitespace().map(|number| number.parse().unwrap()).collect()
}

/// Rows of the trace differ by client, and by name in what they are answered.
#[test]
fn rows_of_a_run_join_with_the_rows_of_the_trace() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    let line = |row: usize| {
        let (second, host) = (row as f64 / 100.0, row % 250 + 1);
        format!("{second}\t10.0.{}.{host}\tr{}.n{row}.example.\tA\n", row / 250, row * 7 % 6)
    };
    let lines: String = (0..ROWS).map(line).collect();
    fs::write(path.join("trace.tsv"), format!("time\tsrc\tqname\tqtype\n{lines}")).unwrap();
    assert!(ldplayer(path, &["convert", "trace.tsv", "-o", "trace.parquet"]).status.success());
    let server = server();
    let dropped = "[[rule]]\nshare = '40 %'\ndrop = true\n";
    let copied = "[[rule]]\nshare = '20 %'\nduplicate = 1\ngap = '300ms'\n";
    let moved = "[[rule]]\ntime-jitter = '200ms'\n";
    for (run, rules) in [("plain", String::new()), ("changed", [dropped, copied, moved].concat())] {
        fs::write(path.join("rules.toml"), &rules).unwrap();
        let arguments =
            ["replay", "--server", &server, "--rules", "rules.toml", "--timing", "scaled:4", "trace.parquet"];
        let output = ldplayer(path, &[&arguments[..], &["-o", run]].concat());
        // Whether a busy machine was on time is the verdict's to say.
        assert!(matches!(output.status.code(), Some(0 | 1)), "{}", String::from_utf8_lossy(&output.stderr));
        let found = duckdb(
            path,
            &format!(
                "select count(*), count(distinct q.\"index\"), \
                 count(*) filter (where q.client = t.src and q.rcode = cast(substr(t.qname, 2, 1) as int)) \
                 from read_parquet('{run}/queries/*.parquet') q \
                 left join read_parquet('trace.parquet', file_row_number = true) t on q.\"index\" = t.file_row_number \
                 where q.status = 'answered'"
            ),
        );
        let [rows, different, joined] = found[..] else { panic!("{found:?}") };
        assert_eq!(joined, rows, "{run}: each is that of the trace");
        match rules.is_empty() {
            true => assert_eq!((rows, different), (ROWS, ROWS)),
            false => assert!(different < ROWS * 7 / 10 && different > ROWS / 2 && rows > different, "{found:?}"),
        }
    }
}
