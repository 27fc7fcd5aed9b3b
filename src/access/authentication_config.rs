//! ConfigMap `kube-system/extension-apiserver-authentication`: the certificate authorities of clients and of front
//! proxies.
//!
//! The format is upstream's (apiserver `server/options/authentication.go` and `authentication/request/headerrequest`).
//! An invalid part is reported and left out as a whole: without an authority, no certificate is valid. `runtime`
//! watches the ConfigMap.

use http::HeaderName;
use serde_json::Value;

use super::certificates::CertificateAuthorities;

/// The data of the ConfigMap at one time.
#[derive(Clone, Debug, Default)]
pub struct AuthenticationConfig {
    /// Authorities of users' certificates; `None`: no user can authenticate by certificate.
    pub clients: Option<CertificateAuthorities>,
    /// Front proxies, which may name the user of a request; `None`: no front proxy is trusted.
    pub front_proxy: Option<FrontProxy>,
    /// Number of changes; 0: the ConfigMap has not been read yet.
    pub generation: u64,
}

/// How front proxies authenticate and name the user of a request.
#[derive(Clone, Debug)]
pub struct FrontProxy {
    /// Authorities of its certificate.
    pub authorities: CertificateAuthorities,
    /// Valid common names of its certificate; empty: any.
    pub allowed_names: Vec<String>,
    /// Headers with the user's name; the first that has a value counts.
    pub user_headers: Vec<HeaderName>,
    /// Headers with the uid; likewise.
    pub uid_headers: Vec<HeaderName>,
    /// Headers with groups; all count.
    pub group_headers: Vec<HeaderName>,
    /// Prefixes of headers with other attributes of the user, in lower case; all count.
    pub extra_prefixes: Vec<String>,
}

impl AuthenticationConfig {
    /// Reads `data` of the ConfigMap. The strings are messages about invalid parts that were left out. The caller sets
    /// `generation`.
    pub fn read(data: &Value) -> (AuthenticationConfig, Vec<String>) {
        let mut problems = Vec::new();
        let mut authorities = |key: &str| {
            let text = data[key].as_str().filter(|text| !text.is_empty())?;
            match CertificateAuthorities::read(text) {
                Ok(authorities) => Some(authorities),
                Err(error) => {
                    problems.push(format!("{key}: {error}"));
                    None
                }
            }
        };
        let clients = authorities("client-ca-file");
        let proxies = authorities("requestheader-client-ca-file");
        let front_proxy = proxies.and_then(|authorities| match FrontProxy::read(data, authorities) {
            Ok(front_proxy) => Some(front_proxy),
            Err(problem) => {
                problems.push(problem);
                None
            }
        });
        (AuthenticationConfig { clients, front_proxy, generation: 0 }, problems)
    }
}

impl FrontProxy {
    /// Reads the keys `requestheader-*` of ConfigMap `extension-apiserver-authentication`. `authorities` are those of
    /// `requestheader-client-ca-file`.
    ///
    /// # Errors
    /// The key that is invalid, and why.
    fn read(data: &Value, authorities: CertificateAuthorities) -> Result<FrontProxy, String> {
        let texts = |key: &str| -> Result<Vec<String>, String> {
            let Some(text) = data[key].as_str().filter(|text| !text.is_empty()) else { return Ok(Vec::new()) };
            serde_json::from_str(text).map_err(|error| format!("{key}: not a JSON list of strings: {error}"))
        };
        let headers = |key: &str| -> Result<Vec<HeaderName>, String> {
            let parse =
                |text: &String| text.trim().parse().map_err(|_| format!("{key}: {text:?} is not a valid header name"));
            texts(key)?.iter().map(parse).collect()
        };
        let lower = |text: String| text.trim().to_ascii_lowercase();
        let extra_prefixes: Vec<String> = texts("requestheader-extra-headers-prefix")?.into_iter().map(lower).collect();
        if extra_prefixes.iter().any(String::is_empty) {
            return Err("requestheader-extra-headers-prefix: an empty prefix would match every header".to_owned());
        }
        Ok(FrontProxy {
            authorities,
            allowed_names: texts("requestheader-allowed-names")?,
            user_headers: headers("requestheader-username-headers")?,
            uid_headers: headers("requestheader-uid-headers")?,
            group_headers: headers("requestheader-group-headers")?,
            extra_prefixes,
        })
    }
}
