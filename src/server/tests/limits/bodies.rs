//! Bodies in memory: their places, their bytes, their time, and what is decided before them.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body::Frame;
use tokio::time::{Instant, timeout};

use super::super::Answer;
use super::super::placement_review::{Fixture, REVIEWS, cluster};
use super::{user, whole};
use crate::flow_control::bodies::{Bodies, InMemory};
use crate::flow_control::connection::ConnectionState;
use crate::flow_control::limit::{Limit, LimitSettings};
use crate::model::quantity;
use crate::server::Settings;
use crate::wire::body::Body;

fn bodies(most: u64, bytes: u64) -> Arc<Bodies> {
    Arc::new(Bodies::new(&LimitSettings {
        bodies: most,
        body_bytes: quantity::Bytes(bytes),
        ..LimitSettings::default()
    }))
}

#[test]
fn a_user_may_have_as_many_bodies_as_are_free() {
    let bodies = bodies(8, 1 << 20);
    let mut of_a: Vec<_> = (0..4).map(|_| bodies.enter(&user("a")).unwrap()).collect();
    let refused = bodies.enter(&user("a")).unwrap_err();
    assert_eq!((refused.limit, refused.retry_after), (Limit::Bodies, Some(1)));
    assert_eq!(
        refused.message,
        "too many requests, please try again later: 4 bodies of reviews and of responses to writes are in memory, with 0 bytes. Of these, 4 bodies with 0 bytes are of user \"a\". One user may have at most half of what other users leave free of --max-bodies=8. Send fewer reviews and writes at a time, or raise --max-bodies"
    );
    let of_b: Vec<_> = (0..2).map(|_| bodies.enter(&user("b")).unwrap()).collect();
    assert!(bodies.enter(&user("b")).is_err(), "two are free");
    let of_c = bodies.enter(&user("c")).unwrap();
    let of_d = bodies.enter(&user("d")).unwrap();
    let of_reserve = ["e", "f"].map(|name| bodies.enter(&user(name)).unwrap());
    assert!(bodies.enter(&user("g")).is_err(), "none is free, and none is left of the reserve");
    assert!(bodies.enter(&user("e")).is_err(), "the reserve is for the first one of a user");
    assert_eq!(bodies.in_memory(), InMemory { bodies: 10, bytes: 0 });
    of_a.pop();
    assert!(bodies.enter(&user("a")).is_err(), "a user with three waits for two more");
    drop(bodies.enter(&user("g")).unwrap());
    drop((of_a, of_b, of_c, of_d, of_reserve));
    assert_eq!(bodies.in_memory(), InMemory::default());
}

#[test]
fn bytes_are_shared_as_bodies_are_and_returned() {
    // More than the first body of a user may have in any case.
    const PART: usize = 1 << 20;
    let bodies = bodies(8, 10 * PART as u64);
    let mut of_a = bodies.enter(&user("a")).unwrap();
    let mut more_of_a = bodies.enter(&user("a")).unwrap();
    of_a.grow(3 * PART).unwrap();
    more_of_a.grow(2 * PART).unwrap();
    assert_eq!(more_of_a.grow(1).unwrap_err().limit, Limit::BodyBytes);
    let mut of_b = bodies.enter(&user("b")).unwrap();
    of_b.grow(2 * PART).unwrap();
    assert!(of_b.grow(2 * PART).is_err());
    assert_eq!(bodies.in_memory(), InMemory { bodies: 3, bytes: 7 * PART as u64 }, "what was rejected is not counted");
    drop(of_a);
    assert_eq!(bodies.in_memory(), InMemory { bodies: 2, bytes: 4 * PART as u64 });
    drop((more_of_a, of_b));
    assert_eq!(bodies.in_memory(), InMemory::default());
}

/// A body that has some pieces, counts the bytes that are read, and may never end.
struct Pieces {
    left: usize,
    size: usize,
    is_endless: bool,
    read: Arc<AtomicUsize>,
}

impl http_body::Body for Pieces {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        if self.left == 0 {
            return if self.is_endless { Poll::Pending } else { Poll::Ready(None) };
        }
        self.left -= 1;
        self.read.fetch_add(self.size, Ordering::SeqCst);
        Poll::Ready(Some(Ok(Frame::data(Bytes::from(vec![b' '; self.size])))))
    }
}

fn request(body: Pieces, token: &str) -> Request<Pieces> {
    let request = Request::post(REVIEWS).header("host", "127.0.0.1:8181").header("content-type", "application/json");
    request.header("authorization", format!("Bearer {token}")).body(body).unwrap()
}

fn pieces(left: usize, is_endless: bool) -> (Pieces, Arc<AtomicUsize>) {
    let read = Arc::new(AtomicUsize::new(0));
    (Pieces { left, size: 1 << 10, is_endless, read: read.clone() }, read)
}

