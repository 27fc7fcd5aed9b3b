//! The pure core of fieldcache: no IO, no clock, no environment, no logging; decisions are returned as data.
//!
//! The crate `fieldcache` is its only user, and re-exports its modules. This crate needs no Kubernetes client, no HTTP
//! and no runtime: Cargo.toml has none of them, and `make guards` checks what its dependencies bring.
//!
//! | module | content |
//! |---|---|
//! | [`model`] | names, keys, versions, and [`model::Record`], the one form in which an object enters a store |
//! | [`json`] | JSON bytes: read without recursion, weighed, and written as Go writes them |
//! | [`yaml`] | YAML, written from JSON in the styles of kubectl and go-yaml |
//! | [`selector`] | label and field selectors: text and wire forms, matching, printing back |
//! | [`cel`] | CEL expressions over an object: compiled, typed, evaluated under a limit of cost |
//! | [`crd`] | a CustomResourceDefinition read once: names, versions, schemas, columns |
//! | [`schema`] | structural schemas: defaults, pruning, validation; folder mode only |
//! | [`extract`] | selectable fields: validated, merged, and extracted from an object's bytes in one pass |
//! | [`store`] | the indexed objects of one resource: one writer, snapshots for readers, history |
//! | [`query`] | selectors planned over the indexes, pages |
//! | [`subscribe`] | the event of a change for one selection |
//! | [`openapi`] | the documents, with `x-kubernetes-selectable-fields` |
//! | [`printer`] | built-in kinds as kubectl shows them: columns, and the cells of an object |
//! | [`protobuf`] | objects in Kubernetes protobuf, written from their JSON |
//! | [`placement`] | the nodes where a Pod may run, and why not the others: the scheduler's rules over an index of nodes and Pods |
//! | [`builtin`] | the built-in kinds of Kubernetes: one row each, with fields, columns, names and deprecations; their schemas in folder mode |
//! | [`advise`] | the load that a cache would save, by resource, from kube-apiserver's metrics |

#![cfg_attr(test, expect(clippy::wildcard_enum_match_arm, reason = "a test names the case that it expects"))]

pub mod advise;
pub mod builtin;
pub mod cel;
pub mod crd;
pub mod extract;
pub mod json;
pub mod model;
pub mod openapi;
pub mod placement;
pub mod printer;
pub mod protobuf;
pub mod query;
pub mod schema;
pub mod selector;
pub mod store;
pub mod subscribe;
pub mod yaml;
