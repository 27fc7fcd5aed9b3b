//! What a caller of one namespace learns about the others at the root: nothing, whatever it requests. Also what a View
//! takes of a Pod that is gone.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use http::Method;
use serde_json::{Value, json};
use tokio::time::advance;

use super::extra::fixture_with;
use super::{ALL_SHIRTS, Answer, Fixture};
use crate::access::tests::cluster::Cluster;
use crate::extract::Prune;
use crate::registry::LoadState;
use crate::registry::consumer::{ConsumerClaim, ConsumerTerms};
use crate::registry::views::{ViewDefinition, ViewPart};
use crate::server::Settings;
use crate::store::HistoryLimits;

/// `tenant` may do everything in the namespace `a`, other users everywhere.
fn cluster() -> Arc<Cluster> {
    Cluster::new(|spec| spec["user"] != "tenant" || spec["resourceAttributes"]["namespace"] == "a")
}

const TENANT: (&str, &str) = ("authorization", "Bearer tenant");
const ADMIN: (&str, &str) = ("authorization", "Bearer admin");
const OWN: &str = "/apis/stable.example.com/v1/namespaces/a/shirts";

/// Alike in the namespace `a`, and as many changes elsewhere; what these are differs.
fn world(others: &[(&str, &str, usize)]) -> Fixture {
    let settings = Settings { access: Some(cluster().access()), ..Settings::default() };
    let mut fixture = fixture_with(settings);
    for (name, color) in [("x", "blue"), ("y", "green"), ("z", "blue")] {
        fixture.put("a", name, color);
    }
    fixture.put_images_in("a", "images", &["i1", "i2"]);
    for (number, (namespace, color, images)) in others.iter().enumerate() {
        match images {
            0 => fixture.put(namespace, &format!("o{number}"), color),
            _ => {
                let images: Vec<String> = (0..*images).map(|image| format!("i{image}")).collect();
                let images: Vec<&str> = images.iter().map(String::as_str).collect();
                fixture.put_images_in(namespace, &format!("o{number}"), &images)
            }
        };
    }
    fixture
}

fn worlds() -> [Fixture; 2] {
    let one = [("b", "blue", 0); 12].map(|(namespace, color, images)| (namespace, color, images));
    let mut other = [("c", "green", 0); 12];
    other[4] = ("b", "", 70);
    other[5] = ("a-b", "", 3);
    other[6] = ("ab", "red", 0);
    [world(&one), world(&other)]
}

/// Everything of an answer that is not of its moment.
fn comparable(answer: &Answer) -> String {
    let headers = answer.headers.iter().filter(|(name, _)| *name != "audit-id");
    let headers: Vec<String> = headers.map(|(name, value)| format!("{name}: {value:?}")).collect();
    format!("{} {headers:?} {}", answer.code, answer.body)
}

#[tokio::test(start_paused = true)]
async fn objects_of_other_namespaces_change_no_byte_of_what_a_tenant_gets() {
    let worlds = worlds();
    let fields = [
        "",
        "spec.color%3Dblue",
        "spec.color%3Dgreen",
        "spec.color!%3Dblue",
        "spec.size%3D7,spec.color%3Dblue",
        "spec.color%3Dblue,spec.size%3D7",
        "metadata.namespace%3Da",
        "metadata.namespace%3Db",
        "metadata.name%3Dx",
        "images%3Di1",
        "images!%3Di1",
        "metadata.name%3Dx,images%3Di1",
        "spec.color%3Dred",
        "banana%3D1",
    ];
    let labels = ["", "tone%3Dblue", "tone", "!tone", "tone%20in%20(green,red)"];
    let more = [
        "",
        "&limit=1",
        "&limit=2",
        "&resourceVersion=0",
        "&resourceVersion=999",
        "&watch=1&timeoutSeconds=1",
        "&watch=1&timeoutSeconds=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan",
    ];
    let (mut requests, mut explained) = (0, 0);
    for path in [OWN.to_owned(), format!("{OWN}/x"), format!("{OWN}/none"), ALL_SHIRTS.to_owned()] {
        for field in fields {
            for label in labels {
                for more in more {
                    let path = format!("{path}?explain=true&fieldSelector={field}&labelSelector={label}{more}");
                    let [one, other] = [&worlds[0], &worlds[1]].map(|world| world.get_with(&path, &[TENANT]));
                    let (one, other) = futures::future::join(one, other).await;
                    assert_eq!(comparable(&one), comparable(&other), "{path}");
                    requests += 1;
                    explained += usize::from(one.headers.contains_key("fieldcache-explain"));
                }
            }
        }
    }
    assert!(requests > 1000 && explained > 300, "{explained} of {requests} were explained");
}

