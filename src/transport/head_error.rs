//! Why the head of a request is rejected before the request reaches a handler.
//!
//! The transport knows no Status of Kubernetes: [`Answers`](super::listen::Answers) writes the response.

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
