//! One version of a kind, with k8s-openapi's type.

use std::borrow::Cow;

use k8s_openapi::ListableResource;
use schemars::{JsonSchema, SchemaGenerator};

/// One version of a kind, with k8s-openapi's type.
#[derive(Clone, Copy, Debug)]
pub struct ServedVersion {
    /// The version, such as `v1`.
    pub(super) version: &'static str,
    /// The kind of a list of its objects, such as `PodList`.
    pub(super) list_kind: &'static str,
    /// Adds its schema, and those it refers to, to a generator. For `schemas`.
    pub(super) add_schema: fn(&mut SchemaGenerator),
    /// Returns the name of its definition, such as `io.k8s.api.core.v1.Pod`. For `schemas`.
    pub(super) definition: fn() -> Cow<'static, str>,
    /// Group, kind, plural name and the type of the scope, as k8s-openapi has them. For the test of the table.
    #[cfg(test)]
    pub(super) names: (&'static str, &'static str, &'static str, fn() -> &'static str),
}

impl ServedVersion {
    /// The version of which `K` is the type.
    pub(super) const fn for_type<K>() -> ServedVersion
    where
        K: ListableResource + JsonSchema,
    {
        ServedVersion {
            version: K::VERSION,
            list_kind: K::LIST_KIND,
            add_schema: |generator| {
                generator.subschema_for::<K>();
            },
            definition: K::schema_name,
            #[cfg(test)]
            names: (K::GROUP, K::KIND, K::URL_PATH_SEGMENT, std::any::type_name::<K::Scope>),
        }
    }
}
