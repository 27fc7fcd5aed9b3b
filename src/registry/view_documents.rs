//! OpenAPI documents of Views: parts of the documents of the whole server, made when first requested and cached within a bound.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use futures::future::BoxFuture;
use serde_json::Value;

use super::catalog::Resource;
use super::documents::{DocumentSet, DocumentSource, Forms, Since, value_of};
use crate::openapi::filter::{DocumentFilter, FilteredResource};

/// Some of the documents of another source, and some of what they say: what a View shows.
#[derive(Debug)]
pub struct Part {
    whole: Arc<dyn DocumentSource>,
    shown: Arc<DocumentFilter>,
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
        oldest.lock().unwrap_or_else(PoisonError::into_inner).forget();
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
            made.forget();
        }
    }
}

/// Makes what is shown of a document.
fn part_of(whole: &Forms, shown: &DocumentFilter) -> Value {
    let _one = MAKING.lock().unwrap_or_else(PoisonError::into_inner);
    shown.apply(value_of(whole.document()))
}

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
    since: SinceOfAll,
}

/// Since when each document is as it is, of a View.
#[derive(Clone, Debug, Default)]
struct SinceOfAll {
    v2: Arc<Since>,
    index: Arc<Since>,
    v3: BTreeMap<String, Arc<Since>>,
}

impl Made {
    /// What has been made of both, in all forms.
    fn held_bytes(&self) -> usize {
        let v2 = self.v2.as_ref().map_or(0, |(_, forms)| forms.held_bytes());
        let v3 = self.v3.as_ref().map_or(0, |(_, set)| set.held_bytes());
        v2 + v3
    }

    fn forget(&mut self) {
        (self.v2, self.v3) = (None, None);
    }

    /// Lets go of what was made of another state of the source.
    fn forget_others(&mut self, source: &Source) {
        match source {
            Source::V2(source) if self.v2.as_ref().is_some_and(|(of, _)| !Arc::ptr_eq(of, source)) => self.v2 = None,
            Source::V3(source) if self.v3.as_ref().is_some_and(|(of, _)| !Arc::ptr_eq(of, source)) => self.v3 = None,
            Source::V2(_) | Source::V3(_) => {}
        }
    }
}

impl Part {
    /// What these resources show of it, in the place of another part.
    pub(super) fn new(whole: Arc<dyn DocumentSource>, resources: &[Arc<Resource>], before: Option<&Part>) -> Part {
        let shown = resources.iter().map(|resource| FilteredResource {
            group: resource.gvr.group.clone(),
            version: resource.gvr.version.clone(),
            resource: resource.gvr.resource.clone(),
            kind: resource.kind.clone(),
            list_kind: resource.list_kind.clone(),
            prune: resource.seen_through.as_ref().map(|through| through.prune().clone()).unwrap_or_default(),
            plan: resource.plan.clone(),
        });
        let since = before.map(Part::forget).unwrap_or_default();
        let made = Made { since, ..Made::default() };
        Part { whole, shown: Arc::new(DocumentFilter::new(shown)), made: Arc::new(Mutex::new(made)) }
    }

    /// Lets go of what was made: another part takes its place.
    fn forget(&self) -> SinceOfAll {
        let mut made = self.made();
        made.forget();
        made.since.clone()
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
            let forms = Forms::v2(Box::new(move || part_of(&of, &shown)));
            let forms = Arc::new(forms.part(&made.since.v2));
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
            let of_view = || whole.documents().iter().filter(|(key, _)| self.shown.has_document(key));
            let since = of_view().map(|(key, _)| (key.clone(), made.since.v3.get(key).cloned().unwrap_or_default()));
            made.since.v3 = since.collect();
            let forms = of_view().zip(made.since.v3.values()).map(|((key, forms), since)| {
                let (of, shown) = (forms.clone(), self.shown.clone());
                let forms = Forms::v3(Box::new(move || part_of(&of, &shown)));
                (key.clone(), Arc::new(forms.part(since)))
            });
            let set = Arc::new(DocumentSet::of_forms(forms.collect()).a_state_of(&made.since.index));
            made.v3 = Some((whole.clone(), set.clone()));
            drop(made);
            keep(&self.made, &Source::V3(whole));
            Ok(set)
        })
    }
}
