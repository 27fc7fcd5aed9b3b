//! The headers in which a front proxy names the user of a request.
//!
//! [`super::authentication`] decides by the certificate whether a request comes from a front proxy. Such headers of
//! other clients are never read. They are removed from all requests.

use std::collections::BTreeMap;

use http::header::AUTHORIZATION;
use http::{HeaderMap, HeaderName, HeaderValue};

use super::authentication_config::FrontProxy;
use super::identity::Identity;
use crate::model::percent_decode;

/// The default header names of front proxies.
const STANDARD: [&str; 3] = ["x-remote-user", "x-remote-uid", "x-remote-group"];
const STANDARD_PREFIX: &str = "x-remote-extra-";

/// The user that a front proxy names in the headers (apiserver `authentication/request/headerrequest`); `None` if there
/// is no name. The group of authenticated users is not added here.
pub(super) fn identity_from_headers(front_proxy: &FrontProxy, headers: &HeaderMap) -> Option<Identity> {
    // Invalid UTF-8 is replaced, as Go does in a review. Leaving such a value out could give the user more permissions.
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
            // `false`: a plus sign in the key is no blank.
            let key = percent_decode(key, false).unwrap_or_else(|| key.to_owned());
            extra.entry(key).or_default().push(value);
        }
    }
    Some(Identity { user, uid: first(&front_proxy.uid_headers).unwrap_or_default(), groups, extra })
}

/// Removes the headers that name or authenticate the user: Authorization, the default headers of front proxies, and
/// those of `front_proxy`. Call it after authentication.
pub fn strip(headers: &mut HeaderMap, front_proxy: Option<&FrontProxy>) {
    let names_user = |name: &HeaderName| {
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
    let found: Vec<HeaderName> = headers.keys().filter(|name| names_user(name)).cloned().collect();
    for name in found {
        headers.remove(name);
    }
}