async fn post(fixture: &Fixture, user_name: &str, body: Pieces) -> Response<Body> {
    fixture.server().answer_to(&ConnectionState::for_user(user(user_name), true), request(body, user_name)).await
}

async fn posted(fixture: &Fixture, user_name: &str, body: Pieces) -> Answer {
    whole(post(fixture, user_name, body).await).await
}

#[tokio::test(start_paused = true)]
async fn slow_bodies_hold_their_places_for_a_bounded_time() {
    let limits = LimitSettings { bodies: 8, body_bytes: quantity::Bytes(1 << 20), ..LimitSettings::default() };
    let fixture = Fixture::with(Settings { limits, ..Settings::default() });
    let started = Instant::now();
    let mut slow: Vec<_> = (0..4).map(|_| Box::pin(post(&fixture, "a", pieces(10, true).0))).collect();
    for request in &mut slow {
        assert!(timeout(Duration::from_millis(1), request).await.is_err(), "it is not complete");
    }
    assert_eq!(fixture.server().limits().bodies().in_memory(), InMemory { bodies: 4, bytes: 40 << 10 });
    let (body, read) = pieces(10, false);
    let refused = posted(&fixture, "a", body).await;
    assert_eq!((refused.code.as_u16(), refused.header("retry-after")), (429, "1"), "{}", refused.body);
    assert_eq!(refused.json()["details"]["causes"][0]["reason"], "BodyLimit");
    assert_eq!(read.load(Ordering::SeqCst), 0, "no byte was read");
    assert_eq!(fixture.server().limits().rejections(Limit::Bodies), 1);
    let other = posted(&fixture, "b", pieces(10, false).0).await;
    assert_eq!(other.code.as_u16(), 400, "another user's body is read: {}", other.body);
    for request in slow {
        let late = whole(request.await).await;
        assert_eq!(late.code.as_u16(), 400);
        assert_eq!(late.message(), "the body of the request did not arrive in time: the maximum is 15 s");
    }
    assert_eq!(started.elapsed().as_secs(), 15);
    let mut hasty = request(pieces(10, true).0, "a");
    *hasty.uri_mut() = format!("{REVIEWS}?timeout=5s").parse().unwrap();
    let late = whole(fixture.server().answer_to(&ConnectionState::for_user(user("a"), true), hasty).await).await;
    let message = "the body of the request did not arrive in time: the timeout of the request left 5.0 s for it";
    assert_eq!((late.code.as_u16(), &*late.message()), (400, message));
    assert_eq!(fixture.server().limits().bodies().in_memory(), InMemory::default());
    let refused = posted(&fixture, "a", pieces(600, false).0).await;
    assert_eq!(refused.json()["details"]["causes"][0]["reason"], "BodyBytesLimit", "{}", refused.body);
}

#[tokio::test]
async fn what_needs_no_body_is_decided_before_it() {
    let fixture = Fixture::with(Settings { access: Some(cluster().access()), ..Settings::default() });
    // Each ends with an answer although its body never does.
    let denied = |body: Pieces| async { posted(&fixture, "mallory", body).await };
    let (body, read) = pieces(100, true);
    let answer = denied(body).await;
    assert_eq!((answer.code.as_u16(), read.load(Ordering::SeqCst)), (403, 0), "{}", answer.body);
    let (body, read) = pieces(100, true);
    let mut wrong = request(body, "alice");
    *wrong.uri_mut() = format!("{REVIEWS}?fieldValidation=Sometimes").parse().unwrap();
    let answer = whole(fixture.server().answer_to(&ConnectionState::for_user(user("alice"), true), wrong).await).await;
    assert_eq!((answer.code.as_u16(), read.load(Ordering::SeqCst)), (422, 0), "{}", answer.body);
    // A user who may review one Pod only may not send more than its name.
    let (body, read) = pieces(3 << 10, true);
    let answer = posted(&fixture, "eve", body).await;
    assert_eq!(answer.code.as_u16(), 403, "{}", answer.body);
    assert!(answer.message().contains("cannot list resource \"nodes\""), "{}", answer.body);
    assert!(read.load(Ordering::SeqCst) <= 66 << 10, "{} bytes were read", read.load(Ordering::SeqCst));
    // A length that is too large is rejected as such.
    let (body, read) = pieces(100, true);
    let mut long = request(body, "alice");
    long.headers_mut().insert("content-length", "3145729".parse().unwrap());
    let answer = whole(fixture.server().answer_to(&ConnectionState::for_user(user("alice"), true), long).await).await;
    assert_eq!((answer.code.as_u16(), read.load(Ordering::SeqCst)), (413, 0), "{}", answer.body);
}
