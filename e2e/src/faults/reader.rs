//! A light client that sends every kind of read and stores nothing. It reads lists of all kinds, walks through pages,
//! single objects, and watches from versions that another client received.

use std::io::Read as _;
use std::rc::Rc;
use std::time::Duration;

use anyhow::{Context, Result};
use bytes::Bytes;
use flate2::read::MultiGzDecoder;
use http::StatusCode;
use tokio::time::timeout;

use super::informer::{ANSWER, Read, answered, collection, read_event, read_list};
use super::notes::Notes;
use super::weather::pause;
use crate::checker::{ClientEvent, Page, RequiredFreshness, Seen};
use crate::history::Recorder;
use crate::http::{Answer, Client, Next, Request};
use crate::random::Random;
use crate::selection::Selection;
use crate::workload::Resource;

/// The time between two requests, in milliseconds.
const PAUSE: (u64, u64) = (10, 120);
/// How long a watch is read, in milliseconds.
const WATCHED: (u64, u64) = (100, 1_500);
/// Walks that were begun and are gone on with later.
const MOST_PAGES: usize = 40;

/// A client that sends reads.
#[derive(Debug)]
pub struct Reader {
    client: Client,
    resource: Resource,
    path: String,
    random: Random,
    notes: Notes,
    truth: Rc<Recorder>,
    walks: u64,
}

impl Reader {
    /// One that has sent no request yet. `truth` says what was there before a Strong read.
    #[must_use]
    pub fn new(
        client: Client,
        resource: &Resource,
        selection: &Selection,
        random: Random,
        notes: Notes,
        truth: Rc<Recorder>,
    ) -> Reader {
        let path = collection(resource, selection);
        Reader { client, resource: resource.clone(), path, random, notes, truth, walks: 0 }
    }

    /// What it writes down.
    #[must_use]
    pub fn notes(&self) -> Notes {
        self.notes.clone()
    }

    /// Goes on until it is dropped.
    ///
    /// # Errors
    /// When something came that is not of the protocol.
    pub async fn run(mut self) -> Result<()> {
        loop {
            let version = self.notes.board().version(&mut self.random);
            let is_compressed = self.random.below(4) == 0;
            match (self.random.below(10), version) {
                (0 | 1, _) => self.list("&resourceVersion=0", RequiredFreshness::Any, is_compressed).await?,
                (2, _) => self.list("", RequiredFreshness::Any, is_compressed).await?,
                (3, _) => self.list("", self.strong()?, is_compressed).await?,
                (4, Some(version)) => {
                    let query = format!("&resourceVersionMatch=NotOlderThan&resourceVersion={version}");
                    self.list(&query, RequiredFreshness::NotOlderThan(version), is_compressed).await?;
                }
                (5, Some(version)) => {
                    let query = format!("&resourceVersionMatch=Exact&resourceVersion={version}");
                    self.list(&query, RequiredFreshness::Exact(version), is_compressed).await?;
                }
                (6, Some(version)) if self.random.below(2) == 0 => {
                    self.walk(&format!("&resourceVersion={version}"), RequiredFreshness::Exact(version)).await?;
                }
                (6, _) => self.walk("", RequiredFreshness::Any).await?,
                (7 | 8, version) => self.get(version).await?,
                (_, Some(version)) => self.watch(version).await?,
                (_, None) => {}
            }
            let (shortest, longest) = PAUSE;
            pause(Duration::from_millis(self.random.between(shortest, longest))).await;
        }
    }

    fn strong(&self) -> Result<RequiredFreshness> {
        Ok(RequiredFreshness::Strong(self.truth.progress()?.1))
    }

    /// Sends a request; the answer decompressed, if it is one of success.
    async fn send(&self, path: &str, how: RequiredFreshness, is_compressed: bool) -> Result<Option<(u64, Answer)>> {
        let requested_at = self.notes.board().now();
        let mut request = Request::get(path);
        if matches!(how, RequiredFreshness::Strong(_)) {
            request = request.header("fieldcache-consistency", "Strong");
        }
        if is_compressed {
            request = request.header("accept-encoding", "gzip");
        }
        let Ok(mut answer) = answered(&self.notes, requested_at, timeout(ANSWER, self.client.send(request)).await)
        else {
            return Ok(None);
        };
        match decompressed(&answer) {
            Ok(plain) => answer.body = plain,
            Err(error) => {
                self.notes
                    .record(requested_at, ClientEvent::Failed(format!("a body that does not decompress: {error}")));
                return Ok(None);
            }
        }
        Ok(Some((requested_at, answer)))
    }

    async fn list(&mut self, query: &str, how: RequiredFreshness, is_compressed: bool) -> Result<()> {
        let path = format!("{}{query}", self.path);
        let Some((requested_at, answer)) = self.send(&path, how, is_compressed).await? else { return Ok(()) };
        let event = read_list(&answer, how)?.map_or_else(incomplete, ClientEvent::Listed);
        self.notes.record(requested_at, event);
        Ok(())
    }

