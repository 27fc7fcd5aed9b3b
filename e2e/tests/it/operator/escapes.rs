//! Ways out of a View, as a user may try them who may use one View and nothing else. Each is refused, with the status
//! that is right for it, and no answer holds a word of what is hidden.

use std::fmt::Write as _;

use anyhow::{Context, Result, ensure};
use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use e2e::certificates::{Authority, signed_token};
use e2e::eventually::eventually;
use e2e::fieldcache::Fieldcache;
use e2e::http::{Answer, Client, Endpoint, Request};
use e2e::kubectl::Kubectl;
use e2e::objects;
use e2e::run_directory::RunDirectory;
use http::Method;
use serde_json::{Value, json};

use super::consumers::{bound_token, bound_token_for, cache, let_it_read, node, pod, proxy};
use super::rights::{account, grant, may_use};
use super::{SHIRTS, SOON, Stage, aggregation};

/// Occurs in the names, labels and fields of everything that the View does not show.
const HIDDEN: &str = "hidden";
const PODS: &str = "/api/v1/pods";
const VIEWS: &str = "/apis/view.fieldcache.dev/v1alpha1/views";

/// Name and value.
type Header<'h> = (&'h str, &'h str);

/// Everything that is needed. The View `own` shows Pods of the caller's node without their annotations. With the
/// caller's own permissions, `blue` shows shirts and `rights` Pods. The agent may use `own`.
struct Prison {
    stage: Stage,
    operator: Fieldcache,
    front_proxy: Authority,
    uid: String,
    token: String,
    agent: Client,
}

fn view(name: &str, spec: Value) -> Value {
    json!({ "apiVersion": "fieldcache.dev/v1alpha1", "kind": "View", "metadata": { "name": name }, "spec": spec })
}

impl Prison {
    async fn build(folder: &RunDirectory) -> Result<Prison> {
        let (stage, operator, front_proxy) = aggregation::stage(folder).await?;
        let_it_read(&stage, &["pods", "secrets"]).await?;
        stage.apply("walk-through/shirts-cache.yaml").await?;
        for resource in ["pods", "secrets"] {
            stage.apply_this(&format!("{resource}.json"), &cache(resource)).await?;
        }
        for namespace in ["team-a", "team-b"] {
            stage.kubectl.succeed(&["create", "serviceaccount", "agent", "-n", namespace]).await?;
        }
        for name in ["n1", "n2"] {
            node(&stage, name).await?;
        }
        let uid = pod(&stage, "team-a", "mine", "n1", json!({ "app": "agent" })).await?;
        pod(&stage, "team-b", "hidden-pod", "n2", json!({ "hidden-label": "hidden-value" })).await?;
        let secret = json!({
            "apiVersion": "v1", "kind": "Secret", "metadata": { "name": "hidden-secret" }, "stringData": { "hidden-key": "x" },
        });
        objects::create(&stage.control_plane.client(), "/api/v1/namespaces/team-a/secrets", &secret).await?;
        let annotation = json!({ "metadata": { "annotations": { "hidden-annotation": "hidden" } } });
        objects::merge(&stage.control_plane.client(), "/api/v1/namespaces/team-a/pods/mine", &annotation).await?;
        let own = json!({ "fields": [{ "key": "spec.nodeName", "value": "NodeName" }] });
        let pods = json!([{ "group": "", "resource": "pods", "prune": [".metadata.annotations", ".metadata.managedFields", ".status.phase"] }]);
        let shirts = json!([{ "group": "stable.example.com", "resource": "shirts" }]);
        for (name, spec) in [
            ("own", json!({ "authorization": "View", "resources": pods, "consumer": own })),
            ("blue", json!({ "authorization": "View", "resources": shirts })),
            (
                "rights",
                json!({ "resources": [{ "group": "", "resource": "pods" }, { "group": "", "resource": "secrets" }] }),
            ),
        ] {
            stage.apply_this(&format!("{name}.json"), &view(name, spec)).await?;
        }
        grant(&stage, "uses-own", may_use("own"), account("team-a", "agent")).await?;
        let token = bound_token(&stage, "team-a", "mine", &uid).await?;
        let done = stage.kubectl.succeed(&["wait", "--for=condition=Ready", "--timeout=180s", "view", "--all"]).await;
        done.with_context(|| operator.process().tail())?;
        let agent = operator_endpoint(&stage, &operator)?.with_token(&token)?.client();
        let prison = Prison { stage, operator, front_proxy, uid, token, agent };
        eventually("the agent sees its own Pod", SOON, async || {
            let list = prison.agent.get_json(&format!("{}{PODS}", proxy("own"))).await?;
            ensure!(super::names(&list)? == ["team-a/mine"], "{list}");
            Ok(())
        })
        .await?;
        Ok(prison)
    }

