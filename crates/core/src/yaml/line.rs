//! Lines and their indentation.

/// Ends the current line, and begins the next one with `indent` spaces.
pub(super) fn break_line(indent: usize, out: &mut Vec<u8>) {
    out.push(b'\n');
    out.resize(out.len() + indent, b' ');
}
