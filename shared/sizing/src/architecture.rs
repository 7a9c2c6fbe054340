//! What a config says, layer by layer, free of any engine.

mod hints;

use std::ops::Range;
use std::sync::Arc;

use serde_json::Value;

pub(crate) use hints::EngineHints;

use crate::config::{self, RopeScaling, StatedLengths, StatedWeights};
use crate::cost::CheckpointWeights;
use crate::distinct::Places;
use crate::fact::Fact;
use crate::format::{KvFormat, StateFormat};
use crate::mixer::Mixer;
use crate::settings::{Chosen, Formats, Settings};
use crate::warning::Warning;

/// The layers of one model version, equal ones grouped.
#[derive(Clone, Debug)]
pub struct Architecture {
    name: Option<String>,
    classes: Vec<LayerClass>,
    layers: Vec<usize>,
    layers_field: String,
    count_field: String,
    dtype: Chosen<StateFormat>,
    recurrent_dtype: Option<Chosen<StateFormat>>,
    checkpoint_kv: Option<CheckpointKv>,
    checkpoint_weights: StatedWeights,
    published_weights: Option<CheckpointWeights>,
    max_context: Option<Fact>,
    model_type: Option<String>,
    architectures: Vec<String>,
    plain_heads: PlainHeads,
    hints: EngineHints,
    experts: Option<Fact>,
    encoder_layers: Option<Fact>,
    mamba_chunk: Option<Fact>,
    loops: Option<Loops>,
    rope_scaling: Option<RopeScaling>,
    lengths: StatedLengths,
    launched_dtype: Option<StateFormat>,
    warnings: Vec<Warning>,
}

/// Layers that run several times with the same weights.
///
/// Every pass after the first is a layer of its own behind the model's last, as engines number their caches.
#[derive(Clone, Debug, PartialEq)]
pub struct Loops {
    /// Times that they run, the first included.
    pub passes: Fact,
    /// The layers that run again, by index from 0.
    pub range: Range<usize>,
    /// Layers that have weights of their own.
    pub own_layers: usize,
}

/// Head fields as a formula that knows neither latents nor layer kinds reads them.
#[derive(Clone, Debug, Default)]
pub struct PlainHeads {
    /// Width of the residual stream.
    pub hidden: Option<Fact>,
    /// `num_attention_heads`
    pub query_heads: Option<Fact>,
    /// `num_key_value_heads`
    pub kv_heads: Option<Fact>,
}

/// Layers that do the same and keep the same.
#[derive(Clone, Debug, PartialEq)]
pub struct LayerClass {
    /// What the layer does; several where it does several things side by side.
    pub mixers: Vec<Mixer>,
    /// Why it keeps nothing of its own, where it uses an earlier layer's cache.
    pub borrows: Option<String>,
    /// Its layers, by index from 0, in order.
    pub layers: Vec<usize>,
}

/// One layer before grouping.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct LayerDraft {
    /// Shared by the layers that do the same.
    pub(crate) mixers: Arc<[Mixer]>,
    pub(crate) borrows: Option<String>,
}

/// The K/V format that a quantised checkpoint asks for. An engine may follow it where no setting says otherwise.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CheckpointKv {
    pub(crate) format: KvFormat,
    pub(crate) exporter: Exporter,
    /// Whether its scales are told to be static, or to have no other kind.
    pub(crate) is_static: bool,
    /// Whether it stands in the text model's part of the config.
    pub(crate) is_of_text: bool,
}

/// Who wrote a quantisation config.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Exporter {
    /// It asks for all layers.
    Modelopt,
    /// It asks for layers with K/V heads.
    CompressedTensors,
    /// A checkpoint of FP8 weights by the method `fp8`, whose K/V field SGLang alone reads (0.5.23,
    /// `layers/quantization/fp8.py`).
    PlainFp8,
}

