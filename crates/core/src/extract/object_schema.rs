//! Where the schema of a resource's objects is.
//!
//! The schema itself is a text that the definition shares, or is compiled into the program. [`crate::query`] makes types
//! of expressions out of it.

use std::sync::Arc;

use crate::crd::Schema;

/// The schema of the objects of one version of a resource.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ObjectSchema {
    /// It is not known, or must not be shown.
    #[default]
    Unknown,
    /// That of a CustomResourceDefinition.
    Custom(Schema),
    /// That of a built-in kind.
    BuiltIn(Arc<BuiltInName>),
}

/// The name of a built-in kind.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct BuiltInName {
    /// Its group; empty for the core group.
    pub group: String,
    /// Its version.
    pub version: String,
    /// Its kind.
    pub kind: String,
}
