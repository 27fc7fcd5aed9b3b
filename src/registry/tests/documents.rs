//! The documents of a View: which changes it reports.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

use futures::future::BoxFuture;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::resource;
use crate::registry::documents::{Build, DocumentEncoding, DocumentForms, DocumentSet, DocumentSource};
use crate::registry::view_documents::{MOST_KEPT, MOST_KEPT_BYTES, ViewDocuments, evict_oldest};

const KEY: &str = "api/v1";

/// A source whose document changes each time: what is shown of it, and what is not.
#[derive(Debug)]
struct Changing(Mutex<(Arc<DocumentForms>, Arc<DocumentSet>)>);

fn documents(shown: &'static str, hidden: &'static str) -> (Arc<DocumentForms>, Arc<DocumentSet>) {
    let build = move || -> Build {
        Box::new(move || {
            let path = |text: &str| json!({"get": {"description": text}});
            json!({"paths": {"/api/v1/things": path(shown), "/api/v1/others": path(hidden)}})
        })
    };
    (Arc::new(DocumentForms::v2(build())), Arc::new(DocumentSet::new([(KEY.to_owned(), build())])))
}

impl Changing {
    fn new(shown: &'static str, hidden: &'static str) -> Arc<Changing> {
        Arc::new(Changing(Mutex::new(documents(shown, hidden))))
    }

    fn change(&self, shown: &'static str, hidden: &'static str) {
        *self.0.lock().unwrap() = documents(shown, hidden);
    }
}

impl DocumentSource for Changing {
    fn v2(&self) -> BoxFuture<'_, Result<Arc<DocumentForms>, String>> {
        Box::pin(async { Ok(self.0.lock().unwrap().0.clone()) })
    }

    fn v3(&self) -> BoxFuture<'_, Result<Arc<DocumentSet>, String>> {
        Box::pin(async { Ok(self.0.lock().unwrap().1.clone()) })
    }
}

/// The times of the last change of the three forms of documents, read at a second.
async fn since(part: &ViewDocuments, second: i64) -> [i64; 3] {
    let now = Timestamp::from_second(second).unwrap();
    let (v2, v3) = (part.v2().await.unwrap(), part.v3().await.unwrap());
    [v2.since(now), v3.since(now), v3.v3(KEY).unwrap().since(now)].map(Timestamp::as_second)
}

#[tokio::test]
async fn a_views_documents_are_new_only_when_what_it_shows_is() {
    let whole = Changing::new("one", "hidden");
    let things = [resource("things")];
    let part = ViewDocuments::new(whole.clone(), &things, None);
    let document = serde_json::from_slice::<Value>(&part.v2().await.unwrap().document().json).unwrap();
    assert_eq!(document["paths"].as_object().map(serde_json::Map::len), Some(1), "{document}");
    assert_eq!(since(&part, 1).await, [1; 3]);
    whole.change("one", "changed");
    assert_eq!(since(&part, 2).await, [1; 3], "what changed is not shown");
    // Another catalog, for nothing that the View shows.
    let again = ViewDocuments::new(whole.clone(), &things, Some(&part));
    assert_eq!(since(&again, 3).await, [1; 3], "nor is it another View");
    whole.change("one", "changed again");
    let unasked = ViewDocuments::new(whole.clone(), &things, Some(&again));
    let again = ViewDocuments::new(whole.clone(), &things, Some(&unasked));
    assert_eq!(since(&again, 4).await, [1; 3], "whether or not a request came in between");
    whole.change("two", "changed again");
    assert_eq!(since(&again, 5).await, [5; 3], "what is shown has changed");
    whole.change("two", "and once more");
    assert_eq!(since(&again, 6).await, [5; 3]);
}

/// A request that waits gets the state that it has read, also after others got a later one.
#[tokio::test]
async fn a_late_answer_makes_no_document_new() {
    let whole = Changing::new("one", "hidden");
    let part = ViewDocuments::new(whole.clone(), &[resource("things")], None);
    let since = |forms: &DocumentForms, second| forms.since(Timestamp::from_second(second).unwrap()).as_second();
    let early = part.v2().await.unwrap();
    whole.change("one", "changed");
    let same = part.v2().await.unwrap();
    assert!(!Arc::ptr_eq(&early, &same), "another state");
    assert_eq!(since(&early, 1), 1);
    assert_eq!(since(&same, 2), 1, "with the same content, answered after the one before");
    whole.change("two", "changed");
    let other = part.v2().await.unwrap();
    assert_eq!(since(&other, 3), 3);
    assert_eq!(since(&early, 4), 4, "an earlier state is as it was requested");
    assert_eq!(since(&other, 5), 3, "and changes nothing for the later one");
}

/// Documents of a View take about a megabyte, and authors of Views choose how many there are.
#[tokio::test]
async fn the_documents_of_a_bounded_number_of_views_are_kept() {
    let whole = Changing::new("one", "one");
    let things = [resource("things")];
    let parts: Vec<ViewDocuments> = (0..=MOST_KEPT).map(|_| ViewDocuments::new(whole.clone(), &things, None)).collect();
    let first = parts[0].v2().await.unwrap();
    let at = Timestamp::from_second(1).unwrap();
    assert_eq!(first.since(at), at);
    for part in &parts[1..] {
        part.v2().await.unwrap();
    }
    let again = parts[0].v2().await.unwrap();
    assert!(!Arc::ptr_eq(&first, &again), "one more than are kept lets the oldest go");
    assert_eq!(first.document().hash, again.document().hash, "which is made again");
    assert_eq!(again.since(Timestamp::from_second(2).unwrap()), at, "and is as old as it was");
}

