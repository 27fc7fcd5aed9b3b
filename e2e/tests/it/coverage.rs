//! The coverage tables in `e2e/coverage` point to what is there.
//!
//! A table has one row for every statement of a document that this project follows. The row says what covers it: a
//! test, a sample, a heading of the README, or a reason why it does not apply. Readers decide whether a test asserts
//! what its row says. This file checks that the test exists, is a test, and is compiled at all. Needs no cluster.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// The tables, from the root of the project, with the fewest rows that their documents allow.
const TABLES: [(&str, usize); 4] = [
    ("e2e/coverage/labels-and-selectors.md", 40),
    ("e2e/coverage/kep-4358.md", 40),
    ("e2e/coverage/assigning-pods-to-nodes.md", 39),
    ("e2e/coverage/kep-3633.md", 22),
];

/// Where modules begin: the folder, and the file in it that names the first of them.
const ROOTS: [(&str, &str); 3] = [("src", "lib.rs"), ("crates/core/src", "lib.rs"), ("e2e/tests/it", "main.rs")];

/// Where samples stand.
const SAMPLES: [&str; 2] = ["manifests/samples/", "manifests/placement/"];

const HEADER: [&str; 2] = ["statement", "where it is kept"];

/// Reads a file by its path from the root; `None` when it is missing.
pub(crate) type Read<'a> = &'a dyn Fn(&str) -> Option<String>;

/// One row of a table.
#[derive(Debug)]
struct Row {
    /// From 1.
    line: usize,
    statement: String,
    pointers: String,
}

#[test]
fn every_statement_points_to_what_is_there() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the project is one folder up");
    let read = |path: &str| std::fs::read_to_string(root.join(path)).ok();
    let mut faults = Vec::new();
    for (path, fewest) in TABLES {
        let text = read(path).unwrap_or_default();
        faults.extend(faults_of_table(&text, &read).into_iter().map(|fault| format!("{path}:{fault}")));
        let (rows, _) = rows(&text);
        let mut kinds: BTreeMap<&str, usize> = BTreeMap::new();
        for pointer in rows.iter().flat_map(|row| pointers(&row.pointers)) {
            let kind =
                if pointer.starts_with("not ours") { "not ours" } else { pointer.split(':').next().unwrap_or("") };
            *kinds.entry(kind.trim_start_matches('`')).or_default() += 1;
        }
        let foreign = rows.iter().filter(|row| row.pointers.starts_with("not ours")).count();
        println!("coverage: {path}: {} rows, {kinds:?}", rows.len());
        if rows.len() < fewest || 4 * foreign > rows.len() {
            faults.push(format!("{path}: {} rows, {foreign} of them not ours", rows.len()));
        }
    }
    assert!(faults.is_empty(), "{} faults:\n{}", faults.len(), faults.join("\n"));
}

/// `LINE: what is wrong`, for every fault of a table.
fn faults_of_table(text: &str, read: Read) -> Vec<String> {
    let (rows, mut faults) = rows(text);
    if rows.is_empty() {
        faults.push("1: no rows".to_owned());
    }
    let mut statements = BTreeSet::new();
    for row in &rows {
        let mut found = Vec::new();
        if row.statement.is_empty() {
            found.push("no statement".to_owned());
        }
        if !statements.insert(&row.statement) {
            found.push(format!("the statement occurs twice: {}", row.statement));
        }
        let pointers = pointers(&row.pointers);
        if pointers.is_empty() {
            found.push("no pointer".to_owned());
        }
        found.extend(pointers.iter().filter_map(|pointer| fault_of_pointer(pointer, read).err()));
        faults.extend(found.into_iter().map(|fault| format!("{}: {fault}", row.line)));
    }
    faults
}

/// The rows of all tables of a document, and what is no row.
fn rows(text: &str) -> (Vec<Row>, Vec<String>) {
    let mut rows = Vec::new();
    let mut faults = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let Some(cells) = line.strip_prefix('|') else { continue };
        let cells: Vec<&str> = cells.trim_end().trim_end_matches('|').split('|').map(str::trim).collect();
        let is_ruler = cells.iter().all(|cell| !cell.is_empty() && cell.chars().all(|character| character == '-'));
        if is_ruler || cells == HEADER {
            continue;
        }
        match cells[..] {
            [statement, pointers] => {
                rows.push(Row { line: index + 1, statement: statement.to_owned(), pointers: pointers.to_owned() });
            }
            _ => faults.push(format!("{}: {} cells instead of 2", index + 1, cells.len())),
        }
    }
    (rows, faults)
}

/// The pointers of a cell. A reason may contain anything, so it is alone.
pub(crate) fn pointers(cell: &str) -> Vec<&str> {
    if cell.starts_with("not ours") {
        vec![cell]
    } else {
        cell.split(';').map(str::trim).filter(|one| !one.is_empty()).collect()
    }
}

