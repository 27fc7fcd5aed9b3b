//! Functions of texts (cel-go `ext/strings.go`, and apiserver `pkg/cel/library/regex.go`). Positions count characters.

use super::failure::{EvalError, Failure, no_overload, other};
use super::function::Function;
use super::meter::CostMeter;
use super::pattern::{ParsedPattern, Pattern};
use super::value::Evaluated;
use super::value::{CelValue, ListValue, Text};

/// The cost of parsing a pattern that is not a literal, for each of its bytes, and of compiling it, for each state: see
/// [`ParsedPattern::work`].
const PARSE: u64 = 20;
const COMPILE: u64 = 16;

/// The number of states of a pattern that cost one for each byte of the matched text: following a state takes some
/// nanoseconds.
const MATCHED: u64 = 8;

/// The cost of compiling a pattern with this number of states.
pub(super) fn compile_cost(states: u64) -> u64 {
    COMPILE.saturating_mul(states)
}

/// The cost of matching a text of this many bytes with a pattern of this many states ([`Pattern::size`]).
pub(super) fn match_cost(bytes: u64, states: u64) -> u64 {
    bytes.saturating_mul(states).div_ceil(MATCHED).saturating_add(2)
}

/// Evaluates a function whose first argument is a text. `rest`: the other arguments. `compiled`: the pattern of
/// `matches`, `find` and `findAll`; `None` if it is not a literal, so that it must be compiled here.
pub(super) fn call<'a>(
    meter: &mut CostMeter,
    function: Function,
    text: &Text<'a>,
    rest: &[CelValue<'a>],
    compiled: Option<&Pattern>,
) -> Evaluated<'a> {
    use Function as F;
    match (function, rest) {
        (F::Contains, [CelValue::Text(part)]) => {
            search(meter, text, part)?;
            Ok(CelValue::Bool(part.len() <= text.len() && text.contains(&**part)))
        }
        (F::StartsWith, [CelValue::Text(part)]) => {
            meter.read(part.len().max(1))?;
            Ok(CelValue::Bool(text.starts_with(&**part)))
        }
        (F::EndsWith, [CelValue::Text(part)]) => {
            meter.read(part.len().max(1))?;
            Ok(CelValue::Bool(text.ends_with(&**part)))
        }
        (F::Matches | F::Find | F::FindAll, [CelValue::Text(pattern), rest @ ..]) => {
            let made;
            let pattern = match compiled {
                Some(pattern) => pattern,
                None => {
                    meter.charge(PARSE * (pattern.len() as u64 + 1))?;
                    let parsed = ParsedPattern::parse(pattern).map_err(EvalError::Other)?;
                    meter.charge(compile_cost(parsed.work()))?;
                    made = parsed.compile().map_err(EvalError::Other)?;
                    &made
                }
            };
            match_text(meter, function, text, pattern, rest)
        }
        (F::CharAt, [CelValue::Int(index)]) => {
            meter.read(text.len().max(1))?;
            let count = text.chars().count();
            match usize::try_from(*index) {
                Ok(index) if index == count => Ok(CelValue::text("")),
                Ok(index) if index < count => {
                    Ok(CelValue::text(text.chars().nth(index).map_or(String::new(), String::from)))
                }
                _ => other(format!("index out of range: {index}")),
            }
        }
        (F::IndexOf, [CelValue::Text(part)]) => index_of(meter, text, part, 0),
        (F::IndexOf, [CelValue::Text(part), CelValue::Int(from)]) => index_of(meter, text, part, *from),
        (F::LastIndexOf, [CelValue::Text(part)]) => last_index_of(meter, text, part, None),
        (F::LastIndexOf, [CelValue::Text(part), CelValue::Int(from)]) => last_index_of(meter, text, part, Some(*from)),
        (F::LowerAscii, []) => {
            meter.make_text(text.len().max(1))?;
            Ok(CelValue::text(text.to_ascii_lowercase()))
        }
        (F::UpperAscii, []) => {
            meter.make_text(text.len().max(1))?;
            Ok(CelValue::text(text.to_ascii_uppercase()))
        }
        (F::Trim, []) => {
            meter.make_text(text.len().max(1))?;
            Ok(CelValue::text(text.trim()))
        }
        (F::Replace, [CelValue::Text(from), CelValue::Text(to)]) => replace(meter, text, from, to, -1),
        (F::Replace, [CelValue::Text(from), CelValue::Text(to), CelValue::Int(most)]) => {
            replace(meter, text, from, to, *most)
        }
        (F::Split, [CelValue::Text(separator)]) => split(meter, text, separator, -1),
        (F::Split, [CelValue::Text(separator), CelValue::Int(most)]) => split(meter, text, separator, *most),
        (F::Substring, [CelValue::Int(from)]) => substring(meter, text, *from, None),
        (F::Substring, [CelValue::Int(from), CelValue::Int(to)]) => substring(meter, text, *from, Some(*to)),
        (F::Quote, []) => quote(meter, text),
        _ => no_overload(),
    }
}

