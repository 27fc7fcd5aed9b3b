//! What the audit log says of requests: user, request, View, decision and result.

#![expect(clippy::disallowed_methods, reason = "the log is a file")]

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use futures::FutureExt;
use http::Method;
use serde_json::{Value, json};

use super::admission::cluster;
use super::{ALL_SHIRTS, Fixture};
use crate::audit::{Log, Policy};
use crate::flow_control::user::User;
use crate::registry::views::{ViewDefinition, ViewPart, ViewRights};
use crate::server::Settings;
use crate::store::HistoryLimits;

const VIEW: &str = "/apis/view.fieldcache.dev/v1alpha1/views/blue/proxy";
const ALICE: (&str, &str) = ("authorization", "Bearer alice");
const MALLORY: (&str, &str) = ("authorization", "Bearer mallory");

/// A server with a log of its own.
struct Audited {
    fixture: Fixture,
    log: Arc<Log>,
    path: PathBuf,
}

impl Drop for Audited {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

impl Audited {
    fn new(name: &str, policy: Policy) -> Audited {
        let path = std::env::temp_dir().join(format!("fieldcache-audited-{name}-{}.log", std::process::id()));
        // The system gives the numbers of processes again.
        let _ = std::fs::remove_file(&path);
        Audited::with_log(Arc::new(Log::open(&path.display().to_string(), policy).unwrap()), path)
    }

    fn with_log(log: Arc<Log>, path: PathBuf) -> Audited {
        let settings = Settings { access: Some(cluster()), audit: Some(log.clone()), ..Settings::default() };
        let mut fixture = Fixture::with(settings, HistoryLimits::default());
        fixture.put("default", "x", "blue");
        let part =
            ViewPart { group: "stable.example.com".to_owned(), resource: "shirts".to_owned(), ..ViewPart::default() };
        let definition = ViewDefinition { parts: vec![part], ..ViewDefinition::default() };
        fixture.registry.replace_views(BTreeMap::from([("blue".to_owned(), Ok(definition.into()))]));
        Audited { fixture, log, path }
    }

