//! Columns with random JSONPath templates: what kube-apiserver's own code shows of random objects, and what fieldcache shows.
//!
//! The judge is `e2e/go/cmd/column-judge`: apiextensions-apiserver's tableconvertor. It reports which templates are
//! valid. The valid ones become columns of definitions in a folder, of every type. The Tables that fieldcache makes of
//! it are compared byte by byte. What a template with `range` shows depends on the past upstream, so that word is only
//! in a definition of its own.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use anyhow::{Context, Result, ensure};
use e2e::components::{Component, locate};
use e2e::fieldcache::Fieldcache;
use e2e::fixtures;
use e2e::http::Request;
use e2e::run_directory::RunDirectory;
use fieldcache::extract::json_path::JsonPath;
use serde_json::{Value, json};

use super::SEED;
use super::dice::Dice;

const GROUP: &str = "templates.example.com";
const TYPES: [&str; 5] = ["string", "integer", "number", "boolean", "date"];

/// Templates made, valid or not.
const TEMPLATES: usize = 4_000;

/// Valid ones for one definition.
const EACH: usize = 80;

/// Objects of one definition.
const OBJECTS: usize = 12;

const NAMES: [&str; 16] =
    ["a", "a", "b", "c", "t", "t", "n", "name", "items", "deep", "list", "any", "f", "d", "x\\.y", "é"];

const TEXTS: [&str; 12] = [
    "",
    "x",
    "y",
    "Ready",
    "7",
    "true",
    "null",
    "a<b>",
    "it's",
    "0001-01-01T00:00:00Z",
    "2000-01-01T00:00:00Z",
    "9999-12-31T23:59:59Z",
];

/// In the odd characters of the grammar, so that most mutations mean something.
const ODD: [&str; 34] = [
    "[", "]", "(", ")", "{", "}", ".", "..", ",", ":", "'", "\"", "\\", "@", "$", "*", "?", "=", "<", ">", "!", " ",
    "\t", "-", "+", "0", "1", "_", "é", "[?(", ")]", "~", "|", "\n",
];

/// A running judge.
struct Judge {
    process: Child,
    questions: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
}

impl Judge {
    fn start() -> Result<Judge> {
        let mut command = Command::new(locate(Component::ColumnJudge)?);
        command.env_clear().stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::inherit());
        let mut process = command.spawn().context("starting column-judge")?;
        let questions = process.stdin.take();
        let answers = process.stdout.take().context("a piped standard output must be there")?;
        Ok(Judge { process, questions, answers: BufReader::new(answers) })
    }

    /// A question is one line.
    fn query(&mut self, question: &str) -> Result<Value> {
        let questions = self.questions.as_mut().context("a judge must have an input")?;
        writeln!(questions, "{question}").context("writing to column-judge")?;
        let mut line = String::new();
        self.answers.read_line(&mut line).context("listening to column-judge")?;
        ensure!(!line.is_empty(), "column-judge ended; standard error says why");
        serde_json::from_str(&line).context("column-judge printed something else")
    }
}

impl Drop for Judge {
    fn drop(&mut self) {
        // The end of its input ends it.
        self.questions = None;
        let _ = self.process.wait();
    }
}

fn scalar(dice: &mut Dice) -> Value {
    match dice.below(9) {
        0 => Value::Null,
        1 => json!(dice.chance(50)),
        2..=4 => json!(i64::try_from(dice.below(6)).unwrap_or(0) - 1),
        5 => json!([1.5, -0.5, 1e21, 3.25][dice.below(4)]),
        _ => json!(dice.pick(&TEXTS)),
    }
}

fn value(dice: &mut Dice, levels: usize) -> Value {
    match dice.below(6) {
        0 | 1 if levels > 0 => dice.list(3, |dice, _| value(dice, levels - 1)),
        2 | 3 if levels > 0 => {
            let mut map = json!({});
            for _ in 0..dice.below(4) {
                map[dice.pick(&NAMES).replace('\\', "")] = value(dice, levels - 1);
            }
            map
        }
        _ => scalar(dice),
    }
}