#[tokio::test(start_paused = true)]
async fn only_callers_that_may_list_everything_see_total_counts() {
    let worlds = worlds();
    let query = "explain=true&fieldSelector=spec.size%3D7&labelSelector=tone%3Dblue";
    let path = format!("{OWN}?{query}");
    let explain = async |path: &str, caller| -> Value {
        let answer = worlds[0].get_with(path, &[caller]).await;
        serde_json::from_str(answer.header("fieldcache-explain")).unwrap()
    };
    let explanation = explain(&path, TENANT).await;
    let tree = json!({"step": "all of", "steps": [
        {"step": "spec.size=7"}, {"step": "tone=blue"}, {"step": "metadata.namespace=a"},
    ]});
    let expected = json!({
        "plan": "spec.size=7 & tone=blue & metadata.namespace=a", "path": "index", "hits": 2, "bytes": explanation["bytes"],
        "tree": tree,
    });
    assert_eq!(explanation, expected, "in the order of the request, without counts and times");
    let mut explanation = explain(&path, ADMIN).await;
    for other in ["microseconds", "tree"] {
        explanation.as_object_mut().unwrap().remove(other).unwrap();
    }
    let plan = "metadata.namespace=a (4) & tone=blue (14) & spec.size=7 (15)";
    assert_eq!(
        explanation,
        json!({"plan": plan, "path": "index", "candidates": 4, "hits": 2, "bytes": explanation["bytes"]})
    );
    let one = explain(&format!("{OWN}/x?explain=true"), TENANT).await;
    assert_eq!(
        one,
        json!({"plan": "name a/x (1)", "path": "index", "hits": 1, "bytes": one["bytes"], "tree": {"step": "name a/x", "left": 1}})
    );
    // How many objects have more values than are indexed is a count too.
    let query = "explain=true&fieldSelector=images%3Di1";
    for (caller, path, tested) in [(ADMIN, ALL_SHIRTS, true), (TENANT, OWN, false)] {
        let answer = worlds[1].get_with(&format!("{path}?{query}"), &[caller]).await;
        let explanation = answer.header("fieldcache-explain");
        assert_eq!(explanation.contains("one by one"), tested, "{explanation}");
    }
    let own = worlds[1].get_with(&format!("{OWN}?fieldSelector=images%3Di1"), &[TENANT]).await;
    assert_eq!(own.names(), ["a/images"], "an object of another namespace has no effect");
}

#[tokio::test(start_paused = true)]
async fn the_progress_of_a_load_is_visible_to_operators_only() {
    let settings = Settings { access: Some(cluster().access()), ..Settings::default() };
    let fixture = Fixture::loading(settings, HistoryLimits::default());
    fixture.shirts.resource.state.publish(LoadState::Loading("4711 objects read".to_owned()));
    let answer = fixture.get_with(OWN, &[TENANT]).await;
    assert_eq!((answer.code.as_u16(), answer.body.contains("4711")), (429, false), "{}", answer.body);
}

/// A server with a View of the shirts whose color is the node of the caller's Pod, and a Pod.
fn with_agent() -> (Fixture, Arc<Cluster>) {
    let cluster = cluster();
    let settings = Settings { access: Some(cluster.access()), ..Settings::default() };
    let mut fixture = Fixture::with(settings, HistoryLimits::default());
    fixture.put("a", "x", "blue");
    fixture.put_agent();
    let consumer =
        ConsumerTerms { fields: vec![("spec.color".to_owned(), ConsumerClaim::NodeName)], ..ConsumerTerms::default() };
    let part =
        ViewPart { group: "stable.example.com".to_owned(), resource: "shirts".to_owned(), ..ViewPart::default() };
    let definition = ViewDefinition { parts: vec![part], consumer, ..ViewDefinition::default() };
    fixture.registry.replace_views(BTreeMap::from([("blue".to_owned(), Ok(definition.into()))]));
    (fixture, cluster)
}

