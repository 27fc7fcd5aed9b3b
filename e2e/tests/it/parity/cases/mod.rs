//! The request cases, by subject. Each module is a few products of named dimensions and what no product expresses; the whole list is
//! [`all`].
//!
//! Names are `subject/what`, unique, and what [`super::allowed`] points to. Which subjects belong to which point of the wire is in
//! [`super::points`].

mod bookmarks;
mod builtin;
mod compression;
mod discovery;
mod faults;
mod fields;
mod labels;
mod list;
mod media;
mod metadata;
mod objects;
mod openapi;
mod paging;
mod protobuf;
mod shapes;
mod table;

use super::case::Case;

/// Every request case. Those that wait stand first, so that they wait beside the rest.
pub(crate) fn all() -> Vec<Case> {
    let mut cases = [
        bookmarks::cases(),
        list::cases(),
        objects::cases(),
        paging::cases(),
        shapes::cases(),
        discovery::cases(),
        labels::cases(),
        fields::cases(),
        builtin::cases(),
        table::cases(),
        metadata::cases(),
        protobuf::cases(),
        media::cases(),
        compression::cases(),
        faults::cases(),
        openapi::cases(),
    ]
    .concat();
    cases.sort_by_key(|case| !case.path.contains("{future}") && !case.path.contains("timeoutSeconds="));
    cases
}

/// Shirts of all namespaces.
const SHIRTS: &str = "/apis/shop.example.com/v1/shirts";

/// One of them.
const ONE: &str = "/apis/shop.example.com/v1/namespaces/a/shirts/x";

/// Small objects of a built-in kind: the large ones of the suite are in another namespace.
const CONFIG_MAPS: &str = "/api/v1/namespaces/work/configmaps";

const TABLE: &str = "application/json;as=Table;g=meta.k8s.io;v=v1";
const PARTIAL: &str = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";
const PARTIAL_LIST: &str = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";

/// Every kind of path that is no resource and no OpenAPI document.
const DISCOVERY: [(&str, &str); 14] = [
    ("the core versions", "/api"),
    ("the core group", "/api/v1"),
    ("an unknown version of the core group", "/api/v7"),
    ("the groups", "/apis"),
    ("a built-in group", "/apis/batch"),
    ("a built-in group version", "/apis/batch/v1"),
    ("a group", "/apis/shop.example.com"),
    ("a group version", "/apis/shop.example.com/v1"),
    ("an unknown group", "/apis/nowhere.example.com"),
    ("an unknown version", "/apis/shop.example.com/v7"),
    ("the version", "/version"),
    ("readiness", "/readyz"),
    ("one check", "/readyz/ping"),
    ("an unknown path", "/nowhere"),
];
