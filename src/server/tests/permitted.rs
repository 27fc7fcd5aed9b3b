//! Views that show the namespaces in which the caller has the permission: what each caller sees, and how a change of its
//! permissions ends what began before.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use futures::future::BoxFuture;
use http::{Method, Request, Response};
use http_body_util::{BodyExt, Full};
use serde_json::{Value, json};
use tokio::time::{Instant, advance, sleep};

use super::{ALL_SHIRTS, Answer, Fixture, Stored, Watched, catalog, pods};
use crate::access::{AccessControl, AccessSettings};
use crate::model::{Gvr, Key, Scope, Version};
use crate::registry::upstream::{Upstream, UpstreamBody};
use crate::registry::view_namespaces::ViewNamespaces;
use crate::registry::views::{ViewDefinition, ViewPart, ViewRights};
use crate::registry::{ApiGroup, Catalog, LoadState, Resource};
use crate::server::Settings;
use crate::server::permitted_caller::MOST_CANDIDATES;
use crate::store::{HistoryLimits, Store};

const VIEW: &str = "/apis/view.fieldcache.dev/v1alpha1/views/own/proxy";

/// An API server that reviews permissions. A permission is `USER VERB RESOURCE NAMESPACE`, with `*` for all namespaces.
#[derive(Debug, Default)]
struct Reviews {
    granted: Mutex<BTreeSet<String>>,
    /// Reviews of permissions in single namespaces.
    single: AtomicUsize,
    /// Whether it does not review permissions any more.
    is_gone: AtomicBool,
}

impl Reviews {
    fn grant(&self, permission: &str) {
        self.granted.lock().unwrap().insert(permission.to_owned());
    }

    fn revoke(&self, permission: &str) {
        self.granted.lock().unwrap().remove(permission);
    }

    /// The number of reviews of permissions in single namespaces since the last call.
    fn take_single(&self) -> usize {
        self.single.swap(0, Ordering::Relaxed)
    }
}

impl Upstream for Reviews {
    fn send(&self, request: Request<UpstreamBody>) -> BoxFuture<'_, Result<Response<UpstreamBody>, String>> {
        Box::pin(async move {
            tokio::task::yield_now().await;
            let is_token = request.uri().path().ends_with("tokenreviews");
            if !is_token && self.is_gone.load(Ordering::Relaxed) {
                return Err("connection refused".to_owned());
            }
            let body = request.into_body().collect().await.unwrap().to_bytes();
            let spec = serde_json::from_slice::<Value>(&body).unwrap()["spec"].take();
            let (kind, status) = if is_token {
                let user = spec["token"].as_str().unwrap();
                let groups: &[&str] = if user == "member" { &["team"] } else { &[] };
                let user = json!({"username": user, "groups": groups});
                ("TokenReview", json!({"authenticated": true, "user": user, "audiences": spec["audiences"]}))
            } else {
                let about = &spec["resourceAttributes"];
                let text = |key: &str| about[key].as_str().unwrap_or_default();
                let namespace = if text("namespace").is_empty() { "*" } else { text("namespace") };
                self.single.fetch_add(usize::from(namespace != "*"), Ordering::Relaxed);
                let user = spec["user"].as_str().unwrap();
                let permission = |namespace| format!("{user} {} {} {namespace}", text("verb"), text("resource"));
                let granted = self.granted.lock().unwrap();
                let is_allowed = granted.contains(&permission(namespace)) || granted.contains(&permission("*"));
                ("SubjectAccessReview", json!({"allowed": is_allowed}))
            };
            let answer = json!({"kind": kind, "status": status}).to_string();
            Ok(Response::new(Full::new(Bytes::from(answer)).map_err(|never| match never {}).boxed_unsync()))
        })
    }
}

/// Shirts in the namespaces `a`, `a-b` and `ab`, and a View of those in which the caller has the permission.
struct Cluster {
    fixture: Fixture,
    bindings: Stored,
    namespaces: Stored,
    reviews: Arc<Reviews>,
}

const SA: &str = "system:serviceaccount:ns:robot";

fn subject(kind: &str, name: &str) -> Value {
    json!([{"kind": kind, "apiGroup": "rbac.authorization.k8s.io", "name": name}])
}

impl Cluster {
    fn new() -> Cluster {
        Cluster::with(HistoryLimits::default())
    }

