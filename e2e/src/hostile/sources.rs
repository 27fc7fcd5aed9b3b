//! Hostile sources: an API server, or whatever stands before it, that answers with bytes no API server sends.
//!
//! The rest of the cluster goes on through the same server. Each lie begins by ending all connections, lasts until the reader has
//! had its fill or has come again, and is followed by the truth: then the resource must be served again.

use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;

use super::Case;
use super::arena::{ANYTHINGS, Arena, GROUP, SOON, User};
use super::line::{Kind, Lie, compressed};
use crate::eventually::eventually;
use crate::random::Random;

/// The bound on a line is 64 MiB, and a buffer that grows by doubling may take twice as much.
const GROWTH: u64 = 160;
const SECONDS: u64 = 120;
/// An endless answer is one of so many pieces.
const PIECES: u64 = 4_000;
const PIECE: usize = 64 << 10;
/// How long a lie lasts at most.
const LASTS: Duration = Duration::from_secs(15);

/// Name, which requests, and the pieces of the answer.
type Row = (&'static str, Kind, fn() -> Arc<dyn Fn(u64) -> Option<Bytes> + Send + Sync>);

/// The table.
#[must_use]
pub fn cases() -> Vec<Case> {
    let rows: [Row; 11] = [
        ("an endless item of a list", Kind::Lists, || {
            endless(format!(
                r#"{}{{"apiVersion":"{GROUP}/v1","kind":"Anything","metadata":{{"name":"a","namespace":"team-a","uid":"u","resourceVersion":"5"}},"spec":{{"free":""#,
                list_head("9")
            ))
        }),
        ("an endless key of a list", Kind::Lists, || endless("{\"".to_owned())),
        ("an endless line of a watch", Kind::Watches, || {
            endless(format!(
                r#"{{"type":"ADDED","object":{{"apiVersion":"{GROUP}/v1","kind":"Anything","metadata":{{"name":""#
            ))
        }),
        ("an item of depth 1,000,000", Kind::Lists, || {
            whole(format!(
                r#"{}{{"apiVersion":"{GROUP}/v1","kind":"Anything","metadata":{{"name":"a","namespace":"team-a","uid":"u","resourceVersion":"5"}},"spec":{{"free":{}{}}}}}]}}"#,
                list_head("9"),
                "[".repeat(1_000_000),
                "]".repeat(1_000_000)
            ))
        }),
        ("a list of depth 3,000,000 without an end", Kind::Lists, || whole("[{\"a\":".repeat(3_000_000))),
        ("an event of depth 1,000,000", Kind::Watches, || {
            whole(format!(
                "{{\"type\":\"MODIFIED\",\"object\":{}{}}}\n",
                "{\"metadata\":".repeat(1_000_000),
                "}".repeat(1_000_000)
            ))
        }),
        ("items that are no objects", Kind::Lists, || {
            whole(format!(
                r#"{}null,1,"x",[],{{}},{{"metadata":null}},{{"metadata":{{"name":"","resourceVersion":"x"}}}},{{"metadata":{{"name":"a/b","namespace":"../..","uid":"u","resourceVersion":"-1"}}}}]}}"#,
                list_head("18446744073709551616")
            ))
        }),
        ("bytes that are no text", Kind::Lists, || {
            Arc::new(|number| {
                (number < 50).then(|| Bytes::from((0..4_000u32).map(|byte| (byte % 251) as u8).collect::<Vec<u8>>()))
            })
        }),
        ("versions that go backwards", Kind::Watches, || {
            Arc::new(|number| {
                (number < 500).then(|| {
                    let version = 1_000_000 - number * 7;
                    Bytes::from(format!("{{\"type\":\"ADDED\",\"object\":{{\"apiVersion\":\"{GROUP}/v1\",\"kind\":\"Anything\",\"metadata\":{{\"name\":\"a{number}\",\"namespace\":\"team-a\",\"uid\":\"u{number}\",\"resourceVersion\":\"{version}\"}},\"spec\":{{}}}}}}\n"))
                })
            })
        }),
        ("100,000 events without an object", Kind::Watches, || {
            Arc::new(|number| {
                (number < 1_000).then(|| Bytes::from("{\"type\":\"BOOKMARK\",\"object\":{}}\n".repeat(100)))
            })
        }),
        ("an answer that is never there", Kind::All, || Arc::new(|_| None)),
    ];
    let mut cases: Vec<Case> = rows
        .into_iter()
        .map(|(name, kind, pieces)| {
            Case::new(name, GROWTH, SECONDS, move |arena| {
                Box::pin(lied_to(arena, kind, resource, Vec::new(), 200, pieces()))
            })
        })
        .collect();
    cases.extend([
        Case::new("a gigabyte that is compressed to one megabyte", GROWTH, SECONDS, |arena| {
            Box::pin(async move { lied_to(arena, Kind::Lists, resource, vec![compressed()], 200, bomb()?).await })
        }),
        Case::new("a Content-Length that is too long", GROWTH, SECONDS, |arena| {
            let headers = vec![("content-length", "1000000000".to_owned())];
            Box::pin(lied_to(arena, Kind::Lists, resource, headers, 200, whole(format!("{}]}}", list_head("9")))))
        }),
        Case::new("an error whose message is endless", GROWTH, SECONDS, |arena| {
            let pieces = endless(r#"{"kind":"Status","apiVersion":"v1","code":500,"message":""#.to_owned());
            Box::pin(lied_to(arena, Kind::Lists, resource, Vec::new(), 500, pieces))
        }),
        Case::new("discovery that never ends", GROWTH, SECONDS, |arena| Box::pin(discovery(arena))),
    ]);
    cases
}

/// A list of random bytes, cut anywhere.
#[must_use]
pub fn random(seed: u64) -> Case {
    Case::new(format!("random of seed {seed}"), GROWTH, SECONDS, move |arena| {
        let mut random = Random::of(seed, 3);
        let mut bytes = format!(r#"{}{{"apiVersion":"{GROUP}/v1","kind":"Anything","metadata":{{"name":"a","namespace":"team-a","uid":"u","resourceVersion":"5"}},"spec":{{"items":[{{"name":"x"}}]}}}}]}}"#, list_head("9")).into_bytes();
        for _ in 0..random.between(1, 20) {
            let place = random.below(bytes.len() as u64) as usize;
            match random.below(3) {
                0 => bytes[place] = random.below(256) as u8,
                1 => drop(bytes.splice(place..place, b"[{\"\\u".iter().copied())),
                _ => bytes.truncate(place.max(1)),
            }
        }
        let bytes = Bytes::from(bytes);
        let kind = if random.below(2) == 0 { Kind::Lists } else { Kind::Watches };
        let piece: Arc<dyn Fn(u64) -> Option<Bytes> + Send + Sync> =
            Arc::new(move |number| (number == 0).then(|| bytes.clone()));
        Box::pin(lied_to(arena, kind, resource, Vec::new(), 200, piece))
    })
}

fn resource(path: &str) -> bool {
    path.contains(&format!("/apis/{GROUP}/v1/{ANYTHINGS}"))
}

fn list_head(version: &str) -> String {
    format!(
        r#"{{"apiVersion":"{GROUP}/v1","kind":"AnythingList","metadata":{{"resourceVersion":"{version}"}},"items":["#
    )
}

fn whole(text: String) -> Arc<dyn Fn(u64) -> Option<Bytes> + Send + Sync> {
    let bytes = Bytes::from(text);
    Arc::new(move |number| (number == 0).then(|| bytes.clone()))
}

/// A beginning, and then the same letter for some hundred megabytes.
fn endless(head: String) -> Arc<dyn Fn(u64) -> Option<Bytes> + Send + Sync> {
    let (head, more) = (Bytes::from(head), Bytes::from(vec![b'x'; PIECE]));
    Arc::new(move |number| match number {
        0 => Some(head.clone()),
        1..=PIECES => Some(more.clone()),
        _ => None,
    })
}

fn bomb() -> Result<Arc<dyn Fn(u64) -> Option<Bytes> + Send + Sync>> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(list_head("9").as_bytes())?;
    let zeros = vec![b' '; 1 << 20];
    for _ in 0..1_000 {
        encoder.write_all(&zeros)?;
    }
    let bytes = Bytes::from(encoder.finish()?);
    Ok(Arc::new(move |number| (number == 0).then(|| bytes.clone())))
}

/// Lies, until the reader has come twice or has read it all; then tells the truth, which must be served.
async fn lied_to(
    arena: &Arena,
    kind: Kind,
    of: fn(&str) -> bool,
    headers: Vec<(&'static str, String)>,
    status: u16,
    piece: Arc<dyn Fn(u64) -> Option<Bytes> + Send + Sync>,
) -> Result<String> {
    let line = arena.line();
    line.lie(Lie { of, kind, status, headers, piece });
    let started = Instant::now();
    let fed = eventually("the reader gives up or comes again", LASTS, async || {
        let (sent, told) = (line.sent.load(Ordering::Relaxed), line.asked.load(Ordering::Relaxed));
        let is_enough = told >= 2 || sent >= PIECES * PIECE as u64 || told == 1 && started.elapsed() > LASTS / 3;
        ensure!(is_enough || arena.exit_code()?.is_some(), "{told} lies, {sent} bytes");
        Ok(())
    })
    .await;
    let (sent, told) = (line.sent.load(Ordering::Relaxed), line.asked.load(Ordering::Relaxed));
    line.be_honest();
    if told == 0 {
        fed.context("the reader never came")?;
    }
    recovers(arena).await?;
    Ok(format!("{told} lies, {} MB sent", sent / 1_000_000))
}

/// An object that is created now is served.
async fn recovers(arena: &Arena) -> Result<()> {
    let name = crate::unique::name("true");
    arena.create(&name, r#"{"color":"true"}"#).await?;
    arena.arrives(&name).await.context("the truth")?;
    arena.delete(&name).await
}

/// Discovery and OpenAPI without an end, while a definition changes, which makes the operator ask.
async fn discovery(arena: &Arena) -> Result<String> {
    let line = arena.line();
    let is_discovery = |path: &str| {
        path == "/apis"
            || path == "/api"
            || path == "/version"
            || path.starts_with("/openapi")
            || path.trim_end_matches("/v1") == format!("/apis/{GROUP}")
    };
    let pieces = endless(r#"{"kind":"APIGroupList","apiVersion":"v1","groups":[{"name":""#.to_owned());
    line.lie(Lie { of: is_discovery, kind: Kind::All, status: 200, headers: Vec::new(), piece: pieces });
    let group = crate::unique::group("late");
    let definition = crate::fixtures::shirts(&group, &crate::fixtures::no_conversion());
    crate::objects::create_definition(&arena.source(), &definition).await?;
    let client = arena.client(User::Administrator)?;
    // Reads of documents are what may need them.
    let _ = tokio::time::timeout(Duration::from_secs(5), client.get("/openapi/v3")).await;
    let _ = eventually("the operator asks", LASTS, async || {
        let sent = line.sent.load(Ordering::Relaxed);
        ensure!(sent >= PIECES * PIECE as u64 || arena.exit_code()?.is_some(), "{sent} bytes");
        Ok(())
    })
    .await;
    let (sent, asked) = (line.sent.load(Ordering::Relaxed), line.asked.load(Ordering::Relaxed));
    line.be_honest();
    crate::objects::delete(&arena.source(), &format!("{}/shirts.{group}", crate::objects::DEFINITIONS)).await?;
    let answer = eventually("a request is answered", SOON, async || client.get("/apis").await?.success()).await?;
    ensure!(answer.status == 200, "{}", answer.status);
    Ok(format!("{asked} requests, {} MB sent", sent / 1_000_000))
}
