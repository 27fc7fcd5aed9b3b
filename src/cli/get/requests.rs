//! The requests of the command: lists page by page, single objects, and counts.
//!
//! kube-apiserver ignores query parameters that it does not know, so it would answer a list with `celSelector` or
//! `sortBy` with the wrong objects. [`Requests::check_server`] finds that out before such a list is requested. The
//! media type of Facets tells the servers apart: kube-apiserver rejects it with 406. A fieldcache that forwards the
//! list to an API server returns 406 too, and it rejects these parameters. A header or the API group
//! view.fieldcache.dev would be no proof: kube-apiserver has the group if Views are served through it.

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::{anyhow, bail};
use http::header::WARNING;
use serde_json::Value;
use tokio::time::sleep;

use super::arguments::GetArguments;
use super::plan;
use super::streams::Streams;
use crate::cli::output::printable;
use crate::cli::paths::{list_path, object_path};
use crate::model::percent::percent_encode;
use crate::source::connection::{Connection, RequestError};
use crate::source::discovery::Discovered;
use crate::wire::facets::MEDIA_TYPE;

/// The media type of a list of metadata, for counts by kube-apiserver and for names. Servers that cannot return it
/// return whole objects.
pub(super) const METADATA_LIST: &str =
    "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1;drop=metadata.managedFields,application/json";

/// How often a request is sent while the server is busy or loads the resource. client-go has the same number.
const ATTEMPTS: usize = 10;

/// The query parameters of a request.
pub(super) type Parameters = Vec<(&'static str, String)>;

/// Sends the requests of the command.
pub(super) struct Requests<'r> {
    pub(super) connection: &'r Connection,
    /// The namespace of the command; `None` for all namespaces.
    pub(super) namespace: Option<&'r str>,
    arguments: &'r GetArguments,
    /// The value of the query parameter `sortBy`; `None` without `--sort-by`.
    sort_by: Option<String>,
    /// Warnings of the server that have been printed. Each text is printed once.
    warned: BTreeSet<String>,
}

/// A list that is read page by page.
pub(super) struct ListPages<'r> {
    resource: &'r Discovered,
    /// The media type of the pages.
    accept: String,
    /// The query parameters of all pages, without `limit` and `continue`.
    parameters: Parameters,
    /// The continue token of the next page: empty for the first one, `None` after the last one.
    next: Option<String>,
    /// How many objects `--limit` still permits to read; `None` without `--limit`.
    left: Option<u64>,
    /// How many objects the list has after the pages that were read; `None` if the server does not say.
    pub(super) remaining: Option<u64>,
}

impl ListPages<'_> {
    /// Whether the list has objects that were not read because of `--limit`.
    pub(super) fn is_cut(&self) -> bool {
        self.next.as_ref().is_some_and(|token| !token.is_empty())
    }
}

