//! A connection to a server in this process, which serves a folder of manifests.
//!
//! No socket is opened. The requests pass the code of the server, so a folder is selected, sorted, counted and printed
//! like any other source.

use std::convert::Infallible;
use std::path::Path;
use std::sync::Arc;

use futures::future::BoxFuture;
use http::Request;
use kube::Client;
use kube::client::Body;
use tower::service_fn;

use crate::runtime::source::{self, SourceLocation, SourceOptions};
use crate::server::clock::Clock;
use crate::server::{Server, Settings};
use crate::source::connection::Connection;

/// Reads a folder. Returns the connection, and the future that reads the folder, which the caller must poll while it
/// uses the connection. The future ends only because of an internal error. `clock` is the time from which ages are
/// counted.
///
/// # Errors
/// The folder cannot be read.
pub(super) async fn open(folder: &Path, clock: Clock) -> anyhow::Result<(Connection, BoxFuture<'static, ()>)> {
    let opened = source::open(&SourceLocation::Folder(folder.to_owned()), &SourceOptions::default()).await?;
    let server = Arc::new(Server::new(opened.registry, Settings { clock, ..Settings::default() }));
    let answer = move |request: Request<Body>| {
        let server = server.clone();
        async move { Ok::<_, Infallible>(server.answer(request).await) }
    };
    Ok((Connection::over(Client::new(service_fn(answer), "default"), opened.name), opened.following))
}