    /// `limits` are those of the history of RoleBindings.
    fn with(limits: HistoryLimits) -> Cluster {
        let reviews = Arc::new(Reviews::default());
        let access = AccessControl::new(reviews.clone(), AccessSettings::default()).unwrap();
        let fixture = Fixture::with_shirts(Settings { access: Some(Arc::new(access)), ..Settings::default() });
        let of_kind = |group: &str, plural: &str, kind: &str, scope| Resource {
            gvr: Gvr::new(group, "v1", plural),
            kind: kind.to_owned(),
            list_kind: format!("{kind}List"),
            singular: kind.to_lowercase(),
            scope,
            extractor: crate::builtin::extractor(group, "v1", kind),
            ..pods()
        };
        let bindings = of_kind("rbac.authorization.k8s.io", "rolebindings", "RoleBinding", Scope::Namespaced);
        let mut bindings = Stored::new(bindings, limits);
        let namespaces = of_kind("", "namespaces", "Namespace", Scope::Cluster);
        let mut namespaces = Stored::new(namespaces, HistoryLimits::default());
        bindings.store.replace(&[], Version::new(100));
        namespaces.store.replace(&[], Version::new(100));
        let mut cluster = Cluster { fixture, bindings, namespaces, reviews };
        for name in ["a", "a-b", "ab"] {
            cluster.put_namespace(name);
        }
        cluster.bind("a", "group", &subject("Group", "team"));
        cluster.bind("a-b", "user", &subject("User", "member"));
        cluster.bind("ab", "role-of-something-else", &subject("User", "member"));
        cluster.bind("a", "robot", &json!([{"kind": "ServiceAccount", "name": "robot", "namespace": "ns"}]));
        cluster.bind("ab", "robot", &json!([{"kind": "ServiceAccount", "name": "robot", "namespace": "other"}]));
        for namespace in ["a", "a-b"] {
            for verb in ["list", "watch", "get"] {
                cluster.reviews.grant(&format!("member {verb} shirts {namespace}"));
            }
            cluster.reviews.grant(&format!("member get namespaces {namespace}"));
        }
        for verb in ["list", "watch", "get"] {
            cluster.reviews.grant(&format!("admin {verb} shirts *"));
            cluster.reviews.grant(&format!("admin {verb} namespaces *"));
            cluster.reviews.grant(&format!("{SA} {verb} shirts a"));
            // Without a RoleBinding that names it, as another authorizer may grant it.
            cluster.reviews.grant(&format!("{SA} {verb} shirts ab"));
        }
        // The stores are as new as the last RoleBinding.
        cluster.put_namespace("a");
        cluster.fixture.put("a-b", "newest", "blue");
        cluster.fixture.delete("a-b", "newest");
        cluster.fixture.registry.replace(cluster.catalog(true), |_| None);
        cluster.serve(ViewRights::Caller);
        cluster
    }

    fn catalog(&self, with_bindings: bool) -> Catalog {
        let Fixture { shirts, hats, pods, .. } = &self.fixture;
        let mut stored = vec![shirts, hats, pods, &self.namespaces];
        stored.extend(with_bindings.then_some(&self.bindings));
        let mut all = catalog(&stored);
        let group = ApiGroup { name: "rbac.authorization.k8s.io".to_owned(), versions: vec!["v1".to_owned()] };
        let groups = all.groups.iter().cloned().chain([group]).collect();
        all = Catalog::new(groups, stored.iter().map(|stored| stored.resource.clone()), all.version.clone());
        all
    }

    fn serve(&self, rights: ViewRights) {
        let part = |group: &str, resource: &str| ViewPart {
            group: group.to_owned(),
            resource: resource.to_owned(),
            namespaces: ViewNamespaces::Permitted,
            ..ViewPart::default()
        };
        let parts = vec![part("stable.example.com", "shirts"), part("", "namespaces")];
        let definition = Arc::new(ViewDefinition { parts, rights, ..ViewDefinition::default() });
        self.fixture.registry.replace_views(BTreeMap::from([("own".to_owned(), Ok(definition))]));
    }

    fn put_namespace(&mut self, name: &str) {
        let version = self.fixture.next_version();
        let object = json!({"metadata": {"name": name, "resourceVersion": version.to_string()}});
        let record = self.namespaces.resource.extractor.extract(Bytes::from(object.to_string())).unwrap();
        self.namespaces.store.apply(&record);
        self.namespaces.publish();
    }

    fn bind_without_publishing(&mut self, namespace: &str, name: &str, subjects: &Value) {
        let version = self.fixture.next_version();
        let object = json!({
            "metadata": {"name": name, "namespace": namespace, "resourceVersion": version.to_string()},
            "subjects": subjects,
        });
        let record = self.bindings.resource.extractor.extract(Bytes::from(object.to_string())).unwrap();
        self.bindings.store.apply(&record);
    }

    /// Puts a RoleBinding.
    fn bind(&mut self, namespace: &str, name: &str, subjects: &Value) {
        self.bind_without_publishing(namespace, name, subjects);
        self.bindings.publish();
    }

    fn unbind(&mut self, namespace: &str, name: &str) {
        let version = self.fixture.next_version();
        self.bindings.store.delete(&Key::new(namespace, name), Version::new(version));
        self.bindings.publish();
    }

    async fn get(&self, user: &str, path: &str) -> Answer {
        let bearer = format!("Bearer {user}");
        self.fixture.get_with(path, &[("authorization", &bearer)]).await
    }

