//! Query parameters: decoding, every 400 and 422.

use std::time::Duration;

use http::Method;
use serde_json::{Value, json};

use super::{ALL_SHIRTS, Fixture, SHIRTS};
use crate::model::percent_decode;
use crate::request::Query;
use crate::selector::{FieldError, FieldErrorType};
use crate::wire::api_error::ApiError;
use crate::wire::params::{go_duration, timeout};

#[test]
fn queries_decode_as_in_go() {
    let query = Query::parse("a=1&a=2&b&c=%20+x&d;e=1&bad=%zz&=empty&f=a%3Db%26");
    for (key, expected) in [
        ("a", Some("1")),
        ("b", Some("")),
        ("c", Some("  x")),
        ("d", None),
        ("e", None),
        ("bad", None),
        ("", Some("empty")),
        ("f", Some("a=b&")),
    ] {
        assert_eq!(query.get(key), expected, "{key:?}");
    }
    assert_eq!(percent_decode("a+b%2Fc", false).as_deref(), Some("a+b/c"));
    assert_eq!(percent_decode("%e", false), None);
}

#[test]
fn flags_are_false_for_two_words_only() {
    for (text, expected) in [
        ("", false),
        ("watch", true),
        ("watch=", true),
        ("watch=banana", true),
        ("watch=0", false),
        ("watch=FALSE", false),
        ("watch=false&watch=true", false),
        ("watch=1", true),
    ] {
        assert_eq!(Query::parse(text).flag("watch"), expected, "{text}");
    }
}

#[test]
fn durations_read_as_in_go() {
    let millis = |text: &str| go_duration(text).map(|duration| duration.as_millis());
    for (text, expected) in [
        ("32s", Ok(32_000)),
        ("1m30s", Ok(90_000)),
        ("1.5s", Ok(1_500)),
        ("500ms", Ok(500)),
        ("0", Ok(0)),
        ("-5s", Ok(0)),
        ("+2s", Ok(2_000)),
        ("abc", Err("time: invalid duration \"abc\"".to_owned())),
        ("5", Err("time: missing unit in duration \"5\"".to_owned())),
        ("5x", Err("time: unknown unit \"x\" in duration \"5x\"".to_owned())),
        ("", Err("time: invalid duration \"\"".to_owned())),
        (".s", Err("time: invalid duration \".s\"".to_owned())),
    ] {
        assert_eq!(millis(text), expected, "{text:?}");
    }
    let most = Duration::from_secs(60);
    for (query, expected) in [("timeout=90s", 60), ("timeout=2s", 2), ("timeout=0", 60), ("timeout=", 60), ("", 60)] {
        assert_eq!(timeout(&Query::parse(query), most).unwrap().as_secs(), expected, "{query}");
    }
}

#[tokio::test]
async fn what_cannot_be_read_is_a_bad_request_in_upstreams_words() {
    let fixture = Fixture::new();
    let rv = "invalid resource version: resourceVersion: Invalid value";
    for (query, message) in [
        ("limit=abc", "strconv.ParseInt: parsing \"abc\": invalid syntax".to_owned()),
        ("limit=", "strconv.ParseInt: parsing \"\": invalid syntax".to_owned()),
        (
            "limit=99999999999999999999",
            "strconv.ParseInt: parsing \"99999999999999999999\": value out of range".to_owned(),
        ),
        ("timeoutSeconds=a&limit=b&labelSelector=!!", "strconv.ParseInt: parsing \"a\": invalid syntax".to_owned()),
        ("fieldSelector=nope&labelSelector=a%3Db,", "found '', expected: identifier after ','".to_owned()),
        ("fieldSelector=no+pe", "invalid selector: 'no pe'; can't understand 'no pe'".to_owned()),
        ("fieldSelector=spec.nope%3Dx", "field label not supported: spec.nope".to_owned()),
        ("resourceVersion=abc", format!("{rv}: \"abc\": strconv.ParseUint: parsing \"abc\": invalid syntax")),
        ("resourceVersion=-1", format!("{rv}: \"-1\": strconv.ParseUint: parsing \"-1\": invalid syntax")),
        (
            "continue=%25%25",
            "invalid continue token: continue key is not valid: illegal base64 data at input byte 0".to_owned(),
        ),
        ("timeout=abc", "invalid timeout specified in the request URL - time: invalid duration \"abc\"".to_owned()),
    ] {
        let answer = fixture.get(&format!("{ALL_SHIRTS}?{query}")).await;
        assert_eq!((answer.code.as_u16(), answer.message()), (400, message), "{query}");
        assert_eq!(answer.json()["reason"], "BadRequest", "{query}");
        assert_eq!(answer.json().get("details"), None, "{query}");
    }
    let hats = fixture.get("/apis/stable.example.com/v1/hats?fieldSelector=metadata.namespace%3Da").await;
    assert_eq!(hats.message(), "field label not supported: metadata.namespace");
    let mut fixture = fixture;
    fixture.put("default", "x", "blue");
    fixture.put("default", "y", "blue");
    let token = fixture.get(&format!("{SHIRTS}?limit=1")).await.json()["metadata"]["continue"].clone();
    let query = format!("continue={}&resourceVersion=100", token.as_str().unwrap());
    let both = fixture.get(&format!("{SHIRTS}?{query}")).await;
    assert_eq!(both.message(), "specifying resource version is not allowed when using continue");
}

