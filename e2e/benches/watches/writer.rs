//! Updates through kube-apiserver, one at a time.

use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::Result;
use e2e::corpus::shirts::Shirts;
use e2e::http::{Client, Request};
use http::Method;
use serde_json::{Value, json};

/// The client that changes shirts.
#[derive(Debug)]
pub(crate) struct Writer<'a> {
    client: Client,
    corpus: &'a Shirts,
}

/// Updates of all writers: a value that an object has already would be no update.
static TURN: AtomicU64 = AtomicU64::new(0);

impl<'a> Writer<'a> {
    /// Of these shirts, through this client.
    pub(crate) fn new(client: Client, corpus: &'a Shirts) -> Writer<'a> {
        Writer { client, corpus }
    }

    /// Gives shirt `index` another order number, which no client selects by, and returns the changed object.
    pub(crate) async fn update(&self, index: u64) -> Result<Value> {
        let turn = TURN.fetch_add(1, Ordering::Relaxed);
        let object = self.corpus.object(index);
        let [namespace, name] =
            ["namespace", "name"].map(|member| object["metadata"][member].as_str().unwrap_or_default().to_owned());
        let path = format!("{}/{name}?fieldManager=bench", self.corpus.collection(&namespace));
        let mut request = Request::new(Method::PATCH, path);
        request.body = json!({ "spec": { "order": format!("O-w{turn}") } }).to_string().into();
        let request = request.header("content-type", "application/merge-patch+json");
        self.client.send(request).await?.success()?.json()
    }
}
