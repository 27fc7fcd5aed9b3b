//! Work that can be long is done in turns and paid for, and what it holds meanwhile is counted.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use http::{Method, Request, Response};
use http_body::Body as HttpBody;
use http_body_util::BodyExt;
use tokio::time::timeout;

use super::{fill, get_as, get_in, user, whole, with_limits};
use crate::flow_control::connection::ConnectionState;
use crate::flow_control::limit::LimitSettings;
use crate::flow_control::seats::{Seats, UnchargedWork};
use crate::model::quantity::Bytes;
use crate::server::tests::{ALL_SHIRTS, Fixture, SHIRTS};
use crate::wire::body::Body;

#[derive(Default)]
struct Woken(AtomicUsize);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// How often a watch lets others have their turn until it waits for events.
async fn turns(body: &mut Body) -> usize {
    let woken = Arc::new(Woken::default());
    let waker = Waker::from(woken.clone());
    let mut count = 0;
    loop {
        let before = woken.0.load(Ordering::Relaxed);
        match Pin::new(&mut *body).poll_frame(&mut Context::from_waker(&waker)) {
            Poll::Ready(Some(_)) => continue,
            Poll::Ready(None) => panic!("it ends"),
            Poll::Pending => {}
        }
        tokio::task::yield_now().await;
        if woken.0.load(Ordering::Relaxed) == before {
            return count;
        }
        count += 1;
    }
}

fn requirements(count: usize) -> String {
    format!("labelSelector={}", (0..count).map(|number| format!("%21k{number}")).collect::<Vec<_>>().join(","))
}

/// Shirts of two colors in turn, so that no range of their places holds one color.
fn many(fixture: &mut Fixture, count: usize) {
    for number in 0..count {
        fixture.put_without_publishing("default", &format!("x{number:05}"), ["blue", "green"][number % 2]);
    }
    fixture.shirts.publish();
}

#[tokio::test]
async fn a_watch_looks_at_changes_of_others_in_turns() {
    let mut fixture = with_limits(LimitSettings { seats: 1_000, ..LimitSettings::default() });
    many(&mut fixture, 6_000);
    for (what, query, least) in [
        ("few requirements", "fieldSelector=metadata.name%3Dnone".to_owned(), 1),
        ("many requirements", format!("{}&fieldSelector=metadata.name%3Dnone", requirements(1_000)), 100),
    ] {
        let path = format!("{ALL_SHIRTS}?watch=1&resourceVersion=100&{query}");
        let mut watch = get_as(&fixture, &user("a"), &path).await;
        let count = turns(watch.body_mut()).await;
        assert!(count >= least, "{what}, from the past on: {count} turns");
    }
    // What waits in a mailbox is looked at in turns too.
    let path = format!("{ALL_SHIRTS}?watch=1&resourceVersion={}&{},!tone", fixture.version, requirements(1_000));
    let mut watch = get_as(&fixture, &user("a"), &path).await;
    assert_eq!(turns(watch.body_mut()).await, 0, "there is nothing yet");
    for _ in 0..60 {
        fixture.put("default", "x", "blue");
    }
    let count = turns(watch.body_mut()).await;
    assert!(count >= 1, "news: {count} turns");
}

#[tokio::test]
async fn the_start_of_a_watch_takes_a_turn_where_it_is_work() {
    let values = (0..3_000).map(|number| format!("v{number:04}")).collect::<Vec<_>>().join(",");
    for (what, version, is_work) in
        [("initial events", 0, true), ("changes of the past", 100, true), ("news", 101, false)]
    {
        let mut fixture = with_limits(LimitSettings { seats: 1, ..LimitSettings::default() });
        fixture.put("default", "x", "blue");
        let path = format!("{ALL_SHIRTS}?watch=1&resourceVersion={version}&labelSelector=tone%20in%20({values})");
        let mut watch = get_as(&fixture, &user("a"), &path).await;
        let limits = fixture.server.limits();
        let watches = limits.watches().of_busiest();
        // Another user has taken all seats of this round.
        limits.seats().wait_for_turn(&user("b")).await.work_and_settle(Duration::from_secs(1), || ());
        assert!(futures::poll!(watch.body_mut().frame()).is_pending(), "{what}");
        assert_eq!(limits.seats().waiting(), usize::from(is_work), "{what}");
        assert_eq!(limits.watches().of_busiest(), watches, "{what}: nothing has begun");
        drop(watch);
        assert_eq!((limits.seats().waiting(), limits.watches().of_busiest()), (0, 0), "{what}");
    }
}

