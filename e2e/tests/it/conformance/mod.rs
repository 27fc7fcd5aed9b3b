//! The conformance cases of KEP-4358, upstream's own and the ones upstream never wrote, against `fieldcache serve`.
//!
//! | cases | where |
//! |---|---|
//! | S1-S8, the shirts of upstream's integration test | [`shirts`] |
//! | H1-H5, the host ports of upstream's conformance test | [`host_ports`] |
//! | O1-O5, E14-E16: OpenAPI | [`documents`] |
//! | V1-V7, C1: validation and where its causes point | `check_agreement` |
//! | G1, E1-E3, E5, E17-E20: what a field's value is | [`values`] |
//! | E4, E6, E7, E10: selectors and pages | [`selectors`] |
//! | E8, E9, E11: watches | [`watches`] |
//! | E12, E13: built-in types | [`built_in`] |
//!
//! O6 and D1 are about a feature gate that is locked since Kubernetes 1.32; there is nothing to switch off.

#![expect(clippy::print_stdout, reason = "each case says in a line what it requested")]

mod backend;
mod built_in;
mod documents;
mod host_ports;
mod selectors;
mod shirts;
mod values;
mod watches;
