//! Hostile objects: a tenant writes them, all clients read them in every form.
//!
//! Each is created through kube-apiserver. It is read through the root and through a View that prunes, as JSON, YAML,
//! Table and metadata, indented, and by watches. Then it is deleted. A response may be a rejection; it must be
//! complete, and it must not be an internal error. Where the response is plain JSON it must equal kube-apiserver's byte
//! for byte.

use std::fmt::Write as _;

use anyhow::{Context, Result, bail, ensure};
use futures::StreamExt;
use futures::stream;

use super::Case;
use super::arena::{Arena, GROUP, NAMESPACE, SOON, User, view};
use crate::http::{Client, Next, Request};
use crate::random::Random;

/// What one object may cost at the peak, read in all forms, some at a time.
const GROWTH: u64 = 160;
const SECONDS: u64 = 90;
/// Requests at a time.
const AT_ONCE: usize = 4;

/// Name, and the JSON text of `spec` (or of a whole object, where it begins with `apiVersion`).
type Object = (String, Box<dyn Fn() -> String>);

/// A row of the table.
type Row = (&'static str, fn() -> String);

/// The table.
#[must_use]
pub fn cases() -> Vec<Case> {
    let mut objects: Vec<Object> = Vec::new();
    for depth in [100, 500, 1_000, 3_000, 9_000] {
        objects.push((format!("lists of depth {depth}"), Box::new(move || free(&nested(depth, Shape::Lists)))));
        objects.push((format!("maps of depth {depth}"), Box::new(move || free(&nested(depth, Shape::Maps)))));
        objects.push((format!("lists and maps of depth {depth}"), Box::new(move || free(&nested(depth, Shape::Both)))));
    }
    let more: [Row; 24] = [
        ("maps named secret of depth 3000", || free(&nested(3_000, Shape::Secrets))),
        ("lists of depth 9500", || free(&nested(9_500, Shape::Lists))),
        ("lists of depth 9000 in a list of the schema", || {
            format!(r#"{{"items":[{{"name":"a","secret":{}}}]}}"#, nested(8_900, Shape::Lists))
        }),
        ("many lists of depth 1000", || free(&format!("[{}]", vec![nested(1_000, Shape::Lists); 20].join(",")))),
        ("indented to hundreds of megabytes", || {
            free(&format!("{}{}{}", "[".repeat(4_500), vec!["[[]]"; 1_000].join(","), "]".repeat(4_500)))
        }),
        ("a pruned path through lists of maps", || {
            let deep = format!("{}{{\"b\":[{{\"c\":[{{\"secret\":1}}]}}]}}{}", "[".repeat(500), "]".repeat(500));
            format!(r#"{{"more":{{"a":{deep}}}}}"#)
        }),
        ("many pruned members", || {
            let members: Vec<String> = (0..20_000).map(|number| format!(r#"{{"secret":{number},"k":1}}"#)).collect();
            free(&format!("[{}]", members.join(",")))
        }),
        ("a key of 500 KB", || free(&format!(r#"{{"{}":1}}"#, "k".repeat(500_000)))),
        ("a string of 1 MB", || free(&format!(r#""{}""#, "s".repeat(1_000_000)))),
        ("a string of 200,000 escapes", || free(&format!(r#""{}""#, r"\u0001".repeat(100_000)))),
        ("escapes that are half a character", || free(r#"["\ud800","\udc00\ud800","\ud83d\ude00","\u0000","\uFFFE"]"#)),
        ("characters that HTML and JavaScript mind", || free(r#""<script>&\u2028\u2029""#)),
        ("20,000 small members", || {
            let members: Vec<String> = (0..20_000).map(|number| format!(r#""k{number}":{number}"#)).collect();
            free(&format!("{{{}}}", members.join(",")))
        }),
        ("200,000 numbers", || free(&format!("[{}]", vec!["1"; 200_000].join(",")))),
        ("20,000 empty maps", || free(&format!("[{}]", vec!["{}"; 20_000].join(",")))),
        ("numbers at the edges", || {
            free("[9223372036854775807,-9223372036854775808,1e308,-1e-308,0.1,1E+2,-0,100000000000000000000]")
        }),
        ("a number of 300 digits", || free(&"9".repeat(300))),
        ("a number of 10,000 digits", || free(&"9".repeat(10_000))),
        ("keys twice", || r#"{"free":{"a":1,"a":2,"secret":1,"secret":2},"color":"red","color":"blue"}"#.to_owned()),
        ("names that programs mind", || {
            free(
                r#"{"__proto__":{"a":1},"constructor":1,"$ref":"x","":"empty","a.b":1,"a/b":1,"a\nb":1,"..":{"..":1}}"#,
            )
        }),
        ("5,000 values of an extra field", || {
            let items: Vec<String> = (0..5_000).map(|number| format!(r#"{{"name":"n{number}"}}"#)).collect();
            format!(r#"{{"items":[{}]}}"#, items.join(","))
        }),
        ("a value of 500 KB of a selectable field", || format!(r#"{{"color":"{}"}}"#, "c".repeat(500_000))),
        ("40,000 labels", || {
            let labels: Vec<String> = (0..40_000).map(|number| format!(r#""l{number}":"""#)).collect();
            let labels = labels.join(",");
            format!(
                r#"{{"apiVersion":"{GROUP}/v1","kind":"Anything","metadata":{{"name":"odd","namespace":"{NAMESPACE}","labels":{{{labels}}}}},"spec":{{}}}}"#
            )
        }),
        ("1,000 labels and annotations", || {
            let mut labels = String::new();
            for number in 0..1_000 {
                let _ = write!(
                    labels,
                    r#"{}"l{number}.example.com/{}":"{}""#,
                    if number > 0 { "," } else { "" },
                    "n".repeat(40),
                    "v".repeat(60)
                );
            }
            format!(
                r#"{{"apiVersion":"{GROUP}/v1","kind":"Anything","metadata":{{"name":"odd","namespace":"{NAMESPACE}","labels":{{{labels}}},"annotations":{{{labels}}}}},"spec":{{}}}}"#
            )
        }),
    ];
    objects.extend(more.into_iter().map(|(name, make)| -> Object { (name.to_owned(), Box::new(make)) }));
    objects.into_iter().map(|(name, make)| case(name, make())).collect()
}

/// An object of random shape.
#[must_use]
pub fn random(seed: u64) -> Case {
    let mut random = Random::from_seed(seed, 1);
    let mut text = String::new();
    let mut left = random.between(100, 20_000);
    grow(&mut random, &mut text, &mut left, 0);
    case(format!("random of seed {seed}"), free(&text))
}

/// A case of one object.
fn case(name: String, text: String) -> Case {
    Case::new(name, GROWTH, SECONDS, move |arena| Box::pin(read_in_all_forms(arena, text.clone())))
}

enum Shape {
    Lists,
    Maps,
    Both,
    Secrets,
}

fn free(value: &str) -> String {
    format!(r#"{{"color":"odd","free":{value}}}"#)
}

fn nested(depth: usize, shape: Shape) -> String {
    let (open, close) = match shape {
        Shape::Lists => ("[", "]"),
        Shape::Maps => (r#"{"a":"#, "}"),
        Shape::Both => (r#"[{"a":"#, "}]"),
        Shape::Secrets => (r#"{"secret":"#, "}"),
    };
    let times = depth / if matches!(shape, Shape::Both) { 2 } else { 1 };
    format!("{}{}{}", open.repeat(times), if matches!(shape, Shape::Lists) { "" } else { "1" }, close.repeat(times))
}

/// Random JSON, deep rather than wide.
fn grow(random: &mut Random, text: &mut String, left: &mut u64, depth: u64) {
    *left = left.saturating_sub(1);
    let choice = if *left == 0 || depth > 900 { 9 } else { random.below(10) };
    match choice {
        0..=3 => {
            text.push('[');
            for index in 0..random.between(1, 3) {
                if index > 0 {
                    text.push(',');
                }
                grow(random, text, left, depth + 1);
            }
            text.push(']');
        }
        4..=7 => {
            text.push('{');
            for index in 0..random.between(1, 3) {
                if index > 0 {
                    text.push(',');
                }
                let key = *random.choose(&[&"secret", &"a", &"free", &"items", &"name", &"metadata", &"", &"\\u0000"]);
                let _ = write!(text, r#""{key}{}":"#, if index > 0 { index.to_string() } else { String::new() });
                grow(random, text, left, depth + 1);
            }
            text.push('}');
        }
        8 => text.push_str(random.choose(&["null", "true", "-1", "1.5", r#""""#, r#""\ud800""#, "[]", "{}"])),
        _ => {
            let digits = random.below(30) as usize;
            let _ = write!(text, r#""{}""#, random.hexadecimal(digits));
        }
    }
}

/// Creates the object, reads it in all forms, and deletes it.
async fn read_in_all_forms(arena: &Arena, text: String) -> Result<String> {
    let made = if text.starts_with(r#"{"apiVersion""#) {
        arena.create_text(&text).await
    } else {
        arena.create("odd", &text).await
    };
    if let Err(error) = made {
        // A defense of kube-apiserver's own is one for us.
        return Ok(format!("{error:#}"));
    }
    let outcome = read(arena).await;
    arena.delete("odd").await?;
    let count = outcome?;
    arena.leaves("odd").await?;
    Ok(format!("{} KB, {count} responses", text.len() / 1000))
}

async fn read(arena: &Arena) -> Result<usize> {
    arena.arrives("odd").await?;
    let client = arena.client(User::Administrator)?;
    let object = format!("{}/odd", arena.collection_in(NAMESPACE));
    // The same bytes as kube-apiserver's, before anything else.
    let (own, upstream) = (client.get(&object).await?, arena.source().get(&object).await?);
    ensure!(own.body == upstream.body, "the object is not kube-apiserver's, byte for byte");
    let mut requests = Vec::new();
    for base in [String::new(), view()] {
        for path in
            [object.clone(), arena.collection(), format!("{}?fieldSelector=spec.color%3Dodd", arena.collection())]
        {
            for accept in [
                "application/json",
                "application/yaml",
                "application/json;as=Table;g=meta.k8s.io;v=v1",
                "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1",
            ] {
                requests.push((format!("{base}{path}"), accept));
            }
        }
        let join = |query: &str| format!("{base}{}?{query}", arena.collection());
        requests.push((format!("{base}{object}?pretty=true"), "application/json"));
        requests.push((join("pretty=true"), "application/json"));
        requests.push((join("labelSelector=!nothing&explain=true"), "application/json"));
        requests.push((join("fieldSelector=names!%3Dx"), "application/json"));
        for accept in ["application/json", "application/json;as=Table;g=meta.k8s.io;v=v1"] {
            requests.push((join("watch=1&resourceVersion=0&timeoutSeconds=60"), accept));
        }
    }
    let count = requests.len();
    let outcomes: Vec<Result<()>> = stream::iter(requests)
        .map(|(path, accept)| one(&client, path, accept))
        .buffer_unordered(AT_ONCE)
        .collect()
        .await;
    for outcome in outcomes {
        outcome?;
    }
    Ok(count + 1)
}

async fn one(client: &Client, path: String, accept: &str) -> Result<()> {
    if path.contains("watch=1") {
        return first_event(client, &path, accept).await.with_context(|| format!("{path} as {accept}"));
    }
    let drained = client.drain(Request::get(&*path).header("accept", accept)).await;
    let drained = drained.with_context(|| format!("{path} as {accept}"))?;
    ensure!(drained.status != 500, "{path} as {accept}: {}", drained.status);
    Ok(())
}

/// Reads the first event of a watch.
async fn first_event(client: &Client, path: &str, accept: &str) -> Result<()> {
    let mut lines = client.open(Request::get(path).header("accept", accept)).await?;
    ensure!(lines.status != 500, "{}", lines.status);
    match lines.next(SOON).await? {
        Next::Line(_) => Ok(()),
        Next::End if lines.status != 200 => Ok(()),
        other => bail!("{}: {other:?} instead of an event", lines.status),
    }
}
