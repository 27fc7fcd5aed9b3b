//! Reads the pages of a list to their end; of pages of metadata it takes keys and versions.

use std::time::Duration;

use bytes::Bytes;
use http_body_util::BodyExt;
use tokio::time::timeout;

use super::connection::{Connection, RequestError};
use super::gunzip::PlainBody;
use super::pages::{Page, PageEnd};
use super::watch_decoder::{self, MetadataPage};

/// Objects in a page, as in every other list.
pub(super) const PAGE: usize = 500;

/// The most objects that are read in a page: a server may ignore the limit of the request.
const MOST_ENTRIES: usize = 1_000_000;

/// The most bytes of names and namespaces that are read in a page.
const MOST_KEY_BYTES: usize = 64 << 20;

/// Timeout of a list that sends nothing.
const SILENCE: Duration = Duration::from_secs(60);

const ACCEPT: &str = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";

/// Where pages of metadata come from.
pub trait Pages: Sync {
    /// Requests the page at a path.
    ///
    /// # Errors
    /// [`RequestError`] if the request fails, or the response is not a page of a list.
    fn page(&self, path: &str) -> impl Future<Output = Result<MetadataPage, RequestError>> + Send;
}

impl Pages for Connection {
    /// Also fails if the page has more objects than [`MOST_ENTRIES`], or more bytes of names than [`MOST_KEY_BYTES`].
    async fn page(&self, path: &str) -> Result<MetadataPage, RequestError> {
        let body = self.get(path, ACCEPT).await?.into_body();
        let (mut entries, mut key_bytes) = (Vec::new(), 0);
        let end = read_page(self, path, body, |item| {
            let entry = watch_decoder::entry(&item).map_err(|error| self.broken(path, &error))?;
            key_bytes += entry.0.as_str().len();
            entries.push(entry);
            if entries.len() > MOST_ENTRIES {
                return Err(self.unexpected(path, &format!("more than {MOST_ENTRIES} objects in one page")));
            }
            if key_bytes > MOST_KEY_BYTES {
                return Err(self.unexpected(path, &format!("more than {MOST_KEY_BYTES} bytes of names in one page")));
            }
            Ok(())
        });
        let PageEnd { version, next, remaining } = end.await?;
        Ok(MetadataPage { entries, version, next, remaining })
    }
}

/// Reads a page of a list to its end, and calls `take` with each item. `path` is for errors.
///
/// # Errors
/// [`RequestError`] if the body breaks off, stalls or is not a list, or if `take` fails.
pub(super) async fn read_page(
    connection: &Connection,
    path: &str,
    mut body: PlainBody,
    mut take: impl FnMut(Bytes) -> Result<(), RequestError> + Send,
) -> Result<PageEnd, RequestError> {
    let mut page = Page::with_budget(connection.unfinished());
    loop {
        let chunk = match timeout(SILENCE, body.frame()).await {
            Err(_) => return Err(connection.unexpected(path, "the list has stalled")),
            Ok(None) => break,
            Ok(Some(frame)) => frame.map_err(|error| connection.broken(path, &error))?.into_data().unwrap_or_default(),
        };
        page.push(chunk);
        while let Some(item) = page.next_item().map_err(|error| connection.broken(path, &error))? {
            take(item)?;
        }
    }
    page.finish().map_err(|error| connection.broken(path, &error))
}
