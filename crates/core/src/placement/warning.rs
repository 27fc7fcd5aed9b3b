//! Warnings about a Pod or a workload that do not prevent a result.
//!
//! A warning has its field apart from its message. The owner of a manifest needs the path in the Pod, the sender of a
//! review the path in the review. [`super::unknown`] reports fields that do not exist, [`super::validate`] the others.

use std::fmt;

use crate::model::quote;

/// One warning.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Warning {
    /// A field that the Kubernetes API does not have: an API server drops it.
    UnknownField {
        /// The path of the field.
        field: String,
        /// What to use instead of a field that was proposed but never released, in brackets; usually empty.
        hint: &'static str,
    },
    /// A warning of an API server about a field when it creates the object.
    OfField {
        /// The path of the field.
        field: String,
        /// The message about the field.
        message: String,
    },
    /// A warning of fieldcache that no API server has.
    Note(String),
}

impl Warning {
    /// Whether the field does not exist.
    pub fn is_unknown_field(&self) -> bool {
        matches!(self, Warning::UnknownField { .. })
    }

    /// Whether an API server has this warning.
    pub fn is_upstream(&self) -> bool {
        !matches!(self, Warning::Note(_))
    }

    /// The warning with its path prefixed by `outer`; a note has no path and remains as it is.
    #[must_use]
    pub fn within(&self, outer: &str) -> Warning {
        let mut warning = self.clone();
        if let Warning::UnknownField { field, .. } | Warning::OfField { field, .. } = &mut warning {
            *field = format!("{outer}.{field}");
        }
        warning
    }
}

impl fmt::Display for Warning {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Warning::UnknownField { field, hint } => write!(formatter, "unknown field {}{hint}", quote(field)),
            Warning::OfField { field, message } => write!(formatter, "{field}: {message}"),
            Warning::Note(text) => formatter.write_str(text),
        }
    }
}
