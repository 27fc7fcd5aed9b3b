//! The errors of requests that are rejected before they reach a handler.
//!
//! The transport does not know Kubernetes' Status: [`Answers`](super::listen::Answers) creates the response.

use http::StatusCode;

use crate::flow_control::limit::Limited;

/// Why the transport rejects a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HeadError {
    /// 400: the head is not valid HTTP.
    Malformed(String),
    /// Another status code: the head is too long, or uses what the server does not implement.
    Unsupported(StatusCode, String),
    /// A limit was reached.
    Limited(Limited),
}

impl HeadError {
    /// The error as text, for logs.
    pub fn message(&self) -> &str {
        match self {
            HeadError::Malformed(message) | HeadError::Unsupported(_, message) => message,
            HeadError::Limited(limited) => &limited.message,
        }
    }
}