/// Evaluates `matches`, `find` and `findAll` with a compiled pattern. `rest`: for `findAll`, nothing, or the maximum
/// number of matches (negative: no maximum).
fn match_text<'a>(
    meter: &mut CostMeter,
    function: Function,
    text: &str,
    pattern: &Pattern,
    rest: &[CelValue<'a>],
) -> Evaluated<'a> {
    // Each state may look at each byte. Upstream assumes a state for each four bytes of the pattern.
    let cost = |bytes: usize| match_cost(bytes as u64, pattern.size);
    meter.charge(cost(text.len()))?;
    match (function, rest) {
        (Function::Matches, []) => Ok(CelValue::Bool(pattern.is_match(text))),
        (Function::Find, []) => {
            let found = pattern.find(text).unwrap_or_default();
            meter.make_text(found.len())?;
            Ok(CelValue::text(found))
        }
        (Function::FindAll, [] | [CelValue::Int(_)]) => {
            let most = match rest {
                [CelValue::Int(most)] => usize::try_from(*most).unwrap_or(usize::MAX),
                _ => usize::MAX,
            };
            let mut found = Vec::new();
            for range in pattern.find_all(text).take(most) {
                // The search for one match may read beyond it, up to the end of the text or of the longest possible
                // match, so that all of them together can be quadratic.
                let rest = text.len() - range.start;
                meter.charge(cost(pattern.longest.map_or(rest, |longest| longest.min(rest))))?;
                meter.make_values(1)?;
                meter.make_text(range.len())?;
                found.push(CelValue::text(&text[range]));
            }
            Ok(CelValue::list(found))
        }
        _ => no_overload(),
    }
}

/// The number of characters before the byte offset `byte`: the position of the character that begins there.
fn characters(text: &str, byte: usize) -> i64 {
    i64::try_from(text[..byte].chars().count()).unwrap_or(i64::MAX)
}

/// Counts the cost of searching a text for a part. If the part is longer than the text, the caller must not search:
/// that would read the part, which is not counted.
fn search(meter: &mut CostMeter, text: &str, part: &str) -> Result<(), Failure> {
    meter.read(text.len().max(1))?;
    if part.len() <= text.len() {
        // The search algorithm reads the part several times before it reads the text.
        meter.compare(part.len().saturating_mul(3))?;
    }
    Ok(())
}

/// Evaluates `indexOf`: the position of the first occurrence of a part that begins at or after the position `from`; -1
/// if there is none. An empty part is at `from`.
fn index_of<'a>(meter: &mut CostMeter, text: &str, part: &str, from: i64) -> Evaluated<'a> {
    search(meter, text, part)?;
    if part.is_empty() {
        return Ok(CelValue::Int(from));
    }
    let Ok(from) = usize::try_from(from) else { return other(format!("index out of range: {from}")) };
    let start = text.char_indices().nth(from).map(|(byte, _)| byte);
    let start = start.filter(|start| part.len() <= text.len() - start);
    let found = start.and_then(|start| text[start..].find(part).map(|found| start + found));
    Ok(CelValue::Int(found.map_or(-1, |found| characters(text, found))))
}

/// Evaluates `lastIndexOf`: the position of the last occurrence of a part; -1 if there is none. `from`: the last
/// position at which the part may begin (`None`: any). An empty part is at `from`, or at the end of the text.
fn last_index_of<'a>(meter: &mut CostMeter, text: &str, part: &str, from: Option<i64>) -> Evaluated<'a> {
    search(meter, text, part)?;
    let count = text.chars().count();
    if part.is_empty() {
        return Ok(CelValue::Int(from.unwrap_or_else(|| i64::try_from(count).unwrap_or(i64::MAX))));
    }
    let end = match from {
        None => text.len(),
        Some(from) => {
            let Ok(from) = usize::try_from(from) else { return other(format!("index out of range: {from}")) };
            if from >= count {
                return Ok(CelValue::Int(-1));
            }
            let start = text.char_indices().nth(from).map_or(text.len(), |(byte, _)| byte);
            // An occurrence at `start` would end here. If this is within a character, no occurrence begins at `start`.
            let mut end = start.saturating_add(part.len()).min(text.len());
            while !text.is_char_boundary(end) {
                end -= 1;
            }
            end
        }
    };
    let found = if part.len() <= end { text[..end].rfind(part) } else { None };
    Ok(CelValue::Int(found.map_or(-1, |found| characters(text, found))))
}

