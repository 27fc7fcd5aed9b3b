//! Deletions of collections: which ones fieldcache carries out object by object, and what it sends for each object.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use http::Method;
use http_body_util::{BodyExt, Full};
use serde_json::{Value, json};
use tokio::time::Instant;

use super::pass_through::{Behind, answered, before, send_with_body};
use super::{ALL_SHIRTS, Answer, Fixture, SHIRTS};
use crate::flow_control::connection::ConnectionState;
use crate::model::Version;
use crate::registry::upstream::UpstreamBody;
use crate::registry::views::{ViewDefinition, ViewPart};
use crate::server::delete_collection::MOST_OBJECTS;
use crate::server::pass_through::PassThrough;
use crate::server::state::MOST_FORWARDED;

/// The trial of a request without further parameters.
const TRIAL: &str = "fieldSelector=metadata.name%3Dfieldcache%2Cmetadata.name%21%3Dfieldcache";

/// The request for the version of the cluster.
const QUESTION: &str = "GET /apis/stable.example.com/v1/shirts?limit=1";

/// An API server that deletes everything, and is at this version.
fn api_server(version: u64) -> Arc<Behind> {
    Behind::new(move |_| answered(200, &empty_list(version)))
}

fn empty_list(version: u64) -> Value {
    json!({"kind": "ShirtList", "metadata": {"resourceVersion": version.to_string()}, "items": []})
}

/// Before such a server, with four shirts in `default` and one elsewhere.
fn fixture(behind: &Arc<Behind>, mode: PassThrough) -> Fixture {
    let mut fixture = before(behind, mode);
    for (namespace, name, color, size) in [
        ("default", "a", "blue", Some(9)),
        ("default", "b", "black", Some(10)),
        ("default", "c", "red", None),
        ("default", "d,e=f", "green", Some(200)),
        ("other", "a", "blue", Some(9)),
    ] {
        fixture.put_sized(namespace, name, color, size);
    }
    fixture
}

fn encoded(text: &str) -> String {
    text.bytes().map(|byte| format!("%{byte:02X}")).collect()
}

fn by_fields(selector: &str) -> String {
    format!("{SHIRTS}?fieldSelector={}", encoded(selector))
}

fn by_cel(expression: &str) -> String {
    format!("{SHIRTS}?celSelector={}", encoded(expression))
}

async fn delete(fixture: &Fixture, path: &str) -> Answer {
    fixture.whole(Method::DELETE, path, &[]).await
}

/// The names that were deleted, as their requests have them, sorted. Without the trial.
fn deleted(behind: &Behind) -> Vec<String> {
    let start = format!("DELETE {SHIRTS}?fieldSelector=metadata.name%3D");
    let lines = behind.lines();
    let names = lines.iter().filter(|line| !line.contains("dryRun=All")).filter_map(|line| line.strip_prefix(&start));
    let mut names: Vec<String> = names.map(|rest| rest.split('&').next().unwrap().to_owned()).collect();
    names.sort_unstable();
    names
}

#[tokio::test]
async fn what_only_fieldcache_selects_is_deleted_object_by_object() {
    for (path, expected) in [
        (by_fields("spec.color in (blue,red)"), &["a", "c"][..]),
        (by_fields("spec.color notin (blue,red)"), &["b", "d%5C%2Ce%5C%3Df"]),
        (by_fields("spec.color^=bl"), &["a", "b"]),
        (by_fields("spec.size>9"), &["b", "d%5C%2Ce%5C%3Df"]),
        (by_fields("spec.size>=9,spec.size<=10"), &["a", "b"]),
        (by_fields("!spec.size"), &["c"]),
        (by_fields("spec.color=blue,metadata.name in (a,b)"), &["a"]),
        (by_fields("spec.color in (white)"), &[]),
        (by_cel("self.spec.color == 'blue' || has(self.spec.size) && self.spec.size > 100"), &["a", "d%5C%2Ce%5C%3Df"]),
        (format!("{}&fieldSelector=spec.color%3Dblue", by_cel("self.metadata.name != 'b'")), &["a"]),
    ] {
        let behind = api_server(100);
        let fixture = fixture(&behind, PassThrough::All);
        let answer = delete(&fixture, &path).await;
        assert_eq!(answer.code, 200, "{path}: {}", answer.body);
        assert_eq!(deleted(&behind), expected, "{path}");
        let list = answer.json();
        assert_eq!((&list["kind"], &list["apiVersion"]), (&json!("ShirtList"), &json!("stable.example.com/v1")));
        assert_eq!(list["metadata"]["resourceVersion"], "105");
        let names: Vec<String> = answer.names().iter().map(|name| encoded_name(name)).collect();
        assert_eq!(names, expected, "{path}: the list has what was deleted");
        assert_eq!(answer.header("fieldcache-read"), "own");
        let lines = behind.lines();
        assert_eq!(lines[0], format!("DELETE {SHIRTS}?{TRIAL}&dryRun=All"), "the permission comes first");
        assert_eq!(lines[1], QUESTION, "then the state must be new enough");
        let is_recorded = lines.last().is_some_and(|line| line == QUESTION) && lines.len() > 2;
        assert_eq!(is_recorded, !expected.is_empty(), "later reads wait for the deletions");
    }
}

