//! fieldcache: one indexed store of each resource of a cluster, served over the ordinary Kubernetes API.
//!
//! This page is the map. A CustomResourceDefinition says which of its fields are selectable, and [`extract`] turns that
//! into a validated extractor. [`store`] holds every object once, compressed, with a posting list for every field value
//! and every label. [`query`] evaluates selectors from those lists, and [`openapi`] publishes the fields. The modules
//! around this core read objects (`source`), serve them (`server`), and start all of it (`runtime`, `cli`).
//! ARCHITECTURE.md has a diagram, and states where to start.
//!
//! # The core, the crate `fieldcache-core`: no IO, no clock, no environment, no logging; decisions are returned as data
//!
//! | module | content |
//! |---|---|
//! | [`model`] | names, keys, versions, and [`model::Record`], the one form in which an object enters a store |
//! | [`json`] | JSON bytes: read without recursion, weighed, and written as Go writes them |
//! | [`yaml`] | YAML, written from JSON in the styles of kubectl and go-yaml |
//! | [`selector`] | label and field selectors: text and wire forms, matching, printing back |
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
//!
//! # The edge
//!
//! | module | content |
//! |---|---|
//! | `kinds` | fieldcache's own kinds: FieldCache, View, SelectableResource, and their CRDs |
//! | `operator` | in the cluster: controllers of these kinds, leader election |
//! | `manifest` | YAML and JSON texts, parsed into values with their lines |
//! | `source` | a folder or a cluster, read into stores |
//! | `request` | the RequestInfo of a request: method, path and query, read once |
//! | `registry` | the resources that are served now; filled by `source`, read by `server` |
//! | `fair_semaphore` | permits that users take turns for: large lists, reviews |
//! | `access` | authentication and authorization; the operator's server only |
//! | `audit` | the audit log, as `audit.k8s.io/v1` events; the operator's server only |
//! | `flow_control` | limits and fairness: connections, seats, lists, watches, bodies, unread bytes |
//! | `transport` | HTTP/1.1 and HTTP/2 over sockets, TLS, timeouts; knows nothing of Kubernetes |
//! | `wire` | the formats of Kubernetes' responses: JSON, YAML, protobuf, Table, Status, bodies, negotiation |
//! | `placement_service` | PlacementReviews, from a document to a status, without HTTP |
//! | `dependents` | the objects that an object owns, over all stores, without HTTP |
//! | `server` | the request pipeline and its handlers: discovery, get, list, watch, OpenAPI, reviews, forwarding |
//! | `metrics` | requests, stores and the process, for Prometheus |
//! | `telemetry` | logs |
//! | `runtime` | the parts that `serve` and `operator` start: the thread of the source, the tasks of the server, certificates, metrics |
//! | `cli` | commands: their options and output |
//!
//! # Invariants
//!
//! - One task mutates a [`store::Store`]; readers hold a [`store::Snapshot`] and never a lock across an await.
//! - A change is visible to lists before its event reaches a watcher: both read the same published snapshot.
//! - A relist is invisible until it is complete.
//! - An object that cannot be read is reported, and its previous version is removed.
//! - Every queue has a bound and a stated policy when full.
//! - Only [`model::Version`] compares resourceVersions; only `wire::api_error` chooses status codes; only
//!   `source::feed` writes to a store.
//! - The core cannot fail on a valid object.

#![cfg_attr(test, expect(clippy::wildcard_enum_match_arm, reason = "a test names the case that it expects"))]

pub use fieldcache_core::{
    advise, builtin, crd, extract, json, model, openapi, placement, printer, protobuf, query, schema, selector, store,
    subscribe, yaml,
};

pub mod access;
pub mod audit;
pub mod cli;
pub mod dependents;
pub mod fair_semaphore;
pub mod flow_control;
pub mod kinds;
pub mod manifest;
pub mod metrics;
pub mod operator;
pub mod placement_service;
pub mod registry;
pub mod request;
pub mod runtime;
pub mod server;
pub mod source;
pub mod telemetry;
pub mod transport;
pub mod wire;

#[cfg(test)]
mod tidy;