impl<'r> Requests<'r> {
    /// The requests that `arguments` describe. `namespace` is `None` for all namespaces.
    ///
    /// # Errors
    /// A field of `--sort-by` is invalid.
    pub(super) fn new(
        connection: &'r Connection,
        namespace: Option<&'r str>,
        arguments: &'r GetArguments,
    ) -> anyhow::Result<Requests<'r>> {
        let sort_by = arguments.sort_fields()?;
        Ok(Requests { connection, namespace, arguments, sort_by, warned: BTreeSet::new() })
    }

    /// A list in the media type `accept`, of which no page is read yet. `parameters` are query parameters in addition
    /// to the selectors and `sortBy`.
    pub(super) fn list(&self, resource: &'r Discovered, accept: &str, parameters: &Parameters) -> ListPages<'r> {
        let mut parameters = [self.selectors(), parameters.clone()].concat();
        parameters.extend(self.sort_by.clone().map(|fields| ("sortBy", fields)));
        let (accept, left) = (accept.to_owned(), self.arguments.limit);
        ListPages { resource, accept, parameters, next: Some(String::new()), left, remaining: None }
    }

    /// The query parameters that select objects: `labelSelector`, `fieldSelector` and `celSelector`, if given.
    fn selectors(&self) -> Parameters {
        let GetArguments { label_selector, field_selector, expression, .. } = self.arguments;
        let selectors =
            [("labelSelector", label_selector), ("fieldSelector", field_selector), ("celSelector", expression)];
        selectors.into_iter().filter_map(|(name, value)| Some((name, value.clone()?))).collect()
    }

    /// The query parameter of `--explain`, if it is given.
    fn explain_parameter(&self) -> Option<(&'static str, String)> {
        let (name, value) = plan::PARAMETER;
        self.arguments.explain.then(|| (name, value.to_owned()))
    }

    /// The next page of a list; `None` after the last one, or after the last one that `--limit` permits.
    ///
    /// # Errors
    /// Those of [`Requests::read`].
    pub(super) async fn next_page(
        &mut self,
        pages: &mut ListPages<'r>,
        streams: &mut Streams<'_>,
    ) -> anyhow::Result<Option<Value>> {
        if pages.left == Some(0) {
            return Ok(None);
        }
        let Some(token) = pages.next.take() else { return Ok(None) };
        let mut parameters = pages.parameters.clone();
        // `None`: no limit, because `--chunk-size 0` reads the list at once.
        let size = match (self.arguments.chunk_size, pages.left) {
            (0, left) => left,
            (chunk, left) => Some(left.map_or(chunk, |left| left.min(chunk))),
        };
        parameters.extend(size.map(|size| ("limit", size.to_string())));
        match token.is_empty() {
            true => parameters.extend(self.explain_parameter()),
            false => parameters.push(("continue", token)),
        }
        let path = with_parameters(&list_path(pages.resource, self.namespace), &parameters);
        let page = self.read(&path, &pages.accept, streams).await?;
        // A Table has `rows`, any other list has `items`.
        let objects: usize =
            ["items", "rows"].into_iter().filter_map(|member| page[member].as_array()).map(Vec::len).sum();
        let objects = u64::try_from(objects).unwrap_or(u64::MAX);
        pages.left = pages.left.map(|left| left.saturating_sub(objects));
        let metadata = &page["metadata"];
        pages.next = metadata["continue"].as_str().filter(|token| !token.is_empty()).map(str::to_owned);
        pages.remaining = metadata["remainingItemCount"].as_u64();
        Ok(Some(page))
    }

    /// One object in the media type `accept`, requested with the query parameters `parameters`. The inner error is the
    /// message for an object that does not exist.
    ///
    /// # Errors
    /// Those of [`Requests::read`], except status 404.
    pub(super) async fn object(
        &mut self,
        resource: &Discovered,
        name: &str,
        (accept, parameters): (&str, &Parameters),
        streams: &mut Streams<'_>,
    ) -> anyhow::Result<Result<Value, String>> {
        let path = with_parameters(&object_path(resource, self.namespace.unwrap_or_default(), name), parameters);
        match self.try_read(&path, accept, streams).await? {
            Ok(object) => Ok(Ok(object)),
            Err(error) if error.code() == Some(404) => Ok(Err(self.explained(&error).to_string())),
            Err(error) => Err(self.explained(&error)),
        }
    }

    /// The Facets document of a list, with the selectors and `--facet-limit` of the options. `fields` is the value of
    /// `--facets`; `None` requests only the number of objects. Returns `None` if the server has no Facets: then it is
    /// not a fieldcache, or does not cache the resource.
    ///
    /// # Errors
    /// Those of [`Requests::read`].
    pub(super) async fn facets(
        &mut self,
        resource: &Discovered,
        fields: Option<&str>,
        streams: &mut Streams<'_>,
    ) -> anyhow::Result<Option<Value>> {
        let mut parameters = self.selectors();
        parameters.extend(fields.map(|fields| ("facets", fields.to_owned())));
        parameters.extend(self.explain_parameter());
        parameters.extend(self.arguments.facet_limit.map(|limit| ("facetLimit", limit.to_string())));
        self.read_facets(resource, &parameters, streams).await
    }

    /// The Facets document of a list, requested with exactly these query parameters. `None` as in [`Requests::facets`].
    ///
    /// # Errors
    /// Those of [`Requests::read`], except status 406.
    async fn read_facets(
        &mut self,
        resource: &Discovered,
        parameters: &Parameters,
        streams: &mut Streams<'_>,
    ) -> anyhow::Result<Option<Value>> {
        let path = with_parameters(&list_path(resource, self.namespace), parameters);
        match self.try_read(&path, MEDIA_TYPE, streams).await? {
            Ok(document) => Ok(Some(document).filter(|document| document["kind"] == "Facets")),
            Err(error) if error.code() == Some(406) => Ok(None),
            Err(error) => Err(self.explained(&error)),
        }
    }

    /// The number of objects of a list from a server without Facets. The method reads a page with one object, and adds
    /// its `remainingItemCount`. `None` if the server does not return the number, or the options have selectors:
    /// kube-apiserver returns no `remainingItemCount` for a list with selectors.
    ///
    /// # Errors
    /// Those of [`Requests::read`].
    pub(super) async fn remaining_count(
        &mut self,
        resource: &Discovered,
        streams: &mut Streams<'_>,
    ) -> anyhow::Result<Option<u64>> {
        if !self.selectors().is_empty() {
            return Ok(None);
        }
        let parameters = vec![("limit", "1".to_owned())];
        let path = with_parameters(&list_path(resource, self.namespace), &parameters);
        let page = self.read(&path, METADATA_LIST, streams).await?;
        let first = page["items"].as_array().map_or(0, Vec::len);
        let metadata = &page["metadata"];
        let is_last = metadata["continue"].as_str().is_none_or(str::is_empty);
        let remaining = metadata["remainingItemCount"].as_u64().or_else(|| is_last.then_some(0));
        Ok(remaining.map(|remaining| remaining + u64::try_from(first).unwrap_or(u64::MAX)))
    }

    /// Checks, if `--where`, `--sort-by` or `--explain` is given, that the server does not ignore the query parameter of the option.
    ///
    /// # Errors
    /// The server does not support the parameter; names the remedy. And those of [`Requests::read`].
    pub(super) async fn check_server(
        &mut self,
        resource: &Discovered,
        streams: &mut Streams<'_>,
    ) -> anyhow::Result<()> {
        let options = [
            ("--where", self.arguments.expression.is_some()),
            ("--sort-by", self.sort_by.is_some()),
            ("--explain", self.arguments.explain),
        ];
        let Some((option, _)) = options.into_iter().find(|(_, is_set)| *is_set) else { return Ok(()) };
        // Without selectors, so that the server need not evaluate an expression for this check.
        match self.read_facets(resource, &Vec::new(), streams).await? {
            Some(_) => Ok(()),
            None => bail!(self.ignored(option, resource)),
        }
    }

    /// The error for a server that does not support an option.
    pub(super) fn ignored(&self, option: &str, resource: &Discovered) -> anyhow::Error {
        let url = self.connection.url();
        anyhow!(
            "{url} does not support {option}, because it is not a fieldcache server, or does not cache {}: give the URL of a fieldcache server with --server, such as that of `fieldcache serve`, or use a kubeconfig that `fieldcache kubeconfig VIEW` wrote",
            resource.gvr.resource
        )
    }

    /// Sends a GET, and returns the JSON document. Prints warnings of the server. `path` includes the query.
    ///
    /// # Errors
    /// The server cannot be reached, or its response is an error or no JSON.
    async fn read(&mut self, path: &str, accept: &str, streams: &mut Streams<'_>) -> anyhow::Result<Value> {
        self.try_read(path, accept, streams).await?.map_err(|error| self.explained(&error))
    }

    /// Like [`Requests::read`], for callers that handle some error statuses. Sends the request again, at most
    /// [`ATTEMPTS`] times in all, if the server returns 429 with Retry-After, such as while it loads the resource.
    ///
    /// # Errors
    /// The inner error: the server returned an error, no valid JSON, or nothing. The outer error: standard error
    /// cannot be written.
    async fn try_read(
        &mut self,
        path: &str,
        accept: &str,
        streams: &mut Streams<'_>,
    ) -> anyhow::Result<Result<Value, RequestError>> {
        let mut attempt = 1;
        let (headers, document) = loop {
            match self.connection.json_with_headers(path, accept).await {
                Ok(response) => break response,
                Err(error) => match wait_before_retry(&error).filter(|_| attempt < ATTEMPTS) {
                    Some(wait) => {
                        attempt += 1;
                        sleep(wait).await;
                    }
                    None => return Ok(Err(error)),
                },
            }
        };
        for value in headers.get_all(WARNING) {
            let text = warning_text(&String::from_utf8_lossy(value.as_bytes()));
            if self.warned.insert(text.clone()) {
                writeln!(streams.err, "Warning: {}", printable(&text))?;
            }
        }
        if let Some(text) = plan::text(&headers).filter(|_| self.arguments.explain) {
            write!(streams.err, "{text}")?;
        }
        Ok(Ok(document))
    }

    /// The error as the user sees it. It leaves out the path of the request, which the user did not enter.
    fn explained(&self, error: &RequestError) -> anyhow::Error {
        match error {
            RequestError::Status { url, code, message, .. } => anyhow!("{url} returned {code}: {message}"),
            RequestError::Broken { .. } => {
                anyhow!("{error}; if a page is too large, read smaller ones with --chunk-size")
            }
            RequestError::Unreachable { .. } => error.clone().into(),
        }
    }
}

