//! The recipes of docs/agents.md: every command prints what the page shows, every HTTP request succeeds, and the table
//! of sizes is what is measured.
//!
//! `UPDATE_GOLDEN=1` writes outputs and sizes into the page.

use anyhow::{Context, Result, bail, ensure};
use e2e::fieldcache::Fieldcache;
use e2e::http::{Client, Request};
use e2e::shell::Shell;
use http::Method;
use serde_json::json;

use super::commands::stage::repository;

const PAGE: &str = "docs/agents.md";

/// The address of the server on the page.
const ADDRESS: &str = "http://127.0.0.1:8181";

/// The line before the rows of the table of sizes.
const ROWS: &str = "|---|---|---|---|";

/// What a question costs, in bytes.
struct Cost {
    /// The heading of the question, without its number.
    question: String,
    /// The whole list.
    before: usize,
    command: usize,
    http: usize,
}

impl Cost {
    /// The row of the table. A token is estimated as four bytes.
    fn row(&self, number: usize) -> String {
        let cell = |bytes: usize| format!("{bytes}, {}", bytes.div_ceil(4));
        let Cost { question, before, command, http } = self;
        format!("| {number}. {question} | {} | {} | {} |", cell(*before), cell(*command), cell(*http))
    }
}

/// The whole list of the resource that a path is about.
fn whole_list(path: &str) -> Result<&'static str> {
    let lists = ["/apis/stable.example.com/v1/shirts", "/api/v1/pods"];
    let found = lists.into_iter().find(|list| list.rsplit('/').next().is_some_and(|plural| path.contains(plural)));
    found.with_context(|| format!("the list of {path}"))
}

/// The bytes of the response to a GET of a path.
async fn response(client: &Client, path: &str, accept: &str) -> Result<usize> {
    let response = client.send(Request::new(Method::GET, path).header("accept", accept)).await?;
    ensure!(response.status == 200, "{path}: {response:?}");
    Ok(response.text().len())
}

/// Which block of the page a line is in.
#[derive(Clone, Copy, PartialEq)]
enum Block {
    Text,
    Console,
    Http,
    Other,
}

/// The page with the outputs of its commands as they are now, and the costs of its questions.
async fn printed(page: &str, server: &Fieldcache, shell: &Shell) -> Result<(String, Vec<Cost>)> {
    let root = repository("");
    let client = server.client();
    let (mut out, mut costs, mut block, mut path) = (String::new(), Vec::<Cost>::new(), Block::Text, "");
    for line in page.lines() {
        if let (Block::Text, Some((number, question))) =
            (block, line.strip_prefix("## ").and_then(|heading| heading.split_once(". ")))
        {
            ensure!(number == (costs.len() + 1).to_string(), "{line}: the questions are numbered");
            costs.push(Cost { question: question.to_owned(), before: 0, command: 0, http: 0 });
        }
        if let Some(language) = line.strip_prefix("```") {
            block = match (block, language) {
                (Block::Text, "console") => Block::Console,
                (Block::Text, "http") => Block::Http,
                (Block::Text, _) => Block::Other,
                _ => Block::Text,
            };
        }
        let command = line.strip_prefix("$ ").filter(|_| block == Block::Console);
        // Replaced by what the command prints now.
        if block == Block::Console && command.is_none() && !line.starts_with("```") {
            continue;
        }
        out.push_str(line);
        out.push('\n');
        if let Some(command) = command {
            let command = command.replace(ADDRESS, server.address());
            let printed = shell.succeed(&format!("cd {root} && {command}")).await?;
            costs.last_mut().context("a question")?.command = printed.len();
            out.push_str(&printed.replace(server.address(), ADDRESS));
        }
        if block == Block::Http {
            match (line.strip_prefix("GET "), line.strip_prefix("Accept: ")) {
                (Some(requested), _) => path = requested,
                (_, Some(accept)) => {
                    let cost = costs.last_mut().context("a question")?;
                    cost.http = response(&client, path, accept).await.with_context(|| cost.question.clone())?;
                    cost.before = response(&client, whole_list(path)?, "application/json").await?;
                }
                _ if line.starts_with("```") => {}
                _ => bail!("neither GET nor Accept: {line}"),
            }
        }
    }
    ensure!(block == Block::Text, "a block does not end");
    let rows: Vec<String> = costs.iter().enumerate().map(|(index, cost)| cost.row(index + 1)).collect();
    let (before, after) = out.split_once(ROWS).context("the table of sizes")?;
    let after = after.split_once("\n\n").context("the text after the table")?.1;
    Ok((format!("{before}{ROWS}\n{}\n\n{after}", rows.join("\n")), costs))
}

#[tokio::test]
async fn the_recipes_for_agents_print_what_their_page_shows() -> Result<()> {
    let shell = Shell::with_kubeconfig(&json!({"apiVersion": "v1", "kind": "Config"}))?;
    let server = Box::pin(Fieldcache::serve_folder(repository("manifests/samples").as_ref())).await?;
    let path = repository(PAGE);
    let page = std::fs::read_to_string(&path).with_context(|| path.clone())?;
    let (found, costs) = Box::pin(printed(&page, &server, &shell)).await?;
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(&path, &found)?;
    }
    ensure!(costs.len() == 10, "{} questions", costs.len());
    for Cost { question, before, command, http } in &costs {
        ensure!(0 < *command && command < before, "{question}: {command} of {before} bytes");
        ensure!(0 < *http && http < before, "{question}: {http} of {before} bytes over HTTP");
    }
    let page = if std::env::var_os("UPDATE_GOLDEN").is_some() { &found } else { &page };
    for (expected, found) in page.lines().zip(found.lines()) {
        ensure!(
            expected == found,
            "{PAGE} shows\n{expected}\nbut what is printed is\n{found}\n; UPDATE_GOLDEN=1 writes it"
        );
    }
    ensure!(*page == found, "{PAGE} is shorter or longer than what is printed; UPDATE_GOLDEN=1 writes it");
    println!("agents: {} questions", costs.len());
    Ok(())
}