#[tokio::test]
async fn contradicting_options_are_invalid() {
    let fixture = Fixture::new();
    let prefix = "ListOptions.meta.k8s.io \"\" is invalid: ";
    let field = "resourceVersionMatch: ";
    for (query, messages) in [
        (
            "resourceVersionMatch=Exact",
            &["resourceVersionMatch: Forbidden: resourceVersionMatch is forbidden unless resourceVersion is provided"]
                [..],
        ),
        (
            "resourceVersionMatch=Exact&resourceVersion=0",
            &["resourceVersionMatch: Forbidden: resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\""],
        ),
        (
            "resourceVersionMatch=Foo&resourceVersion=1",
            &["resourceVersionMatch: Unsupported value: \"Foo\": supported values: \"Exact\", \"NotOlderThan\", \"\""],
        ),
        ("sendInitialEvents=false", &["sendInitialEvents: Forbidden: sendInitialEvents is forbidden for list"]),
        (
            "resourceVersionMatch=NotOlderThan&continue=x",
            &[
                "resourceVersionMatch: Forbidden: resourceVersionMatch is forbidden unless resourceVersion is provided",
                "resourceVersionMatch: Forbidden: resourceVersionMatch is forbidden when continue is provided",
            ],
        ),
        (
            "watch=1&sendInitialEvents=true",
            &[
                "resourceVersionMatch: Forbidden: sendInitialEvents requires setting resourceVersionMatch to NotOlderThan",
            ],
        ),
        (
            "watch=1&resourceVersionMatch=NotOlderThan",
            &[
                "resourceVersionMatch: Forbidden: resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided",
            ],
        ),
        (
            "watch=1&sendInitialEvents=1&resourceVersionMatch=Exact",
            &[
                "resourceVersionMatch: Forbidden: sendInitialEvents requires setting resourceVersionMatch to NotOlderThan",
                "resourceVersionMatch: Unsupported value: \"Exact\": supported values: \"NotOlderThan\"",
            ],
        ),
        (
            "watch=1&sendInitialEvents=1&resourceVersionMatch=NotOlderThan&continue=x",
            &["resourceVersionMatch: Forbidden: resourceVersionMatch is forbidden when continue is provided"],
        ),
    ] {
        let answer = fixture.get(&format!("{ALL_SHIRTS}?{query}")).await;
        let joined = match messages {
            [single] => (*single).to_owned(),
            several => format!("[{}]", several.join(", ")),
        };
        assert_eq!((answer.code.as_u16(), answer.message()), (422, format!("{prefix}{joined}")), "{query}");
        let status = answer.json();
        assert_eq!(status["reason"], "Invalid", "{query}");
        assert_eq!(
            (&status["details"]["group"], &status["details"]["kind"]),
            (&json!("meta.k8s.io"), &json!("ListOptions"))
        );
        let cause = &status["details"]["causes"][0];
        let reason = if messages[0].contains("Unsupported") { "FieldValueNotSupported" } else { "FieldValueForbidden" };
        let (name, body) = messages[0].split_once(": ").unwrap();
        assert_eq!(*cause, json!({"reason": reason, "message": body, "field": name}), "{query}");
    }
    assert!(fixture.get(&format!("{ALL_SHIRTS}?resourceVersionMatch=Foo")).await.message().contains(field));
}

#[tokio::test]
async fn queries_of_very_many_parameters_are_rejected() {
    let fixture = Fixture::new();
    let path_with = |count: usize| format!("{SHIRTS}?{}", vec!["a"; count].join("&"));
    assert_eq!(fixture.get(&path_with(256)).await.code, 200);
    let rejected = fixture.get(&path_with(257)).await;
    let message = "the query has more than 256 parameters: send fewer";
    assert_eq!((rejected.code.as_u16(), &*rejected.message()), (400, message));
}

