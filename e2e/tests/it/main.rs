//! The one integration binary: a second one would link everything again and start a second control plane.
//!
//! One module a subject. [`harness`] tests the test bed itself; the others test fieldcache beside the real components.

#![expect(clippy::wildcard_enum_match_arm, reason = "a test names the case that it expects")]

mod access;
mod agents;
mod audit;
mod bad_input;
mod cel;
mod check_agreement;
mod clients;
mod commands;
mod compression;
mod conformance;
mod corpus;
mod coverage;
mod delete_collection;
mod facets;
mod faults;
mod freshness;
mod generator;
mod get;
mod harness;
mod hostile;
mod image;
mod kinds;
mod kubectl;
mod kubectl_beside;
mod limits;
mod logs;
mod manifests;
mod metrics;
mod non_interference;
mod openapi;
mod operator;
mod operators;
mod owners;
mod parity;
mod pass_through;
mod placement;
mod placing;
mod printers;
mod protobuf;
mod recipes;
mod request_info;
mod security;
mod self_check;
mod shards;
mod suites;
mod tls;
mod versions;
mod websocket;
