//! A light client with a store: the rules of client-go's reflector (`tools/cache/reflector.go`), and nothing else.
//!
//! It lists, or watches with initial events, and watches from there. When a watch ends, in whatever way, it resumes
//! from the last version. When that is too old, it lists again, not older than what it has. It waits as long as the
//! response says. Its watches are short, so that it resumes often. It closes a connection that sends nothing for longer
//! than its watch lasts.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use http::StatusCode;
use serde_json::Value;
use tokio::time::timeout;

use super::notes::Notes;
use super::weather::pause;
use crate::checker::{ClientEvent, Listed, RequiredFreshness, Seen};
use crate::history::Kind;
use crate::http::{Answer, Client, Lines, Next, Request};
use crate::random::Random;
use crate::selection::Selection;
use crate::workload::Resource;

/// An answer must begin, and one that is no watch must be complete, within this time.
pub(super) const ANSWER: Duration = Duration::from_secs(8);
/// Beyond its length a watch is given so much time to end.
const OVERTIME: Duration = Duration::from_secs(3);
/// The header of an answer that the source itself gave.
const READ_HEADER: &str = "fieldcache-read";

/// How the initial state is requested.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Start {
    /// LIST, then WATCH.
    List,
    /// WATCH with initial events.
    InitialEvents,
}

/// A client and what it holds.
#[derive(Debug)]
pub struct Informer {
    client: Client,
    path: String,
    start: Start,
    random: Random,
    notes: Notes,
    store: Rc<RefCell<Held>>,
}

/// What an informer holds.
#[derive(Debug, Default)]
pub struct Held {
    /// Keys and versions.
    pub objects: BTreeMap<String, u64>,
    /// Everything up to this version is in it; `None` before the first list.
    pub version: Option<u64>,
}

/// What to do after something ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Then {
    Resume,
    List,
}

impl Informer {
    /// One that has sent no request yet.
    #[must_use]
    pub fn new(
        client: Client,
        resource: &Resource,
        selection: &Selection,
        start: Start,
        random: Random,
        notes: Notes,
    ) -> Informer {
        Informer { client, path: collection(resource, selection), start, random, notes, store: Rc::default() }
    }