    fn endpoint(&self) -> Result<Endpoint> {
        operator_endpoint(&self.stage, &self.operator)
    }

    /// Sends requests with this token in place of one's own.
    async fn with(&self, token: &str) -> Result<Answer> {
        let path = format!("{}{PODS}", proxy("own"));
        self.endpoint()?.client().send(Request::get(path).header("authorization", &format!("Bearer {token}"))).await
    }
}

fn operator_endpoint(stage: &Stage, operator: &Fieldcache) -> Result<Endpoint> {
    let authority = std::fs::read_to_string(stage.folder.path().join("ca.crt"))?;
    Endpoint::secure(operator.address(), &authority, None)
}

/// What has been tried, and what was not as it should be.
#[derive(Default)]
struct Tried {
    count: usize,
    wrong: String,
}

impl Tried {
    fn judge(&mut self, what: &str, answer: &Answer, expected: &[u16]) {
        self.count += 1;
        let text = format!("{:?}\n{}", answer.headers, answer.text());
        if !expected.contains(&answer.status.as_u16()) || text.contains(HIDDEN) {
            let _ = writeln!(self.wrong, "{what}: {} instead of {expected:?}: {text}", answer.status);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn no_request_escapes_from_a_view() -> Result<()> {
    let folder = RunDirectory::create("escapes")?;
    let prison = Prison::build(&folder).await?;
    let mut tried = Tried::default();
    paths(&prison, &mut tried).await?;
    existence(&prison, &mut tried).await?;
    methods(&prison, &mut tried).await?;
    headers(&prison, &mut tried).await?;
    places(&prison, &mut tried).await?;
    through_kube_apiserver(&prison, &mut tried).await?;
    writers(&prison, &folder, &mut tried).await?;
    tokens(&prison, &mut tried).await?;
    ensure!(tried.wrong.is_empty(), "{}", tried.wrong);
    ensure!(tried.count >= 40, "{} tried", tried.count);
    println!("{} ways out tried", tried.count);
    prison.operator.process().ensure_running()
}

/// Other paths: other Views, the root, what is below or beside.
async fn paths(prison: &Prison, tried: &mut Tried) -> Result<()> {
    let own = proxy("own");
    let secrets = "/api/v1/namespaces/team-a/secrets";
    let rows: [(String, &[u16]); 32] = [
        (format!("{}{SHIRTS}", proxy("blue")), &[403]),
        (format!("{}{PODS}", proxy("rights")), &[403]),
        (format!("{}{secrets}", proxy("rights")), &[403]),
        (PODS.to_owned(), &[403]),
        (secrets.to_owned(), &[403]),
        (SHIRTS.to_owned(), &[403]),
        (format!("{own}{secrets}"), &[404]),
        (format!("{own}{SHIRTS}"), &[404]),
        (format!("{own}/../../blue/proxy{SHIRTS}"), &[404]),
        (format!("{own}/../../../../../../..{PODS}"), &[404]),
        (format!("{own}/%2e%2e/%2e%2e/blue/proxy{SHIRTS}"), &[404]),
        (format!("{own}%2f..%2f..%2fblue%2fproxy{SHIRTS}"), &[403, 404]),
        (format!("{VIEWS}/blue%2fproxy{SHIRTS}"), &[403, 404]),
        (format!("{VIEWS}/own/../blue/proxy{SHIRTS}"), &[403, 404]),
        (format!("{VIEWS}/own%2f..%2fblue/proxy{SHIRTS}"), &[403, 404]),
        (format!("{VIEWS}/blue/proxy%00{SHIRTS}"), &[403, 404]),
        (format!("{VIEWS}/blue;own/proxy{SHIRTS}"), &[403, 404]),
        (format!("{VIEWS}/OWN/proxy{PODS}"), &[403, 404]),
        (format!("{VIEWS}//proxy{PODS}"), &[403, 404]),
        (format!("{VIEWS}/blue/proxyx{SHIRTS}"), &[403, 404]),
        (format!("/{}{SHIRTS}", proxy("blue")), &[403, 404]),
        (format!("{own}{}{SHIRTS}", proxy("blue")), &[404]),
        (format!("{own}/{}{SHIRTS}", proxy("blue")), &[404]),
        (format!("{VIEWS}/none/proxy{PODS}"), &[403]),
        (VIEWS.to_owned(), &[403, 404]),
        (format!("{VIEWS}/blue"), &[403, 404]),
        ("/apis/fieldcache.dev/v1alpha1/views/blue".to_owned(), &[403, 404]),
        (format!("{own}/api/v1/namespaces/team-b/pods/other"), &[404]),
        (format!("{own}/api/v1/namespaces/team-a/pods/mine/log"), &[404, 405]),
        (format!("{own}/api/v1/namespaces/team-a/pods/mine/proxy/secrets"), &[404, 405]),
        (format!("{own}/metrics"), &[404]),
        ("/metrics".to_owned(), &[403, 404]),
    ];
    for (path, expected) in rows {
        tried.judge(&path, &prison.agent.get(&path).await?, expected);
    }
    let known = prison.agent.get(&format!("{own}/api/v1/namespaces/team-b/pods/hidden-pod")).await?;
    // The name is the caller's own; the response is that for any other missing one.
    ensure!(known.status == 404, "{known:?}");
    for path in ["", "/api", "/apis", "/api/v1", "/openapi/v3", "/openapi/v2"] {
        let answer = prison.agent.get(&format!("{own}{path}")).await?;
        tried.judge(&format!("{own}{path}"), &answer, &[200]);
        ensure!(!answer.text().contains("shirts") && !answer.text().contains("/secrets"), "{path}: {}", answer.text());
    }
    Ok(())
}

/// Whether a View exists: a caller that may not use it gets the same of every View and of none.
async fn existence(prison: &Prison, tried: &mut Tried) -> Result<()> {
    // Of one length: one with its own permission, one with the caller's, one that is not served, and none.
    let shirts = json!([{ "group": "stable.example.com", "resource": "shirts" }]);
    let services = json!([{ "group": "", "resource": "services" }]);
    for (name, spec) in [
        ("vista", json!({ "authorization": "View", "resources": shirts })),
        ("right", json!({ "resources": shirts })),
        (
            "walls",
            json!({ "resources": [{ "group": "stable.example.com", "resource": "shirts", "namespaces": ["team-b", "team-a"] }] }),
        ),
        ("broke", json!({ "authorization": "View", "resources": services })),
    ] {
        prison.stage.apply_this(&format!("{name}.json"), &view(name, spec)).await?;
    }
    let administrator = prison.stage.administrator(&prison.operator)?;
    for (name, expected) in [("vista", 200), ("right", 200), ("walls", 200), ("broke", 503), ("blank", 404)] {
        eventually("what an administrator gets", SOON, async || {
            let answer = administrator.get(&format!("{}{SHIRTS}", proxy(name))).await?;
            ensure!(answer.status == expected, "{name}: {answer:?}");
            Ok(())
        })
        .await?;
    }
    let comparable = |answer: &Answer, name: &str| {
        let headers = answer.headers.iter().filter(|(header, _)| !["date", "audit-id"].contains(&header.as_str()));
        let headers: Vec<String> = headers.map(|(header, value)| format!("{header}: {value:?}")).collect();
        format!("{} {headers:?} {}", answer.status, answer.text().replace(name, "NAME"))
    };
    let namespaced = "/apis/stable.example.com/v1/namespaces/team-a/shirts";
    let paths = [
        SHIRTS.to_owned(),
        namespaced.to_owned(),
        format!("{namespaced}/example1"),
        format!("{namespaced}/none"),
        format!("{SHIRTS}?watch=true"),
        format!("{SHIRTS}?fieldSelector=metadata.name%3Dx&explain=true"),
        PODS.to_owned(),
        "/apis/none.example.com/v1/things".to_owned(),
        "/metrics".to_owned(),
        "/logs".to_owned(),
    ];
    for path in &paths {
        for method in [Method::GET, Method::HEAD, Method::POST, Method::DELETE] {
            let mut reported = Vec::new();
            for name in ["vista", "right", "walls", "broke", "blank"] {
                let request = Request::new(method.clone(), format!("{}{path}", proxy(name)));
                let answer = prison.agent.send(request.header("content-type", "application/json")).await?;
                tried.judge(&format!("{method} {name} {path}"), &answer, &[403]);
                reported.push(comparable(&answer, name));
            }
            ensure!(reported.iter().all(|text| *text == reported[0]), "{method} {path}: {reported:#?}");
        }
    }
    // Discovery of a View with the caller's own permissions is as open as kube-apiserver's own; of others it is not.
    for path in ["", "/apis", "/openapi/v3", "/version", "/livez"] {
        let mut reported = Vec::new();
        for name in ["vista", "broke", "blank"] {
            let answer = prison.agent.get(&format!("{}{path}", proxy(name))).await?;
            tried.judge(&format!("{name} {path}"), &answer, &[403]);
            reported.push(comparable(&answer, name));
        }
        ensure!(reported.iter().all(|text| *text == reported[0]), "{path}: {reported:#?}");
    }
    Ok(())
}

/// Anything that is no read.
async fn methods(prison: &Prison, tried: &mut Tried) -> Result<()> {
    let own = proxy("own");
    let pods = format!("{own}/api/v1/namespaces/team-a/pods");
    let rows = [
        (Method::DELETE, pods.clone(), 405),
        (Method::DELETE, format!("{pods}?fieldSelector=spec.nodeName!%3Dn1"), 405),
        (Method::DELETE, format!("{pods}/mine"), 405),
        (Method::POST, pods.clone(), 405),
        (Method::PUT, format!("{pods}/mine"), 405),
        (Method::PATCH, format!("{pods}/mine"), 405),
        (Method::PATCH, format!("{pods}/mine/status"), 405),
        (Method::POST, format!("{pods}/mine/exec?command=sh"), 405),
        (Method::POST, format!("{pods}/mine/eviction"), 405),
        // Callers request reviews of themselves; without a body nothing is reviewed.
        (Method::POST, format!("{own}/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"), 400),
        (Method::POST, format!("{own}/apis/authorization.k8s.io/v1/subjectaccessreviews"), 404),
        (Method::POST, format!("{own}/apis/authentication.k8s.io/v1/tokenreviews"), 404),
        (Method::POST, format!("{own}/api/v1/namespaces/team-a/serviceaccounts/agent/token"), 404),
    ];
    for (method, path, expected) in rows {
        let answer = prison.agent.send(Request::new(method.clone(), &*path)).await?;
        tried.judge(&format!("{method} {path}"), &answer, &[expected]);
    }
    let kept = objects_of(prison, "pods", "team-a").await?;
    ensure!(kept.contains(&"mine".to_owned()), "nothing was deleted: {kept:?}");
    Ok(())
}

async fn objects_of(prison: &Prison, resource: &str, namespace: &str) -> Result<Vec<String>> {
    let path = format!("/api/v1/namespaces/{namespace}/{resource}");
    let list = prison.stage.control_plane.client().get_json(&path).await?;
    let items = list["items"].as_array().cloned().unwrap_or_default();
    Ok(items.iter().filter_map(|item| item["metadata"]["name"].as_str().map(str::to_owned)).collect())
}

/// Impersonation by a header.
async fn headers(prison: &Prison, tried: &mut Tried) -> Result<()> {
    let own = format!("{}{PODS}", proxy("own"));
    let blue = format!("{}{SHIRTS}", proxy("blue"));
    let masters = [("x-remote-user", "admin"), ("x-remote-group", "system:masters")];
    let node = ("x-remote-extra-authentication.kubernetes.io%2fnode-name", "n2");
    let rows: [(&str, &[Header<'_>], u16); 9] = [
        (&blue, &masters, 403),
        (PODS, &masters, 403),
        (&own, &[node], 200),
        (&own, &[("impersonate-user", "admin")], 403),
        (&own, &[("impersonate-group", "system:masters")], 403),
        (&own, &[("impersonate-extra-authentication.kubernetes.io%2fnode-name", "n2")], 403),
        (&blue, &[("x-original-url", &own), ("x-rewrite-url", &own)], 403),
        (&blue, &[("x-forwarded-uri", &own), ("x-forwarded-for", "127.0.0.1")], 403),
        (&own, &[("x-http-method-override", "DELETE")], 200),
    ];
    for (path, headers, expected) in rows {
        let request = headers.iter().fold(Request::get(path), |request, (name, value)| request.header(name, value));
        tried.judge(&format!("{path} {headers:?}"), &prison.agent.send(request).await?, &[expected]);
    }
    // By a certificate that is none of the front proxy's.
    let stranger = Authority::create("stranger")?;
    let people = prison.stage.control_plane.authority();
    let certificates = [
        ("another authority's front proxy", stranger.client("front-proxy", None)?, 401),
        ("the front proxies' authority, another name", prison.front_proxy.client("back-proxy", None)?, 401),
        ("a user called front-proxy", people.client("front-proxy", None)?, 403),
        ("another authority's administrator", stranger.client("admin", Some("system:masters"))?, 401),
    ];
    for (what, identity, expected) in certificates {
        let client = prison.operator.as_client(prison.stage.folder.path(), &identity)?.client();
        let request = masters.iter().fold(Request::get(&*blue), |request, (name, value)| request.header(name, value));
        tried.judge(what, &client.send(request).await?, &[expected]);
    }
    // And with nothing at all.
    let nobody = prison.endpoint()?.client();
    for path in [own.clone(), format!("{}/livez", proxy("own")), format!("{}/livez", proxy("none"))] {
        tried.judge(&format!("nobody: {path}"), &nobody.get(&path).await?, &[401]);
    }
    Ok(())
}

/// Selectors, versions and tokens of pages that mean more elsewhere.
async fn places(prison: &Prison, tried: &mut Tried) -> Result<()> {
    let own = format!("{}{PODS}", proxy("own"));
    let administrator = prison.stage.administrator(&prison.operator)?;
    let page = administrator.get_json(&format!("{PODS}?limit=1")).await?;
    let next = page["metadata"]["continue"].as_str().context("a token of the root")?.to_owned();
    let version = page["metadata"]["resourceVersion"].as_str().unwrap_or_default().to_owned();
    let rows: [(String, &[u16]); 14] = [
        (format!("{own}?fieldSelector=spec.nodeName%3Dn2"), &[200]),
        (format!("{own}?fieldSelector=spec.nodeName!%3Dn1"), &[200]),
        (format!("{own}?fieldSelector=metadata.namespace%3Dteam-b"), &[200]),
        (format!("{own}?fieldSelector=spec.nodename%3Dn2"), &[400]),
        (format!("{own}?fieldSelector=.spec.nodeName%3Dn2"), &[400]),
        (format!("{own}?fieldSelector=status.phase%3DPending"), &[400]),
        (format!("{own}?labelSelector=!app"), &[200]),
        (format!("{own}?limit=1&continue={next}"), &[200]),
        (format!("{own}?resourceVersion={version}&resourceVersionMatch=Exact"), &[200]),
        (format!("{own}?watch=true&resourceVersion=0&timeoutSeconds=1"), &[200]),
        (
            format!(
                "{own}?watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true&timeoutSeconds=1"
            ),
            &[200],
        ),
        (format!("{}/api/v1/watch/pods?timeoutSeconds=1", proxy("own")), &[200]),
        (format!("{}/api/v1/watch/namespaces/team-b/pods/hidden-po?timeoutSeconds=1", proxy("own")), &[200]),
        (format!("{own}?explain=true&limit=1"), &[200]),
    ];
    for (path, expected) in rows {
        let answer = prison.agent.get(&path).await?;
        ensure!(answer.header("fieldcache-explain").is_none(), "{path}: plans count what is hidden");
        tried.judge(&path, &answer, expected);
    }
    for accept in [
        "application/json;as=Table;g=meta.k8s.io;v=v1",
        "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1",
        "application/yaml",
    ] {
        let answer = prison.agent.send(Request::get(&*own).header("accept", accept)).await?;
        tried.judge(&format!("{own} as {accept}"), &answer, &[200]);
    }
    Ok(())
}

/// The same through kube-apiserver, which knows nothing of what is inside.
async fn through_kube_apiserver(prison: &Prison, tried: &mut Tried) -> Result<()> {
    let stage = &prison.stage;
    let outer = json!([{ "apiGroups": ["view.fieldcache.dev"], "resources": ["views/proxy"], "verbs": ["get"] }]);
    grant(stage, "outer", outer, account("team-a", "agent")).await?;
    let token = bound_token_for(stage, "team-a", "mine", &prison.uid, None).await?;
    let kube = stage.control_plane.endpoint().base();
    let kube =
        Endpoint::secure(kube, &stage.control_plane.authority().certificate(), None)?.with_token(&token)?.client();
    let own = format!("{}{PODS}", proxy("own"));
    eventually("the agent sees its own Pod through kube-apiserver", SOON, async || {
        let list = kube.get_json(&own).await?;
        ensure!(super::names(&list)? == ["team-a/mine"], "{list}");
        Ok(())
    })
    .await?;
    let masters = [("x-remote-user", "admin"), ("x-remote-group", "system:masters")];
    let node = ("x-remote-extra-authentication.kubernetes.io%2fnode-name", "n2");
    let blue = format!("{}{SHIRTS}", proxy("blue"));
    let up = format!("{}/../../blue/proxy{SHIRTS}", proxy("own"));
    let encoded = format!("{}%2f..%2f..%2fblue%2fproxy{SHIRTS}", proxy("own"));
    let rows: [(&str, &[Header<'_>], &[u16]); 6] = [
        (&blue, &[], &[403]),
        (&blue, &masters, &[403]),
        (&own, &[node], &[200]),
        (&own, &[("impersonate-user", "admin")], &[403]),
        (&up, &[], &[301, 403, 404]),
        (&encoded, &[], &[301, 403, 404]),
    ];
    for (path, headers, expected) in rows {
        let request = headers.iter().fold(Request::get(path), |request, (name, value)| request.header(name, value));
        tried.judge(&format!("through kube-apiserver: {path} {headers:?}"), &kube.send(request).await?, expected);
    }
    // A token for the API server is none here, and one for here none there.
    tried.judge("the API server's token", &prison.with(&token).await?, &[401]);
    Ok(())
}

/// To write oneself a View, or the policy away.
async fn writers(prison: &Prison, folder: &RunDirectory, tried: &mut Tried) -> Result<()> {
    let stage = &prison.stage;
    let editor = ["create", "clusterrolebinding", "editor", "--clusterrole=fieldcache-editor", "--user=editor"];
    stage.kubectl.succeed(&editor).await?;
    let (_, document) = stage.control_plane.as_user("editor", None)?;
    let kubectl = Kubectl::with_kubeconfig(&folder.write("editor-kubeconfig", document.to_string())?)?;
    let secrets =
        view("mine", json!({ "authorization": "View", "resources": [{ "group": "", "resource": "secrets" }] }));
    let file = folder.write("mine.json", secrets.to_string())?.display().to_string();
    let narrower = r#"{"spec":{"consumer":null}}"#;
    let right = r#"{"spec":{"authorization":"View"}}"#;
    let fields = r#"{"spec":{"selectableFields":[{"name":"level","jsonPath":"$.metadata.labels.level"}]}}"#;
    let status = r#"{"status":{"endpoint":{"url":"https://elsewhere.example.com"}}}"#;
    let policy = "validatingadmissionpolicy/views.fieldcache.dev";
    let binding = "validatingadmissionpolicybinding/views.fieldcache.dev";
    let cache_policy = "validatingadmissionpolicy/fieldcaches.fieldcache.dev";
    let cache_binding = "validatingadmissionpolicybinding/fieldcaches.fieldcache.dev";
    let attempts: [&[&str]; 12] = [
        &["create", "-f", &file],
        &["apply", "--server-side", "-f", &file],
        &["patch", "view/own", "--type=merge", "-p", narrower],
        &["patch", "view/rights", "--type=merge", "-p", right],
        &["patch", "view/own", "--subresource=status", "--type=merge", "-p", status],
        &["patch", "fieldcache/shirts.stable.example.com", "--type=merge", "-p", fields],
        &["delete", policy],
        &["delete", binding],
        &["delete", cache_policy],
        &["delete", cache_binding],
        &["patch", policy, "--type=merge", "-p", r#"{"spec":{"failurePolicy":"Ignore"}}"#],
        &["get", "pods", "-A"],
    ];
    for arguments in attempts {
        let ran = kubectl.run(arguments).await?;
        tried.count += 1;
        ensure!(ran.exit_code != 0 && ran.stderr.contains("orbidden"), "{arguments:?}: {}{}", ran.stdout, ran.stderr);
    }
    Ok(())
}

/// Tokens that are invalid, of another user, or of an account that no longer exists. Last: these end the agent.
async fn tokens(prison: &Prison, tried: &mut Tried) -> Result<()> {
    let stage = &prison.stage;
    let parts: Vec<&str> = prison.token.split('.').collect();
    let claims: Value = serde_json::from_slice(&BASE64_URL_SAFE_NO_PAD.decode(parts[1])?)?;
    let key = stage.control_plane.kubeconfig().with_file_name("service-account.key");
    let key = std::fs::read_to_string(key)?;
    let stranger = e2e::certificates::signing_keys()?.0;
    let altered = |change: &dyn Fn(&mut Value)| {
        let mut claims = claims.clone();
        change(&mut claims);
        claims
    };
    let on_n2 = |claims: &mut Value| claims["kubernetes.io"]["node"]["name"] = json!("n2");
    let past = |claims: &mut Value| {
        for claim in ["exp", "iat", "nbf"] {
            claims[claim] = json!(claims[claim].as_i64().unwrap_or_default() - 100_000);
        }
    };
    let encoded = |claims: &Value| BASE64_URL_SAFE_NO_PAD.encode(claims.to_string());
    let none = format!("{}.{}.", BASE64_URL_SAFE_NO_PAD.encode(r#"{"alg":"none"}"#), encoded(&claims));
    // That a token can be made here at all is what gives the others their meaning.
    let same = signed_token(&key, &claims)?;
    tried.judge("the same token, signed again", &prison.with(&same).await?, &[200]);
    let audience = stage.token("team-a", "agent", Some("somebody-else.example.com")).await?;
    let rows = [
        ("claims altered under a signature", format!("{}.{}.{}", parts[0], encoded(&altered(&on_n2)), parts[2])),
        ("no signature", none),
        ("a stranger's signature", signed_token(&stranger, &claims)?),
        ("expired", signed_token(&key, &altered(&past))?),
        ("not yet", signed_token(&key, &altered(&|claims| claims["nbf"] = json!(4_000_000_000_i64)))?),
        (
            "another issuer",
            signed_token(&key, &altered(&|claims| claims["iss"] = json!("https://elsewhere.example.com")))?,
        ),
        ("another audience", audience),
        ("another Pod", signed_token(&key, &altered(&|claims| claims["kubernetes.io"]["pod"]["uid"] = json!("0")))?),
        ("another ServiceAccount's uid", {
            signed_token(&key, &altered(&|claims| claims["kubernetes.io"]["serviceaccount"]["uid"] = json!("0")))?
        }),
        ("half of it", prison.token[..prison.token.len() / 2].to_owned()),
        ("a word", "admin".to_owned()),
    ];
    for (what, token) in rows {
        tried.judge(what, &prison.with(&token).await?, &[401]);
    }
    let own = format!("{}{PODS}", proxy("own"));
    let basic = Request::get(&*own).header("authorization", "Basic YWRtaW46YWRtaW4=");
    tried.judge("a password", &prison.endpoint()?.client().send(basic).await?, &[401]);
    let query = format!("{own}?access_token={}&token={}", prison.token, prison.token);
    tried.judge("a token in the query", &prison.endpoint()?.client().get(&query).await?, &[401]);
    // Another ServiceAccount of the same name, and one's own without a Pod.
    tried.judge(
        "a namesake",
        &prison.with(&stage.token("team-b", "agent", Some("fieldcache.dev")).await?).await?,
        &[403],
    );
    tried.judge(
        "without a Pod",
        &prison.with(&stage.token("team-a", "agent", Some("fieldcache.dev")).await?).await?,
        &[403],
    );

    // The Pod goes, and another one of its name comes elsewhere: the old token belongs to no Pod.
    let pods = "/api/v1/namespaces/team-a/pods";
    objects::delete(&stage.control_plane.client(), &format!("{pods}/mine?gracePeriodSeconds=0")).await?;
    let gone = async |what: &str| {
        eventually(what, SOON, async || {
            let answer = prison.with(&prison.token).await?;
            ensure!(answer.status == 401, "{answer:?}");
            Ok(())
        })
        .await
    };
    gone("a deleted Pod's token").await?;
    let uid = pod(stage, "team-a", "mine", "n2", json!({})).await?;
    tried.judge("a deleted Pod's token, with a namesake there", &prison.with(&prison.token).await?, &[401]);
    let token = bound_token(stage, "team-a", "mine", &uid).await?;
    ensure!(
        prison.with(&token).await?.text().contains("hidden-pod"),
        "the new one's sees its own node, which is n2 now"
    );
    stage.kubectl.succeed(&["delete", "serviceaccount", "agent", "-n", "team-a"]).await?;
    eventually("a deleted ServiceAccount's token", SOON, async || {
        let answer = prison.with(&token).await?;
        ensure!(answer.status == 401, "{answer:?}");
        Ok(())
    })
    .await?;
    tried.count += 2;
    Ok(())
}