    /// The namespaces of the shirts that a list shows, each once; or its status code.
    async fn shown(&self, user: &str) -> String {
        let list = self.get(user, &format!("{VIEW}{ALL_SHIRTS}")).await;
        if list.code != 200 {
            return list.code.as_str().to_owned();
        }
        let names = list.names();
        let mut namespaces: Vec<&str> = names.iter().map(|name| name.split_once('/').unwrap().0).collect();
        namespaces.sort_unstable();
        namespaces.dedup();
        namespaces.join(",")
    }

    /// The version of a list through the View.
    async fn version(&self, user: &str) -> String {
        let list = self.get(user, &format!("{VIEW}{ALL_SHIRTS}?limit=1")).await.json();
        list["metadata"]["resourceVersion"].as_str().unwrap().to_owned()
    }

    async fn watch(&self, user: &str, version: &str) -> Watched {
        let path = format!("{VIEW}{ALL_SHIRTS}?watch=1&resourceVersion={version}");
        let bearer = format!("Bearer {user}");
        self.fixture.watch_with(&path, &[("authorization", &bearer)]).await
    }
}

#[track_caller]
fn assert_expired(event: Option<&Value>, reason: &str) {
    let is_expired = event.is_some_and(|event| {
        event["type"] == "ERROR"
            && event["object"]["code"] == 410
            && event["object"]["message"].as_str().is_some_and(|message| message.contains(reason))
    });
    assert!(is_expired, "{event:?}");
}

const CHANGED: &str = "the permissions of the caller changed";

#[tokio::test(start_paused = true)]
async fn each_caller_sees_the_namespaces_in_which_it_has_the_permission() {
    let cluster = Cluster::new();
    for (user, expected, why) in [
        ("admin", "a,a-b,ab", "the permission in all namespaces"),
        ("member", "a,a-b", "by its group and by its name; another RoleBinding does not permit to list shirts"),
        (SA, "a", "a ServiceAccount; another namespace has a RoleBinding for one of the same name"),
        ("nobody", "403", "no permission"),
    ] {
        assert_eq!(cluster.shown(user).await, expected, "{why}");
    }
    let within = |namespace: &str| format!("{VIEW}/apis/stable.example.com/v1/namespaces/{namespace}/shirts");
    assert_eq!(cluster.get("member", &within("a")).await.names().len(), 3, "a namespace by name");
    assert_eq!(cluster.get("member", &within("ab")).await.code, 403, "needs the permission there");
    assert_eq!(cluster.get(SA, &within("ab")).await.names().len(), 3, "and nothing else");
    assert_eq!(cluster.get("member", &format!("{}/x", within("a"))).await.code, 200, "an object");
    assert_eq!(cluster.get("member", &format!("{}/x", within("ab"))).await.code, 403, "an object elsewhere");
    for (query, expected) in [
        ("?fieldSelector=metadata.namespace%3Dab", 0),
        ("?fieldSelector=metadata.namespace!%3Da", 3),
        ("?fieldSelector=metadata.name%3Dx", 2),
        ("?labelSelector=tone%3Dblue", 4),
        ("?limit=4", 4),
    ] {
        assert_eq!(
            cluster.get("member", &format!("{VIEW}{ALL_SHIRTS}{query}")).await.names().len(),
            expected,
            "{query}"
        );
    }
    let one = cluster.get("member", &format!("{VIEW}{ALL_SHIRTS}?limit=1")).await.json();
    assert_eq!(one["metadata"]["remainingItemCount"], 5, "what remains is counted in them");
    let initial =
        format!("{VIEW}{ALL_SHIRTS}?watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&timeoutSeconds=1");
    let events = cluster.get("member", &initial).await.body;
    assert_eq!((events.matches("ADDED").count(), events.contains("\"ab\"")), (6, false), "{events}");
}

#[tokio::test(start_paused = true)]
async fn of_namespaces_those_are_shown_that_the_caller_may_get() {
    let cluster = Cluster::new();
    let path = format!("{VIEW}/api/v1/namespaces");
    assert_eq!(cluster.get("admin", &path).await.names(), ["a", "a-b", "ab"]);
    assert_eq!(cluster.get("member", &path).await.names(), ["a", "a-b"]);
    assert_eq!(cluster.get(SA, &path).await.code, 403, "no Namespace may be read");
    assert_eq!(cluster.get("member", &format!("{path}/a-b")).await.code, 200);
    assert_eq!(cluster.get("member", &format!("{path}/ab")).await.code, 403);
    let watch = cluster.get("member", &format!("{path}?watch=1&resourceVersion=0&timeoutSeconds=1")).await;
    let watch = format!("{} {}", watch.code, watch.body);
    assert_eq!((watch.matches("ADDED").count(), watch.contains("\"ab\"")), (2, false), "{watch}");
}

