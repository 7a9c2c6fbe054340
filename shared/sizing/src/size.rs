//! One size of one model version: bytes by component, slope, fixed part, and what a decode step reads.

use std::sync::Arc;

use serde::Serialize;
use serde::ser::SerializeStruct;

use crate::architecture::Architecture;
use crate::distinct::Places;
use crate::fact::Fact;
use crate::format::StateFormat;
use crate::growth::Growth;
use crate::mixer::{Mixer, Recurrence};
use crate::service::WindowPolicy;
use crate::settings::{Formats, Settings};
use crate::state::{ComponentKind, Lifecycle, Reads, StateComponent};
use crate::warning::Warning;
use crate::{Bytes, BytesPerToken, Error, Result, Tokens, sort_short};

/// The state of one architecture under some settings, ready to be sized at any context.
///
/// Work is per distinct component, not per layer: equal components of equal layers are one part with a layer count.
#[derive(Clone, Debug)]
pub struct StateModel {
    parts: Vec<Part>,
    /// Components of each layer class of the architecture, in its order.
    classes: Vec<Vec<Arc<StateComponent>>>,
    warnings: Vec<Warning>,
    max_context: Option<Fact>,
}

/// Equal components of several layers.
#[derive(Clone, Debug)]
pub struct Part {
    /// The component of one layer.
    pub component: Arc<StateComponent>,
    /// How many layers keep it.
    pub layers: u64,
    places: Vec<usize>,
    /// What layers that keep nothing of the kind read of it, and how many do.
    others: Vec<(StateComponent, u64)>,
}

impl Part {
    /// Bytes that one decode step of one request at `n` tokens reads of it, in the layers that keep it and in those that use an
    /// earlier layer's.
    ///
    /// # Errors
    ///
    /// A figure beyond 64 bits.
    pub fn read_bytes(&self, n: Tokens) -> Result<Bytes> {
        let own = self.component.read_bytes(n)?.times(self.layers)?;
        self.others
            .iter()
            .try_fold(own, |total, (read, layers)| total.plus(read.read_bytes(n)?.times(*layers)?))
    }

    /// What layers read of it that use an earlier layer's, and how many layers do.
    pub fn other_readers(&self) -> &[(StateComponent, u64)] {
        &self.others
    }

    /// The layers that keep it, by index from 0, rising.
    pub fn places(&self) -> &[usize] {
        &self.places
    }
}

/// Bytes of every component kind at one context, in the order of [`ComponentKind::ALL`].
pub type BytesByKind = [Bytes; ComponentKind::ALL.len()];

/// The logical figures of one model, context and batch: the JSON of `kvscope size`.
#[derive(Clone, Debug)]
pub struct Size {
    /// Catalogue id or path.
    pub model: String,
    /// Tokens of each request; absent where only slope and fixed part were asked.
    pub context: Option<Tokens>,
    /// Requests.
    pub batch: u64,
    /// The settings that were given.
    pub settings: Settings,
    /// Bytes held for the whole batch.
    pub resident_bytes: Option<Bytes>,
    /// Bytes of one request that one more token adds.
    pub slope_bytes_per_token: BytesPerToken,
    /// Bytes of one request that do not grow at this context.
    pub fixed_bytes: Bytes,
    /// Bytes of state that one decode step of the whole batch reads.
    pub read_bytes_per_step: Option<Bytes>,
    /// Bytes that a disk prefix store keeps of the whole batch; see [`crate::WindowPolicy`].
    pub persisted_bytes: Option<Bytes>,
    /// Bytes that a prefill worker sends to a decode worker for the whole batch.
    pub transfer_bytes: Option<Bytes>,
    /// Operations of one decode step of the whole batch; none where the widths of weights are not known.
    pub decode_flops: Option<u64>,
    /// Operations of computing all prompts of the batch.
    pub prefill_flops: Option<u64>,
    /// The same by component.
    pub components: Vec<ComponentSize>,
    /// Assumptions and doubts.
    pub warnings: Vec<Warning>,
}

/// One row of a [`Size`]: equal components of several layers.
#[derive(Clone, Debug, Serialize)]
pub struct ComponentSize {
    /// What is kept.
    pub kind: ComponentKind,
    /// `linear window chunk compressed constant`
    pub growth: &'static str,
    /// `token window request transient`
    pub lifecycle: Lifecycle,
    /// The format's name.
    pub format: &'static str,
    /// Layers that keep it.
    pub layers: u64,
    /// Bytes for the whole batch.
    pub bytes: Option<Bytes>,
    /// Bytes of one request that one more token adds.
    pub slope_bytes_per_token: BytesPerToken,
    /// Bytes of one request that do not grow at this context.
    pub fixed_bytes: Bytes,
    /// Bytes that one decode step of the whole batch reads.
    pub read_bytes_per_step: Option<Bytes>,
    /// Bytes that a disk prefix store keeps of the whole batch.
    pub persisted_bytes: Option<Bytes>,
    /// Bytes that a prefill worker sends to a decode worker for the whole batch.
    pub transfer_bytes: Option<Bytes>,
}

