//! What lies in a GPU's memory: weights, activations, graphs, state, and what the engine leaves free.

use serde::Serialize;

use super::Subject;
use crate::cost::Types;
use crate::fact::Fact;
use crate::hardware::Gpu;
use crate::parameters::ParameterRow;
use crate::state::counted;
use crate::{Bytes, Error, Result, UnitSystem};

/// What fills a GPU's memory beside state.
#[derive(Clone, Debug)]
pub struct MemoryQuestion<'a> {
    /// The GPU.
    pub gpu: &'a Gpu,
    /// How many there are.
    pub count: u64,
    /// Its memory, where it is not the datasheet's.
    pub memory: Option<Bytes>,
    /// Bytes of all weights, where they are known; else they are counted by their types.
    pub weights: Option<Bytes>,
    /// Types of the weights.
    pub types: Types,
    /// GPUs that share one copy of the weights.
    pub weight_ranks: u64,
    /// Percent of the memory that the engine takes.
    pub share_percent: u64,
    /// Tokens of the largest batch of a prefill.
    pub batch_tokens: u64,
    /// Bytes of activations on each GPU, where they are known.
    pub activations: Option<Bytes>,
    /// Bytes of captured graphs and the like on each GPU.
    pub graphs: Bytes,
}

/// One GPU's memory, part by part.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Memory {
    /// All of it.
    pub memory_bytes: Bytes,
    /// What the engine does not take.
    pub left_free_bytes: Bytes,
    /// Its share of the weights.
    pub weight_bytes: Bytes,
    /// All weights.
    pub all_weight_bytes: Bytes,
    /// Where the weights come from: `counted`, `published` or `given`.
    pub weights_from: &'static str,
    /// The types that they are counted in, and what else is known of them; of given ones it says nothing.
    pub weights_in: String,
    /// Values of a prefill that are held at once.
    pub activation_bytes: Bytes,
    /// Whether that is an estimate.
    pub activations_from: &'static str,
    /// Captured graphs and the like.
    pub graph_bytes: Bytes,
    /// What is left for state; none where the rest does not fit.
    pub state_bytes: Option<Bytes>,
    /// Why nothing is left.
    pub does_not_fit: Option<String>,
}

