//! The documents of a View: what is told of when they changed.

use std::sync::{Arc, Mutex};

use futures::future::BoxFuture;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::resource;
use crate::registry::documents::{Build, DocumentSet, DocumentSource, Forms, MOST_KEPT, Part};

const KEY: &str = "api/v1";

/// A source whose document is made anew with each change: what is shown of it, and what is not.
#[derive(Debug)]
struct Changing(Mutex<(Arc<Forms>, Arc<DocumentSet>)>);

fn documents(shown: &'static str, hidden: &'static str) -> (Arc<Forms>, Arc<DocumentSet>) {
    let build = move || -> Build {
        Box::new(move || {
            let path = |text: &str| json!({"get": {"description": text}});
            json!({"paths": {"/api/v1/things": path(shown), "/api/v1/others": path(hidden)}})
        })
    };
    (Arc::new(Forms::v2(build())), Arc::new(DocumentSet::new([(KEY.to_owned(), build())])))
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
    fn v2(&self) -> BoxFuture<'_, Result<Arc<Forms>, String>> {
        Box::pin(async { Ok(self.0.lock().unwrap().0.clone()) })
    }

    fn v3(&self) -> BoxFuture<'_, Result<Arc<DocumentSet>, String>> {
        Box::pin(async { Ok(self.0.lock().unwrap().1.clone()) })
    }
}

/// Since when the three forms of documents are as they are, asked at a second.
async fn since(part: &Part, second: i64) -> [i64; 3] {
    let now = Timestamp::from_second(second).unwrap();
    let (v2, v3) = (part.v2().await.unwrap(), part.v3().await.unwrap());
    [v2.since(now), v3.since(now), v3.v3(KEY).unwrap().since(now)].map(Timestamp::as_second)
}

#[tokio::test]
async fn a_views_documents_are_new_only_when_what_it_shows_is() {
    let whole = Changing::new("one", "hidden");
    let things = [resource("things")];
    let part = Part::new(whole.clone(), &things, None);
    let document = serde_json::from_slice::<Value>(&part.v2().await.unwrap().document().json).unwrap();
    assert_eq!(document["paths"].as_object().map(serde_json::Map::len), Some(1), "{document}");
    assert_eq!(since(&part, 1).await, [1; 3]);
    whole.change("one", "changed");
    assert_eq!(since(&part, 2).await, [1; 3], "what changed is not shown");
    // Another catalog, for nothing that the View shows.
    let again = Part::new(whole.clone(), &things, Some(&part));
    assert_eq!(since(&again, 3).await, [1; 3], "nor is it another View");
    whole.change("one", "changed again");
    let unasked = Part::new(whole.clone(), &things, Some(&again));
    let again = Part::new(whole.clone(), &things, Some(&unasked));
    assert_eq!(since(&again, 4).await, [1; 3], "whether or not somebody has asked in between");
    whole.change("two", "changed again");
    assert_eq!(since(&again, 5).await, [5; 3], "what is shown has changed");
    whole.change("two", "and once more");
    assert_eq!(since(&again, 6).await, [5; 3]);
}

/// Documents of a View take about a megabyte, and anybody who may write Views chooses how many there are.
#[tokio::test]
async fn the_documents_of_a_bounded_number_of_views_are_kept() {
    let whole = Changing::new("one", "one");
    let things = [resource("things")];
    let parts: Vec<Part> = (0..=MOST_KEPT).map(|_| Part::new(whole.clone(), &things, None)).collect();
    let first = parts[0].v2().await.unwrap();
    for part in &parts[1..] {
        part.v2().await.unwrap();
    }
    let again = parts[0].v2().await.unwrap();
    assert!(!Arc::ptr_eq(&first, &again), "one more than are kept lets the oldest go");
    assert_eq!(first.document().hash, again.document().hash, "which is made again");
}
