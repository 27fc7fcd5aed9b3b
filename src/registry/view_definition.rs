//! A View that `operator::views` has accepted.

use std::sync::Arc;

use super::consumer::ConsumerTerms;
use crate::extract::Prune;
use crate::selector::{FieldExpression, LabelSelector};

/// What a View shows of one resource, in every version that is served.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ViewPart {
    /// The group; empty for the core group.
    pub group: String,
    /// The plural name.
    pub resource: String,
    /// Only objects of these namespaces; empty: of all.
    pub namespaces: Vec<String>,
    /// Only objects with these labels.
    pub labels: LabelSelector,
    /// Only objects with these values.
    pub fields: Vec<FieldExpression>,
    /// The parts that are left out of them.
    pub prune: Arc<Prune>,
}

/// Whose permissions decide.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ViewRights {
    /// The permissions of the caller.
    #[default]
    Caller,
    /// The right to use the View.
    View,
}

/// The definition of a View.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ViewDefinition {
    /// One for each resource.
    pub parts: Vec<ViewPart>,
    /// Whose permissions decide.
    pub rights: ViewRights,
    /// What the selection takes from its caller.
    pub consumer: ConsumerTerms,
    /// Whether reads must not be older than their request.
    pub is_strong: bool,
}