/// The name of `NAMESPACE/NAME`, as the field selector in a URL has it.
fn encoded_name(key: &str) -> String {
    let name = key.split_once('/').unwrap().1;
    name.replace(',', "%5C%2C").replace('=', "%5C%3D")
}

#[tokio::test]
async fn what_kube_apiserver_selects_is_forwarded_unchanged() {
    let many = vec!["spec.color!=x"; 1_100].join(",");
    for path in [
        SHIRTS.to_owned(),
        by_fields("spec.color=blue"),
        by_fields("spec.color==blue,metadata.name!=a"),
        by_fields("spec.unknown=a"),
        by_fields(&many),
        format!("{SHIRTS}?fieldSelector="),
        format!("{SHIRTS}?labelSelector=tone+in+(a,b)&limit=5"),
        format!("{SHIRTS}?labelSelector=%3D%3D"),
        format!("{SHIRTS}?shardSelector=x"),
        // In all namespaces, it answers as to every such deletion.
        format!("{ALL_SHIRTS}?fieldSelector={}", encoded("spec.color in (blue,red)")),
        // It does not serve this one, so it has the error.
        format!("/api/v1/namespaces/default/secrets?fieldSelector={}", encoded("type in (a,b)")),
    ] {
        let behind = Behind::teapot();
        let fixture = fixture(&behind, PassThrough::All);
        let answer = delete(&fixture, &path).await;
        assert_eq!(answer.code, 418, "{path}: {}", answer.body);
        assert_eq!(behind.lines(), [format!("DELETE {path}")], "as it was sent");
    }
}

#[tokio::test]
async fn parameters_that_the_api_server_would_ignore_are_rejected_where_they_are_forwarded() {
    for (path, says) in [
        (format!("{ALL_SHIRTS}?celSelector=true"), "celSelector is only supported in lists, watches and deletions"),
        ("/api/v1/namespaces/default/secrets?celSelector=true".to_owned(), "celSelector is only supported in lists"),
        (format!("{SHIRTS}?sortBy=metadata.name&limit=1"), "sortBy is only supported in lists"),
        (format!("{}&sortBy=metadata.name", by_cel("true")), "sortBy is only allowed in lists"),
    ] {
        let behind = api_server(100);
        let answer = delete(&fixture(&behind, PassThrough::All), &path).await;
        assert_eq!(answer.code, 400, "{path}");
        assert!(answer.message().contains(says), "{path}: {}", answer.message());
        assert!(behind.lines().is_empty(), "{path}: {:?}", behind.lines());
    }
}

#[tokio::test]
async fn without_forwarding_the_error_stays() {
    let selected = [by_fields("spec.color in (blue,red)"), by_cel("true")];
    for mode in [PassThrough::Off, PassThrough::Read] {
        for path in &selected {
            let behind = api_server(100);
            let answer = delete(&fixture(&behind, mode), path).await;
            assert_eq!(answer.code, 405, "{mode:?} {path}");
            assert!(answer.message().starts_with("deletecollection is not supported"), "{}", answer.message());
            assert!(behind.lines().is_empty(), "{mode:?} {path}");
        }
    }
    let behind = api_server(100);
    let fixture = fixture(&behind, PassThrough::All);
    let part = ViewPart {
        group: "stable.example.com".to_owned(),
        resource: "shirts".to_owned(),
        namespaces: vec!["default".to_owned()].into(),
        ..ViewPart::default()
    };
    let definition = ViewDefinition { parts: vec![part], ..ViewDefinition::default() };
    fixture.registry.replace_views(BTreeMap::from([("all".to_owned(), Ok(definition.into()))]));
    for path in &selected {
        let inside = format!("/apis/view.fieldcache.dev/v1alpha1/views/all/proxy{path}");
        assert_eq!(fixture.get(&inside).await.names().len(), 4 - 2 * usize::from(path.contains("fieldSelector")));
        assert_eq!(delete(&fixture, &inside).await.code, 405, "a View is read-only");
    }
    assert!(behind.lines().is_empty());
}

