//! In which types weights are stored and attention computes.

use std::str::FromStr;

use serde::Serialize;

use super::{Operand, Part};
use crate::architecture::Architecture;
use crate::{Bytes, Error, Result};

/// In which types a model computes what its state's formats do not say.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
pub struct Types {
    /// All weights but those of experts.
    pub weights: Operand,
    /// Weights of routed and shared experts.
    pub experts: Operand,
    /// How a quantised checkpoint stores them part by part, which counts in place of both.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub checkpoint: Option<CheckpointWeights>,
    /// Scores and weighted sums of attention, whatever their operands are stored in: kernels widen narrow records first.
    pub core: Operand,
}

/// A choice of types for weights in place of what the config says.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum WeightChoice {
    /// All of them in one.
    In(Operand),
    /// Those of the published checkpoint, part by part.
    Checkpoint,
}

impl WeightChoice {
    /// Every one.
    pub const ALL: [Self; 5] = [
        Self::In(Operand::F32),
        Self::In(Operand::Bf16),
        Self::In(Operand::Fp8),
        Self::In(Operand::Fp4),
        Self::Checkpoint,
    ];

    /// The word on the command line, in links and on screen.
    pub const fn name(self) -> &'static str {
        match self {
            Self::In(operand) => operand.name(),
            Self::Checkpoint => "checkpoint",
        }
    }
}

impl FromStr for WeightChoice {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        Self::ALL.into_iter().find(|one| one.name() == text).ok_or_else(|| {
            let known = Self::ALL.map(Self::name).join(", ");
            Error::setting("weight-dtype", format!("{text:?} is no type of weights; known: {known}"))
        })
    }
}

/// How a quantised checkpoint stores its weights.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
pub struct CheckpointWeights {
    /// Matrices before and behind mixers, and what mixers have of their own.
    pub projections: Stored,
    /// MLPs that every token passes, and the rest of the layers.
    pub others: Stored,
    /// Experts that are chosen.
    pub experts: Stored,
    /// Experts that every token passes.
    pub shared_experts: Stored,
    /// The table of token vectors and the head.
    pub around: Stored,
}

/// The type of weights, with what their scales take.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
pub struct Stored {
    /// Their type.
    pub operand: Operand,
    /// The type that is multiplied in: weights without activations as narrow are widened first.
    pub computed: Operand,
    /// Scales and zero points.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scale: Option<Scale>,
}

/// So many bytes of scales for so many values.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
pub struct Scale {
    /// Bytes of scales.
    pub bytes: u64,
    /// Values that share them.
    pub values: u64,
}

impl CheckpointWeights {
    /// The types in words: `fp8`; where they differ `bf16 projections, bf16 MLPs, fp4 experts`.
    pub fn words(&self) -> String {
        let parts = [("projections", self.projections), ("MLPs", self.others), ("experts", self.experts)];
        let first = self.projections.operand;
        if parts.iter().all(|(_, stored)| stored.operand == first) {
            return first.name().to_owned();
        }
        let words = parts.map(|(part, stored)| format!("{} {part}", stored.operand.name()));
        words.join(", ")
    }
}

impl Types {
    /// The checkpoint's types, or the model's own dtype, for weights; bf16 for attention.
    pub fn of(architecture: &Architecture) -> Self {
        let own = Operand::of(architecture.dtype());
        let of_dtype = Self { weights: own, experts: own, checkpoint: None, core: Operand::Bf16 };
        architecture.checkpoint_weights().map_or(of_dtype, |checkpoint| of_dtype.of_checkpoint(checkpoint))
    }

    /// Weights as a checkpoint stores them.
    #[must_use]
    pub fn of_checkpoint(self, stored: CheckpointWeights) -> Self {
        let (weights, experts) = (stored.projections.operand, stored.experts.operand);
        Self { weights, experts, checkpoint: Some(stored), ..self }
    }

    /// The same with weights as they are chosen.
    ///
    /// # Errors
    ///
    /// A checkpoint of which nothing is known.
    pub fn chosen(self, choice: WeightChoice, architecture: &Architecture) -> Result<Self> {
        match choice {
            WeightChoice::In(operand) => Ok(self.in_one(operand)),
            WeightChoice::Checkpoint => {
                let known = architecture.checkpoint_weights().or_else(|| architecture.published_weights());
                let unknown = "no quantised checkpoint of this model is known here; name a type";
                Ok(self.of_checkpoint(known.ok_or_else(|| Error::setting("weight-dtype", unknown))?))
            }
        }
    }

    /// All weights in one type, whatever the checkpoint has.
    #[must_use]
    pub fn in_one(self, weights: Operand) -> Self {
        Self { weights, experts: weights, checkpoint: None, ..self }
    }

    /// Experts in a type of their own, without scales.
    #[must_use]
    pub fn with_experts(self, experts: Operand) -> Self {
        let stored = Stored::plain(experts);
        let checkpoint = self.checkpoint.map(|types| CheckpointWeights {
            experts: stored,
            shared_experts: stored,
            ..types
        });
        Self { experts, checkpoint, ..self }
    }

    /// How the weights of a part are stored.
    pub(crate) fn of_part(self, part: Part) -> Stored {
        match (self.checkpoint, part) {
            (Some(types), Part::Experts) => types.experts,
            (Some(types), Part::SharedExperts) => types.shared_experts,
            (Some(types), Part::Embedding | Part::Head) => types.around,
            (Some(types), Part::Mlp | Part::Router | Part::Streams) => types.others,
            (Some(types), _) => types.projections,
            (None, Part::Experts | Part::SharedExperts) => Stored::plain(self.experts),
            (None, _) => Stored::plain(self.weights),
        }
    }
}

impl Stored {
    /// As it is computed with, without scales.
    fn plain(operand: Operand) -> Self {
        Self { operand, computed: operand, scale: None }
    }

    /// Bytes of `count` values with their scales.
    pub(crate) fn bytes(self, count: u64) -> Result<Bytes> {
        let scales = match self.scale {
            Some(scale) => {
                let bytes = u128::from(count) * u128::from(scale.bytes);
                let bytes = bytes.div_ceil(u128::from(scale.values.max(1)));
                u64::try_from(bytes).map_err(|_| Error::overflow("scales of weights"))?
            }
            None => 0,
        };
        self.operand.bytes(count)?.plus(Bytes::new(scales))
    }
}

impl Operand {
    /// The type of operands that weights of a dtype are.
    pub(crate) fn of(dtype: crate::StateFormat) -> Self {
        match dtype {
            crate::StateFormat::F32 => Self::F32,
            crate::StateFormat::Bf16 | crate::StateFormat::F16 => Self::Bf16,
        }
    }

    /// Bytes of `count` values, without scales.
    pub(crate) fn bytes(self, count: u64) -> Result<Bytes> {
        match self {
            Self::F32 => Bytes::new(count).times(4),
            Self::Bf16 => Bytes::new(count).times(2),
            Self::Fp8 => Ok(Bytes::new(count)),
            Self::Fp4 => Ok(Bytes::new(count.div_ceil(2))),
        }
    }
}
