use std::fmt;

/// The result of everything in this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What went wrong, where, and what to do: always one line.
///
/// `Display` prints `where: what`. The caller puts the file's name in front, since this crate reads no files.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Error {
    kind: ErrorKind,
    /// Config path (`text_config.layer_types[7]`) or setting name (`context`).
    place: Option<String>,
    what: String,
}

/// The kinds of errors, for callers that react differently.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum ErrorKind {
    /// The text is not JSON, or not an object.
    Syntax,
    /// A field is missing, has a wrong type or value, or contradicts another.
    Field,
    /// A setting given by the user is unknown or out of range.
    Setting,
    /// A figure does not fit in 64 bits.
    Overflow,
    /// No catalogue entry has that id.
    UnknownModel,
}

impl Error {
    /// A config field that cannot be used. `path` is its JSON path.
    pub fn field(path: impl Into<String>, what: impl Into<String>) -> Self {
        Self { kind: ErrorKind::Field, place: Some(one_line(path.into())), what: one_line(what.into()) }
    }

    /// The same error seen from further out: its place lies below `outer`.
    pub(crate) fn below(mut self, outer: &str) -> Self {
        let place = match self.place.as_deref() {
            None | Some("") => outer.to_owned(),
            Some(inner) if inner.starts_with('[') => format!("{outer}{inner}"),
            Some(inner) => format!("{outer}.{inner}"),
        };
        self.place = Some(one_line(place));
        self
    }

    /// A setting that cannot be used.
    pub fn setting(name: impl Into<String>, what: impl Into<String>) -> Self {
        Self { kind: ErrorKind::Setting, place: Some(one_line(name.into())), what: one_line(what.into()) }
    }

    /// Text that is not a JSON object.
    pub fn syntax(what: impl Into<String>) -> Self {
        Self { kind: ErrorKind::Syntax, place: None, what: one_line(what.into()) }
    }

    /// A figure beyond 64 bits; `what` says which product.
    pub fn overflow(what: impl fmt::Display) -> Self {
        Self {
            kind: ErrorKind::Overflow,
            place: None,
            what: format!("{what} does not fit in 64 bits; use a smaller context or batch"),
        }
    }

    /// The same overflow with the setting that makes it as large, where no place is named yet.
    pub(crate) fn for_setting(mut self, name: &str) -> Self {
        if self.kind == ErrorKind::Overflow && self.place.is_none() {
            self.place = Some(name.to_owned());
        }
        self
    }

    /// In place of an overflow in what one layer keeps, which no smaller context helps: the config's fields that make it as wide.
    pub(crate) fn for_fields(self, fields: impl Into<String>) -> Self {
        if self.kind != ErrorKind::Overflow || self.place.is_some() {
            return self;
        }
        let what =
            "what a layer keeps does not fit in 64 bits; correct the config, since no layer is as wide";
        Self { place: Some(one_line(fields.into())), what: what.to_owned(), ..self }
    }

    /// A model id that the catalogue does not hold; `hint` names the nearest one.
    pub fn unknown_model(id: &str, hint: impl fmt::Display) -> Self {
        Self {
            kind: ErrorKind::UnknownModel,
            place: None,
            what: one_line(format!("{id:?} is not in the catalogue{hint}")),
        }
    }

    /// What is wrong, without the place.
    pub fn what(&self) -> &str {
        &self.what
    }

    /// The kind of this error.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// The config path or setting that it is about, if any.
    pub fn place(&self) -> Option<&str> {
        self.place.as_deref()
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.place {
            Some(place) if !place.is_empty() => write!(f, "{place}: {}", self.what),
            _ => f.write_str(&self.what),
        }
    }
}

impl std::error::Error for Error {}

/// The longest word of a message that is shown whole, in bytes.
const LONGEST_WORD: usize = 200;

/// A message whose long words, such as a value of several kilobytes, are cut in the middle.
pub fn cut_words(text: &str) -> String {
    let cut = |word: &str| {
        if word.len() <= LONGEST_WORD {
            return word.to_owned();
        }
        let head = word.floor_char_boundary(LONGEST_WORD / 2);
        let tail = word.ceil_char_boundary(word.len() - LONGEST_WORD / 4);
        format!("{}…{}", &word[..head], &word[tail..])
    };
    text.split(' ').map(cut).collect::<Vec<_>>().join(" ")
}

/// Names come from files and from people, where they may hold line breaks and worse, and be of any length.
pub(crate) fn one_line(mut text: String) -> String {
    if text.len() > LONGEST_WORD {
        text = cut_words(&text);
    }
    if !text.contains(char::is_control) {
        return text;
    }
    let mut shown = String::with_capacity(text.len() + 8);
    for character in text.chars() {
        if character.is_control() {
            shown.extend(character.escape_default());
        } else {
            shown.push(character);
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_values_are_cut_and_the_message_around_them_is_not() {
        let long = "é".repeat(5000);
        let line = Error::setting("kv_dtype", format!("unknown format {long:?}; known: bf16")).to_string();
        assert!(
            line.starts_with("kv_dtype: unknown format \"é") && line.ends_with("é\"; known: bf16"),
            "{line}"
        );
        assert!(line.len() < 300 && line.contains('…'), "{line}");
        assert!(Error::unknown_model(&long, "").to_string().len() < 300);
        let path = "a/".repeat(60);
        assert_eq!(cut_words(&path), path);
    }
}
