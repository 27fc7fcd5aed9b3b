//! Which error a request with two faults gets, and the form of each kind of error. The cases are every pair of faults
//! of a list, a watch and a GET.

use super::super::case::Case;
use super::super::dimension::{Choice, Part, choice, made_of};

pub(crate) fn cases() -> Vec<Case> {
    let parameter = |what: &str, name: &'static str, value: &str| choice(what, Part::Parameter(name, value.to_owned()));
    let header = |what: &str, value: &str| choice(what, Part::Header("accept", value.to_owned()));
    let path = |what: &str, value: &str| choice(what, Part::Path(value.to_owned()));
    let of_lists = vec![
        header("media type", "text/html"),
        header("form of one object", super::PARTIAL),
        parameter("limit", "limit", "abc"),
        parameter("timeout", "timeout", "abc"),
        parameter("timeoutSeconds", "timeoutSeconds", "abc"),
        parameter("label selector", "labelSelector", "a%3D%3D%3Db"),
        parameter("field selector", "fieldSelector", "a%20b"),
        parameter("unknown field", "fieldSelector", "spec.nope%3Dx"),
        parameter("match", "resourceVersionMatch", "Foo"),
        parameter("version", "resourceVersion", "abc"),
        parameter("version in the future", "resourceVersion", "{future}"),
        parameter("token", "continue", "abc"),
        parameter("initial events", "sendInitialEvents", "true"),
        choice("includeObject", Part::Header("accept", super::TABLE.to_owned())).and("includeObject", "Bogus"),
    ];
    let of_watches = vec![
        header("media type", "text/html"),
        header("yaml", "application/yaml"),
        parameter("limit", "limit", "abc"),
        parameter("timeoutSeconds", "timeoutSeconds", "abc"),
        parameter("label selector", "labelSelector", "a%3D%3D%3Db"),
        parameter("unknown field", "fieldSelector", "spec.nope%3Dx"),
        parameter("match", "resourceVersionMatch", "Foo"),
        parameter("version", "resourceVersion", "abc"),
        parameter("initial events without a match", "sendInitialEvents", "true"),
        choice("includeObject", Part::Header("accept", super::TABLE.to_owned())).and("includeObject", "Bogus"),
    ];
    let of_objects = vec![
        header("media type", "text/html"),
        header("form of lists", super::PARTIAL_LIST),
        parameter("timeout", "timeout", "abc"),
        parameter("version", "resourceVersion", "abc"),
        parameter("version in the future", "resourceVersion", "{future}"),
        choice("includeObject", Part::Header("accept", super::TABLE.to_owned())).and("includeObject", "Bogus"),
    ];
    let lists = [path("of shirts", super::SHIRTS), path("of a built-in", super::CONFIG_MAPS)];
    let watches = [
        path("of shirts", "/apis/shop.example.com/v1/shirts?watch=1"),
        path("of a built-in", "/api/v1/namespaces/work/configmaps?watch=1"),
    ];
    let objects = [
        path("of a shirt", super::ONE),
        path("of a pod", "/api/v1/namespaces/work/pods/web"),
        path("of an absent pod", "/api/v1/namespaces/work/pods/no"),
        path("of an unknown subresource", "/apis/shop.example.com/v1/namespaces/a/shirts/x/sleeves"),
    ];
    let mut cases = pairs("faults of a list", &lists, &of_lists);
    for path in [
        path("of an unknown resource", "/apis/shop.example.com/v1/socks"),
        path("of an unknown built-in", "/api/v1/socks"),
        path("of a wrong scope", "/apis/shop.example.com/v1/namespaces/a/banners"),
    ] {
        cases.extend(of_lists.iter().map(|fault| made_of("faults of a list", &[("", &path), ("", fault)])));
    }
    // A fault of a list alone is none of a watch; what is none would stay open.
    cases.extend(pairs("faults of a watch", &watches, &of_watches));
    cases.extend(pairs("faults of an object", &objects, &of_objects));
    cases
}

/// Each fault alone and each pair of faults, on each path.
fn pairs(subject: &str, paths: &[Choice], faults: &[Choice]) -> Vec<Case> {
    let mut cases = Vec::new();
    for path in paths {
        for (index, first) in faults.iter().enumerate() {
            cases.push(made_of(subject, &[("", path), ("", first)]));
            for second in &faults[index + 1..] {
                // Waiting takes seconds; one path is enough for what waits.
                let waits = [first, second].iter().any(|fault| fault.name == "version in the future");
                if waits && !std::ptr::eq(path, &paths[0]) {
                    continue;
                }
                if !first.parts.iter().any(|part| second.parts.iter().any(|other| other.is_the_same_place(part))) {
                    cases.push(made_of(subject, &[("", path), ("", first), ("", second)]));
                }
            }
        }
    }
    cases
}
