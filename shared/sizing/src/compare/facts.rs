//! The facts that differ between two versions, with the config fields that state them.

use serde::Serialize;

use super::cause::Cause;
use crate::architecture::{Architecture, LayerClass};
use crate::fact::Fact;
use crate::mixer::{Compression, Conv, Generation, Heads, IndexKeys, Latent, Mixer, Recurrence};

/// One fact that differs between two versions.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FactChange {
    /// The change that it belongs to.
    pub cause: Cause,
    /// Which mixer it shapes; `model` for the whole model.
    pub of: &'static str,
    /// Its name: `kv_heads`.
    pub fact: &'static str,
    /// What the first version says; null where it has no such thing.
    pub from: Option<Stated>,
    /// What the second version says; null where it has no such thing.
    pub to: Option<Stated>,
}

impl FactChange {
    /// The config field of each version, once where both name the same.
    pub fn field(&self) -> String {
        let mut sources: Vec<&str> =
            [&self.from, &self.to].into_iter().flatten().map(|stated| stated.source.as_str()).collect();
        sources.dedup();
        sources.join(" → ")
    }
}

/// The values of one fact in one version.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Stated {
    /// Every distinct value, in the order of the layers.
    pub values: Vec<Value>,
    /// The config field that states the first, or the rule that gives it.
    pub source: String,
}

/// A number, or a name for what has no number.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Value {
    /// A count, a width, a length.
    Number(u64),
    /// A format or a set of mixers.
    Name(String),
}

impl Stated {
    /// The values as words: `8`, `8, 4`.
    pub fn text(&self) -> String {
        let words = self.values.iter().map(|value| match value {
            Value::Number(count) => crate::group_digits(*count),
            Value::Name(name) => name.clone(),
        });
        words.collect::<Vec<_>>().join(", ")
    }
}

/// Every fact that differs, in the order of causes.
pub(super) fn changes(from: &Architecture, to: &Architecture) -> Vec<FactChange> {
    let (old, new) = (Facts::of(from), Facts::of(to));
    let mut changes: Vec<FactChange> = Vec::new();
    for row in old.rows.iter().chain(&new.rows) {
        if changes.iter().any(|known| row.is(known.of, known.fact)) {
            continue;
        }
        let stated = |facts: &Facts| {
            facts.rows.iter().find(|other| other.is(row.of, row.fact)).map(|row| row.stated.clone())
        };
        let (before, after) = (stated(&old), stated(&new));
        let values = |side: &Option<Stated>| side.as_ref().map(|stated| stated.values.clone());
        if values(&before) == values(&after) {
            continue;
        }
        // A shape that only one of the two has came or went with its mixer.
        let one_sided = before.is_none() || after.is_none();
        let moves = one_sided && !matches!(row.cause, Cause::IndexKeys | Cause::Format | Cause::Layers);
        let cause = if moves { Cause::Mixer } else { row.cause };
        changes.push(FactChange { cause, of: row.of, fact: row.fact, from: before, to: after });
    }
    changes.sort_by_key(|change| change.cause);
    changes
}

/// `45 gated DeltaNet + 15 GQA`; without the count where all layers are of one kind.
pub(super) fn mixers(architecture: &Architecture) -> String {
    let mut counts: Vec<(String, usize)> = Vec::new();
    for class in architecture.classes() {
        let name = class.name();
        match counts.iter_mut().find(|(known, _)| *known == name) {
            Some((_, count)) => *count += class.layers.len(),
            None => counts.push((name, class.layers.len())),
        }
    }
    match counts.as_slice() {
        [(only, _)] => only.clone(),
        several => {
            let words = several.iter().map(|(name, count)| format!("{count} {name}"));
            words.collect::<Vec<_>>().join(" + ")
        }
    }
}

fn layers_where(architecture: &Architecture, is: impl Fn(&LayerClass) -> bool) -> u64 {
    let chosen = architecture.classes().iter().filter(|class| is(class));
    chosen.map(|class| class.layers.len() as u64).sum()
}

/// Whether a layer uses the cache, or the compressed store, of an earlier one.
fn borrows(layer: &LayerClass) -> bool {
    let borrowed_store = |mixer: &Mixer| match mixer {
        Mixer::Compressed(attention) => {
            attention.compression.as_ref().is_some_and(|branch| !branch.own_store)
        }
        _ => false,
    };
    layer.borrows.is_some() || layer.mixers.iter().any(borrowed_store)
}

