//! The query of a link: `v=1&m=glm-4.5,glm-5.1&n=128Ki&kv=fp8`.
//!
//! Keys never change their meaning. A new one is added; a version is raised only when old links could not be read
//! any more, and then the old version keeps its reader.

mod escape;

use std::fmt;
use std::str::FromStr;

use kvscope_sizing::claims::{VerdictKind, claims, publications};
use kvscope_sizing::engine::Engine;
use kvscope_sizing::plan::{Given, PlanKind};
use kvscope_sizing::{ByteKind, Error, Settings, StateFormat, Tokens, UnitSystem};

use super::{AxisScale, EngineSetting, MOST_REQUESTS, ModelColumn, Moved, Room, ViewState};
use escape::{escaped, unescaped};

const ROOMS: [Room; 7] =
    [Room::Growth, Room::Versions, Room::Models, Room::Plans, Room::Claims, Room::Log, Room::Measure];

/// The version that links carry.
const VERSION: &str = "1";

/// Something in a link that could not be followed. The rest of the link still opens.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum LinkNotice {
    /// A key that this version does not know.
    UnknownKey(String),
    /// A value that its key cannot have; the default stands in.
    BadValue {
        /// The key.
        key: String,
        /// What the link says.
        value: String,
        /// What is wrong with it.
        why: String,
    },
    /// A key or a setting that stands more than once; the last value is used.
    Twice(String),
    /// The link was made by a newer version.
    NewerVersion(String),
}

impl fmt::Display for LinkNotice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownKey(key) => {
                write!(f, "The link says {key:?}, which this version does not know; the rest is shown.")
            }
            Self::BadValue { key, value, why } => {
                write!(f, "The link says {key} = {value:?}, which is not used: {why}.")
            }
            Self::Twice(key) => write!(f, "The link says {key:?} more than once; the last is used."),
            Self::NewerVersion(version) => {
                write!(
                    f,
                    "The link is of version {version}, this page reads version {VERSION}; what it knows is shown."
                )
            }
        }
    }
}

impl ViewState {
    /// The query without its `?`; empty where everything is as on a first visit.
    pub fn to_query(&self) -> String {
        let usual = Self::default();
        let mut query = Query::default();
        if self.room != usual.room {
            query.put("r", room_name(self.room));
        }
        if self.models != usual.models {
            let ids: Vec<String> = self.models.iter().map(|id| escaped(id)).collect();
            query.put("m", &ids.join(","));
        }
        if self.context != usual.context {
            query.put("n", &self.context.get().to_string());
        }
        if self.batch != usual.batch {
            query.put("b", &self.batch.to_string());
        }
        if let Some(format) = self.kv_format {
            query.put("kv", format.name());
        }
        if let Some(format) = self.index_format {
            query.put("ix", format.name());
        }
        if let Some(format) = self.state_format {
            query.put("st", format.name());
        }
        if self.engine != usual.engine {
            query.put("e", &engine_text(&self.engine));
        }
        // Values are escaped once more, so that those of any text hold no separator.
        let own: Vec<String> = EngineSetting::all()
            .filter_map(|setting| Some((setting.name(), setting.value(&self.engine_own)?)))
            .map(|(name, value)| {
                // Bytes are read without the space before their unit too.
                let value = if name.ends_with("_bytes") { value.replace(' ', "") } else { value };
                format!("{name}:{}", escaped(&escaped(&value)))
            })
            .collect();
        if !own.is_empty() {
            query.put("es", &own.join(","));
        }
        if let Some(memory) = self.memory {
            query.put("mem", &memory.as_given().replace(' ', ""));
        }
        if let Some(gpus) = self.gpus {
            query.put("gpu", &gpus.key());
        }
        if self.bytes != usual.bytes {
            query.put("of", self.bytes.name());
        }
        if self.units != usual.units {
            query.put("u", unit_name(self.units));
        }
        if self.scale != usual.scale {
            query.put("y", self.scale.name());
        }
        if let Some(id) = &self.selected {
            query.put("l", &escaped(id));
        }
        if let Some(run) = &self.run {
            query.put("run", &escaped(run));
        }
        if let Some(verdict) = self.claims.verdict {
            query.put("cv", verdict.name());
        }
        if let Some(id) = &self.claims.publication {
            query.put("cs", &escaped(id));
        }
        if let Some(id) = &self.claims.open {
            query.put("c", &escaped(id));
        }
        if let Some(id) = &self.versions.from {
            query.put("f", &escaped(id));
        }
        if let Some(id) = &self.versions.to {
            query.put("t", &escaped(id));
        }
        if self.versions.moved != usual.versions.moved {
            query.put("w", self.versions.moved.name());
        }
        if self.plans.plan != usual.plans.plan {
            query.put("p", self.plans.plan.name());
        }
        let given: Vec<String> = self
            .plans
            .given
            .pairs()
            .map(|(name, text)| format!("{name}:{}", escaped(&escaped(text))))
            .collect();
        if !given.is_empty() {
            query.put("ps", &given.join(","));
        }
        if self.list.column != usual.list.column || self.list.descends {
            let turned = if self.list.descends { "-" } else { "" };
            query.put("so", &format!("{turned}{}", self.list.column.name()));
        }
        if !self.list.filter.is_empty() {
            query.put("q", &escaped(&self.list.filter));
        }
        query.0
    }

