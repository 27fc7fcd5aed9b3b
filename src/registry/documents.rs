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

/// Locked while a document of the whole server is created or encoded, so that only one is at a time.
static MAKING_WHOLE: Mutex<()> = Mutex::new(());

/// Last-Modified of a document: the time of the first response with its content. All states of one document share this
/// value. The part of a document that a View shows keeps its time while only other parts change: a reader of the part
/// must not learn of such a change.
#[derive(Debug, Default)]
pub(super) struct ServedSince(Mutex<ServedState>);

#[derive(Debug, Default)]
struct ServedState {
    /// The number of states so far.
    states: u64,
    /// The newest state that a response has contained: its number, its hash, and the time of the first response with
    /// that hash.
    answered: Option<(u64, String, Timestamp)>,
}

impl ServedSince {
    fn lock(&self) -> MutexGuard<'_, ServedState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts another state, and returns its number, from 1.
    fn next_state(&self) -> u64 {
        let mut served = self.lock();
        served.states += 1;
        served.states
    }

    /// Last-Modified of a state, which has this hash. `now` is the time of the response. A response may still have an
    /// earlier state than others had before; its time is `now`.
    fn last_modified(&self, state: u64, hash: &str, now: Timestamp) -> Timestamp {
        let mut served = self.lock();
        match &mut served.answered {
            // The same content as before, possibly in a newer state.
            Some((last, answered, since)) if answered == hash => {
                *last = state.max(*last);
                *since
            }
            // An earlier state must not replace the newer one.
            Some((last, ..)) if *last > state => now,
            answered => {
                *answered = Some((state, hash.to_owned(), now));
                now
            }
        }
    }
}

/// Documents that do not change, as in folder mode.
#[derive(Debug)]
pub struct StaticDocuments {
    /// The Swagger 2 document.
    pub v2: Arc<DocumentForms>,
    /// The v3 documents.
    pub v3: Arc<DocumentSet>,
}

impl StaticDocuments {
    /// Documents that these functions build on request: the Swagger 2 document, and the v3 documents by key, such as
    /// `apis/apps/v1`.
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

/// The encoding of a document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DocumentEncoding {
    /// JSON.
    Json,
    /// gnostic's protobuf form.
    Protobuf,
}

/// All v3 documents of one state of the source. Documents are built when first requested and then cached. When the
/// source changes, a new set replaces this one.
#[derive(Debug)]
pub struct DocumentSet {
    v3: BTreeMap<String, Arc<DocumentForms>>,
    /// The index of the documents, with their hashes.
    index: OnceLock<OpenApiDocument>,
    /// The number of this state of the index in `since`.
    state: u64,
    since: Arc<ServedSince>,
}

/// Builds a document when it is first requested.
pub type Build = Box<dyn Fn() -> Value + Send + Sync>;

impl DocumentSet {
    /// A set of documents that these functions build on request, by key, such as `apis/apps/v1`.
    pub fn new(v3: impl IntoIterator<Item = (String, Build)>) -> DocumentSet {
        DocumentSet::of_forms(v3.into_iter().map(|(key, build)| (key, Arc::new(DocumentForms::v3(build)))).collect())
    }

    /// A set of documents, some of which an earlier set may share.
    pub fn of_forms(v3: BTreeMap<String, Arc<DocumentForms>>) -> DocumentSet {
        let since = Arc::<ServedSince>::default();
        DocumentSet { v3, index: OnceLock::new(), state: since.next_state(), since }
    }

    /// The set, whose index is the next state that `since` counts: it continues the Last-Modified of earlier sets.
    pub(super) fn into_next_state(self, since: &Arc<ServedSince>) -> DocumentSet {
        DocumentSet { state: since.next_state(), since: since.clone(), ..self }
    }

    /// The v3 document of a key, such as `apis/apps/v1`; `None` if there is none.
    pub fn v3(&self, key: &str) -> Option<&DocumentForms> {
        self.v3.get(key).map(|forms| &**forms)
    }

    /// The v3 documents by key, such as `apis/apps/v1`.
    pub(super) fn documents(&self) -> &BTreeMap<String, Arc<DocumentForms>> {
        &self.v3
    }

    /// The bytes of the documents that were built, in all forms, without the index.
    pub(super) fn held_bytes(&self) -> usize {
        self.v3.values().map(|forms| forms.held_bytes()).sum()
    }

