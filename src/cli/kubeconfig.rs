//! `fieldcache kubeconfig`: a kubeconfig for reading through a View.
//!
//! Its cluster is the View's endpoint, and its user is that of the kubeconfig with which the command read the View.
//! Client certificates are copied. Tokens are not, because the operator accepts only tokens with its own audience. Such
//! a token comes from a file that the kubelet updates ([`KubeconfigArguments::token_file`]), or is requested here
//! ([`KubeconfigArguments::service_account`]). The command does not connect to the View and writes no file.

use anyhow::{Context, anyhow, bail};
use http::Uri;
use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::ServiceAccount;
use kube::Api;
use kube::api::PostParams;
use serde_json::{Map, Value, json};

use super::arguments::KubeconfigArguments;
use super::exit::{self, Exit};
use super::output::{Printed, TextTable, printed, write_out};
use crate::access::AUDIENCE;
use crate::kinds::{self, Endpoint, View};
use crate::operator::api_error::described;
use crate::source::connection::{ClusterOptions, Connection, RequestError};
use crate::source::kubeconfig::{KubeconfigIdentity, identity};

/// Prints the kubeconfig.
///
/// # Errors
/// The View cannot be read, is not ready or has no endpoint; or there are no valid credentials. Each error names the
/// remedy.
pub async fn run(arguments: KubeconfigArguments) -> anyhow::Result<Exit> {
    let options =
        ClusterOptions { kubeconfig: arguments.kubeconfig.clone(), context: arguments.context.clone(), server: None };
    let connection = Connection::open(&options).await?;
    let view = read_view(&connection, &arguments.view).await?;
    let endpoint = endpoint(&view, &arguments.view)?;
    let mut own = identity(&options)?;
    if let Some(file) = &arguments.token_file {
        // Symbolic links are not resolved: the kubelet replaces them when it updates the token.
        let file = std::path::absolute(file).with_context(|| format!("--token-file {}", file.display()))?;
        own.user = json!({ "tokenFile": file });
    } else if let Some(account) = &arguments.service_account {
        own.user = json!({ "token": request_token(&connection, account).await? });
    }
    let place = ViewServer::new(endpoint, arguments.server.as_deref())?;
    if !place.encrypted {
        exit::note(&format!(
            "the connection to {} is not encrypted, so the kubeconfig has no credentials",
            place.server
        ));
    } else if arguments.token_file.is_none() && arguments.service_account.is_none() {
        own.user = credentials(own.user, &place, arguments.allow_api_server_credentials)?;
        if own.user.as_object().is_none_or(Map::is_empty) {
            exit::note("the user of this kubeconfig has no credentials: see --token-file and --service-account");
        }
    }
    let document = document(&arguments.view, &place, own);
    write_out(&printed(&PrintedKubeconfig(document), arguments.output))?;
    Ok(Exit::Done)
}

/// Reads the View from the cluster.
///
/// # Errors
/// The name is invalid, the View or the kind does not exist, or the View cannot be read.
async fn read_view(connection: &Connection, name: &str) -> anyhow::Result<View> {
    let is_name = |text: &str| {
        let is_valid = |character: char| character.is_ascii_alphanumeric() || character == '-' || character == '.';
        !text.is_empty() && text.chars().all(is_valid)
    };
    if !is_name(name) {
        bail!("{name:?} is not a valid name of a View: names consist of lower case letters, digits, '-' and '.'");
    }
    let path = format!("/apis/{}/{}/views/{name}", kinds::GROUP, kinds::VERSION);
    // The message of a 404 names the View if the kind exists. Without the kind, it is about the path.
    let document = match connection.json(&path, "application/json").await {
        Err(RequestError::Status { code: 404, message, .. }) if message.contains(&format!("{name:?}")) => {
            bail!("there is no View {name:?} in cluster {}: `kubectl get views` lists all Views", connection.url())
        }
        Err(RequestError::Status { code: 404, .. }) => bail!(
            "cluster {} has no Views: fieldcache is not installed there, or the kubeconfig is for another cluster",
            connection.url()
        ),
        answered => answered?,
    };
    serde_json::from_value(document).with_context(|| format!("View {name:?} cannot be read by this release"))
}