fn keeps_index_keys(layer: &LayerClass) -> bool {
    layer.mixers.iter().any(|mixer| match mixer {
        Mixer::IndexedFull(..) | Mixer::Dsa { index: Some(_), .. } => true,
        Mixer::Compressed(attention) => {
            attention.compression.as_ref().is_some_and(|branch| branch.index.is_some())
        }
        _ => false,
    })
}

/// The field that tells the mixer of layers that are all alike: the indexer's, else the first of its shape.
fn telling_field(architecture: &Architecture) -> Option<String> {
    let mixer = architecture.mixers().next()?;
    if let Some(keys) = mixer.index_keys() {
        return Some(keys.width.source().to_string());
    }
    let mut shape = Facts::default();
    shape.mixer(mixer);
    shape.rows.first().map(|row| row.stated.source.clone())
}

#[derive(Debug)]
struct Row {
    cause: Cause,
    of: &'static str,
    fact: &'static str,
    stated: Stated,
}

impl Row {
    fn is(&self, of: &str, fact: &str) -> bool {
        self.of == of && self.fact == fact
    }
}

#[derive(Debug, Default)]
struct Facts {
    rows: Vec<Row>,
}

impl Facts {
    fn of(architecture: &Architecture) -> Self {
        let mut facts = Self::default();
        let (listed, counts) = (architecture.layers_field(), architecture.count_field());
        let layers = Value::Number(architecture.layer_count() as u64);
        facts.add(Cause::Layers, "model", "layers", layers, counts);
        // Where no list says what each layer is, its widths do.
        let of_widths = if listed == counts { telling_field(architecture) } else { None };
        let kinds = of_widths.as_deref().unwrap_or(listed);
        facts.add(Cause::Mixer, "model", "mixers", Value::Name(mixers(architecture)), kinds);
        let borrowed = layers_where(architecture, borrows);
        let why = architecture.classes().iter().find_map(|class| class.borrows.as_deref()).unwrap_or(listed);
        facts.add(Cause::Sharing, "cache", "layers_that_use_another", Value::Number(borrowed), why);
        let indexed = layers_where(architecture, keeps_index_keys);
        if indexed > 0 {
            let layers = Value::Number(indexed);
            let mut keys = architecture.mixers().filter_map(Mixer::index_keys);
            let width = keys.next().map_or(String::new(), |keys| format!(", {}", keys.width.source()));
            let source = format!("{listed}{width}");
            facts.add(Cause::IndexKeys, "indexer", "layers_with_index_keys", layers, &source);
        }
        for class in architecture.classes() {
            for mixer in &class.mixers {
                facts.mixer(mixer);
            }
        }
        let dtype = Value::Name(architecture.dtype().name().to_owned());
        facts.add(Cause::Format, "model", "dtype", dtype, "the model's dtype");
        if let Some(state) = architecture.recurrent_dtype() {
            let state = Value::Name(state.name().to_owned());
            facts.add(Cause::Format, "model", "recurrent_dtype", state, "what the config asks for state");
        }
        facts
    }

    fn add(&mut self, cause: Cause, of: &'static str, fact: &'static str, value: Value, source: &str) {
        match self.rows.iter_mut().find(|row| row.is(of, fact)) {
            Some(row) if row.stated.values.contains(&value) => {}
            Some(row) => row.stated.values.push(value),
            None => {
                let stated = Stated { values: vec![value], source: source.to_owned() };
                self.rows.push(Row { cause, of, fact, stated });
            }
        }
    }

    fn number(&mut self, cause: Cause, of: &'static str, name: &'static str, fact: &Fact) {
        self.add(cause, of, name, Value::Number(fact.get()), &fact.source().to_string());
    }