    /// Whether the index has been built.
    pub fn is_made(&self) -> bool {
        self.index.get().is_some()
    }

    /// Last-Modified of the index: the time of the first response with its content. `now` is the time of the response.
    pub fn since(&self, now: Timestamp) -> Timestamp {
        self.since.last_modified(self.state, &self.index().hash, now)
    }

    /// The index of the v3 documents. Builds all documents for their hashes.
    pub fn index(&self) -> &OpenApiDocument {
        self.index.get_or_init(|| {
            let hashes = self.v3.iter().map(|(key, lazy)| (key.as_str(), lazy.document().hash.as_str()));
            OpenApiDocument::new(&hash::index(hashes))
        })
    }
}

/// One document in all its forms, which are created on request and cached.
pub struct DocumentForms {
    build: Build,
    encode: fn(&Value) -> Vec<u8>,
    json: OnceLock<OpenApiDocument>,
    protobuf: OnceLock<Bytes>,
    gzipped_json: OnceLock<Bytes>,
    gzipped_protobuf: OnceLock<Bytes>,
    /// Whether it is created from a document of the whole server.
    is_part: bool,
    /// The number of this state of the document in `since`.
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

    /// A document that `build` creates as JSON when it is requested. `encode` converts it to protobuf.
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
            state: since.next_state(),
            since,
        }
    }

    /// The document as the part of a whole document that a View shows. It is the next state that `since` counts: it
    /// continues the Last-Modified of earlier states.
    pub(super) fn into_part(self, since: &Arc<ServedSince>) -> DocumentForms {
        DocumentForms { is_part: true, state: since.next_state(), since: since.clone(), ..self }
    }

    /// Waits until no other whole document is being created or encoded. `None` without waiting for a part: the whole
    /// document that it needs waits itself.
    fn lock_whole(&self) -> Option<MutexGuard<'static, ()>> {
        (!self.is_part).then(|| MAKING_WHOLE.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Last-Modified of the document: the time of the first response with its content. `now` is the time of the
    /// response.
    pub fn since(&self, now: Timestamp) -> Timestamp {
        self.since.last_modified(self.state, &self.document().hash, now)
    }

    /// Whether the document has been built in this encoding, and its hash is known.
    pub fn is_made(&self, encoding: DocumentEncoding) -> bool {
        self.json.get().is_some() && (encoding == DocumentEncoding::Json || self.protobuf.get().is_some())
    }

    /// Whether the compressed form of this encoding has been created.
    pub fn is_gzipped(&self, encoding: DocumentEncoding) -> bool {
        self.is_made(encoding) && self.gzipped_in(encoding).get().is_some()
    }

    /// The bytes of all forms that were created.
    pub(super) fn held_bytes(&self) -> usize {
        let others = [&self.protobuf, &self.gzipped_json, &self.gzipped_protobuf];
        let json = self.json.get().map_or(0, |document| document.json.len());
        json + others.iter().filter_map(|form| form.get()).map(Bytes::len).sum::<usize>()
    }

    /// The place of the compressed form of an encoding, empty before its creation.
    fn gzipped_in(&self, encoding: DocumentEncoding) -> &OnceLock<Bytes> {
        match encoding {
            DocumentEncoding::Json => &self.gzipped_json,
            DocumentEncoding::Protobuf => &self.gzipped_protobuf,
        }
    }

    /// The document as JSON, with its hash.
    pub fn document(&self) -> &OpenApiDocument {
        self.json.get_or_init(|| {
            let _one = self.lock_whole();
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

    /// Encodes the document as protobuf.
    fn protobuf(&self) -> Bytes {
        // Before the lock, because the creation of the document takes the same lock.
        let document = self.document();
        let _one = self.lock_whole();
        Bytes::from((self.encode)(&value_of(document)))
    }
}

/// The parsed JSON of a document. It is not cached: few requests need it, and it takes several times as much memory.
pub(super) fn value_of(document: &OpenApiDocument) -> Value {
    tree::shallow(&document.json, DOCUMENT_LEVELS).expect("a document that was written here must be JSON")
}

/// Compresses bytes.
fn gzip(bytes: &[u8]) -> Bytes {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(bytes).expect("writing to a Vec must succeed");
    Bytes::from(encoder.finish().expect("writing to a Vec must succeed"))
}
