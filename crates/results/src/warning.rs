//! Doubts about a run, each with what the user can do about it.

use serde::{Deserialize, Serialize};

/// What a warning is about.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum About {
    /// How the run was made.
    #[default]
    Replay,
    /// What the server did.
    Server,
}

/// A doubt about the run, with what the user can do about it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Warning {
    /// A stable word for programs, such as `fell_behind`.
    pub code: String,
    /// What was seen.
    pub text: String,
    /// What to do; empty where nothing need be done.
    pub remedy: String,
    /// What it is about.
    #[serde(default)]
    pub about: About,
}

impl Warning {
    /// A warning from its three parts.
    pub fn new(code: &str, text: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { code: code.to_owned(), text: text.into(), remedy: remedy.into(), about: About::Replay }
    }

    /// A warning about the server.
    pub fn of_server(code: &str, text: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { about: About::Server, ..Self::new(code, text, remedy) }
    }
}