impl MemoryQuestion<'_> {
    /// Fills one GPU's memory.
    ///
    /// # Errors
    ///
    /// No GPU, a share outside 1 to 100 percent, or weights of which neither config nor catalogue knows the number.
    pub fn fill(&self, subject: &Subject<'_>) -> Result<Memory> {
        if !(1..=100).contains(&self.share_percent) {
            let what = format!("{} is no share of a memory; give 1 to 100", self.share_percent);
            return Err(Error::setting("memory_percent", what));
        }
        if self.weight_ranks == 0 || self.count == 0 || !self.count.is_multiple_of(self.weight_ranks) {
            let what = format!("{} GPUs cannot each hold a part of 1/{}", self.count, self.weight_ranks);
            return Err(Error::setting("count", what));
        }
        let memory = self.memory.unwrap_or(self.gpu.memory_bytes);
        let usable = u128::from(memory.get()) * u128::from(self.share_percent) / 100;
        let usable = u64::try_from(usable).unwrap_or(u64::MAX);
        let (all, from) = self.all_weights(subject)?;
        let weights = Bytes::new(all.get().div_ceil(self.weight_ranks));
        let (activations, activations_from) = match self.activations {
            Some(given) => (given, "given"),
            None => (self.estimate(subject)?, "estimated"),
        };
        let taken = Bytes::total([weights, activations, self.graphs])?;
        let left = usable.checked_sub(taken.get()).filter(|left| *left > 0).map(Bytes::new);
        let why = || {
            let shown = |bytes: Bytes| bytes.display(UnitSystem::Decimal);
            let all_memory = memory.times(self.weight_ranks)?;
            let gpus = counted(self.weight_ranks, "GPU has", "GPUs have");
            if all > all_memory {
                return Ok(format!("weights alone need {}, {gpus} {}", shown(all), shown(all_memory)));
            }
            Ok::<_, Error>(format!(
                "weights, activations and graphs need {} of each GPU, the engine takes {} of {}",
                shown(taken),
                shown(Bytes::new(usable)),
                shown(memory)
            ))
        };
        Ok(Memory {
            memory_bytes: memory,
            left_free_bytes: Bytes::new(memory.get() - usable),
            weight_bytes: weights,
            all_weight_bytes: all,
            weights_from: from,
            weights_in: self.weights_in(subject),
            activation_bytes: activations,
            activations_from,
            graph_bytes: self.graphs,
            does_not_fit: if left.is_none() { Some(why()?) } else { None },
            state_bytes: left,
        })
    }

    fn weights_in(&self, subject: &Subject<'_>) -> String {
        let (architecture, types) = (subject.architecture, &self.types);
        if let Some(checkpoint) = &types.checkpoint {
            return format!("{} of the checkpoint", checkpoint.words());
        }
        let (weights, experts) = (types.weights.name(), types.experts.name());
        let own =
            if weights == experts { weights.to_owned() } else { format!("{weights}, {experts} experts") };
        let asked = Types { core: types.core, ..Types::of(architecture) } != *types;
        match (architecture.published_weights(), architecture.unread_weights()) {
            (Some(published), _) if !asked => {
                format!("{own}; the published checkpoint has {}", published.words())
            }
            (_, Some(method)) if !asked => format!("{own}; no rule reads the checkpoint's {method}"),
            _ => own,
        }
    }

    fn all_weights(&self, subject: &Subject<'_>) -> Result<(Bytes, &'static str)> {
        if let Some(given) = self.weights {
            return Ok((given, "given"));
        }
        let counted = subject.parameters();
        if let (Err(_), Some(published)) = (&counted, subject.entry.and_then(|entry| entry.params_total)) {
            return Ok((self.types.weights.bytes(published)?, "published"));
        }
        let why = |error| Error::setting("weights", format!("not given, and not counted: {error}"));
        let parameters = counted.map_err(why)?;
        let stored = |row: &ParameterRow| self.types.of_part(row.part).bytes(row.total);
        let rows = parameters.rows.iter().map(stored).collect::<Result<Vec<_>>>()?;
        Ok((Bytes::total(rows)?, "counted"))
    }

    /// Per token of the largest prefill: the residual stream and a normed copy of it, and the widest MLP's gate and up
    /// products divided over the ranks, all in two bytes.
    fn estimate(&self, subject: &Subject<'_>) -> Result<Bytes> {
        let Some(config) = subject.config else {
            return Err(Error::setting("activations", "not given, and a GGUF file does not say all widths"));
        };
        let shapes = match crate::config::read_weights(config, subject.architecture) {
            Ok(shapes) => shapes,
            Err(error) => {
                let hidden = subject.architecture.plain_heads().hidden.as_ref().map(Fact::get);
                let why = || Error::setting("activations", format!("not given, and not estimated: {error}"));
                return Bytes::new(2 * 8 * hidden.ok_or_else(why)?).times(self.batch_tokens);
            }
        };
        let inner = |mlp: &crate::parameters::Mlp| {
            let dense = mlp.dense.as_ref().map_or(0, Fact::get);
            let experts = mlp.experts.as_ref().map_or(0, |experts| {
                let shared = experts.shared_width.as_ref().map_or(0, Fact::get);
                experts.active.get().saturating_mul(experts.width.get()).saturating_add(shared)
            });
            dense.saturating_add(experts)
        };
        let widest = shapes.mlps.iter().flatten().map(inner).max().unwrap_or(0);
        let values = 2 * shapes.hidden.get() + 2 * widest.div_ceil(self.weight_ranks);
        Bytes::new(2 * values).times(self.batch_tokens)
    }
}
