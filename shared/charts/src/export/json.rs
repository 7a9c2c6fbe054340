use serde_json::{Map, Value, json};

use super::{Cell, Data, Export};

/// Version of the document; a reader that knows another one should not go on.
const SCHEMA: u64 = 1;

/// Everything that was asked, the columns with their units in words, and the rows by column name.
pub(super) fn json(export: &Export) -> String {
    let mut document = about(export);
    let columns =
        export.data.columns.iter().map(|column| json!({"name": column.name, "title": column.title}));
    document.insert("columns".to_owned(), columns.collect());
    document.insert("rows".to_owned(), rows(&export.data));
    pretty(&Value::Object(document))
}

/// The same without rows, in one line, for a drawing's `metadata`.
pub(super) fn metadata(export: &Export) -> String {
    Value::Object(about(export)).to_string()
}

/// Rows by column name.
pub(super) fn rows(data: &Data) -> Value {
    let row = |cells: &Vec<Cell>| -> Map<String, Value> {
        data.columns.iter().zip(cells).map(|(column, cell)| (column.name.to_string(), value(cell))).collect()
    };
    data.rows.iter().map(|cells| Value::Object(row(cells))).collect()
}

pub(super) fn pretty(document: &Value) -> String {
    let mut text = serde_json::to_string_pretty(document).unwrap_or_default();
    text.push('\n');
    text
}

fn value(cell: &Cell) -> Value {
    match cell {
        Cell::Text(text) => text.as_str().into(),
        Cell::Whole(count) => (*count).into(),
        Cell::Real(number) => (*number).into(),
    }
}

fn about(export: &Export) -> Map<String, Value> {
    let inputs: Map<String, Value> =
        export.inputs.iter().map(|(name, value)| (name.clone(), value.as_str().into())).collect();
    let or_null = |text: &str| if text.is_empty() { Value::Null } else { text.into() };
    let mut about = Map::new();
    about.insert("schema".to_owned(), SCHEMA.into());
    about.insert("title".to_owned(), export.title.as_str().into());
    about.insert("note".to_owned(), or_null(&export.note));
    about.insert("inputs".to_owned(), inputs.into());
    about.insert("assumptions".to_owned(), export.assumptions.clone().into());
    about.insert("made_by".to_owned(), or_null(&export.origin.program));
    about.insert("day".to_owned(), or_null(&export.origin.day));
    about.insert("link".to_owned(), or_null(&export.origin.link));
    about
}
