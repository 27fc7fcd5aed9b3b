//! Without the API server nobody is let in, everybody is told why, and with it again all is as before.

use std::time::Duration;

use anyhow::{Result, ensure};
use e2e::eventually::eventually;

use super::stage::{GROUP, Stage};

const SOON: Duration = Duration::from_secs(120);

#[tokio::test]
async fn an_outage_of_the_api_server_lets_nobody_in() -> Result<()> {
    let mut stage = Box::pin(Stage::set()).await?;
    let shirts = format!("/apis/{GROUP}/v1/shirts");
    let [_, erin] = stage.sides(Some(&stage.user("erin", Some("team"))?))?;
    let erin = erin.client();
    eventually("shirts are served", SOON, async || erin.get(&shirts).await?.success().map(|_| ())).await?;
    let [_, nobody] = stage.sides(None)?;
    let reader = nobody.clone().with_token(&stage.token(Some("fieldcache.dev")).await?)?.client();
    stage.control_plane.stop_apiserver();
    // A question that was answered within the last ten seconds is not asked; these were not.
    let refused = erin.get(&format!("{shirts}?labelSelector=a")).await?;
    ensure!(refused.status == 500 && refused.text().contains("does not answer"), "{}", refused.text());
    let refused = reader.get("/api").await?;
    ensure!(refused.status == 503 && refused.text().contains("could not be reviewed"), "{}", refused.text());
    ensure!(refused.header("retry-after") == Some("1"), "{:?}", refused.headers);
    ensure!(nobody.client().get("/livez").await?.status == 200, "it lives all the same");
    stage.control_plane.start_apiserver().await?;
    eventually("all is as before", SOON, async || {
        erin.get(&format!("{shirts}?labelSelector=a")).await?.success()?;
        reader.get("/api").await?.success().map(|_| ())
    })
    .await?;
    stage.fieldcache.process().ensure_running()
}
