use smol_str::format_smolstr;

use crate::derivation::{Derivation, Input};
use crate::fact::Fact;
use crate::format::StateFormat;
use crate::growth::Growth;
use crate::settings::{Chosen, Formats};
use crate::state::{ComponentKind, Lifecycle, Reads, StateComponent};
use crate::{Bytes, Result};

/// A mixer whose state has a fixed size: a recurrent state, a short convolution's last inputs, or both.
///
/// Shapes: vLLM 0.33 `mamba_utils` and SGLang 0.5.23 `mamba_utils`, unsharded.
#[derive(Clone, Debug, Hash, PartialEq)]
pub struct Recurrent {
    /// Which recurrence, with its state's shape.
    pub recurrence: Recurrence,
    /// The convolution before it, if there is one.
    pub conv: Option<Conv>,
}

/// The recurrence and the values of its state.
#[derive(Clone, Debug, Hash, PartialEq)]
pub enum Recurrence {
    /// `v_heads × v_dim × k_dim` values (Gated DeltaNet, arXiv 2412.06464).
    GatedDeltaNet {
        /// Value heads.
        v_heads: Fact,
        /// Values of one value vector.
        v_dim: Fact,
        /// Values of one key.
        k_dim: Fact,
    },
    /// `heads × dim × dim` values (Kimi Delta Attention).
    Kda {
        /// Heads.
        heads: Fact,
        /// Values of one head.
        dim: Fact,
    },
    /// `d_inner × d_state` values.
    Mamba1 {
        /// Channels.
        d_inner: Fact,
        /// State of one channel.
        d_state: Fact,
    },
    /// `heads × head_dim × d_state` values.
    Mamba2 {
        /// Heads.
        heads: Fact,
        /// Channels of one head.
        head_dim: Fact,
        /// State of one channel.
        d_state: Fact,
        /// Groups of heads that share B and C.
        groups: Fact,
    },
    /// `heads × dim × dim` values (lightning attention).
    Lightning {
        /// Heads.
        heads: Fact,
        /// Values of one head.
        dim: Fact,
    },
    /// No recurrent state: a short convolution alone.
    ShortConv,
}

/// A short causal convolution: it keeps the last `kernel − 1` inputs of every channel.
#[derive(Clone, Debug, Hash, PartialEq)]
pub struct Conv {
    /// Taps of the kernel.
    pub kernel: Fact,
    /// Channels.
    pub channels: Fact,
}

impl Recurrent {
    /// The mixer's name.
    pub fn name(&self) -> &'static str {
        match self.recurrence {
            Recurrence::GatedDeltaNet { .. } => "gated DeltaNet",
            Recurrence::Kda { .. } => "KDA",
            Recurrence::Mamba1 { .. } => "Mamba-1",
            Recurrence::Mamba2 { .. } => "Mamba-2",
            Recurrence::Lightning { .. } => "lightning",
            Recurrence::ShortConv => "short convolution",
        }
    }

    /// Recurrent state and convolution state.
    pub fn components(&self, formats: &Formats) -> Result<Vec<StateComponent>> {
        let mut kept = Vec::with_capacity(2);
        if let Some((formula, factors)) = self.recurrence.shape() {
            kept.push(constant(ComponentKind::RecurrentState, formula, &factors, &formats.recurrent())?);
        }
        if let Some(conv) = &self.conv {
            kept.push(conv.component(formats)?);
        }
        Ok(kept)
    }
}

impl Recurrence {
    fn shape(&self) -> Option<(&'static str, Vec<Input>)> {
        match self {
            Self::GatedDeltaNet { v_heads, v_dim, k_dim } => Some((
                "v_heads × v_dim × k_dim × value_bytes",
                vec![Input::of("v_heads", v_heads), Input::of("v_dim", v_dim), Input::of("k_dim", k_dim)],
            )),
            Self::Kda { heads, dim } | Self::Lightning { heads, dim } => Some((
                "heads × dim × dim × value_bytes",
                vec![Input::of("heads", heads), Input::of("dim", dim), Input::of("dim", dim)],
            )),
            Self::Mamba1 { d_inner, d_state } => Some((
                "d_inner × d_state × value_bytes",
                vec![Input::of("d_inner", d_inner), Input::of("d_state", d_state)],
            )),
            Self::Mamba2 { heads, head_dim, d_state, .. } => Some((
                "heads × head_dim × d_state × value_bytes",
                vec![
                    Input::of("heads", heads),
                    Input::of("head_dim", head_dim),
                    Input::of("d_state", d_state),
                ],
            )),
            Self::ShortConv => None,
        }
    }
}

impl Conv {
    fn component(&self, formats: &Formats) -> Result<StateComponent> {
        let columns = Fact::derived(
            self.kernel.get().saturating_sub(1),
            format_smolstr!("{} − 1", self.kernel.source()),
        );
        let factors = [Input::of("columns", &columns), Input::of("channels", &self.channels)];
        constant(ComponentKind::ConvState, "columns × channels × value_bytes", &factors, &formats.conv())
    }
}

fn constant(
    kind: ComponentKind,
    formula: &'static str,
    factors: &[Input],
    chosen: &Chosen<StateFormat>,
) -> Result<StateComponent> {
    let mut bytes = Bytes::new(chosen.format.bytes_per_value());
    for factor in factors {
        bytes = bytes.times(factor.value)?;
    }
    let mut inputs = factors.to_vec();
    inputs.dedup();
    inputs.push(Input::new("value_bytes", chosen.format.bytes_per_value(), chosen.source.clone()));
    Ok(StateComponent {
        kind,
        growth: Growth::Constant { bytes },
        lifecycle: Lifecycle::Request,
        format: chosen.format.name(),
        reads: Reads::Everything,
        derivation: Derivation::new(formula, inputs, bytes),
    })
}
