//! Bodies: whose turn it is.

use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use http_body::Body as HttpBody;

use crate::server::body::Body;

/// How many chunks come before the body lets others have their turn, each time, until it ends.
fn turns(mut body: Body) -> Vec<usize> {
    let mut context = Context::from_waker(Waker::noop());
    let mut turns = vec![0];
    loop {
        match Pin::new(&mut body).poll_frame(&mut context) {
            Poll::Ready(Some(_)) => *turns.last_mut().unwrap() += 1,
            Poll::Ready(None) => return turns,
            Poll::Pending => turns.push(0),
        }
        assert!(turns.len() < 100, "it goes on: {turns:?}");
    }
}

#[test]
fn a_long_answer_lets_others_have_their_turn() {
    let chunk = || Bytes::from_static(b"x");
    assert_eq!(turns(Body::pieces(Box::new((0..20).map(move |_| chunk())))), [8, 8, 4], "a list");
    let backlog = futures::stream::iter((0..20).map(move |_| chunk()));
    assert_eq!(turns(Body::stream(backlog)), [8, 8, 4], "a watch with much to tell");
    assert_eq!(turns(Body::whole("x")), [1], "a small answer");
}
