//! `fieldcache kubeconfig` without a cluster: what a View's status says about where it is, and the document made of it.

use k8s_openapi::ByteString;
use serde_json::{Value, json};

use super::super::kubeconfig::{PrintedKubeconfig, ViewServer, credentials, document, endpoint};
use super::super::output::printed;
use super::super::shared_arguments::OutputFormat;
use crate::kinds::{Endpoint, View};
use crate::source::kubeconfig::KubeconfigIdentity;

fn view(conditions: &Value, endpoint: &Value) -> View {
    serde_json::from_value(json!({
        "apiVersion": "fieldcache.dev/v1alpha1", "kind": "View", "metadata": { "name": "blue" },
        "spec": { "resources": [{ "resource": "pods" }] },
        "status": { "conditions": conditions, "endpoint": endpoint },
    }))
    .unwrap()
}

fn condition(kind: &str, status: &str, reason: &str, message: &str) -> Value {
    json!({ "type": kind, "status": status, "reason": reason, "message": message, "lastTransitionTime": "2026-01-02T03:04:05Z" })
}

#[test]
fn a_view_that_is_not_served_says_why_and_what_to_do() {
    let there = json!({ "url": "https://a:1/x" });
    let ready = condition("Ready", "True", "Served", "");
    for (conditions, endpoint_document, expected, why) in [
        (json!([]), Value::Null, vec!["\"blue\"", "no operator", "get pods"], "no operator has seen it"),
        (
            json!([condition("Accepted", "False", "NotSupported", "a consumer is not supported"), ready.clone()]),
            there.clone(),
            vec!["\"blue\" is not accepted: NotSupported: a consumer is not supported", "kubectl edit view blue"],
            "its spec is refused",
        ),
        (
            json!([
                condition("Accepted", "True", "Valid", ""),
                condition("Ready", "False", "Loading", "shirts: 5 of 9")
            ]),
            there.clone(),
            vec!["\"blue\" is not ready: Loading: shirts: 5 of 9", "kubectl wait --for=condition=Ready view/blue"],
            "it is not ready yet",
        ),
        (
            json!([condition("Ready", "Unknown", "NoLeader", "nobody")]),
            there,
            vec!["not ready: NoLeader: nobody"],
            "unknown",
        ),
        (json!([ready]), Value::Null, vec!["no endpoint", "kubectl describe view blue"], "no endpoint"),
    ] {
        let error = endpoint(&view(&conditions, &endpoint_document), "blue").unwrap_err().to_string();
        for part in expected {
            assert!(error.contains(part), "{why}: {error} does not say {part}");
        }
    }
    let conditions = json!([condition("Accepted", "True", "Valid", ""), condition("Ready", "True", "Served", "")]);
    let served = view(&conditions, &json!({ "url": "https://a:1/x" }));
    assert_eq!(endpoint(&served, "blue").unwrap().url, "https://a:1/x");
}

#[test]
fn the_cluster_is_the_endpoint_or_a_way_to_it() {
    const VIEW: &str = "https://fieldcache.fieldcache-system.svc/apis/view.fieldcache.dev/v1alpha1/views/blue/proxy";
    let path = "/apis/view.fieldcache.dev/v1alpha1/views/blue/proxy";
    let bundle = || Some(ByteString(b"PEM".to_vec()));
    let name = json!("fieldcache.fieldcache-system.svc");
    for (url, server, expected, why) in [
        (VIEW, None, json!({ "server": VIEW, "certificate-authority-data": "UEVN" }), "the endpoint itself"),
        (
            VIEW,
            Some("https://127.0.0.1:8443"),
            json!({ "server": format!("https://127.0.0.1:8443{path}"), "certificate-authority-data": "UEVN", "tls-server-name": name }),
            "a port-forward: the View's path, and the certificate's name",
        ),
        (
            VIEW,
            Some("https://[::1]:8443/"),
            json!({ "server": format!("https://[::1]:8443{path}"), "certificate-authority-data": "UEVN", "tls-server-name": name }),
            "an address of IPv6, and a slash that is no path",
        ),
        (
            VIEW,
            Some("https://fieldcache.fieldcache-system.svc:8443/other/"),
            json!({ "server": "https://fieldcache.fieldcache-system.svc:8443/other", "certificate-authority-data": "UEVN" }),
            "another port and path of the same host",
        ),
        (
            VIEW,
            Some("http://127.0.0.1:8181"),
            json!({ "server": format!("http://127.0.0.1:8181{path}") }),
            "not encrypted",
        ),
        (
            "https://[fd00::1]:8443",
            Some("https://localhost:1"),
            json!({ "server": "https://localhost:1", "certificate-authority-data": "UEVN", "tls-server-name": "fd00::1" }),
            "an endpoint without a path, by address",
        ),
    ] {
        let endpoint = Endpoint { url: url.to_owned(), ca_bundle: bundle() };
        let place = ViewServer::new(&endpoint, server).unwrap();
        let own = KubeconfigIdentity { user: json!({ "token": "t" }), namespace: None };
        let document = document("blue", &place, own);
        assert_eq!(document["clusters"][0], json!({ "name": "fieldcache-blue", "cluster": expected }), "{why}");
        let user =
            if expected["server"].as_str().unwrap().starts_with("https") { json!({ "token": "t" }) } else { json!({}) };
        assert_eq!(document["users"][0], json!({ "name": "fieldcache-blue", "user": user }), "{why}");
    }
    let endpoint = Endpoint { url: VIEW.to_owned(), ca_bundle: None };
    for server in ["127.0.0.1:8443", "ftp://a", "https://", "a b", "/apis"] {
        let error = format!("{:#}", ViewServer::new(&endpoint, Some(server)).unwrap_err());
        assert!(error.contains("--server") && error.contains(server), "{server}: {error}");
    }
}

