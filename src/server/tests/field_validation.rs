//! Fields of a Pod that do not exist, in a review: reported, rejected or ignored, by `?fieldValidation=`.

use http::Method;
use serde_json::{Value, json};

use super::Answer;
use super::placement_review::{Fixture, REVIEWS, review_document, with_containers};
use crate::server::Settings;

async fn send_review(fixture: &Fixture, query: &str, spec: &Value) -> Answer {
    let headers = [("content-type", "application/json")];
    fixture.send(Method::POST, &format!("{REVIEWS}{query}"), &headers, &review_document(spec).to_string()).await
}

fn warned(answer: &Answer) -> Vec<String> {
    let values = answer.headers.get_all("warning").iter();
    values.map(|value| String::from_utf8(value.as_bytes().to_vec()).unwrap()).collect()
}

fn misspelt() -> Value {
    json!({"pod": {"spec": with_containers(json!({
        "nodeSelectr": {"disktype": "ssd"}, "nodeSelector": {"beta.kubernetes.io/os": "linux"},
    }))}})
}

const UNKNOWN: &str = r#"299 - "unknown field \"spec.pod.spec.nodeSelectr\"""#;
const DEPRECATED: &str = r#"299 - "spec.pod.spec.nodeSelector[beta.kubernetes.io/os]: deprecated since v1.14; use \"kubernetes.io/os\" instead""#;

