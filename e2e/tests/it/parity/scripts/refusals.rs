//! Watches that are refused before they begin, and watches that end.

use super::super::script::{Reach, Script, Step};
use super::{SHIRTS, accept, at, colored, ending, script, settle};

pub(crate) fn scripts() -> Vec<Script> {
    vec![
        script(
            "ended by time",
            vec![
                colored("x", "blue"),
                Step::Note("now".to_owned()),
                settle(),
                // Without initial events, for which there is no time on a slow machine.
                ending("1 second", "&timeoutSeconds=1&resourceVersion={now}"),
                ending("1 second, bookmarks", "&timeoutSeconds=1&allowWatchBookmarks=true&resourceVersion={now}"),
                ending("4 seconds", "&timeoutSeconds=4"),
                ending("4 seconds, bookmarks", "&timeoutSeconds=4&allowWatchBookmarks=true"),
                ending(
                    "4 seconds, bookmarks, from a version",
                    "&timeoutSeconds=4&allowWatchBookmarks=true&resourceVersion={now}",
                ),
                ending(
                    "4 seconds, bookmarks, nothing selected",
                    "&timeoutSeconds=4&allowWatchBookmarks=true&fieldSelector=spec.color%3Dnone",
                ),
                at(
                    "4 seconds, pods",
                    "/api/v1/namespaces/work/pods?watch=1&timeoutSeconds=4&allowWatchBookmarks=true",
                    Reach::End,
                ),
                accept(
                    ending("4 seconds, table", "&timeoutSeconds=4&allowWatchBookmarks=true"),
                    "application/json;as=Table;g=meta.k8s.io;v=v1",
                ),
                accept(
                    ending("4 seconds, metadata", "&timeoutSeconds=4&allowWatchBookmarks=true"),
                    "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1",
                ),
            ],
        ),
        script("refused options", refused()),
        script(
            "refused for other reasons",
            vec![
                ending("version that is no number", "&resourceVersion=abc"),
                ending("unknown field", "&fieldSelector=spec.nope%3Dx"),
                ending("broken field selector", "&fieldSelector=spec.color%20blue"),
                ending("bad escape", "&fieldSelector=spec.color%3Da%5Cb"),
                ending("broken label selector", "&labelSelector=a%3D%3D%3Db"),
                ending("timeoutSeconds that is no number", "&timeoutSeconds=abc"),
                ending("limit that is no number", "&limit=abc"),
                accept(ending("yaml", ""), "application/yaml"),
                accept(ending("html", ""), "text/html"),
                accept(ending("unknown stream", ""), "application/json;stream=river"),
                accept(
                    at(
                        "metadata in the form of lists",
                        "/apis/shop.example.com/v1/banners?watch=1&timeoutSeconds=1",
                        Reach::End,
                    ),
                    "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1",
                ),
                at("unknown resource", "/apis/live.example.com/v1/socks?watch=1", Reach::End),
                at(
                    "cluster-scoped in a namespace",
                    "/apis/live.example.com/v1/namespaces/{ns}/banners?watch=1",
                    Reach::End,
                ),
                at(
                    "cluster-scoped, namespace selected",
                    "/apis/live.example.com/v1/banners?watch=1&fieldSelector=metadata.namespace%3Dx",
                    Reach::End,
                ),
                at("built-in, unknown field", "/api/v1/pods?watch=1&fieldSelector=spec.nope%3Dx", Reach::End),
                at(
                    "built-in without fields, unknown field",
                    "/api/v1/configmaps?watch=1&fieldSelector=data.x%3Dy",
                    Reach::End,
                ),
                at(
                    "legacy, another name",
                    "/apis/live.example.com/v1/watch/namespaces/{ns}/shirts/x?fieldSelector=metadata.name%3Dy",
                    Reach::End,
                ),
                at(
                    "legacy, initial events",
                    "/apis/live.example.com/v1/watch/namespaces/{ns}/shirts?sendInitialEvents=true&resourceVersionMatch=NotOlderThan",
                    Reach::End,
                ),
                at(
                    "legacy, match",
                    "/apis/live.example.com/v1/watch/namespaces/{ns}/shirts?resourceVersionMatch=NotOlderThan",
                    Reach::End,
                ),
            ],
        ),
    ]
}

fn refused() -> Vec<Step> {
    [
        ("initial events without match", "sendInitialEvents=true"),
        ("no initial events without match", "sendInitialEvents=false"),
        ("match without initial events", "resourceVersionMatch=NotOlderThan"),
        ("match without initial events, version", "resourceVersionMatch=NotOlderThan&resourceVersion={current}"),
        ("exact", "sendInitialEvents=true&resourceVersionMatch=Exact"),
        ("exact without initial events", "resourceVersionMatch=Exact&resourceVersion={current}"),
        ("unknown match", "sendInitialEvents=true&resourceVersionMatch=Foo"),
        ("unknown match without initial events", "resourceVersionMatch=Foo"),
        ("match and token", "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&continue=abc"),
    ]
    .into_iter()
    .map(|(name, query)| at(name, &format!("{SHIRTS}?watch=1&{query}"), Reach::End))
    .collect()
}
