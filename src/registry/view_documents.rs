//! OpenAPI documents of Views: parts of the documents of the whole server, created when first requested and cached
//! within a bound.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use futures::future::BoxFuture;
use serde_json::Value;

use super::catalog::Resource;
use super::documents::{DocumentForms, DocumentSet, DocumentSource, ServedSince, value_of};
use crate::openapi::filter::{DocumentFilter, FilteredResource};

/// The documents of a View: the parts of the server's documents (`whole`) that describe its resources.
#[derive(Debug)]
pub struct ViewDocuments {
    whole: Arc<dyn DocumentSource>,
    shown: Arc<DocumentFilter>,
    made: Arc<Mutex<CreatedDocuments>>,
}

/// The number of Views whose documents are cached: those whose documents were created last. Other documents are created
/// again on request.
pub(super) const MOST_KEPT: usize = 64;

/// The most bytes of the cached documents of all Views, in all forms. Anyone who may write CRDs chooses how long these
/// are.
pub(super) const MOST_KEPT_BYTES: usize = 64 << 20;

/// Views with cached documents, in the order in which the documents were created.
type DocumentCache = VecDeque<Weak<Mutex<CreatedDocuments>>>;

/// The cache of the process, like the memory that it takes.
#[cfg(not(test))]
static CACHE: Mutex<DocumentCache> = Mutex::new(VecDeque::new());

/// Runs `work` with the cache locked.
#[cfg(not(test))]
fn with_cache<Done>(work: impl FnOnce(&mut DocumentCache) -> Done) -> Done {
    work(&mut CACHE.lock().unwrap_or_else(PoisonError::into_inner))
}

/// The same with a cache for each thread: tests run side by side in one process.
#[cfg(test)]
fn with_cache<Done>(work: impl FnOnce(&mut DocumentCache) -> Done) -> Done {
    thread_local! {
        static CACHE: Mutex<DocumentCache> = const { Mutex::new(VecDeque::new()) };
    }
    CACHE.with(|kept| work(&mut kept.lock().unwrap_or_else(PoisonError::into_inner)))
}

/// Locked while a document of a View is created, so that only one is at a time. That takes several times the memory of
/// the whole document.
static MAKING: Mutex<()> = Mutex::new(());

/// Moves a View to the end of the cache, because its documents (`made`) were created from the state `source`. Evicts
/// the documents of the first View beyond [`MOST_KEPT`]. Also evicts those that were created from another state of the
/// source: they would keep that in memory. Locks the documents of all Views, so the caller must not hold such a lock.
fn note_created(made: &Arc<Mutex<CreatedDocuments>>, source: &Source) {
    let (oldest, others) = with_cache(|kept| {
        kept.retain(|other| other.strong_count() > 0 && !std::ptr::eq(other.as_ptr(), Arc::as_ptr(made)));
        kept.push_back(Arc::downgrade(made));
        let oldest = if kept.len() > MOST_KEPT { kept.pop_front().and_then(|oldest| oldest.upgrade()) } else { None };
        (oldest, kept.iter().filter_map(Weak::upgrade).collect::<Vec<_>>())
    });
    if let Some(oldest) = oldest {
        oldest.lock().unwrap_or_else(PoisonError::into_inner).forget();
    }
    for other in others {
        other.lock().unwrap_or_else(PoisonError::into_inner).forget_others(source);
    }
}

/// Evicts the documents of Views until all fit in 64 MiB, beginning with those that were created first. Those of the
/// last View always stay. Call it after a document was built: its length is not known before.
pub fn evict_oldest() {
    let kept = with_cache(|kept| kept.iter().filter_map(Weak::upgrade).collect::<Vec<_>>());
    let mut bytes = 0;
    for (number, made) in kept.iter().rev().enumerate() {
        let mut made = made.lock().unwrap_or_else(PoisonError::into_inner);
        bytes += made.held_bytes();
        if bytes > MOST_KEPT_BYTES && number > 0 {
            made.forget();
        }
    }
}

/// Creates the part of a document that the View shows.
fn part_of(whole: &DocumentForms, shown: &DocumentFilter) -> Value {
    let _one = MAKING.lock().unwrap_or_else(PoisonError::into_inner);
    shown.apply(value_of(whole.document()))
}

/// A state of the documents of the whole server.
enum Source {
    V2(Arc<DocumentForms>),
    V3(Arc<DocumentSet>),
}

/// The documents of a View, each with the document or set that it was created from (the first of the pair).
#[derive(Debug, Default)]
struct CreatedDocuments {
    v2: Option<(Arc<DocumentForms>, Arc<DocumentForms>)>,
    v3: Option<(Arc<DocumentSet>, Arc<DocumentSet>)>,
    since: ServedSinceOfAll,
}

