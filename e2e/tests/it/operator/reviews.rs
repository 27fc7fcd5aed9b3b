//! What a caller requests about itself through a View: kubectl's own commands, and each response beside the request
//! that it is about.

use anyhow::{Context, Result, ensure};
use e2e::eventually::eventually;
use e2e::fieldcache::Fieldcache;
use e2e::http::{Client, Request};
use e2e::kubectl::Kubectl;
use http::Method;
use serde_json::{Value, json};

use super::rights::{account, grant, may_use, user, with_token};
use super::{SHIRTS, SOON, Stage, ready};

fn proxy(view: &str) -> String {
    format!("/apis/view.fieldcache.dev/v1alpha1/views/{view}/proxy")
}

/// Two Views of the shirts in two namespaces, and the permissions of users.
struct Scene {
    stage: Stage,
    operator: Fieldcache,
    /// May use the View `own`.
    tailor: String,
    /// May read shirts in team-a.
    reader: String,
    /// May do nothing but what every user may.
    stranger: String,
}

impl Scene {
    async fn set() -> Result<Scene> {
        let stage = Stage::start().await?;
        stage.apply("walk-through/shirts-cache.yaml").await?;
        let shirts = json!({ "group": "stable.example.com", "resource": "shirts", "namespaces": ["team-a", "team-b"] });
        for (name, authorization) in [("own", "View"), ("callers", "Caller")] {
            let view = json!({
                "apiVersion": "fieldcache.dev/v1alpha1", "kind": "View", "metadata": { "name": name },
                "spec": { "authorization": authorization, "resources": [shirts] },
            });
            stage.apply_this(&format!("{name}.json"), &view).await?;
        }
        for name in ["tailor", "reader", "stranger"] {
            stage.kubectl.succeed(&["create", "serviceaccount", name, "-n", "team-a"]).await?;
        }
        grant(&stage, "uses-own", may_use("own"), account("team-a", "tailor")).await?;
        let reads = ["create", "role", "reads-shirts", "-n", "team-a", "--verb=get,list,watch", "--resource=shirts"];
        stage.kubectl.succeed(&reads).await?;
        let bound = "--serviceaccount=team-a:reader";
        let binding = ["create", "rolebinding", "reads-shirts", "-n", "team-a", "--role=reads-shirts", bound];
        stage.kubectl.succeed(&binding).await?;
        let operator = stage.operator("one").await?;
        ready(&operator, &stage.administrator(&operator)?).await?;
        let done = stage.kubectl.succeed(&["wait", "--for=condition=Ready", "--timeout=180s", "view", "--all"]).await;
        done.with_context(|| operator.process().tail())?;
        let token = async |name: &str| stage.token("team-a", name, Some("fieldcache.dev")).await;
        let (tailor, reader, stranger) = (token("tailor").await?, token("reader").await?, token("stranger").await?);
        let scene = Scene { stage, operator, tailor, reader, stranger };
        // New permissions may not be known yet.
        for (token, path) in [
            (&scene.tailor, format!("{}{SHIRTS}", proxy("own"))),
            (&scene.reader, format!("{}/apis/stable.example.com/v1/namespaces/team-a/shirts", proxy("callers"))),
        ] {
            let client = scene.client(token)?;
            eventually("the caller may", SOON, async || client.get_json(&path).await).await?;
        }
        Ok(scene)
    }

    fn client(&self, token: &str) -> Result<Client> {
        with_token(&self.stage, &self.operator, token)
    }

