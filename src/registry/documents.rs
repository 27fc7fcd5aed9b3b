//! OpenAPI documents, created when first requested and cached in every requested form.
//!
//! A [`DocumentSource`] returns the current set: that of a folder never changes within a catalog, that of a cluster is
//! requested. Documents are built in `openapi`; HTTP is `server::documents`.

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

/// A source of documents. The Swagger 2 document is separate: it is large, and few clients request it.
pub trait DocumentSource: Send + Sync + fmt::Debug {
    /// The current Swagger 2 document. The error is the reason for clients why there is none.
    fn v2(&self) -> BoxFuture<'_, Result<Arc<DocumentForms>, String>>;

    /// The current v3 documents. The error is the reason for clients why there are none.
    fn v3(&self) -> BoxFuture<'_, Result<Arc<DocumentSet>, String>>;
}

/// Locked while a whole document is created or converted to another form.
static MAKING_WHOLE: Mutex<()> = Mutex::new(());

/// Last-Modified of a document: the time of the first response with it. All states of one document share it. What a
/// View shows of a document does not change when only something else in the document changes. A reader of the part
/// alone must not learn of that change.
#[derive(Debug, Default)]
pub(super) struct ServedSince(Mutex<ServedState>);

#[derive(Debug, Default)]
struct ServedState {
    /// States so far.
    states: u64,
    /// The newest state that a response has contained: its number, its hash and its time.
    answered: Option<(u64, String, Timestamp)>,
}

impl ServedSince {
    fn lock(&self) -> MutexGuard<'_, ServedState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The number of the next state.
    fn state(&self) -> u64 {
        let mut served = self.lock();
        served.states += 1;
        served.states
    }

    /// Last-Modified of a state with this hash. A response may still have an earlier state while others have a later
    /// one.
    fn last_modified(&self, state: u64, hash: &str, now: Timestamp) -> Timestamp {
        let mut served = self.lock();
        match &mut served.answered {
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
pub struct StaticDocuments {
    /// The Swagger 2 document.
    pub v2: Arc<DocumentForms>,
    /// The v3 documents.
    pub v3: Arc<DocumentSet>,
}

impl StaticDocuments {
    /// From the builder of the Swagger 2 document and those of the v3 documents by key, such as `apis/apps/v1`.
    pub fn new(v2: Build, v3: impl IntoIterator<Item = (String, Build)>) -> StaticDocuments {
        StaticDocuments { v2: Arc::new(DocumentForms::v2(v2)), v3: Arc::new(DocumentSet::new(v3)) }
    }
}

impl DocumentSource for StaticDocuments {
    fn v2(&self) -> BoxFuture<'_, Result<Arc<DocumentForms>, String>> {
        Box::pin(std::future::ready(Ok(self.v2.clone())))
    }

    fn v3(&self) -> BoxFuture<'_, Result<Arc<DocumentSet>, String>> {
        Box::pin(std::future::ready(Ok(self.v3.clone())))
    }
}

/// How a document is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DocumentEncoding {
    /// JSON.
    Json,
    /// gnostic's protobuf form.
    Protobuf,
}

/// All v3 documents of one state of the source. A document is built when first requested and then cached. A change of
/// the source is a new set.
#[derive(Debug)]
pub struct DocumentSet {
    v3: BTreeMap<String, Arc<DocumentForms>>,
    index: OnceLock<OpenApiDocument>,
    /// The state of the index.
    state: u64,
    since: Arc<ServedSince>,
}

/// Creates a document when it is first requested.
pub type Build = Box<dyn Fn() -> Value + Send + Sync>;

impl DocumentSet {
    /// A set of documents from their builders by key, such as `apis/apps/v1`.
    pub fn new(v3: impl IntoIterator<Item = (String, Build)>) -> DocumentSet {
        DocumentSet::of_forms(v3.into_iter().map(|(key, build)| (key, Arc::new(DocumentForms::v3(build)))).collect())
    }

    /// From documents of which some may be shared with an earlier set.
    pub fn of_forms(v3: BTreeMap<String, Arc<DocumentForms>>) -> DocumentSet {
        let since = Arc::<ServedSince>::default();
        DocumentSet { v3, index: OnceLock::new(), state: since.state(), since }
    }

    /// The documents with the state of this counter.
    pub(super) fn a_state_of(self, since: &Arc<ServedSince>) -> DocumentSet {
        DocumentSet { state: since.state(), since: since.clone(), ..self }
    }

    /// The v3 document of a key, such as `apis/apps/v1`.
    pub fn v3(&self, key: &str) -> Option<&DocumentForms> {
        self.v3.get(key).map(|forms| &**forms)
    }

    pub(super) fn documents(&self) -> &BTreeMap<String, Arc<DocumentForms>> {
        &self.v3
    }

