//! Frames of both sides, and sockets over a pipe.

use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt;
use futures::stream;
use http_body_util::{BodyExt, Empty};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::{advance, timeout};

use super::client::{ClientFrames, ClientSignal};
use super::frame::{CloseCode, Opcode, close, push_head};
use super::serve;
use crate::wire::body::Body;

const MASK: [u8; 4] = [1, 2, 3, 4];

/// What the reader of a client's frames returns.
type Read = Result<Option<ClientSignal>, CloseCode>;

/// A frame of a client, with a head of these two bytes and a mask.
fn masked(first: u8, payload: &[u8]) -> Vec<u8> {
    let mut frame = Vec::new();
    push_head(Opcode::Text, true, payload.len(), &mut frame);
    (frame[0], frame[1]) = (first, frame[1] | 0x80);
    frame.extend_from_slice(&MASK);
    frame.extend(payload.iter().zip(MASK.iter().cycle()).map(|(byte, mask)| byte ^ mask));
    frame
}

#[test]
fn heads_have_the_shortest_length() {
    for (length, expected) in [
        (0, &[0x81, 0][..]),
        (125, &[0x81, 125]),
        (126, &[0x81, 126, 0, 126]),
        (65_535, &[0x81, 126, 0xff, 0xff]),
        (65_536, &[0x81, 127, 0, 0, 0, 0, 0, 1, 0, 0]),
    ] {
        let mut head = Vec::new();
        push_head(Opcode::Text, true, length, &mut head);
        assert_eq!(head, expected, "{length}");
    }
    let mut head = Vec::new();
    push_head(Opcode::Binary, false, 1, &mut head);
    assert_eq!(head, [0x02, 1], "a part of a message");
}

