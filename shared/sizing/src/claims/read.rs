//! From the files of `assets/claims/` to claims: read by hand, since the same derived code would weigh more on the page
//! than all claims together. A key that no rule knows is an error, as everywhere.

use serde_json::{Map, Value};

use super::published::{Published, Rounding};
use super::recipe::{LayersOf, Recipe, StateFigure, StateOf, Unit};
use super::{Claim, Expected, Origin, Publication};
use crate::record::read_json;
use crate::settings::Settings;
use crate::state::ComponentKind;
use crate::{Error, Result};

impl Publication {
    /// Reads one file: `{"publication", "short", "url", "origin", "claims": […]}`.
    ///
    /// # Errors
    ///
    /// The first key that is missing, unknown or of a wrong kind.
    pub fn read(id: &str, text: &str) -> Result<Self> {
        let value = read_json(text)?;
        let file = fields(&value, "", &["publication", "short", "url", "origin", "claims"])?;
        let (name, url) = (text_of(file, "publication")?, optional_text(file, "url")?);
        let origin = match optional_text(file, "origin")? {
            None => Origin::default(),
            Some(word) => named(&word, &[Origin::Published, Origin::ByHand], Origin::name, "origin")?,
        };
        let mut claims = list(file, "claims")?
            .iter()
            .map(|claim| Claim::read(claim, &name))
            .collect::<Result<Vec<_>>>()?;
        for claim in &mut claims {
            id.clone_into(&mut claim.publication);
            claim.origin = origin;
        }
        Ok(Self { id: id.to_owned(), short: text_of(file, "short")?, name, url, origin, claims })
    }
}

impl Claim {
    /// Reads one claim of a publication.
    ///
    /// # Errors
    ///
    /// As [`Publication::read`].
    pub fn read(value: &Value, publication: &str) -> Result<Self> {
        let known = [
            "id",
            "place",
            "cites",
            "statement",
            "published",
            "rounding",
            "within_percent",
            "unit",
            "recipe",
            "assumption",
            "expected",
        ];
        let claim = fields(value, "claims", &known)?;
        let cites = match claim.get("cites") {
            None => None,
            Some(cited) => {
                let cited = fields(cited, "cites", &["name", "url"])?;
                Some((text_of(cited, "name")?, text_of(cited, "url")?))
            }
        };
        let mut source = publication.to_owned();
        for (separator, more) in
            [(", ", optional_text(claim, "place")?), ("; ", cites.as_ref().map(|(name, _)| name.clone()))]
        {
            if let Some(more) = more {
                source.push_str(separator);
                source.push_str(&more);
            }
        }
        Ok(Self {
            id: text_of(claim, "id")?,
            publication: String::new(),
            origin: Origin::default(),
            source,
            cites,
            statement: text_of(claim, "statement")?,
            published: published(claim, "published")?,
            rounding: match optional_text(claim, "rounding")?.as_deref() {
                None | Some("nearest") => Rounding::Nearest,
                Some("down") => Rounding::Down,
                Some("tens") => Rounding::Tens,
                Some("exact") => Rounding::Exact,
                Some(other) => return Err(unknown("rounding", other)),
            },
            within_percent: match claim.get("within_percent") {
                None => None,
                Some(_) => Some(published(claim, "within_percent")?),
            },
            unit: named(&text_of(claim, "unit")?, &Unit::ALL, Unit::name, "unit")?,
            recipe: recipe(get(claim, "recipe")?)?,
            assumption: optional_text(claim, "assumption")?,
            expected: expected(get(claim, "expected")?)?,
        })
    }
}

fn expected(value: &Value) -> Result<Expected> {
    let expected = fields(value, "expected", &["verdict", "computed", "why"])?;
    // Only a difference has a figure of its own and a reason.
    let alone = || fields(value, "expected", &["verdict"]);
    match text_of(expected, "verdict")?.as_str() {
        "reproduced" => alone().map(|_| Expected::Reproduced),
        "not_computed" => alone().map(|_| Expected::NotComputed),
        "differs" => Ok(Expected::Differs {
            computed: published(expected, "computed")?,
            why: text_of(expected, "why")?,
        }),
        other => Err(unknown("verdict", other)),
    }
}