/// Evaluates `replace`: replaces the first `most` occurrences of `from`; all if `most` is negative.
fn replace<'a>(meter: &mut CostMeter, text: &str, from: &str, to: &str, most: i64) -> Evaluated<'a> {
    // The text is searched twice: to count the occurrences, and to replace them.
    search(meter, text, from)?;
    search(meter, text, from)?;
    let most = usize::try_from(most).unwrap_or(usize::MAX);
    let count = if from.len() <= text.len() { text.matches(from).take(most).count() } else { 0 };
    meter.charge(count as u64)?;
    let length = text.len() - count * from.len();
    // The memory is counted before the text is made: many short occurrences can become a very long text.
    meter.make_text(length.saturating_add(count.saturating_mul(to.len())))?;
    Ok(match count {
        0 => CelValue::text(text),
        count => CelValue::text(text.replacen(from, to, count)),
    })
}

/// Evaluates `split`: at most `most` parts, of which the last one has the remaining text; no bound if `most` is
/// negative. An empty separator splits into characters.
fn split<'a>(meter: &mut CostMeter, text: &str, separator: &str, most: i64) -> Evaluated<'a> {
    meter.read(text.len().max(1).saturating_mul(2))?;
    search(meter, text, separator)?;
    let most = usize::try_from(most).unwrap_or(usize::MAX);
    let mut parts: Vec<CelValue<'a>> = Vec::new();
    let mut rest = text;
    while parts.len() < most {
        let is_last = parts.len() + 1 == most;
        // The end of the next part, and the start of what follows the separator; `None` if there is no separator.
        let cut = match separator.is_empty() {
            // An empty separator separates the characters.
            true => rest
                .chars()
                .next()
                .map(|first| (first.len_utf8(), first.len_utf8()))
                .filter(|(end, _)| *end < rest.len()),
            // A longer separator must not be searched for: see `search`.
            false if separator.len() > rest.len() => None,
            false => rest.find(separator).map(|found| (found, found + separator.len())),
        };
        let cut = cut.filter(|_| !is_last);
        let (part, after) = match cut {
            Some((end, next)) => (&rest[..end], Some(&rest[next..])),
            None => (rest, None),
        };
        if separator.is_empty() && part.is_empty() {
            break;
        }
        meter.make_values(1)?;
        meter.make_text(part.len())?;
        parts.push(CelValue::text(part));
        match after {
            Some(after) => rest = after,
            None => break,
        }
    }
    Ok(CelValue::list(parts))
}

/// Evaluates `substring`: the characters from the position `from` up to the position `to`, without the character at
/// `to` (`None`: up to the end).
fn substring<'a>(meter: &mut CostMeter, text: &str, from: i64, to: Option<i64>) -> Evaluated<'a> {
    meter.make_text(text.len().max(1))?;
    let count = text.chars().count();
    let to = to.unwrap_or_else(|| i64::try_from(count).unwrap_or(i64::MAX));
    let range = (usize::try_from(from), usize::try_from(to));
    match range {
        (Ok(start), Ok(end)) if start <= end && end <= count => {
            Ok(CelValue::text(text.chars().skip(start).take(end - start).collect::<String>()))
        }
        (Ok(start), Ok(end)) if end <= count && start <= count => {
            other(format!("invalid substring range. start: {start}, end: {end}"))
        }
        _ => other(format!("index out of range: {from}, {to}")),
    }
}

/// Evaluates `strings.quote`: the text as a CEL literal in double quotes.
fn quote<'a>(meter: &mut CostMeter, text: &str) -> Evaluated<'a> {
    meter.make_text(text.len().saturating_mul(2).saturating_add(2))?;
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for character in text.chars() {
        match character {
            '\x07' => quoted.push_str("\\a"),
            '\x08' => quoted.push_str("\\b"),
            '\x0c' => quoted.push_str("\\f"),
            '\n' => quoted.push_str("\\n"),
            '\r' => quoted.push_str("\\r"),
            '\t' => quoted.push_str("\\t"),
            '\x0b' => quoted.push_str("\\v"),
            '\\' => quoted.push_str("\\\\"),
            '"' => quoted.push_str("\\\""),
            other => quoted.push(other),
        }
    }
    quoted.push('"');
    Ok(CelValue::text(quoted))
}

/// Evaluates `join`: the texts of a list with a separator between them. Elements that are not texts are an error.
pub(super) fn join<'a>(meter: &mut CostMeter, list: &ListValue<'a>, separator: &str) -> Evaluated<'a> {
    let mut joined = String::new();
    meter.charge(1)?;
    for (index, element) in list.elements().enumerate() {
        let CelValue::Text(text) = element.read(meter)? else { return no_overload::<CelValue<'a>>() };
        let separator = if index == 0 { "" } else { separator };
        meter.charge(1)?;
        meter.make_text(text.len() + separator.len())?;
        joined.push_str(separator);
        joined.push_str(&text);
    }
    Ok(CelValue::text(joined))
}

/// The number of characters.
pub(super) fn size(meter: &mut CostMeter, text: &str) -> Result<i64, Failure> {
    // Upstream counts a cost of one whatever the length, because Go counts characters fast.
    meter.charge(1 + text.len() as u64 / 64)?;
    Ok(i64::try_from(text.chars().count()).unwrap_or(i64::MAX))
}