#[tokio::test]
async fn each_deletion_has_the_parameters_the_headers_and_the_body_of_the_request() {
    let behind = api_server(100);
    let fixture = fixture(&behind, PassThrough::All);
    let further = "labelSelector=!tone&propagationPolicy=Orphan&dryRun=All&limit=3&resourceVersion=0&pretty=1";
    let path = format!("{}&{further}", by_cel("self.metadata.name == 'a'"));
    let sent = [
        ("content-type", "application/yaml"),
        ("accept", "application/yaml"),
        ("accept-encoding", "gzip"),
        ("authorization", "Bearer secret"),
        ("user-agent", "kubectl/v1.36"),
    ];
    let answer = send_with_body(&fixture, "DELETE", &path, &sent, "kind: DeleteOptions").await;
    assert_eq!(answer.code, 200, "{}", answer.body);
    assert!(answer.header("content-type").starts_with("application/yaml"), "{:?}", answer.headers);
    assert!(answer.body.contains("kind: ShirtList"), "{}", answer.body);
    let kept = "labelSelector=%21tone&propagationPolicy=Orphan&dryRun=All&pretty=1";
    let seen = behind.all();
    let [trial, deletion] = &seen[..] else { panic!("{:?}: a dry run deletes nothing", behind.lines()) };
    // kube-apiserver does not read options beside a body, so the trial without one has none of them.
    assert_eq!(trial.line, format!("DELETE {SHIRTS}?{TRIAL}&labelSelector=%21tone&pretty=1&dryRun=All"));
    assert_eq!(deletion.line, format!("DELETE {SHIRTS}?fieldSelector=metadata.name%3Da&{kept}"));
    assert_eq!((&*trial.body, &*deletion.body), (&b""[..], &b"kind: DeleteOptions"[..]));
    let names = |headers: &http::HeaderMap| {
        let mut names: Vec<String> = headers.keys().map(ToString::to_string).collect();
        names.sort_unstable();
        names
    };
    assert_eq!(names(&trial.headers), ["accept", "user-agent"]);
    assert_eq!(names(&deletion.headers), ["accept", "content-type", "user-agent"]);
    assert_eq!(deletion.headers["content-type"], "application/yaml");
    assert!(deletion.headers["accept"].to_str().unwrap().ends_with(",application/json"), "an error is a Status");

    // Without a body, the options are in the query, and the trial has them too.
    delete(&fixture, &format!("{}&gracePeriodSeconds=x", by_cel("self.metadata.name == 'a'"))).await;
    assert_eq!(behind.all()[2].line, format!("DELETE {SHIRTS}?{TRIAL}&gracePeriodSeconds=x&dryRun=All"));
}

#[tokio::test]
async fn without_the_permission_nothing_is_selected() {
    let status = json!({"kind": "Status", "status": "Failure", "message": "no", "code": 403});
    let expected = status.clone();
    let behind = Behind::new(move |_| answered(403, &status));
    let fixture = fixture(&behind, PassThrough::All);
    for path in [by_cel("true"), by_fields("spec.color in (white)"), by_fields("spec.color>5")] {
        let answer = delete(&fixture, &path).await;
        assert_eq!((answer.code.as_u16(), answer.json()), (403, expected.clone()), "{path}");
        assert_eq!(answer.header("fieldcache-read"), "forwarded");
    }
    assert_eq!(behind.lines().len(), 3, "three trials: {:?}", behind.lines());
}

#[tokio::test]
async fn invalid_selectors_have_the_error_of_a_list() {
    for path in [
        by_fields("spec.color>5"),
        by_fields("spec.size>x"),
        by_fields("spec.unknown in (a)"),
        by_fields("spec.color=a=b"),
        by_cel("self.spec.nope == 1"),
        by_cel("self."),
        format!("{}&labelSelector=%3D%3D", by_cel("true")),
        format!("{}&limit=x", by_cel("true")),
        format!("{}&continue=x", by_cel("true")),
        format!("{}&resourceVersionMatch=Exact", by_cel("true")),
    ] {
        let behind = api_server(100);
        let fixture = fixture(&behind, PassThrough::All);
        let (list, deletion) = (fixture.get(&path).await, delete(&fixture, &path).await);
        assert!(list.code.is_client_error(), "{path}");
        assert_eq!((deletion.code, deletion.json()), (list.code, list.json()), "{path}");
        assert!(deleted(&behind).is_empty(), "{path}: {:?}", behind.lines());
    }
}