/// What belongs to the whole model.
#[derive(Clone, Debug)]
pub(crate) struct ModelFacts {
    /// What the file calls the model: words to show, which choose nothing.
    pub(crate) name: Option<String>,
    /// The field that says what each layer is, or counts layers that are all alike.
    pub(crate) layers_field: String,
    /// The field that counts layers; that of their kinds where no other does.
    pub(crate) count_field: String,
    pub(crate) dtype: Chosen<StateFormat>,
    pub(crate) recurrent_dtype: Option<Chosen<StateFormat>>,
    pub(crate) checkpoint_kv: Option<CheckpointKv>,
    pub(crate) checkpoint_weights: StatedWeights,
    pub(crate) max_context: Option<Fact>,
    pub(crate) lengths: StatedLengths,
    pub(crate) model_type: Option<String>,
    pub(crate) architectures: Vec<String>,
    pub(crate) plain_heads: PlainHeads,
    pub(crate) hints: EngineHints,
    pub(crate) experts: Option<Fact>,
    pub(crate) encoder_layers: Option<Fact>,
    pub(crate) mamba_chunk: Option<Fact>,
    pub(crate) loops: Option<Loops>,
    pub(crate) rope_scaling: Option<RopeScaling>,
}

impl Loops {
    /// The layer whose weights layer `index` runs with; itself where it has its own.
    pub fn weights_of(&self, index: usize) -> usize {
        match index.checked_sub(self.own_layers) {
            Some(later) if !self.range.is_empty() => self.range.start + later % self.range.len(),
            _ => index,
        }
    }

    /// Adds the later passes to the layers that have weights, each layer as `again` changes it.
    pub(crate) fn repeat(&self, drafts: &mut Vec<LayerDraft>, again: impl Fn(&LayerDraft) -> LayerDraft) {
        let pass: Vec<LayerDraft> = drafts[self.range.clone()].iter().map(again).collect();
        for _ in 1..self.passes.get() {
            drafts.extend_from_slice(&pass);
        }
    }

    /// What a figure's reader has to know of them: `kept` is what the later passes keep.
    pub(crate) fn words(&self, kept: &str) -> String {
        let (passes, first, last) = (self.passes.get(), self.range.start, self.range.end.saturating_sub(1));
        let later = self.own_layers + self.range.len() * usize::try_from(passes - 1).unwrap_or(usize::MAX);
        format!(
            "layers {first} to {last} run {passes} times with the same weights; layers {} to {} are the later passes: {kept}",
            self.own_layers,
            later.saturating_sub(1)
        )
    }
}

impl Architecture {
    pub(crate) fn new(drafts: Vec<LayerDraft>, facts: ModelFacts, warnings: Vec<Warning>) -> Self {
        let mut classes = Classes::default();
        let mut layers = Vec::with_capacity(drafts.len());
        for (index, draft) in drafts.into_iter().enumerate() {
            let class = classes.of(draft);
            classes.list[class].layers.push(index);
            layers.push(class);
        }
        Self {
            name: facts.name,
            classes: classes.list,
            layers,
            layers_field: facts.layers_field,
            count_field: facts.count_field,
            dtype: facts.dtype,
            recurrent_dtype: facts.recurrent_dtype,
            checkpoint_kv: facts.checkpoint_kv,
            checkpoint_weights: facts.checkpoint_weights,
            published_weights: None,
            max_context: facts.max_context,
            model_type: facts.model_type,
            architectures: facts.architectures,
            plain_heads: facts.plain_heads,
            hints: facts.hints,
            experts: facts.experts,
            encoder_layers: facts.encoder_layers,
            mamba_chunk: facts.mamba_chunk,
            loops: facts.loops,
            rope_scaling: facts.rope_scaling,
            lengths: facts.lengths,
            launched_dtype: None,
            warnings,
        }
    }

    /// Other layers, with everything else of this architecture: `kinds` of layers, and the kind of each layer as an index
    /// into them. Equal kinds become one class.
    pub(crate) fn with_layers(&self, kinds: &[LayerDraft], layers: &[usize]) -> Self {
        let mut other = Self {
            classes: Vec::new(),
            layers: Vec::with_capacity(layers.len()),
            loops: None,
            ..self.clone()
        };
        let mut classes = Classes::default();
        let mut class_of_kind: Vec<Option<usize>> = vec![None; kinds.len()];
        for (index, kind) in layers.iter().enumerate() {
            let class = *class_of_kind[*kind].get_or_insert_with(|| classes.of(kinds[*kind].clone()));
            classes.list[class].layers.push(index);
            other.layers.push(class);
        }
        other.classes = classes.list;
        other
    }

