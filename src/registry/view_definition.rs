//! A View that `operator::views` has accepted.

use std::sync::Arc;

use super::consumer::ConsumerTerms;
use super::view_namespaces::ViewNamespaces;
use crate::extract::Prune;
use crate::selector::{FieldExpression, LabelSelector};

/// The selection and the pruning of one resource in a View, for all served versions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ViewPart {
    /// The group; empty for the core group.
    pub group: String,
    /// The plural name.
    pub resource: String,
    /// The namespaces of the shown objects.
    pub namespaces: ViewNamespaces,
    /// The selector of the labels of the shown objects.
    pub labels: LabelSelector,
    /// The requirements on fields of the shown objects.
    pub fields: Vec<FieldExpression>,
    /// The fields that are left out of the shown objects.
    pub prune: Arc<Prune>,
}

/// Whose permissions decide about a request to a View.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ViewRights {
    /// The permissions of the caller.
    #[default]
    Caller,
    /// The permission to use the View.
    View,
}

/// The definition of a View.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ViewDefinition {
    /// One for each resource.
    pub parts: Vec<ViewPart>,
    /// Whose permissions decide.
    pub rights: ViewRights,
    /// The part of the selection that depends on the caller.
    pub consumer: ConsumerTerms,
    /// Whether reads must be at least as new as their request.
    pub is_strong: bool,
}
