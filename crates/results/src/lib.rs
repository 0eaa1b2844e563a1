//! The run directory: rows, summary, verdict and report of a run.
