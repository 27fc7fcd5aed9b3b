//! Hostile sources: an API server, or whatever precedes it, that answers with bytes no API server sends.
//!
//! The rest of the cluster goes on through the same server. Each lie begins by ending all connections. It lasts until
//! the reader has received enough or has reconnected. Then the source sends the truth, and the resource must be served
//! again.

use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use futures::future::try_join_all;
use serde_json::json;

use super::Case;
use super::arena::{ANYTHINGS, Arena, GROUP, SOON, User, cache, uncache};
use super::line::{Kind, Lie, Pieces, compressed};
use crate::eventually::eventually;
use crate::random::Random;
use crate::{fixtures, objects};

/// The bound on an object or line is 16 MiB. While a buffer doubles, the old and the new one exist: 16 and 32 MiB.
const GROWTH: u64 = 96;
const SECONDS: u64 = 120;
/// An endless answer is one of so many pieces.
const PIECES: u64 = 6_000;
const PIECE: usize = 64 << 10;
/// How long a lie lasts at most.
const LASTS: Duration = Duration::from_secs(30);
/// A reader that takes nothing for so long has given up.
const QUIET: Duration = Duration::from_secs(1);

/// Name, which requests, and the pieces of the answer.
type Row = (&'static str, Kind, fn() -> Pieces);

/// Lies without an end: one case each.
const ENDLESS: [Row; 3] = [
    ("an endless item of a list", Kind::Lists, || {
        endless(format!("{}{},\"spec\":{{\"free\":\"", list_head("9"), OBJECT))
    }),
    ("an endless key of a list", Kind::Lists, || endless("{\"".to_owned())),
    ("an endless line of a watch", Kind::Watches, || {
        endless(format!("{{\"type\":\"ADDED\",\"object\":{OBJECT},\"spec\":\""))
    }),
];

/// Short lies: all of them at the same time, each about a resource of its own.
const SHORT: [Row; 8] = [
    ("an item of depth 1,000,000", Kind::Lists, || {
        let (open, close) = ("[".repeat(1_000_000), "]".repeat(1_000_000));
        whole(format!("{}{OBJECT},\"spec\":{{\"free\":{open}{close}}}}}]}}", list_head("9")))
    }),
    ("a list of depth 3,000,000 without an end", Kind::Lists, || whole("[{\"a\":".repeat(3_000_000))),
    ("an event of depth 1,000,000", Kind::Watches, || {
        let (open, close) = ("{\"metadata\":".repeat(1_000_000), "}".repeat(1_000_000));
        whole(format!("{{\"type\":\"MODIFIED\",\"object\":{open}{close}}}\n"))
    }),
    ("items that are no objects", Kind::Lists, || {
        let items = r#"null,1,"x",[],{},{"metadata":null},{"metadata":{"name":"","resourceVersion":"x"}},{"metadata":{"name":"a/b","namespace":"../..","uid":"u","resourceVersion":"-1"}}"#;
        whole(format!("{}{items}]}}", list_head("18446744073709551616")))
    }),
    ("bytes that are no text", Kind::Lists, || {
        Arc::new(|number| {
            let noise = || (0..4_000u32).map(|byte| (byte % 251) as u8).collect::<Vec<u8>>();
            (number < 50).then(|| Bytes::from(noise()))
        })
    }),
    ("versions that go backwards", Kind::Watches, || {
        Arc::new(|number| {
            let version = 1_000_000_u64.saturating_sub(number * 7);
            let object = format!(
                "{{\"apiVersion\":\"{GROUP}/v1\",\"kind\":\"Odd\",\"metadata\":{{\"name\":\"a{number}\",\"namespace\":\"team-a\",\"uid\":\"u{number}\",\"resourceVersion\":\"{version}\"}}}}"
            );
            (number < 500).then(|| Bytes::from(format!("{{\"type\":\"ADDED\",\"object\":{object}}}\n")))
        })
    }),
    ("100,000 events without an object", Kind::Watches, || {
        Arc::new(|number| (number < 1_000).then(|| Bytes::from("{\"type\":\"BOOKMARK\",\"object\":{}}\n".repeat(100))))
    }),
    ("a Content-Length of one byte", Kind::Lists, || whole(format!("{}]}}", list_head("9")))),
];

/// The beginning of an object, without its last brace.
const OBJECT: &str = r#"{"apiVersion":"hostile.example.com/v1","kind":"Anything","metadata":{"name":"a","namespace":"team-a","uid":"u","resourceVersion":"5"}"#;

/// The table.
#[must_use]
pub fn cases() -> Vec<Case> {
    let mut cases: Vec<Case> = ENDLESS
        .into_iter()
        .map(|(name, kind, pieces)| {
            Case::new(name, GROWTH, SECONDS, move |arena| Box::pin(lied_to(arena, kind, Vec::new(), 200, pieces())))
        })
        .collect();
    cases.extend([
        Case::new("short lies about eight resources", GROWTH, SECONDS, |arena| Box::pin(short_lies(arena))),
        Case::new("a gigabyte that is compressed to one megabyte", GROWTH, SECONDS, |arena| {
            Box::pin(async move { lied_to(arena, Kind::Lists, vec![compressed()], 200, bomb()?).await })
        }),
        Case::new("an error whose message is endless", GROWTH, SECONDS, |arena| {
            let pieces = endless(r#"{"kind":"Status","apiVersion":"v1","code":500,"message":""#.to_owned());
            Box::pin(lied_to(arena, Kind::Lists, Vec::new(), 500, pieces))
        }),
        Case::new("discovery that never ends", GROWTH, SECONDS, |arena| Box::pin(discovery(arena))),
    ]);
    cases
}

/// A list or watch of bytes that were changed at random places.
#[must_use]
pub fn random(seed: u64) -> Case {
    Case::new(format!("random of seed {seed}"), GROWTH, SECONDS, move |arena| {
        let mut random = Random::from_seed(seed, 3);
        let text = format!("{}{OBJECT},\"spec\":{{\"items\":[{{\"name\":\"x\"}}]}}}}]}}", list_head("9"));
        let mut bytes = text.into_bytes();
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
        let piece: Pieces = Arc::new(move |number| (number == 0).then(|| bytes.clone()));
        Box::pin(lied_to(arena, kind, Vec::new(), 200, piece))
    })
}

/// Whether a path is that of a collection of the hostile group.
fn collection(resource: String) -> Arc<dyn Fn(&str) -> bool + Send + Sync> {
    let own = format!("/apis/{GROUP}/v1/{resource}");
    Arc::new(move |path| path.split('?').next() == Some(&own))
}

fn list_head(version: &str) -> String {
    format!(
        r#"{{"apiVersion":"{GROUP}/v1","kind":"AnythingList","metadata":{{"resourceVersion":"{version}"}},"items":["#
    )
}

fn whole(text: String) -> Pieces {
    let bytes = Bytes::from(text);
    Arc::new(move |number| (number == 0).then(|| bytes.clone()))
}

/// A beginning, and then the same letter for some hundred megabytes.
fn endless(head: String) -> Pieces {
    let (head, more) = (Bytes::from(head), Bytes::from(vec![b'x'; PIECE]));
    Arc::new(move |number| match number {
        0 => Some(head.clone()),
        1..=PIECES => Some(more.clone()),
        _ => None,
    })
}

fn bomb() -> Result<Pieces> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(list_head("9").as_bytes())?;
    let zeros = vec![b' '; 1 << 20];
    for _ in 0..1_000 {
        encoder.write_all(&zeros)?;
    }
    let bytes = Bytes::from(encoder.finish()?);
    Ok(Arc::new(move |number| (number == 0).then(|| bytes.clone())))
}

/// Lies until the reader has given up, then sends the truth, which must be served.
async fn lied_to(
    arena: &Arena,
    kind: Kind,
    headers: Vec<(&'static str, String)>,
    status: u16,
    piece: Pieces,
) -> Result<String> {
    let line = arena.line();
    let path_of = collection(ANYTHINGS.to_owned());
    line.lie(vec![Lie { of: path_of, kind, status, headers, piece, times_sent: AtomicU64::new(0) }]);
    let fed = fed(arena).await;
    line.be_honest();
    let (sent, lies) = fed?;
    recovers(arena).await?;
    Ok(format!("{lies} lies, {} MB sent", sent / 1_000_000))
}

/// Waits until every lie has been sent and the reader takes no more of it.
async fn fed(arena: &Arena) -> Result<(u64, u64)> {
    let line = arena.line();
    let (mut before, mut since) = (0, Instant::now());
    eventually("the reader takes no more", LASTS, async || {
        let sent = line.sent.load(Ordering::Relaxed);
        if sent != before {
            (before, since) = (sent, Instant::now());
        }
        let are_all_sent = line.unsent() == 0 && since.elapsed() > QUIET;
        ensure!(are_all_sent || arena.exit_code()?.is_some(), "{} lies are not sent yet, {sent} bytes", line.unsent());
        Ok((sent, line.lies_sent.load(Ordering::Relaxed)))
    })
    .await
}

/// Sends each of [`SHORT`] about a resource of its own, all at the same time.
async fn short_lies(arena: &Arena) -> Result<String> {
    let source = arena.source();
    let names: Vec<String> = (0..SHORT.len()).map(|number| format!("odds{number}")).collect();
    let anything = json!({
        "name": "v1", "served": true, "storage": true,
        "schema": { "openAPIV3Schema": { "type": "object", "x-kubernetes-preserve-unknown-fields": true } },
    });
    let definition = |name: &str| {
        let kind = format!("Odd{name}");
        let names = (name, &*kind.to_lowercase(), &*kind);
        fixtures::definition(GROUP, "Namespaced", names, std::slice::from_ref(&anything), &fixtures::no_conversion())
    };
    try_join_all(names.iter().map(async |name| {
        objects::create_definition(&source, &definition(name)).await?;
        cache(&source, GROUP, name, &json!([])).await
    }))
    .await?;
    let client = arena.client(User::Administrator)?;
    let served = async |what: &str| {
        try_join_all(names.iter().map(async |name| {
            eventually(&format!("{what}: {name}"), SOON, async || {
                arena.process_id()?;
                client.get(&format!("/apis/{GROUP}/v1/{name}")).await?.success().map(drop)
            })
            .await
        }))
        .await
    };
    served("before the lies").await?;
    let lies = SHORT.into_iter().zip(&names).map(|((what, kind, pieces), name)| {
        let headers =
            if what.contains("Content-Length") { vec![("content-length", "1".to_owned())] } else { Vec::new() };
        Lie { of: collection(name.clone()), kind, status: 200, headers, piece: pieces(), times_sent: AtomicU64::new(0) }
    });
    arena.line().lie(lies.collect());
    let fed = fed(arena).await;
    arena.line().be_honest();
    let (sent, lies) = fed?;
    served("after the lies").await?;
    for name in &names {
        uncache(&source, &format!("{name}.{GROUP}")).await?;
        objects::delete(&source, &format!("{}/{name}.{GROUP}", objects::DEFINITIONS)).await?;
    }
    Ok(format!("{lies} lies, {} MB sent", sent / 1_000_000))
}

/// An object that is created now is served.
async fn recovers(arena: &Arena) -> Result<()> {
    let name = crate::unique::name("true");
    arena.create(&name, r#"{"color":"true"}"#).await?;
    arena.arrives(&name).await.context("the truth")?;
    arena.delete(&name).await
}

/// Discovery and OpenAPI without an end, while a definition changes, which makes the operator request them.
async fn discovery(arena: &Arena) -> Result<String> {
    let line = arena.line();
    let answer_for = Arc::new(|path: &str| {
        let path = path.split('?').next().unwrap_or_default();
        ["/apis", "/api", "/version"].contains(&path) || path.starts_with("/openapi")
    });
    let piece = endless(r#"{"kind":"APIGroupList","apiVersion":"v1","groups":[{"name":""#.to_owned());
    line.lie(vec![Lie {
        of: answer_for,
        kind: Kind::All,
        status: 200,
        headers: Vec::new(),
        piece,
        times_sent: AtomicU64::new(0),
    }]);
    let group = crate::unique::group("late");
    let definition = fixtures::shirts(&group, &fixtures::no_conversion());
    objects::create_definition(&arena.source(), &definition).await?;
    let client = arena.client(User::Administrator)?;
    // Documents may be read only for a request.
    let _ = tokio::time::timeout(Duration::from_secs(5), client.get("/openapi/v3")).await;
    let fed = fed(arena).await;
    line.be_honest();
    objects::delete(&arena.source(), &format!("{}/shirts.{group}", objects::DEFINITIONS)).await?;
    let (sent, lies) = fed?;
    eventually("a request is answered", SOON, async || client.get("/apis").await?.success()).await?;
    recovers(arena).await?;
    Ok(format!("{lies} lies, {} MB sent", sent / 1_000_000))
}
