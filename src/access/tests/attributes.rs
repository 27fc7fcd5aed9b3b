//! What authorizers see of a request: a table of method, path and query.

use std::sync::Arc;

use crate::access::attributes::{Attributes, PermissionNamespaces, RequiredPermissions, ResourceAttributes};
use crate::request::info::{LONGEST_SELECTOR, MOST_REQUIREMENTS};
use crate::request::{Query, RequestInfo};
use crate::selector::{LabelRequirement, Operator};
use http::Method;

fn read(method: &str, url: &str) -> Result<Attributes, String> {
    let (path, query) = url.split_once('?').unwrap_or((url, ""));
    let info = RequestInfo::read(&method.parse::<Method>().unwrap(), path, Query::parse(query));
    Attributes::from_request(&info).map_err(|error| error.to_string())
}

/// `verb group version resource/subresource namespace name fields labels`, an empty one as `-`; or `verb path`.
fn words(attributes: &Attributes) -> String {
    let Some(about) = &attributes.resource else { return format!("{} {}", attributes.verb, attributes.path) };
    let ResourceAttributes { group, version, resource, subresource, namespace, name, fields, labels } = about;
    let below = if subresource.is_empty() { String::new() } else { format!("/{subresource}") };
    let joined = |terms: Vec<String>| terms.join(",");
    [
        &attributes.verb,
        group,
        version,
        &format!("{resource}{below}"),
        namespace,
        name,
        &joined(fields.iter().map(ToString::to_string).collect()),
        &joined(labels.iter().map(ToString::to_string).collect()),
    ]
    .map(|word| if word.is_empty() { "-".to_owned() } else { word.clone() })
    .join(" ")
}

