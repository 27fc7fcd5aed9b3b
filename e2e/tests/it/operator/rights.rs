//! Views with `authorization: View`: the permission to use one is enough. Only users who may read what it shows may write it, or a
//! FieldCache that it depends on. Without the admission policies that ensure this it is not served.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use e2e::eventually::eventually;
use e2e::fieldcache::Fieldcache;
use e2e::http::{Client, Endpoint};
use e2e::kubectl::Kubectl;
use serde_json::{Value, json};

use super::{SHIRTS, SOON, Stage, names, ready};

/// How long what was refused may take until it is requested again: the pauses between tries become long while the API server is away.
const LATE: Duration = Duration::from_secs(180);

const PROXY: &str = "/apis/view.fieldcache.dev/v1alpha1/views/blue/proxy";
const POLICY: &str = "validatingadmissionpolicy/views.fieldcache.dev";
const BINDING: &str = "validatingadmissionpolicybinding/views.fieldcache.dev";
const CACHE_POLICY: &str = "validatingadmissionpolicy/fieldcaches.fieldcache.dev";
const CACHE_BINDING: &str = "validatingadmissionpolicybinding/fieldcaches.fieldcache.dev";

/// Group and plural of a resource.
type Named = (&'static str, &'static str);

fn view(name: &str, authorization: &str, resources: &[Named]) -> Value {
    let resources: Vec<Value> =
        resources.iter().map(|(group, resource)| json!({ "group": group, "resource": resource })).collect();
    json!({
        "apiVersion": "fieldcache.dev/v1alpha1", "kind": "View", "metadata": { "name": name },
        "spec": { "authorization": authorization, "resources": resources },
    })
}

fn blue() -> Value {
    let mut view = view("blue", "View", &[("stable.example.com", "shirts")]);
    let requirement = json!({ "key": "spec.color", "operator": "In", "values": ["blue"] });
    view["spec"]["resources"][0]["fieldSelector"] = json!({ "matchExpressions": [requirement] });
    view
}

/// A ClusterRole of these rules, bound to a subject.
pub(super) async fn grant(stage: &Stage, name: &str, rules: Value, subject: Value) -> Result<()> {
    let metadata = json!({ "name": name });
    let rbac = "rbac.authorization.k8s.io";
    let role =
        json!({ "apiVersion": format!("{rbac}/v1"), "kind": "ClusterRole", "metadata": metadata, "rules": rules });
    let binding = json!({
        "apiVersion": format!("{rbac}/v1"), "kind": "ClusterRoleBinding", "metadata": metadata, "subjects": [subject],
        "roleRef": { "apiGroup": rbac, "kind": "ClusterRole", "name": name },
    });
    stage.apply_this(&format!("{name}-role.json"), &role).await?;
    stage.apply_this(&format!("{name}-binding.json"), &binding).await?;
    Ok(())
}

pub(super) fn account(namespace: &str, name: &str) -> Value {
    json!({ "kind": "ServiceAccount", "namespace": namespace, "name": name })
}

pub(super) fn user(name: &str) -> Value {
    json!({ "apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": name })
}

/// The right to use a View.
pub(super) fn may_use(view: &str) -> Value {
    json!([{ "apiGroups": ["fieldcache.dev"], "resources": ["views"], "resourceNames": [view], "verbs": ["use"] }])
}

/// A client with this token.
pub(super) fn with_token(stage: &Stage, operator: &Fieldcache, token: &str) -> Result<Client> {
    let authority = std::fs::read_to_string(stage.folder.path().join("ca.crt"))?;
    Ok(Endpoint::secure(operator.address(), &authority, None)?.with_token(token)?.client())
}

