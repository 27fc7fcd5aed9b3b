//! SECURITY.md: every test that it names exists, every actor has a table, and every promise of the documentation is
//! there.
//!
//! A promise is a sentence with the word "nobody", "never" or "nothing". A sentence that promises nothing about
//! security is in a table of its own with the reason. Needs no cluster.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use crate::coverage::{fault_of_pointer, pointers};

/// Headings of the actors, each with the fewest rows that its table may have.
const ACTORS: [(&str, usize); 9] = [
    ("Anonymous", 5),
    ("Authenticated", 5),
    ("Tenant", 6),
    ("View author", 3),
    ("FieldCache author", 3),
    ("Consumer of a View", 4),
    ("Source", 4),
    ("Web page", 2),
    ("Operator of the node", 3),
];

const THREATS: [&str; 3] = ["threat", "what stops it", "test"];
const PROMISES: [&str; 2] = ["promise", "test"];
const OTHERS: [&str; 2] = ["sentence", "reason"];

const WORDS: [&str; 3] = ["nobody", "never", "nothing"];

/// Folders whose documents are not about this program's behavior.
const LEFT_OUT: [&str; 5] = ["target", ".git", "e2e", "src", "crds"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn read(path: &str) -> Option<String> {
    std::fs::read_to_string(root().join(path)).ok()
}

/// The rows of every table, by the heading above it, with the header of the table.
fn tables(text: &str) -> BTreeMap<String, (Vec<String>, Vec<Vec<String>>)> {
    let mut found: BTreeMap<String, (Vec<String>, Vec<Vec<String>>)> = BTreeMap::new();
    let mut heading = String::new();
    for line in text.lines() {
        if let Some(text) = line.strip_prefix('#') {
            text.trim_start_matches('#').trim().clone_into(&mut heading);
        }
        let Some(cells) = line.strip_prefix('|') else { continue };
        let cells: Vec<String> =
            cells.trim_end().trim_end_matches('|').split('|').map(|cell| cell.trim().to_owned()).collect();
        if cells.iter().all(|cell| !cell.is_empty() && cell.chars().all(|character| character == '-')) {
            continue;
        }
        match found.get_mut(&heading) {
            None => drop(found.insert(heading.clone(), (cells, Vec::new()))),
            Some((_, rows)) => rows.push(cells),
        }
    }
    found
}

/// Sentences of a document with one of [`WORDS`], outside of code. A sentence ends at the end of a line or of a cell of a
/// table, or at a full stop, a question mark or an exclamation mark.
fn promises(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut is_code = false;
    for line in text.lines() {
        is_code ^= line.trim_start().starts_with("```");
        if is_code {
            continue;
        }
        for cell in line.split('|') {
            let mut rest = cell;
            while !rest.is_empty() {
                let end = rest.match_indices(' ').find(|(place, _)| rest[..*place].ends_with(['.', '?', '!']));
                let (sentence, more) = end.map_or((rest, ""), |(place, _)| (&rest[..place], &rest[place + 1..]));
                let mut words = sentence.split(|character: char| !character.is_alphanumeric());
                if words.any(|word| WORDS.contains(&&*word.to_lowercase())) {
                    found.push(sentence.trim().trim_start_matches("- ").to_owned());
                }
                rest = more;
            }
        }
    }
    found
}

/// Every document in a folder and below.
fn documents(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).expect("a folder").flatten() {
        let path = entry.path();
        let name = entry.file_name().to_string_lossy().into_owned();
        if path.is_dir() {
            if !name.starts_with('.') && !LEFT_OUT.contains(&&*name) {
                documents(&path, found);
            }
        } else if name.ends_with(".md") && name != "SECURITY.md" {
            found.push(path);
        }
    }
}

#[test]
fn every_threat_names_tests_that_exist() {
    let tables = tables(&read("SECURITY.md").expect("there is a SECURITY.md"));
    let mut faults = Vec::new();
    let mut tests = 0;
    for (actor, fewest) in ACTORS {
        let Some((header, rows)) = tables.get(actor) else {
            faults.push(format!("{actor}: no table"));
            continue;
        };
        if header != &THREATS || rows.len() < fewest {
            faults.push(format!("{actor}: {header:?} with {} rows", rows.len()));
        }
    }
    for (heading, (header, rows)) in &tables {
        let width = match header.iter().map(String::as_str).collect::<Vec<_>>()[..] {
            [first, second, third] if [first, second, third] == THREATS => 3,
            [first, second] if [first, second] == PROMISES || [first, second] == OTHERS => 2,
            _ => {
                faults.push(format!("{heading}: unknown header {header:?}"));
                continue;
            }
        };
        for row in rows {
            if row.len() != width || row.iter().any(String::is_empty) {
                faults.push(format!("{heading}: not {width} cells: {row:?}"));
            } else if *header != OTHERS {
                let pointers = pointers(&row[width - 1]);
                tests += pointers.len();
                if pointers.is_empty() {
                    faults.push(format!("{heading}: no test: {}", row[0]));
                }
                for pointer in pointers {
                    let fault = match pointer.strip_prefix("`test:") {
                        Some(_) => fault_of_pointer(pointer, &read).err(),
                        None => Some(format!("not a test: {pointer}")),
                    };
                    faults.extend(fault.map(|fault| format!("{heading}: {fault}")));
                }
            }
        }
    }
    assert!(faults.is_empty(), "{} faults:\n{}", faults.len(), faults.join("\n"));
    println!("security: {} tables, {tests} pointers to tests", tables.len());
}

#[test]
fn every_promise_of_the_documentation_has_its_test() {
    let tables = tables(&read("SECURITY.md").expect("there is a SECURITY.md"));
    let listed: BTreeSet<&str> = tables
        .values()
        .filter(|(header, _)| *header == PROMISES || *header == OTHERS)
        .flat_map(|(_, rows)| rows.iter().filter_map(|row| row.first()))
        .map(String::as_str)
        .collect();
    let mut files = Vec::new();
    documents(&root(), &mut files);
    assert!(files.len() >= 3, "{files:?}");
    let mut made = BTreeSet::new();
    for file in files {
        made.extend(promises(&std::fs::read_to_string(&file).expect("a document")));
    }
    let missing: Vec<&String> = made.iter().filter(|promise| !listed.contains(promise.as_str())).collect();
    assert!(missing.is_empty(), "not in SECURITY.md, with the test or the reason:\n{missing:#?}");
    let gone: Vec<&&str> = listed.iter().filter(|promise| !made.contains(**promise)).collect();
    assert!(gone.is_empty(), "in SECURITY.md and in no document:\n{gone:#?}");
    println!("security: {} sentences", made.len());
}

#[test]
fn sentences_are_found_wherever_they_stand() {
    let text = "# T\n\nIt is. Nobody sees it: never! An honest one.\n| a | nothing here | x |\n```\nnothing\n```\n- It never ends.\nNothingness.\n";
    assert_eq!(promises(text), ["Nobody sees it: never!", "nothing here", "It never ends."]);
    let tables = tables("## A\n| threat | what stops it | test |\n|---|---|---|\n| x | y | z |\n\n## B\ntext\n");
    assert_eq!(tables["A"].1, [["x", "y", "z"]]);
    assert_eq!(tables.len(), 1);
}