    /// Everything that was logged so far.
    async fn events(&self) -> Vec<Value> {
        self.log.finish().await;
        let text = std::fs::read_to_string(&self.path).unwrap();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }
}

#[tokio::test]
async fn a_request_through_a_view_is_logged_with_its_attributes_and_decision() {
    let audited = Audited::new("whole", Policy::Views);
    let path = format!(
        "{VIEW}/apis/stable.example.com/v1/namespaces/default/shirts?labelSelector=tone%3Dblue&fieldSelector=spec.color%3Dblue"
    );
    let headers = [ALICE, ("user-agent", "agent/1.0"), ("x-forwarded-for", "10.1.2.3, nonsense"), ("audit-id", "a-1")];
    let answer = audited.fixture.get_with(&path, &headers).await;
    assert_eq!((answer.code.as_u16(), answer.header("audit-id")), (200, "a-1"), "{}", answer.body);
    let events = audited.events().await;
    let [event] = &events[..] else { panic!("one event: {events:?}") };
    let mut event = event.clone();
    for time in ["requestReceivedTimestamp", "stageTimestamp"] {
        assert!(event[time].take().as_str().is_some_and(|time| time.ends_with('Z')), "{time}");
    }
    let expected = json!({
        "kind": "Event", "apiVersion": "audit.k8s.io/v1", "level": "Metadata", "auditID": "a-1", "stage": "ResponseComplete",
        "requestURI": path, "verb": "list",
        "user": {"username": "alice", "groups": ["system:authenticated"]},
        "sourceIPs": ["10.1.2.3"], "userAgent": "agent/1.0",
        "objectRef": {"resource": "shirts", "namespace": "default", "apiGroup": "stable.example.com", "apiVersion": "v1"},
        "responseStatus": {"metadata": {}, "code": 200},
        "requestReceivedTimestamp": null, "stageTimestamp": null,
        "annotations": {
            "authorization.k8s.io/decision": "allow", "authorization.k8s.io/reason": "", "view.fieldcache.dev/view": "blue",
        },
    });
    assert_eq!(event, expected);
}

#[tokio::test]
async fn the_nearest_of_many_addresses_are_logged() {
    let audited = Audited::new("addresses", Policy::Views);
    let numbers = || (0..2_000).map(|number| format!("10.0.{}.{}", number / 250, number % 250));
    let named = numbers().collect::<Vec<_>>().join(",");
    let answer = audited.fixture.get_with(&format!("{VIEW}{ALL_SHIRTS}"), &[ALICE, ("x-forwarded-for", &named)]).await;
    assert_eq!(answer.code, 200, "{}", answer.body);
    let events = audited.events().await;
    let nearest: Vec<String> = numbers().skip(2_000 - 16).collect();
    assert_eq!(events[0]["sourceIPs"], json!(nearest));
}

#[tokio::test]
async fn a_long_address_is_cut() {
    let audited = Audited::new("long", Policy::Views);
    for (length, is_cut) in [(15_000, false), (40_000, true)] {
        let path = format!("{VIEW}{ALL_SHIRTS}?labelSelector=k%20in%20({})", "v,".repeat(length / 2) + "v");
        let answer = audited.fixture.get_with(&path, &[ALICE]).await;
        assert_eq!(answer.code, 200, "{}", answer.body);
        let events = audited.events().await;
        let uri = events.last().unwrap()["requestURI"].as_str().unwrap();
        assert_eq!(uri.strip_suffix("...TRUNCATED").is_some(), is_cut, "{length}");
        assert!(path.starts_with(uri.trim_end_matches("...TRUNCATED")) && uri.len() <= (16 << 10) + 12, "{length}");
    }
}

/// A user who may use a View can send more events than the log takes.
#[tokio::test]
async fn events_of_one_user_do_not_delay_those_of_others() {
    let audited = Audited::new("turns", Policy::Views);
    let path = format!("{VIEW}{ALL_SHIRTS}");
    let (server, alice) = (&audited.fixture.server, User::named("alice"));
    let mut permits = Vec::new();
    while let Some(place) = server.writing_events.acquire_one(&alice).now_or_never() {
        permits.push(place);
    }
    assert!(permits.len() > 10, "{} events of one user at a time", permits.len());
    let mut waiting = Box::pin(audited.fixture.get_with(&path, &[ALICE]));
    for number in 0..20 {
        assert!(futures::poll!(waiting.as_mut()).is_pending(), "before {number}");
        assert_eq!(audited.fixture.get_with(&path, &[("authorization", "Bearer bob")]).await.code, 200);
    }
    drop(permits);
    assert_eq!(waiting.await.code, 200);
    let events = audited.events().await;
    assert_eq!((events.len(), &events[20]["user"]["username"]), (21, &json!("alice")));
}

#[tokio::test]
async fn every_end_is_logged() {
    let audited = Audited::new("ends", Policy::Views);
    let shirt = format!("{VIEW}/apis/stable.example.com/v1/namespaces/default/shirts/none");
    let list = format!("{VIEW}{ALL_SHIRTS}");
    let bad = format!("{VIEW}{ALL_SHIRTS}?fieldSelector=spec.none%3D1");
    let discovery = format!("{VIEW}/apis");
    let missing = "/apis/view.fieldcache.dev/v1alpha1/views/green/proxy/apis".to_owned();
    let decision = "authorization.k8s.io/decision";
    type Row<'a> = (Method, &'a str, &'a [(&'a str, &'a str)], &'a str, u16, &'a str, Value, &'a str);
    let many = format!("{list}?{}", vec!["a"; 257].join("&"));
    let rows: [Row<'_>; 10] = [
        (Method::GET, &shirt, &[ALICE], "get", 404, "NotFound", json!("allow"), "alice"),
        (Method::GET, &list, &[MALLORY], "list", 403, "Forbidden", json!("forbid"), "mallory"),
        (Method::GET, &list, &[], "list", 401, "Unauthorized", Value::Null, "system:anonymous"),
        (Method::GET, &list, &[("authorization", "Bearer wrong")], "list", 401, "Unauthorized", Value::Null, ""),
        (Method::GET, &bad, &[ALICE], "list", 400, "BadRequest", json!("allow"), "alice"),
        (Method::DELETE, &list, &[ALICE], "deletecollection", 404, "", json!("allow"), "alice"),
        (Method::GET, &discovery, &[ALICE], "get", 200, "", json!("allow"), "alice"),
        (Method::GET, &list, &[ALICE, ("impersonate-user", "bob")], "list", 403, "Forbidden", Value::Null, "alice"),
        (Method::GET, &missing, &[ALICE], "get", 404, "NotFound", Value::Null, "alice"),
        (Method::GET, &many, &[ALICE], "list", 400, "BadRequest", Value::Null, ""),
    ];
    let count = rows.len();
    for (number, (method, path, headers, verb, code, reason, decided, user)) in rows.into_iter().enumerate() {
        let answer = audited.fixture.whole(method.clone(), path, headers).await;
        assert_eq!(answer.code.as_u16(), code, "{method} {path}: {}", answer.body);
        let event = audited.events().await.pop().unwrap();
        let what = format!("{method} {path} {headers:?}: {event}");
        assert_eq!(event["auditID"], answer.header("audit-id"), "{what}");
        assert_eq!(event["verb"], verb, "{what}");
        assert_eq!(event["responseStatus"]["code"], code, "{what}");
        assert_eq!(event["responseStatus"]["reason"].as_str().unwrap_or_default(), reason, "{what}");
        assert_eq!(event["annotations"][decision], decided, "{what}");
        assert_eq!(event["user"]["username"].as_str().unwrap_or_default(), user, "{what}");
        assert_eq!(audited.log.counts().written(), number as u64 + 1, "one each: {what}");
        assert!(!event.to_string().contains("Bearer"), "{what}");
    }
    assert_eq!(audited.events().await.len(), count);
}