#[tokio::test]
async fn a_request_has_at_most_so_many_requirements_and_any_number_of_values() {
    let mut fixture = Fixture::new();
    fixture.put("default", "x", "blue");
    let many = |count: usize, one: &dyn Fn(usize) -> String| (0..count).map(one).collect::<Vec<_>>().join(",");
    let keys = |count: usize| format!("labelSelector={}", many(count, &|number| format!("%21k{number}")));
    let terms = |count: usize| format!("fieldSelector={}", many(count, &|number| format!("spec.color%21%3Dc{number}")));
    let values =
        |count: usize| format!("labelSelector=tone%20in%20(blue,{})", many(count, &|number| format!("v{number}")));
    let of_keys = "the label selector has more than 1024 requirements: put all values of one key into one set, such as 'key in \
                   (a,b)', or send several requests";
    let of_terms = "the field selector has more than 1024 terms: send several requests";
    for (query, refused) in [
        (keys(1024), ""),
        (keys(1025), of_keys),
        // What says the same twice counts twice: it is read twice.
        (format!("labelSelector={}", many(2_000, &|_| "tone".to_owned())), of_keys),
        (terms(1024), ""),
        (terms(1025), of_terms),
        (values(8_000), ""),
    ] {
        for path in [ALL_SHIRTS.to_owned(), format!("{ALL_SHIRTS}?watch=1")] {
            let separator = if path.contains('?') { '&' } else { '?' };
            let path = format!("{path}{separator}{query}");
            if refused.is_empty() {
                let response = fixture.send(Method::GET, &path, &[]).await;
                assert_eq!(response.status(), 200, "{path:.80}");
            } else {
                let answer = fixture.get(&path).await;
                assert_eq!((answer.code.as_u16(), &*answer.message()), (400, refused), "{path:.80}");
            }
        }
    }
    assert_eq!(fixture.get(&format!("{ALL_SHIRTS}?{}", values(8_000))).await.names(), ["default/x"]);
}

/// A message shows what was sent, several copies of it are made, and a URL may have a mebibyte.
#[test]
fn the_message_of_a_failure_has_at_most_64_kib() {
    const MOST: usize = 64 << 10;
    let read = |failure: ApiError| -> Value { serde_json::from_slice(&failure.status()).unwrap() };
    for length in [10, MOST, MOST + 1, 1 << 20] {
        let text = "x".repeat(length);
        let shown = if length > MOST { format!("{} ...", &text[..MOST]) } else { text.clone() };
        for failure in [ApiError::BadRequest(text.clone()), ApiError::Bare(text.clone()), ApiError::NotAcceptable(text)]
        {
            assert_eq!(read(failure)["message"], shown, "{length} bytes");
        }
    }
    // The last character is left out whole.
    let message = read(ApiError::BadRequest("é".repeat(MOST)))["message"].as_str().unwrap().to_owned();
    assert_eq!(message, format!("{} ...", "é".repeat(MOST / 2)));
    let problems = |count: usize, length: usize| {
        let problem = |number: usize| {
            FieldError::without_value(FieldErrorType::Invalid, format!("f{number}"), "x".repeat(length))
        };
        ApiError::invalid_review("g", "Kind", (0..count).map(problem).collect())
    };
    let few = read(problems(3, 100));
    assert!(few["details"]["causes"].as_array().is_some_and(|causes| causes.len() == 3 && causes[2]["message"] != ""));
    for (count, length) in [(100, 10_000), (2, 1 << 20), (1, 1 << 20)] {
        let status = problems(count, length).status();
        assert!(status.len() < 2 * MOST + 10_000, "{count} problems of {length} bytes: {}", status.len());
        let status: Value = serde_json::from_slice(&status).unwrap();
        assert!(!status["details"]["causes"].as_array().unwrap().is_empty());
    }
}

/// Clients send a handful of media types, and a header has room for hundreds of thousands.
#[tokio::test]
async fn so_many_media_types_of_a_request_are_read() {
    let fixture = Fixture::new();
    let path = ALL_SHIRTS;
    let accept = |others: usize| format!("{}application/json", "text/html,".repeat(others));
    assert_eq!(fixture.get_with(path, &[("accept", &accept(255))]).await.code.as_u16(), 200);
    assert_eq!(fixture.get_with(path, &[("accept", &accept(256))]).await.code.as_u16(), 406);
    let pretty = format!("{}application/json;pretty=1", "application/json,".repeat(256));
    assert_eq!(fixture.get_with(path, &[("accept", &pretty)]).await.code.as_u16(), 200);
    // A media type has few parameters too. Those of a Table are the first ones, or are not read.
    let table = |others: usize| format!("application/json;{}as=Table;v=v1;g=meta.k8s.io", "a=b;".repeat(others));
    for (others, kind) in [(61, "Table"), (64, "ShirtList")] {
        let answer = fixture.get_with(path, &[("accept", &table(others))]).await;
        assert_eq!(answer.json()["kind"], kind, "{others} other parameters");
    }
}
