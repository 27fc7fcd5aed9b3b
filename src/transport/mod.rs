//! HTTP/1.1 and HTTP/2 over sockets, with or without TLS: bytes in, bytes out.
//!
//! Knows nothing of Kubernetes: [`listen::Answers`] is the service that answers requests, and [`head_error`] is why a
//! request is rejected before it reaches the service. [`crate::flow_control`] decides which connections and heads
//! have a place.
//!
//! | File | What it does |
//! |---|---|
//! | [`listen`] | accepts sockets and serves connections until the process ends |
//! | [`tls`] | encrypts, and reloads certificates |
//! | `heads` | reads the heads of requests before hyper does, with bounds that hyper does not have |
//! | [`write_timeout`], `stream_timeout`, `pace` | end connections and streams whose client stopped reading |
//! | `turn_away` | answers connections for which there is no place |

pub mod head_error;
pub(crate) mod heads;
pub mod listen;
pub(crate) mod pace;
pub(crate) mod stream_timeout;
pub mod tls;
mod turn_away;
pub mod write_timeout;
