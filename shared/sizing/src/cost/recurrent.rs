//! Operations of recurrences: a fixed number for every value of the state.

use super::span::Met;
use super::{Operand, Part, Work, product};
use crate::Result;
use crate::format::StateFormat;
use crate::mixer::{Recurrence, Recurrent};
use crate::settings::Formats;

impl Recurrent {
    /// The recurrence and the convolution before it.
    pub(super) fn work(&self, formats: &Formats) -> Result<Vec<Work>> {
        let mut all = Vec::with_capacity(2);
        if let Some(values) = self.recurrence.values() {
            let flops = product(&[self.recurrence.operations_a_value(), product(&values)?])?;
            all.push(each_token(Part::Recurrence, operand(formats.recurrent().format), flops));
        }
        if let Some(conv) = &self.conv {
            // One multiply-add for every tap and channel.
            let flops = product(&[2, conv.kernel.get(), conv.channels.get()])?;
            all.push(each_token(Part::Convolution, operand(formats.conv().format), flops));
        }
        Ok(all)
    }
}

fn each_token(part: Part, operand: Operand, flops: u64) -> Work {
    Work { part, operand, rows: 1, flops_per_entry: flops, met: Met::Each(1) }
}

impl Recurrence {
    /// Operations for one value of the state S:
    ///
    /// | recurrence | decay | read by the key | update | read by the query | sum |
    /// | --- | --- | --- | --- | --- | --- |
    /// | gated DeltaNet (arXiv 2412.06464), KDA | 1 | 2 | 2 | 2 | 7 |
    /// | Mamba-1 (arXiv 2312.00752): ΔA for every value, its exponential counted apart | 2 | – | 2 | 2 | 6 |
    /// | Mamba-2 (arXiv 2405.21060), lightning | 1 | – | 2 | 2 | 5 |
    fn operations_a_value(&self) -> u64 {
        match self {
            Self::GatedDeltaNet { .. } | Self::Kda { .. } => 7,
            Self::Mamba1 { .. } => 6,
            Self::Mamba2 { .. } | Self::Lightning { .. } => 5,
            Self::ShortConv => 0,
        }
    }

    /// One for each value where every value decays by itself; a decay for each head or channel of a key is none to speak of.
    pub(super) fn exponentials(&self) -> Result<u64> {
        match self {
            Self::Mamba1 { d_inner, d_state } => product(&[d_inner.get(), d_state.get()]),
            _ => Ok(0),
        }
    }

    fn values(&self) -> Option<Vec<u64>> {
        Some(match self {
            Self::GatedDeltaNet { v_heads, v_dim, k_dim } => vec![v_heads.get(), v_dim.get(), k_dim.get()],
            Self::Kda { heads, dim } | Self::Lightning { heads, dim } => {
                vec![heads.get(), dim.get(), dim.get()]
            }
            Self::Mamba1 { d_inner, d_state } => vec![d_inner.get(), d_state.get()],
            Self::Mamba2 { heads, head_dim, d_state, .. } => {
                vec![heads.get(), head_dim.get(), d_state.get()]
            }
            Self::ShortConv => return None,
        })
    }
}

fn operand(format: StateFormat) -> Operand {
    match format {
        StateFormat::F32 => Operand::F32,
        StateFormat::Bf16 | StateFormat::F16 => Operand::Bf16,
    }
}
