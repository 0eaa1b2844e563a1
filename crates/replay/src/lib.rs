//! The timed replay engine: one worker per core.
