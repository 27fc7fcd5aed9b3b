//! A bare HTTP/2 server that writes the same bytes to many open streams: what a broadcast costs when nothing has to be decided for it.
//!
//! The same HTTP library and settings as fieldcache's. A stream has space for one chunk and the waker of its sender.
//! There is no routing, no encoding and no queue; a chunk that has not been sent yet is replaced by the next one.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use anyhow::{Context as _, Result};
use bytes::Bytes;
use http::{Method, Response, StatusCode};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full};
use hyper::body::{Body, Frame, Incoming};
use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::TcpListener;

/// fieldcache allows as many.
const STREAMS_PER_CONNECTION: u32 = 2_000;

/// One open stream.
#[derive(Debug, Default)]
struct Slot {
    chunk: Option<Bytes>,
    sender: Option<Waker>,
}

/// All of them.
type Slots = Arc<Mutex<Vec<Arc<Mutex<Slot>>>>>;

/// Serves until the process ends.
///
/// # Errors
/// When no connection can be accepted.
pub async fn serve(listener: TcpListener) -> Result<()> {
    let slots = Slots::default();
    loop {
        let (stream, _) = listener.accept().await.context("accepting a connection")?;
        let _ = stream.set_nodelay(true);
        let slots = slots.clone();
        tokio::spawn(async move {
            let service = service_fn(move |request| {
                let slots = slots.clone();
                async move { Ok::<_, Infallible>(answer(&slots, request).await) }
            });
            let mut builder = http2::Builder::new(TokioExecutor::new());
            builder.max_concurrent_streams(STREAMS_PER_CONNECTION);
            // A peer that breaks off is no failure.
            let _ = builder.serve_connection(TokioIo::new(stream), service).await;
        });
    }
}

async fn answer(slots: &Slots, request: http::Request<Incoming>) -> Response<UnsyncBoxBody<Bytes, Infallible>> {
    if request.method() == Method::POST {
        let status = match request.into_body().collect().await {
            Ok(body) => {
                write_to_all(slots, &body.to_bytes());
                StatusCode::OK
            }
            Err(_) => StatusCode::BAD_REQUEST,
        };
        let mut response = Response::new(Full::default().boxed_unsync());
        *response.status_mut() = status;
        return response;
    }
    let slot = Arc::<Mutex<Slot>>::default();
    lock(slots).push(slot.clone());
    Response::new(Open(slot).boxed_unsync())
}

fn write_to_all(slots: &Slots, chunk: &Bytes) {
    for slot in lock(slots).iter() {
        let mut slot = lock(slot);
        slot.chunk = Some(chunk.clone());
        let sender = slot.sender.take();
        drop(slot);
        if let Some(sender) = sender {
            sender.wake();
        }
    }
}

/// The body of one stream; it never ends.
struct Open(Arc<Mutex<Slot>>);

impl Body for Open {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let mut slot = lock(&self.0);
        if let Some(chunk) = slot.chunk.take() {
            return Poll::Ready(Some(Ok(Frame::data(chunk))));
        }
        slot.sender = Some(context.waker().clone());
        Poll::Pending
    }
}

fn lock<Held>(mutex: &Mutex<Held>) -> MutexGuard<'_, Held> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
