//! Bodies: whose turn it is.

use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::Bytes;
use http_body::Body as HttpBody;
use http_body_util::BodyExt;
use tokio::time::advance;

use crate::wire::body::Body;
use crate::wire::gzip::Gzip;

/// Pieces of a response that a client takes with a pause of so many seconds before each, at most a hundred.
async fn taken(mut body: Body, pause: u64) -> Result<usize, String> {
    for count in 0..100 {
        advance(Duration::from_secs(pause)).await;
        match body.frame().await {
            Some(Ok(_)) => {}
            Some(Err(error)) => return Err(format!("{error} after {count} pieces")),
            None => return Ok(count),
        }
    }
    Ok(100)
}

/// A list holds the state of the store that it began with.
#[tokio::test(start_paused = true)]
async fn a_list_that_is_read_too_slowly_is_cut_and_a_watch_is_not() {
    let piece = || Bytes::from_static(&[b'x'; 64 << 10]);
    let list = || Body::pieces(Box::new((0..64).map(move |_| piece())));
    assert_eq!(taken(list(), 7).await, Ok(64), "more than 8 KiB a second");
    assert_eq!(taken(list(), 20).await, Err("the response was read too slowly after 10 pieces".to_owned()));
    assert_eq!(taken(list(), 119).await, Err("the response was read too slowly after 2 pieces".to_owned()));
    let watch = Body::stream(futures::stream::iter((0..8).map(move |_| Bytes::from_static(b"{}"))));
    assert_eq!(taken(watch, 600).await, Ok(8), "events come when they come");
}

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
    assert_eq!(turns(Body::stream(backlog)), [8, 8, 4], "a watch with many events");
    assert_eq!(turns(Body::whole("x")), [1], "a small answer");
}

/// Of text that repeats itself, a compressor takes megabytes before it gives a byte.
#[test]
fn compression_ends_its_turn_after_each_piece() {
    let pieces = (0..100).map(|_| Bytes::from_static(&[b'x'; 64 << 10]));
    let compressed: Vec<Bytes> = Gzip::new(Box::new(pieces)).collect();
    assert_eq!(compressed.len(), 101, "one piece for each, and the end");
    let mut plain = Vec::new();
    std::io::Read::read_to_end(&mut flate2::read::GzDecoder::new(&*compressed.concat()), &mut plain).unwrap();
    assert_eq!((plain.len(), plain.iter().all(|byte| *byte == b'x')), (100 << 16, true));
}
