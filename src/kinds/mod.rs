//! The kinds of this API group: FieldCache, View, SelectableResource.
//!
//! Map: [`field_cache`], [`view`] and [`selectable_resource`] are one kind each, and share [`selectors`] and
//! [`conditions`]. [`Absence`] is the reason why the spec of an object is not in memory. [`definitions`] builds the
//! CustomResourceDefinitions from the types. `fieldcache crds` prints them, and `crds/` contains them.
//! `kubectl explain` shows the comments on the fields, so these are written for users.
//!
//! [`accept`] validates what a schema and CEL cannot: whether the resource exists, and whether it has the named fields.
//! Nothing here connects to a cluster.

mod absence;
pub mod accept;
pub mod conditions;
pub mod definitions;
#[expect(
    clippy::duplicated_attributes,
    reason = "several validation rules of one field are several attributes of one name"
)]
pub mod field_cache;
#[expect(
    clippy::duplicated_attributes,
    reason = "several validation rules of one field are several attributes of one name"
)]
pub mod selectable_resource;
pub mod selectors;
mod string_enum;
#[cfg(test)]
mod tests;
#[expect(
    clippy::duplicated_attributes,
    reason = "several validation rules of one field are several attributes of one name"
)]
pub mod view;

pub use absence::Absence;
pub use field_cache::{ExtraField, FieldCache, FieldCacheSpec, FieldCacheStatus, StoreScope};
pub use selectable_resource::{
    FieldOrigin, OpenApi, RejectedField, ResourceVersion, SelectableField, SelectableResource, SelectableResourceStatus,
};
pub use selectors::{FieldRequirementSpec, FieldSelectorSpec, LabelRequirementSpec, LabelSelectorSpec};
pub use view::{
    Authorization, Consistency, Consumer, ConsumerField, ConsumerValue, Endpoint, View, ViewResource, ViewSpec,
    ViewStatus,
};

pub use crate::model::own_groups::{GROUP, VERSION};
