//! Objects written to etcd as they are, so that two clusters can hold the same ones: the same uid, the same times, byte by byte.
//!
//! kube-apiserver makes a uid and a time for each new object, which would distinguish the two clusters. What it
//! watches, though, is etcd, and custom resources stand there as JSON. Built-in kinds are protobuf: one is created in
//! the ordinary way, and then its bytes are changed where both forms have the same length.

use anyhow::{Context, Result, ensure};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use e2e::http::{Client, Request};
use http::Method;
use serde_json::{Value, json};

/// etcd's JSON gateway.
pub(crate) struct Etcd {
    client: Client,
}

impl Etcd {
    pub(crate) fn new(client: Client) -> Etcd {
        Etcd { client }
    }

    async fn call(&self, path: &str, body: &Value) -> Result<Value> {
        self.client.send(Request::new(Method::POST, path).json(body)).await?.success()?.json()
    }

    /// Writes, and returns the revision: the object's resourceVersion.
    pub(crate) async fn put(&self, key: &str, value: &[u8]) -> Result<u64> {
        let body = json!({ "key": BASE64_STANDARD.encode(key), "value": BASE64_STANDARD.encode(value) });
        revision(&self.call("/v3/kv/put", &body).await?)
    }

    pub(crate) async fn delete(&self, key: &str) -> Result<u64> {
        let answer = self.call("/v3/kv/deleterange", &json!({ "key": BASE64_STANDARD.encode(key) })).await?;
        ensure!(answer["deleted"] == "1", "{key}: {answer}");
        revision(&answer)
    }

    pub(crate) async fn get(&self, key: &str) -> Result<Vec<u8>> {
        let answer = self.call("/v3/kv/range", &json!({ "key": BASE64_STANDARD.encode(key) })).await?;
        let value = answer["kvs"][0]["value"].as_str().with_context(|| format!("{key} is not there"))?;
        Ok(BASE64_STANDARD.decode(value)?)
    }

    /// Writes what no client reads until so many revisions have been.
    pub(crate) async fn advance_to(&self, revision: u64) -> Result<()> {
        while self.put("/filler", b"").await? < revision {}
        Ok(())
    }
}

fn revision(answer: &Value) -> Result<u64> {
    answer["header"]["revision"].as_str().context("a revision")?.parse().context("a revision is a number")
}

/// Replaces every occurrence of some bytes by as many others.
///
/// # Errors
/// When they differ in length, which would break a protobuf, or are missing.
pub(crate) fn exchange(bytes: &mut [u8], from: &[u8], to: &[u8]) -> Result<()> {
    ensure!(from.len() == to.len() && !from.is_empty(), "{} bytes cannot take the place of {}", to.len(), from.len());
    let mut found = 0;
    let mut place = 0;
    while place + from.len() <= bytes.len() {
        if &bytes[place..place + from.len()] == from {
            bytes[place..place + from.len()].copy_from_slice(to);
            found += 1;
            place += from.len();
        } else {
            place += 1;
        }
    }
    ensure!(found > 0, "{} is not there", String::from_utf8_lossy(from));
    Ok(())
}

/// A protobuf varint.
pub(crate) fn varint(mut number: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    loop {
        let low = u8::try_from(number & 0x7f).unwrap_or_default();
        number >>= 7;
        if number == 0 {
            bytes.push(low);
            return bytes;
        }
        bytes.push(low | 0x80);
    }
}
