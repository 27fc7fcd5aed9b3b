//! OpenAPI documents of what is served: made when first asked for, kept in every form that is asked for.
//!
//! A [`DocumentSource`] says which set is right now: a folder's never changes within a catalog, a cluster's is asked.
//! Documents are built in `openapi`; HTTP is `server::documents`.

use std::collections::BTreeMap;
use std::fmt;
use std::io::Write as _;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use futures::future::BoxFuture;
use jiff::Timestamp;
use serde_json::Value;

use crate::json::tree;
use crate::openapi::DOCUMENT_LEVELS;
use crate::openapi::{OpenApiDocument, hash, protobuf};

/// Where the documents come from. The Swagger 2 document is asked for apart: it is large, and few want it.
pub trait DocumentSource: Send + Sync + fmt::Debug {
    /// The Swagger 2 document as of now; the error says why there is none, for the client.
    fn v2(&self) -> BoxFuture<'_, Result<Arc<Forms>, String>>;

    /// The v3 documents as of now; the error says why there are none, for the client.
    fn v3(&self) -> BoxFuture<'_, Result<Arc<DocumentSet>, String>>;
}

/// Held while a whole document is made or written in another form.
static MAKING_WHOLE: Mutex<()> = Mutex::new(());

/// Since when a document is as it is: the time of the first answer with it. All states of one document share it, since what a View shows
/// of a document stays as it is when only something else in the document changes, and whoever sees the part alone is not told that.
#[derive(Debug, Default)]
pub(super) struct Since(Mutex<Held>);

#[derive(Debug, Default)]
struct Held {
    /// States so far.
    states: u64,
    /// The number of the newest state that somebody was answered with, its hash and its time.
    answered: Option<(u64, String, Timestamp)>,
}

impl Since {
    fn held(&self) -> MutexGuard<'_, Held> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The number of a further state.
    fn state(&self) -> u64 {
        let mut held = self.held();
        held.states += 1;
        held.states
    }

    /// Since when a state with this hash is as it is. A request may still be answered with an earlier state while others are answered with
    /// a later one.
    fn of(&self, state: u64, hash: &str, now: Timestamp) -> Timestamp {
        let mut held = self.held();
        match &mut held.answered {
            Some((last, answered, since)) if answered == hash => {
                *last = state.max(*last);
                *since
            }
            Some((last, ..)) if *last > state => now,
            answered => {
                *answered = Some((state, hash.to_owned(), now));
                now
            }
        }
    }
}

/// Documents that do not change.
#[derive(Debug)]
pub struct Fixed {
    /// The Swagger 2 document.
    pub v2: Arc<Forms>,
    /// The v3 documents.
    pub v3: Arc<DocumentSet>,
}

impl Fixed {
    /// From the builder of the Swagger 2 document and those of the v3 documents by key, such as `apis/apps/v1`.
    pub fn new(v2: Build, v3: impl IntoIterator<Item = (String, Build)>) -> Fixed {
        Fixed { v2: Arc::new(Forms::v2(v2)), v3: Arc::new(DocumentSet::new(v3)) }
    }
}

impl DocumentSource for Fixed {
    fn v2(&self) -> BoxFuture<'_, Result<Arc<Forms>, String>> {
        Box::pin(std::future::ready(Ok(self.v2.clone())))
    }

    fn v3(&self) -> BoxFuture<'_, Result<Arc<DocumentSet>, String>> {
        Box::pin(std::future::ready(Ok(self.v3.clone())))
    }
}

/// How a document is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encoding {
    /// JSON.
    Json,
    /// gnostic's protobuf form.
    Protobuf,
}

/// All v3 documents of one state of the world. Nothing is built before it is asked for; then it is kept. A change of the
/// world is a new set.
#[derive(Debug)]
pub struct DocumentSet {
    v3: BTreeMap<String, Arc<Forms>>,
    index: OnceLock<OpenApiDocument>,
    /// Of the index.
    state: u64,
    since: Arc<Since>,
}

/// Makes a document when it is first asked for.
pub type Build = Box<dyn Fn() -> Value + Send + Sync>;

impl DocumentSet {
    /// From the builders of the documents by key, such as `apis/apps/v1`.
    pub fn new(v3: impl IntoIterator<Item = (String, Build)>) -> DocumentSet {
        DocumentSet::of_forms(v3.into_iter().map(|(key, build)| (key, Arc::new(Forms::v3(build)))).collect())
    }

    /// From documents of which some may be shared with an earlier set.
    pub fn of_forms(v3: BTreeMap<String, Arc<Forms>>) -> DocumentSet {
        let since = Arc::<Since>::default();
        DocumentSet { v3, index: OnceLock::new(), state: since.state(), since }
    }

    pub(super) fn a_state_of(self, since: &Arc<Since>) -> DocumentSet {
        DocumentSet { state: since.state(), since: since.clone(), ..self }
    }

    /// The v3 document of a key, such as `apis/apps/v1`.
    pub fn v3(&self, key: &str) -> Option<&Forms> {
        self.v3.get(key).map(|forms| &**forms)
    }

    pub(super) fn documents(&self) -> &BTreeMap<String, Arc<Forms>> {
        &self.v3
    }

