//! Aggregated APIs come and go without a definition that could be followed: clients that read discovery find them soon.

use std::time::Duration;

use anyhow::{Result, ensure};
use e2e::control_plane::{ControlPlane, Settings};
use e2e::eventually::eventually;
use e2e::fieldcache::Fieldcache;
use e2e::http::Client;
use e2e::objects;
use serde_json::json;

/// Less than the minute after which discovery is read again in any case.
const SOON: Duration = Duration::from_secs(20);

const GROUP: &str = "aggregated.example.com";

/// Whether the group is listed.
async fn is_listed(client: &Client) -> Result<bool> {
    let list = client.get_json("/apis").await?;
    Ok(list["groups"].as_array().is_some_and(|groups| groups.iter().any(|group| group["name"] == GROUP)))
}

#[tokio::test]
async fn readers_of_discovery_soon_see_an_aggregated_api_come_and_go() -> Result<()> {
    // An aggregated API that does not answer would be seen by other tests.
    let control_plane = Box::pin(ControlPlane::start(Settings::default())).await?;
    // What is only forwarded is listed too.
    let arguments = ["--kubeconfig", &control_plane.kubeconfig().display().to_string(), "--pass-through", "all"];
    let fieldcache = Box::pin(Fieldcache::serve(arguments.map(str::to_owned))).await?;
    let (direct, through) = (control_plane.client(), fieldcache.client());
    let service = json!({
        "apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService", "metadata": { "name": format!("v1.{GROUP}") },
        "spec": {
            "group": GROUP, "version": "v1", "groupPriorityMinimum": 1000, "versionPriority": 15,
            "service": { "namespace": "default", "name": "missing" }, "insecureSkipTLSVerify": true,
        },
    });
    let services = "/apis/apiregistration.k8s.io/v1/apiservices";
    objects::create(&direct, services, &service).await?;
    for expected in [true, false] {
        if !expected {
            objects::delete(&direct, &format!("{services}/v1.{GROUP}")).await?;
        }
        for (side, client) in [("directly", &direct), ("through fieldcache", &through)] {
            eventually(&format!("{GROUP} is listed {side}: {expected}"), SOON, async || {
                ensure!(is_listed(client).await? == expected, "not yet");
                Ok(())
            })
            .await?;
        }
    }
    Ok(())
}