    /// All pages of a list, unless something comes between.
    async fn walk(&mut self, query: &str, mut how: RequiredFreshness) -> Result<()> {
        self.walks += 1;
        let limit = self.random.between(1, 9) as usize;
        let mut query = query.to_owned();
        for _ in 0..MOST_PAGES {
            let path = format!("{}&limit={limit}{query}", self.path);
            let Some((requested_at, answer)) = self.send(&path, how, false).await? else { return Ok(()) };
            let Some(mut listed) = read_list(&answer, how)? else {
                self.notes.record(requested_at, incomplete());
                return Ok(());
            };
            let metadata = &answer.json()?["metadata"];
            let token = metadata["continue"].as_str().unwrap_or_default().to_owned();
            let remaining = metadata["remainingItemCount"].as_u64().map(|remaining| remaining as usize);
            listed.page = Some(Page { walk: self.walks, limit, is_last: token.is_empty(), remaining });
            self.notes.record(requested_at, ClientEvent::Listed(listed));
            if token.is_empty() {
                return Ok(());
            }
            (query, how) = (format!("&continue={token}"), RequiredFreshness::Continued);
            pause(Duration::from_millis(self.random.between(0, 100))).await;
        }
        Ok(())
    }

    async fn get(&mut self, version: Option<u64>) -> Result<()> {
        let (namespace, name) = self.resource.member(&mut self.random);
        let (query, how) = match (self.random.below(4), version) {
            (0, _) => ("?resourceVersion=0".to_owned(), RequiredFreshness::Any),
            (1, _) => (String::new(), RequiredFreshness::Any),
            (2, Some(version)) => (format!("?resourceVersion={version}"), RequiredFreshness::NotOlderThan(version)),
            _ => (String::new(), self.strong()?),
        };
        let path = format!("{}/{name}{query}", self.resource.path(namespace));
        let requested_at = self.notes.board().now();
        let mut request = Request::get(path);
        if matches!(how, RequiredFreshness::Strong(_)) {
            request = request.header("fieldcache-consistency", "Strong");
        }
        let key = format!("{namespace}/{name}");
        let answer = match timeout(ANSWER, self.client.send(request)).await {
            // Only a Status says that there is no such object; the text of an unknown path does not.
            Ok(Ok(answer))
                if answer.status == StatusCode::NOT_FOUND
                    && answer.text().contains("\"reason\":\"NotFound\"")
                    && answer.text().contains(&name) =>
            {
                self.notes.record(requested_at, ClientEvent::Got { required: how, key, found: None });
                return Ok(());
            }
            other => answered(&self.notes, requested_at, other),
        };
        let Ok(answer) = answer else { return Ok(()) };
        let event = match serde_json::from_slice(&answer.body) {
            Ok(object) => ClientEvent::Got { required: how, key, found: Some(Seen::from_object(&object)?) },
            Err(_) => incomplete(),
        };
        self.notes.record(requested_at, event);
        Ok(())
    }

    /// A watch from a version that a client received, for a while.
    async fn watch(&mut self, version: u64) -> Result<()> {
        let requested_at = self.notes.board().now();
        let bookmarks = ["", "&allowWatchBookmarks=true"][self.random.below(2) as usize];
        let path = format!("{}&watch=1{bookmarks}&timeoutSeconds=4&resourceVersion={version}", self.path);
        let lines = match timeout(ANSWER, self.client.open(Request::get(path))).await {
            Ok(Ok(lines)) => lines,
            Ok(Err(error)) => {
                self.notes.record(requested_at, ClientEvent::Failed(format!("{error:#}")));
                return Ok(());
            }
            Err(_) => {
                self.notes.record(requested_at, ClientEvent::Failed("no answer".to_owned()));
                return Ok(());
            }
        };
        if lines.status != StatusCode::OK {
            self.notes.record(requested_at, ClientEvent::Failed(lines.status.to_string()));
            return Ok(());
        }
        let is_forwarded = lines.headers.contains_key("fieldcache-read");
        self.notes
            .record(requested_at, ClientEvent::Watching { after: Some(version), not_older_than: 0, is_forwarded });
        let (shortest, longest) = WATCHED;
        let while_open = Duration::from_millis(self.random.between(shortest, longest));
        let notes = self.notes.clone();
        let reading = async {
            let mut lines = lines;
            while let Ok(Next::Line(line)) = lines.next(ANSWER).await {
                match read_event(&line)? {
                    Read::Event(event) => notes.record_event(event),
                    Read::Expired => notes.record_event(ClientEvent::Expired),
                    Read::Error { message, .. } => notes.record_event(ClientEvent::Failed(message)),
                    Read::Broken => break,
                }
            }
            Ok::<_, anyhow::Error>(())
        };
        if let Ok(outcome) = timeout(while_open, reading).await {
            outcome.with_context(|| format!("the watch from {version}"))?;
        }
        self.notes.record_event(ClientEvent::Ended);
        Ok(())
    }
}

fn incomplete() -> ClientEvent {
    ClientEvent::Failed("an answer that is not complete".to_owned())
}

/// An answer's body, decompressed if it was compressed, in however many members.
///
/// # Errors
/// When it is not whole.
pub fn decompressed(answer: &Answer) -> std::io::Result<Bytes> {
    if answer.header("content-encoding") != Some("gzip") {
        return Ok(answer.body.clone());
    }
    let mut plain = Vec::new();
    MultiGzDecoder::new(&*answer.body).read_to_end(&mut plain)?;
    Ok(plain.into())
}