    /// Reads a query, with or without its `?`. What is absent or unusable has its default.
    pub fn from_query(query: &str) -> (Self, Vec<LinkNotice>) {
        let mut state = Self::default();
        let mut notices = Vec::new();
        let mut seen = Vec::new();
        for pair in query.trim_start_matches('?').split('&').filter(|pair| !pair.is_empty()) {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            if seen.contains(&key) {
                notices.push(LinkNotice::Twice(unescaped(key)));
            }
            seen.push(key);
            if key == "es" {
                read_own(&mut state.engine_own, &unescaped(value), &mut notices);
            } else if key == "ps" {
                read_given(&mut state.plans.given, &unescaped(value), &mut notices);
            } else if let Err(notice) = state.read(key, value) {
                notices.push(notice);
            }
        }
        notices.extend(state.strays());
        (state, notices)
    }

    /// Names that lead nowhere. They stay in the view, where nothing has them.
    fn strays(&self) -> Vec<LinkNotice> {
        let stray = |key: &str, value: &Option<String>, is_known: &dyn Fn(&str) -> bool, why: &str| {
            let value = value.as_ref().filter(|value| !is_known(value))?;
            Some(LinkNotice::BadValue { key: key.to_owned(), value: value.clone(), why: why.to_owned() })
        };
        let is_drawn = |id: &str| self.models.iter().any(|model| model == id);
        let is_publication = |id: &str| publications().iter().any(|publication| publication.id == id);
        let is_claim = |id: &str| claims().any(|claim| claim.id == id);
        [
            stray("l", &self.selected, &is_drawn, "no model of that name is drawn"),
            stray("cs", &self.claims.publication, &is_publication, "no publication has that id"),
            stray("c", &self.claims.open, &is_claim, "no claim has that id"),
        ]
        .into_iter()
        .flatten()
        .collect()
    }

    fn read(&mut self, key: &str, value: &str) -> Result<(), LinkNotice> {
        let plain = unescaped(value);
        let bad = |why: String| LinkNotice::BadValue { key: key.to_owned(), value: plain.clone(), why };
        match key {
            "v" if plain != VERSION => return Err(LinkNotice::NewerVersion(plain)),
            "v" => {}
            "r" => self.room = one_of(&plain, &ROOMS, room_name).map_err(bad)?,
            "m" => self.models = value.split(',').filter(|id| !id.is_empty()).map(unescaped).collect(),
            "n" => self.context = plain.parse::<Tokens>().map_err(|error| bad(error.what().to_owned()))?,
            "b" => self.batch = batch(&plain).map_err(bad)?,
            "kv" => self.kv_format = Some(format(&plain).map_err(bad)?),
            "ix" => self.index_format = Some(format(&plain).map_err(bad)?),
            "st" => self.state_format = Some(format::<StateFormat>(&plain).map_err(bad)?),
            "e" => self.engine = plain.parse::<Engine>().map_err(|error| bad(error.what().to_owned()))?,
            "mem" => self.memory = Some(Self::memory(&plain).map_err(bad)?),
            "gpu" => self.gpus = Some(plain.parse().map_err(|error: Error| bad(error.what().to_owned()))?),
            "of" => self.bytes = one_of(&plain, &ByteKind::ALL, ByteKind::name).map_err(bad)?,
            "u" => {
                self.units =
                    one_of(&plain, &[UnitSystem::Decimal, UnitSystem::Binary], unit_name).map_err(bad)?;
            }
            "y" => self.scale = one_of(&plain, &AxisScale::ALL, AxisScale::name).map_err(bad)?,
            "l" => self.selected = some_name(plain),
            "run" => self.run = some_name(plain),
            "cv" => {
                let verdict = one_of(&plain, &VerdictKind::ALL, VerdictKind::name).map_err(bad)?;
                self.claims.verdict = Some(verdict);
            }
            "cs" => self.claims.publication = some_name(plain),
            "c" => self.claims.open = some_name(plain),
            "f" => {
                let to = self.versions.pair()[1].to_owned();
                self.versions.set_pair([&plain, &to]);
            }
            "t" => {
                let from = self.versions.pair()[0].to_owned();
                self.versions.set_pair([&from, &plain]);
            }
            "so" => {
                let (name, descends) =
                    plain.strip_prefix('-').map_or((plain.as_str(), false), |name| (name, true));
                self.list.column = one_of(name, &ModelColumn::ALL, ModelColumn::name).map_err(bad)?;
                self.list.descends = descends;
            }
            "q" => self.list.filter = plain,
            "w" => self.versions.moved = one_of(&plain, &Moved::ALL, Moved::name).map_err(bad)?,
            "p" => self.plans.plan = one_of(&plain, &PlanKind::ALL, PlanKind::name).map_err(bad)?,
            _ => return Err(LinkNotice::UnknownKey(unescaped(key))),
        }
        Ok(())
    }
}

