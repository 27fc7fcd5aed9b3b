//! The schema of a version, as JSON text.
//!
//! There may be many CRDs, each of the maximum length that an API server stores. The parsed value of a schema takes
//! several times the memory of its text, and the author of the schema decides how many times. So only the text is
//! stored. Code that needs the value parses it, and drops it after use.

use std::fmt;
use std::sync::Arc;

use serde_json::{Map, Value};

use crate::json::tree;

/// The maximum nesting of a CustomResourceDefinition, in levels. Functions on schemas recurse once for each level. At
/// this bound they need less than the stack of a worker, even without optimization; tests check this.
pub const DEFINITION_LEVELS: usize = 500;

/// A schema as compact JSON. Two schemas are equal if their texts are equal.
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

    /// Parses the schema. It always succeeds, because only CRDs within [`DEFINITION_LEVELS`] are read.
    pub fn to_value(&self) -> Value {
        tree::value(&self.0, DEFINITION_LEVELS).unwrap_or_default()
    }
}

impl fmt::Debug for Schema {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Schema({})", String::from_utf8_lossy(&self.0))
    }
}