    fn mixer(&mut self, mixer: &Mixer) {
        match mixer {
            Mixer::Full(heads) => self.heads("full attention", heads),
            Mixer::IndexedFull(heads, index) => {
                self.heads("full attention", heads);
                self.index(index);
            }
            Mixer::Sliding { heads, window } => {
                self.heads("sliding attention", heads);
                self.number(Cause::Window, "sliding attention", "window", window);
            }
            Mixer::Chunked { heads, chunk } => {
                self.heads("chunked attention", heads);
                self.number(Cause::Window, "chunked attention", "chunk", chunk);
            }
            Mixer::Cross { heads, encoder_tokens } => {
                self.heads("cross-attention", heads);
                if let Some(tokens) = encoder_tokens {
                    self.number(Cause::Window, "cross-attention", "encoder_tokens", tokens);
                }
            }
            Mixer::Mla(latent) => self.latent(latent),
            Mixer::Dsa { latent, index, .. } => {
                self.latent(latent);
                if let Some(index) = index {
                    self.index(index);
                }
            }
            Mixer::Compressed(attention) => {
                self.number(Cause::Widths, "compressed attention", "width", &attention.width);
                self.number(Cause::Widths, "compressed attention", "rope", &attention.rope);
                self.number(Cause::Window, "compressed attention", "window", &attention.window);
                let records = match attention.generation {
                    Generation::V4 => "DeepSeek-V4 records",
                    Generation::V41 => "DeepSeek-V4.1 records",
                };
                let layout = Value::Name(records.to_owned());
                self.add(Cause::Format, "compressed attention", "layout", layout, "the model's generation");
                if let Some(branch) = &attention.compression {
                    self.branch(branch);
                }
            }
            Mixer::Recurrent(recurrent) => {
                self.recurrence(recurrent.name(), &recurrent.recurrence);
                if let Some(Conv { kernel, channels }) = &recurrent.conv {
                    self.number(Cause::Widths, recurrent.name(), "conv_kernel", kernel);
                    self.number(Cause::Widths, recurrent.name(), "conv_channels", channels);
                }
            }
            Mixer::None => {}
        }
    }

    fn heads(&mut self, of: &'static str, heads: &Heads) {
        self.number(Cause::Heads, of, "kv_heads", &heads.kv_heads);
        self.number(Cause::Widths, of, "k_width", &heads.k_width);
        self.number(Cause::Widths, of, "v_width", &heads.v_width);
    }

    fn latent(&mut self, latent: &Latent) {
        self.number(Cause::Widths, "latent", "kv_lora_rank", &latent.rank);
        self.number(Cause::Widths, "latent", "qk_rope_head_dim", &latent.rope);
    }

    fn index(&mut self, index: &IndexKeys) {
        self.number(Cause::IndexKeys, "indexer", "index_width", &index.width);
        self.number(Cause::IndexKeys, "indexer", "index_pool", &index.pool);
        if let Some(top_k) = &index.top_k {
            self.number(Cause::IndexKeys, "indexer", "top_k", top_k);
        }
    }

    fn branch(&mut self, branch: &Compression) {
        let of = if branch.top_k.is_some() { "chosen entries" } else { "dense entries" };
        self.number(Cause::Compression, of, "ratio", &branch.ratio);
        if let Some(index) = &branch.index {
            self.index(index);
        }
    }

    fn recurrence(&mut self, of: &'static str, recurrence: &Recurrence) {
        let rows: Vec<(Cause, &'static str, &Fact)> = match recurrence {
            Recurrence::GatedDeltaNet { v_heads, v_dim, k_dim } => vec![
                (Cause::Heads, "v_heads", v_heads),
                (Cause::Widths, "v_dim", v_dim),
                (Cause::Widths, "k_dim", k_dim),
            ],
            Recurrence::Kda { heads, dim } | Recurrence::Lightning { heads, dim } => {
                vec![(Cause::Heads, "heads", heads), (Cause::Widths, "dim", dim)]
            }
            Recurrence::Mamba1 { d_inner, d_state } => {
                vec![(Cause::Widths, "d_inner", d_inner), (Cause::Widths, "d_state", d_state)]
            }
            Recurrence::Mamba2 { heads, head_dim, d_state, .. } => vec![
                (Cause::Heads, "heads", heads),
                (Cause::Widths, "head_dim", head_dim),
                (Cause::Widths, "d_state", d_state),
            ],
            Recurrence::ShortConv => Vec::new(),
        };
        for (cause, name, fact) in rows {
            self.number(cause, of, name, fact);
        }
    }
}
