//! The values of keys: how each type is read from words and files, and written.

use std::fmt::Display;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::str::FromStr;

use ldplayer_core::size::Size;
use ldplayer_core::time::Span;
use ldplayer_core::{Cidr, IgnoreRule};
use ldplayer_link::{Jitter, Loss, Rate, RttSource, Written};
use ldplayer_net::pace::Precision;
use ldplayer_replay::{DohMethod, Mapping, PathChoice, Sources};
use ldplayer_results::Expectation;
use ldplayer_trace::{Dependencies, RecordedRetries, Role, TextFormat};
use ldplayer_workload::{Passes, Qps, RulesFile, Timing};
use serde_json::Value;

use super::word;
use crate::words::{CoreShare, Lag, Server, Speed, TransportChoice};

/// How many values a key has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arity {
    /// None: it is there or not.
    Switch,
    /// One.
    One,
    /// Any number.
    Many,
}

/// A single value.
pub(super) trait Single: Sized {
    const ARITY: Arity = Arity::One;

    fn of(value: Value) -> Result<Self, String>;

    fn shown(&self) -> Value;
}

/// What a field of a specification holds: a value, one that may be missing, or a list.
pub(super) trait Field: Sized {
    const ARITY: Arity;

    fn read(value: Value) -> Result<Self, String>;

    /// `None` where it says nothing.
    fn write(&self) -> Option<Value>;
}

impl<T: Single> Field for T {
    const ARITY: Arity = T::ARITY;

    fn read(value: Value) -> Result<Self, String> {
        T::of(value)
    }

    fn write(&self) -> Option<Value> {
        Some(self.shown())
    }
}

impl<T: Single> Field for Option<T> {
    const ARITY: Arity = Arity::One;

    fn read(value: Value) -> Result<Self, String> {
        T::of(value).map(Some)
    }

    fn write(&self) -> Option<Value> {
        self.as_ref().map(Single::shown)
    }
}

/// A list, or its only value by itself.
impl<T: Single> Field for Vec<T> {
    const ARITY: Arity = Arity::Many;

    fn read(value: Value) -> Result<Self, String> {
        match value {
            Value::Array(values) => values.into_iter().map(T::of).collect(),
            value => Ok(vec![T::of(value)?]),
        }
    }

    fn write(&self) -> Option<Value> {
        (!self.is_empty()).then(|| self.iter().map(Single::shown).collect())
    }
}

/// Reads a text, a number, or true or false by the `FromStr` of its type.
fn parse<T: FromStr<Err: Display>>(value: &Value) -> Result<T, String> {
    word(value)?.parse().map_err(|error: T::Err| error.to_string())
}

/// Types that are written as text.
macro_rules! texts {
    ($($type:ty),* $(,)?) => {$(
        impl Single for $type {
            fn of(value: Value) -> Result<Self, String> {
                parse(&value)
            }

            fn shown(&self) -> Value {
                self.to_string().into()
            }
        }
    )*};
}

texts!(
    Server,
    Mapping,
    Timing,
    Qps,
    Passes,
    Span,
    TransportChoice,
    Sources,
    PathChoice,
    Precision,
    Lag,
    CoreShare,
    Cidr,
    Size,
    Role,
    TextFormat,
    RecordedRetries,
    Dependencies,
    Expectation,
    IgnoreRule,
    DohMethod,
    IpAddr,
    SocketAddr,
    Written<RttSource>,
    Written<Jitter>,
    Written<Loss>,
    Written<Rate>,
);

/// Types that are written as numbers.
macro_rules! numbers {
    ($($type:ty),* $(,)?) => {$(
        impl Single for $type {
            fn of(value: Value) -> Result<Self, String> {
                let word = word(&value)?;
                word.parse().map_err(|_| format!("`{word}` is not a whole number from 0 to {}", Self::MAX))
            }

            fn shown(&self) -> Value {
                (*self).into()
            }
        }
    )*};
}

numbers!(u16, u32, u64, usize);

/// Types whose files have them as serde does.
macro_rules! as_serde {
    ($($type:ty),* $(,)?) => {$(
        impl Single for $type {
            fn of(value: Value) -> Result<Self, String> {
                serde_json::from_value(value).map_err(|error| error.to_string())
            }

            fn shown(&self) -> Value {
                // A path that is no text cannot be in a file.
                serde_json::to_value(self).unwrap_or_default()
            }
        }
    )*};
}

as_serde!(String, PathBuf, RulesFile);

impl Single for Speed {
    fn of(value: Value) -> Result<Self, String> {
        parse(&value)
    }

    fn shown(&self) -> Value {
        self.0.into()
    }
}

impl Single for bool {
    const ARITY: Arity = Arity::Switch;

    fn of(value: Value) -> Result<Self, String> {
        let word = word(&value)?;
        word.parse().map_err(|_| format!("`{word}` is neither true nor false"))
    }

    fn shown(&self) -> Value {
        (*self).into()
    }
}