#[tokio::test]
async fn the_list_has_the_format_that_the_client_accepts() {
    for (accept, kind, code) in [
        ("application/json", "application/json", 200),
        ("application/yaml", "application/yaml", 200),
        ("application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1", "application/json", 200),
        ("application/json;as=Table;g=meta.k8s.io;v=v1", "application/json", 200),
        ("application/vnd.kubernetes.protobuf;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1", "protobuf", 200),
        ("application/vnd.kubernetes.protobuf, */*", "application/json", 200),
        ("application/vnd.kubernetes.protobuf", "application/vnd.kubernetes.protobuf", 406),
        ("text/html", "application/json", 406),
        ("application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1", "application/json", 406),
    ] {
        let behind = api_server(100);
        let fixture = fixture(&behind, PassThrough::All);
        let answer = fixture.whole(Method::DELETE, &by_fields("spec.color in (blue,red)"), &[("accept", accept)]).await;
        assert_eq!(answer.code, code, "{accept}: {}", answer.body);
        assert!(answer.header("content-type").contains(kind), "{accept}: {:?}", answer.headers);
        assert_eq!(deleted(&behind).len(), if code == 200 { 2 } else { 0 }, "{accept}");
    }
    let behind = api_server(100);
    let mut fixture = fixture(&behind, PassThrough::All);
    fixture.put_pod("default", "p");
    let accept = [("accept", "application/vnd.kubernetes.protobuf")];
    let pods = format!("/api/v1/namespaces/default/pods?fieldSelector={}", encoded("spec.nodeName^=n"));
    let answer = fixture.whole(Method::DELETE, &pods, &accept).await;
    assert_eq!((answer.code.as_u16(), answer.header("content-type")), (200, "application/vnd.kubernetes.protobuf"));
    let line = "DELETE /api/v1/namespaces/default/pods?fieldSelector=metadata.name%3Dp";
    assert!(behind.lines().contains(&line.to_owned()), "{:?}", behind.lines());
}

#[tokio::test]
async fn a_limit_deletes_one_page() {
    let behind = api_server(100);
    let fixture = fixture(&behind, PassThrough::All);
    let page = delete(&fixture, &format!("{}&limit=3", by_cel("true"))).await.json();
    assert_eq!(deleted(&behind), ["a", "b", "c"]);
    assert_eq!(page["metadata"]["remainingItemCount"], 1);
    let next = page["metadata"]["continue"].as_str().unwrap();
    let rest = delete(&fixture, &format!("{}&limit=3&continue={next}", by_cel("true"))).await;
    assert_eq!(rest.names(), ["default/d,e=f"]);
    assert_eq!(deleted(&behind).len(), 4);
}

#[tokio::test]
async fn so_many_objects_are_deleted_at_once_and_no_more() {
    let behind = api_server(100);
    let mut fixture = before(&behind, PassThrough::All);
    for index in 0..MOST_OBJECTS {
        fixture.put_without_publishing("default", &format!("s{index}"), "blue");
    }
    fixture.shirts.publish();
    let path = by_fields("spec.color^=b");
    let answer = delete(&fixture, &path).await;
    assert_eq!((answer.code.as_u16(), deleted(&behind).len()), (200, MOST_OBJECTS), "as many as permitted");

    fixture.put("default", "more", "blue");
    let message = "the selectors select 10001 objects, and one request deletes at most 10000: delete them in several \
                   requests with limit=10000, or narrow the selectors";
    for limit in ["", "&limit=20000"] {
        let answer = delete(&fixture, &format!("{path}{limit}")).await;
        assert_eq!((answer.code.as_u16(), &*answer.message()), (400, message), "{limit}");
        assert_eq!(deleted(&behind).len(), MOST_OBJECTS, "{limit}: nothing more is deleted");
    }
    let answer = delete(&fixture, &format!("{path}&limit={MOST_OBJECTS}")).await;
    assert_eq!((answer.code.as_u16(), deleted(&behind).len()), (200, 2 * MOST_OBJECTS), "the remedy");
}

