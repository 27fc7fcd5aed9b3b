//! Reads the single document of a request or a file, within a limit of memory, and checks its apiVersion and kind.
//!
//! [`super::shape`] checks which fields the document has.

use serde_json::{Value, json};

use super::budget::MemoryBudget;
use super::yaml::{SingleDocumentError, Syntax, single};
use crate::model::quote;

/// The maximum memory of the values of one document, in bytes, as [`MemoryBudget`] counts. Reviews of a Pod that a
/// cluster would store take a few MiB.
const MEMORY: usize = 16 << 20;

/// Reads the single document of a text, as JSON or YAML.
///
/// # Errors
/// The line and the cause, or that there is not exactly one document.
pub fn document(bytes: &[u8], form: Syntax) -> Result<Value, String> {
    single(bytes, form, &mut MemoryBudget::new(MEMORY)).map_err(|error| match error {
        SingleDocumentError::Invalid(invalid) => format!("line {}: {}", invalid.line, invalid.cause),
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
    /// Compares the apiVersion and kind of a document with these. Adds them if they are missing: upstream takes them
    /// from the path of the request.
    ///
    /// # Errors
    /// Another apiVersion or kind. The message is for a response with status 400.
    pub fn check(&self, value: &mut Value) -> Result<(), String> {
        for (member, expected) in [("apiVersion", self.api_version), ("kind", self.kind)] {
            match value.get(member).and_then(Value::as_str).unwrap_or_default() {
                // The caller checks next whether the document is an object.
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

    /// The message of a response with status 400, for a document that cannot be read.
    pub fn unreadable(&self, cause: &str) -> String {
        let version = self.api_version.rsplit('/').next().unwrap_or_default();
        let kind = self.kind;
        format!("{kind} in version {} cannot be handled as a {kind}: {cause}", quote(version))
    }
}