impl Fixture {
    fn put_agent(&mut self) {
        let version = self.next_version();
        let pod = json!({"metadata": {"name": "agent-1", "namespace": "a", "uid": "uid-1", "resourceVersion": version.to_string()}});
        let record = self.pods.resource.extractor.extract(Bytes::from(pod.to_string())).unwrap();
        self.pods.store.apply(&record);
        self.pods.publish();
    }

    fn delete_agent(&mut self) {
        let version = self.next_version();
        self.pods.store.delete(&crate::model::Key::new("a", "agent-1"), crate::model::Version::new(version));
        self.pods.publish();
    }
}

const AGENT: (&str, &str) = ("authorization", "Bearer agent-1");
const VIEW: &str = "/apis/view.fieldcache.dev/v1alpha1/views/blue/proxy";

#[tokio::test(start_paused = true)]
async fn what_is_shown_by_the_claims_of_a_pod_ends_with_the_pod() {
    let (mut fixture, cluster) = with_agent();
    let list = format!("{VIEW}{ALL_SHIRTS}");
    assert_eq!(fixture.get_with(&list, &[AGENT]).await.names(), ["a/x"]);
    let mut watched = fixture.watch_with(&format!("{list}?watch=1&resourceVersion=102"), &[AGENT]).await;
    watched.expect_silence().await;
    fixture.delete_agent();
    cluster.is_revoked.store(true, Ordering::Relaxed);
    let event = watched.next().await.unwrap();
    assert_eq!((&event["type"], &event["object"]["code"]), (&json!("ERROR"), &json!(410)), "at once: {event}");
    assert!(event["object"]["message"].as_str().unwrap().contains("was deleted"), "{event}");
    // The token is still cached as valid, and does not help.
    assert_eq!(fixture.get_with(&list, &[AGENT]).await.code, 401);
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_is_newer_than_the_store_is_believed_when_the_api_server_knows_it() {
    let (mut fixture, cluster) = with_agent();
    let list = format!("{VIEW}{ALL_SHIRTS}");
    fixture.delete_agent();
    assert_eq!(fixture.get_with(&list, &[AGENT]).await.names(), ["a/x"], "its token is valid");
    cluster.is_gone.store(true, Ordering::Relaxed);
    assert_eq!(fixture.get_with(&list, &[AGENT]).await.code, 503, "and without an answer nothing is shown");
    cluster.is_gone.store(false, Ordering::Relaxed);
    advance(Duration::from_secs(11)).await;
    assert_eq!(fixture.get_with(&list, &[AGENT]).await.code, 200);
}

#[tokio::test]
async fn what_a_response_counts_as_says_nothing_of_the_length_of_what_a_view_leaves_out() {
    let part = ViewPart {
        group: "stable.example.com".to_owned(),
        resource: "shirts".to_owned(),
        prune: Prune::new([".spec.color"]).unwrap().into(),
        ..ViewPart::default()
    };
    let path = format!("/apis/view.fieldcache.dev/v1alpha1/views/v/proxy{ALL_SHIRTS}");
    let mut counted = Vec::new();
    for length in [0, 1_000, 30_000] {
        let mut fixture = Fixture::new();
        let definition = ViewDefinition { parts: vec![part.clone()], ..ViewDefinition::default() };
        fixture.registry.replace_views(BTreeMap::from([("v".to_owned(), Ok(definition.into()))]));
        fixture.put("a", "x", &"c".repeat(length));
        for number in 0..500 {
            fixture.put("a", &format!("y{number}"), "blue");
        }
        for (accept, query) in
            [("application/json;as=Table;v=v1;g=meta.k8s.io", ""), ("application/yaml", "?limit=400")]
        {
            let response = fixture.send(Method::GET, &format!("{path}{query}"), &[("accept", accept)]).await;
            counted.push((accept, response.body().most_held_bytes()));
        }
    }
    let (first, others) = counted.split_at(2);
    assert!(first.iter().all(|(_, in_memory)| in_memory.is_some_and(|bytes| bytes > 0)), "{first:?}");
    for other in others.chunks(2) {
        assert_eq!(first, other);
    }
}