fn row(dice: &mut Dice) -> Value {
    let mut row = json!({});
    for name in ["a", "t", "n", "f", "c", "d", "b"] {
        if !dice.chance(92) {
            continue;
        }
        row[name] = match name {
            "a" | "n" if dice.chance(96) => json!(dice.below(4)),
            "t" => json!(dice.pick(&TEXTS)),
            "f" => json!(dice.chance(50)),
            "c" => dice.list(3, |dice, _| json!(dice.below(3))),
            "d" => json!({ "a": dice.below(3), "t": dice.pick(&TEXTS) }),
            _ => scalar(dice),
        };
    }
    row
}

fn object(dice: &mut Dice, kind: &str, name: &str) -> Value {
    let mut spec = json!({
        "a": dice.below(4), "b": scalar(dice), "c": dice.list(4, |dice, _| json!(dice.below(4))),
        "t": dice.pick(&TEXTS), "x.y": scalar(dice), "é": scalar(dice), "any": value(dice, 3),
        "items": dice.list(4, |dice, _| row(dice)),
        "deep": { "a": { "name": dice.word(), "d": { "name": dice.word() } }, "list": dice.list(3, |dice, _| json!({ "name": dice.word() })) },
    });
    for name in ["b", "x.y", "any", "items"] {
        if dice.chance(10) {
            spec[name] = scalar(dice);
        }
    }
    json!({
        "apiVersion": format!("{GROUP}/v1"), "kind": kind,
        "metadata": { "name": name, "creationTimestamp": "2000-01-01T00:00:00Z" }, "spec": spec,
    })
}

fn template(dice: &mut Dice) -> String {
    const FIRST: [&str; 14] = [
        ".spec",
        ".spec",
        ".spec.items",
        ".spec.items",
        ".spec.items[*]",
        ".spec.items[0]",
        ".spec.deep",
        ".spec.any",
        ".spec.any",
        ".spec.c",
        "$.spec",
        ".metadata",
        "..",
        "",
    ];
    let mut path = dice.pick(&FIRST).to_owned();
    for _ in 0..dice.below(4) {
        path.push_str(&step(dice));
    }
    if dice.chance(4) {
        path.push_str(dice.pick(&["}{", "}, {", "} {", "}x{.spec.items[0]", "}{.spec.any[*]}{"]));
        path.push_str(&step(dice));
    }
    if dice.chance(5) {
        path.push_str(&literal(dice));
    }
    if dice.chance(30) {
        for _ in 0..=dice.below(2) {
            path = mutated(dice, &path);
        }
    }
    path
}

fn index(dice: &mut Dice) -> String {
    (i64::try_from(dice.below(7)).unwrap_or(0) - 3).to_string()
}

fn maybe_index(dice: &mut Dice) -> String {
    if dice.chance(60) { index(dice) } else { String::new() }
}

fn step(dice: &mut Dice) -> String {
    match dice.below(100) {
        0..=34 => format!(".{}", dice.pick(&NAMES)),
        35..=41 => format!("['{}']", dice.pick(&NAMES)),
        42..=51 => format!("[{}]", index(dice)),
        52..=56 => format!("[{}:{}]", maybe_index(dice), maybe_index(dice)),
        57..=60 => format!("[{}:{}:{}]", maybe_index(dice), maybe_index(dice), dice.pick(&["1", "2", "", "0", "-1"])),
        61..=66 => "[*]".to_owned(),
        67..=70 => ".*".to_owned(),
        71..=76 => format!("..{}", dice.pick(&NAMES)),
        77 => "..".to_owned(),
        78..=80 => format!("[{},{}]", index(dice), index(dice)),
        81..=84 => format!("['{}', '{}']", dice.pick(&NAMES), dice.pick(&NAMES)),
        85 => format!("['{}',{},:]", dice.pick(&NAMES), index(dice)),
        86 => dice
            .pick(&["[]", "[,]", "[ 0 ]", "[\"a\"]", "['*']", "['a.b']", "['']", ".", "[0 ,1]", " ", "@", "$"])
            .to_owned(),
        _ => filter(dice),
    }
}

