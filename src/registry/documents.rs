//! OpenAPI documents of what is served: made when first asked for, kept in every form that is asked for.
//!
//! A [`DocumentSource`] says which set is right now: a folder's never changes within a catalog, a cluster's is asked.
//! Documents are built in `openapi`; HTTP is `server::documents`.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::io::Write as _;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};

use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use futures::future::BoxFuture;
use jiff::Timestamp;
use serde_json::Value;

use super::Resource;
use crate::extract::tree::{self, DOCUMENT_LEVELS};
use crate::openapi::part::{Shown, ShownResource};
use crate::openapi::{Document, hash, protobuf};

/// Where the documents come from. The Swagger 2 document is asked for apart: it is large, and few want it.
pub trait DocumentSource: Send + Sync + fmt::Debug {
    /// The Swagger 2 document as of now; the error says why there is none, for the client.
    fn v2(&self) -> BoxFuture<'_, Result<Arc<Forms>, String>>;

    /// The v3 documents as of now; the error says why there are none, for the client.
    fn v3(&self) -> BoxFuture<'_, Result<Arc<DocumentSet>, String>>;
}

/// Some of the documents of another source, and some of what they say: what a View shows.
#[derive(Debug)]
pub struct Part {
    whole: Arc<dyn DocumentSource>,
    shown: Arc<Shown>,
    made: Arc<Mutex<Made>>,
}

/// So many Views keep their documents: those for which some were made last. Further ones are made again.
pub(super) const MOST_KEPT: usize = 64;

/// What the documents of all Views take together in all forms, in bytes. Whoever may write definitions chooses how long they are.
pub(super) const MOST_KEPT_BYTES: usize = 64 << 20;

/// Views that keep documents, the last one at the end.
type Kept = VecDeque<Weak<Mutex<Made>>>;

/// Those of the process, like the memory that they take.
#[cfg(not(test))]
static KEPT: Mutex<Kept> = Mutex::new(VecDeque::new());

#[cfg(not(test))]
fn with_kept<Done>(work: impl FnOnce(&mut Kept) -> Done) -> Done {
    work(&mut KEPT.lock().unwrap_or_else(PoisonError::into_inner))
}

/// Tests run side by side in one process, and each has a thread.
#[cfg(test)]
fn with_kept<Done>(work: impl FnOnce(&mut Kept) -> Done) -> Done {
    thread_local! {
        static KEPT: Mutex<Kept> = const { Mutex::new(VecDeque::new()) };
    }
    KEPT.with(|kept| work(&mut kept.lock().unwrap_or_else(PoisonError::into_inner)))
}

/// Held while a document of a View is made: it takes several times the memory of the whole document, so they are made one by one.
static MAKING: Mutex<()> = Mutex::new(());

/// Notes that these documents were made, and lets go of the oldest and of those of another state of the source. Each of these would hold
/// the documents of the source as they were then.
fn keep(made: &Arc<Mutex<Made>>, source: &Source) {
    let (oldest, others) = with_kept(|kept| {
        kept.retain(|other| other.strong_count() > 0 && !std::ptr::eq(other.as_ptr(), Arc::as_ptr(made)));
        kept.push_back(Arc::downgrade(made));
        let oldest = if kept.len() > MOST_KEPT { kept.pop_front().and_then(|oldest| oldest.upgrade()) } else { None };
        (oldest, kept.iter().filter_map(Weak::upgrade).collect::<Vec<_>>())
    });
    if let Some(oldest) = oldest {
        let mut oldest = oldest.lock().unwrap_or_else(PoisonError::into_inner);
        oldest.forget_v2();
        oldest.forget_v3();
    }
    for other in others {
        other.lock().unwrap_or_else(PoisonError::into_inner).forget_others(source);
    }
}

/// Lets go of documents of Views as long as all take more than they may: first of those for which some were made longest ago. One View
/// keeps what it has.
pub fn let_go_of_the_oldest() {
    let kept = with_kept(|kept| kept.iter().filter_map(Weak::upgrade).collect::<Vec<_>>());
    let mut bytes = 0;
    for (number, made) in kept.iter().rev().enumerate() {
        let mut made = made.lock().unwrap_or_else(PoisonError::into_inner);
        bytes += made.held_bytes();
        if bytes > MOST_KEPT_BYTES && number > 0 {
            made.forget_v2();
            made.forget_v3();
        }
    }
}

/// Makes what is shown of a document.
fn part_of(whole: &Forms, shown: &Shown) -> Value {
    let _one = MAKING.lock().unwrap_or_else(PoisonError::into_inner);
    shown.part_of(whole.value())
}