    /// kubectl of a user whose server is a View.
    fn kubectl(&self, token: &str, view: &str) -> Result<Kubectl> {
        let authority = self.stage.folder.path().join("ca.crt");
        let kubeconfig = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "view",
            "clusters": [{ "name": "view", "cluster": {
                "server": format!("{}{}", self.operator.address(), proxy(view)), "certificate-authority": authority } }],
            "users": [{ "name": "somebody", "user": { "token": token } }],
            "contexts": [{ "name": "view", "context": { "cluster": "view", "user": "somebody", "namespace": "team-a" } }],
        });
        let name = format!("{view}-kubeconfig-{}", token.len());
        Kubectl::with_kubeconfig(&self.stage.folder.write(&name, kubeconfig.to_string())?)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn kubectl_auth_answers_for_the_view() -> Result<()> {
    let scene = Scene::set().await?;
    let rows: [(&str, &str, &str, &[&str], &str); 15] = [
        ("tailor", &scene.tailor, "own", &["list", "shirts"], "yes"),
        ("tailor", &scene.tailor, "own", &["get", "shirts/example1"], "yes"),
        ("tailor", &scene.tailor, "own", &["watch", "shirts", "-A"], "yes"),
        ("tailor", &scene.tailor, "own", &["get", "shirts", "--subresource=status"], "yes"),
        (
            "tailor",
            &scene.tailor,
            "own",
            &["delete", "shirts"],
            "no - the View own does not serve the verb delete for the resource shirts.stable.example.com",
        ),
        ("tailor", &scene.tailor, "own", &["list", "pods"], "no - the View own does not serve the resource pods"),
        ("tailor", &scene.tailor, "own", &["*", "*"], "no - the View own does not serve the resource *"),
        ("tailor", &scene.tailor, "own", &["get", "/version"], "yes"),
        (
            "tailor",
            &scene.tailor,
            "own",
            &["get", "/metrics"],
            "no - the View own does not serve the verb get for the path /metrics",
        ),
        ("tailor", &scene.tailor, "own", &["create", "selfsubjectaccessreviews.authorization.k8s.io"], "yes"),
        ("reader", &scene.reader, "callers", &["list", "shirts"], "yes"),
        (
            "reader",
            &scene.reader,
            "callers",
            &["list", "shirts", "-n", "team-b"],
            "no - the View callers needs the caller's own permission",
        ),
        (
            "reader",
            &scene.reader,
            "callers",
            &["list", "shirts", "-A"],
            "no - the View callers needs the caller's own permission",
        ),
        (
            "stranger",
            &scene.stranger,
            "callers",
            &["list", "shirts"],
            "no - the View callers needs the caller's own permission",
        ),
        ("stranger", &scene.stranger, "callers", &["get", "/apis"], "yes"),
    ];
    for (name, token, view, question, expected) in rows {
        let kubectl = scene.kubectl(token, view)?;
        let finished = kubectl.run(&[&["auth", "can-i"], question].concat()).await?;
        let what = format!("{name} at {view}: {}: {finished:?}", question.join(" "));
        ensure!(finished.stdout.starts_with(expected), "{what}");
        ensure!(finished.exit_code == i32::from(expected != "yes"), "{what}");
    }
    let kubectl = scene.kubectl(&scene.tailor, "own")?;
    let list = kubectl.run(&["auth", "can-i", "--list"]).await?;
    let row = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>().join(" ");
    let rows: Vec<String> = list.stdout.lines().map(row).collect();
    for expected in [
        "shirts.stable.example.com [] [] [get list watch]",
        "selfsubjectreviews.authentication.k8s.io [] [] [create]",
        "selfsubjectaccessreviews.authorization.k8s.io [] [] [create]",
        "[/apis/stable.example.com/v1] [] [get]",
        "[/openapi/v3/*] [] [get]",
    ] {
        ensure!(rows.iter().any(|row| row == expected), "{expected}: {list:?}");
    }
    ensure!(list.exit_code == 0 && list.stderr.is_empty(), "{list:?}");
    let partial = scene.kubectl(&scene.stranger, "callers")?.run(&["auth", "can-i", "--list"]).await?;
    ensure!(!partial.stdout.contains("shirts.stable"), "{partial:?}");
    ensure!(partial.stderr.contains("permissions for single object names are not listed"), "{partial:?}");
    let who: Value = serde_json::from_str(&kubectl.succeed(&["auth", "whoami", "-o", "json"]).await?)?;
    let user = &who["status"]["userInfo"];
    ensure!(user["username"] == "system:serviceaccount:team-a:tailor", "{who}");
    ensure!(user["groups"].as_array().is_some_and(|groups| groups.contains(&json!("system:authenticated"))), "{who}");
    ensure!(user["uid"].is_string() && user["extra"].is_object(), "{who}");
    let table = kubectl.succeed(&["auth", "whoami"]).await?;
    ensure!(table.lines().any(|line| row(line) == "Username system:serviceaccount:team-a:tailor"), "{table}");
    Ok(())
}