    /// The distinct kinds of layers, in order of first appearance.
    pub fn classes(&self) -> &[LayerClass] {
        &self.classes
    }

    /// The mixers of every kind of layer, in the same order.
    pub fn mixers(&self) -> impl Iterator<Item = &Mixer> {
        self.classes.iter().flat_map(|class| &class.mixers)
    }

    /// The number of layers that the config counts, draft layers left out; each later pass of a loop counts again.
    pub fn layer_count(&self) -> usize {
        self.layers.len()
    }

    /// Layers that run several times, where there are any.
    pub fn loops(&self) -> Option<&Loops> {
        self.loops.as_ref()
    }

    /// The number of layers that have weights of their own.
    pub fn own_layers(&self) -> usize {
        self.loops.as_ref().map_or(self.layers.len(), |loops| loops.own_layers)
    }

    /// The layer whose weights layer `index` runs with.
    pub fn weights_of(&self, index: usize) -> usize {
        self.loops.as_ref().map_or(index, |loops| loops.weights_of(index))
    }

    /// The class of every layer, as an index into [`Architecture::classes`].
    pub fn layers(&self) -> impl ExactSizeIterator<Item = &LayerClass> {
        self.layers.iter().map(|class| &self.classes[*class])
    }

    /// The index into [`Architecture::classes`] of layer `index`.
    pub fn class_of(&self, index: usize) -> Option<usize> {
        self.layers.get(index).copied()
    }

    /// What the file calls the model, where it has words for that.
    pub fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    /// The mixers' names, each once, in the order of the layers; layers that keep nothing have none.
    pub fn mixer_names(&self) -> Vec<String> {
        let mut names: Vec<String> = Vec::new();
        for class in self.classes.iter().filter(|class| !class.mixers.is_empty()) {
            let name = class.name();
            if !names.contains(&name) {
                names.push(name);
            }
        }
        names
    }

    /// The field that counts layers; that of their kinds where no other does.
    pub(crate) fn count_field(&self) -> &str {
        &self.count_field
    }

    /// The field that says what each layer is, or that counts layers which are all alike.
    pub fn layers_field(&self) -> &str {
        &self.layers_field
    }

    /// The longest context that the config allows.
    pub fn max_context(&self) -> Option<&Fact> {
        self.max_context.as_ref()
    }

    /// `model_type` of the text part.
    pub fn model_type(&self) -> Option<&str> {
        self.model_type.as_deref()
    }

    /// `architectures`: the classes that the checkpoint asks for, which may choose an engine's rule.
    pub fn architectures(&self) -> &[String] {
        &self.architectures
    }

    /// The plain head fields, for formulas that know nothing else.
    pub fn plain_heads(&self) -> &PlainHeads {
        &self.plain_heads
    }

    /// Fields that only some engines' rules look at.
    pub(crate) fn hints(&self) -> &EngineHints {
        &self.hints
    }

    /// Whether the config counts experts, by which engines tell a mixture of them.
    pub(crate) fn has_experts(&self) -> bool {
        self.experts.is_some()
    }

    /// Layers of the encoder beside a decoder with cross-attention, where the config counts them. They keep nothing; some
    /// engines make caches of as many layers.
    pub(crate) fn encoder_layers(&self) -> Option<&Fact> {
        self.encoder_layers.as_ref()
    }

    /// Tokens that kernels of Mamba-2 take at a time, where the config says it.
    pub(crate) fn mamba_chunk(&self) -> Option<&Fact> {
        self.mamba_chunk.as_ref()
    }

    /// The dtype of weights and, where nothing else is said, of K/V.
    pub fn dtype(&self) -> StateFormat {
        self.dtype.format
    }

    /// The same with where it came from.
    pub(crate) fn chosen_dtype(&self) -> &Chosen<StateFormat> {
        &self.dtype
    }

