//! Prints from the code which module of fieldcache uses which. It fails on a cycle between modules, and on a cycle of
//! more than two files inside a module.
//!
//! A module is a folder or file directly below the `src` of a crate, a submodule is a file inside of one. An edge is a path that begins with `crate`,
//! `super`, `self` or the name of a submodule. Tests are left out: they may use everything. Which edges are allowed is `src/tidy.rs`'.
//!
//! With the name of a module it prints which file of this module uses which other one.

#![expect(clippy::print_stdout, reason = "a command speaks to a person")]

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result};

/// A path of modules below the crate; empty is `lib.rs`.
type Module = Vec<String>;

/// Which module uses which, and by how many paths.
type Graph = BTreeMap<Module, BTreeMap<Module, usize>>;

fn main() -> Result<ExitCode> {
    // The program re-exports the modules of the core, so both crates are one tree.
    let mut files = BTreeMap::new();
    for folder in ["../crates/core/src", "../src"] {
        files.extend(self::files(&Path::new(env!("CARGO_MANIFEST_DIR")).join(folder))?);
    }
    let graph = graph(&files)?;
    let mut text = String::new();
    if let Some(module) = std::env::args().nth(1) {
        for (file, used) in inner(&graph, &vec![module]) {
            let used: Vec<String> = used.keys().map(|used| used[1..].join("::")).collect();
            writeln!(text, "{:40} uses {}", file[1..].join("::"), used.join(", "))?;
        }
        print!("{text}");
        return Ok(ExitCode::SUCCESS);
    }
    let modules = outer(&graph);
    writeln!(text, "module                lines  uses (number of paths)")?;
    for (module, used) in &modules {
        let lines: usize =
            files.iter().filter(|(path, _)| path.first() == module.first()).map(|(_, file)| file.lines).sum();
        let mut used: Vec<_> = used.iter().collect();
        used.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
        let used: Vec<String> = used.iter().map(|(module, count)| format!("{} {count}", module.join("::"))).collect();
        writeln!(text, "{:20} {lines:>6}  {}", module.join("::"), used.join(", "))?;
    }
    let between = cycles(&modules);
    writeln!(text, "\ncycles between modules: {}", described(&between))?;
    let mut is_right = between.is_empty();
    for module in modules.keys() {
        let inside = cycles(&inner(&graph, module));
        if inside.iter().any(|files| files.len() > 2) {
            is_right = false;
            writeln!(text, "{} has a cycle of more than two files: untie it", module.join("::"))?;
        }
        if !inside.is_empty() {
            writeln!(text, "cycles in {}: {}", module.join("::"), described(&inside))?;
        }
    }
    print!("{text}");
    Ok(if is_right { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// A file of the crate.
struct File {
    /// Without comments, texts and tests.
    code: String,
    lines: usize,
}

/// All files but tests, by module.
fn files(root: &Path) -> Result<BTreeMap<Module, File>> {
    let mut found = BTreeMap::new();
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).with_context(|| format!("reading {}", folder.display()))? {
            let path = entry.context("reading a folder")?.path();
            if path.is_dir() {
                folders.push(path);
            } else if let Some(module) = module_of(root, &path) {
                let text = fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?;
                found.insert(module, File { lines: text.lines().count(), code: code(&text) });
            }
        }
    }
    Ok(found)
}

/// The module of a file; `None` for tests and what is no module.
fn module_of(root: &Path, path: &Path) -> Option<Module> {
    let relative: PathBuf = path.strip_prefix(root).ok()?.with_extension("");
    let mut parts: Module = relative.iter().map(|part| part.to_string_lossy().into_owned()).collect();
    let is_code = path.extension().is_some_and(|extension| extension == "rs");
    let is_test =
        parts.iter().any(|part| part == "tests") || ["tidy", "testing", "main"].contains(&parts.first()?.as_str());
    if !is_code || is_test {
        return None;
    }
    if ["mod", "lib"].contains(&parts.last()?.as_str()) {
        parts.pop();
    }
    Some(parts)
}

/// A text without comments, contents of literals and the module of tests at its end.
fn code(text: &str) -> String {
    let mut code = String::new();
    for line in text.lines() {
        if line.starts_with("#[cfg(test)]") && text.contains("\nmod tests {") {
            break;
        }
        let line = line.split("//").next().unwrap_or_default().replace("pub(in crate::", "pub(in ");
        // Every second part is inside of quotes, but for escaped ones, which no path follows.
        for (index, part) in line.split('"').enumerate() {
            code.push_str(if index % 2 == 0 { part } else { " " });
        }
        code.push('\n');
    }
    code
}

fn graph(files: &BTreeMap<Module, File>) -> Result<Graph> {
    let mut graph = Graph::new();
    for (module, file) in files {
        let used = graph.entry(module.clone()).or_default();
        for path in paths(&file.code) {
            if let Some(target) = resolved(module, &path, files).filter(|target| target != module) {
                *used.entry(target).or_default() += 1;
            }
        }
    }
    Ok(graph)
}

/// All paths in a text, with those of `use` written out.
fn paths(code: &str) -> Vec<Vec<String>> {
    let mut found = Vec::new();
    let mut rest = code;
    while let Some(start) = rest.find("use ") {
        let is_word = rest[..start].chars().next_back().is_none_or(|before| !before.is_alphanumeric() && before != '_');
        let Some(end) = rest[start..].find(';').filter(|_| is_word) else {
            inline(&rest[..start + 4], &mut found);
            rest = &rest[start + 4..];
            continue;
        };
        inline(&rest[..start], &mut found);
        expand(rest[start + 4..start + end].trim(), &[], &mut found);
        rest = &rest[start + end..];
    }
    inline(rest, &mut found);
    found
}

/// Paths that are written in full.
fn inline(code: &str, found: &mut Vec<Vec<String>>) {
    for word in code.split(|letter: char| !letter.is_alphanumeric() && letter != '_' && letter != ':') {
        if word.contains("::") {
            found.push(word.split("::").filter(|part| !part.is_empty()).map(str::to_owned).collect());
        }
    }
}

/// The paths of one tree of `use`.
fn expand(tree: &str, before: &[String], found: &mut Vec<Vec<String>>) {
    let (path, group) = match tree.split_once('{') {
        Some((path, group)) => (path, Some(group.strip_suffix('}').unwrap_or(group))),
        None => (tree.split(" as ").next().unwrap_or_default(), None),
    };
    let parts = path.split("::").map(str::trim).filter(|part| !part.is_empty() && *part != "*").map(str::to_owned);
    let all: Vec<String> = before.iter().cloned().chain(parts).collect();
    let Some(group) = group else { return found.push(all) };
    let (mut depth, mut start) = (0, 0);
    for (index, letter) in group.char_indices() {
        match letter {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => {
                expand(group[start..index].trim(), &all, found);
                start = index + 1;
            }
            _ => {}
        }
    }
    if !group[start..].trim().is_empty() {
        expand(group[start..].trim(), &all, found);
    }
}

/// The file that a path leads to; `None` for other crates.
fn resolved(from: &Module, path: &[String], files: &BTreeMap<Module, File>) -> Option<Module> {
    let (mut at, mut parts) = (from.clone(), path.iter().peekable());
    match parts.peek()?.as_str() {
        "crate" | "fieldcache" | "fieldcache_core" => {
            parts.next();
            at.clear();
        }
        "self" => drop(parts.next()),
        "super" => {
            while parts.next_if(|part| *part == "super").is_some() {
                at.pop()?;
            }
        }
        name => {
            let child: Module = at.iter().cloned().chain([name.to_owned()]).collect();
            files.get(&child)?;
        }
    }
    for part in parts {
        let child: Module = at.iter().cloned().chain([part.clone()]).collect();
        if !files.contains_key(&child) {
            break;
        }
        at = child;
    }
    Some(at)
}

/// The graph of the modules.
fn outer(graph: &Graph) -> Graph {
    let mut modules = Graph::new();
    for (module, used) in graph.iter().filter(|(module, _)| !module.is_empty()) {
        let edges = modules.entry(module[..1].to_vec()).or_default();
        for (target, count) in used.iter().filter(|(target, _)| !target.is_empty() && target[0] != module[0]) {
            *edges.entry(target[..1].to_vec()).or_default() += count;
        }
    }
    modules
}

/// The graph of the files inside of a module.
fn inner(graph: &Graph, module: &Module) -> Graph {
    let is_inside = |path: &Module| path.starts_with(module);
    let edges = graph.iter().filter(|(path, _)| is_inside(path));
    edges
        .map(|(path, used)| {
            let used = used.iter().filter(|(target, _)| is_inside(target));
            (path.clone(), used.map(|(target, count)| (target.clone(), *count)).collect())
        })
        .collect()
}

/// Groups of nodes of which each reaches each other, the largest first.
fn cycles(graph: &Graph) -> Vec<BTreeSet<Module>> {
    let reached: BTreeMap<&Module, BTreeSet<&Module>> =
        graph.keys().map(|start| (start, reach(graph, start))).collect();
    let mut groups: BTreeSet<BTreeSet<Module>> = BTreeSet::new();
    for (start, targets) in &reached {
        let group: BTreeSet<Module> = targets
            .iter()
            .filter(|target| reached.get(*target).is_some_and(|back| back.contains(start)))
            .map(|target| (*target).clone())
            .collect();
        if group.len() > 1 {
            groups.insert(group);
        }
    }
    let mut groups: Vec<_> = groups.into_iter().collect();
    groups.sort_by_key(|group| std::cmp::Reverse(group.len()));
    groups
}

fn reach<'g>(graph: &'g Graph, start: &'g Module) -> BTreeSet<&'g Module> {
    let (mut reached, mut pending) = (BTreeSet::new(), vec![start]);
    while let Some(at) = pending.pop() {
        for target in graph.get(at).into_iter().flat_map(BTreeMap::keys) {
            if reached.insert(target) {
                pending.push(target);
            }
        }
    }
    reached
}

fn described(groups: &[BTreeSet<Module>]) -> String {
    if groups.is_empty() {
        return "none".to_owned();
    }
    let group = |group: &BTreeSet<Module>| {
        let names: Vec<String> =
            group.iter().map(|module| module.last().cloned().unwrap_or_else(|| "lib".to_owned())).collect();
        format!("{} files ({})", group.len(), names.join(" "))
    };
    groups.iter().map(group).collect::<Vec<_>>().join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files_of(texts: &[(&str, &str)]) -> BTreeMap<Module, File> {
        let module = |path: &str| path.split("::").map(str::to_owned).collect();
        texts.iter().map(|(path, text)| (module(path), File { code: code(text), lines: 0 })).collect()
    }

    #[test]
    fn edges_and_cycles_are_found() {
        let files = files_of(&[
            ("a", "use crate::b::{c::{self, X}, Y as Z};\nmod d;\nuse d::W;"),
            ("a::d", "fn f() { super::super::b::c::g() } // crate::e\nconst T: &str = \"crate::e\";"),
            ("b", "pub mod c;"),
            ("b::c", "use super::Y;\n#[cfg(test)]\nmod tests { use crate::a; }"),
            ("e", "use crate::a::d::W;\nuse std::fmt;"),
        ]);
        let graph = graph(&files).unwrap();
        let uses_of = |path: &str| -> Vec<String> {
            let module: Module = path.split("::").map(str::to_owned).collect();
            graph[&module].keys().map(|target| target.join("::")).collect()
        };
        assert_eq!(uses_of("a"), ["a::d", "b", "b::c"]);
        assert_eq!(uses_of("a::d"), ["b::c"], "neither comments nor texts");
        assert_eq!(uses_of("b::c"), ["b"], "no tests");
        assert_eq!(uses_of("e"), ["a::d"]);
        assert!(cycles(&outer(&graph)).is_empty());
        let files = files_of(&[("a", "use crate::b::X;"), ("b", "use crate::e::Y;"), ("e", "use crate::a::Z;")]);
        let found = cycles(&outer(&super::graph(&files).unwrap()));
        assert_eq!(described(&found), "3 files (a b e)");
    }
}
