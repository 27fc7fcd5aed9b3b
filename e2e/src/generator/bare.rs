//! A bare HTTP server that sends the same bytes again and again: what a long list costs when nothing has to be done for it.
//!
//! The same HTTP library as fieldcache's, one buffer, a Content-Length, no routing, no encoding.

use anyhow::{Context, Result};
use bytes::Bytes;
use http::StatusCode;
use tokio::net::TcpListener;

use super::serve::{connection, raw};

/// Serves these bytes to every request until the process ends.
///
/// # Errors
/// When no connection can be accepted.
pub async fn serve(bytes: Bytes, listener: TcpListener) -> Result<()> {
    loop {
        let (stream, _) = listener.accept().await.context("accepting a connection")?;
        let bytes = bytes.clone();
        tokio::spawn(connection(stream, move |_| {
            let bytes = bytes.clone();
            async move { raw(StatusCode::OK, bytes) }
        }));
    }
}
