//! Short convolutions beside attention, which keep their last inputs.

use super::Shapes;
use super::{product, sum};
use crate::config::fields::{Fields, HIDDEN, QUERY_HEADS};
use crate::fact::Fact;
use crate::mixer::{Conv, Heads, Mixer, Recurrence, Recurrent};
use crate::warning::Warning;
use crate::{Error, Result};

/// Whether the attention layers of a config that calls them hybrid have convolutions and no Mamba block.
pub(in crate::config) fn has_convolutions(fields: &Fields<'_>) -> bool {
    fields.has("cca_time0") || fields.model_type() == Some("zaya") || is_inkling(fields)
}

/// The first field is of the checkpoints; transformers' class writes `conv_kernel_size` in its place.
fn is_inkling(fields: &Fields<'_>) -> bool {
    fields.has("sconv_kernel_size") || fields.model_type().is_some_and(|class| class.starts_with("inkling"))
}

/// Taps of the convolutions over K, V and the residual stream; none where they are switched off.
pub(in crate::config) fn convolution_taps(fields: &Fields<'_>) -> Result<Option<Fact>> {
    if matches!(fields.flag("use_sconv")?, Some((_, false))) {
        return Ok(None);
    }
    fields.count_any(&["sconv_kernel_size", "conv_kernel_size"])
}

impl Shapes<'_, '_> {
    /// An attention layer with the convolutions that stand beside it.
    pub(super) fn with_convolutions(
        &self,
        attention: Mixer,
        warnings: &mut Vec<Warning>,
    ) -> Result<Vec<Mixer>> {
        let Some(heads) = attention.heads() else { return Ok(vec![attention]) };
        let mut convolutions = self.of_queries_and_keys(heads, warnings)?;
        convolutions.extend(self.of_keys_and_values(heads)?);
        convolutions.extend(self.of_the_residual(heads)?);
        let beside = convolutions
            .into_iter()
            .map(|conv| Mixer::Recurrent(Recurrent { recurrence: Recurrence::ShortConv, conv: Some(conv) }));
        Ok(std::iter::once(attention).chain(beside).collect())
    }

    /// ZAYA's CCA: two convolutions in a row over the packed queries and keys, and the previous hidden vector, of which half
    /// of V is made. transformers 5.24 keeps that half in its place, which is less.
    fn of_queries_and_keys(&self, heads: &Heads, warnings: &mut Vec<Warning>) -> Result<Vec<Conv>> {
        let (Some(first), Some(second)) = (self.fields.count("cca_time0")?, self.fields.count("cca_time1")?)
        else {
            return Ok(Vec::new());
        };
        let query = match &heads.query_heads {
            Some(query) => query.clone(),
            None => self.fields.require(&QUERY_HEADS, "CCA")?,
        };
        let taps = sum(&[first.get(), second.get()])?.saturating_sub(1);
        let packed = product(&[sum(&[query.get(), heads.kv_heads.get()])?, heads.k_width.get()])?;
        let rule = format!("({} + {}) × {}", query.source(), heads.kv_heads.source(), heads.k_width.source());
        let of_both = Conv {
            kernel: Fact::derived(taps, format!("{} + {} − 1", first.source(), second.source())),
            channels: Fact::derived(packed, rule),
        };
        let hidden = self.fields.require(&HIDDEN, "CCA")?;
        warnings.push(Warning::new(
            self.fields.path_of("cca_time0"),
            format!(
                "each layer is taken to keep the previous hidden vector of {} values; transformers 5.24 keeps in its place \
                 the half of V that is made of it ({} values)",
                hidden.get(),
                product(&[heads.kv_heads.get(), heads.v_width.get()])? / 2
            ),
        ));
        let previous =
            Conv { kernel: Fact::layout(2, "V of this token and the one before"), channels: hidden };
        Ok(vec![of_both, previous])
    }

    /// Baichuan-M1: K and V are mixed with those of the tokens before (`BaichuanAttention`, `conv_window`).
    fn of_keys_and_values(&self, heads: &Heads) -> Result<Option<Conv>> {
        let Some(kernel) = self.fields.count("conv_window")? else { return Ok(None) };
        Ok(Some(Conv { kernel, channels: keys_and_values(heads)? }))
    }

    /// Inkling: convolutions over K, V, the mixer's output and the MLP's (transformers 5.24, `models/inkling`).
    fn of_the_residual(&self, heads: &Heads) -> Result<Option<Conv>> {
        if !is_inkling(self.fields) {
            return Ok(None);
        }
        let Some(kernel) = convolution_taps(self.fields)? else { return Ok(None) };
        let hidden = self.fields.require(&HIDDEN, "a short convolution")?;
        let of_heads = keys_and_values(heads)?;
        let channels = sum(&[of_heads.get(), product(&[2, hidden.get()])?])?;
        let rule = format!("{} + 2 × {}", of_heads.source(), hidden.source());
        Ok(Some(Conv { kernel, channels: Fact::derived(channels, rule) }))
    }
}

fn keys_and_values(heads: &Heads) -> Result<Fact> {
    let widths = sum(&[heads.k_width.get(), heads.v_width.get()])?;
    let channels = product(&[heads.kv_heads.get(), widths])
        .map_err(|_| Error::overflow("channels of a convolution over K and V"))?;
    let rule =
        format!("{} × ({} + {})", heads.kv_heads.source(), heads.k_width.source(), heads.v_width.source());
    Ok(Fact::derived(channels, rule))
}