/// Rows as apiserver `endpoints/request/requestinfo.go` decides them.
const ROWS: &[(&str, &str, &str)] = &[
    // What is no resource.
    ("GET", "/", "get /"),
    ("HEAD", "/", "head /"),
    ("POST", "/", "post /"),
    ("OPTIONS", "/api", "options /api"),
    ("GET", "/api", "get /api"),
    ("GET", "/api/", "get /api/"),
    ("GET", "/api/v1", "get /api/v1"),
    ("GET", "/api/v1/", "get /api/v1/"),
    ("GET", "/apis", "get /apis"),
    ("GET", "/apis/apps", "get /apis/apps"),
    ("GET", "/apis/apps/v1", "get /apis/apps/v1"),
    ("GET", "/apis/apps/v1/", "get /apis/apps/v1/"),
    ("GET", "/healthz/ping", "get /healthz/ping"),
    ("GET", "/version", "get /version"),
    ("GET", "/openapi/v3/apis/apps/v1?hash=A", "get /openapi/v3/apis/apps/v1"),
    ("GET", "/metrics", "get /metrics"),
    ("GET", "/logs/api/v1/pods", "get /logs/api/v1/pods"),
    ("GET", "/a%20b", "get /a b"),
    ("GET", "/?fieldSelector=a%3Db", "get /"),
    // Resources by path.
    ("GET", "/api/v1/pods", "list - v1 pods - - - -"),
    ("GET", "/api/v1/pods/", "list - v1 pods - - - -"),
    ("HEAD", "/api/v1/pods", "list - v1 pods - - - -"),
    ("GET", "/api/v1/namespaces/n/pods", "list - v1 pods n - - -"),
    ("GET", "/api/v1/namespaces/n/pods/p", "get - v1 pods n p - -"),
    ("HEAD", "/api/v1/namespaces/n/pods/p", "get - v1 pods n p - -"),
    ("GET", "/api/v1/namespaces/n/pods/p/log", "get - v1 pods/log n p - -"),
    ("GET", "/api/v1/namespaces/n/pods/p/proxy/a/b", "get - v1 pods/proxy n p - -"),
    ("GET", "/api/v1/nodes/n/status", "get - v1 nodes/status - n - -"),
    ("GET", "/apis/apps/v1/deployments", "list apps v1 deployments - - - -"),
    ("GET", "/apis/apps/v1/namespaces/n/deployments/d/scale", "get apps v1 deployments/scale n d - -"),
    ("GET", "/api/v1/namespaces/n%2Fpods", "list - v1 pods n - - -"),
    // Namespaces themselves.
    ("GET", "/api/v1/namespaces", "list - v1 namespaces - - - -"),
    ("GET", "/api/v1/namespaces/n", "get - v1 namespaces n n - -"),
    ("GET", "/api/v1/namespaces/n/status", "get - v1 namespaces/status n n - -"),
    ("PUT", "/api/v1/namespaces/n/finalize", "update - v1 namespaces/finalize n n - -"),
    ("GET", "/api/v1/namespaces/n/status/x", "get - v1 namespaces/status n n - -"),
    ("DELETE", "/api/v1/namespaces/n", "delete - v1 namespaces n n - -"),
    ("GET", "/apis/g/v1/namespaces/n", "get g v1 namespaces n n - -"),
    // Verbs by method.
    ("POST", "/api/v1/namespaces/n/pods", "create - v1 pods n - - -"),
    ("PUT", "/api/v1/namespaces/n/pods/p", "update - v1 pods n p - -"),
    ("PATCH", "/api/v1/namespaces/n/pods/p", "patch - v1 pods n p - -"),
    ("DELETE", "/api/v1/namespaces/n/pods/p", "delete - v1 pods n p - -"),
    ("DELETE", "/api/v1/namespaces/n/pods", "deletecollection - v1 pods n - - -"),
    ("OPTIONS", "/api/v1/namespaces/n/pods", "- - v1 pods n - - -"),
    ("TRACE", "/api/v1/namespaces/n/pods/p", "- - v1 pods n p - -"),
    ("POST", "/api/v1/namespaces/n/pods/p/eviction", "create - v1 pods/eviction n p - -"),
    // Watches.
    ("GET", "/api/v1/pods?watch=true", "watch - v1 pods - - - -"),
    ("GET", "/api/v1/pods?watch=1", "watch - v1 pods - - - -"),
    ("GET", "/api/v1/pods?watch", "watch - v1 pods - - - -"),
    ("GET", "/api/v1/pods?watch=banana", "watch - v1 pods - - - -"),
    ("GET", "/api/v1/pods?watch=0", "list - v1 pods - - - -"),
    ("GET", "/api/v1/pods?watch=FALSE", "list - v1 pods - - - -"),
    ("GET", "/api/v1/pods?watch=false&watch=true", "list - v1 pods - - - -"),
    ("HEAD", "/api/v1/pods?watch=1", "watch - v1 pods - - - -"),
    ("GET", "/api/v1/namespaces/n/pods/p?watch=1", "get - v1 pods n p - -"),
    ("GET", "/api/v1/watch/pods", "watch - v1 pods - - - -"),
    ("GET", "/api/v1/watch/pods?watch=false", "watch - v1 pods - - - -"),
    ("GET", "/api/v1/watch/namespaces/n/pods/p", "watch - v1 pods n p - -"),
    ("POST", "/api/v1/watch/namespaces/n/pods", "watch - v1 pods n - - -"),
    ("GET", "/api/v1/watch/namespaces", "watch - v1 namespaces - - - -"),
    ("GET", "/apis/g/v1/watch/shirts/s/x", "watch g v1 shirts/x - s - -"),
    ("GET", "/api/v1/proxy/namespaces/n/pods/p/a", "proxy - v1 pods n p - -"),
    ("DELETE", "/api/v1/proxy/nodes/x", "proxy - v1 nodes - x - -"),
    // Selectors.
    ("GET", "/api/v1/pods?fieldSelector=spec.nodeName%3Da", "list - v1 pods - - spec.nodeName=a -"),
    ("GET", "/api/v1/pods?fieldSelector=b!%3D2,a%3D%3D1", "list - v1 pods - - a=1,b!=2 -"),
    ("GET", "/api/v1/pods?labelSelector=b+in+(2,1),a", "list - v1 pods - - - a,b in (1,2)"),
    ("GET", "/api/v1/pods?fieldSelector=a%3D1&fieldSelector=b%3D2", "list - v1 pods - - a=1 -"),
    ("GET", "/api/v1/pods?fieldSelector=metadata.name%3Dx", "list - v1 pods - x metadata.name=x -"),
    ("GET", "/api/v1/pods?watch=1&fieldSelector=metadata.name%3Dx", "watch - v1 pods - x metadata.name=x -"),
    ("GET", "/api/v1/pods?fieldSelector=metadata.name!%3Dx", "list - v1 pods - - metadata.name!=x -"),
    ("GET", "/api/v1/pods?fieldSelector=metadata.name%3D", "list - v1 pods - - metadata.name= -"),
    ("GET", "/api/v1/pods?fieldSelector=metadata.name%3D..", "list - v1 pods - - metadata.name=.. -"),
    ("GET", "/api/v1/pods?fieldSelector=metadata.name%3Da/b", "list - v1 pods - - metadata.name=a/b -"),
    ("GET", "/api/v1/pods?fieldSelector=metadata.name%3Da%2525", "list - v1 pods - - metadata.name=a%25 -"),
    ("GET", "/api/v1/pods?fieldSelector=metadata.namespace%3Dn", "list - v1 pods - - metadata.namespace=n -"),
    // What cannot be read makes the name go, but neither the verb nor the other selector.
    ("GET", "/api/v1/pods?fieldSelector=ba+nana&labelSelector=a", "list - v1 pods - - - a"),
    // Operators that kube-apiserver does not have. A set of one value is that value.
    ("GET", "/api/v1/pods?fieldSelector=banana,c>5", "list - v1 pods - - banana,c>5 -"),
    ("GET", "/api/v1/pods?fieldSelector=metadata.name+in+(x)", "list - v1 pods - x metadata.name=x -"),
    ("GET", "/api/v1/pods?fieldSelector=metadata.name+in+(x,y)", "list - v1 pods - - metadata.name in (x,y) -"),
    // Of a text with two readings, only what is in both.
    ("GET", "/api/v1/pods?fieldSelector=metadata.name%3Dx,c>%3D5", "list - v1 pods - x metadata.name=x -"),
    ("GET", "/api/v1/pods?fieldSelector=+metadata.name%3Dx,c^%3Da", "list - v1 pods - - - -"),
    (
        "GET",
        "/api/v1/pods?fieldSelector=metadata.name%3Dx&labelSelector=a%3D%3D%3D",
        "list - v1 pods - - metadata.name=x -",
    ),
    ("GET", "/api/v1/pods?fieldSelector=metadata.name%3Dx&limit=a", "list - v1 pods - - metadata.name=x -"),
    ("GET", "/api/v1/pods?fieldSelector=metadata.name%3Dx&limit=", "list - v1 pods - - metadata.name=x -"),
    (
        "GET",
        "/api/v1/pods?fieldSelector=metadata.name%3Dx&timeoutSeconds=1.5&watch=1",
        "watch - v1 pods - - metadata.name=x -",
    ),
    ("GET", "/api/v1/pods?fieldSelector=metadata.name%3Dx&limit=-1", "list - v1 pods - x metadata.name=x -"),
    // Where selectors do not count.
    ("GET", "/api/v1/namespaces/n/pods/p?labelSelector=a&fieldSelector=b%3D1", "get - v1 pods n p - -"),
    ("POST", "/api/v1/namespaces/n/pods?labelSelector=a", "create - v1 pods n - - -"),
    ("DELETE", "/api/v1/namespaces/n/pods?labelSelector=a&fieldSelector=b%3D1", "deletecollection - v1 pods n - b=1 a"),
    (
        "DELETE",
        "/api/v1/namespaces/n/pods?fieldSelector=metadata.name%3Dx",
        "deletecollection - v1 pods n - metadata.name=x -",
    ),
    ("GET", "/api/v1/watch/pods?fieldSelector=metadata.name%3Dx&labelSelector=a", "watch - v1 pods - - - -"),
    // Paths that Go reads literally.
    ("GET", "/api//pods", "list - - pods - - - -"),
    ("GET", "//api/v1/pods", "list - v1 pods - - - -"),
    ("GET", "/api/v1/namespaces//pods", "list - v1 pods - - - -"),
    ("GET", "/apis/g/v1/shirts//x", "list g v1 shirts/x - - - -"),
];

