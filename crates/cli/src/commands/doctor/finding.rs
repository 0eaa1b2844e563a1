//! One line of the answer: found, needed, how to lift.

use serde::Serialize;

/// One line of the answer.
#[derive(Serialize)]
pub struct Finding {
    /// What was looked at.
    pub name: &'static str,
    /// What it is.
    pub found: String,
    /// What it should be, and for what.
    pub needed: &'static str,
    /// Whether it is.
    pub ok: bool,
    /// Whether nothing runs without it.
    pub essential: bool,
    /// The command that lifts the limit.
    pub lift: String,
}

impl Finding {
    /// From something looked at.
    pub fn new(
        name: &'static str,
        found: impl Into<String>,
        needed: &'static str,
        ok: bool,
        lift: impl Into<String>,
    ) -> Self {
        Self { name, found: found.into(), needed, ok, essential: false, lift: lift.into() }
    }

    /// From something tried.
    pub fn of(
        name: &'static str,
        tried: Result<String, String>,
        needed: &'static str,
        lift: impl Into<String>,
    ) -> Self {
        let ok = tried.is_ok();
        Self::new(name, tried.unwrap_or_else(|why| why), needed, ok, lift)
    }

    /// The same, without which nothing runs.
    pub fn essential(self) -> Self {
        Self { essential: true, ..self }
    }
}
