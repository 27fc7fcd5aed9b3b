//! The differences between kube-apiserver and fieldcache that are meant, each with its reason.
//!
//! Nothing else may differ. An allowance that no case needs any more fails the suite, so this file cannot outgrow the truth.

use e2e::compare::Difference;

/// A difference that is meant.
pub(crate) struct Allowance {
    /// The cases or watches concerned: their names, `*` for any text.
    pub(crate) cases: &'static [&'static str],
    /// Where they differ: paths into the outcome, `*` for any text.
    pub(crate) places: &'static [&'static str],
    /// Why it is right.
    pub(crate) reason: &'static str,
}

/// All of them.
pub(crate) static ALLOWED: [Allowance; 15] = [
    Allowance {
        cases: &["discovery/core", "discovery/aggregated*"],
        places: &[
            "*.resources[\"*/attach\"]",
            "*.resources[\"*/exec\"]",
            "*.resources[\"*/portforward\"]",
            "*.resources[\"*/proxy\"]",
            "*.subresources.attach",
            "*.subresources.exec",
            "*.subresources.portforward",
            "*.subresources.proxy",
        ],
        reason: "What leads into a workload is not handed on, so that no page or program can reach it through a local server.",
    },
    Allowance {
        cases: &["discovery/core", "discovery/built-in group version"],
        places: &["*.storageVersionHash"],
        reason: "The cluster's aggregated discovery, from which fieldcache learns, has no storage version hashes.",
    },
    Allowance {
        cases: &["discovery/api"],
        places: &[".body.serverAddressByClientCIDRs[0].serverAddress"],
        reason: "Each server names its own address.",
    },
    Allowance {
        cases: &["discovery/api", "discovery/apis"],
        places: &[".headers.vary"],
        reason: "These addresses have two forms; fieldcache says so with both, kube-apiserver only with the aggregated one.",
    },
    Allowance {
        cases: &[
            "discovery/v2beta1 alone",
            "discovery/api as html",
            "discovery/group version as html",
            "table/absent, only tables accepted",
            "table/unknown version of it",
            "table/unknown group of it",
            "partial/list with the form of one",
            "partial/built-in list with the form of one",
            "partial/single with the form of lists",
            "media/html*",
            "media/text of any kind",
            "media/upper case",
            "media/cbor",
            "media/unknown stream",
            "media/single html",
            "media/absent and html",
            "refused for other reasons: yaml",
            "refused for other reasons: html",
            "refused for other reasons: unknown stream",
        ],
        places: &[".layout", ".events[1]"],
        reason: "An error whose form could not be negotiated is one line: clients that read line by line must understand it.",
    },
    Allowance {
        cases: &[
            "discovery/v2beta1 alone",
            "discovery/api as html",
            "discovery/group version as html",
            "table/unknown version of it",
            "table/unknown group of it",
            "media/html*",
            "media/text of any kind",
            "media/upper case",
            "media/cbor",
            "media/unknown stream",
            "media/single html",
            "media/absent and html",
            "refused for other reasons: yaml",
            "refused for other reasons: html",
            "refused for other reasons: unknown stream",
        ],
        places: &[".body.message", ".body.details", ".events[0].message"],
        reason: "The media types in a 406 are those that fieldcache has, which is not protobuf, in one wording for all paths.",
    },
    Allowance {
        cases: &["media/protobuf*", "partial/as the metadata client asks"],
        places: &[".headers.content-type", ".text", ".body", ".layout", ".status"],
        reason: "Objects are served as JSON and YAML; every client of protobuf accepts JSON as well or is told 406.",
    },
    Allowance {
        cases: &["refused for other reasons: yaml"],
        places: &[".headers.content-type"],
        reason: "The answer to a watch is read line by line, so a refusal is one line of JSON.",
    },
    Allowance {
        cases: &["walk/selected*"],
        places: &["[\"ends with an empty page\"]"],
        reason: "A server that scans cannot know that nothing more matches; the index knows and ends the walk one page earlier.",
    },
    Allowance {
        cases: &["walk/narrowed to a namespace by 1"],
        places: &[".items[*]", ".pages[*]", ".remaining[*]", "[\"ends with an empty page\"]"],
        reason: "kube-apiserver loses every page after the first when a field selector narrows all namespaces to one.",
    },
    Allowance {
        cases: &["partial/empty", "table/built-in, empty, no printer"],
        places: &[".body.items", ".body.rows"],
        reason: "An empty list is [] everywhere, as in all other lists; kube-apiserver's null here breaks clients that iterate.",
    },
    Allowance {
        cases: &["partial/single with the form of lists"],
        places: &[".status", ".body.code", ".body.message", ".body.reason"],
        reason: "A form that does not fit is 406 as in the opposite case, not an internal error.",
    },
    Allowance {
        cases: &["refused for other reasons: metadata in the form of lists"],
        places: &[".status", ".events[0]", ".lasted"],
        reason: "A form that does not fit is refused at once; kube-apiserver accepts it and breaks off at the first event.",
    },
    Allowance {
        cases: &["openapi/*"],
        places: &[".headers.last-modified"],
        reason: "The time at which a process built a document says nothing about its content; ETag does.",
    },
    Allowance {
        cases: &["openapi/v3 index"],
        places: &[".headers.content-type", ".headers.etag", ".layout"],
        reason: "The index is JSON and says so, as OpenAPI handlers do that have no aggregator in front of them.",
    },
];

/// The patterns that cover a difference, those of cases and those of places; none when it is not meant.
pub(crate) fn covering(case: &str, difference: &Difference) -> Vec<Pattern> {
    let mut covering = Vec::new();
    for (index, allowance) in ALLOWED.iter().enumerate() {
        let all = |patterns: &[&'static str], text: &str| -> Vec<Pattern> {
            patterns.iter().filter(|pattern| like(pattern, text)).map(|&pattern| (index, pattern)).collect()
        };
        let (cases, places) = (all(allowance.cases, case), all(allowance.places, &difference.path));
        if !cases.is_empty() && !places.is_empty() {
            covering.extend(cases.into_iter().chain(places));
        }
    }
    covering
}

/// Every pattern there is: each must be needed.
pub(crate) fn patterns() -> impl Iterator<Item = Pattern> {
    let one = |(index, allowance): (usize, &Allowance)| {
        allowance.cases.iter().chain(allowance.places).map(move |&pattern| (index, pattern)).collect::<Vec<_>>()
    };
    ALLOWED.iter().enumerate().flat_map(one)
}

/// A pattern and the number of its allowance.
pub(crate) type Pattern = (usize, &'static str);

/// Whether `text` is like `pattern`, in which `*` stands for any text.
pub(crate) fn like(pattern: &str, text: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == text,
        Some((start, rest)) => text.strip_prefix(start).is_some_and(|after| {
            // Every place at which the rest of the pattern could begin.
            (0..=after.len()).filter(|&index| after.is_char_boundary(index)).any(|index| like(rest, &after[index..]))
        }),
    }
}

#[test]
fn patterns_match_whole_texts() {
    let rows = [
        ("a/b", "a/b", true),
        ("a/b", "a/bc", false),
        ("a/*", "a/bc", true),
        ("*c", "a/bc", true),
        ("a*b*c", "a--b--c", true),
        ("a*b*c", "a--c--b", false),
        (".items[*].x", ".items[12].x", true),
        ("*", "", true),
    ];
    for (pattern, text, expected) in rows {
        assert_eq!(like(pattern, text), expected, "{pattern} {text}");
    }
}