#[tokio::test]
async fn a_watch_is_logged_at_its_begin_and_at_its_end() {
    let audited = Audited::new("watch", Policy::Views);
    let watched = audited.fixture.watch_with(&format!("{VIEW}{ALL_SHIRTS}?watch=true"), &[ALICE]).await;
    let stages = |events: &[Value]| -> Vec<(Value, Value)> {
        events.iter().map(|event| (event["stage"].clone(), event["responseStatus"]["code"].clone())).collect()
    };
    let begun = audited.events().await;
    assert_eq!(stages(&begun), [(json!("ResponseStarted"), json!(200))]);
    assert_eq!(begun[0]["verb"], "watch");
    drop(watched);
    let ended = audited.events().await;
    assert_eq!(stages(&ended)[1..], [(json!("ResponseComplete"), json!(200))]);
    assert_eq!(ended[0]["auditID"], ended[1]["auditID"]);
}

#[tokio::test]
async fn a_client_that_disconnects_before_its_response_is_logged() {
    let audited = Audited::new("gone", Policy::Views);
    {
        let list = format!("{VIEW}{ALL_SHIRTS}");
        let pending_request = audited.fixture.get_with(&list, &[ALICE, ("audit-id", "gone")]);
        let mut pending_request = std::pin::pin!(pending_request);
        // As far as its token's review, which is not answered at once.
        assert!(futures::poll!(pending_request.as_mut()).is_pending());
    }
    let events = audited.events().await;
    assert_eq!(events.len(), 1, "{events:?}");
    assert_eq!((&events[0]["auditID"], &events[0]["responseStatus"]), (&json!("gone"), &Value::Null));
}

#[tokio::test]
async fn policies_choose_requests() {
    let view = format!("{VIEW}{ALL_SHIRTS}");
    for (policy, expected) in
        [(Policy::ViewRights, &[][..]), (Policy::Views, &["blue"]), (Policy::All, &["", "blue", ""])]
    {
        let audited = Audited::new(&format!("{policy:?}"), policy);
        for path in [ALL_SHIRTS, &view, "/readyz", "/version"] {
            assert_eq!(audited.fixture.get_with(path, &[ALICE]).await.code, 200, "{path}");
        }
        let events = audited.events().await;
        let views: Vec<&str> = events
            .iter()
            .map(|event| event["annotations"]["view.fieldcache.dev/view"].as_str().unwrap_or_default())
            .collect();
        assert_eq!(views, expected, "{policy:?}: {events:?}");
    }
}