impl StateModel {
    /// The state of `architecture` in the formats that `settings` choose.
    ///
    /// # Errors
    ///
    /// A format that does not fit the shape, or a figure beyond 64 bits.
    pub fn new(architecture: &Architecture, settings: &Settings) -> Result<Self> {
        let formats = architecture.formats(settings);
        let mut parts: Vec<Part> = Vec::new();
        let mut places = Places::default();
        let mut classes = Vec::with_capacity(architecture.classes().len());
        for class in architecture.classes() {
            let mut kept = Vec::new();
            if class.borrows.is_none() {
                for mixer in &class.mixers {
                    kept.extend(mixer.components(&formats)?.into_iter().map(Arc::new));
                }
            }
            for component in &kept {
                let layers = class.layers.len() as u64;
                let is_equal = |part: usize| bytes_of(&parts[part].component) == bytes_of(component);
                match places.find_or_add(bytes_of(component), parts.len(), is_equal) {
                    Some(part) => {
                        parts[part].layers += layers;
                        parts[part].places.extend(&class.layers);
                    }
                    None => parts.push(Part {
                        component: Arc::clone(component),
                        layers,
                        places: class.layers.clone(),
                        others: Vec::new(),
                    }),
                }
            }
            classes.push(kept);
        }
        sort_short(&mut parts, |a, b| a.component.kind > b.component.kind);
        for part in &mut parts {
            part.places.sort_unstable();
            part.places.dedup();
        }
        for (read, layers) in borrowed(architecture, &formats)? {
            let of_kind = |part: &Part| part.component.kind == read.kind;
            let is_same = |part: &Part| of_kind(part) && part.component.growth == read.growth;
            let place = parts.iter().position(is_same).or_else(|| parts.iter().position(of_kind));
            if let Some(place) = place {
                parts[place].others.push((read, layers));
            }
        }
        let mut warnings = architecture.warnings().to_vec();
        warnings.extend(settings.without_effect(architecture));
        let max_context = architecture.max_context().cloned();
        let mut state = Self { parts, classes, warnings, max_context };
        let narrow_state = state.of_model_dtype(architecture, settings)?;
        state.warnings.extend(narrow_state);
        Ok(state)
    }

    /// Says by how much recurrent state is more in the engines, where the config names no dtype for it. SGLang keeps f32
    /// whatever the model's dtype (`configs/mamba_utils.py`), vLLM for KDA and Nemotron-H (`mamba_utils.py`,
    /// `config/cache.py`).
    fn of_model_dtype(&self, architecture: &Architecture, settings: &Settings) -> Result<Option<Warning>> {
        let is_named = settings.state_dtype.is_some() || architecture.recurrent_dtype().is_some();
        let has_state = self.parts.iter().any(|part| part.component.kind == ComponentKind::RecurrentState);
        if is_named || !has_state || architecture.dtype() == StateFormat::F32 {
            return Ok(None);
        }
        let own = self.fixed(None)?;
        let narrow = architecture.dtype().bytes_per_value();
        let kept = self.parts.iter().try_fold(own, |kept, part| match part.component.growth {
            Growth::Constant { bytes } if part.component.kind == ComponentKind::RecurrentState => {
                let values = bytes.get() / narrow.max(1);
                kept.plus(
                    Bytes::new(values)
                        .times(StateFormat::F32.bytes_per_value() - narrow)?
                        .times(part.layers)?,
                )
            }
            _ => Ok(kept),
        })?;
        let mut mixers = architecture.mixers();
        let has_kda = mixers.any(|mixer| {
            matches!(mixer, Mixer::Recurrent(recurrent) if matches!(recurrent.recurrence, Recurrence::Kda { .. }))
        });
        let engines = if has_kda || architecture.model_type() == Some("nemotron_h") {
            "vLLM and SGLang keep"
        } else {
            "SGLang keeps"
        };
        let message = format!(
            "the config names none; logical bytes count recurrent state in {}, the model's dtype. {engines} f32, which \
             makes the fixed part {kept} in place of {own}",
            architecture.dtype().name()
        );
        Ok(Some(Warning::new("state_dtype", message)))
    }