pub(crate) fn fault_of_pointer(pointer: &str, read: Read) -> Result<(), String> {
    if let Some(reason) = pointer.strip_prefix("not ours") {
        let is_reason = reason.strip_prefix(": ").is_some_and(|reason| reason.contains(' '));
        return if is_reason { Ok(()) } else { Err(format!("no reason: {pointer}")) };
    }
    let quoted = pointer.strip_prefix('`').and_then(|rest| rest.strip_suffix('`'));
    let quoted = quoted.ok_or_else(|| format!("not in backticks: {pointer}"))?;
    let (kind, target) = quoted.split_once(':').ok_or_else(|| format!("no kind: {pointer}"))?;
    match kind {
        "test" => fault_of_test(target, read),
        "sample" => match read(target).filter(|_| SAMPLES.iter().any(|folder| target.starts_with(folder))) {
            Some(_) => Ok(()),
            None => Err(format!("no such sample: {target}")),
        },
        "readme" => {
            let readme = read("README.md").ok_or("there is no README.md")?;
            if headings(&readme).contains(target) {
                Ok(())
            } else {
                Err(format!("no such heading in README.md: {target}"))
            }
        }
        _ => Err(format!("unknown kind: {pointer}")),
    }
}

fn fault_of_test(target: &str, read: Read) -> Result<(), String> {
    let (file, function) = target.split_once('#').ok_or_else(|| format!("no function: {target}"))?;
    let text = read(file).ok_or_else(|| format!("no such file: {file}"))?;
    if !is_compiled(file, read) {
        return Err(format!("reached by no mod: {file}"));
    }
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    let starts = [format!("fn {function}("), format!("async fn {function}(")];
    let position = lines.iter().position(|line| starts.iter().any(|start| line.starts_with(start.as_str())));
    let position = position.ok_or_else(|| format!("no such function: {target}"))?;
    let above = lines[..position].iter().rev();
    let attributes: Vec<&&str> = above.take_while(|line| line.starts_with("#[") || line.starts_with("//")).collect();
    if attributes.iter().any(|line| line.starts_with("#[ignore")) {
        return Err(format!("an ignored test: {target}"));
    }
    if attributes.iter().any(|line| **line == "#[test]" || line.starts_with("#[tokio::test")) {
        Ok(())
    } else {
        Err(format!("not a test: {target}"))
    }
}

/// Whether a chain of `mod` declarations leads to the file.
fn is_compiled(file: &str, read: Read) -> bool {
    let Some((folder, root)) = ROOTS.into_iter().find(|(folder, _)| file.starts_with(&format!("{folder}/"))) else {
        return false;
    };
    let mut folder = folder.to_owned();
    let mut current = format!("{folder}/{root}");
    let inner = file[folder.len() + 1..].trim_end_matches(".rs").trim_end_matches("/mod");
    for name in inner.split('/') {
        let declaration = format!("mod {name};");
        let declares = |line: &str| {
            let line = line.trim();
            line == declaration || (line.starts_with("pub") && line.ends_with(&format!(" {declaration}")))
        };
        if !read(&current).unwrap_or_default().lines().any(declares) {
            return false;
        }
        folder = format!("{folder}/{name}");
        let flat = format!("{folder}.rs");
        current = if read(&flat).is_some() { flat } else { format!("{folder}/mod.rs") };
    }
    current == file
}

fn headings(readme: &str) -> BTreeSet<&str> {
    let mut headings = BTreeSet::new();
    let mut is_code = false;
    for line in readme.lines() {
        is_code ^= line.trim_start().starts_with("```");
        if let Some(heading) = line.strip_prefix('#').filter(|_| !is_code) {
            headings.insert(heading.trim_start_matches('#').trim());
        }
    }
    headings
}