#[tokio::test]
async fn frames_of_clients_are_read_as_the_protocol_says() {
    let ping = |payload: &[u8]| Ok(Some(ClientSignal::Ping(payload.to_vec())));
    let invalid = Err(CloseCode::ProtocolError);
    let fragments = [masked(0x01, b"a"), masked(0x89, b"p"), masked(0x80, b"b"), masked(0x88, b"")].concat();
    let rows: [(&str, Vec<u8>, Read); 19] = [
        ("text", masked(0x81, b"hello"), Ok(None)),
        ("bytes", masked(0x82, &[0; 300]), Ok(None)),
        ("PONG", masked(0x8a, b"x"), Ok(None)),
        ("PING", masked(0x89, b"hello"), ping(b"hello")),
        ("the longest PING", masked(0x89, &[7; 125]), ping(&[7; 125])),
        ("a PING within a message", fragments, ping(b"p")),
        ("Close", masked(0x88, &[3, 232]), Ok(Some(ClientSignal::Close))),
        ("the longest frame", masked(0x82, &vec![0; 64 << 10]), Ok(None)),
        ("a longer one", masked(0x82, &vec![0; (64 << 10) + 1])[..14].to_vec(), Err(CloseCode::TooBig)),
        ("no mask", vec![0x81, 1, b'x'], invalid.clone()),
        ("a reserved bit", masked(0xc1, b"x"), invalid.clone()),
        ("a reserved opcode", masked(0x83, b"x"), invalid.clone()),
        ("a reserved control opcode", masked(0x8b, b"x"), invalid.clone()),
        ("a PING of two frames", masked(0x09, b"x"), invalid.clone()),
        ("a long PING", masked(0x89, &[0; 126]), invalid.clone()),
        ("a continuation of nothing", masked(0x80, b"x"), invalid.clone()),
        ("a message within a message", [masked(0x01, b"a"), masked(0x81, b"b")].concat(), invalid.clone()),
        ("a length that is longer than needed", vec![0x81, 0xfe, 0, 5, 1, 2, 3, 4], invalid.clone()),
        ("a length with its first bit", [&[0x81, 0xff, 0x80][..], &[0; 7], &MASK].concat(), invalid),
    ];
    for (what, bytes, expected) in rows {
        for step in [1, 2, 3, bytes.len()] {
            let mut frames = ClientFrames::default();
            let mut result = Ok(None);
            for mut part in bytes.chunks(step) {
                if result == Ok(None) {
                    result = frames.read(&mut part);
                }
            }
            assert_eq!(result, expected, "{what}, {step} bytes at a time");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_client_may_send_some_bytes_at_once_and_few_all_the_time() {
    let mut frames = ClientFrames::default();
    let mut count = 0;
    let message = masked(0x82, &[0; 1000]);
    let refused = loop {
        match frames.read(&mut &*message) {
            Ok(None) => count += 1,
            other => break other,
        }
        assert!(count < 1_000, "endless");
    };
    assert_eq!((refused, count), (Err(CloseCode::PolicyViolation), (128 << 10) / 1064));
    let mut frames = ClientFrames::default();
    for _ in 0..10_000 {
        advance(Duration::from_millis(500)).await;
        let read = frames.read(&mut &*masked(0x89, &[0; 125]));
        assert!(matches!(read, Ok(Some(ClientSignal::Ping(_)))), "two PINGs each second: {read:?}");
    }
}

/// What comes before a (paused) hour is over.
async fn soon<Output>(coming: impl Future<Output = Output>) -> Output {
    timeout(Duration::from_secs(3600), coming).await.expect("it does not come")
}

/// The other end of a served body.
struct Peer {
    io: DuplexStream,
    serving: JoinHandle<()>,
}

impl Peer {
    #[expect(clippy::disallowed_methods, reason = "both ends of a pipe need a task; it is joined")]
    fn of(body: Body) -> Peer {
        let (io, served) = duplex(4096);
        Peer { io, serving: tokio::spawn(serve(served, body)) }
    }

    /// A body whose pieces the test sends.
    fn open() -> (Peer, mpsc::Sender<Bytes>) {
        let (sender, receiver) = mpsc::channel(16);
        let pieces =
            stream::unfold(receiver, |mut receiver| async { receiver.recv().await.map(|piece| (piece, receiver)) });
        (Peer::of(Body::stream(pieces)), sender)
    }

    /// Everything that comes until the end.
    async fn rest(mut self) -> Vec<u8> {
        let mut rest = Vec::new();
        soon(self.io.read_to_end(&mut rest)).await.unwrap();
        drop(self.io);
        soon(self.serving).await.unwrap();
        rest
    }

    async fn expect(&mut self, expected: &[u8]) {
        let mut found = vec![0; expected.len()];
        soon(self.io.read_exact(&mut found)).await.unwrap();
        assert_eq!(found, expected);
    }
}

#[tokio::test(start_paused = true)]
async fn the_body_is_sent_and_the_end_says_why() {
    let pieces = || stream::iter([Bytes::from("one"), Bytes::from("two")]);
    let whole = Peer::of(Body::stream(pieces()));
    assert_eq!(whole.rest().await, [b"onetwo", &close(CloseCode::Normal)[..]].concat(), "the end of the body");
    let broken = Empty::new().map_err(|never| match never {}).with_trailers(async { Some(Err("broken".into())) });
    let broken = Peer::of(Body::forwarded(broken.boxed_unsync(), true));
    assert_eq!(broken.rest().await, close(CloseCode::InternalError), "a body that ends early");
    let (mut peer, sender) = Peer::open();
    peer.io.write_all(&[0x81, 0]).await.unwrap();
    assert_eq!(peer.rest().await, close(CloseCode::ProtocolError), "an invalid frame");
    assert!(sender.is_closed(), "the body is dropped");
    let (mut peer, sender) = Peer::open();
    peer.io.write_all(&masked(0x88, b"")).await.unwrap();
    assert_eq!(peer.rest().await, close(CloseCode::Normal), "the client closes");
    assert!(sender.is_closed(), "the body is dropped");
    let (peer, sender) = Peer::open();
    drop(peer.io);
    peer.serving.await.unwrap();
    assert!(sender.is_closed(), "the client disconnects");
}

#[tokio::test(start_paused = true)]
async fn pings_are_answered_between_pieces() {
    let (mut peer, sender) = Peer::open();
    peer.io.write_all(&masked(0x89, b"quiet")).await.unwrap();
    peer.expect(b"\x8a\x05quiet").await;
    sender.send(Bytes::from("piece")).await.unwrap();
    peer.expect(b"piece").await;
    // The pipe has no room, so the piece is not sent until the client reads.
    let long = Bytes::from(vec![b'x'; 10_000]);
    sender.send(long.clone()).await.unwrap();
    sender.send(Bytes::from("next")).await.unwrap();
    while sender.capacity() < 15 {
        tokio::task::yield_now().await;
    }
    for payload in [b"1", b"2", b"3"] {
        peer.io.write_all(&masked(0x89, payload)).await.unwrap();
    }
    tokio::time::sleep(Duration::from_millis(1)).await;
    assert_eq!(sender.capacity(), 15, "the next piece is not taken");
    peer.expect(&long).await;
    peer.expect(b"\x8a\x013").await;
    peer.expect(b"next").await;
    drop(sender);
    peer.expect(&close(CloseCode::Normal)).await;
}

#[tokio::test(start_paused = true)]
async fn a_client_that_vanishes_is_detected() {
    let (mut peer, sender) = Peer::open();
    for answer in [masked(0x8a, b""), masked(0x81, b"x")] {
        peer.expect(b"\x89\x00").await;
        peer.io.write_all(&answer).await.unwrap();
    }
    sender.send(Bytes::from("piece")).await.unwrap();
    peer.expect(b"piece").await;
    peer.expect(b"\x89\x00").await;
    assert_eq!(peer.rest().await, b"", "no answer comes, so the connection is closed");
    assert!(sender.is_closed(), "the body is dropped");
}

#[tokio::test(start_paused = true)]
async fn a_client_that_does_not_close_is_not_waited_for_long() {
    let mut peer = Peer::of(Body::stream(stream::empty().boxed()));
    peer.expect(&close(CloseCode::Normal)).await;
    timeout(Duration::from_secs(2), &mut peer.serving).await.expect("it waits for a second").unwrap();
    let mut peer = Peer::of(Body::stream(stream::empty().boxed()));
    peer.expect(&close(CloseCode::Normal)).await;
    let mut sent = 0;
    while peer.io.write_all(&[0; 1024]).await.is_ok() {
        sent += 1;
        assert!(sent < 1_000, "endless data after Close");
    }
    peer.serving.await.unwrap();
}
