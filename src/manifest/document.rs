//! The one document of a request or of a file: read within a budget of memory, and compared with the kind that it must have.
//!
//! Which members the document may have is in [`super::shape`].

use serde_json::{Value, json};

use super::budget::MemoryBudget;
use super::yaml::{SingleDocumentError, Syntax, single};
use crate::model::quote;

/// What the values of one document may take, as [`MemoryBudget`] counts. Reviews of a Pod that a cluster would store take a few MiB.
const MEMORY: usize = 16 << 20;

/// Reads the one document of a text.
///
/// # Errors
/// What is wrong with it.
pub fn document(bytes: &[u8], form: Syntax) -> Result<Value, String> {
    single(bytes, form, &mut MemoryBudget::new(MEMORY)).map_err(|error| match error {
        SingleDocumentError::Invalid(broken) => format!("line {}: {}", broken.line, broken.cause),
        SingleDocumentError::None | SingleDocumentError::Several => error.to_string(),
    })
}

/// The version and kind that a document must have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Expected<'e> {
    /// Group and version.
    pub api_version: &'e str,
    /// Kind.
    pub kind: &'e str,
}

impl Expected<'_> {
    /// Compares a document with it, and adds what the document does not state, which upstream takes from the path.
    ///
    /// # Errors
    /// The message of a bad request.
    pub fn check(&self, value: &mut Value) -> Result<(), String> {
        for (member, expected) in [("apiVersion", self.api_version), ("kind", self.kind)] {
            match value.get(member).and_then(Value::as_str).unwrap_or_default() {
                // A list or a text has no members; its shape is checked next.
                "" if value.is_object() => value[member] = json!(expected),
                "" => {}
                sent if sent == expected => {}
                sent if member == "apiVersion" => {
                    return Err(format!(
                        "the API version in the data ({sent}) does not match the expected API version ({expected})"
                    ));
                }
                sent => return Err(self.unreadable(&format!("kind: {sent} is not {expected}"))),
            }
        }
        Ok(())
    }

    /// The message of a bad request, for a document that cannot be read.
    pub fn unreadable(&self, cause: &str) -> String {
        let version = self.api_version.rsplit('/').next().unwrap_or_default();
        let kind = self.kind;
        format!("{kind} in version {} cannot be handled as a {kind}: {cause}", quote(version))
    }
}