fn filter(dice: &mut Dice) -> String {
    let left = if dice.chance(88) { operand(dice) } else { literal(dice) };
    if dice.chance(20) {
        return format!("[?({left})]");
    }
    let operator = match dice.below(30) {
        0 => dice.pick(&["=", "=~", "===", "!", "<>", "=<", "!!"]),
        _ => dice.pick(&["==", "==", "!=", "<", "<=", ">", ">="]),
    };
    let right = if dice.chance(75) { literal(dice) } else { operand(dice) };
    let space = dice.pick(&["", "", " "]);
    format!("[?({left}{space}{operator}{space}{right})]")
}

fn operand(dice: &mut Dice) -> String {
    match dice.below(10) {
        0 => "@".to_owned(),
        1 => format!(
            "@{}",
            dice.pick(&["[0]", "[-1]", ".c[0]", ".c[5]", ".c[*]", "..a", ".*", ".d['a','t']", "['a']", ".t.*"])
        ),
        2 => format!("@.d.{}", dice.pick(&["a", "t"])),
        _ => format!("@.{}", dice.pick(&["a", "a", "t", "t", "n", "f", "b", "c", "name"])),
    }
}

fn literal(dice: &mut Dice) -> String {
    match dice.below(10) {
        0..=2 => index(dice),
        3 => dice.pick(&["1.5", "1.", "+1", "-.5", "1.2.3", "99999999999999999999", "0x1", "1e3", "00"]).to_owned(),
        4 => dice.pick(&["true", "false", "null", "end", "word"]).to_owned(),
        5 => dice
            .pick(&[
                "'it\\'s'",
                "\"\\u00e9\"",
                // Not '\\xff': Go writes a byte that is no UTF-8 as an escape, and fieldcache as the character U+FFFD.
                "'\\x41'",
                "'\\101'",
                "\"a)\"",
                "'a'b'",
                "'\\q'",
                "'\\\\'",
                "\"}\"",
                "']'",
            ])
            .to_owned(),
        6 | 7 => format!("'{}'", dice.pick(&TEXTS)),
        _ => format!("\"{}\"", dice.pick(&TEXTS)),
    }
}

/// One character less, or odd ones more or instead.
fn mutated(dice: &mut Dice, text: &str) -> String {
    let letters: Vec<char> = text.chars().collect();
    let place = dice.below(letters.len() + 1);
    let (before, after) = letters.split_at(place);
    let odd = dice.pick(&ODD).to_owned();
    let (middle, after) = match dice.below(4) {
        0 => (String::new(), after.get(1..).unwrap_or_default()),
        1 => (odd, after.get(1..).unwrap_or_default()),
        2 => (odd, after),
        _ => (after.iter().take(2).collect::<String>(), after),
    };
    before.iter().collect::<String>() + &middle + &after.iter().collect::<String>()
}

/// The columns of templates: of type string always, so that most is seen, and of others.
fn columns(dice: &mut Dice, templates: &[String]) -> Vec<Value> {
    let mut columns = Vec::new();
    for (place, template) in templates.iter().enumerate() {
        let other = 1 + dice.below(TYPES.len() - 1);
        for (number, kind) in TYPES.iter().enumerate() {
            if number == 0 || number == other || place % 4 == 0 {
                let mut column = json!({ "name": format!("{place}-{kind}"), "type": kind, "jsonPath": template });
                for (member, value) in
                    [("priority", json!(1)), ("description", json!("What it is.")), ("format", json!("date-time"))]
                {
                    if dice.chance(20) {
                        column[member] = value;
                    }
                }
                columns.push(column);
            }
        }
    }
    columns
}