#[tokio::test(flavor = "multi_thread")]
async fn the_permission_to_use_a_view_suffices_while_the_policy_is_in_force() -> Result<()> {
    let mut stage = Stage::start().await?;
    stage.apply("walk-through/shirts-cache.yaml").await?;
    stage.apply_this("blue.json", &blue()).await?;
    stage.kubectl.succeed(&["create", "serviceaccount", "tailor", "-n", "team-a"]).await?;
    let operator = stage.operator("one").await?;
    ready(&operator, &stage.administrator(&operator)?).await?;
    let done = stage.kubectl.succeed(&["wait", "--for=condition=Ready", "--timeout=180s", "view/blue"]).await;
    done.with_context(|| operator.process().tail())?;

    // The one right, and neither less nor more than the View.
    let token = stage.token("team-a", "tailor", Some("fieldcache.dev")).await?;
    let tailor = with_token(&stage, &operator, &token)?;
    let list = format!("{PROXY}{SHIRTS}");
    let refused = tailor.get(&list).await?;
    ensure!(refused.status == 403, "{refused:?}");
    let reported = refused.text();
    let expected = "shirts.stable.example.com is forbidden: User \\\"system:serviceaccount:team-a:tailor\\\" cannot list resource \\\"shirts\\\" in API group \\\"stable.example.com\\\" at the cluster scope: and cannot use the View \\\"blue\\\"";
    ensure!(reported.contains(expected), "{reported}");
    grant(&stage, "uses-blue", may_use("blue"), account("team-a", "tailor")).await?;
    let blue = ["team-a/example1", "team-a/example2", "team-b/example4"];
    eventually("a granted permission counts after ten seconds at most", SOON, async || {
        let answer = tailor.get(&list).await?;
        ensure!(answer.status == 200 && names(&answer.json()?)? == blue, "{answer:?}");
        Ok(())
    })
    .await?;
    for (path, status, why) in [
        (format!("{PROXY}/apis/stable.example.com/v1/namespaces/team-a/shirts/example1"), 200, "one object"),
        (format!("{PROXY}/apis/stable.example.com/v1/namespaces/team-a/shirts/example3"), 404, "one that is not in it"),
        (format!("{PROXY}/apis"), 200, "discovery"),
        (format!("{PROXY}/openapi/v3"), 200, "documents"),
        (format!("{PROXY}/apis/fieldcache.dev/v1alpha1/views/blue"), 404, "no other resources, not even itself"),
        (format!("{PROXY}{PROXY}{SHIRTS}"), 404, "no View in a View"),
        (SHIRTS.to_owned(), 403, "nothing outside of it"),
    ] {
        let answer = tailor.get(&path).await?;
        ensure!(answer.status == status, "{why}: {path}: {answer:?}");
    }
    let collection = format!("{PROXY}/apis/stable.example.com/v1/namespaces/team-a/shirts");
    let answer = tailor.send(e2e::http::Request::new(http::Method::DELETE, collection)).await?;
    ensure!(answer.status == 405, "the permission to use it is no permission to write: {answer:?}");

    // The policy is gone, is another one, does not deny, or holds for others only.
    let version = tailor.get_json(&list).await?["metadata"]["resourceVersion"].as_str().unwrap_or_default().to_owned();
    let mut watch = tailor.watch(&format!("{list}?watch=true&resourceVersion={version}")).await?;
    let manifest = format!("{}/view-policy.yaml", stage.manifests);
    let none = r#"[{"op":"remove","path":"/spec/validations/7"}]"#;
    let ignored = r#"[{"op":"replace","path":"/spec/failurePolicy","value":"Ignore"}]"#;
    let elsewhere =
        r#"[{"op":"replace","path":"/spec/matchConstraints/objectSelector","value":{"matchLabels":{"a":"b"}}}]"#;
    let audited = r#"[{"op":"replace","path":"/spec/validationActions","value":["Audit"]}]"#;
    let narrowed =
        r#"[{"op":"add","path":"/spec/matchResources","value":{"objectSelector":{"matchLabels":{"a":"b"}}}}]"#;
    let unquestioned = r#"[{"op":"remove","path":"/spec/validations/1"}]"#;
    let created = r#"[{"op":"replace","path":"/spec/matchConstraints/resourceRules/0/operations","value":["CREATE"]}]"#;
    let rows: [(&str, &[&str]); 13] = [
        ("the policy is deleted", &["delete", POLICY]),
        ("the binding is deleted", &["delete", BINDING]),
        ("a permission is not reviewed", &["patch", POLICY, "--type=json", "-p", none]),
        ("a question without answer is let pass", &["patch", POLICY, "--type=json", "-p", ignored]),
        ("some Views are not reviewed", &["patch", POLICY, "--type=json", "-p", elsewhere]),
        ("the answer is only noted", &["patch", BINDING, "--type=json", "-p", audited]),
        ("the binding is for some Views only", &["patch", BINDING, "--type=json", "-p", narrowed]),
        ("the policy for FieldCaches is deleted", &["delete", CACHE_POLICY]),
        ("the binding for FieldCaches is deleted", &["delete", CACHE_BINDING]),
        ("a FieldCache needs one permission only", &["patch", CACHE_POLICY, "--type=json", "-p", unquestioned]),
        ("updates of FieldCaches are not covered", &["patch", CACHE_POLICY, "--type=json", "-p", created]),
        ("FieldCaches are not denied", &["patch", CACHE_BINDING, "--type=json", "-p", audited]),
        ("the binding is for some FieldCaches only", &["patch", CACHE_BINDING, "--type=json", "-p", narrowed]),
    ];
    for (index, (what, arguments)) in rows.into_iter().enumerate() {
        stage.kubectl.succeed(arguments).await?;
        eventually(what, SOON, async || {
            let condition = stage.condition("view/blue", "Ready").await?;
            ensure!(condition["status"] == "False" && condition["reason"] == "AdmissionPolicyMissing", "{condition}");
            ensure!(
                condition["message"].as_str().is_some_and(|text| text.contains("manifests/view-policy.yaml")),
                "{condition}"
            );
            let answer = tailor.get(&list).await?;
            ensure!(answer.status == 503, "{answer:?}");
            Ok(())
        })
        .await
        .with_context(|| operator.process().tail())?;
        if index == 0 {
            let event = watch.event(SOON).await?;
            ensure!(event["type"] == "ERROR" && event["object"]["code"] == 410, "its watches end: {event}");
            let accepted = stage.condition("view/blue", "Accepted").await?;
            ensure!(accepted["status"] == "True", "the View itself is valid: {accepted}");
        }
        stage.kubectl.succeed(&["apply", "--server-side", "--force-conflicts", "-f", &manifest]).await?;
        // A member that is not in the manifest stays where others have put it.
        if [BINDING, CACHE_BINDING].contains(&arguments[1]) && arguments.len() > 2 {
            stage.kubectl.succeed(&["replace", "--force", "-f", &manifest]).await?;
        }
        eventually("the policy is there again", SOON, async || {
            let answer = tailor.get(&list).await?;
            ensure!(answer.status == 200, "{answer:?}: {what}");
            Ok(())
        })
        .await
        .with_context(|| operator.process().tail())?;
    }

    // The policy may not be read any more, so it is unknown.
    let role = stage.kubectl.succeed(&["get", "clusterrole", "fieldcache", "-o", "json"]).await?;
    let cluster_role: Value = serde_json::from_str(&role)?;
    let rules = cluster_role["rules"].as_array().context("rules")?;
    let rules: Vec<&Value> =
        rules.iter().filter(|rule| rule["apiGroups"] != json!(["admissionregistration.k8s.io"])).collect();
    let fewer = json!({ "rules": rules }).to_string();
    stage.kubectl.succeed(&["patch", "clusterrole", "fieldcache", "--type=merge", "-p", &fewer]).await?;
    // A watch that is open continues. kube-apiserver checks again when the next one begins, at the latest when it has
    // to end.
    stage.control_plane.stop_apiserver();
    stage.control_plane.start_apiserver().await?;
    eventually("what may not be read is not relied on", LATE, async || {
        let answer = tailor.get(&list).await?;
        ensure!(answer.status == 503, "{answer:?}");
        Ok(())
    })
    .await
    .with_context(|| operator.process().tail())?;
    let all = json!({ "rules": cluster_role["rules"] }).to_string();
    stage.kubectl.succeed(&["patch", "clusterrole", "fieldcache", "--type=merge", "-p", &all]).await?;
    eventually("and is again once it may", LATE, async || {
        let answer = tailor.get(&list).await?;
        ensure!(answer.status == 200, "{answer:?}");
        Ok(())
    })
    .await?;

    // The right is taken away.
    stage.kubectl.succeed(&["delete", "clusterrolebinding", "uses-blue"]).await?;
    eventually("a removed permission ends after ten seconds at most", SOON, async || {
        let answer = tailor.get(&list).await?;
        ensure!(answer.status == 403, "{answer:?}");
        Ok(())
    })
    .await
}

