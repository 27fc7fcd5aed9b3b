//! Where the objects come from: kube-apiserver or a folder. A case that makes sense for both is written once against [`Backend`].

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, anyhow, ensure};
use e2e::control_plane::ControlPlane;
use e2e::eventually::eventually;
use e2e::fieldcache::Fieldcache;
use e2e::http::{Client, Lines, Next, Request};
use e2e::objects;
use e2e::run_directory::RunDirectory;
use http::Method;
use serde_json::Value;
use tokio::sync::OnceCell;

/// How long a change may take to be seen through fieldcache.
pub(crate) const SOON: Duration = Duration::from_secs(30);

/// How long nothing has to come for us to believe that nothing will.
const QUIET: Duration = Duration::from_millis(250);

/// A fieldcache and the place its objects are written to.
pub(crate) enum Backend {
    /// The shared kube-apiserver and one fieldcache for all tests.
    Cluster { writer: Box<Client>, fieldcache: &'static Fieldcache },
    /// A folder and a fieldcache of the test's own.
    Folder { fieldcache: Box<Fieldcache>, folder: RunDirectory },
}

impl Backend {
    /// fieldcache beside the shared kube-apiserver.
    pub(crate) async fn cluster() -> Result<Backend> {
        static SHARED: OnceCell<Result<Fieldcache, String>> = OnceCell::const_new();
        let control_plane = ControlPlane::shared().await?;
        let started = SHARED
            .get_or_init(async || {
                let serving = Fieldcache::serve_cluster(control_plane.kubeconfig(), &[]).await;
                serving.map_err(|error| format!("{error:#}"))
            })
            .await;
        let fieldcache = started.as_ref().map_err(|error| anyhow!("fieldcache did not start: {error}"))?;
        Ok(Backend::Cluster { writer: Box::new(control_plane.client()), fieldcache })
    }

    /// fieldcache on an empty folder.
    pub(crate) async fn folder() -> Result<Backend> {
        let folder = RunDirectory::create("manifests")?;
        fs::create_dir(served(&folder))?;
        let fieldcache = Box::pin(Fieldcache::serve_folder(&served(&folder))).await?;
        Ok(Backend::Folder { fieldcache: Box::new(fieldcache), folder })
    }

    /// A new client of fieldcache.
    pub(crate) fn client(&self) -> Client {
        self.fieldcache().client()
    }

    /// The fieldcache.
    pub(crate) fn fieldcache(&self) -> &Fieldcache {
        match self {
            Backend::Cluster { fieldcache, .. } => fieldcache,
            Backend::Folder { fieldcache, .. } => fieldcache,
        }
    }

    /// Whether objects are files.
    pub(crate) fn is_folder(&self) -> bool {
        matches!(self, Backend::Folder { .. })
    }

    /// Creates a definition or replaces its spec, and waits until fieldcache serves it.
    pub(crate) async fn define(&self, definition: &Value) -> Result<()> {
        self.put(objects::DEFINITIONS, definition).await?;
        if let Backend::Cluster { writer, .. } = self {
            objects::served(writer, definition).await?;
        }
        objects::served(&self.client(), definition).await.context("through fieldcache")
    }

    /// Creates an object of the collection at `path`, or replaces it.
    pub(crate) async fn put(&self, path: &str, object: &Value) -> Result<()> {
        match self {
            Backend::Cluster { writer, .. } => {
                let requested = Request::new(Method::POST, path).json(object);
                let answer = writer.send(requested).await?;
                if answer.status.as_u16() != 409 {
                    answer.success().with_context(|| format!("creating {}", name(object)))?;
                    return Ok(());
                }
                let path = format!("{path}/{}", name(object));
                // Controllers may write between our read and our write.
                eventually("the object is replaced", SOON, async || {
                    let current = writer.get_json(&path).await?;
                    let mut new = object.clone();
                    new["metadata"]["resourceVersion"] = current["metadata"]["resourceVersion"].clone();
                    objects::replace(writer, &path, &new).await
                })
                .await?;
            }
            Backend::Folder { folder, .. } => {
                // Renamed into place, so that no client reads half a file.
                let staged = folder.write("staged", object.to_string())?;
                fs::rename(staged, file(folder, object))?;
            }
        }
        Ok(())
    }

