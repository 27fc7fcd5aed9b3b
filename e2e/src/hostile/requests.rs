//! Hostile requests of an authenticated user without permissions, and of a tenant.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use futures::future::join_all;
use http::Method;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::timeout;

use super::Case;
use super::arena::{Arena, GROUP, NAMESPACE, OTHER_NAMESPACE, SOON, User};
use super::wire::Session;
use crate::eventually::eventually;
use crate::fieldcache::Fieldcache;
use crate::http::Request;
use crate::random::Random;

/// Growth that a request of a megabyte may cause, in MiB. It includes pages of code that run for the first time.
const GROWTH: u64 = 96;
const SECONDS: u64 = 60;

const REVIEWS: &str = "/apis/view.fieldcache.dev/v1alpha1/placementreviews";
const REVIEW: &str =
    "apiVersion: view.fieldcache.dev/v1alpha1\nkind: PlacementReview\nspec:\n  pod:\n    spec:\n      free: ";

/// Addresses of attackers, as the last byte of 127.0.0.x.
const SLOW: u8 = 11;
const WRONG_TOKENS: u8 = 12;
const LONG: u8 = 13;

/// Name, media type, body.
type Review = (&'static str, &'static str, fn() -> String);

/// The table.
#[must_use]
pub fn cases() -> Vec<Case> {
    let reviews: [Review; 9] = [
        ("YAML of 95 nested anchors", "application/yaml", || anchors(95, 250_000)),
        ("YAML of 1 MB without anchors", "application/yaml", || {
            format!("{REVIEW}[{}]\n", vec!["a"; 480_000].join(","))
        }),
        ("YAML of 1 MB of lines", "application/yaml", || format!("{REVIEW}\n{}", "      - a\n".repeat(110_000))),
        ("YAML aliases that double", "application/yaml", || {
            let mut text = "a0: &a0 [x,x,x,x,x,x,x,x]\n".to_owned();
            for number in 1..24 {
                text.push_str(&format!("a{number}: &a{number} [*a{0},*a{0},*a{0},*a{0}]\n", number - 1));
            }
            text
        }),
        ("YAML of depth 100,000", "application/yaml", || format!("{REVIEW}{}", "[".repeat(100_000))),
        ("YAML of 300,000 documents", "application/yaml", || "---\n".repeat(250_000)),
        ("JSON of depth 500,000", "application/json", || "[".repeat(500_000)),
        ("JSON of 1 MB of empty lists", "application/json", || {
            format!(
                r#"{{"apiVersion":"view.fieldcache.dev/v1alpha1","kind":"PlacementReview","spec":{{"pod":[{}]}}}}"#,
                vec!["[]"; 330_000].join(",")
            )
        }),
        ("JSON of 50,000 unknown fields", "application/json", || {
            let fields: Vec<String> = (0..50_000).map(|number| format!(r#""unknown{number}":1"#)).collect();
            format!(
                r#"{{"apiVersion":"view.fieldcache.dev/v1alpha1","kind":"PlacementReview","spec":{{"pod":{{{}}}}}}}"#,
                fields.join(",")
            )
        }),
    ];
    let mut cases: Vec<Case> = reviews
        .into_iter()
        .map(|(name, media, body)| {
            Case::new(name, GROWTH, SECONDS, move |arena| Box::pin(review(arena, media, body())))
        })
        .collect();
    cases.extend([
        Case::new("20 YAML bodies at a time", GROWTH, SECONDS, |arena| {
            Box::pin(async move {
                let one = || review(arena, "application/yaml", anchors(20, 250_000));
                for outcome in join_all((0..20).map(|_| one())).await {
                    outcome?;
                }
                Ok(String::new())
            })
        }),
        Case::new("100 slow bodies of 3 MB", 128, SECONDS, |arena| Box::pin(slow_bodies(arena, 100))),
        Case::new("versions far ahead", GROWTH, SECONDS, |arena| Box::pin(far_ahead(arena))),
        Case::new("selectors of 60 KB", GROWTH, SECONDS, |arena| Box::pin(selectors(arena))),
        Case::new("100 lists with 500 comparisons", GROWTH, 120, |arena| Box::pin(comparisons(arena, 100))),
        Case::new("800 watches with selectors of 12 KB", 112, 150, |arena| Box::pin(long_watches(arena, 800))),
        Case::new("odd parameters and headers", GROWTH, SECONDS, |arena| Box::pin(odd(arena))),
        Case::new("two Origin headers", GROWTH, SECONDS, |arena| Box::pin(origins(arena))),
        Case::new("explain in one namespace", GROWTH, SECONDS, |arena| Box::pin(explain(arena))),
        Case::new("a flood of wrong tokens", GROWTH, 90, |arena| Box::pin(wrong_tokens(arena))),
    ]);
    cases
}

/// Random bodies and queries.
#[must_use]
pub fn random(seed: u64) -> Case {
    Case::new(format!("random of seed {seed}"), GROWTH, SECONDS, move |arena| {
        Box::pin(async move {
            let mut random = Random::from_seed(seed, 2);
            let client = arena.client(User::Stranger)?;
            for _ in 0..60 {
                let length = random.below(4_000);
                let alphabet = [
                    "{",
                    "}",
                    "[",
                    "]",
                    "\"",
                    ":",
                    ",",
                    "&a ",
                    "*a",
                    "- ",
                    "\n",
                    "  ",
                    "? ",
                    "!!",
                    "|",
                    ">",
                    "%",
                    "\\u0000",
                    "a",
                    "1",
                    "\u{1f600}",
                    "#",
                    "spec",
                    "pod",
                ];
                let body: String = (0..length).map(|_| *random.choose(&alphabet.each_ref())).collect();
                let media = *random.choose(&[&"application/yaml", &"application/json", &"text/plain"]);
                let mut request = Request::new(Method::POST, REVIEWS).header("content-type", media);
                request.body = body.into();
                let answer = client.send(request).await?;
                ensure!(answer.status != 500, "a random body: {}: {}", answer.status, answer.text());
                let query: String = (0..random.below(20))
                    .map(|_| {
                        *random.choose(&[
                            &"watch=1",
                            &"&",
                            &"=",
                            &"limit=-1",
                            &"limit=9999999999999999999",
                            &"continue=",
                            &"fieldSelector=",
                            &"metadata.name",
                            &"+in+(",
                            &")",
                            &"^%3D",
                            &"%3E",
                            &"%00",
                            &"%2C",
                            &"a",
                            &"resourceVersion=0",
                            &"labelSelector=!",
                            &"timeoutSeconds=1",
                            &"pretty",
                            &"explain=true",
                            &"%ff",
                        ])
                    })
                    .collect();
                let path = format!("{}?{query}&timeoutSeconds=1", arena.collection_in(NAMESPACE));
                let answer =
                    arena.client(User::Tenant)?.send(Request::get(&*path)).await.with_context(|| path.clone())?;
                ensure!(answer.status != 500, "{path}: {}", answer.status);
            }
            Ok("60 bodies, 60 queries".to_owned())
        })
    })
}

/// Nested anchors around a long list.
fn anchors(count: usize, items: usize) -> String {
    let mut text = REVIEW.to_owned();
    for number in 0..count {
        text.push_str(&format!("&a{number} ["));
    }
    text.push_str(&"a,".repeat(items));
    text.push_str(&"]".repeat(count));
    text.push('\n');
    text
}

/// Sends a review that must be rejected.
async fn review(arena: &Arena, media: &str, body: String) -> Result<String> {
    let kilobytes = body.len() / 1000;
    let mut request = Request::new(Method::POST, REVIEWS).header("content-type", media);
    request.body = body.into();
    // A server may reject a body and close before it has read it all, which looks like a broken connection from here.
    match arena.client(User::Stranger)?.send(request).await {
        Ok(answer) => {
            ensure!((400..500).contains(&answer.status.as_u16()), "{}: {}", answer.status, answer.text());
            Ok(format!("{kilobytes} KB: {}", answer.status.as_u16()))
        }
        Err(error) => {
            arena.process_id()?;
            Ok(format!("{kilobytes} KB: {}", error.root_cause()))
        }
    }
}

async fn slow_bodies(arena: &Arena, count: usize) -> Result<String> {
    const LENGTH: usize = 3 << 20;
    let dialer = arena.dialer(Some(User::Stranger))?;
    let part = vec![b'a'; LENGTH - 1];
    let mut bodies = Vec::new();
    let mut rejected = 0;
    for _ in 0..count {
        let Ok(mut line) = dialer.tls(SLOW, "http/1.1").await else {
            rejected += 1;
            continue;
        };
        let head = format!(
            "POST {REVIEWS} HTTP/1.1\r\nHost: {}\r\nContent-Type: application/json\r\nContent-Length: {LENGTH}\r\n\r\n",
            dialer.host()
        );
        let sending = async {
            line.write_all(head.as_bytes()).await?;
            line.write_all(&part).await?;
            line.flush().await
        };
        match timeout(Duration::from_secs(2), sending).await {
            // Taken, or not taken further for want of room: both are held open.
            Ok(Ok(())) | Err(_) => bodies.push(line),
            Ok(Err(_)) => rejected += 1,
        }
        if bodies.len() > 20 && rejected > 50 {
            break;
        }
    }
    Ok(format!("{} bodies held, {rejected} rejected", bodies.len()))
}

async fn far_ahead(arena: &Arena) -> Result<String> {
    let client = arena.client(User::Administrator)?;
    let path = format!("{}?resourceVersion=9000000000000000", arena.collection());
    let mut codes = std::collections::BTreeMap::new();
    for outcome in join_all((0..60).map(|_| client.get(&path))).await {
        let status = outcome?.status.as_u16();
        ensure!(matches!(status, 400 | 429 | 504), "{status}");
        *codes.entry(status).or_insert(0) += 1;
    }
    Ok(format!("{codes:?}"))
}

async fn selectors(arena: &Arena) -> Result<String> {
    let client = arena.client(User::Tenant)?;
    let collection = arena.collection_in(NAMESPACE);
    let many = |one: &dyn Fn(usize) -> String, count: usize| (0..count).map(one).collect::<Vec<_>>().join("%2C");
    let queries = [
        format!("labelSelector={}", many(&|number| format!("a{number}!%3Db"), 4_000)),
        format!("labelSelector=a%20in%20({})", many(&|number| format!("v{number}"), 6_000)),
        format!("labelSelector={}", "(".repeat(50_000)),
        format!("fieldSelector={}", many(&|number| format!("spec.color!%3Dc{number}"), 2_500)),
        format!("fieldSelector=spec.color%3D{}", "%5C%2C".repeat(8_000)),
        format!("fieldSelector=names%3D{}", "n".repeat(60_000)),
        format!("fieldSelector=metadata.name+in+({})", many(&|number| format!("n{number}"), 6_000)),
        format!("fieldSelector=spec.color+notin+({})", many(&|number| format!("c{number}"), 6_000)),
        format!("fieldSelector=spec.color+in+({})", many(&|number| format!("c{number}"), 100_000)),
        format!("fieldSelector=spec.color+in+({}", "%5C(".repeat(10_000)),
        format!("fieldSelector={}", many(&|number| format!("spec.color^%3D{number}"), 1_500)),
        format!("fieldSelector={}", many(&|number| format!("metadata.name^%3D{number}"), 900)),
        format!("fieldSelector={}", many(&|_| "spec.color".to_owned(), 5_000)),
        format!("fieldSelector={}", "spec.color+in+(".repeat(4_000)),
        format!("fieldSelector=spec.color^%3D{}", "p".repeat(1 << 20)),
        format!("celSelector={}", "(".repeat(50_000)),
        format!("celSelector={}", "!".repeat(50_000)),
        format!("celSelector=true{}", "%7C%7Ctrue".repeat(5_000)),
        format!("celSelector=1{}%3E0", "%2B1".repeat(20_000)),
        format!("celSelector={}true{}", "[1,2,3,4,5,6,7,8,9].all(x,".repeat(40), ")".repeat(40)),
        format!("celSelector='{}'.matches('(a*)*(b*)*c')", "ab".repeat(20_000)),
        format!("continue={}", "A".repeat(50_000)),
        (0..5_000).map(|number| format!("a{number}=1")).collect::<Vec<_>>().join("&"),
    ];
    let mut codes = Vec::new();
    for query in queries {
        for watch in ["", "&watch=1&timeoutSeconds=1"] {
            let path = format!("{collection}?{query}{watch}");
            // A head that is too long may end the connection.
            match client.drain(Request::get(&*path)).await {
                Ok(drained) => {
                    ensure!(drained.status != 500, "{:.80}: {}", query, drained.status);
                    codes.push(drained.status.as_u16());
                }
                Err(_) => codes.push(0),
            }
            arena.process_id()?;
        }
    }
    Ok(format!("{codes:?}"))
}

/// Lists whose requirements stand for a value of each object each.
async fn comparisons(arena: &Arena, count: usize) -> Result<String> {
    const OBJECTS: usize = 400;
    const LABELS: usize = 250;
    arena.empty().await?;
    for object in 0..OBJECTS {
        let labels: String = (0..LABELS).map(|label| format!(r#","a{label}":"{object}""#)).collect();
        let text = format!(
            r#"{{"apiVersion":"{GROUP}/v1","kind":"Anything","metadata":{{"name":"many-{object}","namespace":"{NAMESPACE}","labels":{{"large":"true"{labels}}}}},"spec":{{}}}}"#
        );
        arena.create_text(&text).await?;
    }
    arena.arrives(&format!("many-{}", OBJECTS - 1)).await?;
    let selector: Vec<String> = (0..LABELS).map(|label| format!("a{label}%3E0,a{label}%3C1000000")).collect();
    let path = format!("{}?limit=1&labelSelector={}", arena.collection_in(NAMESPACE), selector.join(","));
    let mut clients = Vec::new();
    for _ in 0..8 {
        clients.push(arena.client(User::Tenant)?);
    }
    let lists = (0..count).map(|number| clients[number % clients.len()].drain(Request::get(&*path)));
    let mut codes = BTreeMap::new();
    for drained in join_all(lists).await {
        // A request that waits behind so many of its user before it is authenticated can lose its connection.
        let code = drained.map_or(0, |drained| drained.status.as_u16());
        *codes.entry(code).or_insert(0) += 1;
    }
    arena.process_id()?;
    arena.empty().await?;
    ensure!(codes.keys().all(|code| [0, 200, 429].contains(code)), "{codes:?}");
    Ok(format!("{codes:?}"))
}

/// Watches over shared connections, each with a long selector of its own, in every shape that multiplies it.
async fn long_watches(arena: &Arena, count: usize) -> Result<String> {
    const SESSIONS: usize = 16;
    // Of requirements, no selector may have more than 1,024.
    const LENGTH: usize = 12_000;
    let many =
        |one: &dyn Fn(usize) -> String, length: usize| (0..LENGTH / length).map(one).collect::<Vec<_>>().join(",");
    let selector = |watch: usize| match watch % 6 {
        0 => format!("labelSelector=k{watch}%20in%20({})", many(&|number| format!("{number:04}"), 5)),
        1 => format!("labelSelector={}", many(&|number| format!("k{watch}-{number:04}=v"), 14)),
        2 => format!("labelSelector={}", many(&|number| format!("k{watch}-{number:04}"), 12)),
        3 => format!("fieldSelector=metadata.name%20in%20({})", many(&|number| format!("{watch}-{number:04}"), 9)),
        4 => format!("fieldSelector={}", many(&|number| format!("spec.color^%3D{watch}-{number:04}"), 22)),
        _ => format!("fieldSelector={}", many(&|number| format!("metadata.name!={watch}-{number:04}"), 26)),
    };
    let dialer = arena.dialer(Some(User::Tenant))?;
    let before = super::memory::resident(arena.process_id()?)?;
    let mut sessions = Vec::new();
    for _ in 0..SESSIONS {
        let mut session = Session::open(&dialer, LONG, 1 << 20).await?;
        session.read();
        sessions.push(session);
    }
    let ended = |sessions: &[Session]| {
        let sum = |of: fn(&Session) -> u64| sessions.iter().map(of).sum::<u64>();
        let good = sum(|session| session.counts.good.load(Ordering::Relaxed));
        (good, sum(|session| session.counts.other.load(Ordering::Relaxed)))
    };
    for watch in 0..count {
        let session = &mut sessions[watch % SESSIONS];
        let path = format!("{}?watch=1&{}", arena.collection_in(NAMESPACE), selector(watch));
        let bytes = session.get(&path, &[]);
        ensure!(session.send(&bytes).await, "the connection is closed");
        // Few at a time: requests that wait for authorization have a bound of their own.
        if watch % 8 == 7 {
            eventually("the watches are answered", SOON, async || {
                let (good, other) = ended(&sessions);
                ensure!(good + other > watch as u64, "{good} are open, {other} rejected");
                Ok(())
            })
            .await?;
        }
    }
    let (good, other) = ended(&sessions);
    ensure!(good >= count as u64 * 9 / 10, "{good} are open, {other} rejected");
    let growth = super::memory::resident(arena.process_id()?)?.saturating_sub(before);
    drop(sessions);
    Ok(format!("{good} open, {other} rejected, {} KB for each", growth / good / 1000))
}

async fn odd(arena: &Arena) -> Result<String> {
    let client = arena.client(User::Tenant)?;
    let collection = arena.collection_in(NAMESPACE);
    let long = "x".repeat(12_000);
    let rows: [(&str, &str); 9] = [
        ("accept", &"application/json;as=Table;g=meta.k8s.io;v=v1,".repeat(300)),
        ("accept", &long),
        ("accept-encoding", &"gzip;q=0.1,".repeat(1_000)),
        ("if-none-match", &long),
        ("range", "bytes=0-18446744073709551615"),
        ("x-forwarded-for", &long),
        ("impersonate-user", "system:admin"),
        ("content-length", "0"),
        ("fieldcache-consistency", &long),
    ];
    let mut codes = Vec::new();
    for (name, value) in rows {
        if let Ok(answer) = client.send(Request::get(&*collection).header(name, value)).await {
            ensure!(answer.status != 500, "{name}: {}", answer.status);
            codes.push(answer.status.as_u16());
        }
    }
    for path in [
        "/%00",
        "/apis/%2e%2e/%2e%2e",
        "/apis//v1//",
        "/api/v1/namespaces/%ff/pods",
        "/apis/view.fieldcache.dev/v1alpha1/views/a%2fb/proxy/",
    ] {
        let answer = client.get(path).await?;
        ensure!(answer.status != 500, "{path}: {}", answer.status);
        codes.push(answer.status.as_u16());
    }
    let many = (0..90).fold(Request::get(&*collection), |request, number| request.header(&format!("x-{number}"), "1"));
    if let Ok(answer) = client.send(many).await {
        codes.push(answer.status.as_u16());
    }
    Ok(format!("{codes:?}"))
}

/// A web page's request reaches nothing, whichever of several Origin headers is its own.
async fn origins(arena: &Arena) -> Result<String> {
    let folder = arena.folder().join("empty");
    std::fs::create_dir_all(&folder)?;
    let local = Box::pin(Fieldcache::serve_folder(&folder)).await?;
    let own = local.address().to_owned();
    for origins in [[&*own, "https://elsewhere.example.com"], ["https://elsewhere.example.com", &*own]] {
        let request = origins.iter().fold(Request::get("/api"), |request, origin| request.header("origin", origin));
        let answer = local.client().send(request).await?;
        ensure!(answer.status == 403, "{origins:?}: {}", answer.status);
    }
    Ok("403".to_owned())
}

/// A plan says nothing of objects that the caller may not list.
async fn explain(arena: &Arena) -> Result<String> {
    const HIDDEN: usize = 7;
    let administrator = arena.client(User::Administrator)?;
    for number in 0..HIDDEN {
        arena.create_hidden(&format!("hidden-{number}"), "concealed").await?;
    }
    let selected = format!("{}?labelSelector=concealed%3Dtrue", arena.collection());
    eventually("the operator has them", SOON, async || {
        let list = administrator.get_json(&selected).await?;
        ensure!(list["items"].as_array().is_some_and(|items| items.len() == HIDDEN), "not yet");
        Ok(())
    })
    .await?;
    let tenant = arena.client(User::Tenant)?;
    let mut plans = Vec::new();
    for query in ["labelSelector=concealed%3Dtrue", "fieldSelector=spec.color%3Dconcealed", "labelSelector=concealed"] {
        let path = format!("{}?{query}&explain=true", arena.collection_in(NAMESPACE));
        let answer = tenant.get(&path).await?.success()?;
        ensure!(answer.json()?["items"].as_array().is_some_and(Vec::is_empty), "the tenant sees nothing");
        plans.push(answer.header("fieldcache-explain").unwrap_or_default().to_owned());
    }
    for number in 0..HIDDEN {
        let path = format!("{}/hidden-{number}", arena.collection_in(OTHER_NAMESPACE));
        crate::objects::delete(&arena.source(), &path).await?;
    }
    if let Some(one) = plans.iter().find(|one| one.contains(&format!("({HIDDEN})"))) {
        bail!("the plan counts objects of another namespace: {one}");
    }
    Ok(format!("{} plans without counts of others", plans.len()))
}

/// Valid tokens keep working behind an address from which wrong ones come.
async fn wrong_tokens(arena: &Arena) -> Result<String> {
    let path = arena.collection_in(NAMESPACE);
    let dialer = arena.dialer(None)?;
    let known = arena.token().await?;
    ensure!(with_token(arena, &path, &known).await? == 200, "a valid token is accepted before the flood");
    let mut flood = Session::open(&dialer, WRONG_TOKENS, 1 << 20).await?;
    flood.read();
    let mut sent = 0;
    let mut batch = async |flood: &mut Session, count: usize| {
        for _ in 0..count {
            sent += 1;
            let bytes = flood.get(&path, &[("authorization", &format!("Bearer wrong-{sent}"))]);
            if !flood.send(&bytes).await {
                return;
            }
        }
    };
    batch(&mut flood, 300).await;
    eventually("the flood is answered", SOON, async || {
        let answered = flood.counts.ended.load(Ordering::Relaxed);
        ensure!(answered >= 300 || flood.is_closed(), "{answered} of 300");
        Ok(())
    })
    .await?;
    ensure!(flood.counts.good.load(Ordering::Relaxed) == 0, "a wrong token is accepted");
    let rejected = flood.counts.other.load(Ordering::Relaxed);
    ensure!(with_token(arena, &path, &known).await? == 200, "a token that was accepted before is rejected");
    // Tokens that the server has not seen yet, each right behind a burst of wrong ones.
    const FRESH: usize = 5;
    for number in 0..FRESH {
        let fresh = arena.token().await?;
        let mut line = dialer.tls(WRONG_TOKENS, "http/1.1").await?;
        batch(&mut flood, 300).await;
        let status = status(&mut line, &dialer.host().to_string(), &path, &fresh).await?;
        ensure!(
            status == 200,
            "valid token {number} that is seen for the first time is rejected behind wrong ones: {status}"
        );
    }
    Ok(format!("{rejected} wrong tokens rejected; {FRESH} new valid ones accepted"))
}

/// The status of a GET with a token, from the address of the flood.
async fn with_token(arena: &Arena, path: &str, token: &str) -> Result<u16> {
    let dialer = arena.dialer(None)?;
    let mut line = dialer.tls(WRONG_TOKENS, "http/1.1").await?;
    status(&mut line, &dialer.host().to_string(), path, token).await
}

/// The same over a connection that is open.
async fn status<Line>(line: &mut Line, host: &str, path: &str, token: &str) -> Result<u16>
where
    Line: AsyncReadExt + AsyncWriteExt + Unpin,
{
    let head = format!(
        "GET {path}?limit=1 HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {token}\r\nConnection: close\r\n\r\n"
    );
    line.write_all(head.as_bytes()).await?;
    line.flush().await?;
    let mut answer = vec![0; 12];
    timeout(SOON, line.read_exact(&mut answer)).await.context("no answer")??;
    let text = String::from_utf8_lossy(&answer).into_owned();
    text.rsplit(' ').next().context("a status")?.parse().with_context(|| text.clone())
}