/// The hash of a document, and since when it is as it is.
type Since = (String, Timestamp);

/// A state of the source.
enum Source {
    V2(Arc<Forms>),
    V3(Arc<DocumentSet>),
}

/// What has been made, and of what.
#[derive(Debug, Default)]
struct Made {
    v2: Option<(Arc<Forms>, Arc<Forms>)>,
    v3: Option<(Arc<DocumentSet>, Arc<DocumentSet>)>,
    before: Before,
}

/// What is known of documents that are not kept any more.
#[derive(Clone, Debug, Default)]
struct Before {
    v2: Option<Since>,
    index: Option<Since>,
    v3: BTreeMap<String, Since>,
}

impl Made {
    /// What has been made of both, in all forms.
    fn held_bytes(&self) -> usize {
        let v2 = self.v2.as_ref().map_or(0, |(_, forms)| forms.held_bytes());
        let v3 = self.v3.as_ref().map_or(0, |(_, set)| set.v3.values().map(|forms| forms.held_bytes()).sum());
        v2 + v3
    }

    fn forget_v2(&mut self) {
        if let Some((_, forms)) = self.v2.take() {
            self.before.v2 = forms.known();
        }
    }

    fn forget_v3(&mut self) {
        if let Some((_, set)) = self.v3.take() {
            self.before.index = set.known();
            let known = set.v3.iter().filter_map(|(key, forms)| Some((key.clone(), forms.known()?)));
            self.before.v3 = known.collect();
        }
    }

    /// Lets go of what was made of another state of the source.
    fn forget_others(&mut self, source: &Source) {
        match source {
            Source::V2(source) if self.v2.as_ref().is_some_and(|(of, _)| !Arc::ptr_eq(of, source)) => self.forget_v2(),
            Source::V3(source) if self.v3.as_ref().is_some_and(|(of, _)| !Arc::ptr_eq(of, source)) => self.forget_v3(),
            Source::V2(_) | Source::V3(_) => {}
        }
    }
}

impl Part {
    /// What these resources show of it, in the place of another part.
    pub(super) fn new(whole: Arc<dyn DocumentSource>, resources: &[Arc<Resource>], before: Option<&Part>) -> Part {
        let shown = resources.iter().map(|resource| ShownResource {
            group: resource.gvr.group.clone(),
            version: resource.gvr.version.clone(),
            resource: resource.gvr.resource.clone(),
            kind: resource.kind.clone(),
            list_kind: resource.list_kind.clone(),
            prune: resource.seen_through.as_ref().map(|through| through.prune().as_ref().clone()).unwrap_or_default(),
            fields: resource.plan.offered().map(|field| field.label.clone()).collect(),
        });
        let before = before.map(Part::forget).unwrap_or_default();
        let made = Made { before, ..Made::default() };
        Part { whole, shown: Arc::new(Shown::new(shown)), made: Arc::new(Mutex::new(made)) }
    }

    /// Lets go of what was made: another part takes its place.
    fn forget(&self) -> Before {
        let mut made = self.made();
        made.forget_v2();
        made.forget_v3();
        made.before.clone()
    }

    fn made(&self) -> MutexGuard<'_, Made> {
        self.made.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl DocumentSource for Part {
    fn v2(&self) -> BoxFuture<'_, Result<Arc<Forms>, String>> {
        Box::pin(async {
            let whole = self.whole.v2().await?;
            let mut made = self.made();
            if let Some((of, forms)) = &made.v2
                && Arc::ptr_eq(of, &whole)
            {
                return Ok(forms.clone());
            }
            let (of, shown) = (whole.clone(), self.shown.clone());
            made.forget_v2();
            let forms = Forms::v2(Box::new(move || part_of(&of, &shown)));
            let forms = Arc::new(forms.after(made.before.v2.clone()));
            made.v2 = Some((whole.clone(), forms.clone()));
            drop(made);
            keep(&self.made, &Source::V2(whole));
            Ok(forms)
        })
    }

