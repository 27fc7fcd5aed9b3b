//! What people are warned of about a Pod or a workload that is answered all the same.
//!
//! Kept as field and words, because the same warning has a path in the Pod for whoever holds the manifest, and one in the review
//! for whoever sent that. Fields that do not exist come from [`super::unknown`], the others from [`super::validate`].

use std::fmt;

use crate::model::quote;

/// One warning.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Warning {
    /// A field that the Kubernetes API does not have: an API server drops it.
    UnknownField {
        /// Its path.
        field: String,
        /// What a proposal's field became, in brackets; mostly empty.
        hint: &'static str,
    },
    /// What an API server says about a field when it creates the object.
    OfField {
        /// Its path.
        field: String,
        /// Its words.
        message: String,
    },
    /// Ours: no API server says that.
    Note(String),
}

impl Warning {
    /// Whether the field does not exist.
    pub fn is_unknown_field(&self) -> bool {
        matches!(self, Warning::UnknownField { .. })
    }

    /// Whether an API server would say it.
    pub fn is_upstream(&self) -> bool {
        !matches!(self, Warning::Note(_))
    }

    /// The same with the path in a document that has this one at `outer`.
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