/// `{"kind": content}`
fn recipe(value: &Value) -> Result<Recipe> {
    let Some((kind, content)) =
        value.as_object().filter(|one| one.len() == 1).and_then(|one| one.iter().next())
    else {
        return Err(Error::field("recipe", "expected an object with one key"));
    };
    let model = |known: &[&str]| -> Result<(&Map<String, Value>, String)> {
        let content = fields(content, kind, known)?;
        Ok((content, text_of(content, "model")?))
    };
    Ok(match kind.as_str() {
        "state" => Recipe::State(Box::new(state(content)?)),
        "layers" => {
            let (layers, model) = model(&["model", "mixer"])?;
            Recipe::Layers(LayersOf { model, mixer: optional_text(layers, "mixer")? })
        }
        "pattern" => {
            let (pattern, model) = model(&["model", "first", "then"])?;
            Recipe::Pattern { model, first: texts(pattern, "first")?, then: texts(pattern, "then")? }
        }
        "tokens_per_entry" => {
            let (entry, model) = model(&["model", "mixer"])?;
            Recipe::TokensPerEntry { model, mixer: text_of(entry, "mixer")? }
        }
        "max_context" => Recipe::MaxContext { model: model(&["model"])?.1 },
        "field" => {
            let (field, model) = model(&["model", "path"])?;
            Recipe::Field { model, path: text_of(field, "path")? }
        }
        "quoted" => {
            let quoted = fields(content, kind, &["figure", "of"])?;
            Recipe::Quoted { figure: published(quoted, "figure")?, of: text_of(quoted, "of")? }
        }
        "ratio" => {
            let ratio = fields(content, kind, &["of", "over"])?;
            let side = |key: &str| recipe(get(ratio, key)?).map(Box::new);
            Recipe::Ratio { of: side("of")?, over: side("over")? }
        }
        "spread" => {
            let parts = content.as_array().ok_or_else(|| Error::field("spread", "expected a list"))?;
            Recipe::Spread(parts.iter().map(recipe).collect::<Result<_>>()?)
        }
        "plan" => Recipe::Plan(object(content, kind)?.clone()),
        "needs" => Recipe::Needs(text(content, "needs")?.to_owned()),
        other => return Err(unknown("recipe", other)),
    })
}

fn state(value: &Value) -> Result<StateOf> {
    let known = ["model", "config", "with", "settings", "figure", "context", "kinds"];
    let state = fields(value, "state", &known)?;
    let mut settings = Settings::default();
    if let Some(given) = state.get("settings") {
        for (name, value) in object(given, "settings")? {
            settings.set(name, text(value, &format!("settings.{name}"))?)?;
        }
    }
    let kind = |name: &String| named(name, &ComponentKind::ALL, ComponentKind::name, "kinds");
    Ok(StateOf {
        model: optional_text(state, "model")?,
        config: state.get("config").cloned(),
        with: match state.get("with") {
            None => Map::new(),
            Some(with) => object(with, "with")?.clone(),
        },
        settings,
        figure: named(&text_of(state, "figure")?, &StateFigure::ALL, StateFigure::name, "figure")?,
        context: match state.get("context") {
            None => None,
            Some(context) => {
                Some(context.as_u64().ok_or_else(|| Error::field("context", "expected a whole number"))?)
            }
        },
        kinds: match state.get("kinds") {
            None => None,
            Some(_) => Some(texts(state, "kinds")?.iter().map(kind).collect::<Result<_>>()?),
        },
    })
}

/// An object that holds no other keys.
fn fields<'v>(value: &'v Value, place: &str, known: &[&str]) -> Result<&'v Map<String, Value>> {
    let object = object(value, place)?;
    match object.keys().find(|key| !known.contains(&key.as_str())) {
        Some(key) => Err(unknown(place, key)),
        None => Ok(object),
    }
}

fn object<'v>(value: &'v Value, place: &str) -> Result<&'v Map<String, Value>> {
    value.as_object().ok_or_else(|| Error::field(place, "expected an object"))
}

fn text<'v>(value: &'v Value, place: &str) -> Result<&'v str> {
    value.as_str().ok_or_else(|| Error::field(place, "expected a text"))
}

fn get<'v>(object: &'v Map<String, Value>, key: &str) -> Result<&'v Value> {
    object.get(key).ok_or_else(|| Error::field(key, "missing"))
}

fn text_of(object: &Map<String, Value>, key: &str) -> Result<String> {
    optional_text(object, key)?.ok_or_else(|| Error::field(key, "missing"))
}

fn optional_text(object: &Map<String, Value>, key: &str) -> Result<Option<String>> {
    match object.get(key) {
        None => Ok(None),
        Some(Value::String(text)) => Ok(Some(text.clone())),
        Some(_) => Err(Error::field(key, "expected a text")),
    }
}

fn list<'v>(object: &'v Map<String, Value>, key: &str) -> Result<&'v [Value]> {
    let list = object.get(key).and_then(Value::as_array);
    list.map(Vec::as_slice).ok_or_else(|| Error::field(key, "expected a list"))
}

fn texts(object: &Map<String, Value>, key: &str) -> Result<Vec<String>> {
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let texts: Option<Vec<String>> = list(object, key)?.iter().map(text).collect();
    texts.ok_or_else(|| Error::field(key, "expected texts"))
}

fn published(object: &Map<String, Value>, key: &str) -> Result<Published> {
    let text = text_of(object, key)?;
    let what = || Error::field(key, format!("{text:?} is not a figure such as \"2.4\""));
    Published::read(&text).ok_or_else(what)
}

fn named<T: Copy>(word: &str, all: &[T], name: fn(T) -> &'static str, place: &str) -> Result<T> {
    all.iter().copied().find(|one| name(*one) == word).ok_or_else(|| unknown(place, word))
}

fn unknown(place: &str, word: &str) -> Error {
    Error::field(place, format!("{word:?} is not known"))
}
