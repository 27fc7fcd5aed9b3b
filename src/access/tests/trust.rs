//! Whom the cluster trusts: the ConfigMap read, followed, and what a front proxy tells.

use std::sync::Arc;
use std::time::Duration;

use http::{HeaderMap, HeaderName, HeaderValue};
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

use super::certificates::authority;
use super::{Reviewer, Says};
use crate::access::front_proxy::{described, strip};
use crate::access::trust::{Trust, follow};

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
fn what_is_broken_in_the_config_map_is_left_out_whole_and_told() {
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
        let (trust, told) = Trust::read(&data);
        assert_eq!((trust.clients.is_some(), trust.front_proxy.is_some()), (clients, front_proxy), "{what}");
        assert_eq!(told.len(), problems, "{what}: {told:?}");
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
fn a_front_proxy_tells_user_groups_and_the_rest() {
    let pem = authority("a").pem();
    let proxy = Trust::read(&config_map(&pem, &pem)).0.front_proxy.unwrap();
    let told = described(
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
    let told = told.unwrap();
    assert_eq!((&*told.user, &*told.uid), ("zoë", "7"));
    assert_eq!(told.groups, ["a", "b, c"]);
    let extra: Vec<(&str, &[String])> = told.extra.iter().map(|(key, values)| (&**key, &**values)).collect();
    let texts = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
    let expected = [("acme.com/project", texts(&["p"])), ("odd%zz", texts(&["q"])), ("scopes", texts(&["x", "y"]))];
    assert_eq!(extra, expected.iter().map(|(key, values)| (*key, &**values)).collect::<Vec<_>>());
    assert_eq!(described(&proxy, &headers(&[("X-Other-User", "other")])).unwrap().user, "other");
    assert_eq!(described(&proxy, &headers(&[("X-Remote-User", ""), ("X-Remote-Group", "a")])), None);
    assert_eq!(described(&proxy, &HeaderMap::new()), None);
}

#[test]
fn no_request_keeps_what_it_said_of_its_user() {
    let pem = authority("a").pem();
    let proxy = Trust::read(&config_map(&pem, &pem)).0.front_proxy;
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

fn event(kind: &str, data: &Value) -> Value {
    json!({"type": kind, "object": {"data": data}})
}

#[tokio::test(start_paused = true)]
async fn the_config_map_is_followed_through_outages() {
    let (one, other) = (authority("one").pem(), authority("other").pem());
    let reviewer = Reviewer::new(|_, _| Says::Nothing("refused"));
    let trust = watch::Sender::new(Arc::new(Trust::default()));
    let followed = async {
        let mut changes = trust.subscribe();
        let mut next = async || {
            let changed = timeout(Duration::from_secs(120), changes.changed()).await;
            changed.is_ok().then(|| changes.borrow_and_update().clone())
        };
        assert!(next().await.is_none(), "nobody is trusted while nothing is known");
        reviewer.now(move |_, _| Says::Answer(403, Value::Null));
        assert!(next().await.is_none());
        let data = config_map(&one, "");
        reviewer.now(move |_, _| Says::Answer(200, event("ADDED", &data)));
        let first = next().await.unwrap();
        assert!(first.clients.is_some() && first.front_proxy.is_none() && first.generation == 1);
        reviewer.now(|_, _| Says::Answer(200, event("DELETED", &Value::Null)));
        sleep(Duration::from_secs(5)).await;
        assert!(trust.borrow().clients.is_some(), "what was known stays known");
        let data = config_map(&one, &other);
        reviewer.now(move |_, _| Says::Answer(200, event("MODIFIED", &data)));
        changes.wait_for(|trust| trust.front_proxy.is_some()).await.unwrap();
    };
    tokio::select! {
        never = follow(&*reviewer, &trust) => match never {},
        () = followed => {}
    }
    // Nobody is asked without a pause.
    assert!(reviewer.count() < 120, "{}", reviewer.count());
}