/// A query under construction; the version comes first as soon as there is anything.
#[derive(Default)]
struct Query(String);

impl Query {
    fn put(&mut self, key: &str, escaped_value: &str) {
        if self.0.is_empty() {
            self.0.push_str("v=");
            self.0.push_str(VERSION);
        }
        for part in ["&", key, "=", escaped_value] {
            self.0.push_str(part);
        }
    }
}

fn room_name(room: Room) -> &'static str {
    match room {
        Room::Growth => "growth",
        Room::Versions => "versions",
        Room::Plans => "plans",
        Room::Models => "models",
        Room::Claims => "claims",
        Room::Log => "log",
        Room::Measure => "measure",
    }
}

fn unit_name(units: UnitSystem) -> &'static str {
    match units {
        UnitSystem::Decimal => "gb",
        UnitSystem::Binary => "gib",
    }
}

fn one_of<T: Copy>(value: &str, known: &[T], name: fn(T) -> &'static str) -> Result<T, String> {
    let names = || known.iter().map(|known| name(*known)).collect::<Vec<_>>().join(", ");
    known.iter().copied().find(|known| name(*known) == value).ok_or_else(|| format!("known are {}", names()))
}

fn format<T: FromStr<Err = kvscope_sizing::Error>>(value: &str) -> Result<T, String> {
    value.parse().map_err(|error: kvscope_sizing::Error| error.what().to_owned())
}

fn batch(value: &str) -> Result<u64, String> {
    match value.parse() {
        Ok(count) if (1..=MOST_REQUESTS).contains(&count) => Ok(count),
        _ => Err(format!("a batch is 1 to {MOST_REQUESTS} requests")),
    }
}

/// `vllm@0.33`, with the version escaped.
fn engine_text(engine: &Engine) -> String {
    let text = engine.to_string();
    match text.split_once('@') {
        Some((name, version)) => format!("{name}@{}", escaped(version)),
        None => text,
    }
}

/// Reads `tp:4,block_size:32`; what can be read is kept, and the rest is said pair by pair.
fn read_own(own: &mut Settings, text: &str, notices: &mut Vec<LinkNotice>) {
    read_pairs("es", text, notices, |name, value| {
        match EngineSetting::all().find(|setting| setting.name() == name) {
            None => Err("no engine has a setting of that name".to_owned()),
            Some(_) if value.is_empty() => Err("it has no value".to_owned()),
            Some(known) => known.set(own, &unescaped(value)),
        }
    });
}

/// Reads `gpu:h200,count:8` in the same way. What a plan makes of a value, its answer says.
fn read_given(given: &mut Given, text: &str, notices: &mut Vec<LinkNotice>) {
    read_pairs("ps", text, notices, |name, value| {
        let value = unescaped(value);
        if !PlanKind::has_field(name) {
            return Err("no plan has an option of that name".to_owned());
        }
        if value.trim().is_empty() {
            return Err("it has no value".to_owned());
        }
        given.set(name, &value);
        Ok(())
    });
}

fn read_pairs(
    key: &str,
    text: &str,
    notices: &mut Vec<LinkNotice>,
    mut read: impl FnMut(&str, &str) -> Result<(), String>,
) {
    let mut seen = Vec::new();
    for pair in text.split(',').filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once(':').unwrap_or((pair, ""));
        if let Err(why) = read(name, value) {
            notices.push(LinkNotice::BadValue { key: key.to_owned(), value: unescaped(pair), why });
        } else if seen.contains(&name) {
            notices.push(LinkNotice::Twice(format!("{key}={name}")));
        }
        seen.push(name);
    }
}

fn some_name(name: String) -> Option<String> {
    (!name.is_empty()).then_some(name)
}

#[cfg(test)]
mod tests;