#[tokio::test(start_paused = true)]
async fn a_caller_without_a_permitted_namespace_gets_the_rejection_of_a_missing_view() {
    let mut cluster = Cluster::new();
    cluster.bind("ab", "unrelated", &subject("User", "bound"));
    for user in ["nobody", "bound"] {
        for query in ["", "?watch=1", "?limit=1&labelSelector=tone%3Dblue"] {
            let own = cluster.get(user, &format!("{VIEW}{ALL_SHIRTS}{query}")).await;
            let missing = cluster.get(user, &format!("{VIEW}{ALL_SHIRTS}{query}").replace("/own/", "/own2/")).await;
            assert_eq!((own.code.as_u16(), missing.code.as_u16()), (403, 403), "{user} {query}");
            assert_eq!(own.message(), missing.message().replace("own2", "own"), "{user} {query}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_changed_role_binding_ends_the_watches_of_the_caller_and_of_no_other() {
    // Which RoleBinding changes, and what a list shows afterwards.
    for (is_added, expected) in [(true, "a,a-b,ab"), (false, "a-b")] {
        let mut cluster = Cluster::new();
        let before = cluster.version("member").await;
        let mut watch = cluster.watch("member", &before).await;
        let mut others = [cluster.watch("admin", &before).await, cluster.watch(SA, &before).await];
        cluster.bind("ab", "of-another", &subject("User", "somebody"));
        cluster.bind("ab", "of-a-group-of-this-name", &subject("Group", "member"));
        cluster.fixture.put("a", "seen", "blue");
        for watch in [&mut watch].into_iter().chain(&mut others) {
            let event = watch.next().await.unwrap();
            assert_eq!(event["object"]["metadata"]["name"], "seen", "nothing has changed for it: {event}");
        }
        advance(Duration::from_secs(2)).await;
        if is_added {
            for verb in ["list", "watch"] {
                cluster.reviews.grant(&format!("member {verb} shirts ab"));
            }
            cluster.bind("ab", "new", &subject("Group", "team"));
        } else {
            for verb in ["list", "watch"] {
                cluster.reviews.revoke(&format!("member {verb} shirts a"));
            }
            cluster.unbind("a", "group");
        }
        let begun = Instant::now();
        assert_expired(watch.next().await.as_ref(), CHANGED);
        assert!(begun.elapsed() < Duration::from_secs(2), "{:?}", begun.elapsed());
        watch.expect_end("after 410").await;
        cluster.fixture.put("b", "later", "blue");
        assert_eq!(cluster.shown("member").await, expected);
        let mut resumed = cluster.watch("member", &before).await;
        assert_expired(resumed.next().await.as_ref(), &format!("too old resource version: {before} ("));
        let mut next = cluster.watch("member", &cluster.version("member").await).await;
        cluster.fixture.put("a-b", "later", "blue");
        assert_eq!(next.next().await.unwrap()["object"]["metadata"]["name"], "later", "a client that has listed again");
        for watch in &mut others {
            while let Some(event) = watch.next().await {
                assert_ne!(event["type"], "ERROR", "{event}");
                if event["object"]["metadata"]["name"] == "later" {
                    break;
                }
            }
        }
    }
}

/// kube-apiserver's authorizer can see a RoleBinding later than the store, and a Role can be created after it.
/// A client that reads slowly has events to read at any time. The watch reviews what has changed before it sends them.
#[tokio::test(start_paused = true)]
async fn a_watch_sends_no_event_of_a_namespace_whose_role_binding_is_gone() {
    let mut cluster = Cluster::new();
    for namespace in ["a", "b"] {
        cluster.bind(namespace, "late", &subject("User", "late"));
        for verb in ["list", "watch"] {
            cluster.reviews.grant(&format!("late {verb} shirts {namespace}"));
        }
    }
    let version = cluster.version("late").await;
    let mut watch = cluster.watch("late", &version).await;
    cluster.fixture.put("b", "first", "blue");
    assert_eq!(watch.next().await.unwrap()["object"]["metadata"]["name"], "first");
    cluster.unbind("b", "late");
    cluster.fixture.put("b", "second", "blue");
    cluster.fixture.put("a", "third", "blue");
    assert_expired(watch.next().await.as_ref(), CHANGED);
    assert_eq!(watch.next().await, None);
}

/// A cluster, and a watch of the user `busy`, who has the permission in the namespace `a`.
async fn watched_by_busy() -> (Cluster, Watched) {
    let mut cluster = Cluster::new();
    cluster.bind("a", "own", &subject("User", "busy"));
    for verb in ["list", "watch"] {
        cluster.reviews.grant(&format!("busy {verb} shirts a"));
    }
    let version = cluster.version("busy").await;
    let watch = cluster.watch("busy", &version).await;
    (cluster, watch)
}

/// Someone who changes RoleBindings of the caller all the time could otherwise hold the watches of the caller for ever.
#[tokio::test(start_paused = true)]
async fn a_watch_sends_events_while_role_bindings_change_all_the_time() {
    let (mut cluster, mut watch) = Box::pin(watched_by_busy()).await;
    let mut held = Vec::new();
    for number in 0..40 {
        // The caller is named in `b` in every other round, where it has no permission.
        match number % 2 {
            0 => cluster.bind("b", "flapping", &subject("User", "busy")),
            _ => cluster.unbind("b", "flapping"),
        };
        cluster.fixture.put("a", &format!("event-{number}"), "blue");
        let begun = Instant::now();
        let event = watch.next().await.expect("an event");
        assert_eq!(event["object"]["metadata"]["name"], format!("event-{number}"));
        held.extend((!begun.elapsed().is_zero()).then(|| begun.elapsed()));
        sleep(Duration::from_millis(100)).await;
    }
    assert!(held.len() <= 2 && held.iter().all(|held| *held <= Duration::from_secs(1)), "{held:?}");
}

/// The same by changes that grant the caller nothing else: they cause no review, and hold no event.
#[tokio::test(start_paused = true)]
async fn changes_that_grant_the_same_cause_no_review_of_a_watch() {
    let (mut cluster, mut watch) = Box::pin(watched_by_busy()).await;
    cluster.fixture.put("a", "first", "blue");
    assert_eq!(watch.next().await.expect("an event")["object"]["metadata"]["name"], "first");
    sleep(Duration::from_secs(300)).await;
    cluster.fixture.put("a", "second", "blue");
    assert!(watch.next().await.is_some(), "the watch reviews what is due");
    let reviews = cluster.reviews.take_single();
    for number in 0..300 {
        cluster.bind("a", "own", &subject("User", "busy"));
        cluster.fixture.put("a", &format!("event-{number}"), "blue");
        let begun = Instant::now();
        assert!(watch.next().await.is_some());
        assert_eq!(begun.elapsed(), Duration::ZERO, "{number}");
    }
    assert_eq!((cluster.reviews.take_single(), reviews > 0), (0, true));
}

#[tokio::test(start_paused = true)]
async fn permissions_that_follow_a_role_binding_are_noticed_soon() {
    for delay in [1, 5, 50] {
        let mut cluster = Cluster::new();
        let before = cluster.version("member").await;
        let mut watch = cluster.watch("member", &before).await;
        watch.expect_silence_for(Duration::from_secs(300)).await;
        cluster.bind("ab", "new", &subject("User", "member"));
        watch.expect_silence_for(Duration::from_secs(delay)).await;
        cluster.reviews.grant("member watch shirts ab");
        let begun = Instant::now();
        assert_expired(watch.next().await.as_ref(), CHANGED);
        assert!(begun.elapsed() <= Duration::from_secs(delay + 3), "{delay}: {:?}", begun.elapsed());
    }
}

#[tokio::test(start_paused = true)]
async fn a_changed_role_is_noticed_within_five_minutes() {
    for is_granted in [true, false] {
        let cluster = Cluster::new();
        // The RoleBindings have not changed for long.
        let begun = cluster.version("member").await;
        let mut watch = cluster.watch("member", &begun).await;
        watch.expect_silence_for(Duration::from_secs(1_000)).await;
        match is_granted {
            true => cluster.reviews.grant("member watch shirts ab"),
            false => cluster.reviews.revoke("member watch shirts a"),
        }
        let begun = Instant::now();
        assert_expired(watch.next().await.as_ref(), CHANGED);
        assert!(begun.elapsed() <= Duration::from_secs(300), "{:?}", begun.elapsed());
    }
}

#[tokio::test(start_paused = true)]
async fn the_permission_in_all_namespaces_comes_and_goes() {
    let cluster = Cluster::new();
    assert_eq!(cluster.shown("member").await, "a,a-b");
    let mut watch = cluster.watch("member", &cluster.version("member").await).await;
    watch.expect_silence_for(Duration::from_secs(30)).await;
    for verb in ["list", "watch"] {
        cluster.reviews.grant(&format!("member {verb} shirts *"));
    }
    let begun = Instant::now();
    assert_expired(watch.next().await.as_ref(), CHANGED);
    assert!(begun.elapsed() <= Duration::from_secs(300), "{:?}", begun.elapsed());
    // Nothing is written meanwhile, so the version stays the same.
    assert_eq!(cluster.shown("member").await, "a,a-b,ab");
    let mut watch = cluster.watch("member", &cluster.version("member").await).await;
    watch.expect_silence_for(Duration::from_secs(30)).await;
    for verb in ["list", "watch"] {
        cluster.reviews.revoke(&format!("member {verb} shirts *"));
    }
    let begun = Instant::now();
    assert_expired(watch.next().await.as_ref(), CHANGED);
    assert!(begun.elapsed() <= Duration::from_secs(300), "{:?}", begun.elapsed());
    sleep(Duration::from_secs(11)).await;
    assert_eq!(cluster.shown("member").await, "a,a-b");
}

#[tokio::test(start_paused = true)]
async fn a_list_is_reviewed_again_only_for_changes_and_when_that_is_due() {
    let mut cluster = Cluster::new();
    assert_eq!(cluster.shown("member").await, "a,a-b");
    assert_eq!(cluster.reviews.take_single(), 3, "the candidates");
    sleep(Duration::from_secs(500)).await;
    assert_eq!(cluster.reviews.take_single(), 0, "nothing runs without a request");
    for _ in 0..200 {
        assert_eq!(cluster.shown("member").await, "a,a-b");
        sleep(Duration::from_millis(1_500)).await;
    }
    let reviewed = cluster.reviews.take_single();
    assert!((3 * 2..3 * 12).contains(&reviewed), "{reviewed} reviews in five minutes");
    cluster.bind("ab", "another", &subject("User", "member"));
    assert_eq!(cluster.shown("member").await, "a,a-b");
    assert_eq!(cluster.reviews.take_single(), 1, "only the changed one");
    cluster.bind("ab", "another", &subject("User", "member"));
    assert_eq!(cluster.shown("member").await, "a,a-b");
    assert_eq!(cluster.reviews.take_single(), 0, "a change that grants the same");
    // Versions that are not served need no reviews of their own.
    let path = format!("{VIEW}{ALL_SHIRTS}").replace("/v1/", "/v999/");
    assert_eq!((cluster.get("member", &path).await.code.as_u16(), cluster.reviews.take_single()), (403, 0));
    assert_eq!(cluster.get("admin", &path).await.code, 404);
    // Many at the same time share their reviews.
    sleep(Duration::from_secs(500)).await;
    let lists = (0..50).map(|_| cluster.shown("member"));
    assert!(futures::future::join_all(lists).await.iter().all(|shown| shown == "a,a-b"));
    assert_eq!(cluster.reviews.take_single(), 3);
}

#[tokio::test(start_paused = true)]
async fn a_list_waits_for_few_of_the_reviews_that_are_repeated() {
    let mut cluster = Cluster::with(HistoryLimits { changes: 1, ..HistoryLimits::default() });
    for number in 0..1_000 {
        cluster.bind_without_publishing(&format!("n{number}"), "x", &subject("User", "many"));
        cluster.reviews.grant(&format!("many list shirts n{number}"));
    }
    cluster.bindings.publish();
    let path = format!("{VIEW}{ALL_SHIRTS}?limit=1");
    assert_eq!(cluster.get("many", &path).await.code, 200);
    assert_eq!(cluster.reviews.take_single(), 1_000, "the first time");
    sleep(Duration::from_secs(221)).await;
    let mut reviewed = 0;
    // All are due, the first of them for less than 45 seconds: those of all callers are spread.
    for _ in 0..6 {
        assert_eq!(cluster.get("many", &path).await.code, 200);
        let now = cluster.reviews.take_single();
        // One of the RoleBindings is in history, so its review is long due.
        assert!(now <= 65, "{now}");
        reviewed += now;
        sleep(Duration::from_secs(2)).await;
    }
    assert!(reviewed >= 6 * 64, "{reviewed}");
    sleep(Duration::from_secs(60)).await;
    assert_eq!(cluster.get("many", &path).await.code, 200);
    assert_eq!(cluster.reviews.take_single() + reviewed, 1_001, "the others are long due");
    // After a long time, all are reviewed at once.
    sleep(Duration::from_secs(300)).await;
    assert_eq!(cluster.get("many", &path).await.code, 200);
    assert_eq!(cluster.reviews.take_single(), 1_000);
    // A change of very many RoleBindings is not delayed.
    sleep(Duration::from_secs(2)).await;
    for number in 0..100 {
        cluster.bind_without_publishing(&format!("n{number}"), "y", &subject("User", "many"));
    }
    cluster.bindings.publish();
    assert_eq!(cluster.get("many", &path).await.code, 200);
    assert!(cluster.reviews.take_single() >= 100);
}

#[tokio::test(start_paused = true)]
async fn pages_before_a_change_are_expired_and_a_list_after_it_waits_for_a_newer_version() {
    let mut cluster = Cluster::new();
    let page = cluster.get("member", &format!("{VIEW}{ALL_SHIRTS}?limit=2")).await.json();
    let token = page["metadata"]["continue"].as_str().unwrap();
    let next = format!("{VIEW}{ALL_SHIRTS}?limit=2&continue={token}");
    assert_eq!(cluster.get("member", &next).await.code, 200);
    advance(Duration::from_secs(2)).await;
    cluster.unbind("a", "group");
    let begun = Instant::now();
    let (list, ()) = tokio::join!(cluster.version("member"), async {
        sleep(Duration::from_secs(1)).await;
        // The store has not changed, but its source has reached this version.
        cluster.fixture.shirts.resource.state.publish(LoadState::Ready({
            let mut store = Store::new(HistoryLimits::default());
            store.replace(&[], Version::new(999));
            store.snapshot()
        }));
    });
    assert_eq!((&*list, begun.elapsed().as_secs()), ("999", 1), "the list waits");
    assert_eq!(cluster.get("member", &next).await.code, 410);
}

#[tokio::test(start_paused = true)]
async fn a_client_of_another_replica_lists_again_if_its_role_bindings_have_changed_since() {
    let mut cluster = Cluster::new();
    let before = cluster.version("admin").await;
    cluster.bind("a", "later", &subject("User", "member"));
    cluster.fixture.put("a", "later", "blue");
    // This server has not reviewed the permissions of the caller before.
    let mut resumed = cluster.watch("member", &before).await;
    assert_expired(resumed.next().await.as_ref(), &format!("too old resource version: {before} ("));
    let mut other = cluster.watch(SA, &before).await;
    assert_eq!(other.next().await.unwrap()["object"]["metadata"]["name"], "later", "nothing has changed for it");
}

#[tokio::test(start_paused = true)]
async fn a_watch_outlives_a_short_outage_and_no_long_one() {
    let cluster = Cluster::new();
    let mut watch = cluster.watch("member", &cluster.version("member").await).await;
    cluster.reviews.is_gone.store(true, Ordering::Relaxed);
    watch.expect_silence_for(Duration::from_secs(200)).await;
    let begun = Instant::now();
    watch.next().await;
    assert!(begun.elapsed() <= Duration::from_secs(300), "{:?}", begun.elapsed());
    let list = cluster.get("member", &format!("{VIEW}{ALL_SHIRTS}")).await;
    assert!(list.code.is_server_error(), "{}", list.body);
}

#[tokio::test(start_paused = true)]
async fn without_the_store_of_role_bindings_nothing_is_shown() {
    let cluster = Cluster::new();
    cluster.fixture.registry.replace(cluster.catalog(false), |_| None);
    let list = cluster.get("admin", &format!("{VIEW}{ALL_SHIRTS}")).await;
    assert_eq!(list.code, 503, "{}", list.body);
    assert!(list.message().contains("create the FieldCache rolebindings.rbac.authorization.k8s.io"), "{}", list.body);
    assert_eq!(cluster.shown("member").await, "403", "whose namespaces are not known");
    // `kinds::accept` rejects such a View.
    cluster.fixture.registry.replace(cluster.catalog(true), |_| None);
    cluster.serve(ViewRights::View);
    cluster.reviews.grant("user use views *");
    assert_eq!(cluster.shown("user").await, "", "the permission to use the View is not one for any namespace");
}

#[tokio::test(start_paused = true)]
async fn a_caller_of_too_many_namespaces_is_told_the_limit() {
    let mut cluster = Cluster::new();
    for number in 0..=MOST_CANDIDATES {
        cluster.bind_without_publishing(&format!("n{number}"), "x", &subject("User", "many"));
    }
    cluster.bindings.publish();
    cluster.reviews.grant("many use views *");
    let list = cluster.get("many", &format!("{VIEW}{ALL_SHIRTS}")).await;
    assert_eq!(list.code, 403);
    assert!(list.message().contains("in more than 4096 namespaces"), "{}", list.message());
    assert_eq!(cluster.reviews.take_single(), 0, "none of them is reviewed");
    for number in 0..=MOST_CANDIDATES {
        cluster.bind_without_publishing(&format!("n{number}"), "y", &subject("User", "unrelated"));
    }
    cluster.bindings.publish();
    let own = cluster.get("unrelated", &format!("{VIEW}{ALL_SHIRTS}")).await;
    let missing = cluster.get("unrelated", &format!("{VIEW}{ALL_SHIRTS}").replace("/own/", "/own2/")).await;
    assert_eq!((own.code.as_u16(), missing.code.as_u16()), (403, 403));
    assert_eq!(own.message(), missing.message().replace("own2", "own"), "the caller may not use the View");
    cluster.unbind("n7", "x");
    sleep(Duration::from_secs(2)).await;
    cluster.reviews.grant("many list shirts n8");
    cluster.reviews.grant("many watch shirts n8");
    assert_eq!(cluster.get("many", &format!("{VIEW}{ALL_SHIRTS}")).await.code, 200, "at the limit");
    assert_eq!(cluster.reviews.take_single(), MOST_CANDIDATES);
    // The store is as new as the RoleBindings.
    cluster.fixture.put("b", "later", "blue");
    let mut watch = cluster.watch("many", &cluster.version("many").await).await;
    sleep(Duration::from_secs(2)).await;
    cluster.bind("n7", "x", &subject("User", "many"));
    assert_expired(watch.next().await.as_ref(), CHANGED);
    assert_eq!(cluster.shown("many").await, "403");
}

#[tokio::test(start_paused = true)]
async fn reviews_through_the_view_agree_with_what_requests_get() {
    let cluster = Cluster::new();
    let users = ["admin", "member", "nobody"];
    for user in users {
        cluster.reviews.grant(&format!("{user} create selfsubjectaccessreviews *"));
    }
    let mut allowed = 0;
    for user in users {
        for (group, resource) in [("stable.example.com", "shirts"), ("", "namespaces")] {
            for verb in ["list", "watch", "get"] {
                for namespace in ["", "a", "ab"] {
                    // A request for Namespaces names none; the path of one has its name as namespace.
                    let is_namespaces = resource == "namespaces";
                    if (verb == "get") == namespace.is_empty()
                        || (is_namespaces && verb != "get" && !namespace.is_empty())
                    {
                        continue;
                    }
                    let name = match (verb, is_namespaces) {
                        ("get", true) => namespace,
                        ("get", false) => "x",
                        _ => "",
                    };
                    let about = json!({
                        "group": group, "version": "v1", "resource": resource, "verb": verb, "namespace": namespace, "name": name,
                    });
                    let review = json!({
                        "kind": "SelfSubjectAccessReview", "apiVersion": "authorization.k8s.io/v1",
                        "spec": {"resourceAttributes": about},
                    });
                    let path = format!("{VIEW}/apis/authorization.k8s.io/v1/selfsubjectaccessreviews");
                    let request = Request::builder()
                        .method(Method::POST)
                        .uri(path)
                        .header("host", "127.0.0.1:8181")
                        .header("authorization", format!("Bearer {user}"))
                        .header("content-type", "application/json");
                    let body = Full::new(Bytes::from(review.to_string()));
                    let response = cluster.fixture.server.answer(request.body(body).unwrap()).await;
                    assert_eq!(response.status(), 201, "{user}");
                    let body = response.into_body().collect().await.unwrap().to_bytes();
                    let reviewed: Value = serde_json::from_slice(&body).unwrap();
                    let root = if group.is_empty() { "/api/v1".to_owned() } else { format!("/apis/{group}/v1") };
                    let path = match (is_namespaces, namespace) {
                        (true, "") => format!("{root}/namespaces"),
                        (true, name) => format!("{root}/namespaces/{name}"),
                        (false, "") => format!("{root}/{resource}"),
                        (false, namespace) => format!("{root}/namespaces/{namespace}/{resource}"),
                    };
                    let path = if verb == "get" && !is_namespaces { format!("{path}/x") } else { path };
                    let query = if verb == "watch" { "?watch=1&timeoutSeconds=1" } else { "" };
                    let answer = cluster.get(user, &format!("{VIEW}{path}{query}")).await;
                    assert_eq!(reviewed["status"]["allowed"], answer.code == 200, "{user} {verb} {path}: {reviewed}");
                    allowed += usize::from(answer.code == 200);
                }
            }
        }
    }
    assert_eq!(allowed, 14, "those of the administrator and of the member");
}

/// Everything of an answer that is not of its moment.
fn comparable(answer: &Answer) -> String {
    let headers = answer.headers.iter().filter(|(name, _)| *name != "audit-id");
    let headers: Vec<String> = headers.map(|(name, value)| format!("{name}: {value:?}")).collect();
    format!("{} {headers:?} {}", answer.code, answer.body)
}

#[tokio::test(start_paused = true)]
async fn what_other_namespaces_have_changes_no_byte_of_what_a_caller_gets() {
    let mut worlds = [Cluster::new(), Cluster::new()];
    // As many changes, in namespaces that the caller does not see.
    for (number, (one, other)) in [("ab", "c"), ("ab", "ab"), ("c", "d"), ("e", "ab")].into_iter().enumerate() {
        worlds[0].fixture.put(one, &format!("o{number}"), "blue");
        worlds[1].fixture.put(other, "p", "green");
        worlds[0].bind(one, "x", &subject("User", "somebody"));
        worlds[1].bind(other, "y", &subject("Group", "others"));
        worlds[0].put_namespace(one);
        worlds[1].put_namespace(other);
    }
    for user in ["member", SA, "nobody"] {
        for path in [ALL_SHIRTS, "/api/v1/namespaces", "/apis/stable.example.com/v1/namespaces/ab/shirts"] {
            for query in [
                "",
                "&limit=1",
                "&limit=2&fieldSelector=spec.color%3Dblue",
                "&labelSelector=tone",
                "&fieldSelector=metadata.namespace%3Dab",
                "&fieldSelector=metadata.name%3Dp",
                "&resourceVersion=0",
                "&watch=1&timeoutSeconds=1",
                "&watch=1&timeoutSeconds=1&resourceVersion=0",
            ] {
                // The ServiceAccount has a permission in this namespace.
                if user == SA && path.contains("/ab/") {
                    continue;
                }
                let path = format!("{VIEW}{path}?explain=true{query}");
                let [one, other] = [&worlds[0], &worlds[1]].map(|world| world.get(user, &path));
                let (one, other) = futures::future::join(one, other).await;
                assert_eq!(comparable(&one), comparable(&other), "{user} {path}");
            }
        }
    }
}

/// Changes of RoleBindings that history has dropped are found in the store.
#[tokio::test(start_paused = true)]
async fn changes_that_are_no_longer_in_history_are_noticed() {
    let mut cluster = Cluster::with(HistoryLimits { changes: 2, ..HistoryLimits::default() });
    assert_eq!(cluster.shown("member").await, "a,a-b");
    cluster.reviews.grant("member list shirts ab");
    cluster.unbind("a", "group");
    for number in 0..5 {
        cluster.bind("ab", &format!("b{number}"), &subject("User", "somebody"));
    }
    sleep(Duration::from_secs(2)).await;
    cluster.fixture.put("b", "later", "blue");
    assert_eq!(cluster.shown("member").await, "a-b,ab");
}