fn definition(plural: &str, kind: &str, columns: &[Value]) -> Value {
    let version = json!({
        "name": "v1", "served": true, "storage": true,
        "schema": { "openAPIV3Schema": { "type": "object", "properties": {
            "spec": { "type": "object", "x-kubernetes-preserve-unknown-fields": true },
        } } },
        "additionalPrinterColumns": columns,
    });
    fixtures::definition(GROUP, "Cluster", (plural, &kind.to_lowercase(), kind), &[version], &fixtures::no_conversion())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn random_templates_show_what_kube_apiserver_shows() -> Result<()> {
    println!("templates: seed {SEED}");
    let mut judge = Judge::start()?;
    let mut dice = Dice::new(SEED);
    let templates: Vec<String> = (0..TEMPLATES).map(|_| template(&mut dice)).collect();
    let readable = judge.query(&json!({ "paths": templates }).to_string())?;
    let readable: Vec<bool> = serde_json::from_value(readable["readable"].clone())?;
    ensure!(readable.len() == templates.len(), "{} of {} templates judged", readable.len(), templates.len());
    let unlike: Vec<String> = templates
        .iter()
        .zip(&readable)
        .filter_map(|(path, readable)| match (JsonPath::parse(path), readable) {
            (Ok(_), false) => Some(format!("{path}: refused upstream")),
            (Err(error), true) => Some(format!("{path}: {error}, but not upstream")),
            _ => None,
        })
        .collect();
    ensure!(
        unlike.is_empty(),
        "{} of {TEMPLATES} templates:\n{}",
        unlike.len(),
        unlike[..unlike.len().min(20)].join("\n")
    );

    // The schema of definitions rejects an empty path before it is read.
    let of_columns = templates.iter().zip(&readable).filter(|(path, _)| !path.is_empty());
    let (valid, broken): (Vec<_>, Vec<_>) = of_columns.partition(|(_, readable)| **readable);
    let mut broken = broken.into_iter().map(|(path, _)| path.clone());
    let valid: Vec<String> = valid.into_iter().map(|(path, _)| path.clone()).collect();
    let mut sets: Vec<Vec<String>> = valid.chunks(EACH).map(<[String]>::to_vec).collect();
    for set in sets.iter_mut().step_by(6) {
        // Neither this column is shown nor those behind it.
        set.insert(set.len() / 2, broken.next().context("a template that is not valid")?);
    }
    sets.push(vec!["range .spec.items[*]}{.a}{end".to_owned(), ".spec.a}{range .spec.c[*]}x{end".to_owned()]);

    let folder = RunDirectory::create("templates")?;
    let mut requested = Vec::new();
    for (number, set) in sets.iter().enumerate() {
        let (plural, kind) = (format!("kinds{number}"), format!("Kind{number}"));
        let columns = columns(&mut dice, set);
        folder.write(&format!("{plural}.json"), definition(&plural, &kind, &columns).to_string())?;
        for index in 0..OBJECTS {
            let object = object(&mut dice, &kind, &format!("o{index}"));
            folder.write(&format!("{plural}-{index}.json"), object.to_string())?;
        }
        requested.push((format!("/apis/{GROUP}/v1/{plural}"), columns));
    }
    let fieldcache = Box::pin(Fieldcache::serve_folder(folder.path())).await?;
    let client = fieldcache.client();
    let (mut cells, mut empty, mut retried, mut faults) = (0, 0, 0, Vec::new());
    for (path, columns) in &requested {
        let list = client.send(Request::get(path)).await?.success()?.text();
        let request = Request::get(path).header("accept", "application/json;as=Table;g=meta.k8s.io;v=v1");
        let table = client.send(request).await?.success()?.text();
        let columns = Value::from(columns.clone());
        let question = format!("{{\"columns\":{columns},\"list\":{},\"table\":{}}}", list.trim(), table.trim());
        let answer = judge.query(&question)?;
        let count = |member: &str| answer[member].as_u64().unwrap_or_default();
        cells += count("cells");
        empty += count("empty");
        retried += count("retried");
        if !answer["definitions"].is_null() {
            let table: Value = serde_json::from_str(&table)?;
            faults.push(format!("{path}: columns {} <> {}", answer["definitions"], table["columnDefinitions"]));
        }
        faults.extend(answer["differences"].as_array().into_iter().flatten().map(|one| {
            format!("{} as {}: {} <> {} of {}", one["path"], one["type"], one["theirs"], one["ours"], one["object"])
        }));
    }
    println!(
        "templates: {} made, {} valid, {} definitions, {cells} cells compared, {empty} empty, {retried} of them in the order of another \
         attempt",
        templates.len(),
        valid.len(),
        sets.len()
    );
    ensure!(faults.is_empty(), "{} differ:\n{}", faults.len(), faults[..faults.len().min(20)].join("\n"));
    // A comparison of empty cells says little.
    ensure!(cells > 60_000 && cells - empty > 8_000, "{cells} cells, {empty} empty");
    Ok(())
}