/// A user with the ClusterRole `fieldcache-editor` and these rules.
async fn editor(stage: &Stage, name: &str, rules: Value) -> Result<()> {
    grant(stage, name, rules, user(name)).await?;
    bind_editor(stage, name).await
}

async fn bind_editor(stage: &Stage, name: &str) -> Result<()> {
    let (binding, user) = (format!("edits-{name}"), format!("--user={name}"));
    let role = "--clusterrole=fieldcache-editor";
    stage.kubectl.succeed(&["create", "clusterrolebinding", &binding, role, &user]).await.map(drop)
}

/// The user `local`, who is an editor and may list and watch shirts in one namespace only.
async fn local_editor(stage: &Stage) -> Result<()> {
    let role = ["create", "clusterrole", "local", "--verb=list,watch", "--resource=shirts.stable.example.com"];
    stage.kubectl.succeed(&role).await?;
    let local = ["create", "rolebinding", "local", "-n", "team-a", "--clusterrole=local", "--user=local"];
    stage.kubectl.succeed(&local).await?;
    bind_editor(stage, "local").await
}

/// kubectl with the certificate of a user.
async fn as_user(stage: &Stage, name: &str) -> Result<Kubectl> {
    let (_, document) = stage.control_plane.as_user(name, None)?;
    Kubectl::with_kubeconfig(&stage.folder.write(&format!("{name}-kubeconfig"), document.to_string())?)
}

