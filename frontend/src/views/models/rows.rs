use kvscope_charts::figures::Table;
use kvscope_protocol::{ListView, ModelColumn};
use kvscope_sizing::{
    Bytes, BytesPerToken, CatalogueEntry, Settings, StateModel, Tokens, UnitSystem, catalogue, group_digits,
    sort_short,
};
use serde_json::Value;

/// One version with the figures of the list; none where it cannot be sized.
#[derive(Debug)]
pub(super) struct Row {
    pub(super) entry: &'static CatalogueEntry,
    forms: String,
    fields: Vec<String>,
    slope: Option<BytesPerToken>,
    fixed: Option<Bytes>,
    /// At 100,000 and at a million tokens.
    resident: [Option<Bytes>; 2],
    longest: Option<Tokens>,
}

const CONTEXTS: [Tokens; 2] = [Tokens::new(100_000), Tokens::new(1_000_000)];

/// Every version of the catalogue.
pub(super) fn rows(settings: &Settings) -> Vec<Row> {
    catalogue().iter().map(|entry| row(entry, settings)).collect()
}

fn row(entry: &'static CatalogueEntry, settings: &Settings) -> Row {
    let mut row = Row {
        entry,
        forms: String::new(),
        fields: fields(entry),
        slope: None,
        fixed: None,
        resident: [None; 2],
        longest: None,
    };
    let Ok(architecture) = entry.architecture() else { return row };
    row.forms = architecture.mixer_names().join(" + ");
    row.longest = architecture.max_context().map(|fact| Tokens::new(fact.get()));
    if let Ok(state) = StateModel::new(&architecture, settings) {
        row.slope = state.slope(None).ok();
        row.fixed = state.fixed(None).ok();
        row.resident = CONTEXTS.map(|context| state.resident(context, 1).ok());
    }
    row
}

/// The mixers of a version, each once.
pub(crate) fn forms(entry: &CatalogueEntry) -> Vec<String> {
    entry.architecture().map_or_else(|_| Vec::new(), |architecture| architecture.mixer_names())
}

/// The fields of a version's config, those of the objects in it too.
pub(crate) fn fields(entry: &CatalogueEntry) -> Vec<String> {
    let mut names = Vec::new();
    let mut open: Vec<&Value> = vec![&entry.config];
    while let Some(value) = open.pop() {
        for (name, inner) in value.as_object().into_iter().flatten() {
            names.push(name.clone());
            open.push(inner);
        }
    }
    names
}

/// The versions that a filter leaves, in order. What has no figure stands last either way.
pub(super) fn sorted<'r>(all: &'r [Row], list: &ListView) -> Vec<&'r Row> {
    let filter = list.filter.to_ascii_lowercase();
    let mut shown: Vec<&Row> = all.iter().filter(|row| row.is_about(&filter)).collect();
    let column = list.column;
    sort_short(&mut shown, |a, b| match (a.key(column), b.key(column)) {
        (Some(a), Some(b)) if list.descends => a < b,
        (Some(a), Some(b)) => a > b,
        (a, b) => a.is_none() && b.is_some(),
    });
    shown
}

/// What the list says: how many, and the ends of the slope.
pub(super) fn about(shown: &[&Row], all: usize) -> String {
    let sloped = || shown.iter().filter_map(|row| Some((row.entry, row.slope?)));
    let by_slope = |a: &(_, BytesPerToken), b: &(_, BytesPerToken)| a.1.as_f64().total_cmp(&b.1.as_f64());
    let of = if shown.len() == all { String::new() } else { format!(" of {all}") };
    let counted = format!("{}{of} versions", shown.len());
    match (sloped().min_by(by_slope), sloped().max_by(by_slope)) {
        (Some((least, low)), Some((most, high))) if least.id != most.id => {
            format!("{counted}: a token adds {low} in {} and {high} in {}.", least.name, most.name)
                .replace(" B/token in", " B in")
        }
        _ => format!("{counted}."),
    }
}

/// The list with all digits.
pub(super) fn table(shown: &[&Row]) -> Table {
    let head = [
        "version",
        "form",
        "slope (B/token)",
        "fixed (bytes)",
        "at 100,000 tokens (bytes)",
        "at 1,000,000 tokens (bytes)",
        "config allows (tokens)",
        "released",
    ];
    let bytes = |bytes: Option<Bytes>| bytes.map_or_else(String::new, |bytes| group_digits(bytes.get()));
    let row = |row: &&Row| {
        let slope = row.slope.map_or_else(String::new, BytesPerToken::exact);
        vec![
            row.entry.name.clone(),
            row.forms.clone(),
            slope.trim_end_matches(" B/token").to_owned(),
            bytes(row.fixed),
            bytes(row.resident[0]),
            bytes(row.resident[1]),
            row.longest.map_or_else(String::new, |longest| group_digits(longest.get())),
            row.entry.released.clone().unwrap_or_default(),
        ]
    };
    Table { head: head.map(str::to_owned).to_vec(), rows: shown.iter().map(row).collect() }
}

impl Row {
    fn is_about(&self, filter: &str) -> bool {
        let entry = self.entry;
        let names = [&entry.id, &entry.name, &entry.family, &entry.vendor, &self.forms];
        filter.split_whitespace().all(|word| {
            names.iter().any(|name| name.to_ascii_lowercase().contains(word))
                || self.fields.iter().any(|field| field == word)
        })
    }

    /// What a column sorts by: text in its order, figures as numbers.
    fn key(&self, column: ModelColumn) -> Option<(f64, String)> {
        let text = |text: &str| Some((0.0, text.to_ascii_lowercase()));
        let number = |number: Option<f64>| Some((number?, String::new()));
        let bytes = |bytes: Option<Bytes>| number(bytes.map(|bytes| bytes.get() as f64));
        match column {
            ModelColumn::Name => text(&self.entry.name),
            ModelColumn::Form => text(&self.forms),
            ModelColumn::Slope => number(self.slope.map(BytesPerToken::as_f64)),
            ModelColumn::Fixed => bytes(self.fixed),
            ModelColumn::At100K => bytes(self.resident[0]),
            ModelColumn::At1M => bytes(self.resident[1]),
            ModelColumn::Longest => number(self.longest.map(|longest| longest.get() as f64)),
            ModelColumn::Released => text(self.entry.released.as_deref()?),
        }
    }

    /// Every cell after the name: as shown, and with all digits.
    pub(super) fn cells(&self, units: UnitSystem) -> [(String, String); 7] {
        let none = || ("–".to_owned(), String::new());
        let bytes = |bytes: Option<Bytes>| {
            bytes.map_or_else(none, |bytes| match bytes {
                Bytes::ZERO => ("0 B".to_owned(), "0".to_owned()),
                bytes => (bytes.display(units), bytes.get().to_string()),
            })
        };
        [
            (self.forms.clone(), String::new()),
            self.slope.map_or_else(none, |slope| (slope.to_string(), slope.as_f64().to_string())),
            bytes(self.fixed),
            bytes(self.resident[0]),
            bytes(self.resident[1]),
            self.longest.map_or_else(none, |longest| (longest.short(), longest.get().to_string())),
            (self.entry.released.clone().unwrap_or_else(|| "–".to_owned()), String::new()),
        ]
    }
}