#[test]
fn a_request_is_read_as_kube_apiserver_reads_it() {
    assert!(ROWS.len() >= 60);
    for (method, url, expected) in ROWS {
        let found = read(method, url).map(|attributes| words(&attributes));
        assert_eq!(found.as_deref(), Ok(*expected), "{method} {url}");
    }
}

#[test]
fn a_special_verb_without_a_resource_is_not_reviewed() {
    for url in ["/api/v1/watch", "/apis/g/v1/watch/", "/api/v1/proxy"] {
        let error = read("GET", url).unwrap_err();
        assert_eq!(error, format!("unable to determine kind and namespace from url, {url}"), "{url}");
    }
}

#[test]
fn fields_that_the_api_server_does_not_know_are_left_out_of_the_question() {
    let mut attributes =
        read("GET", "/apis/g/v1/shirts?fieldSelector=own%3D1,%3D1,spec.color!%3Dblue,metadata.name%3Dx").unwrap();
    attributes.keep_fields(|gvr, label| {
        assert_eq!(gvr.to_string(), "shirts.v1.g");
        label != "own"
    });
    assert_eq!(words(&attributes), "list g v1 shirts - x metadata.name=x,spec.color!=blue -");
}

/// A review takes a hundred times the bytes of a selector, and is made for callers without any permission.
#[test]
fn selectors_that_are_too_long_are_left_out_of_the_question() {
    let labels = |count: usize| (0..count).map(|number| format!("k{number}")).collect::<Vec<_>>().join(",");
    let values = |count: usize| {
        format!("k in ({})", (0..count).map(|number| format!("v{number}")).collect::<Vec<_>>().join(","))
    };
    let selectors_read = |fields: &str, labels: &str| {
        let encoded = |text: &str| text.replace('=', "%3D").replace(' ', "+");
        let query = format!("fieldSelector={}&labelSelector={}", encoded(fields), encoded(labels));
        let attributes = read("GET", &format!("/api/v1/pods?{query}")).unwrap();
        let about = attributes.resource.unwrap();
        (about.name, about.fields.len(), about.labels.len())
    };
    let named = |fields, labels| ("x".to_owned(), fields, labels);
    assert_eq!(
        selectors_read("metadata.name=x", &labels(MOST_REQUIREMENTS - 1)),
        named(1, MOST_REQUIREMENTS - 1),
        "as many as fit"
    );
    assert_eq!(selectors_read("metadata.name=x", &labels(MOST_REQUIREMENTS)), (String::new(), 0, 0), "one more");
    assert_eq!(selectors_read("metadata.name=x", &labels(100_000)), named(1, 0), "a long label selector is not read");
    assert_eq!(selectors_read("metadata.name=x", &values(100_000)), named(1, 0), "nor one of many values");
    let long = format!("metadata.name=x,spec.nodeName={}", "n".repeat(LONGEST_SELECTOR));
    assert_eq!(selectors_read(&long, "a"), (String::new(), 0, 1), "nor a long field selector");
    // A review of oneself has them in its body.
    let mut attributes = read("GET", "/api/v1/pods?labelSelector=a").unwrap();
    attributes.bound_requirements();
    assert_eq!(words(&attributes), "list - v1 pods - - - a");
    let about = attributes.resource.as_mut().unwrap();
    let operator = Operator::In(vec!["v".repeat(10); 1_000]);
    about.labels = vec![LabelRequirement { key: "a".to_owned(), operator }];
    attributes.bound_requirements();
    assert_eq!(words(&attributes), "list - v1 pods - - - -", "many values");
    let about = attributes.resource.as_mut().unwrap();
    about.labels = vec![LabelRequirement { key: "a".to_owned(), operator: Operator::Exists }; MOST_REQUIREMENTS + 1];
    attributes.bound_requirements();
    assert_eq!(words(&attributes), "list - v1 pods - - - -", "many requirements");
}