    /// Deletes an object of the collection at `path`.
    pub(crate) async fn remove(&self, path: &str, object: &Value) -> Result<()> {
        match self {
            Backend::Cluster { writer, .. } => {
                objects::delete(writer, &format!("{path}/{}", name(object))).await?;
            }
            Backend::Folder { folder, .. } => fs::remove_file(file(folder, object))?,
        }
        Ok(())
    }
}

fn served(folder: &RunDirectory) -> PathBuf {
    folder.path().join("served")
}

fn file(folder: &RunDirectory, object: &Value) -> PathBuf {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let namespace = text(&object["metadata"]["namespace"]);
    served(folder).join(format!("{}-{namespace}-{}.json", text(&object["kind"]), name(object)))
}

/// metadata.name.
pub(crate) fn name(object: &Value) -> &str {
    object["metadata"]["name"].as_str().unwrap_or_default()
}

/// The names of a list, in its order.
pub(crate) fn names(list: &Value) -> Vec<&str> {
    list["items"].as_array().into_iter().flatten().map(name).collect()
}

/// The collection at `path` with these selectors; `more` is appended as it is.
pub(crate) fn query(path: &str, field_selector: &str, label_selector: &str, more: &str) -> String {
    let mut query = format!("{path}?fieldSelector={}", escaped(field_selector));
    if !label_selector.is_empty() {
        query.push_str(&format!("&labelSelector={}", escaped(label_selector)));
    }
    query + more
}

/// Percent-encoded for a query.
pub(crate) fn escaped(text: &str) -> String {
    text.bytes()
        .map(|byte| match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' => char::from(byte).to_string(),
            _ => format!("%{byte:02X}"),
        })
        .collect()
}

/// Waits until the list at `path` has these names in this order.
pub(crate) async fn lists(client: &Client, path: &str, expected: &[&str]) -> Result<()> {
    eventually(&format!("{path} lists {expected:?}"), SOON, async || {
        let list = client.get_json(path).await?;
        ensure!(names(&list) == expected, "it lists {:?}", names(&list));
        Ok(())
    })
    .await
}

/// Reads these events (type and name), in this order, bookmarks apart.
pub(crate) async fn follows(watch: &mut Lines, expected: &[(&str, &str)]) -> Result<Vec<Value>> {
    let mut seen = Vec::new();
    while seen.len() < expected.len() {
        let context = || format!("after {:?} of {expected:?}", shown(&seen));
        let event = watch.event(SOON).await.with_context(context)?;
        if event["type"] == "BOOKMARK" {
            continue;
        }
        seen.push(event);
        ensure!(shown(&seen) == expected[..seen.len()], "came {:?}, expected {expected:?}", shown(&seen));
    }
    Ok(seen)
}

fn shown(events: &[Value]) -> Vec<(&str, &str)> {
    events.iter().map(|event| (event["type"].as_str().unwrap_or_default(), name(&event["object"]))).collect()
}

/// Nothing but bookmarks comes.
pub(crate) async fn is_quiet(watch: &mut Lines) -> Result<()> {
    loop {
        match watch.next(QUIET).await? {
            Next::Nothing => return Ok(()),
            Next::Line(line) if line.starts_with(br#"{"type":"BOOKMARK""#) => {}
            other => return Err(anyhow!("unexpected: {other:?}")),
        }
    }
}

/// Waits for the clean end of a watch.
pub(crate) async fn ends(watch: &mut Lines) -> Result<()> {
    loop {
        match watch.next(SOON).await? {
            Next::End => return Ok(()),
            Next::Line(_) => {}
            Next::Nothing => return Err(anyhow!("the watch goes on")),
        }
    }
}

/// The answer is a Status with this code and message.
pub(crate) async fn refused(client: &Client, path: &str, code: u16, message: &str) -> Result<()> {
    let answer = client.get(path).await?;
    let status = answer.json().with_context(|| path.to_owned())?;
    ensure!(answer.status.as_u16() == code && status["message"] == message, "{path}: {}: {status}", answer.status);
    Ok(())
}

/// A file of the served folder, for tests that write what is no object.
pub(crate) fn served_file(backend: &Backend, name: &str) -> Result<PathBuf> {
    match backend {
        Backend::Folder { folder, .. } => Ok(served(folder).join(Path::new(name))),
        Backend::Cluster { .. } => Err(anyhow!("a cluster has no files")),
    }
}