/// Catalogs and documents change as often as authors of FieldCaches or definitions like.
#[tokio::test]
async fn views_keep_no_documents_of_earlier_states() {
    let whole = Changing::new("one", "one");
    let things = [resource("things")];
    let part = ViewDocuments::new(whole.clone(), &things, None);
    let (v2, v3) = (part.v2().await.unwrap(), part.v3().await.unwrap());
    assert_eq!(since(&part, 1).await, [1; 3]);
    let weak_documents = (Arc::downgrade(&v2), Arc::downgrade(&v3));
    drop((v2, v3));
    let again = ViewDocuments::new(whole.clone(), &things, Some(&part));
    drop(part);
    assert_eq!(
        (weak_documents.0.strong_count(), weak_documents.1.strong_count()),
        (0, 0),
        "the View keeps documents in another catalog"
    );
    assert_eq!(since(&again, 2).await, [1; 3], "but not since when they are as they are");
    // No client requests these again.
    let (v2, v3) = (whole.v2().await.unwrap(), whole.v3().await.unwrap());
    let earlier = (Arc::downgrade(&v2), Arc::downgrade(&v3));
    drop((v2, v3));
    whole.change("two", "two");
    let other = ViewDocuments::new(whole.clone(), &things, None);
    assert_eq!(since(&other, 3).await, [3; 3]);
    assert_eq!((earlier.0.strong_count(), earlier.1.strong_count()), (0, 0), "a View keeps all of an earlier state");
    assert_eq!(since(&again, 4).await, [4; 3], "it shows the new state at the next request");
}

#[tokio::test]
async fn the_documents_of_views_take_so_many_bytes_together_and_the_last_view_keeps_its_own() {
    const LENGTH: usize = MOST_KEPT_BYTES / 8;
    let long: &'static str = "long".repeat(LENGTH / 4).leak();
    let whole = Changing::new(long, "hidden");
    let things = [resource("things")];
    let parts: Vec<ViewDocuments> = (0..6).map(|_| ViewDocuments::new(whole.clone(), &things, None)).collect();
    let mut made = Vec::new();
    for part in &parts {
        let forms = part.v2().await.unwrap();
        for encoding in [DocumentEncoding::Json, DocumentEncoding::Protobuf] {
            assert!(forms.body(encoding).len() > LENGTH, "a document and another form of it");
        }
        made.push(Arc::downgrade(&forms));
        drop(forms);
        evict_oldest();
    }
    let kept: Vec<bool> = made.iter().map(|forms| forms.strong_count() > 0).collect();
    assert_eq!(kept, [false, false, false, true, true, true], "three Views with two forms each find room");
    let again = parts[0].v2().await.unwrap();
    assert!(again.body(DocumentEncoding::Json).len() > LENGTH, "what was let go is made again");

    let huge: &'static str = "long".repeat(MOST_KEPT_BYTES / 2).leak();
    let one = ViewDocuments::new(Changing::new(huge, "hidden"), &things, None);
    let forms = one.v2().await.unwrap();
    assert!(forms.body(DocumentEncoding::Json).len() > MOST_KEPT_BYTES);
    evict_oldest();
    assert!(Arc::ptr_eq(&forms, &one.v2().await.unwrap()), "one View keeps what it has");
}

/// A whole document takes many times its memory while it is made.
#[test]
fn whole_documents_are_made_one_by_one_and_parts_of_them_beside_them() {
    let order = Arc::new(Mutex::new(Vec::new()));
    let note = |text: &'static str| {
        let order = order.clone();
        move || order.lock().unwrap().push(text)
    };
    let (begins, ends) = (note("second begins"), note("second ends"));
    let second = Arc::new(DocumentForms::v3(Box::new(move || {
        begins();
        ends();
        json!({"openapi": "3.0.0"})
    })));
    let (begins, ends, other) = (note("first begins"), note("first ends"), second.clone());
    let made = Arc::new(Mutex::new(None));
    let making = made.clone();
    let first = DocumentForms::v3(Box::new(move || {
        begins();
        let (other, has_begun) = (other.clone(), Arc::new(AtomicBool::new(false)));
        let begun = has_begun.clone();
        *making.lock().unwrap() = Some(thread::spawn(move || {
            begun.store(true, Ordering::SeqCst);
            other.document().hash.clone()
        }));
        while !has_begun.load(Ordering::SeqCst) {
            thread::yield_now();
        }
        // An implementation that makes both at a time has begun the second one by then.
        (0..10_000).for_each(|_| thread::yield_now());
        ends();
        json!({"openapi": "3.0.0"})
    }));
    assert_eq!(first.document().hash, made.lock().unwrap().take().unwrap().join().unwrap());
    assert_eq!(*order.lock().unwrap(), ["first begins", "first ends", "second begins", "second ends"]);
    assert!(!first.body(DocumentEncoding::Protobuf).is_empty(), "it is written in another form afterwards");
}
