//! Parses a template as client-go's `parser.go` does, character by character, with its oddities:
//!
//! - A bracket ends at the first `]`, and a union is split at each comma, even within quotes. A filter ends at the
//!   first `)` that is not in its first pair of quotes.
//! - `['a.b']` is `.a.b`, and `["a"]` is an error. Backslashes in names disappear, also doubled ones.
//! - `[]` is `[0]`.

use super::template::{
    ComparisonOperator, Filter, InvalidTemplate, JsonPath, Literal, MAX_LEVELS, PathNode, Slice, SliceEnd, Steps, Test,
    Word,
};
use super::unquote::unquote;

impl JsonPath {
    /// Parses a template without the braces around it, as a CustomResourceDefinition has it.
    ///
    /// # Errors
    /// The template is not valid for client-go, or its filters are nested too deep. For an invalid template, the API
    /// server shows neither the column nor those after it.
    pub fn parse(text: &str) -> Result<JsonPath, InvalidTemplate> {
        actions(text, 0).map(|actions| JsonPath { actions })
    }
}

/// Parses all actions of a template without the braces around it. `levels` is the number of filters that contain it.
fn actions(text: &str, levels: usize) -> Result<Vec<Steps>, InvalidTemplate> {
    let template = format!("{{{text}}}");
    let mut rest = &*template;
    let mut actions = Vec::new();
    // Text between actions is only printed.
    while let Some((_, inside)) = rest.split_once('{') {
        let mut list = Steps::new();
        rest = action(inside, &mut list, levels)?;
        list.shrink_to_fit();
        actions.push(list);
    }
    Ok(actions)
}

/// Parses all actions of a template, as [`actions`] does, and returns the first one; empty if there is none.
fn first_action(text: &str, levels: usize) -> Result<Steps, InvalidTemplate> {
    Ok(actions(text, levels)?.into_iter().next().unwrap_or_default())
}

/// Parses an action, which begins after its opening brace. Appends its nodes to `list`, and returns the text after the
/// closing brace. `levels` is the number of filters that contain it.
fn action<'t>(text: &'t str, list: &mut Steps, levels: usize) -> Result<&'t str, InvalidTemplate> {
    let mut rest = text;
    loop {
        if let Some(after) = rest.strip_prefix('}') {
            return Ok(after);
        }
        if let Some(after) = rest.strip_prefix("[?(") {
            rest = filter(after, list, levels)?;
            continue;
        }
        if let Some(after) = rest.strip_prefix("..") {
            if list.last() == Some(&PathNode::Recursive) {
                return Err(InvalidTemplate::Recursive);
            }
            list.push(PathNode::Recursive);
            let begins_name = |letter: char| letter == '_' || letter.is_alphanumeric();
            rest = if after.starts_with(begins_name) { field(after, list) } else { after };
            continue;
        }
        let first = rest.chars().next().ok_or(InvalidTemplate::Action)?;
        let after = &rest[first.len_utf8()..];
        rest = match first {
            '\r' | '\n' => return Err(InvalidTemplate::Action),
            // `@` and `$` are the current object: they need no node.
            ' ' | '@' | '$' => after,
            '[' => bracket(after, list, levels)?,
            '"' | '\'' => quote(rest, first, list)?,
            '.' => field(after, list),
            '+' | '-' | '0'..='9' => number(rest, list)?,
            letter if letter == '_' || letter.is_alphabetic() => word(rest, list),
            other => return Err(InvalidTemplate::Letter(other)),
        };
    }
}

/// Whether a character ends a name or a word.
fn is_terminator(letter: char) -> bool {
    matches!(letter, ' ' | '\t' | '\r' | '\n' | '.' | ',' | '[' | ']' | '$' | '@' | '{' | '}')
}

/// Parses a field name, appends its node to `list`, and returns the rest of the text.
fn field<'t>(text: &'t str, list: &mut Steps) -> &'t str {
    let mut letters = text.char_indices();
    let mut end = text.len();
    while let Some((place, letter)) = letters.next() {
        if letter == '\\' {
            letters.next();
        } else if is_terminator(letter) {
            end = place;
            break;
        }
    }
    let (name, rest) = text.split_at(end);
    list.push(if name == "*" { PathNode::Wildcard } else { PathNode::Field(name.replace('\\', "")) });
    rest
}

/// Parses a word, such as `true` or `range`, appends its node to `list`, and returns the rest of the text.
fn word<'t>(text: &'t str, list: &mut Steps) -> &'t str {
    let (word, rest) = text.split_at(text.find(is_terminator).unwrap_or(text.len()));
    list.push(match word {
        "true" => PathNode::Literal(Literal::Bool(true)),
        "false" => PathNode::Literal(Literal::Bool(false)),
        "range" => PathNode::Range,
        "end" => PathNode::Word(Word::End),
        _ => PathNode::Word(Word::Unknown),
    });
    rest
}

/// Parses a number, appends its node to `list`, and returns the rest of the text.
fn number<'t>(text: &'t str, list: &mut Steps) -> Result<&'t str, InvalidTemplate> {
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    let rest = digits.trim_start_matches(|letter: char| letter == '.' || letter.is_ascii_digit());
    let number = &text[..text.len() - rest.len()];
    let literal = match number.parse() {
        Ok(int) => Literal::Int(int),
        Err(_) => {
            let float = number.parse().ok().filter(|float: &f64| float.is_finite());
            Literal::Float(float.ok_or_else(|| InvalidTemplate::Number(number.to_owned()))?)
        }
    };
    list.push(PathNode::Literal(literal));
    Ok(rest)
}