    /// The dtype that a launch names for the model.
    pub(crate) fn launched_dtype(&self) -> Option<StateFormat> {
        self.launched_dtype
    }

    /// The same model in a launch that names its dtype, whatever the config says.
    pub(crate) fn launched_in(&self, dtype: StateFormat) -> Self {
        Self { launched_dtype: Some(dtype), ..self.clone() }
    }

    /// The longest lengths that the config states, by name; none of a GGUF.
    pub(crate) fn lengths(&self) -> &StatedLengths {
        &self.lengths
    }

    /// How the config scales its rotary positions, if it does.
    pub(crate) fn rope_scaling(&self) -> Option<&RopeScaling> {
        self.rope_scaling.as_ref()
    }

    /// The dtype that the config asks for recurrent state, if it does.
    pub fn recurrent_dtype(&self) -> Option<StateFormat> {
        self.recurrent_dtype.as_ref().map(|chosen| chosen.format)
    }

    /// The K/V format that a quantised checkpoint asks for, if it does.
    pub(crate) fn checkpoint_kv(&self) -> Option<CheckpointKv> {
        self.checkpoint_kv
    }

    /// The same layers with what is published of their checkpoint's weights.
    pub(crate) fn published_as(mut self, checkpoint: &Value) -> Self {
        self.published_weights = config::published_weights(checkpoint, self.dtype());
        self
    }

    /// How the config says that its weights are stored, in words that a rule knows.
    pub(crate) fn checkpoint_weights(&self) -> Option<CheckpointWeights> {
        self.checkpoint_weights.stored
    }

    /// How the config says that they are stored, in words that no rule knows.
    pub(crate) fn unread_weights(&self) -> Option<&str> {
        self.checkpoint_weights.unread.as_deref()
    }

    /// How the published checkpoint stores them, where the config here leaves that out.
    pub(crate) fn published_weights(&self) -> Option<CheckpointWeights> {
        self.published_weights
    }

    /// What was assumed while reading the config.
    pub fn warnings(&self) -> &[Warning] {
        &self.warnings
    }

    /// Whether a layer keeps entries that are K and V in one, which only `kv_dtype` is of.
    pub(crate) fn keeps_entries(&self) -> bool {
        let owners = self.classes.iter().filter(|class| class.borrows.is_none());
        owners.flat_map(|class| &class.mixers).any(|mixer| matches!(mixer, Mixer::Compressed(_)))
    }

    /// The formats under some settings.
    pub fn formats(&self, settings: &Settings) -> Formats {
        self.formats_run_in(settings, self.dtype.clone())
    }

    /// The same in an engine that runs the model in `dtype`.
    pub(crate) fn formats_run_in(&self, settings: &Settings, dtype: Chosen<StateFormat>) -> Formats {
        Formats::new(settings, dtype, self.recurrent_dtype.clone())
    }
}

/// Classes under construction.
#[derive(Default)]
struct Classes {
    list: Vec<LayerClass>,
    places: Places,
}

impl Classes {
    /// The index of the class that `draft` belongs to, a new one where it is unlike those before.
    fn of(&mut self, draft: LayerDraft) -> usize {
        let is_equal = |class: usize| {
            let class = &self.list[class];
            *class.mixers == *draft.mixers && class.borrows == draft.borrows
        };
        let parts = (&draft.mixers, &draft.borrows);
        if let Some(known) = self.places.find_or_add(parts, self.list.len(), is_equal) {
            return known;
        }
        self.list.push(LayerClass {
            mixers: draft.mixers.to_vec(),
            borrows: draft.borrows,
            layers: Vec::new(),
        });
        self.list.len() - 1
    }
}

impl LayerClass {
    /// The mixers' names joined by `+`, or `MLP` for a layer without one.
    pub fn name(&self) -> String {
        let names: Vec<&str> = self.mixers.iter().map(Mixer::name).collect();
        match names.as_slice() {
            [] => "none".to_owned(),
            [first, rest @ ..] if !rest.is_empty() && rest.iter().all(|name| name == first) => {
                format!("{} × {first}", names.len())
            }
            _ => names.join(" + "),
        }
    }
}