#[test]
fn a_view_of_some_namespaces_needs_permission_in_each() {
    let namespaces = |resource: &str| match resource {
        "pods" => PermissionNamespaces::Each(vec!["a".to_owned(), "b".to_owned()]),
        "secrets" => PermissionNamespaces::AllOrEach((1..=8).map(|number| format!("n{number}")).collect()),
        "configmaps" => PermissionNamespaces::AllOrEach((1..=9).map(|number| format!("n{number}")).collect()),
        _ => PermissionNamespaces::All,
    };
    let within = |url: &str| -> Vec<String> {
        let request = Arc::new(read("GET", url).unwrap());
        RequiredPermissions::within(request, |_, about| namespaces(&about.resource))
            .iter()
            .map(|attributes| words(&attributes))
            .collect()
    };
    assert_eq!(within("/api/v1/pods?labelSelector=x"), ["list - v1 pods a - - x", "list - v1 pods b - - x"]);
    // Decisions are cached by the whole request, and with many namespaces each selector would need many reviews.
    for (resource, count, rest) in [("secrets", 8, "x - x"), ("configmaps", 9, "- - -")] {
        let reviewed = within(&format!("/api/v1/{resource}?labelSelector=x&fieldSelector=metadata.name%3Dx"));
        let rest = rest.replace("x - x", "x metadata.name=x x");
        assert_eq!((reviewed.len(), &reviewed[1]), (count, &format!("list - v1 {resource} n2 {rest}")));
    }
    assert_eq!(within("/api/v1/namespaces/c/pods"), ["list - v1 pods c - - -"], "the request names one");
    assert_eq!(within("/api/v1/services"), ["list - v1 services - - - -"], "the View does not restrict them");
}