#[test]
fn the_whole_document_is_a_kubeconfig() {
    let endpoint = Endpoint { url: "https://a:1".to_owned(), ca_bundle: None };
    let own = KubeconfigIdentity { user: json!({ "tokenFile": "/t" }), namespace: Some("team-a".to_owned()) };
    let expected = json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{ "name": "fieldcache-blue", "cluster": { "server": "https://a:1" } }],
        "users": [{ "name": "fieldcache-blue", "user": { "tokenFile": "/t" } }],
        "contexts": [{ "name": "fieldcache-blue", "context": { "cluster": "fieldcache-blue", "user": "fieldcache-blue", "namespace": "team-a" } }],
        "current-context": "fieldcache-blue",
    });
    assert_eq!(document("blue", &ViewServer::new(&endpoint, None).unwrap(), own), expected);
    let read = kube::config::Kubeconfig::from_yaml(&printed(&PrintedKubeconfig(expected.clone()), OutputFormat::Yaml))
        .unwrap();
    assert_eq!(serde_json::to_value(read).unwrap(), expected, "as kube-rs reads it");
    let text = |output| printed(&PrintedKubeconfig(expected.clone()), output);
    assert_eq!(text(OutputFormat::Name), "fieldcache-blue\n");
    let [table, wide] = [OutputFormat::Table, OutputFormat::Wide].map(text);
    assert!(table.ends_with(" team-a\n") && wide.ends_with(" https://a:1\n"), "{wide}");
}

#[test]
fn tokens_for_the_api_server_are_not_copied() {
    let place = ViewServer::new(&Endpoint { url: "https://a:1".to_owned(), ca_bundle: None }, None).unwrap();
    let certificate = json!({ "client-certificate-data": "x", "client-key-data": "y" });
    for (user, allowed, expected, why) in [
        (certificate.clone(), false, Ok(certificate.clone()), "a certificate"),
        (
            json!({ "client-certificate": "x", "client-key": "y", "token": "t", "as": "bob" }),
            false,
            Ok(json!({ "client-certificate": "x", "client-key": "y" })),
            "a certificate and a token",
        ),
        (json!({ "token": "t" }), false, Err("its token"), "a token"),
        (json!({ "exec": {} }), false, Err("its exec"), "a program that makes tokens"),
        (json!({ "tokenFile": "/t" }), false, Err("its tokenFile"), "a token in a file"),
        (json!({ "username": "u", "password": "p" }), false, Err("its username"), "a password"),
        (json!({ "token": "t" }), true, Ok(json!({ "token": "t" })), "explicitly allowed"),
        (json!({}), false, Ok(json!({})), "nothing"),
    ] {
        match (credentials(user, &place, allowed), expected) {
            (Ok(kept), Ok(expected)) => assert_eq!(kept, expected, "{why}"),
            (Err(error), Err(part)) => {
                let text = error.to_string();
                for part in [part, "https://a:1", "audience fieldcache.dev", "--service-account", "--token-file"] {
                    assert!(text.contains(part), "{why}: {text} does not say {part}");
                }
            }
            (found, expected) => panic!("{why}: {found:?} instead of {expected:?}"),
        }
    }
}