    /// What it holds, as it changes.
    #[must_use]
    pub fn store(&self) -> Rc<RefCell<Held>> {
        self.store.clone()
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
    pub async fn follow(mut self) -> Result<()> {
        // What a list must not be older than; zero for any.
        let mut least = 0;
        loop {
            let from = self.store.borrow().version;
            let outcome = match (from, self.start) {
                (None, Start::List) => self.list(least).await?,
                (from, _) => self.watch(from, least).await?,
            };
            match outcome {
                Ok(Then::Resume) => {}
                Ok(Then::List) => least = self.store.borrow_mut().version.take().unwrap_or(0),
                Err(Trouble { wait, is_ahead }) => {
                    // A server that is behind may be requested what it has.
                    if is_ahead {
                        least = 0;
                    }
                    let moment = Duration::from_millis(self.random.between(50, 300));
                    pause(wait.unwrap_or(moment)).await;
                }
            }
        }
    }

    async fn list(&self, least: u64) -> Result<Result<Then, Trouble>> {
        let requested_at = self.notes.board().now();
        let version = if self.store.borrow().objects.is_empty() && least == 0 { "0".to_owned() } else { text(least) };
        let request = Request::get(format!("{}&resourceVersion={version}", self.path));
        let answer = match answered(&self.notes, requested_at, timeout(ANSWER, self.client.send(request)).await) {
            Ok(answer) => answer,
            Err(trouble) => return Ok(Err(trouble)),
        };
        let how = if least == 0 { RequiredFreshness::Any } else { RequiredFreshness::NotOlderThan(least) };
        // What a broken connection made of a list is no list.
        let Some(listed) = read_list(&answer, how)? else {
            self.notes.record(requested_at, ClientEvent::Failed("a list that is not complete".to_owned()));
            return Ok(Err(Trouble::default()));
        };
        let mut store = self.store.borrow_mut();
        store.objects = listed.items.iter().map(|seen| (seen.key.clone(), seen.version)).collect();
        store.version = Some(listed.version);
        self.notes.record(requested_at, ClientEvent::Listed(listed));
        Ok(Ok(Then::Resume))
    }

    async fn watch(&mut self, from: Option<u64>, least: u64) -> Result<Result<Then, Trouble>> {
        let requested_at = self.notes.board().now();
        let seconds = self.random.between(3, 7);
        let mut path = format!("{}&watch=1&allowWatchBookmarks=true&timeoutSeconds={seconds}", self.path);
        match from {
            Some(version) => path.push_str(&format!("&resourceVersion={version}")),
            None => path.push_str(&format!(
                "&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&resourceVersion={}",
                text(least)
            )),
        }
        let opened = match timeout(ANSWER, self.client.open(Request::get(path))).await {
            Ok(Ok(lines)) if lines.status == StatusCode::OK => lines,
            Ok(Ok(lines)) => return Ok(Err(refused(&self.notes, requested_at, lines.status, &lines.headers))),
            Ok(Err(error)) => return Ok(Err(failed(&self.notes, requested_at, &format!("{error:#}")))),
            Err(_) => return Ok(Err(failed(&self.notes, requested_at, "no answer"))),
        };
        let is_forwarded = opened.headers.contains_key(READ_HEADER);
        self.notes.record(requested_at, ClientEvent::Watching { after: from, not_older_than: least, is_forwarded });
        let outcome = self.take(opened, from.is_none(), Duration::from_secs(seconds) + OVERTIME).await;
        if !matches!(outcome, Ok(Ok(Then::List))) {
            self.notes.record_event(ClientEvent::Ended);
        }
        outcome
    }

    /// Reads a watch to its end.
    async fn take(&self, mut lines: Lines, mut is_initial: bool, silence: Duration) -> Result<Result<Then, Trouble>> {
        let mut initial = BTreeMap::new();
        loop {
            let line = match lines.next(silence).await {
                Ok(Next::Line(line)) => line,
                Ok(Next::End) => break,
                Ok(Next::Nothing) | Err(_) => return Ok(Err(Trouble::default())),
            };
            let event = match read_event(&line)? {
                // The end of a connection may cut a line.
                Read::Broken => return Ok(Err(Trouble::default())),
                Read::Expired => {
                    self.notes.record_event(ClientEvent::Expired);
                    return Ok(Ok(Then::List));
                }
                Read::Error { message, is_ahead } => {
                    self.notes.record_event(ClientEvent::Failed(message));
                    return Ok(Err(Trouble { wait: None, is_ahead }));
                }
                Read::Event(event) => event,
            };
            let mut store = self.store.borrow_mut();
            match &event {
                ClientEvent::Event { kind, seen } => {
                    let objects = if is_initial { &mut initial } else { &mut store.objects };
                    match kind {
                        Kind::Added | Kind::Modified => objects.insert(seen.key.clone(), seen.version),
                        Kind::Deleted => objects.remove(&seen.key),
                    };
                    if !is_initial {
                        store.version = Some(seen.version);
                    }
                }
                ClientEvent::Bookmark { version, ends_initial } => {
                    if *ends_initial {
                        store.objects = std::mem::take(&mut initial);
                        is_initial = false;
                    }
                    if !is_initial {
                        store.version = Some(*version);
                    }
                }
                _ => {}
            }
            drop(store);
            self.notes.record_event(event);
        }
        Ok(Ok(Then::Resume))
    }
}

/// Why something has to be tried again.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Trouble {
    /// How long to wait at least, if that was said.
    wait: Option<Duration>,
    /// Whether the version is one that the server has not reached.
    is_ahead: bool,
}

/// A version as a parameter; none for zero.
fn text(version: u64) -> String {
    if version == 0 { String::new() } else { version.to_string() }
}