/// Whether a request is permitted and served: of an object, also where it is missing.
async fn is_served(client: &Client, method: Method, path: &str) -> Result<bool> {
    let answer = client.send(Request::new(method, path)).await?;
    Ok(match answer.status.as_u16() {
        200 => true,
        404 => answer.json().is_ok_and(|status| status["details"]["name"].is_string()),
        403 | 405 => false,
        _ => anyhow::bail!("{path}: {answer:?}"),
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn an_access_review_is_answered_like_the_request_that_it_is_about() -> Result<()> {
    let scene = Scene::set().await?;
    grant(&scene.stage, "reads-example1", json!([{
        "apiGroups": ["stable.example.com"], "resources": ["shirts"], "resourceNames": ["example1"], "verbs": ["get"],
    }]), user("system:serviceaccount:team-a:stranger")).await?;
    let named = "/apis/stable.example.com/v1/namespaces/team-b/shirts/example1";
    let client = scene.client(&scene.stranger)?;
    eventually("the permission for one name", SOON, async || {
        ensure!(is_served(&client, Method::GET, &format!("{}{named}", proxy("callers"))).await?);
        Ok(())
    })
    .await?;
    let (mut allowed, mut denied) = (0, 0);
    for (token, view) in [(&scene.tailor, "own"), (&scene.reader, "callers"), (&scene.stranger, "callers")] {
        let client = scene.client(token)?;
        for (group, version, resource) in
            [("stable.example.com", "v1", "shirts"), ("stable.example.com", "v9", "shirts"), ("", "v1", "pods")]
        {
            for namespace in ["", "team-a", "team-b", "default"] {
                for (verb, name) in [
                    ("get", "example1"),
                    ("get", "none"),
                    ("list", ""),
                    ("watch", ""),
                    ("create", ""),
                    ("delete", "example1"),
                ] {
                    if namespace.is_empty() && !name.is_empty() {
                        continue;
                    }
                    let root =
                        if group.is_empty() { format!("/api/{version}") } else { format!("/apis/{group}/{version}") };
                    let place = if namespace.is_empty() { String::new() } else { format!("/namespaces/{namespace}") };
                    let below = if name.is_empty() { String::new() } else { format!("/{name}") };
                    let query = if verb == "watch" { "?watch=true&timeoutSeconds=1" } else { "" };
                    let path = format!("{}{root}{place}/{resource}{below}{query}", proxy(view));
                    let method = match verb {
                        "create" => Method::POST,
                        "delete" => Method::DELETE,
                        _ => Method::GET,
                    };
                    let served = is_served(&client, method, &path).await?;
                    let review = json!({ "spec": { "resourceAttributes": {
                        "verb": verb, "group": group, "version": version, "resource": resource, "namespace": namespace, "name": name,
                    } } });
                    let reviews = format!("{}/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", proxy(view));
                    let answer = client.send(Request::new(Method::POST, reviews).json(&review)).await?;
                    ensure!(answer.status == 201, "{answer:?}");
                    let status = answer.json()?["status"].take();
                    ensure!(status["allowed"] == served, "{verb} {path}: {status} instead of {served}");
                    *(if served { &mut allowed } else { &mut denied }) += 1;
                }
            }
        }
    }
    ensure!(allowed > 20 && denied > 100, "both occur: {allowed} {denied}");
    Ok(())
}
