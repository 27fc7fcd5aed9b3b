//! Defects in reading a request: the request to the server is altered.

use e2e::http::Request;

use super::{Alteration, Defect};

pub(super) static DEFECTS: [Defect; 6] = [
    Defect {
        name: "labelSelector ignored",
        alteration: Alteration::Request(|request| without(request, "labelSelector")),
    },
    Defect {
        name: "fieldSelector ignored",
        alteration: Alteration::Request(|request| without(request, "fieldSelector")),
    },
    Defect { name: "limit ignored", alteration: Alteration::Request(|request| without(request, "limit")) },
    Defect {
        name: "resourceVersion ignored",
        alteration: Alteration::Request(|request| without(request, "resourceVersion")),
    },
    Defect {
        name: "escapes of field selectors not undone",
        alteration: Alteration::Request(|request| {
            request.path = request.path.replace("%5C", "%5C%5C");
        }),
    },
    Defect {
        name: "bookmarks never sent",
        alteration: Alteration::Request(|request| without(request, "allowWatchBookmarks")),
    },
];

/// Removes a parameter from the query.
fn without(request: &mut Request, name: &str) {
    if let Some((path, query)) = request.path.split_once('?') {
        let kept: Vec<&str> = query.split('&').filter(|pair| pair.split('=').next() != Some(name)).collect();
        request.path = format!("{path}?{}", kept.join("&"));
    }
}