/// How long to wait before a request is sent again; `None` if the server does not permit that.
fn wait_before_retry(error: &RequestError) -> Option<Duration> {
    match error {
        RequestError::Status { code: 429, retry_after, .. } => *retry_after,
        RequestError::Status { .. } | RequestError::Unreachable { .. } | RequestError::Broken { .. } => None,
    }
}

/// A path with its query; the path alone if there are no parameters.
fn with_parameters(path: &str, parameters: &Parameters) -> String {
    let pairs: Vec<String> =
        parameters.iter().map(|(name, value)| format!("{name}={}", percent_encode(value))).collect();
    if pairs.is_empty() { path.to_owned() } else { format!("{path}?{}", pairs.join("&")) }
}

/// The message of a `Warning` header such as `299 - "text"`, in which a backslash escapes the next character. A value
/// of another form is returned as it is.
pub(super) fn warning_text(header: &str) -> String {
    let quoted = header.split_once(" \"").and_then(|(_, rest)| rest.strip_suffix('"'));
    let Some(quoted) = quoted else { return header.to_owned() };
    let (mut text, mut characters) = (String::new(), quoted.chars());
    while let Some(character) = characters.next() {
        match character {
            '\\' => text.extend(characters.next()),
            _ => text.push(character),
        }
    }
    text
}
