//! The test bed: fieldcache beside real Kubernetes components, all on loopback.
//!
//! Nothing that a test depends on imitates Kubernetes (the benchmarks' [`generator`] does, for load alone). The
//! components are built from their own source ([`components`], `e2e/go`) and started with a throw-away certificate
//! authority in seconds ([`control_plane`]). They get the same requests as fieldcache ([`fieldcache`]) from one HTTP
//! client that adds nothing to what a test sends ([`http`]).
//!
//! | room | what it is |
//! |---|---|
//! | [`components`] | builds kube-apiserver, kube-controller-manager, kubectl, etcd and our Go programs; says where they are |
//! | [`conformance`] | suites of others, beside kube-apiserver alone and through fieldcache |
//! | [`versions`] | builds kube-apiserver of other Kubernetes versions, and says which one tests run beside |
//! | [`clients`] | builds the programs that run real clients of other languages, `e2e/clients` |
//! | [`quiet`], [`calm`] | how often an operator writes; what is requested of a quiet cluster |
//! | [`fabric8`] | an informer of fabric8's Java client, beside the tests |
//! | [`process`] | a process that cannot outlive the test, with its output in files |
//! | [`run_directory`] | where a run keeps its data and logs; swept by the next run |
//! | [`certificates`] | the throw-away certificate authority |
//! | [`control_plane`] | etcd and kube-apiserver, optionally kube-controller-manager |
//! | [`conversion_webhook`] | the webhook behind the two-version fixtures |
//! | [`fixtures`] | the CustomResourceDefinitions of the KEP's tests |
//! | [`objects`] | making namespaces, definitions and objects, and waiting until they are served |
//! | [`fieldcache`] | the program under test |
//! | [`viewed`] | an operator with one View |
//! | [`faults`] | what can go wrong on the lines and in the programs, and the proxy that makes it go wrong |
//! | [`hostile`] | attacks, each with a bound in memory and time, and a well-behaved client beside them |
//! | [`fuzz`] | fuzzed objects of every built-in kind, from kube-apiserver and from fieldcache |
//! | [`checker`] | what clients received, against what happened |
//! | [`history`], [`selection`] | the true history of a resource, read from etcd, and what a selection makes of it |
//! | [`workload`] | random changes of resources at a steady pace |
//! | [`relay`] | requests forwarded from any address of this machine, with what their responses weighed |
//! | [`http`] | one request, or one open watch, against either side |
//! | [`kubectl`] | the real kubectl with a private home |
//! | [`shell`], [`pod`] | what a person types; what a Pod is to the program in it |
//! | [`openapi`] | protobuf OpenAPI documents read by the decoder Go clients use |
//! | [`placement`] | the plugins of kube-scheduler as the judge of placement |
//! | [`compare`] | two JSON documents, and where they differ |
//! | [`corpus`] | the seeded corpora of the benchmarks |
//! | [`generator`] | a load source for benchmarks; never for tests of behaviour |
//! | [`routing`] | the router of watches with prepared changes, for what routing alone takes |
//! | [`accounting`], [`statistics`] | CPU and memory of a process; medians and percentiles |
//! | [`eventually`] | polling with a deadline: the only sleep |
//! | [`random`] | a seeded generator |
//! | [`unique`] | names no other test uses, which is how tests share a control plane |
//!
//! # Invariants
//!
//! - Tests sharing a control plane touch only namespaces and API groups whose names come from [`unique`].
//! - Every wait has a deadline, and its failure shows the tail of the logs concerned.
//! - A process dies with the test that started it, however the test ends.
//! - Nothing is fetched while tests run; `cargo run -p e2e --bin components` did that before.

#![expect(clippy::wildcard_enum_match_arm, reason = "a test names the case that it expects")]

pub mod accounting;
pub mod calm;
pub mod certificates;
pub mod checker;
pub mod clients;
pub mod compare;
pub mod components;
pub mod conformance;
pub mod control_plane;
pub mod conversion_webhook;
pub mod corpus;
pub mod eventually;
pub mod fabric8;
pub mod faults;
pub mod fieldcache;
pub mod fixtures;
pub mod fuzz;
pub mod generator;
pub mod history;
pub mod hostile;
pub mod http;
pub mod kubectl;
pub mod objects;
pub mod openapi;
pub mod placement;
pub mod pod;
pub mod ports;
pub mod process;
pub mod quiet;
pub mod random;
pub mod relay;
pub mod routing;
pub mod run_directory;
pub mod selection;
pub mod shell;
pub mod statistics;
pub mod unique;
pub mod versions;
pub mod viewed;
pub mod websocket;
pub mod workload;