#[tokio::test(flavor = "multi_thread")]
async fn only_users_that_may_read_a_resource_may_write_a_view_with_authorization_view() -> Result<()> {
    let stage = Stage::start().await?;
    let all = ["list", "watch"];
    let rule = |group: &str, resource: &str, verbs: &[&str]| json!({ "apiGroups": [group], "resources": [resource], "verbs": verbs });
    let kinds = ["pods", "nodes", "configmaps", "services", "endpoints", "events", "namespaces"];
    let rows = [
        ("nobody", json!([])),
        ("lists", json!([rule("stable.example.com", "shirts", &["get", "list"])])),
        ("watches", json!([rule("stable.example.com", "shirts", &["get", "watch"])])),
        ("reads", json!([rule("stable.example.com", "shirts", &all)])),
        (
            "named",
            json!([{ "apiGroups": ["stable.example.com"], "resources": ["shirts"], "resourceNames": ["a"], "verbs": all }]),
        ),
        (
            "all",
            json!([rule("stable.example.com", "shirts", &all), { "apiGroups": [""], "resources": kinds, "verbs": all }]),
        ),
    ];
    for (name, rules) in rows {
        editor(&stage, name, rules).await?;
    }
    local_editor(&stage).await?;

    let shirts = ("stable.example.com", "shirts");
    let mut eight = vec![shirts];
    eight.extend(kinds.map(|kind| ("", kind)));
    let rows: [(&str, &str, &[Named], Option<usize>); 9] = [
        ("nobody", "Caller", &[shirts], None),
        ("nobody", "View", &[shirts], Some(0)),
        ("lists", "View", &[shirts], Some(0)),
        ("watches", "View", &[shirts], Some(0)),
        ("named", "View", &[shirts], Some(0)),
        ("local", "View", &[shirts], Some(0)),
        ("reads", "View", &[shirts], None),
        ("reads", "View", &[shirts, ("", "pods")], Some(1)),
        ("all", "View", &eight, None),
    ];
    // The policy works some time after it has been made.
    let nobody = as_user(&stage, "nobody").await?;
    let first = stage.folder.write("first.json", view("first", "View", &[shirts]).to_string())?;
    eventually("the policy is in force", SOON, async || {
        let ran = nobody.run(&["create", "--dry-run=server", "-f", &first.display().to_string()]).await?;
        ensure!(ran.exit_code != 0 && ran.stderr.contains("ValidatingAdmissionPolicy"), "{}{}", ran.stdout, ran.stderr);
        Ok(())
    })
    .await?;
    for (index, (name, authorization, resources, refused)) in rows.into_iter().enumerate() {
        let kubectl = as_user(&stage, name).await?;
        let own = view(&format!("v{index}"), authorization, resources);
        let file = stage.folder.write(&format!("v{index}.json"), own.to_string())?;
        let ran = kubectl.run(&["create", "-f", &file.display().to_string()]).await?;
        let row = format!("{name}: {authorization} {resources:?}: {}{}", ran.stdout, ran.stderr);
        match refused {
            None => ensure!(ran.exit_code == 0, "{row}"),
            Some(at) => {
                ensure!(ran.exit_code != 0 && ran.stderr.contains("Forbidden"), "{row}");
                ensure!(
                    ran.stderr
                        .contains(&format!("permission to list and watch spec.resources[{at}] in all namespaces")),
                    "{row}"
                );
            }
        }
    }
    // By an update neither: of one's own View, of another user's, by patch, apply, replace and edit of a list's end.
    let own = stage.folder.write("own.json", view("v0", "View", &[shirts]).to_string())?.display().to_string();
    let right = r#"{"spec":{"authorization":"View"}}"#;
    let more = r#"[{"op":"add","path":"/spec/resources/-","value":{"group":"","resource":"secrets"}}]"#;
    let attempts: [(&str, &[&str]); 5] = [
        ("nobody", &["patch", "view/v0", "--type=merge", "-p", right]),
        ("nobody", &["replace", "-f", &own]),
        ("nobody", &["apply", "--server-side", "--force-conflicts", "-f", &own]),
        ("nobody", &["annotate", "view/v6", "a=b"]),
        ("reads", &["patch", "view/v6", "--type=json", "-p", more]),
    ];
    for (name, arguments) in attempts {
        let ran = as_user(&stage, name).await?.run(arguments).await?;
        let is_refused = ran.exit_code != 0 && ran.stderr.contains("you need permission to list and watch");
        ensure!(is_refused, "{name}: {arguments:?}: {}{}", ran.stdout, ran.stderr);
    }
    let kept = stage.kubectl.succeed(&["get", "view/v0", "-o", "jsonpath={.spec.authorization}"]).await?;
    ensure!(kept == "Caller", "{kept}");
    Ok(())
}