#[tokio::test]
async fn unknown_fields_are_reported_rejected_or_ignored_as_requested() {
    let fixture = Fixture::with(Settings::default());
    let in_status = "unknown field \"spec.nodeSelectr\"";
    for (query, headers, is_in_status) in [
        ("", vec![UNKNOWN, DEPRECATED], true),
        ("?fieldValidation=", vec![UNKNOWN, DEPRECATED], true),
        ("?fieldValidation=Warn", vec![UNKNOWN, DEPRECATED], true),
        ("?fieldValidation=Warn&fieldValidation=Strict", vec![UNKNOWN, DEPRECATED], true),
        ("?fieldValidation=Ignore", vec![DEPRECATED], false),
    ] {
        let answer = send_review(&fixture, query, &misspelt()).await;
        assert_eq!(
            (answer.code.as_u16(), warned(&answer)),
            (201, headers.iter().map(|one| (*one).to_owned()).collect()),
            "{query}"
        );
        let warnings = answer.json()["status"]["warnings"].clone();
        assert_eq!(warnings.as_array().unwrap().contains(&json!(in_status)), is_in_status, "{query}: {warnings}");
        assert_eq!(warnings.as_array().unwrap().len(), headers.len(), "{query}: {warnings}");
    }
    let answer = send_review(&fixture, "?fieldValidation=Strict", &misspelt()).await;
    let refused = "PlacementReview in version \"v1alpha1\" cannot be handled as a PlacementReview: \
                   strict decoding error: unknown field \"spec.pod.spec.nodeSelectr\"";
    assert_eq!((answer.code.as_u16(), &*answer.message(), warned(&answer)), (400, refused, Vec::new()));
    let right = json!({"pod": {"spec": with_containers(json!({}))}});
    assert_eq!(send_review(&fixture, "?fieldValidation=Strict", &right).await.code.as_u16(), 201);

    let template = json!({"kind": "Deployment", "metadata": {"name": "a"}, "spec": {"replica": 3, "template": {"spec": with_containers(json!({}))}}});
    let answer = send_review(&fixture, "", &json!({"template": template})).await;
    assert_eq!(warned(&answer), [r#"299 - "unknown field \"spec.template.spec.replica\"""#]);
    let answer = send_review(&fixture, "", &json!({"podRef": {"namespace": "default", "name": "pending"}})).await;
    assert_eq!((answer.code.as_u16(), warned(&answer)), (201, Vec::new()), "a stored Pod is taken as it is");
}

#[tokio::test]
async fn a_directive_that_is_not_known_is_refused() {
    let fixture = Fixture::with(Settings::default());
    let answer = send_review(&fixture, "?fieldValidation=strict", &misspelt()).await;
    let message = "Unsupported value: \"strict\": supported values: \"\", \"Ignore\", \"Strict\", \"Warn\"";
    assert_eq!(answer.code.as_u16(), 422);
    assert_eq!(answer.message(), format!("CreateOptions.meta.k8s.io \"\" is invalid: fieldValidation: {message}"));
    assert_eq!(
        answer.json()["details"],
        json!({"group": "meta.k8s.io", "kind": "CreateOptions", "causes": [
            {"reason": "FieldValueNotSupported", "message": message, "field": "fieldValidation"},
        ]})
    );
}

#[tokio::test]
async fn what_is_refused_for_a_misspelt_field_comes_with_the_warning() {
    let fixture = Fixture::with(Settings::default());
    let spec = json!({"pod": {"spec": {"contaners": [{"name": "main", "image": "main"}]}}});
    for (query, headers) in
        [("", &[r#"299 - "unknown field \"spec.pod.spec.contaners\"""#][..]), ("?fieldValidation=Ignore", &[])]
    {
        let answer = send_review(&fixture, query, &spec).await;
        assert_eq!(
            (answer.code.as_u16(), &*warned(&answer)),
            (422, &*headers.iter().map(|one| (*one).to_owned()).collect::<Vec<_>>()),
            "{query}"
        );
        let cause =
            json!({"reason": "FieldValueRequired", "message": "Required value", "field": "spec.pod.spec.containers"});
        assert_eq!(answer.json()["details"]["causes"], json!([cause]), "{query}");
    }
    let template = json!({"kind": "Job", "spec": {"template": {"spec": {"containers": [{"name": "main"}]}}}});
    let answer = send_review(&fixture, "", &json!({"template": template})).await;
    assert_eq!(answer.json()["details"]["causes"][0]["field"], "spec.template.spec.template.spec.containers[0].image");
    let misshapen = json!({"kind": "Deployment", "spec": {"selector": [], "template": {}}});
    let answer = send_review(&fixture, "", &json!({"template": misshapen})).await;
    assert_eq!(answer.json()["details"]["causes"][0]["field"], "spec.template.spec.selector");
}

#[tokio::test]
async fn the_metadata_of_a_review_is_its_own_and_strict() {
    let fixture = Fixture::with(Settings::default());
    let mut review = review_document(&misspelt());
    for (metadata, code) in
        [(json!({"name": "a", "annotations": {"b": "c"}, "creationTimestamp": null}), 201), (json!({"nmae": "a"}), 400)]
    {
        review["metadata"] = metadata;
        let headers = [("content-type", "application/json")];
        let answer = fixture
            .send(Method::POST, &format!("{REVIEWS}?fieldValidation=Ignore"), &headers, &review.to_string())
            .await;
        assert_eq!(answer.code.as_u16(), code, "{}", answer.body);
        assert_eq!(answer.body.contains("unknown field \\\"metadata.nmae\\\""), code == 400, "{}", answer.body);
    }
}

#[test]
fn warnings_are_sent_once_and_bounded() {
    let written = |texts: &[&str]| {
        let mut headers = http::HeaderMap::new();
        crate::wire::warnings::add(&mut headers, texts.iter().copied());
        let values = headers.get_all("warning").iter();
        values.map(|value| String::from_utf8(value.as_bytes().to_vec()).unwrap()).collect::<Vec<_>>()
    };
    assert_eq!(written(&["a", "", "a", "line\nbreak", r"b\c", "ü"]), ["299 - \"a\"", r#"299 - "b\\c""#, "299 - \"ü\""]);
    let long: Vec<String> = (0..100).map(|number| format!("{number:03}{}", "é".repeat(297))).collect();
    let long: Vec<&str> = long.iter().map(String::as_str).collect();
    let cut = written(&long);
    assert_eq!((cut.len(), cut[0].chars().count()), (16, 256 + "299 - \"\"".len()), "16 * 256 = 4096");
    assert_eq!(
        written(&long[..13]).iter().map(|text| text.chars().count() - 8).collect::<Vec<_>>(),
        [300; 13],
        "3,900 is not too long"
    );
}