#[test]
fn every_kind_of_broken_pointer_is_found() {
    let files = BTreeMap::from([
        ("README.md", "# Title\n\n## What it costs\n\nA ## Hidden heading.\n```\n# a comment\n```\n"),
        ("manifests/samples/shop.yaml", "kind: Pod\n"),
        ("manifests/other.yaml", "kind: Pod\n"),
        ("src/lib.rs", "pub mod room;\n#[cfg(test)]\nmod tidy;\n"),
        ("src/tidy.rs", "#[test]\nfn is_tidy() {}\n"),
        ("src/room/mod.rs", "#[cfg(test)]\nmod tests;\n#[test]\nfn is_in_the_module() {}\n"),
        (
            "src/room/tests.rs",
            "mod inner;\n\n#[test]\nfn works() {}\n\nfn helps() {}\n\n/// Said.\n#[tokio::test(start_paused = true)]\n// Why.\n\
             async fn waits() {}\n\n#[test]\n#[ignore]\nfn sleeps() {}\n\nproptest! {\n    #[test]\n    fn holds(x in 0..1) {}\n}\n\
             // fn gone() {}\n",
        ),
        ("src/room/tests/inner.rs", "#[test]\nfn is_inside() {}\n"),
        ("src/room/tests/lost.rs", "#[test]\nfn is_lost() {}\n"),
        ("tests/elsewhere.rs", "#[test]\nfn works() {}\n"),
        ("e2e/tests/it/main.rs", "mod suite;\n"),
        ("e2e/tests/it/suite/mod.rs", "pub(crate) mod part;\n#[tokio::test]\nasync fn passes() {}\n"),
        ("e2e/tests/it/suite/part.rs", "#[tokio::test]\nasync fn passes_too() {}\n"),
    ]);
    let read = |path: &str| files.get(path).map(|text| (*text).to_owned());
    let table = |row: &str| format!("# Title\n\n| statement | where it is kept |\n|---|---|\n{row}\n");
    for (cell, fault) in [
        ("`test:src/tidy.rs#is_tidy`", ""),
        ("`test:src/room/mod.rs#is_in_the_module`", ""),
        ("`test:src/room/tests.rs#works`; `test:src/room/tests.rs#waits`", ""),
        ("`test:src/room/tests.rs#holds`", ""),
        ("`test:src/room/tests/inner.rs#is_inside`", ""),
        ("`test:e2e/tests/it/suite/mod.rs#passes`; `test:e2e/tests/it/suite/part.rs#passes_too`", ""),
        ("`sample:manifests/samples/shop.yaml`; `readme:What it costs`", ""),
        ("not ours: a question of their process; not of ours", ""),
        ("", "no pointer"),
        (";", "no pointer"),
        ("test:src/room/tests.rs#works", "not in backticks: test:src/room/tests.rs#works"),
        ("see `readme:Title`", "not in backticks: see `readme:Title`"),
        ("`works`", "no kind: `works`"),
        ("`link:x`", "unknown kind: `link:x`"),
        ("`test:src/room/tests.rs`", "no function: src/room/tests.rs"),
        ("`test:src/room/none.rs#works`", "no such file: src/room/none.rs"),
        ("`test:tests/elsewhere.rs#works`", "reached by no mod: tests/elsewhere.rs"),
        ("`test:src/room/tests/lost.rs#is_lost`", "reached by no mod: src/room/tests/lost.rs"),
        ("`test:src/room/tests.rs#work`", "no such function: src/room/tests.rs#work"),
        ("`test:src/room/tests.rs#gone`", "no such function: src/room/tests.rs#gone"),
        ("`test:src/room/tests.rs#helps`", "not a test: src/room/tests.rs#helps"),
        ("`test:src/room/tests.rs#sleeps`", "an ignored test: src/room/tests.rs#sleeps"),
        ("`test:src/tidy.rs#is_tidy`; `test:src/tidy.rs#is_untidy`", "no such function: src/tidy.rs#is_untidy"),
        ("`sample:manifests/samples/none.yaml`", "no such sample: manifests/samples/none.yaml"),
        ("`sample:manifests/other.yaml`", "no such sample: manifests/other.yaml"),
        ("`readme:What it cost`", "no such heading in README.md: What it cost"),
        ("`readme:Hidden heading.`", "no such heading in README.md: Hidden heading."),
        ("`readme:a comment`", "no such heading in README.md: a comment"),
        ("not ours", "no reason: not ours"),
        ("not ours: process", "no reason: not ours: process"),
        ("not ours:", "no reason: not ours:"),
    ] {
        let expected = if fault.is_empty() { Vec::new() } else { vec![format!("5: {fault}")] };
        assert_eq!(faults_of_table(&table(&format!("| It is so. | {cell} |")), &read), expected, "{cell}");
    }
    let right = "`test:src/tidy.rs#is_tidy`";
    for (row, fault) in [
        (String::new(), "1: no rows".to_owned()),
        (format!("| | {right} |"), "5: no statement".to_owned()),
        (format!("| a | b | {right} |\n| c | {right} |"), "5: 3 cells instead of 2".to_owned()),
        (format!("| a |\n| c | {right} |"), "5: 1 cells instead of 2".to_owned()),
        (format!("| a | {right} |\n| a | {right} |"), "6: the statement occurs twice: a".to_owned()),
    ] {
        assert_eq!(faults_of_table(&table(&row), &read), [fault], "{row}");
    }
    let no_readme = |path: &str| read(path).filter(|_| path != "README.md");
    assert_eq!(faults_of_table(&table("| a | `readme:Title` |"), &no_readme), ["5: there is no README.md"]);
}
