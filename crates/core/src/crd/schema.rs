//! The schema of a version, as JSON text.
//!
//! There may be many definitions, each as long as an API server stores. The value of a schema takes several times the
//! memory of its text, and its author decides how many times. So only the text is stored; code that needs the value
//! parses it for the moment.

use std::fmt;
use std::sync::Arc;

use serde_json::{Map, Value};

use crate::json::tree;

/// Levels of a CustomResourceDefinition. Functions on schemas recurse once for each level. At this bound they need less
/// than the stack of a worker, even without optimization; tests check this.
pub const DEFINITION_LEVELS: usize = 500;

/// A schema as compact JSON. Two are equal if their texts are.
#[derive(Clone, PartialEq, Eq)]
pub struct Schema(Arc<[u8]>);

impl Schema {
    /// Serializes a schema.
    pub fn from_object(schema: &Map<String, Value>) -> Schema {
        // Maps with texts as keys are always JSON.
        Schema(serde_json::to_vec(schema).unwrap_or_default().into())
    }

    /// The schema as JSON.
    pub fn json(&self) -> &Arc<[u8]> {
        &self.0
    }

    /// Parses the schema. The definition was read within [`DEFINITION_LEVELS`].
    pub fn to_value(&self) -> Value {
        tree::value(&self.0, DEFINITION_LEVELS).unwrap_or_default()
    }
}

impl fmt::Debug for Schema {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Schema({})", String::from_utf8_lossy(&self.0))
    }
}
