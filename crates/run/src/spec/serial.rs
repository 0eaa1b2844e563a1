//! Specifications by serde: maps from the names of keys to their values.

use std::fmt;

use ldplayer_core::policy;
use serde::de::{Error, MapAccess, Visitor};
use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

use super::{RunSpec, VERSION};
use crate::keys::{KEYS, Key};

/// The key of the version.
const OF_VERSION: &str = "version";
/// The key of the client classes.
const OF_CLASSES: &str = "class";

impl Serialize for RunSpec {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry(OF_VERSION, &VERSION)?;
        for (name, value) in KEYS.iter().filter_map(|key| Some((key.name(), key.value(self)?))) {
            map.serialize_entry(name, &value)?;
        }
        for (key, value) in self.policy.given() {
            map.serialize_entry(key.name, &value)?;
        }
        if !self.class.is_empty() {
            map.serialize_entry(OF_CLASSES, &self.class)?;
        }
        map.end()
    }
}

impl<'de> Deserialize<'de> for RunSpec {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(Keys)
    }
}

struct Keys;

impl<'de> Visitor<'de> for Keys {
    type Value = RunSpec;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a table of the keys of a run")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<RunSpec, A::Error> {
        let mut spec = RunSpec::default();
        while let Some(name) = map.next_key::<String>()? {
            match name.as_str() {
                OF_CLASSES => spec.class = map.next_value()?,
                _ => set(&mut spec, &name, map.next_value()?).map_err(A::Error::custom)?,
            }
        }
        Ok(spec)
    }
}

/// Gives a key its value.
fn set(spec: &mut RunSpec, name: &str, value: Value) -> Result<(), String> {
    let set = match (Key::find(name), policy::Key::find(name)) {
        _ if name == OF_VERSION => of_version(&value),
        (Some(key), _) => key.set(spec, value),
        (_, Some(key)) => {
            crate::keys::word(&value).and_then(|word| spec.policy.set(key, &word).map_err(|error| error.to_string()))
        }
        (None, None) => return Err(format!("unknown key `{name}`")),
    };
    set.map_err(|error| format!("`{name}`: {error}"))
}

fn of_version(value: &Value) -> Result<(), String> {
    if *value == VERSION { Ok(()) } else { Err(format!("version {value} is not supported, only version {VERSION}")) }
}
