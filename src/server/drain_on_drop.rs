//! Reads a request body to its end, even after its receiver has stopped reading.
//!
//! The API server responds to a body that is too large before it has all of it. If the rest stayed unread here, the
//! connection would be reset while the client still writes. The client would see the reset instead of the response. The
//! rest of the body is discarded, up to a bound of size and time. Go's server waits before it closes a connection for
//! the same reason.

use std::error::Error;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use http_body_util::BodyExt;
use tokio::runtime::Handle;
use tokio::time::timeout;

use crate::registry::upstream::UpstreamBody;

/// The maximum number of bytes that are read after the receiver has stopped.
const MOST: usize = 64 << 20;
/// The maximum time for which they are read.
const PATIENCE: Duration = Duration::from_secs(10);

/// A request body whose rest is read in a task when it is dropped.
pub(super) struct DrainOnDrop {
    /// `None` once the body has ended or failed.
    body: Option<UpstreamBody>,
}

impl DrainOnDrop {
    /// Wraps a request body, so that its rest is read when it is dropped. A body without a rest is returned unchanged.
    pub(super) fn wrap(body: UpstreamBody) -> UpstreamBody {
        if body.is_end_stream() { body } else { DrainOnDrop { body: Some(body) }.boxed_unsync() }
    }
}

impl Body for DrainOnDrop {
    type Data = Bytes;
    type Error = Box<dyn Error + Send + Sync>;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        let Some(body) = &mut self.body else { return Poll::Ready(None) };
        let polled = Pin::new(body).poll_frame(context);
        if matches!(polled, Poll::Ready(None | Some(Err(_)))) {
            self.body = None;
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.as_ref().is_none_or(Body::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.body.as_ref().map_or_else(|| SizeHint::with_exact(0), Body::size_hint)
    }
}

impl Drop for DrainOnDrop {
    /// Starts a task that reads the rest of the body. Without a runtime, such as at the end of the process, the rest
    /// stays unread.
    fn drop(&mut self) {
        let rest = self.body.take().filter(|body| !body.is_end_stream());
        if let Some((rest, runtime)) = rest.zip(Handle::try_current().ok()) {
            runtime.spawn(timeout(PATIENCE, discard(rest)));
        }
    }
}

/// Reads and discards the rest of a body, up to [`MOST`] bytes.
async fn discard(mut rest: UpstreamBody) {
    let mut bytes = 0;
    while let Some(Ok(frame)) = rest.frame().await {
        bytes += frame.data_ref().map_or(0, Bytes::len);
        if bytes > MOST {
            break;
        }
    }
}
