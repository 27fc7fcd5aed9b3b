//! Lines and their indentation.

/// Begins a line with this indent.
pub(super) fn break_line(indent: usize, out: &mut Vec<u8>) {
    out.push(b'\n');
    out.resize(out.len() + indent, b' ');
}