/// A FieldCache of a resource, with one extra field and, if requested, a scope.
fn field_cache((group, resource): Named, path: &str, is_scoped: bool) -> Value {
    let name = if group.is_empty() { resource.to_owned() } else { format!("{resource}.{group}") };
    let mut cache = json!({
        "apiVersion": "fieldcache.dev/v1alpha1", "kind": "FieldCache", "metadata": { "name": name },
        "spec": { "group": group, "resource": resource, "selectableFields": [{ "name": "level", "jsonPath": path }] },
    });
    if is_scoped {
        cache["spec"]["scope"] = json!({ "labelSelector": { "matchLabels": { "team": "a" } } });
    }
    cache
}

#[tokio::test(flavor = "multi_thread")]
async fn only_users_who_may_read_a_resource_may_write_its_field_cache() -> Result<()> {
    const CACHE: &str = "fieldcache/shirts.stable.example.com";
    let stage = Stage::start().await?;
    let rule = |verbs: &[&str]| json!({ "apiGroups": ["stable.example.com"], "resources": ["shirts"], "verbs": verbs });
    let all = ["list", "watch"];
    let named =
        json!([{ "apiGroups": ["stable.example.com"], "resources": ["shirts"], "resourceNames": ["a"], "verbs": all }]);
    for (name, rules) in [
        ("nobody", json!([])),
        ("lists", json!([rule(&["get", "list"])])),
        ("watches", json!([rule(&["get", "watch"])])),
        ("named", named),
        ("reads", json!([rule(&all)])),
    ] {
        editor(&stage, name, rules).await?;
    }
    local_editor(&stage).await?;
    let shirts = ("stable.example.com", "shirts");
    let write = |name: &str, cache: Value| -> Result<String> {
        Ok(stage.folder.write(name, cache.to_string())?.display().to_string())
    };
    let scoped = write("scoped.json", field_cache(shirts, "$.spec.color", true))?;
    let redefined = write("redefined.json", field_cache(shirts, "$.spec.size", true))?;
    let pods = write("pods.json", field_cache(("", "pods"), "$.spec.nodeName", false))?;
    let list = "permission to list shirts.stable.example.com in all namespaces";
    let watch = "permission to watch shirts.stable.example.com in all namespaces";
    let denied = async |name: &str, arguments: &[&str], expected: &str| -> Result<()> {
        let ran = as_user(&stage, name).await?.run(arguments).await?;
        let is_denied = ran.exit_code != 0 && ran.stderr.contains("fieldcaches.fieldcache.dev' denied request");
        let row = format!("{name}: {arguments:?}: {}{}", ran.stdout, ran.stderr);
        ensure!(is_denied && ran.stderr.contains("orbidden") && ran.stderr.contains(expected), "{row}");
        Ok(())
    };
    let allowed = async |name: &str, arguments: &[&str]| as_user(&stage, name).await?.succeed(arguments).await;

    // A policy is in force some time after it was created, its watches some time after that.
    eventually("the policy is in force", SOON, async || {
        denied("nobody", &["create", "--dry-run=server", "-f", &scoped], list).await
    })
    .await?;
    for (name, expected) in [("nobody", list), ("lists", watch), ("watches", list), ("named", list), ("local", list)] {
        denied(name, &["create", "-f", &scoped], expected).await?;
    }
    denied("reads", &["create", "-f", &pods], "permission to list pods in all namespaces").await?;
    allowed("reads", &["create", "-f", &scoped]).await?;

    // Each kind of update that can make a View show more, and others.
    let field = r#"{"spec":{"selectableFields":[{"name":"level","jsonPath":"$.metadata.annotations.missing"}]}}"#;
    let no_fields = r#"{"spec":{"selectableFields":null}}"#;
    let no_scope = r#"{"spec":{"scope":null}}"#;
    for (name, expected) in [("nobody", list), ("lists", watch), ("watches", list), ("named", list), ("local", list)] {
        let attempts: [&[&str]; 8] = [
            &["patch", CACHE, "--type=merge", "-p", field],
            &["patch", CACHE, "--type=merge", "-p", no_fields],
            &["patch", CACHE, "--type=merge", "-p", no_scope],
            &["replace", "-f", &redefined],
            &["apply", "--server-side", "--force-conflicts", "-f", &redefined],
            &["annotate", CACHE, "a=b"],
            // The store of a resource that --resource names remains, without the scope.
            &["delete", CACHE],
            &["delete", "fieldcaches", "--all"],
        ];
        for arguments in attempts {
            denied(name, arguments, expected).await?;
        }
    }
    let cache = stage.kubectl.succeed(&["get", CACHE, "-o", "json"]).await?;
    let cache: Value = serde_json::from_str(&cache)?;
    ensure!(cache["spec"] == field_cache(shirts, "$.spec.color", true)["spec"], "{cache}");
    ensure!(cache["metadata"]["deletionTimestamp"].is_null() && cache["metadata"]["annotations"].is_null(), "{cache}");

    allowed("reads", &["replace", "-f", &redefined]).await?;
    allowed("reads", &["patch", CACHE, "--type=merge", "-p", field]).await?;
    allowed("reads", &["patch", CACHE, "--type=merge", "-p", no_scope]).await?;
    // Without the FieldCache, Views that depend on it are not served.
    allowed("nobody", &["delete", CACHE]).await?;
    allowed("reads", &["create", "-f", &scoped]).await?;
    allowed("reads", &["delete", CACHE]).await?;
    Ok(())
}
