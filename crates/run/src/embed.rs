//! Reads the files named in a specification into it, so that it is self-contained.

use std::path::Path;

use ldplayer_trace::Input;

use crate::classes;
use crate::error::RunError;
use crate::keys::RunSpec;

/// Reads rules and classes into the specification, and makes its paths absolute.
///
/// # Errors
/// A file cannot be read, or is invalid.
pub fn embed(mut spec: RunSpec) -> Result<RunSpec, RunError> {
    for rules in &mut spec.rules {
        rules.text = Some(rules.text()?.into_owned());
    }
    if let Some(file) = spec.transport_shares.as_deref().filter(|_| spec.class.is_empty()) {
        spec.class = classes::read_file(file)?;
    }
    spec.trace.iter_mut().for_each(make_absolute);
    let absolute = |file: &Path| std::path::absolute(file).unwrap_or_else(|_| file.to_owned());
    spec.rtt = spec.rtt.map(|rtt| rtt.placed(absolute));
    spec.tls_ca = spec.tls_ca.map(|file| absolute(&file));
    Ok(spec)
}

/// The specification of the run in the directory `run`: paths that are not absolute begin there, as those of an archive do.
pub fn placed(mut spec: RunSpec, run: &Path) -> RunSpec {
    for word in &mut spec.trace {
        let Input::File(path) = Input::from(word.as_str()) else { continue };
        if let Some(placed) = run.join(path).to_str() {
            *word = placed.to_owned();
        }
    }
    spec.rtt = spec.rtt.map(|rtt| rtt.placed(|file| run.join(file)));
    spec.tls_ca = spec.tls_ca.map(|file| run.join(file));
    spec
}

/// The path from the root on; one that is not UTF-8 then stays as typed.
fn make_absolute(word: &mut String) {
    let Input::File(_) = Input::from(word.as_str()) else { return };
    if let Some(absolute) = std::path::absolute(&*word).ok().as_deref().and_then(Path::to_str) {
        *word = absolute.to_owned();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ldplayer_workload::RulesFile;

    #[test]
    fn a_specification_outlives_its_files() {
        let folder = tempfile::tempdir().unwrap();
        let (rules, shares) = (folder.path().join("rules.toml"), folder.path().join("classes.toml"));
        std::fs::write(&rules, "[[rule]]\nset = { do = true }\n").unwrap();
        std::fs::write(&shares, "[[class]]\nname = 'a'\nshare = '100 %'\npipeline = 2\n").unwrap();
        let spec = RunSpec {
            trace: vec!["a.pcap".into(), "-".into()],
            rules: vec![RulesFile::from(rules.clone())],
            transport_shares: Some(shares.clone()),
            ..RunSpec::default()
        };
        let embedded = embed(spec.clone()).unwrap();
        drop(folder);
        assert!(Path::new(&embedded.trace[0]).is_absolute() && embedded.trace[1] == "-");
        assert_eq!(embedded.class[0].policy.pipeline, Some(2));
        assert_eq!(embed(embedded.clone()).unwrap(), embedded);
        let error = embed(spec).unwrap_err().to_string();
        assert!(error.starts_with(&format!("{}: ", rules.display())), "{error}");
    }
}
