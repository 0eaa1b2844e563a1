//! What each rule did, and how two traces differ, for people and as JSON.

use std::io::Write;

use ldplayer_core::printable::PrintableJson;
use ldplayer_workload::mutate::{Difference, RuleAccount};

/// Prints the accounts of all rules.
pub fn print(accounts: &[RuleAccount], seed: u64, json: bool, to_stderr: bool) -> anyhow::Result<()> {
    let mut out: Box<dyn Write> =
        if to_stderr { Box::new(crate::printing::stderr()) } else { Box::new(crate::printing::stdout()) };
    if json {
        let all = serde_json::json!({ "seed": seed, "rules": accounts });
        writeln!(out, "{}", PrintableJson(serde_json::to_string_pretty(&all)?))?;
    } else {
        accounts.iter().try_for_each(|account| print_one(&mut out, account))?;
    }
    Ok(out.flush()?)
}

fn print_one(out: &mut dyn Write, account: &RuleAccount) -> std::io::Result<()> {
    let RuleAccount { name, of, matched, changed, share, dropped, .. } = account;
    let percent = share * 100.0;
    write_line!(out, "{name}: changes {changed} of {of} transactions ({percent:.2} %), {matched} match")?;
    if *dropped > 0 {
        write_line!(out, "  dropped   {dropped}")?;
    }
    if let Some([all, drawn]) = account.draws {
        write_line!(out, "  drawn     {drawn} of {all} {}", account.per)?;
    }
    for (reason, count) in &account.kept {
        write_line!(out, "  kept      {reason} {count}")?;
    }
    for example in &account.examples {
        write_line!(out, "  row {:<6}{}", example.index, example.text)?;
    }
    Ok(())
}

/// Prints how the traces `a` and `b` differ.
pub fn print_difference(found: &Difference, a: &str, b: &str, json: bool) -> anyhow::Result<()> {
    let mut out = crate::printing::stdout();
    if json {
        return Ok(crate::printing::json(found)?);
    }
    write_line!(out, "{} transactions in {a}, {} in {b}", found.a, found.b)?;
    writeln!(
        out,
        "{} are the same, {} differ, {} only in {a}, {} only in {b}",
        found.same, found.differing, found.only_a, found.only_b
    )?;
    for (field, count) in &found.fields {
        write_line!(
            out,
            "  {field:<10}{count} ({:.2} %)",
            *count as f64 * 100.0 / (found.same + found.differing) as f64
        )?;
    }
    for example in &found.examples {
        write_line!(out, "  row {:<6}{}", example.index, example.text)?;
    }
    if found.same + found.differing == 0 && found.a > 0 && found.b > 0 {
        write_line!(out, "no transaction of one has the time of one of the other: --by-row compares them row by row")?;
    }
    Ok(out.flush()?)
}