#[tokio::test]
async fn work_without_a_turn_is_charged_when_it_ends_before_one() {
    let seats = Arc::new(Seats::new(1));
    for (what, time, is_full) in
        [("nothing", 0, false), ("less than a unit", 100, false), ("a second", 1_000_000, true)]
    {
        let mut ended = UnchargedWork::new(&seats, &user("a"));
        ended.add(Duration::from_micros(time));
        drop(ended);
        let other = user("b");
        let next = std::pin::pin!(seats.wait_for_turn(&other));
        assert_eq!(futures::poll!(next).is_pending(), is_full, "{what}");
    }
}

#[tokio::test]
async fn the_places_of_initial_events_count_until_they_are_sent() {
    let mut fixture = with_limits(LimitSettings::default());
    many(&mut fixture, 8_000);
    let path = format!("{ALL_SHIRTS}?watch=1&fieldSelector=spec.color%3Dblue");
    let mut watch = get_as(&fixture, &user("a"), &path).await;
    let counted = || fixture.server.limits().watches().of_busiest();
    assert_eq!(counted(), 1, "nothing has been found yet");
    watch.body_mut().frame().await.unwrap().unwrap();
    assert_eq!(counted(), 2, "4,000 places");
    turns(watch.body_mut()).await;
    assert_eq!(counted(), 1, "all have been sent");
    drop(watch);

    let mut fixture = with_limits(LimitSettings { watches_per_user: 1, ..LimitSettings::default() });
    many(&mut fixture, 8_000);
    let mut watch = get_as(&fixture, &user("a"), &path).await;
    let event = watch.body_mut().frame().await.unwrap().unwrap().into_data().unwrap();
    let event: serde_json::Value = serde_json::from_slice(&event).unwrap();
    assert_eq!((&event["type"], &event["object"]["code"]), (&"ERROR".into(), &429.into()));
    let message = event["object"]["message"].as_str().unwrap();
    assert!(message.contains("its initial events take 8"), "{message}");
}

/// A selector of values takes many times the memory of its text.
#[tokio::test(start_paused = true)]
async fn the_selectors_of_lists_that_wait_are_counted() {
    let mut fixture = with_limits(LimitSettings { lists: 1, unread_bytes: Bytes(2 << 20), ..LimitSettings::default() });
    fill(&mut fixture);
    let first = get_as(&fixture, &user("a"), SHIRTS).await;
    assert_eq!(first.status(), 200);
    let values = (0..8_000).map(|number| format!("v{number:04}")).collect::<Vec<_>>().join(",");
    let path = format!("{SHIRTS}?labelSelector=tone%20in%20(blue,{values})");
    let caller = user("a");
    let send = || Box::pin(get_as(&fixture, &caller, &path));
    let mut waiting = Vec::new();
    let refused = loop {
        let mut request = send();
        match timeout(Duration::from_millis(1), &mut request).await {
            Ok(refused) => break whole(refused).await,
            Err(_) => waiting.push(request),
        }
    };
    assert_eq!(refused.code, 429);
    assert_eq!(refused.json()["details"]["causes"][0]["reason"], "UnreadBytesLimit", "{} wait", waiting.len());
    assert_eq!(waiting.len(), 2, "each takes some 350 KiB of 1 MiB");
    let mut last = waiting.pop().unwrap();
    drop((waiting, first));
    let answer = timeout(Duration::from_secs(1), &mut last).await.expect("its turn");
    assert_eq!(answer.status(), 200);
}

async fn get_metadata(fixture: &Fixture, path: &str) -> Response<Body> {
    let accept = "application/vnd.kubernetes.protobuf;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io";
    let request = Request::builder().method(Method::GET).uri(path).header("host", "127.0.0.1").header("accept", accept);
    fixture.server.answer_to(&ConnectionState::for_user(user("a"), true), request.body(String::new()).unwrap()).await
}

#[tokio::test]
async fn what_a_list_holds_while_it_is_measured_is_counted() {
    let mut fixture =
        with_limits(LimitSettings { unread_bytes: Bytes(1 << 20), seats: 1_000, ..LimitSettings::default() });
    many(&mut fixture, 8_000);
    let path = format!("{ALL_SHIRTS}?fieldSelector=spec.color%3Dblue");
    let mut measured = Vec::new();
    for _ in 0..100 {
        let mut request = Box::pin(get_metadata(&fixture, &path));
        match futures::poll!(&mut request) {
            Poll::Pending => measured.push(request),
            Poll::Ready(refused) => {
                assert_eq!(refused.status(), 429);
                break;
            }
        }
    }
    // Two listings of 8 KB each, of half a mebibyte for one user.
    assert!((20..40).contains(&measured.len()), "{} are measured", measured.len());
    measured.clear();
    assert_eq!(get_metadata(&fixture, &path).await.status(), 200);
}

