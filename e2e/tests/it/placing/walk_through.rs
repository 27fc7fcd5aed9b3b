//! The walk-throughs of manifests/placement: every command on that page is run, and prints what the page shows, word for word.
//!
//! `UPDATE_GOLDEN=1` writes what is printed into the page.

use anyhow::{Context, Result, ensure};
use e2e::shell::Shell;
use serde_json::json;

use super::repository;

const PAGE: &str = "manifests/placement/README.md";

/// The page with every line after a `$ ` in a console block replaced by what the command prints, and how many commands there are.
async fn printed(page: &str, shell: &Shell) -> Result<(String, usize)> {
    let root = repository("");
    let mut out = String::new();
    let mut is_console = false;
    let mut commands = 0;
    for line in page.lines() {
        match line.strip_prefix("$ ") {
            Some(command) if is_console => {
                commands += 1;
                let finished = shell.run(&format!("cd {root} && {{ {command}; }} 2>&1")).await?;
                out.push_str(line);
                out.push('\n');
                out.push_str(&finished.stdout);
            }
            _ if is_console && !line.starts_with("```") => {}
            _ => {
                if line.starts_with("```") {
                    is_console = line == "```console";
                }
                out.push_str(line);
                out.push('\n');
            }
        }
    }
    ensure!(!is_console, "a console block does not end");
    Ok((out, commands))
}

#[tokio::test]
async fn the_walk_throughs_print_what_their_page_shows() -> Result<()> {
    let shell = Shell::with_kubeconfig(&json!({"apiVersion": "v1", "kind": "Config"}))?;
    let path = repository(PAGE);
    let page = std::fs::read_to_string(&path).with_context(|| path.clone())?;
    let (found, commands) = printed(&page, &shell).await?;
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(&path, &found)?;
    }
    ensure!(commands >= 15, "only {commands} commands");
    for (expected, found) in page.lines().zip(found.lines()) {
        ensure!(
            expected == found,
            "{PAGE} shows\n{expected}\nbut what is printed is\n{found}\n; UPDATE_GOLDEN=1 writes it"
        );
    }
    ensure!(page == found, "{PAGE} is shorter or longer than what is printed; UPDATE_GOLDEN=1 writes it");
    println!("placement: {commands} commands print what the walk-throughs show");
    Ok(())
}

#[tokio::test]
async fn a_changed_word_is_found() -> Result<()> {
    let shell = Shell::with_kubeconfig(&json!({"apiVersion": "v1", "kind": "Config"}))?;
    let page = "Text\n$ no command\n```console\n$ echo one\ntwo\n$ echo three >&2\n```\n```sh\n$ echo no\n```\n";
    let expected =
        "Text\n$ no command\n```console\n$ echo one\none\n$ echo three >&2\nthree\n```\n```sh\n$ echo no\n```\n";
    ensure!(printed(page, &shell).await? == (expected.to_owned(), 2));
    Ok(())
}
