//! What a response takes its share for, of the memory that responses may hold together.

use bytes::Bytes;
use http::Request;

use crate::flow_control::unread::STREAMED;
use crate::server::tests::{ALL_SHIRTS, Fixture, SHIRTS};
use crate::wire::body;
use crate::wire::body::Finish;

const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io";

async fn may_hold(fixture: &Fixture, accept: &str, path: &str) -> u64 {
    let request = Request::builder().uri(path).header("host", "127.0.0.1:8181").header("accept", accept);
    let response = fixture.server.answer(request.body(String::new()).unwrap()).await;
    assert_eq!(response.status(), 200, "{path}");
    response.body().most_held_bytes().unwrap_or_default()
}

/// An object of which a row is being written is held. Among many small ones the average length says nothing of it.
#[tokio::test]
async fn the_share_of_a_list_follows_its_longest_object() {
    const LENGTH: usize = 300_000;
    let mut fixture = Fixture::new();
    for number in 0..2_000 {
        fixture.put_without_publishing("default", &format!("small-{number}"), "blue");
    }
    fixture.put_without_publishing("other", &"x".repeat(LENGTH), "green");
    let with_long = fixture.put("default", "green", "green");
    let (all, blue, green) = (ALL_SHIRTS, "fieldSelector=spec.color%3Dblue", "fieldSelector=spec.color%3Dgreen");
    let long = LENGTH as u64;
    let mut cases = vec![
        ("everything", TABLE, all.to_owned(), true),
        ("hits", TABLE, format!("{all}?{green}"), true),
        ("a page", TABLE, format!("{all}?{green}&limit=2"), true),
        ("a long page", TABLE, format!("{all}?limit=2000"), true),
        ("YAML", "application/yaml", format!("{all}?{green}"), true),
        ("hits among which it is not", TABLE, format!("{SHIRTS}?{green}"), false),
        ("a page on which it is not", TABLE, format!("{SHIRTS}?{blue}&limit=500"), false),
        ("objects that are written at once", "application/json", format!("{SHIRTS}?{blue}"), false),
    ];
    for (message, accept, path, is_held) in cases.drain(..) {
        let bytes_held = may_hold(&fixture, accept, &path).await;
        assert_eq!(bytes_held >= STREAMED + long, is_held, "{message}: {bytes_held}");
    }
    fixture.delete("other", &"x".repeat(LENGTH));
    let after = may_hold(&fixture, TABLE, all).await;
    assert!(after < STREAMED + long / 2, "it is gone: {after}");
    let past = format!("{all}?resourceVersion={with_long}&resourceVersionMatch=Exact");
    let bytes_held = may_hold(&fixture, TABLE, &past).await;
    assert!(bytes_held >= STREAMED + long, "at a version at which it was there: {bytes_held}");
}

/// What its first pieces hold is admitted before it begins, also when it waited for a long turn. Later, there may be no room.
#[tokio::test]
async fn a_list_that_begins_with_a_long_object_holds_it_from_the_beginning() {
    const LENGTH: usize = 3 << 20;
    let mut fixture = Fixture::new();
    fixture.put_without_publishing("default", &"a".repeat(LENGTH), "blue");
    fixture.put("default", "b", "blue");
    for path in [ALL_SHIRTS.to_owned(), format!("{SHIRTS}?limit=1")] {
        let bytes_held = may_hold(&fixture, "application/json", &path).await;
        assert!(bytes_held >= LENGTH as u64, "{path}: {bytes_held}");
    }
}

/// A list through a View that leaves out a part is streamed however short it is. Whether there is room for it is known before it begins: it
/// is rejected otherwise, and does not break off.
#[test]
fn a_response_that_is_always_streamed_holds_its_first_piece() {
    for (length, expected) in [(10, STREAMED), (1 << 20, 1 << 20)] {
        let pieces = [Bytes::from(vec![b'x'; length]), Bytes::from_static(b"y")];
        let finish = Finish { streams: true, ..Finish::default() };
        let (body, _) = body::finish(Box::new(pieces.into_iter()), finish);
        assert_eq!((body.most_held_bytes(), body.length()), (Some(expected), None), "{length} bytes");
    }
}
