//! Patterns, in the syntax of Go's regexp (RE2), matched in linear time by the crate regex-automata.
//!
//! Classes such as `\d` are ASCII in Go and Unicode in the crate, so they are translated. `\Q`, `\C` and octal escapes
//! are errors here.
//!
//! # Size
//! A short pattern can be large: `\pL{6}` has thousands of states. The time of compiling and of matching is in
//! proportion to the states. So a pattern is parsed first, and its states are counted before it is compiled. This
//! number, with repetitions written out, is its expanded size: [`Pattern::size`]. The crate matches with a cache of
//! sets of states if it can. Otherwise it follows each state on its own, for each byte. The cost assumes the latter.
//! Its other engines are off: the memory of their tables is not in proportion to the states. Parsing itself is bounded
//! by the length of the pattern and by its classes.

use std::ops::Range;

use regex_automata::meta;
use regex_automata::nfa::thompson::WhichCaptures;
use regex_syntax::ast::{self, Ast, ClassSetItem, Flag, Flags, FlagsItemKind, GroupKind};
use regex_syntax::hir::{Class, Hir, HirKind};
use regex_syntax::utf8::Utf8Sequences;

/// The maximum memory of a compiled pattern in bytes, without the caches of matching.
const MAX_SIZE: usize = 512 << 10;

/// The memory of the sets of states that matching may cache, in bytes, for each of two directions of the search.
const CACHE: usize = 32 << 10;

/// The maximum memory of a pattern together with the caches for matching it, in bytes.
const MAX_HELD: usize = 4 << 20;

/// The memory that matching takes for each state, in bytes: its places in sets and stacks, without the slots of groups.
const STATE: usize = 32;

/// The assumed number of threads that match with one pattern. A list continues on any thread of the runtime, and the
/// crate has caches for each thread.
const THREADS: usize = 4;

/// The maximum length of a pattern in bytes.
const MAX_LENGTH: usize = 4 << 10;

/// The maximum expanded size of a pattern.
const MAX_STATES: u64 = 8_000;

/// The maximum work of compiling all literal patterns of an expression, in states: see [`ParsedPattern::work`]. That
/// takes a few milliseconds.
pub(super) const MAX_STATES_TOGETHER: u64 = 16_000;

/// The states that the work of each pattern counts in addition to its own. This bounds the number of patterns, each of
/// which takes the memory of its caches.
const LEAST_STATES: u64 = 500;

/// The states that the work counts for a pattern with characters beyond ASCII. Building the tables for the first class
/// of such characters takes as long as compiling these states.
const WIDE_STATES: u64 = 500;

/// The number of characters whose other cases are looked up in the time of compiling one state, if the pattern ignores
/// case.
const FOLDED_OF_STATE: u64 = 10;

/// The maximum number of classes by name, such as `\pL`. Reading one takes some ten microseconds.
const MAX_NAMED: usize = 16;

/// The maximum number of characters in all classes of a pattern that ignores case. The other case of each is looked up.
const MAX_FOLDED: usize = 150_000;

/// The number of characters that a class by name counts in a pattern that ignores case: there are about as many
/// letters.
const NAMED_CHARACTERS: usize = 100_000;

/// A compiled pattern.
#[derive(Clone, Debug)]
pub(super) struct Pattern {
    regex: meta::Regex,
    /// See [`Pattern::held_bytes`].
    held_bytes: usize,
    /// The expanded size, in states of an automaton that reads bytes.
    pub(super) size: u64,
    /// The length of the longest possible match in bytes; `None` if there is no bound.
    pub(super) longest: Option<usize>,
}

impl Pattern {
    /// The memory of the pattern and of the caches for matching it, in bytes.
    pub(super) fn held_bytes(&self) -> usize {
        self.held_bytes
    }

    /// Whether a part of the text matches.
    pub(super) fn is_match(&self, text: &str) -> bool {
        self.regex.is_match(text)
    }

    /// The first part of the text that matches; `None` if no part does.
    pub(super) fn find<'t>(&self, text: &'t str) -> Option<&'t str> {
        self.regex.find(text).map(|found| &text[found.range()])
    }

    /// The byte ranges of the parts of the text that match, without overlaps, in order.
    pub(super) fn find_all(&self, text: &str) -> impl Iterator<Item = Range<usize>> {
        self.regex.find_iter(text).map(|found| found.range())
    }
}

/// A pattern that was parsed, but not compiled.
pub(super) struct ParsedPattern {
    parsed: Hir,
    /// See [`Pattern::size`].
    size: u64,
    /// The work of compiling in addition to the size, in states: the constant part, and the work for characters.
    further: u64,
    /// See [`Pattern::longest`].
    longest: Option<usize>,
}

