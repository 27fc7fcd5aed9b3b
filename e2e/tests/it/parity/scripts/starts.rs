//! Every combination of how a watch can start: version, sendInitialEvents, resourceVersionMatch, bookmarks. Many are refused.

use serde_json::json;

use super::super::script::{Reach, Script, Step};
use super::{SHIRTS, at, color, colored, script, settle, shirt};

const VERSIONS: [(&str, &str); 6] = [
    ("unset", ""),
    ("0", "&resourceVersion=0"),
    ("current", "&resourceVersion={new}"),
    ("old", "&resourceVersion={old}"),
    ("too old", "&resourceVersion={ancient}"),
    ("future", "&resourceVersion={future}"),
];
const INITIAL: [(&str, &str); 3] =
    [("unset", ""), ("true", "&sendInitialEvents=true"), ("false", "&sendInitialEvents=false")];
const BOOKMARKS: [(&str, &str); 2] = [("no bookmarks", ""), ("bookmarks", "&allowWatchBookmarks=true")];
const MATCHES: [(&str, &str); 4] = [
    ("match unset", ""),
    ("NotOlderThan", "&resourceVersionMatch=NotOlderThan"),
    ("Exact", "&resourceVersionMatch=Exact"),
    ("Foo", "&resourceVersionMatch=Foo"),
];

/// One script for a version and a value of sendInitialEvents, with a watch for everything else.
pub(crate) fn scripts() -> Vec<Script> {
    let mut scripts = Vec::new();
    for (version, version_query) in VERSIONS {
        for (initial, initial_query) in INITIAL {
            let mut steps = vec![
                colored("x-y", "blue"),
                Step::Note("old".to_owned()),
                shirt("x", json!({ "app": "shop" }), json!({ "color": "green" })),
                colored("x.y", "blue"),
                color("x-y", "red"),
                Step::Note("new".to_owned()),
                settle(),
            ];
            for (matched, match_query) in MATCHES {
                for (bookmarks, bookmarks_query) in BOOKMARKS {
                    let mut path =
                        format!("{SHIRTS}?watch=1{version_query}{initial_query}{match_query}{bookmarks_query}");
                    // Nothing ever comes of these; some of the others say so at once.
                    let reach = if version == "future" { Reach::End } else { Reach::LastChange };
                    if version == "future" && initial != "true" {
                        path.push_str("&timeoutSeconds=1");
                    }
                    steps.push(at(&format!("{matched}, {bookmarks}"), &path, reach));
                }
            }
            steps.extend([color("x.y", "green"), colored("last", "blue")]);
            scripts.push(script(&format!("start at {version}, sendInitialEvents {initial}"), steps));
        }
    }
    scripts
}
