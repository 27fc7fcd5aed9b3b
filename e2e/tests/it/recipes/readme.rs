//! What the README shows as our code is that code. `<!-- FILE: NAME -->` is before a fenced block whose text is that of
//! the file between the lines `README: NAME` and `README: end`.

use std::collections::BTreeSet;

use super::repository;

/// The code that a README shows: file, name and text.
fn shown(readme: &str) -> Vec<(&str, &str, String)> {
    let mut found = Vec::new();
    let mut lines = readme.lines();
    while let Some(line) = lines.next() {
        let inside = line.strip_prefix("<!-- ").and_then(|line| line.strip_suffix(" -->"));
        let Some((file, name)) = inside.and_then(|inside| inside.split_once(": ")) else { continue };
        let fence = lines.next().unwrap_or_default();
        let text = if fence.starts_with("```") {
            lines.by_ref().take_while(|line| *line != "```").map(|line| format!("{line}\n")).collect()
        } else {
            String::new()
        };
        found.push((file, name, text));
    }
    found
}

/// The marked parts of a file by their names.
fn marked(file: &str) -> Vec<(&str, String)> {
    let mut found: Vec<(&str, Vec<&str>)> = Vec::new();
    let mut is_inside = false;
    for line in file.lines() {
        match line.split_once(" README: ") {
            Some((comment, "end")) if comment.trim_start().len() <= 2 => is_inside = false,
            Some((comment, name)) if comment.trim_start().len() <= 2 => {
                found.push((name, Vec::new()));
                is_inside = true;
            }
            _ => {
                if let Some((_, lines)) = found.last_mut().filter(|_| is_inside) {
                    lines.push(line);
                }
            }
        }
    }
    found.into_iter().map(|(name, lines)| (name, text_of(&lines))).collect()
}

fn text_of(lines: &[&str]) -> String {
    let last = lines.iter().rposition(|line| !line.trim().is_empty()).map_or(0, |last| last + 1);
    lines[..last].iter().map(|line| format!("{line}\n")).collect()
}

#[test]
fn the_code_in_the_readme_is_the_code_that_is_tested() {
    let readme = std::fs::read_to_string(repository("README.md")).expect("the README must be there");
    let shown = shown(&readme);
    let names: BTreeSet<&str> = shown.iter().map(|(_, name, _)| *name).collect();
    let recipes = ["beside", "client-go", "controller-runtime", "drop-in", "drop-in-authority", "kube-rs"];
    assert_eq!(names, recipes.into(), "the README shows each recipe");
    for (file, name, text) in shown {
        let source = std::fs::read_to_string(repository(file)).unwrap_or_else(|error| panic!("{file}: {error}"));
        let found = marked(&source).into_iter().find(|(marked, _)| *marked == name);
        assert_eq!(found.map(|(_, text)| text), Some(text), "README and {file}: {name}");
    }
}

#[test]
fn a_changed_letter_is_found() {
    let file = "// README: a\nlet a = 1;\n\n// README: end\nlet b;\n    # README: b\n    b\n# README: end\n";
    assert_eq!(marked(file), [("a", "let a = 1;\n".to_owned()), ("b", "    b\n".to_owned())]);
    let readme =
        "text\n<!-- x.rs: a -->\n```rust\nlet a = 1;\n```\nmore\n<!-- x.rs: b -->\nno code\n<!-- a comment -->\n";
    assert_eq!(shown(readme), [("x.rs", "a", "let a = 1;\n".to_owned()), ("x.rs", "b", String::new())]);
}
