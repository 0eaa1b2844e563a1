//! Files of experiments: any text is a matrix of cells, none twice and each a run that is read back as it is printed, or an error of one line.
#![no_main]

use std::collections::HashSet;
use std::path::Path;

use ldplayer_experiment::Experiment;
use ldplayer_run::RunSpec;
use libfuzzer_sys::fuzz_target;

/// Cells that are looked at; the others are made in the same way.
const LOOKED_AT: usize = 8;

fuzz_target!(|text: &str| match Experiment::parse(text, Path::new("no-such-folder"), "fuzz") {
    Ok(experiment) => {
        let names: HashSet<&str> = experiment.cells.iter().map(|cell| cell.name.as_str()).collect();
        assert_eq!(names.len(), experiment.cells.len(), "a name stands for two cells: {text}");
        for cell in experiment.cells.iter().take(LOOKED_AT) {
            let printed = cell.spec.to_toml();
            let read = RunSpec::parse(&printed).unwrap_or_else(|error| panic!("{error}\n{printed}"));
            assert_eq!(format!("{read:?}"), format!("{:?}", cell.spec), "{printed}");
        }
    }
    Err(error) => ldplayer_fuzz::check_error((error.line, &error.what), text),
});