impl ParsedPattern {
    /// Parses a pattern.
    ///
    /// # Errors
    /// The pattern is invalid, longer than [`MAX_LENGTH`], or larger than [`MAX_STATES`]. The error is the message, in
    /// one line.
    pub(super) fn parse(pattern: &str) -> Result<ParsedPattern, String> {
        if pattern.len() > MAX_LENGTH {
            return Err(format!("the pattern is longer than {MAX_LENGTH} bytes"));
        }
        let translated = translate(pattern);
        // Classes are counted in the syntax tree, because the next step expands them, which can take long.
        let ast = ast::parse::Parser::new().parse(&translated).map_err(|error| reason(&error.to_string()))?;
        let folded = ast::visit(&ast, Classes::default())?;
        let hir = regex_syntax::hir::translate::Translator::new()
            .translate(&translated, &ast)
            .map_err(|error| reason(&error.to_string()))?;
        let mut is_wide = false;
        let size = states(&hir, &mut is_wide);
        if size > MAX_STATES {
            return Err(format!("the pattern is too large when compiled: {size} states, at most {MAX_STATES}"));
        }
        let longest = hir.properties().maximum_len();
        let further = LEAST_STATES + folded as u64 / FOLDED_OF_STATE + if is_wide { WIDE_STATES } else { 0 };
        Ok(ParsedPattern { parsed: hir, size, further, longest })
    }

    /// The work of compiling the pattern, in states: the number of states that are compiled in the same time.
    pub(super) fn work(&self) -> u64 {
        self.size.saturating_add(self.further)
    }

    /// Compiles the pattern.
    ///
    /// # Errors
    /// The pattern takes more memory than [`MAX_SIZE`] or [`MAX_HELD`]. The error is the message, in one line.
    pub(super) fn compile(self) -> Result<Pattern, String> {
        let engines = meta::Config::new()
            .nfa_size_limit(Some(MAX_SIZE))
            // Groups are not used. With them, the memory of matching would be the product of the number of groups and
            // of the states.
            .which_captures(WhichCaptures::Implicit)
            .auto_prefilter(false)
            .onepass(false)
            .dfa(false)
            .backtrack(false)
            .hybrid_cache_capacity(CACHE);
        let built = meta::Builder::new().configure(engines).build_from_hir(&self.parsed);
        let regex = built.ok().filter(|regex| regex.memory_usage() <= MAX_SIZE);
        let regex = regex.ok_or_else(|| "the pattern is too large when compiled".to_owned())?;
        // The engine that follows each state has two tables with slots for the start and the end of each group in each
        // state.
        let state_bytes = 2 * size_of::<usize>() * regex.group_info().slot_len() + STATE;
        let thread_bytes = (self.size as usize).saturating_mul(state_bytes) + 2 * CACHE;
        let held_bytes = regex.memory_usage().saturating_add(thread_bytes.saturating_mul(THREADS));
        if held_bytes > MAX_HELD {
            return Err("the pattern takes too much memory".to_owned());
        }
        Ok(Pattern { regex, held_bytes, size: self.size, longest: self.longest })
    }
}

/// The reason in an error of the crate regex-syntax. Such an error draws the pattern over several lines, and the last
/// line has the reason.
fn reason(error: &str) -> String {
    error.lines().last().unwrap_or_default().trim().trim_start_matches("error: ").to_owned()
}

/// Counts the classes of a pattern, because expanding them takes long: those by name, and in a pattern that ignores
/// case those with many characters.
#[derive(Default)]
struct Classes {
    /// The number of classes by name, such as `\pL`.
    named: usize,
    /// The number of characters in ranges of classes, such as `[a-z]`.
    characters: usize,
    /// Whether some part of the pattern ignores case (`(?i)`).
    ignores_case: bool,
}

impl Classes {
    /// Notes a flag that makes the pattern ignore case. A flag that is switched off (`(?-i)`) counts too.
    fn flags(&mut self, flags: &Flags) {
        self.ignores_case |= flags.items.iter().any(|item| item.kind == FlagsItemKind::Flag(Flag::CaseInsensitive));
    }
}

impl ast::Visitor for Classes {
    /// The number of characters whose other case is looked up; 0 if the pattern does not ignore case.
    type Output = usize;
    type Err = String;

    /// Fails if the pattern has too many classes by name, or if it ignores case and has too large classes.
    fn finish(self) -> Result<usize, String> {
        let characters = self.named.saturating_mul(NAMED_CHARACTERS).saturating_add(self.characters);
        match self {
            Classes { named, .. } if named > MAX_NAMED => Err(format!("the pattern has more than {MAX_NAMED} classes")),
            Classes { ignores_case: true, .. } if characters > MAX_FOLDED => {
                Err("the pattern ignores case and has too large classes".to_owned())
            }
            Classes { ignores_case, .. } => Ok(if ignores_case { characters } else { 0 }),
        }
    }

