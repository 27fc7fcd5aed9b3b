//! The trusted authorities of the cluster: the ConfigMap is read and followed, with its settings of a front proxy.

use http::{HeaderMap, HeaderName, HeaderValue};
use serde_json::{Value, json};

use super::Reviewer;
use super::admission::{access, cluster};
use super::certificates::authority;
use crate::access::authentication_config::AuthenticationConfig;
use crate::access::front_proxy::{identity_from_headers, strip};

pub(super) fn config_map(clients: &str, proxies: &str) -> Value {
    json!({
        "client-ca-file": clients,
        "requestheader-client-ca-file": proxies,
        "requestheader-allowed-names": r#"["proxy","other"]"#,
        "requestheader-username-headers": r#"["X-Remote-User","X-Other-User"]"#,
        "requestheader-uid-headers": r#"["X-Remote-Uid"]"#,
        "requestheader-group-headers": r#"["X-Remote-Group"]"#,
        "requestheader-extra-headers-prefix": r#"["X-Remote-Extra-"]"#,
    })
}

#[test]
fn broken_parts_of_the_config_map_are_left_out_and_reported() {
    let (one, other) = (authority("one").pem(), authority("other").pem());
    let whole = config_map(&one, &other);
    let with = |key: &str, value: Value| {
        let mut data = whole.clone();
        data[key] = value;
        data
    };
    let rows = [
        (whole.clone(), true, true, 0, "whole"),
        (json!({}), false, false, 0, "empty"),
        (Value::Null, false, false, 0, "without data"),
        (with("client-ca-file", json!("")), false, true, 0, "no authority of clients"),
        (with("client-ca-file", json!("words")), false, true, 1, "a broken authority of clients"),
        (with("requestheader-client-ca-file", json!("words")), true, false, 1, "a broken authority of proxies"),
        (with("requestheader-uid-headers", Value::Null), true, true, 0, "before there were uids"),
        (with("requestheader-username-headers", json!("X-Remote-User")), true, false, 1, "no list"),
        (with("requestheader-group-headers", json!(r#"["a b"]"#)), true, false, 1, "no name of a header"),
        (with("requestheader-extra-headers-prefix", json!(r#"[""]"#)), true, false, 1, "every header"),
        (with("requestheader-allowed-names", json!(r#"{"a":1}"#)), true, false, 1, "names that are none"),
    ];
    for (data, clients, front_proxy, problems, what) in rows {
        let (config, reported) = AuthenticationConfig::read(&data);
        assert_eq!((config.clients.is_some(), config.front_proxy.is_some()), (clients, front_proxy), "{what}");
        assert_eq!(reported.len(), problems, "{what}: {reported:?}");
    }
}

fn headers(pairs: &[(&str, &str)]) -> HeaderMap {
    let parsed = pairs
        .iter()
        .map(|(name, value)| (name.parse::<HeaderName>().unwrap(), HeaderValue::from_bytes(value.as_bytes()).unwrap()));
    parsed.fold(HeaderMap::new(), |mut headers, (name, value)| {
        headers.append(name, value);
        headers
    })
}

#[test]
fn a_front_proxy_names_user_groups_and_extra() {
    let pem = authority("a").pem();
    let proxy = AuthenticationConfig::read(&config_map(&pem, &pem)).0.front_proxy.unwrap();
    let user = identity_from_headers(
        &proxy,
        &headers(&[
            ("X-Remote-User", "zoë"),
            ("X-Remote-User", "second"),
            ("X-Other-User", "other"),
            ("X-Remote-Uid", "7"),
            ("X-Remote-Group", "a"),
            ("x-remote-group", ""),
            ("X-REMOTE-GROUP", "b, c"),
            ("X-Remote-Extra-Scopes", "x"),
            ("X-Remote-Extra-scopes", "y"),
            ("X-Remote-Extra-Acme.Com%2Fproject", "p"),
            ("X-Remote-Extra-Odd%zz", "q"),
        ]),
    );
    let user = user.unwrap();
    assert_eq!((&*user.user, &*user.uid), ("zoë", "7"));
    assert_eq!(user.groups, ["a", "b, c"]);
    let extra: Vec<(&str, &[String])> = user.extra.iter().map(|(key, values)| (&**key, &**values)).collect();
    let texts = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
    let expected = [("acme.com/project", texts(&["p"])), ("odd%zz", texts(&["q"])), ("scopes", texts(&["x", "y"]))];
    assert_eq!(extra, expected.iter().map(|(key, values)| (*key, &**values)).collect::<Vec<_>>());
    assert_eq!(identity_from_headers(&proxy, &headers(&[("X-Other-User", "other")])).unwrap().user, "other");
    assert_eq!(identity_from_headers(&proxy, &headers(&[("X-Remote-User", ""), ("X-Remote-Group", "a")])), None);
    assert_eq!(identity_from_headers(&proxy, &HeaderMap::new()), None);
}

#[test]
fn headers_that_name_a_user_are_removed_from_every_request() {
    let pem = authority("a").pem();
    let proxy = AuthenticationConfig::read(&config_map(&pem, &pem)).0.front_proxy;
    let sent = [
        ("Authorization", "Bearer t"),
        ("X-Remote-User", "u"),
        ("X-Remote-Group", "g"),
        ("X-Remote-Uid", "7"),
        ("X-Remote-Extra-Scopes", "s"),
        ("X-Other-User", "o"),
        ("Accept", "application/json"),
        ("X-Remote", "kept"),
    ];
    for (proxy, left) in [(proxy.as_ref(), 2), (None, 3)] {
        let mut headers = headers(&sent);
        strip(&mut headers, proxy);
        assert_eq!(headers.len(), left, "{headers:?}");
        assert!(headers.contains_key("accept") && headers.contains_key("x-remote"));
    }
}

#[test]
fn each_reading_of_the_config_map_replaces_what_was_read_before() {
    let (one, other) = (authority("one").pem(), authority("other").pem());
    let access = access(&Reviewer::new(cluster), &config_map(&one, ""));
    let first = access.authentication_config();
    assert!(first.clients.is_some() && first.front_proxy.is_none() && first.generation == 1);
    access.set_authentication_config(&config_map("words", &other));
    let second = access.authentication_config();
    assert!(second.clients.is_none() && second.front_proxy.is_some() && second.generation == 2);
}