/// All requests of a user can wait for their turns at the same time, each with sets of slots.
#[tokio::test]
async fn what_requests_hold_between_turns_is_counted() {
    let mut fixture =
        with_limits(LimitSettings { unread_bytes: Bytes(16 << 20), seats: 1_000, ..LimitSettings::default() });
    many(&mut fixture, 10_000);
    let selector = "fieldSelector=metadata.name%5E%3Dx";
    let facets = "application/json;as=Facets;v=v1alpha1;g=view.fieldcache.dev";
    for (what, query, accept) in [
        ("a list", format!("limit=1&{selector}"), "*/*"),
        ("a sorted list", format!("limit=1&sortBy=metadata.name&{selector}"), "*/*"),
        ("an explanation", format!("limit=1&explain=true&{selector}"), "*/*"),
        ("an expression", "limit=1&celSelector=self.metadata.name.startsWith('x')".to_owned(), "*/*"),
        ("facets", format!("facets=spec.color&{selector}"), facets),
    ] {
        let path = format!("{ALL_SHIRTS}?{query}");
        let caller = user("a");
        let mut waiting = Vec::new();
        for _ in 0..100 {
            let mut request = Box::pin(get_in(&fixture, &caller, &path, accept));
            match futures::poll!(&mut request) {
                Poll::Pending => waiting.push(request),
                Poll::Ready(refused) => {
                    let refused = whole(refused).await;
                    assert_eq!(refused.code, 429, "{what}: {}", refused.body);
                    assert_eq!(refused.json()["details"]["causes"][0]["reason"], "UnreadBytesLimit", "{what}");
                    break;
                }
            }
        }
        // Each counts as four to twelve sets of 130 KiB, of half of 16 MiB.
        assert!((4..20).contains(&waiting.len()), "{what}: {} wait", waiting.len());
        // Another user has a part of its own.
        assert_eq!(get_in(&fixture, &user("b"), &path, accept).await.status(), 200, "{what}");
        waiting.clear();
        assert_eq!(get_in(&fixture, &caller, &path, accept).await.status(), 200, "{what}");
    }
    let path = format!("{ALL_SHIRTS}?watch=1&{selector}");
    let mut waiting = Vec::new();
    for _ in 0..100 {
        let mut watch = get_as(&fixture, &user("a"), &path).await;
        let first = {
            let mut frame = Box::pin(watch.body_mut().frame());
            futures::poll!(&mut frame)
        };
        match first {
            Poll::Pending => waiting.push(watch),
            Poll::Ready(frame) => {
                let event = frame.unwrap().unwrap().into_data().unwrap();
                let event: serde_json::Value = serde_json::from_slice(&event).unwrap();
                assert_eq!((&event["type"], &event["object"]["code"]), (&"ERROR".into(), &429.into()));
                break;
            }
        }
    }
    assert!((4..20).contains(&waiting.len()), "{} watches wait", waiting.len());
}

#[tokio::test]
async fn the_state_of_an_earlier_version_is_found_in_turns() {
    let mut fixture =
        with_limits(LimitSettings { unread_bytes: Bytes(16 << 20), seats: 1_000, ..LimitSettings::default() });
    many(&mut fixture, 6_000);
    let caller = user("a");
    let path = format!("{ALL_SHIRTS}?resourceVersion=100&resourceVersionMatch=Exact&limit=1");
    let mut list = Box::pin(get_in(&fixture, &caller, &path, "*/*"));
    let mut turns = 0;
    let response = loop {
        match futures::poll!(&mut list) {
            Poll::Pending => turns += 1,
            Poll::Ready(response) => break response,
        }
        assert!(turns < 10_000, "it ends");
        tokio::task::yield_now().await;
    };
    assert_eq!(response.status(), 200);
    assert!(turns >= 30, "{turns} turns");
    // What it holds meanwhile counts: 128 bytes for each change, rounded up to 1 MiB, of half of 16 MiB.
    let mut waiting = Vec::new();
    let refused = loop {
        let mut list = Box::pin(get_in(&fixture, &caller, &path, "*/*"));
        match futures::poll!(&mut list) {
            Poll::Pending => waiting.push(list),
            Poll::Ready(refused) => break whole(refused).await,
        }
        assert!(waiting.len() < 100, "all of them wait");
    };
    assert_eq!(refused.json()["details"]["causes"][0]["reason"], "UnreadBytesLimit", "{}", refused.body);
    assert!((4..=8).contains(&waiting.len()), "{} wait", waiting.len());
}