/// Parses a text in quotes, which begins with the quote `mark`. Appends its node to `list`, and returns the rest.
fn quote<'t>(text: &'t str, mark: char, list: &mut Steps) -> Result<&'t str, InvalidTemplate> {
    let mut before = mark;
    for (place, letter) in text.char_indices().skip(1) {
        if letter == '\n' {
            break;
        }
        // As in client-go, a quote after a backslash does not end the text, even if that backslash is escaped itself.
        if letter == mark && before != '\\' {
            let text_of = unquote(&text[1..place], mark).ok_or(InvalidTemplate::Escape)?;
            list.push(PathNode::Literal(Literal::Text(text_of)));
            return Ok(&text[place + 1..]);
        }
        before = letter;
    }
    Err(InvalidTemplate::Quote)
}

/// Parses an index, a slice, a name or a union in brackets, which begins after the opening bracket. Appends its node to
/// `list`, and returns the text after the closing bracket.
fn bracket<'t>(text: &'t str, list: &mut Steps, levels: usize) -> Result<&'t str, InvalidTemplate> {
    let (inside, rest) = text.split_once(']').ok_or(InvalidTemplate::Bracket)?;
    if inside.contains('\n') {
        return Err(InvalidTemplate::Bracket);
    }
    if inside.contains(',') {
        let part = |part: &str| first_action(&format!("[{}]", part.trim_matches(' ')), levels);
        list.push(PathNode::Union(inside.split(',').map(part).collect::<Result<_, _>>()?));
        return Ok(rest);
    }
    let name = inside.strip_prefix('\'').and_then(|inside| inside.strip_suffix('\''));
    match name.filter(|name| !name.contains('\'')) {
        Some(name) => list.extend(first_action(&format!(".{name}"), levels)?),
        None => list.push(PathNode::Slice(slice(inside).ok_or_else(|| InvalidTemplate::Index(inside.to_owned()))?)),
    }
    Ok(rest)
}

/// Parses `FIRST:END:STEP`, an index or `*`; `None` if the text is none of these.
fn slice(text: &str) -> Option<Slice> {
    let text = if text == "*" { ":" } else { text };
    let mut numbers = text.split(':');
    // `None`: not a number. `Some(None)`: no number is left. `Some(Some(None))`: the number is empty.
    let mut number = || match numbers.next() {
        None => Some(None),
        Some("") => Some(Some(None)),
        // No plus sign.
        Some(text) if text.starts_with(['-', '0', '1', '2', '3', '4', '5', '6', '7', '8', '9']) => {
            text.parse().ok().map(|number: i64| Some(Some(number)))
        }
        Some(_) => None,
    };
    let (first, end, step) = (number()?.flatten(), number()?, number()?.flatten());
    let end = match end {
        None => SliceEnd::Next,
        Some(None) => SliceEnd::Open,
        Some(Some(place)) => SliceEnd::At(place),
    };
    numbers.next().is_none().then_some(Slice { first, end, step })
}

/// Parses a filter, which begins after `[?(`. Appends its node to `list`, and returns the text after `)]`. `levels` is
/// the number of filters that contain it.
fn filter<'t>(text: &'t str, list: &mut Steps, levels: usize) -> Result<&'t str, InvalidTemplate> {
    if levels >= MAX_LEVELS {
        return Err(InvalidTemplate::Levels);
    }
    let (mut mark, mut is_closed, mut before) = (None, false, '(');
    let mut letters = text.char_indices();
    let end = loop {
        let (place, letter) = letters.next().ok_or(InvalidTemplate::Filter)?;
        match (letter, mark) {
            ('\n', _) => return Err(InvalidTemplate::Filter),
            ('"' | '\'', None) => mark = Some(letter),
            ('"' | '\'', Some(mark)) => is_closed |= letter == mark && before != '\\',
            (')', mark) if mark.is_some() == is_closed => break place,
            _ => {}
        }
        before = letter;
    };
    let rest = text[end + 1..].strip_prefix(']').ok_or(InvalidTemplate::Filter)?;
    let filter = match split(&text[..end]) {
        None => Filter { left: first_action(&text[..end], levels + 1)?, test: Test::Exists },
        Some((left, operator, right)) => {
            let (left, right) = (first_action(left, levels + 1)?, first_action(right, levels + 1)?);
            let operator = match operator {
                "==" => Some(ComparisonOperator::Equal),
                "!=" => Some(ComparisonOperator::NotEqual),
                "<" => Some(ComparisonOperator::Less),
                "<=" => Some(ComparisonOperator::LessOrEqual),
                ">" => Some(ComparisonOperator::Greater),
                ">=" => Some(ComparisonOperator::GreaterOrEqual),
                _ => None,
            };
            let test = match operator {
                Some(operator) => Test::Compares(operator, right),
                None => Test::Unknown(right),
            };
            Filter { left, test }
        }
    };
    list.push(PathNode::Filter(Box::new(filter)));
    Ok(rest)
}

/// Splits a comparison into its left side, operator and right side, as Go's `^([^!<>=]+)([!<>=]+)(.+?)$` does; `None`
/// if the text is not a comparison.
fn split(text: &str) -> Option<(&str, &str, &str)> {
    let is_operator = |letter: char| matches!(letter, '!' | '<' | '>' | '=');
    let place = text.find(is_operator).filter(|place| *place > 0)?;
    let (left, rest) = text.split_at(place);
    let end = rest.find(|letter| !is_operator(letter)).unwrap_or(rest.len());
    // The right side is not empty, and takes its character from the operator if it must.
    let end = if end == rest.len() { end - 1 } else { end };
    (end > 0).then(|| (left, &rest[..end], &rest[end..]))
}