/// Last-Modified of each document of a View.
#[derive(Clone, Debug, Default)]
struct ServedSinceOfAll {
    v2: Arc<ServedSince>,
    index: Arc<ServedSince>,
    v3: BTreeMap<String, Arc<ServedSince>>,
}

impl CreatedDocuments {
    /// Bytes of all created documents in all forms.
    fn held_bytes(&self) -> usize {
        let v2 = self.v2.as_ref().map_or(0, |(_, forms)| forms.held_bytes());
        let v3 = self.v3.as_ref().map_or(0, |(_, set)| set.held_bytes());
        v2 + v3
    }

    /// Drops the documents, so that the next request creates them again.
    fn forget(&mut self) {
        (self.v2, self.v3) = (None, None);
    }

    /// Drops documents that were created from another state of the source.
    fn forget_others(&mut self, source: &Source) {
        match source {
            Source::V2(source) if self.v2.as_ref().is_some_and(|(of, _)| !Arc::ptr_eq(of, source)) => self.v2 = None,
            Source::V3(source) if self.v3.as_ref().is_some_and(|(of, _)| !Arc::ptr_eq(of, source)) => self.v3 = None,
            Source::V2(_) | Source::V3(_) => {}
        }
    }
}

impl ViewDocuments {
    /// The documents of a View with these resources, as parts of the documents in `whole`. `before` are the View's
    /// previous documents: they are dropped, and their Last-Modified times continue.
    pub(super) fn new(
        whole: Arc<dyn DocumentSource>,
        resources: &[Arc<Resource>],
        before: Option<&ViewDocuments>,
    ) -> ViewDocuments {
        let shown = resources.iter().map(|resource| FilteredResource {
            group: resource.gvr.group.clone(),
            version: resource.gvr.version.clone(),
            resource: resource.gvr.resource.clone(),
            kind: resource.kind.clone(),
            list_kind: resource.list_kind.clone(),
            prune: resource.view_restriction.as_ref().map(|through| through.prune().clone()).unwrap_or_default(),
            extractor: resource.extractor.clone(),
        });
        let since = before.map(ViewDocuments::take_over).unwrap_or_default();
        let made = CreatedDocuments { since, ..CreatedDocuments::default() };
        ViewDocuments { whole, shown: Arc::new(DocumentFilter::new(shown)), made: Arc::new(Mutex::new(made)) }
    }

    /// Drops the documents, and returns their Last-Modified times for those that replace them.
    fn take_over(&self) -> ServedSinceOfAll {
        let mut made = self.made();
        made.forget();
        made.since.clone()
    }

    /// Locks the documents that were created.
    fn made(&self) -> MutexGuard<'_, CreatedDocuments> {
        self.made.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl DocumentSource for ViewDocuments {
    fn v2(&self) -> BoxFuture<'_, Result<Arc<DocumentForms>, String>> {
        Box::pin(async {
            let whole = self.whole.v2().await?;
            let mut made = self.made();
            if let Some((of, forms)) = &made.v2
                && Arc::ptr_eq(of, &whole)
            {
                return Ok(forms.clone());
            }
            let (of, shown) = (whole.clone(), self.shown.clone());
            let forms = DocumentForms::v2(Box::new(move || part_of(&of, &shown)));
            let forms = Arc::new(forms.into_part(&made.since.v2));
            made.v2 = Some((whole.clone(), forms.clone()));
            drop(made);
            note_created(&self.made, &Source::V2(whole));
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
            let of_view = || whole.documents().iter().filter(|(key, _)| self.shown.has_document(key));
            // Documents that the View showed before keep their Last-Modified times.
            let since = of_view().map(|(key, _)| (key.clone(), made.since.v3.get(key).cloned().unwrap_or_default()));
            made.since.v3 = since.collect();
            // Both sides of the zip have the same keys in the same order.
            let forms = of_view().zip(made.since.v3.values()).map(|((key, forms), since)| {
                let (of, shown) = (forms.clone(), self.shown.clone());
                let forms = DocumentForms::v3(Box::new(move || part_of(&of, &shown)));
                (key.clone(), Arc::new(forms.into_part(since)))
            });
            let set = Arc::new(DocumentSet::of_forms(forms.collect()).into_next_state(&made.since.index));
            made.v3 = Some((whole.clone(), set.clone()));
            drop(made);
            note_created(&self.made, &Source::V3(whole));
            Ok(set)
        })
    }
}