/// The path of what a selection selects, with its query so far.
pub(super) fn collection(resource: &Resource, selection: &Selection) -> String {
    let escaped = |text: String| text.replace('=', "%3D").replace(',', "%2C").replace('!', "%21");
    format!(
        "{}?labelSelector={}&fieldSelector={}",
        resource.path(selection.namespace()),
        escaped(selection.label_selector()),
        escaped(selection.field_selector())
    )
}

/// The answer, if it is one of success.
pub(super) fn answered(
    notes: &Notes,
    requested_at: u64,
    answer: Result<Result<Answer>, tokio::time::error::Elapsed>,
) -> Result<Answer, Trouble> {
    match answer {
        Ok(Ok(answer)) if answer.status == StatusCode::OK => Ok(answer),
        Ok(Ok(answer)) => {
            let is_ahead = answer.text().contains("Too large resource version");
            Err(Trouble { is_ahead, ..refused(notes, requested_at, answer.status, &answer.headers) })
        }
        Ok(Err(error)) => Err(failed(notes, requested_at, &format!("{error:#}"))),
        Err(_) => Err(failed(notes, requested_at, "no answer")),
    }
}

fn refused(notes: &Notes, requested_at: u64, status: StatusCode, headers: &http::HeaderMap) -> Trouble {
    notes.record(
        requested_at,
        if status == StatusCode::GONE { ClientEvent::Expired } else { ClientEvent::Failed(status.to_string()) },
    );
    let seconds = headers.get("retry-after").and_then(|value| value.to_str().ok()?.parse().ok());
    Trouble { wait: seconds.map(Duration::from_secs), is_ahead: false }
}

fn failed(notes: &Notes, requested_at: u64, how: &str) -> Trouble {
    notes.record(requested_at, ClientEvent::Failed(how.to_owned()));
    Trouble::default()
}

/// Reads a list; `None` when it is not complete.
pub(super) fn read_list(answer: &Answer, required: RequiredFreshness) -> Result<Option<Listed>> {
    let Ok(list) = serde_json::from_slice::<Value>(&answer.body) else { return Ok(None) };
    let version =
        list["metadata"]["resourceVersion"].as_str().with_context(|| format!("a list without a version: {list}"))?;
    let items = list["items"].as_array().context("a list without items")?;
    Ok(Some(Listed {
        required,
        version: version.parse()?,
        items: items.iter().map(Seen::from_object).collect::<Result<_>>()?,
        page: None,
        is_forwarded: answer.header(READ_HEADER) == Some("forwarded"),
    }))
}

/// What a line of a watch says.
pub(super) enum Read {
    Event(ClientEvent),
    Expired,
    Error { message: String, is_ahead: bool },
    Broken,
}

/// Reads a line of a watch.
pub(super) fn read_event(line: &[u8]) -> Result<Read> {
    let Ok(event) = serde_json::from_slice::<Value>(line) else { return Ok(Read::Broken) };
    let object = &event["object"];
    let to_event = |kind| Ok(Read::Event(ClientEvent::Event { kind, seen: Seen::from_object(object)? }));
    match event["type"].as_str() {
        Some("ADDED") => to_event(Kind::Added),
        Some("MODIFIED") => to_event(Kind::Modified),
        Some("DELETED") => to_event(Kind::Deleted),
        Some("BOOKMARK") => {
            let metadata = &object["metadata"];
            let version = metadata["resourceVersion"].as_str().context("a bookmark without a version")?.parse()?;
            let ends_initial = metadata["annotations"]["k8s.io/initial-events-end"] == "true";
            Ok(Read::Event(ClientEvent::Bookmark { version, ends_initial }))
        }
        Some("ERROR") if object["code"] == 410 => Ok(Read::Expired),
        Some("ERROR") => {
            let message = object["message"].as_str().unwrap_or("an error without a message").to_owned();
            Ok(Read::Error { is_ahead: message.contains("Too large resource version"), message })
        }
        _ => bail!("a line of no known type: {event}"),
    }
}
