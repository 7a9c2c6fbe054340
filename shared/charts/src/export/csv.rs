use super::Data;

/// Rows as RFC 4180 asks, with plain line ends, under one line of names. What was asked is not in it: readers of CSV differ in
/// what they take for a comment.
pub(super) fn csv(data: &Data) -> String {
    let mut text = String::new();
    let names: Vec<String> = data.columns.iter().map(|column| column.name.to_string()).collect();
    let rows = data.rows.iter().map(|row| row.iter().map(super::Cell::plain).collect::<Vec<_>>());
    for row in std::iter::once(names).chain(rows) {
        let cells: Vec<String> = row.iter().map(|cell| quoted(cell)).collect();
        text.push_str(&cells.join(","));
        text.push('\n');
    }
    text
}

fn quoted(cell: &str) -> String {
    if cell.contains([',', '"', '\n', '\r']) {
        return format!("\"{}\"", cell.replace('"', "\"\""));
    }
    cell.to_owned()
}