    /// What has been made of the documents, without the index, in bytes.
    pub(super) fn held_bytes(&self) -> usize {
        self.v3.values().map(|forms| forms.held_bytes()).sum()
    }

    /// Whether the index has been made.
    pub fn is_made(&self) -> bool {
        self.index.get().is_some()
    }

    /// Since when the index is as it is: the time of the first answer with it.
    pub fn since(&self, now: Timestamp) -> Timestamp {
        self.since.of(self.state, &self.index().hash, now)
    }

    /// The index of the v3 documents. Builds them all, for their hashes.
    pub fn index(&self) -> &OpenApiDocument {
        self.index.get_or_init(|| {
            let hashes = self.v3.iter().map(|(key, lazy)| (key.as_str(), lazy.document().hash.as_str()));
            OpenApiDocument::new(&hash::index(hashes))
        })
    }
}

/// One document in all its forms.
pub struct Forms {
    build: Build,
    encode: fn(&Value) -> Vec<u8>,
    json: OnceLock<OpenApiDocument>,
    protobuf: OnceLock<Bytes>,
    gzipped_json: OnceLock<Bytes>,
    gzipped_protobuf: OnceLock<Bytes>,
    /// Whether it is made of a whole one.
    is_part: bool,
    state: u64,
    since: Arc<Since>,
}

impl fmt::Debug for Forms {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Forms").field("hash", &self.json.get().map(|document| &document.hash)).finish()
    }
}

impl Forms {
    /// A Swagger 2 document.
    pub fn v2(build: Build) -> Forms {
        Forms::new(build, protobuf::to_protobuf_v2)
    }

    /// An OpenAPI v3 document.
    pub fn v3(build: Build) -> Forms {
        Forms::new(build, protobuf::to_protobuf_v3)
    }

    fn new(build: Build, encode: fn(&Value) -> Vec<u8>) -> Forms {
        let since = Arc::<Since>::default();
        Forms {
            build,
            encode,
            json: OnceLock::new(),
            protobuf: OnceLock::new(),
            gzipped_json: OnceLock::new(),
            gzipped_protobuf: OnceLock::new(),
            is_part: false,
            state: since.state(),
            since,
        }
    }

    /// A part of a whole document, the next state of what a View shows of it.
    pub(super) fn part(self, since: &Arc<Since>) -> Forms {
        Forms { is_part: true, state: since.state(), since: since.clone(), ..self }
    }

    /// Waits until no other whole document is being made. What a part is made of waits for itself.
    fn turn(&self) -> Option<MutexGuard<'static, ()>> {
        (!self.is_part).then(|| MAKING_WHOLE.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Since when it is as it is: the time of the first answer with it.
    pub fn since(&self, now: Timestamp) -> Timestamp {
        self.since.of(self.state, &self.document().hash, now)
    }

    /// Whether its bytes in one encoding have been made. Its hash is that of its JSON.
    pub fn is_made(&self, encoding: Encoding) -> bool {
        self.json.get().is_some() && (encoding == Encoding::Json || self.protobuf.get().is_some())
    }

    /// The same, compressed.
    pub fn is_gzipped(&self, encoding: Encoding) -> bool {
        self.is_made(encoding) && self.gzipped_in(encoding).get().is_some()
    }

    /// What has been made, in bytes.
    pub(super) fn held_bytes(&self) -> usize {
        let others = [&self.protobuf, &self.gzipped_json, &self.gzipped_protobuf];
        let json = self.json.get().map_or(0, |document| document.json.len());
        json + others.iter().filter_map(|form| form.get()).map(Bytes::len).sum::<usize>()
    }

    fn gzipped_in(&self, encoding: Encoding) -> &OnceLock<Bytes> {
        match encoding {
            Encoding::Json => &self.gzipped_json,
            Encoding::Protobuf => &self.gzipped_protobuf,
        }
    }

    /// Its JSON and hash.
    pub fn document(&self) -> &OpenApiDocument {
        self.json.get_or_init(|| {
            let _one = self.turn();
            OpenApiDocument::new(&(self.build)())
        })
    }

    /// Its bytes in one encoding.
    pub fn body(&self, encoding: Encoding) -> Bytes {
        match encoding {
            Encoding::Json => self.document().json.clone(),
            Encoding::Protobuf => self.protobuf.get_or_init(|| self.protobuf()).clone(),
        }
    }

    /// Its bytes in one encoding, compressed.
    pub fn gzipped(&self, encoding: Encoding) -> Bytes {
        self.gzipped_in(encoding).get_or_init(|| gzip(&self.body(encoding))).clone()
    }

    fn protobuf(&self) -> Bytes {
        let document = self.document();
        let _one = self.turn();
        Bytes::from((self.encode)(&value_of(document)))
    }
}

/// The value of a document. Read back from the bytes rather than kept: few ask, and the value is several times larger.
pub(super) fn value_of(document: &OpenApiDocument) -> Value {
    tree::shallow(&document.json, DOCUMENT_LEVELS).expect("a document that was written here must be JSON")
}

fn gzip(bytes: &[u8]) -> Bytes {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(bytes).expect("writing to a Vec must succeed");
    Bytes::from(encoder.finish().expect("writing to a Vec must succeed"))
}