    /// What was assumed while reading the config, and formats that change nothing.
    pub fn warnings(&self) -> &[Warning] {
        &self.warnings
    }

    /// The distinct components with their layer counts, by kind.
    pub fn parts(&self) -> &[Part] {
        &self.parts
    }

    /// The components of one layer of class `class`.
    pub fn class_components(&self, class: usize) -> &[Arc<StateComponent>] {
        &self.classes[class]
    }

    /// Bytes held for `batch` requests of `n` tokens.
    pub fn resident(&self, n: Tokens, batch: u64) -> Result<Bytes> {
        let mut total = Bytes::ZERO;
        for part in &self.parts {
            total = total.plus(part.component.bytes(n)?.times(part.layers)?)?;
        }
        total.times(batch)
    }

    /// Bytes held for one request of `n` tokens, by component kind.
    pub fn by_kind(&self, n: Tokens) -> Result<BytesByKind> {
        let mut kinds = [Bytes::ZERO; ComponentKind::ALL.len()];
        for part in &self.parts {
            let slot = &mut kinds[part.component.kind as usize];
            *slot = slot.plus(part.component.bytes(n)?.times(part.layers)?)?;
        }
        Ok(kinds)
    }

    /// Bytes of state that one decode step of `batch` requests at `n` tokens reads.
    pub fn read_per_step(&self, n: Tokens, batch: u64) -> Result<Bytes> {
        let mut total = Bytes::ZERO;
        for part in &self.parts {
            total = total.plus(part.read_bytes(n)?)?;
        }
        total.times(batch)
    }

    /// Bytes of one request that one more token adds at `n`; `None` asks beyond every window.
    pub fn slope(&self, n: Option<Tokens>) -> Result<BytesPerToken> {
        self.parts.iter().try_fold(BytesPerToken::ZERO, |total, part| {
            total.plus(part.component.growth.slope(n)?.times(part.layers)?)
        })
    }

    /// Bytes of one request that do not grow at `n`; `None` asks beyond every window.
    pub fn fixed(&self, n: Option<Tokens>) -> Result<Bytes> {
        self.parts.iter().try_fold(Bytes::ZERO, |total, part| {
            total.plus(part.component.growth.fixed(n)?.times(part.layers)?)
        })
    }

    /// Contexts at which a window or chunk fills, ascending and distinct.
    pub fn kinks(&self) -> Vec<Tokens> {
        let mut kinks: Vec<Tokens> = self
            .parts
            .iter()
            .filter_map(|part| match part.component.growth {
                Growth::Window { window, .. } => Some(window),
                Growth::Chunk { chunk, .. } => Some(chunk),
                _ => None,
            })
            .collect();
        kinks.sort_unstable();
        kinks.dedup();
        kinks
    }

    /// The figures of one context and batch. `model` is only a label.
    ///
    /// # Errors
    ///
    /// A batch of zero, or a figure beyond 64 bits.
    pub fn size(
        &self,
        model: &str,
        context: Option<Tokens>,
        batch: u64,
        settings: &Settings,
    ) -> Result<Size> {
        if batch == 0 {
            return Err(Error::setting("batch", "0 requests hold nothing; give at least 1"));
        }
        let windows = WindowPolicy::default();
        let mut components = Vec::with_capacity(self.parts.len());
        for part in &self.parts {
            let kept = &part.component;
            let in_batch = |bytes: Bytes| bytes.times(batch).map_err(|error| error.for_setting("batch"));
            let of_batch = |bytes: Bytes| {
                in_batch(bytes.times(part.layers).map_err(|error| error.for_setting("context"))?)
            };
            components.push(ComponentSize {
                kind: kept.kind,
                growth: kept.growth.name(),
                lifecycle: kept.lifecycle,
                format: kept.format,
                layers: part.layers,
                bytes: context.map(|n| of_batch(kept.bytes(n)?)).transpose()?,
                slope_bytes_per_token: kept.growth.slope(context)?.times(part.layers)?,
                fixed_bytes: kept.growth.fixed(context)?.times(part.layers)?,
                read_bytes_per_step: context.map(|n| in_batch(part.read_bytes(n)?)).transpose()?,
                persisted_bytes: context.map(|n| of_batch(kept.persisted_bytes(n, windows)?)).transpose()?,
                transfer_bytes: context.map(|n| of_batch(kept.transfer_bytes(n)?)).transpose()?,
            });
        }
        let mut warnings = self.warnings.clone();
        warnings.extend(context.and_then(|n| beyond(n, self.max_context.as_ref()?)));
        Ok(Size {
            model: model.to_owned(),
            context,
            batch,
            settings: settings.clone(),
            resident_bytes: context.map(|_| sum(&components, |part| part.bytes)).transpose()?,
            slope_bytes_per_token: components
                .iter()
                .try_fold(BytesPerToken::ZERO, |total, part| total.plus(part.slope_bytes_per_token))?,
            fixed_bytes: Bytes::total(components.iter().map(|part| part.fixed_bytes))?,
            read_bytes_per_step: context
                .map(|_| sum(&components, |part| part.read_bytes_per_step))
                .transpose()?,
            persisted_bytes: context.map(|_| sum(&components, |part| part.persisted_bytes)).transpose()?,
            transfer_bytes: context.map(|_| sum(&components, |part| part.transfer_bytes)).transpose()?,
            decode_flops: None,
            prefill_flops: None,
            components,
            warnings,
        })
    }
}