    /// Bytes of the created documents, without the index.
    pub(super) fn held_bytes(&self) -> usize {
        self.v3.values().map(|forms| forms.held_bytes()).sum()
    }

    /// Whether the index has been created.
    pub fn is_made(&self) -> bool {
        self.index.get().is_some()
    }

    /// Last-Modified of the index: the time of the first response with it.
    pub fn since(&self, now: Timestamp) -> Timestamp {
        self.since.last_modified(self.state, &self.index().hash, now)
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
pub struct DocumentForms {
    build: Build,
    encode: fn(&Value) -> Vec<u8>,
    json: OnceLock<OpenApiDocument>,
    protobuf: OnceLock<Bytes>,
    gzipped_json: OnceLock<Bytes>,
    gzipped_protobuf: OnceLock<Bytes>,
    /// Whether it is made of a whole one.
    is_part: bool,
    state: u64,
    since: Arc<ServedSince>,
}

impl fmt::Debug for DocumentForms {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("DocumentForms").field("hash", &self.json.get().map(|document| &document.hash)).finish()
    }
}

impl DocumentForms {
    /// A Swagger 2 document.
    pub fn v2(build: Build) -> DocumentForms {
        DocumentForms::new(build, protobuf::to_protobuf_v2)
    }

    /// An OpenAPI v3 document.
    pub fn v3(build: Build) -> DocumentForms {
        DocumentForms::new(build, protobuf::to_protobuf_v3)
    }

    fn new(build: Build, encode: fn(&Value) -> Vec<u8>) -> DocumentForms {
        let since = Arc::<ServedSince>::default();
        DocumentForms {
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

    /// A part of a whole document, the next state of a View's document.
    pub(super) fn part(self, since: &Arc<ServedSince>) -> DocumentForms {
        DocumentForms { is_part: true, state: since.state(), since: since.clone(), ..self }
    }

    /// Waits until no other whole document is being created. The documents that a part is created from wait for
    /// themselves.
    fn turn(&self) -> Option<MutexGuard<'static, ()>> {
        (!self.is_part).then(|| MAKING_WHOLE.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Last-Modified: the time of the first response with it.
    pub fn since(&self, now: Timestamp) -> Timestamp {
        self.since.last_modified(self.state, &self.document().hash, now)
    }

    /// Whether the form in one encoding has been created. The hash is that of the JSON.
    pub fn is_made(&self, encoding: DocumentEncoding) -> bool {
        self.json.get().is_some() && (encoding == DocumentEncoding::Json || self.protobuf.get().is_some())
    }

    /// Whether the compressed form of this encoding exists.
    pub fn is_gzipped(&self, encoding: DocumentEncoding) -> bool {
        self.is_made(encoding) && self.gzipped_in(encoding).get().is_some()
    }

    /// The bytes of the created forms.
    pub(super) fn held_bytes(&self) -> usize {
        let others = [&self.protobuf, &self.gzipped_json, &self.gzipped_protobuf];
        let json = self.json.get().map_or(0, |document| document.json.len());
        json + others.iter().filter_map(|form| form.get()).map(Bytes::len).sum::<usize>()
    }

    /// The compressed form for an encoding.
    fn gzipped_in(&self, encoding: DocumentEncoding) -> &OnceLock<Bytes> {
        match encoding {
            DocumentEncoding::Json => &self.gzipped_json,
            DocumentEncoding::Protobuf => &self.gzipped_protobuf,
        }
    }

    /// The document as JSON, with its hash.
    pub fn document(&self) -> &OpenApiDocument {
        self.json.get_or_init(|| {
            let _one = self.turn();
            OpenApiDocument::new(&(self.build)())
        })
    }

    /// The document in one encoding.
    pub fn body(&self, encoding: DocumentEncoding) -> Bytes {
        match encoding {
            DocumentEncoding::Json => self.document().json.clone(),
            DocumentEncoding::Protobuf => self.protobuf.get_or_init(|| self.protobuf()).clone(),
        }
    }

    /// The document in one encoding, compressed.
    pub fn gzipped(&self, encoding: DocumentEncoding) -> Bytes {
        self.gzipped_in(encoding).get_or_init(|| gzip(&self.body(encoding))).clone()
    }

    fn protobuf(&self) -> Bytes {
        let document = self.document();
        let _one = self.turn();
        Bytes::from((self.encode)(&value_of(document)))
    }
}

/// The value of a document. It is parsed again instead of cached: few requests need it, and it takes several times as
/// much memory.
pub(super) fn value_of(document: &OpenApiDocument) -> Value {
    tree::shallow(&document.json, DOCUMENT_LEVELS).expect("a document that was written here must be JSON")
}

/// Compresses bytes.
fn gzip(bytes: &[u8]) -> Bytes {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(bytes).expect("writing to a Vec must succeed");
    Bytes::from(encoder.finish().expect("writing to a Vec must succeed"))
}
