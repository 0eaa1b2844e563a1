//! What each rule did, for people and as JSON.

use std::io::Write;

use ldplayer_trace::mutate::RuleAccount;

/// Prints the accounts of all rules.
pub fn print(accounts: &[RuleAccount], seed: u64, json: bool, to_stderr: bool) -> anyhow::Result<()> {
    let mut out: Box<dyn Write> =
        if to_stderr { Box::new(std::io::stderr()) } else { Box::new(std::io::stdout().lock()) };
    if json {
        let all = serde_json::json!({ "seed": seed, "rules": accounts });
        writeln!(out, "{}", serde_json::to_string_pretty(&all)?)?;
    } else {
        accounts.iter().try_for_each(|account| print_one(&mut out, account))?;
    }
    Ok(out.flush()?)
}

fn print_one(out: &mut dyn Write, account: &RuleAccount) -> std::io::Result<()> {
    let RuleAccount { name, of, matched, changed, share, dropped, .. } = account;
    let percent = share * 100.0;
    writeln!(out, "{name}: changes {changed} of {of} transactions ({percent:.2} %), {matched} match")?;
    if *dropped > 0 {
        writeln!(out, "  dropped   {dropped}")?;
    }
    if let Some([all, drawn]) = account.draws {
        writeln!(out, "  drawn     {drawn} of {all} {}", account.per)?;
    }
    for (reason, count) in &account.kept {
        writeln!(out, "  kept      {reason} {count}")?;
    }
    for example in &account.examples {
        writeln!(out, "  row {:<6}{}", example.index, example.text)?;
    }
    Ok(())
}