/// The sum of one figure over components that were sized at a context.
fn sum(parts: &[ComponentSize], figure: impl Fn(&ComponentSize) -> Option<Bytes>) -> Result<Bytes> {
    parts.iter().filter_map(figure).try_fold(Bytes::ZERO, Bytes::plus)
}

/// What two components of different layers have in common where they can be counted as one part.
fn bytes_of(component: &StateComponent) -> (ComponentKind, Growth, &'static str, Reads) {
    (component.kind, component.growth, component.format, component.reads)
}

/// What layers read that earlier layers keep, with how many layers do: whole caches, and stores and index keys.
fn borrowed(architecture: &Architecture, formats: &Formats) -> Result<Vec<(StateComponent, u64)>> {
    let mut all = Vec::new();
    for class in architecture.classes() {
        let layers = class.layers.len() as u64;
        for mixer in &class.mixers {
            let whole = if class.borrows.is_some() { mixer.components(formats)? } else { Vec::new() };
            all.extend(whole.into_iter().chain(mixer.borrowed(formats)?).map(|read| (read, layers)));
        }
    }
    Ok(all)
}

/// The field names of the command line contract. What is not computed yet is null, never 0.
impl Serialize for Size {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        let mut json = serializer.serialize_struct("Size", 16)?;
        json.serialize_field("model", &self.model)?;
        json.serialize_field("context", &self.context)?;
        json.serialize_field("batch", &self.batch)?;
        json.serialize_field("engine", "logical")?;
        json.serialize_field("settings", &self.settings)?;
        json.serialize_field("resident_bytes", &self.resident_bytes)?;
        json.serialize_field("slope_bytes_per_token", &self.slope_bytes_per_token)?;
        let ratio = [self.slope_bytes_per_token.numerator(), self.slope_bytes_per_token.denominator()];
        json.serialize_field("slope_ratio", &ratio)?;
        json.serialize_field("fixed_bytes", &self.fixed_bytes)?;
        json.serialize_field("read_bytes_per_step", &self.read_bytes_per_step)?;
        json.serialize_field("persisted_bytes", &self.persisted_bytes)?;
        json.serialize_field("transfer_bytes", &self.transfer_bytes)?;
        json.serialize_field("decode_flops", &self.decode_flops)?;
        json.serialize_field("prefill_flops", &self.prefill_flops)?;
        json.serialize_field("components", &self.components)?;
        json.serialize_field("warnings", &self.warnings)?;
        json.end()
    }
}

/// What is to be said of a context beyond the longest one, under the name of the field that says which that is.
pub(crate) fn beyond(n: Tokens, limit: &Fact) -> Option<Warning> {
    let longest = Some(Tokens::new(limit.get())).filter(|longest| n > *longest)?;
    let message = format!("{n} tokens is beyond the {} that the config allows", longest.short());
    Some(Warning::new(limit.source().place(), message))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{catalogue, find_entry};

    #[test]
    fn parts_know_their_layers() {
        // Qwen3.5-397B-A17B: full attention in every fourth of 60 layers, from the fourth on.
        let architecture = find_entry("qwen3.5-397b-a17b").unwrap().architecture().unwrap();
        let state = StateModel::new(&architecture, &Settings::default()).unwrap();
        let kv = state.parts().iter().find(|part| part.component.kind == ComponentKind::Kv).unwrap();
        assert_eq!(kv.places(), (3..60).step_by(4).collect::<Vec<_>>());
    }

    #[test]
    fn every_part_of_the_catalogue_has_as_many_places_as_layers() {
        for entry in catalogue() {
            let state = StateModel::new(&entry.architecture().unwrap(), &Settings::default()).unwrap();
            for part in state.parts() {
                assert_eq!(
                    part.places().len() as u64,
                    part.layers,
                    "{}: {:?}",
                    entry.id,
                    part.component.kind
                );
            }
        }
    }
}