#[tokio::test]
async fn the_first_error_ends_the_request() {
    let behind = Behind::new(|seen| match seen.line.contains("metadata.name%3Db") {
        true => answered(422, &json!({"kind": "Status", "message": "denied", "code": 422})),
        false => answered(200, &empty_list(170)),
    });
    let mut fixture = fixture(&behind, PassThrough::All);
    for index in 0..100 {
        fixture.put_sized("default", &format!("z{index}"), "blue", None);
    }
    fixture.next_version();
    fixture.shirts.store.delete(&crate::model::Key::new("other", "a"), Version::new(200));
    fixture.shirts.publish();
    let answer = delete(&fixture, &by_cel("true")).await;
    assert_eq!((answer.code.as_u16(), &*answer.message()), (422, "denied"));
    assert!(deleted(&behind).len() < 10, "{:?}", deleted(&behind));
    assert_eq!(fixture.shirts.resource.state.last_written(), Version::new(170), "some objects are deleted");
}

#[tokio::test]
async fn an_api_server_that_ignores_the_selector_deletes_nothing() {
    for body in [json!({"items": [{"metadata": {"name": "a"}}]}).to_string(), "no JSON".to_owned()] {
        let behind = Behind::new(move |_| {
            let body = UpstreamBody::new(Full::from(body.clone()).map_err(|never| match never {}));
            Ok(http::Response::new(body))
        });
        let answer = delete(&fixture(&behind, PassThrough::All), &by_cel("true")).await;
        assert_eq!(answer.code, 500);
        assert!(answer.message().contains("ignores the field selector"), "{}", answer.message());
        assert_eq!(behind.lines(), [format!("DELETE {SHIRTS}?{TRIAL}&dryRun=All")]);
    }
}

#[tokio::test(start_paused = true)]
async fn only_the_newest_state_is_deleted_from() {
    let behind = api_server(150);
    let fixture = fixture(&behind, PassThrough::All);
    let eventual = [("fieldcache-consistency", "Eventual")];
    let answer = fixture.whole(Method::DELETE, &by_cel("true"), &eventual).await;
    assert_eq!(answer.code, 504, "the store has not reached the version of the source: {}", answer.body);
    assert!(deleted(&behind).is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_client_that_goes_ends_the_deletions() {
    let behind = Behind::slow(Duration::from_secs(1), |_| answered(200, &empty_list(100)));
    let fixture = fixture(&behind, PassThrough::All);
    let path = by_cel("true");
    let deletion = delete(&fixture, &path);
    assert!(tokio::time::timeout(Duration::from_millis(2_500), deletion).await.is_err());
    assert_eq!(behind.given_up.load(Ordering::Relaxed), 4, "those that were being deleted");
    assert!(deleted(&behind).is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_deletion_that_takes_too_long_says_how_far_it_is() {
    let behind = Behind::slow(Duration::from_secs(2), |_| answered(200, &empty_list(100)));
    let mut fixture = fixture(&behind, PassThrough::All);
    fixture.put_sized("default", "g", "blue", None);
    let begun = Instant::now();
    let answer = delete(&fixture, &format!("{}&timeout=7s", by_cel("true"))).await;
    assert_eq!(answer.code, 503);
    assert_eq!(
        answer.message(),
        "4 of 5 selected objects are deleted: send the request again to delete the others; the cause: the API server did \
         not respond to this forwarded request in time"
    );
    assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
}

#[tokio::test]
async fn objects_for_which_the_expression_fails_stay() {
    let behind = api_server(100);
    let answer = delete(&fixture(&behind, PassThrough::All), &by_cel("self.spec.size + 1 > 10")).await;
    assert_eq!(deleted(&behind), ["b", "d%5C%2Ce%5C%3Df"]);
    assert!(answer.header("warning").contains("celSelector failed for 1 of"), "{:?}", answer.headers);
}

#[tokio::test]
async fn deletions_count_as_forwarded_requests() {
    let behind = api_server(100);
    let fixture = fixture(&behind, PassThrough::All);
    let forwarding = &fixture.server.state.forwarding;
    let share = forwarding.take(ConnectionState::default().user(), MOST_FORWARDED / 2).unwrap();
    let refused = delete(&fixture, &by_cel("true")).await;
    assert_eq!((refused.code.as_u16(), refused.header("retry-after")), (429, "1"));
    assert!(behind.lines().is_empty());
    drop(share);
    assert_eq!(delete(&fixture, &by_cel("true")).await.code, 200);
    assert_eq!(forwarding.total(), 0, "free again");
}