/// The endpoint of a View.
///
/// # Errors
/// The View is not accepted, is not ready or has no endpoint.
pub(super) fn endpoint<'a>(view: &'a View, name: &str) -> anyhow::Result<&'a Endpoint> {
    let status = view.status.as_ref();
    let condition = |kind: &str| status?.conditions.iter().find(|condition| condition.type_ == kind);
    if let Some(accepted) = condition("Accepted").filter(|accepted| accepted.status == "False") {
        bail!(
            "View {name:?} is not accepted: {}: {}; change its spec with `kubectl edit view {name}`",
            accepted.reason,
            accepted.message
        );
    }
    match condition("Ready") {
        Some(ready) if ready.status == "True" => {}
        Some(ready) => bail!(
            "View {name:?} is not ready: {}: {}; `kubectl wait --for=condition=Ready view/{name}` waits for it",
            ready.reason,
            ready.message
        ),
        None => bail!(
            "View {name:?} is not ready: no operator has processed it yet; `kubectl -n fieldcache-system get pods` shows whether one runs"
        ),
    }
    status.and_then(|status| status.endpoint.as_ref()).with_context(|| {
        format!("View {name:?} is ready, but its status names no endpoint; `kubectl describe view {name}` shows who wrote it")
    })
}

/// The server of the kubeconfig.
#[derive(Debug)]
pub(super) struct ViewServer {
    /// The URL of the server, with the path of the View.
    server: String,
    /// The certificate authorities of the server, PEM in base64; `None`: clients trust its certificate without them.
    authority: Option<Value>,
    /// The name in the server's certificate, if the host of the URL differs from it.
    name: Option<String>,
    /// Whether the URL has the scheme https.
    encrypted: bool,
}

impl ViewServer {
    /// The View's endpoint, or the URL `server` of `--server` instead. `server` gets the View's path unless it has a
    /// path, and is expected to present the certificate of the endpoint.
    ///
    /// # Errors
    /// One of the URLs is invalid.
    pub(super) fn new(endpoint: &Endpoint, server: Option<&str>) -> anyhow::Result<ViewServer> {
        let own: Uri = parse(&endpoint.url).with_context(|| format!("the View's endpoint {:?}", endpoint.url))?;
        let reached: Uri = match server {
            Some(server) => parse(server).with_context(|| format!("--server {server:?}"))?,
            None => own.clone(),
        };
        let has_path = |url: &Uri| url.path() != "/";
        let path = if has_path(&reached) { reached.path() } else { own.path() };
        let (scheme, authority) = (reached.scheme_str().unwrap_or_default(), reached.authority());
        let server = format!("{scheme}://{}{path}", authority.map(http::uri::Authority::as_str).unwrap_or_default());
        let encrypted = scheme == "https";
        Ok(ViewServer {
            server: server.trim_end_matches('/').to_owned(),
            authority: endpoint.ca_bundle.as_ref().filter(|_| encrypted).map(|bundle| json!(bundle)),
            name: Some(host(&own)).filter(|name| encrypted && *name != host(&reached)),
            encrypted,
        })
    }
}

/// Parses the URL of a server.
///
/// # Errors
/// Not a URL with the scheme http or https and a host.
fn parse(text: &str) -> anyhow::Result<Uri> {
    let url: Uri = text.parse()?;
    match (url.scheme_str(), url.host()) {
        (Some("http" | "https"), Some(_)) => Ok(url),
        _ => bail!("not a URL such as https://127.0.0.1:8443"),
    }
}

/// The host of a URL as certificates name it: an IPv6 address without its brackets.
fn host(url: &Uri) -> String {
    url.host().unwrap_or_default().trim_matches(['[', ']']).to_owned()
}

