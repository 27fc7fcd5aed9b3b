//! Documents that take long to make: which requests wait for them.

use std::sync::{Arc, Mutex};

use futures::FutureExt;
use futures::future::BoxFuture;
use http_body_util::BodyExt;
use serde_json::json;

use super::super::{Fixture, catalog};
use super::{get_as, user};
use crate::registry::documents::{Build, DocumentForms, DocumentSet, DocumentSource, StaticDocuments};
use crate::server::documents::MOST_AT_ONCE;
use crate::wire::body::Body;

/// A document of the server's own: made at the first request, and kept.
const DOCUMENT: &str = "/openapi/v3/apis/slow.example.com/v1";

/// A user who made others wait for documents must not make those wait whose document exists.
#[tokio::test(start_paused = true)]
async fn a_document_that_is_there_needs_no_place_and_others_are_made_for_users_in_turn() {
    let fixture = Fixture::new();
    let build = |text: &'static str| -> Build { Box::new(move || json!({"info": text})) };
    let documents = [("apis/slow.example.com/v1".to_owned(), build("one")), ("api/v1".to_owned(), build("two"))];
    let catalog = catalog(&[&fixture.shirts, &fixture.hats, &fixture.pods]);
    let catalog = catalog.with_documents(Arc::new(StaticDocuments::new(build("all"), documents)));
    fixture.registry.replace(catalog, |_| None);
    let (heavy, light) = (user("heavy"), user("light"));
    let body = |response: http::Response<Body>| async {
        let bytes = response.into_body().collect().await.unwrap().to_bytes();
        String::from_utf8(bytes.to_vec()).unwrap()
    };
    assert_eq!(body(get_as(&fixture, &light, DOCUMENT).await).await, "{\"info\":\"one\"}");
    let making = &fixture.server.state.making_documents;
    let mut places = Vec::new();
    for _ in 0..MOST_AT_ONCE {
        places.push(making.acquire_one(&heavy).await.unwrap());
    }
    assert_eq!(body(get_as(&fixture, &light, DOCUMENT).await).await, "{\"info\":\"one\"}", "it is there");
    let mut waiting: Vec<_> = (0..10).map(|_| Box::pin(making.acquire_one(&heavy))).collect();
    assert!(waiting.iter_mut().all(|place| place.now_or_never().is_none()), "all places are taken");
    let mut request = Box::pin(get_as(&fixture, &light, "/openapi/v3/api/v1"));
    assert!((&mut request).now_or_never().is_none(), "this one has to be made");
    places.pop();
    assert_eq!(body(request.await).await, "{\"info\":\"two\"}", "before what another user waits for");
    assert_eq!(waiting.len(), 10);
}

/// A source whose documents change.
#[derive(Debug)]
struct Changing(Mutex<Arc<DocumentSet>>);

impl DocumentSource for Changing {
    fn v2(&self) -> BoxFuture<'_, Result<Arc<DocumentForms>, String>> {
        Box::pin(async { Err("there is none".to_owned()) })
    }

    fn v3(&self) -> BoxFuture<'_, Result<Arc<DocumentSet>, String>> {
        Box::pin(async { Ok(self.0.lock().unwrap().clone()) })
    }
}

/// Documents take megabytes, and as many requests wait as a user likes.
#[tokio::test(start_paused = true)]
async fn a_request_that_waits_for_a_document_holds_none() {
    let fixture = Fixture::new();
    let set = |text: &'static str| {
        let build: Build = Box::new(move || json!({"info": text}));
        Arc::new(DocumentSet::new([("apis/slow.example.com/v1".to_owned(), build)]))
    };
    let source = Arc::new(Changing(Mutex::new(set("before"))));
    let catalog = catalog(&[&fixture.shirts, &fixture.hats, &fixture.pods]).with_documents(source.clone());
    fixture.registry.replace(catalog, |_| None);
    let (heavy, light) = (user("heavy"), user("light"));
    let making = &fixture.server.state.making_documents;
    let mut places = Vec::new();
    for _ in 0..MOST_AT_ONCE {
        places.push(making.acquire_one(&heavy).await.unwrap());
    }
    let mut request = Box::pin(get_as(&fixture, &light, DOCUMENT));
    assert!((&mut request).now_or_never().is_none(), "it waits for a place");
    let before = Arc::downgrade(&std::mem::replace(&mut *source.0.lock().unwrap(), set("after")));
    assert_eq!(before.strong_count(), 0, "only the source held it");
    places.clear();
    let bytes = request.await.into_body().collect().await.unwrap().to_bytes();
    assert_eq!(bytes, "{\"info\":\"after\"}");
}
