//! Policies in files: maps of the keys that are set.

use std::fmt;

use serde::de::{Deserializer, Error, MapAccess, Visitor};
use serde::ser::{SerializeMap, Serializer};
use serde::{Deserialize, Serialize};

use super::{BadValue, KEYS, Key, PolicyOverrides, Value};
use crate::text;

impl PolicyOverrides {
    /// Sets a key to a value in its text form.
    ///
    /// # Errors
    /// What the key allows.
    pub fn set(&mut self, key: &Key, text: &str) -> Result<(), BadValue> {
        key.kind.parse(text).map(|value| (key.write_override)(self, value))
    }

    /// The keys that are given, with their values.
    pub fn given(&self) -> impl Iterator<Item = (&'static Key, Value)> {
        KEYS.iter().filter_map(|key| Some((key, (key.read_override)(self)?)))
    }
}

/// A map from keys with underscores to values as they are written.
impl Serialize for PolicyOverrides {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        for (key, value) in self.given() {
            map.serialize_entry(key.name, &value)?;
        }
        map.end()
    }
}

/// From a map whose every key is known; it may be the rest of a larger one that this one is flattened into.
impl<'de> Deserialize<'de> for PolicyOverrides {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(Keys)
    }
}

struct Keys;

impl<'de> Visitor<'de> for Keys {
    type Value = PolicyOverrides;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a table of connection policy keys")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<PolicyOverrides, A::Error> {
        let mut overrides = PolicyOverrides::default();
        while let Some(name) = map.next_key::<String>()? {
            let key = Key::find(&name).ok_or_else(|| A::Error::custom(format_args!("unknown key `{name}`")))?;
            let Text(text) = map.next_value()?;
            overrides.set(key, &text).map_err(|error| A::Error::custom(format_args!("`{name}`: {error}")))?;
        }
        Ok(overrides)
    }
}

/// A text, a number, or true or false, as text.
#[derive(Deserialize)]
struct Text(#[serde(deserialize_with = "text::deserialize")] String);

/// A count as a number, on and off as true and false, all else as text: what reads back.
impl Serialize for Value {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match *self {
            Self::Count(count) if count < u32::MAX => serializer.serialize_u32(count),
            Self::Switch(on) => serializer.serialize_bool(on),
            Self::Padding(octets) => serializer.serialize_u16(octets),
            other => serializer.collect_str(&other),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::{Policy, TlsVersion};

    fn some() -> PolicyOverrides {
        PolicyOverrides {
            idle_timeout: Some(1_500_000_000),
            pipeline: Some(3),
            nagle: Some(true),
            tls_version: Some(TlsVersion::Tls12),
            padding: Some(0),
            ..PolicyOverrides::default()
        }
    }

    #[test]
    fn overrides_are_read_back_from_what_they_say() {
        let text = serde_json::to_string(&some()).unwrap();
        assert_eq!(text, r#"{"idle_timeout":"1.5s","pipeline":3,"nagle":true,"tls_version":"1.2","padding":0}"#);
        assert_eq!(serde_json::from_str::<PolicyOverrides>(&text).unwrap(), some());
    }

    #[test]
    fn unknown_keys_and_values_are_errors() {
        let refusal = |text: &str| serde_json::from_str::<PolicyOverrides>(text).unwrap_err().to_string();
        assert!(refusal(r#"{"idle": 3}"#).contains("unknown key `idle`"));
        assert!(refusal(r#"{"pipeline": 0}"#).contains("`pipeline`: `0` is not a whole number from 1 to 32768"));
        assert!(refusal(r#"{"pipeline": [1]}"#).contains("a string, a number, true or false"));
    }

    #[test]
    fn what_is_given_first_wins() {
        let below = PolicyOverrides { pipeline: Some(9), early_data: Some(true), ..PolicyOverrides::default() };
        let all = some().or(below).over(Policy::default());
        assert_eq!((all.pipeline, all.early_data, all.nagle), (3, true, true));
    }
}
