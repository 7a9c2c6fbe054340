//! Lists of names that are compiled in as text, a line each.

/// Whether one of the lines, which are sorted by their bytes, is `line`.
pub(crate) fn has_line(sorted: &str, line: &str) -> bool {
    let names = sorted.as_bytes();
    let (mut low, mut high) = (0, names.len());
    while low < high {
        let middle = low.midpoint(high);
        let start = names[..middle].iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
        let end =
            names[middle..].iter().position(|byte| *byte == b'\n').map_or(names.len(), |at| middle + at);
        match names[start..end].cmp(line.as_bytes()) {
            std::cmp::Ordering::Equal => return true,
            std::cmp::Ordering::Less => low = end + 1,
            std::cmp::Ordering::Greater => high = start,
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_lines_are_found_and_parts_are_not() {
        let lines = "a\nbc\nbcd\nz\n";
        assert!(["a", "bc", "bcd", "z"].iter().all(|line| has_line(lines, line)));
        assert!(!["", "b", "cd", "bcde", "zz", "a\nbc"].iter().any(|line| has_line(lines, line)));
        assert!(!has_line("", "a"));
    }
}
