//! Without the API server no user is authenticated, every caller learns why, and with it again all is as before.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use e2e::eventually::eventually;
use e2e::objects;
use serde_json::json;

use super::stage::{GROUP, Stage, grant_trust, revoke_trust};

const SOON: Duration = Duration::from_secs(120);

#[tokio::test]
async fn requests_are_rejected_during_an_outage_of_the_api_server() -> Result<()> {
    let mut stage = Box::pin(Stage::set()).await?;
    let shirts = format!("/apis/{GROUP}/v1/shirts");
    let [_, erin] = stage.sides(Some(&stage.user("erin", Some("team"))?))?;
    let erin = erin.client();
    eventually("shirts are served", SOON, async || erin.get(&shirts).await?.success().map(|_| ())).await?;
    let [_, nobody] = stage.sides(None)?;
    let reader = nobody.clone().with_token(&stage.token(Some("fieldcache.dev")).await?)?.client();
    stage.control_plane.stop_apiserver();
    // A review with a result from the last ten seconds is not sent again; these had none.
    let refused = erin.get(&format!("{shirts}?labelSelector=a")).await?;
    ensure!(refused.status == 500 && refused.text().contains("returned no decision"), "{}", refused.text());
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

#[tokio::test]
async fn before_the_client_authorities_are_loaded_no_certificate_is_rejected_as_invalid() -> Result<()> {
    let mut stage = Box::pin(Stage::set()).await?;
    let [_, erin] = stage.sides(Some(&stage.user("erin", Some("team"))?))?;
    let [_, nobody] = stage.sides(None)?;
    let reader = nobody.with_token(&stage.token(Some("fieldcache.dev")).await?)?;
    stage.fieldcache.stop().await?;
    let administrator = stage.control_plane.client();
    revoke_trust(&administrator).await?;
    let (own, _) = stage.control_plane.as_user("fieldcache", None)?;
    let config_map = "/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication";
    eventually("it may not read the ConfigMap", SOON, async || {
        let answer = own.client().get(config_map).await?;
        ensure!(answer.status == 403, "{answer:?}");
        Ok(())
    })
    .await?;
    stage.fieldcache.start_again().await?;
    let refused = erin.client().get("/api").await?;
    ensure!(
        refused.status == 503 && refused.text().contains("client CA certificates are not loaded yet"),
        "{}",
        refused.text()
    );
    ensure!(refused.header("retry-after") == Some("1"), "{:?}", refused.headers);
    let ready = erin.client().get("/readyz?verbose").await?;
    // As long as no certificate is validated, erin is unauthenticated and gets no details.
    ensure!(ready.status == 500 && ready.text() == "readyz check failed\n", "{}", ready.text());
    reader.client().get("/api").await?.success().context("the API server reviews tokens")?;
    grant_trust(&administrator).await?;
    eventually("it is known", SOON, async || erin.client().get("/api").await?.success().map(|_| ())).await?;
    stage.fieldcache.process().ensure_running()
}

#[tokio::test]
async fn before_it_is_known_what_is_served_nothing_is_said_not_to_be_there() -> Result<()> {
    let mut stage = Box::pin(Stage::set()).await?;
    let [_, asker] = stage.sides(Some(&stage.user("asker", Some("system:masters"))?))?;
    let administrator = stage.control_plane.client();
    let missing = [
        format!("/apis/{GROUP}/v1/socks"),
        "/api/v1/nodes".to_owned(),
        "/apis/view.fieldcache.dev/v1alpha1/views/nobody/proxy/api/v1/pods".to_owned(),
    ];
    let all_say = async |code: u16, word: &str| {
        for path in &missing {
            let answer = asker.client().get(path).await?;
            ensure!(answer.status == code && answer.text().contains(word), "{path}: {answer:?}");
            ensure!((answer.header("retry-after") == Some("1")) == (code == 429), "{path}: {:?}", answer.headers);
        }
        Ok(())
    };
    eventually("what is missing is missing", SOON, async || all_say(404, "not").await).await?;
    stage.fieldcache.stop().await?;
    let role = "/apis/rbac.authorization.k8s.io/v1/clusterroles/fieldcache";
    let mut rules = administrator.get_json(role).await?["rules"].clone();
    let current_rules = rules.clone();
    rules.as_array_mut().context("rules are a list")?.retain(|rule| rule["resources"] != json!(["views"]));
    objects::merge(&administrator, role, &json!({ "rules": rules })).await?;
    let (own, _) = stage.control_plane.as_user("fieldcache", None)?;
    eventually("it may not list Views", SOON, async || {
        let answer = own.client().get("/apis/fieldcache.dev/v1alpha1/views").await?;
        ensure!(answer.status == 403, "{answer:?}");
        Ok(())
    })
    .await?;
    stage.fieldcache.start_again().await?;
    let shirts = format!("/apis/{GROUP}/v1/shirts");
    eventually("what is there is served", SOON, async || asker.client().get(&shirts).await?.success().map(|_| ()))
        .await?;
    all_say(429, "the set of served resources is not known yet").await?;
    let ready = asker.client().get("/readyz?verbose").await?;
    ensure!(ready.status == 500 && ready.text().contains("[-]views failed"), "{}", ready.text());
    objects::merge(&administrator, role, &json!({ "rules": current_rules })).await?;
    eventually("what is missing is missing again", SOON, async || all_say(404, "not").await).await?;
    stage.fieldcache.process().ensure_running()
}
