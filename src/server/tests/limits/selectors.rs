//! What watches hold of their requests: counted by what they take.

use std::time::Duration;

use http::{Method, Response};
use http_body_util::BodyExt;
use tokio::time::Instant;

use super::super::admission::cluster;
use super::super::{ALL_SHIRTS, Fixture};
use crate::flow_control::watches::WATCH_BYTES;
use crate::query::CompactSelection;
use crate::selector::LabelSelector;
use crate::server::Settings;
use crate::store::HistoryLimits;
use crate::wire::body::Body;

fn fixture() -> Fixture {
    let settings = Settings { access: Some(cluster()), ..Settings::default() };
    let mut fixture = Fixture::with(settings, HistoryLimits::default());
    fixture.put("default", "x", "blue");
    fixture
}

async fn open(fixture: &Fixture, query: &str) -> Response<Body> {
    let path = format!("{ALL_SHIRTS}?watch=1&{query}");
    fixture.send(Method::GET, &path, &[("authorization", "Bearer alice")]).await
}

/// Selectors of about this length, in every shape that multiplies it.
fn selectors(length: usize) -> [(&'static str, String); 5] {
    let many = |one: &dyn Fn(usize) -> String, count: usize| (0..count).map(one).collect::<Vec<_>>().join(",");
    [
        (
            "values of one set",
            format!("labelSelector=k%20in%20({})", many(&|number| format!("v{number:05}"), length / 7)),
        ),
        ("many requirements", format!("labelSelector={}", many(&|number| format!("k{number:05}%21%3Dv"), length / 13))),
        ("many keys", format!("labelSelector={}", many(&|number| format!("k{number:05}"), length / 7))),
        (
            "field terms",
            format!("fieldSelector={}", many(&|number| format!("spec.color%21%3Dc{number:05}"), length / 21)),
        ),
        ("one long value", format!("fieldSelector=spec.color%3D{}", "c".repeat(length))),
    ]
}

#[tokio::test]
async fn a_watch_holds_a_few_times_the_length_of_its_selectors() {
    for length in [1_000, 7_000, 50_000] {
        for (shape, query) in selectors(length) {
            // As many requirements as this are refused.
            if length > 7_000 && !matches!(shape, "values of one set" | "one long value") {
                continue;
            }
            for start in ["resourceVersion=100", "resourceVersion=0", "resourceVersion=101"] {
                let what = format!("{shape} of {}, {start}", query.len());
                let fixture = fixture();
                let mut watch = open(&fixture, &format!("{query}&{start}")).await;
                assert_eq!(watch.status(), 200, "{what}");
                let counted = || fixture.server.limits().watches().of_busiest() as usize;
                let begun = counted();
                // As far as the end of its initial events. They can take several turns.
                let is_full = start == "resourceVersion=0" && length > 10_000;
                let until = Instant::now() + Duration::from_secs(10);
                let most = 1 + 8 * query.len() / WATCH_BYTES;
                loop {
                    while futures::poll!(watch.body_mut().frame()).is_ready() {}
                    let is_done = counted() <= most && (!is_full || begun > counted());
                    if is_done || Instant::now() > until {
                        break;
                    }
                    tokio::task::yield_now().await;
                }
                assert!(counted() <= most, "{what}: it counts as {}", counted());
                // Of long selectors, the question about the permission holds nothing.
                let least = 1 + query.len() / (4 * WATCH_BYTES);
                assert!(counted() >= least, "{what}: it counts as {} only", counted());
                match start {
                    "resourceVersion=0" if is_full => {
                        assert!(begun > counted(), "{what}: the full selection goes: {begun}");
                    }
                    "resourceVersion=0" => {}
                    _ => assert_eq!(begun, counted(), "{what}: there is no full selection"),
                }
                drop(watch);
                assert_eq!(counted(), 0, "{what}");
            }
        }
    }
}

#[test]
fn compact_selections_take_little_more_than_their_text() {
    for (shape, query) in selectors(15_000) {
        let Some(text) = query.strip_prefix("labelSelector=") else { continue };
        let text = text.replace("%20", " ").replace("%21", "!").replace("%3D", "=");
        let labels = LabelSelector::parse(&text).unwrap();
        let compact = CompactSelection::new(&crate::query::Selection { labels, ..Default::default() });
        assert!(compact.held_bytes() <= 3 * text.len(), "{shape}: {} of {}", compact.held_bytes(), text.len());
    }
}
