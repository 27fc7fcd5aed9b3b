//! Which kubeconfig is read, and which user it has.

#![expect(clippy::disallowed_methods, reason = "these tests write files")]

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::super::connection::ClusterOptions;
use super::super::kubeconfig::{identity, merged};

/// A directory that goes with the test.
struct Directory(PathBuf);

impl Directory {
    fn new(name: &str) -> Directory {
        let path = std::env::temp_dir().join(format!("fieldcache-kubeconfig-{}-{name}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Directory(path)
    }

    fn write(&self, name: &str, document: &Value) -> PathBuf {
        let path = self.0.join(name);
        fs::write(&path, document.to_string()).unwrap();
        path
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _left_for_the_system = fs::remove_dir_all(&self.0);
    }
}

fn kubeconfig(context: &str, user: &Value) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Config", "current-context": context,
        "clusters": [{ "name": "here", "cluster": { "server": "https://127.0.0.1:1" } }],
        "users": [{ "name": format!("{context}-user"), "user": user }],
        "contexts": [{ "name": context, "context": { "cluster": "here", "user": format!("{context}-user"), "namespace": context } }],
    })
}

fn options(path: &Path, context: Option<&str>) -> ClusterOptions {
    ClusterOptions { kubeconfig: Some(path.to_owned()), context: context.map(str::to_owned), server: None }
}

#[test]
fn a_user_is_carried_over_whole_with_absolute_file_names() {
    let directory = Directory::new("users");
    let here = |name: &str| directory.0.join(name).display().to_string();
    for (user, expected, why) in [
        (json!({}), json!({}), "nobody"),
        (json!({ "token": "secret" }), json!({ "token": "secret" }), "a token"),
        (json!({ "tokenFile": "t" }), json!({ "tokenFile": here("t") }), "a token in a file beside it"),
        (json!({ "tokenFile": "/t" }), json!({ "tokenFile": "/t" }), "a token in a file elsewhere"),
        (
            json!({ "client-certificate": "a/b.crt", "client-key": "../b.key" }),
            json!({ "client-certificate": here("a/b.crt"), "client-key": here("../b.key") }),
            "a certificate in files",
        ),
        (
            json!({ "client-certificate-data": "Yg==", "client-key-data": "aw==" }),
            json!({ "client-certificate-data": "Yg==", "client-key-data": "aw==" }),
            "a certificate inside",
        ),
        (json!({ "username": "u", "password": "p" }), json!({ "username": "u", "password": "p" }), "a password"),
        (
            json!({ "exec": { "apiVersion": "client.authentication.k8s.io/v1", "command": "./login", "args": ["-x"], "env": [{ "name": "A", "value": "b" }], "interactiveMode": "Never", "provideClusterInfo": true, "installHint": "hint" } }),
            json!({ "exec": { "apiVersion": "client.authentication.k8s.io/v1", "command": here("./login"), "args": ["-x"], "env": [{ "name": "A", "value": "b" }], "interactiveMode": "Never", "provideClusterInfo": true, "installHint": "hint" } }),
            "a program beside it, with all its arguments",
        ),
        (
            json!({ "exec": { "apiVersion": "client.authentication.k8s.io/v1", "command": "aws", "interactiveMode": "IfAvailable", "provideClusterInfo": false } }),
            json!({ "exec": { "apiVersion": "client.authentication.k8s.io/v1", "command": "aws", "interactiveMode": "IfAvailable", "provideClusterInfo": false } }),
            "a program on the path",
        ),
        (json!({ "as": "eve", "as-groups": ["g"] }), json!({ "as": "eve", "as-groups": ["g"] }), "somebody else"),
    ] {
        let path = directory.write("config", &kubeconfig("team", &user));
        let found = identity(&options(&path, None)).unwrap();
        assert_eq!(found.user, expected, "{why}");
        assert_eq!(found.namespace.as_deref(), Some("team"), "{why}");
    }
}

#[test]
fn a_context_that_is_not_there_is_named() {
    let directory = Directory::new("contexts");
    let path = directory.write("config", &kubeconfig("one", &json!({ "token": "t" })));
    let empty = directory.write("empty", &json!({ "apiVersion": "v1", "kind": "Config" }));
    let text = directory.write("text", &json!("just text"));
    for (options, expected, why) in [
        (options(&path, Some("two")), "there is no context \"two\"", "another context"),
        (options(&empty, None), "no current context", "no context at all"),
        (options(&text, None), "text", "no kubeconfig"),
        (options(&directory.0.join("none"), None), "none", "no file"),
    ] {
        let error = identity(&options).unwrap_err().to_string();
        assert!(error.contains(expected) && error.contains("--kubeconfig"), "{why}: {error}");
    }
}

#[test]
fn files_that_do_not_exist_are_passed_over_as_kubectl_does() {
    let directory = Directory::new("merged");
    let one = directory.write("one", &kubeconfig("one", &json!({ "token": "1" })));
    let two = directory.write("two", &kubeconfig("two", &json!({ "token": "2" })));
    let broken = directory.write("broken", &json!([1]));
    let missing = directory.0.join("missing");
    for (paths, expected, why) in [
        (vec![], None, "none"),
        (vec![missing.clone()], None, "one that is missing"),
        (vec![missing.clone(), two.clone()], Some(("two", 1)), "the second"),
        (vec![one.clone(), two.clone()], Some(("one", 2)), "both, the first says which"),
        (vec![two, missing, one], Some(("two", 2)), "the other way round"),
    ] {
        let found = merged(&paths).unwrap();
        let found = found.current_context.as_deref().map(|current| (current, found.contexts.len()));
        assert_eq!(found, expected, "{why}");
    }
    assert!(merged(&[broken]).is_err(), "one that is broken is no missing one");
}