    fn visit_pre(&mut self, ast: &Ast) -> Result<(), String> {
        match ast {
            Ast::ClassUnicode(_) => self.named += 1,
            Ast::Flags(set) => self.flags(&set.flags),
            Ast::Group(group) => {
                if let GroupKind::NonCapturing(flags) = &group.kind {
                    self.flags(flags);
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn visit_class_set_item_pre(&mut self, item: &ClassSetItem) -> Result<(), String> {
        match item {
            ClassSetItem::Unicode(_) => self.named += 1,
            ClassSetItem::Range(range) => {
                let count = u32::from(range.end.c).saturating_sub(u32::from(range.start.c));
                self.characters = self.characters.saturating_add(count as usize);
            }
            _ => {}
        }
        Ok(())
    }
}

/// The expanded size of a pattern: about the number of states of an automaton that reads bytes. The parser bounds the
/// depth of the pattern, and so of the recursion. Sets `is_wide` if a class has characters beyond ASCII.
fn states(hir: &Hir, is_wide: &mut bool) -> u64 {
    match hir.kind() {
        HirKind::Empty | HirKind::Look(_) => 1,
        HirKind::Literal(literal) => literal.0.len() as u64,
        HirKind::Class(Class::Bytes(class)) => class.ranges().len() as u64 + 1,
        HirKind::Class(Class::Unicode(class)) => {
            let bytes = |range: &regex_syntax::hir::ClassUnicodeRange| {
                Utf8Sequences::new(range.start(), range.end()).map(|sequence| sequence.len() as u64).sum::<u64>()
            };
            *is_wide |= !class.is_ascii();
            class.iter().map(bytes).sum::<u64>() + 1
        }
        HirKind::Repetition(repetition) => {
            let times = repetition.max.unwrap_or(repetition.min).max(1);
            (states(&repetition.sub, is_wide) + 1).saturating_mul(u64::from(times))
        }
        HirKind::Capture(capture) => states(&capture.sub, is_wide).saturating_add(2),
        HirKind::Concat(parts) | HirKind::Alternation(parts) => {
            parts.iter().fold(parts.len() as u64, |sum, part| sum.saturating_add(states(part, is_wide)))
        }
    }
}

/// Translates a pattern from the syntax of Go into that of the crate, which differs in ASCII classes, word boundaries
/// and literal characters within brackets. Invalid patterns remain invalid.
fn translate(pattern: &str) -> String {
    let mut translated = String::with_capacity(pattern.len() + 16);
    let mut characters = pattern.chars().peekable();
    // Within brackets, the number of characters since they opened: a `]` at once is literal. `None` outside of
    // brackets.
    let mut inside: Option<usize> = None;
    while let Some(character) = characters.next() {
        let at = inside;
        if let Some(count) = &mut inside {
            *count += 1;
        }
        match (character, at) {
            ('\\', _) => match characters.next() {
                Some('d') => translated.push_str(if at.is_some() { "0-9" } else { "[0-9]" }),
                Some('w') => translated.push_str(if at.is_some() { "0-9A-Za-z_" } else { "[0-9A-Za-z_]" }),
                Some('s') => translated.push_str(if at.is_some() { r"\t\n\f\r " } else { r"[\t\n\f\r ]" }),
                Some('D') => translated.push_str("[^0-9]"),
                Some('W') => translated.push_str("[^0-9A-Za-z_]"),
                Some('S') => translated.push_str(r"[^\t\n\f\r ]"),
                Some('b') if at.is_none() => translated.push_str(r"(?-u:\b)"),
                Some('B') if at.is_none() => translated.push_str(r"(?-u:\B)"),
                Some(escaped) => translated.extend(['\\', escaped]),
                None => translated.push('\\'),
            },
            ('[', None) => {
                inside = Some(0);
                translated.push('[');
                if characters.next_if_eq(&'^').is_some() {
                    translated.push('^');
                }
            }
            ('[', Some(_)) if characters.peek() == Some(&':') => {
                // A class such as `[:alpha:]`, up to its end.
                translated.push('[');
                for part in characters.by_ref() {
                    translated.push(part);
                    if part == ']' {
                        break;
                    }
                }
            }
            (']', Some(0)) => translated.push_str(r"\]"),
            (']', Some(_)) => {
                inside = None;
                translated.push(']');
            }
            ('[' | '&' | '~', Some(_)) => translated.extend(['\\', character]),
            (character, _) => translated.push(character),
        }
    }
    translated
}
