//! Slow readers while much changes: the state that they began with is dropped, and their response says so.

use std::sync::Arc;

use http::{Method, StatusCode};
use http_body_util::BodyExt;

use super::{fill, user};
use crate::model::Version;
use crate::query::State;
use crate::server::tests::{ALL_SHIRTS, Fixture};
use crate::server::{Settings, read};
use crate::store::{HistoryLimits, Pinned, Store};
use crate::wire::api_error::ApiError;

const MOST: u64 = 1 << 20;

fn fixture() -> Fixture {
    let mut fixture = Fixture::loading(Settings::default(), HistoryLimits::default());
    fixture.shirts.store = Store::new(HistoryLimits::default()).pinned_by(&Arc::new(Pinned::new(MOST)));
    fixture.shirts.store.replace(&[], Version::new(100));
    fixture.shirts.publish();
    fill(&mut fixture);
    fixture
}

/// Changes one object so often that more than the bound is dropped. Each change counts at least one node of the objects
/// and one of history, of half a kilobyte each.
fn churn(fixture: &mut Fixture) {
    for _ in 0..MOST / 1024 {
        fixture.put_without_publishing("default", "churned", "blue");
    }
    fixture.shirts.publish();
}

#[tokio::test(start_paused = true)]
async fn a_list_whose_state_is_let_go_breaks_off_and_is_never_taken_for_a_whole_one() {
    let mut fixture = fixture();
    for (what, accept) in [
        ("a list", "application/json"),
        ("a table", "application/json;as=Table;v=v1;g=meta.k8s.io"),
        ("metadata", "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"),
        ("YAML", "application/yaml"),
    ] {
        for path in [ALL_SHIRTS.to_owned(), format!("{ALL_SHIRTS}?limit=500")] {
            let read = async |fixture: &Fixture| {
                let response = fixture.send(Method::GET, &path, &[("accept", accept)]).await;
                assert_eq!(response.status(), StatusCode::OK, "{what}");
                response.into_body()
            };
            let whole = read(&fixture).await.collect().await;
            assert!(whole.is_ok(), "{what}: one that is read is sent");
            let slow = read(&fixture).await;
            churn(&mut fixture);
            assert!(slow.collect().await.is_err(), "{what}: {path}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_watch_whose_initial_state_is_let_go_ends_with_410() {
    let mut fixture = fixture();
    let path = format!("{ALL_SHIRTS}?watch=1");
    let mut followed = fixture.watch(&format!("{path}&resourceVersion=100")).await;
    let unread = fixture.watch(&path).await;
    let mut begun = fixture.watch(&path).await;
    begun.next().await.unwrap();
    churn(&mut fixture);
    for (what, mut watch) in [("one of which nothing was read", unread), ("one in the middle", begun)] {
        let last = loop {
            let event = watch.next().await.unwrap();
            if event["type"] != "ADDED" {
                break event;
            }
        };
        assert_eq!((last["type"].as_str(), last["object"]["code"].as_u64()), (Some("ERROR"), Some(410)), "{what}");
        watch.expect_end(what).await;
    }
    assert!(followed.next().await.is_some(), "a watch that follows holds no state");
}

/// A selection can take many turns to be planned.
#[tokio::test]
async fn work_in_turns_ends_with_410_when_its_state_is_let_go() {
    for is_let_go in [false, true] {
        let mut fixture = fixture();
        let state = State::current(fixture.shirts.store.snapshot());
        let version = state.version();
        let snapshot = state.snapshot().clone();
        let version_of = Box::pin(async move {
            tokio::task::yield_now().await;
            state.version()
        });
        // It borrows no part of the fixture, which changes.
        let limits = fixture.server.limits().clone();
        let caller = user("a");
        let waiting = read::WaitingMemory { unread: limits.unread(), user: &caller, bytes: 0 };
        let mut work = Box::pin(read::in_turns(snapshot, waiting, version_of));
        assert!(futures::poll!(&mut work).is_pending());
        if is_let_go {
            churn(&mut fixture);
            assert!(matches!(work.await, Err(ApiError::Expired { .. })));
        } else {
            assert_eq!(work.await, Ok(version));
        }
    }
}
