//! What a front proxy tells of the user for whom it asks, and how it is taken out of requests.
//!
//! Whether a request comes from a front proxy is decided in [`super::authentication`], by its certificate. Headers that
//! only look like a front proxy's are never read, and no request keeps them.

use std::collections::BTreeMap;

use http::header::AUTHORIZATION;
use http::{HeaderMap, HeaderName, HeaderValue};

use super::identity::Identity;
use super::authentication_config::FrontProxy;
use crate::model::percent_decode;

/// What front proxies send where nobody has chosen other names.
const STANDARD: [&str; 3] = ["x-remote-user", "x-remote-uid", "x-remote-group"];
const STANDARD_PREFIX: &str = "x-remote-extra-";

/// What a front proxy says of a user (apiserver `authentication/request/headerrequest`); `None` when it names none.
pub(super) fn described(front_proxy: &FrontProxy, headers: &HeaderMap) -> Option<Identity> {
    // As Go writes bytes into a review that are no UTF-8; leaving such a value out could widen what a user may.
    let text = |value: &HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
    let first = |names: &[HeaderName]| {
        names.iter().filter_map(|name| headers.get(name).map(text)).find(|value| !value.is_empty())
    };
    let user = first(&front_proxy.user_headers)?;
    let groups = front_proxy
        .group_headers
        .iter()
        .flat_map(|name| headers.get_all(name))
        .map(text)
        .filter(|group| !group.is_empty())
        .collect();
    let mut extra: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for prefix in &front_proxy.extra_prefixes {
        for (name, value) in headers {
            let Some((key, value)) = name.as_str().strip_prefix(&**prefix).map(|key| (key, text(value))) else {
                continue;
            };
            let key = percent_decode(key, false).unwrap_or_else(|| key.to_owned());
            extra.entry(key).or_default().push(value);
        }
    }
    Some(Identity { user, uid: first(&front_proxy.uid_headers).unwrap_or_default(), groups, extra })
}

/// Takes out of a request whatever says who it is from, once that has been settled.
pub fn strip(headers: &mut HeaderMap, front_proxy: Option<&FrontProxy>) {
    let is_told = |name: &HeaderName| {
        let text = name.as_str();
        let is_named = |proxy: &FrontProxy| {
            [&proxy.user_headers, &proxy.uid_headers, &proxy.group_headers].iter().any(|names| names.contains(name))
                || proxy.extra_prefixes.iter().any(|prefix| text.starts_with(&**prefix))
        };
        *name == AUTHORIZATION
            || STANDARD.contains(&text)
            || text.starts_with(STANDARD_PREFIX)
            || front_proxy.is_some_and(is_named)
    };
    let told: Vec<HeaderName> = headers.keys().filter(|name| is_told(name)).cloned().collect();
    for name in told {
        headers.remove(name);
    }
}
