//! Credentials: which of them authenticate a user, alone and beside others, on both sides.

use anyhow::{Result, ensure};
use e2e::certificates::{Authority, Identity};
use e2e::eventually::eventually;
use e2e::fieldcache::Fieldcache;
use e2e::http::Request;
use e2e::objects;
use e2e::run_directory::RunDirectory;

use super::stage::{SOON, Stage, arguments};

/// Every authenticated user may request this.
const PATH: &str = "/api";

/// What a 401 states beyond kube-apiserver's: which credentials are accepted here.
const ACCEPTED: &str =
    ": use a valid token with the audience fieldcache.dev, or a client certificate that the API server accepts";

#[tokio::test]
async fn credentials_make_the_same_people_known_as_at_kube_apiserver() -> Result<()> {
    let stage = Box::pin(Stage::set()).await?;
    let stranger = Authority::create("fieldcache-e2e")?;
    let alice = stage.user("alice", None)?;
    let foreign = stranger.client("alice", None)?;
    let proxy = stage.front_proxy.client("front-proxy", None)?;
    let other_proxy = stage.front_proxy.client("other-proxy", None)?;
    let foreign_proxy = stranger.client("front-proxy", None)?;
    let nameless = stage.user("", Some("team"))?;
    let tokens = [stage.token(None).await?, stage.token(Some("fieldcache.dev")).await?];
    let exchanged = [tokens[1].clone(), tokens[0].clone()];
    let wrong = ["wrong".to_owned(), "wrong".to_owned()];
    let tampered = tokens.clone().map(|token| format!("{token}A"));
    let remote: &[(&str, &str)] = &[("X-Remote-User", "rita")];
    type Row<'a> = (&'a str, Option<&'a Identity>, Option<&'a [String; 2]>, &'a [(&'a str, &'a str)], u16);
    let rows: Vec<Row<'_>> = vec![
        ("nothing", None, None, &[], 401),
        ("a token", None, Some(&tokens), &[], 200),
        ("a token for the other side", None, Some(&exchanged), &[], 401),
        ("a word", None, Some(&wrong), &[], 401),
        ("a token with a letter more", None, Some(&tampered), &[], 401),
        ("a password", None, None, &[("Authorization", "Basic YWxpY2U6YQ==")], 401),
        ("an empty token", None, None, &[("Authorization", "Bearer ")], 401),
        ("a front proxy's headers alone", None, None, remote, 401),
        ("a front proxy's headers and a token", None, Some(&tokens), remote, 200),
        ("a certificate", Some(&alice), None, &[], 200),
        ("a certificate and a token", Some(&alice), Some(&tokens), &[], 200),
        ("a certificate and an invalid token", Some(&alice), Some(&wrong), &[], 200),
        ("a user's certificate and a front proxy's headers", Some(&alice), None, remote, 200),
        ("a certificate of another authority", Some(&foreign), None, &[], 401),
        ("the same with a token", Some(&foreign), Some(&tokens), &[], 200),
        ("the same with an invalid token", Some(&foreign), Some(&wrong), &[], 401),
        ("a certificate without a name", Some(&nameless), None, &[], 401),
        ("a front proxy", Some(&proxy), None, remote, 200),
        ("a front proxy and an invalid token", Some(&proxy), Some(&wrong), remote, 200),
        ("a front proxy for no user", Some(&proxy), None, &[], 401),
        ("a front proxy for an empty name", Some(&proxy), None, &[("X-Remote-User", "")], 401),
        ("a front proxy's group without a user", Some(&proxy), None, &[("X-Remote-Group", "system:masters")], 401),
        ("a front proxy with another name", Some(&other_proxy), None, remote, 401),
        ("a front proxy of another authority", Some(&foreign_proxy), None, remote, 401),
        ("the same with a token", Some(&foreign_proxy), Some(&tokens), remote, 200),
    ];
    let mut differences = Vec::new();
    for (what, identity, tokens, headers, expected) in rows {
        let mut found = Vec::new();
        for (index, side) in stage.sides(identity)?.into_iter().enumerate() {
            let side = match tokens {
                Some(tokens) => side.with_token(&tokens[index])?,
                None => side,
            };
            let request = headers.iter().fold(Request::get(PATH), |request, (name, value)| request.header(name, value));
            let answer = side.client().send(request).await?;
            let mut text = if answer.status.is_success() { String::new() } else { answer.text() };
            if index == 1 && answer.status == 401 {
                ensure!(text.contains(ACCEPTED), "{what}: {text}");
                text = text.replacen(ACCEPTED, "", 1);
            }
            found.push((answer.status.as_u16(), text));
        }
        if found[0] != found[1] || found[1].0 != expected {
            differences.push(format!("{what}: {found:?}"));
        }
    }
    ensure!(differences.is_empty(), "{}", differences.join("\n"));

    // Unauthenticated users may see whether the server lives, and nothing else.
    let nobody = stage.fieldcache.client();
    for (path, expected) in
        [("/livez", 200), ("/readyz", 200), ("/healthz", 200), ("/readyz/ping", 401), ("/version", 401)]
    {
        let answer = nobody.get(path).await?;
        ensure!(answer.status == expected, "{path}: {}", answer.status);
    }

    // Impersonation is refused with its header's name, also where the user might.
    let admin = stage.user("admin", Some("system:masters"))?;
    let [_, own] = stage.sides(Some(&admin))?;
    for header in ["Impersonate-User", "Impersonate-Group", "Impersonate-Extra-Scopes"] {
        let answer = own.client().send(Request::get(PATH).header(header, "alice")).await?;
        ensure!(answer.status == 403 && answer.text().contains(&header.to_lowercase()), "{header}: {}", answer.text());
    }
    stage.fieldcache.process().ensure_running()
}

#[tokio::test]
async fn tokens_for_the_api_server_are_accepted_where_that_is_wanted_and_none_outlives_its_account() -> Result<()> {
    let stage = Box::pin(Stage::set()).await?;
    let folder = RunDirectory::create("access-lenient")?;
    let lenient = ["--accept-api-audience".to_owned()].into_iter().chain(arguments());
    let lenient = Box::pin(Fieldcache::operator(&stage.kubeconfig, folder.path(), lenient)).await?;
    let warning = lenient.process().stderr()?;
    ensure!(warning.contains("--accept-api-audience"), "{warning}");
    let mut both = Vec::new();
    for (audience, accepted) in [(None, true), (Some("fieldcache.dev"), true), (Some("elsewhere"), false)] {
        let client = lenient.endpoint().clone().with_token(&stage.token(audience).await?)?.client();
        let answer = client.get(PATH).await?;
        ensure!((answer.status == 200) == accepted, "{audience:?}: {}", answer.status);
        both.push(client);
    }
    let account = "/api/v1/namespaces/team/serviceaccounts/reader";
    objects::delete(&stage.control_plane.client(), account).await?;
    for client in &both[..2] {
        eventually("the token of a deleted account is rejected", SOON, async || {
            let answer = client.get(PATH).await?;
            ensure!(answer.status == 401, "{}", answer.status);
            Ok(())
        })
        .await?;
    }
    lenient.process().ensure_running()
}
