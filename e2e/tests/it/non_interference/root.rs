//! The root path, with a caller that may read one namespace. The content of the others changes no byte of its
//! responses, with `explain` on as well. An administrator, who may see how a request is evaluated, gets different plans
//! in the two clusters.

use anyhow::{Result, ensure};
use e2e::http::{Answer, Client, Request};
use e2e::random::Random;
use futures::future::try_join;
use futures::stream::{self, StreamExt, TryStreamExt};
use http::Method;

use super::script::{FACETS, ViewProbe, next_page};
use super::visible::{GROUP, SAME, name};
use super::{AT_ONCE, Exchange, Worlds, report};

const REQUESTS: usize = 800;

const ACCEPT: [&str; 7] = [
    "application/json",
    "application/json",
    "application/yaml",
    "application/json;as=Table;g=meta.k8s.io;v=v1",
    "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1",
    "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1",
    FACETS,
];

fn field_term(random: &mut Random) -> String {
    let value = match random.below(6) {
        0 | 1 => ["wide", "thin", "none"][usize::try_from(random.below(3)).unwrap_or_default()].to_owned(),
        2 | 3 => format!("tag-{}", random.below(5)),
        4 => name(random.below(8)),
        _ => (*random.choose(&[SAME, "team-alpha", "team-omega", ""])).to_owned(),
    };
    let field = random.choose(&[
        "spec.brim",
        "spec.brim",
        "tags",
        "tags",
        "tags",
        "metadata.name",
        "metadata.namespace",
        "spec.x",
    ]);
    let operator = random.choose(&["%3D", "%3D", "%3D%3D", "!%3D"]);
    format!("{field}{operator}{value}")
}

fn probe(random: &mut Random, changes: usize) -> ViewProbe {
    let collection = match random.below(12) {
        0 => format!("/apis/{GROUP}/v1/caps"),
        1 => format!("/apis/{GROUP}/v1/namespaces/{}/caps", random.choose(&["team-alpha", "team-omega"])),
        _ => format!("/apis/{GROUP}/v1/namespaces/{SAME}/caps"),
    };
    let path = if random.below(5) == 0 { format!("{collection}/{}", name(random.below(9))) } else { collection };
    let mut query = Vec::new();
    if random.below(3) > 0 {
        let terms: Vec<String> = (0..=random.below(2)).map(|_| field_term(random)).collect();
        query.push(format!("fieldSelector={}", terms.join(",")));
    }
    if random.below(2) == 0 {
        let term =
            random.choose(&["tier%3Dweb", "tier!%3Dweb", "tier", "!tier", "tier%20in%20(web,db)", "omega", "!alpha"]);
        query.push(format!("labelSelector={term}"));
    }
    for (count, text) in [(4, "limit=1"), (4, "limit=3"), (12, "pretty=true"), (3, "watch=1&timeoutSeconds=1")] {
        if random.below(count) == 0 {
            query.push(text.to_owned());
        }
    }
    match random.below(5) {
        0 => query.push("resourceVersion=0".to_owned()),
        1 => query.push(format!("resourceVersion={{version:{}}}", changes - 1)),
        _ => {}
    }
    if random.below(4) > 0 {
        query.push("explain=true".to_owned());
    }
    let accept = random.choose(&ACCEPT);
    if accept == FACETS {
        query.push(format!("facets={}", random.choose(&["spec.brim", "tags", "metadata.namespace", "spec.x"])));
    }
    let headers = vec![("accept", accept.to_owned())];
    ViewProbe { method: Method::GET, path: format!("{path}?{}", query.join("&")), headers }
}

/// Sends the request to both clusters, and reads all pages of a list.
async fn exchange_both(worlds: &Worlds, clients: &[Client; 2], probe: &ViewProbe) -> Result<Vec<Exchange>> {
    let [one, other] = &worlds.0;
    let mut next = Some([probe.request("", &one.versions()), probe.request("", &other.versions())]);
    let mut exchanges = Vec::new();
    while let Some([first, second]) = next.take() {
        let send = |client: &Client, request: &Request| {
            let (client, request) = (client.clone(), request.clone());
            async move { client.send(request).await }
        };
        let answers: (Answer, Answer) = try_join(send(&clients[0], &first), send(&clients[1], &second)).await?;
        if let (Some(one), Some(other)) = (next_page(&first, &answers.0), next_page(&second, &answers.1))
            && exchanges.len() < 20
        {
            next = Some([one, other]);
        }
        exchanges.push(Exchange { probe: first, answers: [answers.0, answers.1] });
    }
    Ok(exchanges)
}

/// Sends every request; returns the number of responses.
pub(crate) async fn check(worlds: &Worlds, seed: u64, changes: usize) -> Result<String> {
    let mut random = Random::from_seed(seed, 11);
    let script: Vec<ViewProbe> = (0..REQUESTS).map(|_| probe(&mut random, changes)).collect();
    let tenants = [worlds.0[0].tenant()?.client(), worlds.0[1].tenant()?.client()];
    let exchanges: Vec<Vec<Exchange>> = stream::iter(script.iter().map(|probe| exchange_both(worlds, &tenants, probe)))
        .buffered(AT_ONCE)
        .try_collect()
        .await?;
    let exchanges: Vec<Exchange> = exchanges.into_iter().flatten().collect();
    let mut found = Vec::new();
    for Exchange { probe, answers: [one, other] } in &exchanges {
        if let Some(difference) = worlds.parting(one, other, super::outcome::WINDOW) {
            found.push((format!("{} {} {:?}", probe.method, probe.path, probe.headers), difference));
        }
    }
    ensure!(found.is_empty(), "at the root: {}\n{}", report(&found), worlds.0[1].tail());
    let count = |wanted: fn(&Exchange) -> bool| exchanges.iter().filter(|exchange| wanted(exchange)).count();
    let read = count(|exchange| exchange.answers[0].status == 200);
    let explained = count(|exchange| exchange.answers[0].header("fieldcache-explain").is_some());
    ensure!(read > REQUESTS / 2 && explained > REQUESTS / 4, "{read} read and {explained} explained");

    // The comparison finds counts: an administrator gets them.
    let path = format!("/apis/{GROUP}/v1/namespaces/{SAME}/caps?fieldSelector=spec.brim%3Dwide&explain=true");
    let mut plans = Vec::new();
    for world in &worlds.0 {
        let answer = world.administrator()?.client().get(&path).await?;
        plans.push(
            answer
                .header("fieldcache-explain")
                .unwrap_or_default()
                .split("\"path\"")
                .next()
                .unwrap_or_default()
                .to_owned(),
        );
    }
    ensure!(plans[0] != plans[1] && plans[0].contains("spec.brim=wide ("), "{plans:?}");
    Ok(format!("at the root {} responses, {read} with 200 and {explained} explained", exchanges.len()))
}