/// The part of a kubeconfig's `user` that may be sent to the server of a View: a client certificate and its key, which
/// authenticate the user without disclosing a secret. Other credentials are for the API server alone: a server that
/// receives them can use them there. They are left out, unless `allows_others`: then `user` is returned unchanged.
///
/// # Errors
/// There are other credentials and no certificate, and `allows_others` is false.
pub(super) fn credentials(mut user: Value, place: &ViewServer, allows_others: bool) -> anyhow::Result<Value> {
    const CERTIFICATE: [&str; 2] = ["client-certificate", "client-certificate-data"];
    const KEY: [&str; 2] = ["client-key", "client-key-data"];
    const OTHERS: [&str; 6] = ["exec", "auth-provider", "token", "tokenFile", "username", "password"];
    if allows_others {
        return Ok(user);
    }
    let has = |name: &&&str| user.get(**name).is_some();
    let (has_certificate, other) = (CERTIFICATE.iter().any(|name| has(&name)), OTHERS.iter().find(has));
    if let Some(other) = other.filter(|_| !has_certificate) {
        bail!(
            "the user of this kubeconfig has no client certificate, and its {other} is for the API server. {} would receive and reject it, because a token must have the audience {AUDIENCE}. Use --service-account NAMESPACE/NAME or --token-file FILE, or allow it with \
             --allow-api-server-credentials",
            place.server
        );
    }
    if let Some(user) = user.as_object_mut() {
        user.retain(|name, _| CERTIFICATE.contains(&&**name) || KEY.contains(&&**name));
    }
    Ok(user)
}

/// Builds the kubeconfig of the View `view` as a document: with the server `place`, and the user and namespace of
/// `own`. Without encryption, it has no credentials.
pub(super) fn document(view: &str, place: &ViewServer, own: KubeconfigIdentity) -> Value {
    let name = format!("fieldcache-{view}");
    let mut cluster = json!({ "server": place.server });
    if let Some(authority) = &place.authority {
        cluster["certificate-authority-data"] = authority.clone();
    }
    if let Some(server_name) = &place.name {
        cluster["tls-server-name"] = json!(server_name);
    }
    let mut context = json!({ "cluster": name, "user": name });
    if let Some(namespace) = own.namespace {
        context["namespace"] = json!(namespace);
    }
    let user = if place.encrypted { own.user } else { json!({}) };
    json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{ "name": name, "cluster": cluster }],
        "users": [{ "name": name, "user": user }],
        "contexts": [{ "name": name, "context": context }],
        "current-context": name,
    })
}

/// A kubeconfig, to be printed. As in `kubectl config get-contexts`, names are those of contexts.
pub(super) struct PrintedKubeconfig(pub(super) Value);

impl Printed for PrintedKubeconfig {
    fn document(&self) -> Value {
        self.0.clone()
    }

    fn table(&self, is_wide: bool) -> String {
        let mut headers = vec!["NAME", "CLUSTER", "AUTHINFO", "NAMESPACE"];
        if is_wide {
            headers.push("SERVER");
        }
        let mut table = TextTable::new(&headers);
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let (named, cluster) = (&self.0["contexts"][0], &self.0["clusters"][0]["cluster"]);
        let context = &named["context"];
        let mut cells =
            vec![text(&named["name"]), text(&context["cluster"]), text(&context["user"]), text(&context["namespace"])];
        if is_wide {
            cells.push(text(&cluster["server"]));
        }
        table.push(cells);
        table.print()
    }

    fn names(&self) -> Vec<String> {
        vec![self.0["current-context"].as_str().unwrap_or_default().to_owned()]
    }
}

/// Requests a token for the ServiceAccount `account`, as `NAMESPACE/NAME`, with the operator's audience and the API
/// server's default lifetime.
///
/// # Errors
/// `account` is invalid, or the API server returns no token.
async fn request_token(connection: &Connection, account: &str) -> anyhow::Result<String> {
    let Some((namespace, name)) = account.split_once('/').filter(|(namespace, name)| {
        let is_part = |part: &str| !part.is_empty() && !part.contains('/');
        is_part(namespace) && is_part(name)
    }) else {
        bail!("--service-account {account:?} is not NAMESPACE/NAME, such as team-a/reader");
    };
    let request = TokenRequest {
        spec: Some(TokenRequestSpec { audiences: Some(vec![AUDIENCE.to_owned()]), ..TokenRequestSpec::default() }),
        ..TokenRequest::default()
    };
    let accounts: Api<ServiceAccount> = Api::namespaced(connection.client(), namespace);
    let answer = accounts.create_token_request(name, &PostParams::default(), &request).await;
    let answer = answer.map_err(|error| {
        anyhow!(
            "cannot get a token of ServiceAccount {name} in namespace {namespace}: {}; the ServiceAccount must exist, and you need the permission to create serviceaccounts/token there",
            described(&error)
        )
    })?;
    answer.status.and_then(|status| status.token).context("the response of the API server has no token")
}