#[tokio::test]
async fn rejections_are_audited_alike_whatever_there_is_of_the_name_of_a_view() {
    let audited = Audited::new("alike", Policy::ViewRights);
    let part =
        || ViewPart { group: "stable.example.com".to_owned(), resource: "shirts".to_owned(), ..ViewPart::default() };
    let view_with = |rights| Ok(ViewDefinition { parts: vec![part()], rights, ..ViewDefinition::default() }.into());
    audited.fixture.registry.replace_views(BTreeMap::from([
        ("right".to_owned(), view_with(ViewRights::View)),
        ("caller".to_owned(), view_with(ViewRights::Caller)),
        ("broken".to_owned(), Err("a problem".to_owned())),
    ]));
    let names = ["right", "caller", "broken", "missing"];
    let rows: [(&[(&str, &str)], u16); 4] = [
        (&[MALLORY], 403),
        (&[], 401),
        (&[("authorization", "Bearer wrong")], 401),
        (&[ALICE, ("impersonate-user", "bob")], 403),
    ];
    for (headers, code) in rows {
        let mut events = Vec::new();
        for name in names {
            let path = format!("/apis/view.fieldcache.dev/v1alpha1/views/{name}/proxy{ALL_SHIRTS}");
            let answer = audited.fixture.get_with(&path, headers).await;
            assert_eq!(answer.code, code, "{name} {headers:?}: {}", answer.body);
            let mut event = audited.events().await.pop().unwrap();
            assert_eq!(event["auditID"], answer.header("audit-id"), "{name} {headers:?}: {event}");
            for key in ["auditID", "requestReceivedTimestamp", "stageTimestamp"] {
                event[key].take();
            }
            events.push(event.to_string().replace(name, "NAME"));
        }
        events.dedup();
        assert_eq!(events.len(), 1, "{headers:?}: {events:#?}");
    }
    let count = audited.events().await.len();
    assert_eq!(count, names.len() * rows.len(), "one each");
    // A caller that may use the View: only the View that is a right is audited by this policy.
    for (name, code) in [("caller", 200), ("broken", 503), ("missing", 404), ("right", 200)] {
        let path = format!("/apis/view.fieldcache.dev/v1alpha1/views/{name}/proxy{ALL_SHIRTS}");
        assert_eq!(audited.fixture.get_with(&path, &[ALICE]).await.code, code, "{name}");
    }
    let events = audited.events().await;
    assert_eq!(events.len(), count + 1, "{events:#?}");
    assert_eq!(events[count]["annotations"]["view.fieldcache.dev/view"], "right");
}

/// The queue has 1,024 places. Each was held from the decision to the response, however long that took.
#[tokio::test]
async fn requests_that_wait_hold_no_place_of_the_queue() {
    let audited = Audited::new("waiting", Policy::All);
    let ahead =
        format!("{ALL_SHIRTS}?resourceVersion={}&resourceVersionMatch=NotOlderThan", audited.fixture.version + 1);
    let mut waiting: Vec<_> = (0..1_100).map(|_| Box::pin(audited.fixture.get_with(&ahead, &[ALICE]))).collect();
    for request in &mut waiting {
        for _ in 0..8 {
            assert!(futures::poll!(request.as_mut()).is_pending(), "it waits for a version to come");
            tokio::task::yield_now().await;
        }
    }
    let answer = audited.fixture.get_with(ALL_SHIRTS, &[ALICE]).await;
    assert_eq!(answer.code, 200, "{}", answer.body);
}

#[tokio::test]
async fn a_request_whose_event_cannot_be_written_gets_503_and_nothing_else() {
    let folder = std::env::temp_dir().join(format!("fieldcache-audited-full-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).unwrap();
    let path = folder.join("audit.log");
    std::os::unix::fs::symlink("/dev/full", &path).unwrap();
    let log = Log::open(&path.display().to_string(), Policy::Views).unwrap();
    let audited = Audited::with_log(Arc::new(log.with_write_wait(std::time::Duration::from_millis(200))), path.clone());
    let view = format!("{VIEW}{ALL_SHIRTS}");
    let object = format!("{VIEW}/apis/stable.example.com/v1/namespaces/default/shirts/x");
    // The first is rejected when its write fails, the others at once.
    for path in [&view, &object, &format!("{view}?watch=true"), &format!("{VIEW}/apis")] {
        let answer = audited.fixture.get_with(path, &[ALICE]).await;
        assert_eq!(answer.code, 503, "{path}: {}", answer.body);
        assert!(answer.body.contains("audit log") && !answer.body.contains("blue\""), "{path}: {}", answer.body);
    }
    assert!(audited.log.counts().check().is_err() && audited.log.counts().refused() == 4, "{:?}", audited.log.counts());
    assert_eq!(audited.fixture.get_with(ALL_SHIRTS, &[ALICE]).await.code, 200, "what is not audited is served");
    // There is room again.
    std::fs::remove_file(&path).unwrap();
    let served = async {
        loop {
            let answer = audited.fixture.get_with(&view, &[ALICE, ("audit-id", "served")]).await;
            if answer.code == 200 {
                return;
            }
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(std::time::Duration::from_secs(60), served).await.expect("it recovers without help");
    let events = audited.events().await;
    let served: Vec<&Value> = events.iter().filter(|event| event["responseStatus"]["code"] == 200).collect();
    assert_eq!(served.len(), 1, "{events:?}");
    assert!(events.iter().filter(|event| event["responseStatus"]["code"] == 503).count() >= 4, "{events:?}");
    let _ = std::fs::remove_dir_all(&folder);
}