    fn v3(&self) -> BoxFuture<'_, Result<Arc<DocumentSet>, String>> {
        Box::pin(async {
            let whole = self.whole.v3().await?;
            let mut made = self.made();
            if let Some((of, set)) = &made.v3
                && Arc::ptr_eq(of, &whole)
            {
                return Ok(set.clone());
            }
            let of_view = whole.v3.iter().filter(|(key, _)| self.shown.has_document(key));
            made.forget_v3();
            let forms = of_view.map(|(key, forms)| {
                let (of, shown) = (forms.clone(), self.shown.clone());
                let forms = Forms::v3(Box::new(move || part_of(&of, &shown)));
                (key.clone(), Arc::new(forms.after(made.before.v3.get(key).cloned())))
            });
            let set = DocumentSet::of_forms(forms.collect());
            let set = Arc::new(DocumentSet { before: made.before.index.clone(), ..set });
            made.v3 = Some((whole.clone(), set.clone()));
            drop(made);
            keep(&self.made, &Source::V3(whole));
            Ok(set)
        })
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
    index: OnceLock<Document>,
    since: OnceLock<Timestamp>,
    /// The hash of the index before, and since when that one was.
    before: Option<Since>,
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
        DocumentSet { v3, index: OnceLock::new(), since: OnceLock::new(), before: None }
    }

    /// The v3 document of a key, such as `apis/apps/v1`.
    pub fn v3(&self, key: &str) -> Option<&Forms> {
        self.v3.get(key).map(|forms| &**forms)
    }

    /// Whether the index has been made.
    pub fn is_made(&self) -> bool {
        self.index.get().is_some()
    }

    /// Since when the index is as it is: the time of the first answer with it.
    pub fn since(&self, now: Timestamp) -> Timestamp {
        let hash = &self.index().hash;
        *self.since.get_or_init(|| since_when(self.before.as_ref(), hash, now))
    }

    /// The hash of the index and since when it is as it is, or of the one before if nobody has asked for this one.
    fn known(&self) -> Option<Since> {
        match (self.since.get(), self.index.get()) {
            (Some(since), Some(index)) => Some((index.hash.clone(), *since)),
            _ => self.before.clone(),
        }
    }

    /// The index of the v3 documents. Builds them all, for their hashes.
    pub fn index(&self) -> &Document {
        self.index.get_or_init(|| {
            let hashes = self.v3.iter().map(|(key, lazy)| (key.as_str(), lazy.document().hash.as_str()));
            Document::new(&hash::index(hashes))
        })
    }
}

/// One document in all its forms.
pub struct Forms {
    build: Build,
    encode: fn(&Value) -> Vec<u8>,
    json: OnceLock<Document>,
    protobuf: OnceLock<Bytes>,
    gzipped_json: OnceLock<Bytes>,
    gzipped_protobuf: OnceLock<Bytes>,
    since: OnceLock<Timestamp>,
    /// The hash of the document before, and since when that one was.
    before: Option<Since>,
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
        Forms {
            build,
            encode,
            json: OnceLock::new(),
            protobuf: OnceLock::new(),
            gzipped_json: OnceLock::new(),
            gzipped_protobuf: OnceLock::new(),
            since: OnceLock::new(),
            before: None,
        }
    }

    /// The same in the place of another one: a part of a document stays what it is when only something else in the document changes, and
    /// whoever sees the part alone is not told that.
    fn after(self, before: Option<Since>) -> Forms {
        Forms { before, ..self }
    }

    /// Its hash and since when it is as it is, or of the one before if nobody has asked for this one.
    fn known(&self) -> Option<Since> {
        match (self.since.get(), self.json.get()) {
            (Some(since), Some(document)) => Some((document.hash.clone(), *since)),
            _ => self.before.clone(),
        }
    }

    /// Since when it is as it is: the time of the first answer with it.
    pub fn since(&self, now: Timestamp) -> Timestamp {
        let hash = &self.document().hash;
        *self.since.get_or_init(|| since_when(self.before.as_ref(), hash, now))
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
    fn held_bytes(&self) -> usize {
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
    pub fn document(&self) -> &Document {
        self.json.get_or_init(|| Document::new(&(self.build)()))
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

    /// Its value. Read back from the bytes rather than kept: few ask, and the value is several times larger.
    fn value(&self) -> Value {
        tree::shallow(&self.document().json, DOCUMENT_LEVELS).expect("a document that was written here must be JSON")
    }

    fn protobuf(&self) -> Bytes {
        Bytes::from((self.encode)(&self.value()))
    }
}

/// Since when a document of this hash is as it is.
fn since_when(before: Option<&Since>, hash: &str, now: Timestamp) -> Timestamp {
    before.filter(|(held, _)| held == hash).map_or(now, |(_, since)| *since)
}

fn gzip(bytes: &[u8]) -> Bytes {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(bytes).expect("writing to a Vec must succeed");
    Bytes::from(encoder.finish().expect("writing to a Vec must succeed"))
}
