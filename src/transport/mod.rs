//! Serves HTTP/1.1 and HTTP/2 over sockets, with or without TLS.
//!
//! This module knows nothing of Kubernetes: [`listen::Answers`] is the service that responds to requests, and
//! [`head_error`] is the error of a request that is rejected before it reaches the service. [`crate::flow_control`]
//! limits connections and long heads. The head of a request is its first line and its headers.
//!
//! | File | What it does |
//! |---|---|
//! | [`listen`] | accepts sockets and serves connections until the process ends |
//! | [`tls`] | encrypts, and reloads certificates |
//! | `heads` | reads the heads of requests before hyper does, with bounds that hyper does not have |
//! | [`write_timeout`], `stream_timeout`, `pace` | end connections and streams whose client stopped reading |
//! | [`websocket`] | sends a body over a WebSocket, after the connection was upgraded |
//! | `turn_away` | responds to connections that are rejected because of a limit |

pub mod head_error;
pub(crate) mod heads;
pub mod listen;
pub(crate) mod pace;
pub(crate) mod stream_timeout;
pub mod tls;
mod turn_away;
pub(crate) mod websocket;
pub mod write_timeout;
