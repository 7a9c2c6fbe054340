//! Shapes of layers with a recurrent state: gated DeltaNet, KDA, lightning attention, Mamba, short convolutions.

use super::{HeadSet, Shapes, product, sum, uneven};
use crate::config::class_defaults;
use crate::config::fields::{
    HIDDEN, QUERY_HEADS, SSM_EXPANSIONS, SSM_GROUPS, SSM_HEAD_WIDTHS, SSM_HEADS, SSM_KERNELS, SSM_STATES,
    SSM_WIDTHS,
};
use crate::fact::Fact;
use crate::mixer::{Conv, Recurrence, Recurrent};
use crate::warning::Warning;
use crate::{Error, Result};

impl Shapes<'_, '_> {
    /// Gated DeltaNet or KDA, by the fields that give its shape.
    pub(super) fn linear(&self, warnings: &mut Vec<Warning>) -> Result<Recurrent> {
        let fields = self.fields;
        if let Some(kda) = fields.object("linear_attn_config")? {
            let heads = kda.require(&["num_heads"], "KDA")?;
            let dim = kda.require(&["head_dim"], "KDA")?;
            let kernel = kda.require(&["short_conv_kernel_size"], "KDA")?;
            return kda_mixer(heads, dim, kernel);
        }
        // transformers' own names, which it writes beside those of a checkpoint.
        if let Some(heads) = fields.count("linear_num_heads")? {
            let dim = fields.require(&["linear_head_dim"], "KDA")?;
            return kda_mixer(heads, dim, fields.require(&["linear_conv_kernel_dim"], "KDA")?);
        }
        // Ling 3.0 gives KDA the heads of its attention (transformers 5.24, `models/bailing_hybrid`).
        if fields.count("layer_group_size")?.is_some() && fields.count("short_conv_kernel_size")?.is_some() {
            let heads = fields.require(&QUERY_HEADS, "KDA")?;
            let dim = fields.require(&["head_dim"], "KDA")?;
            return kda_mixer(heads, dim, fields.require(&["short_conv_kernel_size"], "KDA")?);
        }
        if !fields.has("linear_num_value_heads") {
            return Err(Error::field(
                fields.path_of("linear_num_value_heads"),
                "missing, and a linear_attention layer needs its shape (linear_num_value_heads or linear_attn_config)",
            ));
        }
        let k_heads = fields.require(&["linear_num_key_heads"], "gated DeltaNet")?;
        let v_heads = fields.require(&["linear_num_value_heads"], "gated DeltaNet")?;
        warnings.extend(uneven((&k_heads, "key heads"), (&v_heads, "value heads")));
        let k_dim = fields.require(&["linear_key_head_dim"], "gated DeltaNet")?;
        let v_dim = fields.require(&["linear_value_head_dim"], "gated DeltaNet")?;
        let kernel = fields.require(&["linear_conv_kernel_dim"], "gated DeltaNet")?;
        let channels =
            sum(&[product(&[2, k_heads.get(), k_dim.get()])?, product(&[v_heads.get(), v_dim.get()])?])?;
        let rule =
            "2 × linear_num_key_heads × linear_key_head_dim + linear_num_value_heads × linear_value_head_dim";
        Ok(Recurrent {
            recurrence: Recurrence::GatedDeltaNet { v_heads, v_dim, k_dim },
            conv: Some(Conv { kernel, channels: Fact::derived(channels, rule) }),
        })
    }

    pub(super) fn lightning(&self, warnings: &mut Vec<Warning>) -> Result<Recurrent> {
        let heads = self.fields.require(&QUERY_HEADS, "lightning attention")?;
        if class_defaults::linear_is_lightning(self.fields.model_type()) {
            // Tokens that a prefill takes at once; nothing is kept of them.
            self.fields.find("block_size");
        }
        let dim = self.k_width(HeadSet::Full, Some(&heads), warnings)?;
        Ok(Recurrent { recurrence: Recurrence::Lightning { heads, dim }, conv: None })
    }

    /// Mamba-2 where the config has heads, else Mamba-1.
    pub(super) fn mamba(&self, warnings: &mut Vec<Warning>) -> Result<Recurrent> {
        let fields = self.fields;
        let d_state = fields.require(&SSM_STATES, "Mamba")?;
        let kernel = fields.require(&SSM_KERNELS, "Mamba")?;
        let plain = class_defaults::plain_mamba2(fields.model_type());
        let (head_count, head_width): (&[&str], &[&str]) =
            if plain { (&["num_heads"], &["head_dim"]) } else { (&SSM_HEADS, &SSM_HEAD_WIDTHS) };
        let heads = fields.count_any(head_count)?;
        let Some(heads) = heads.filter(|_| !class_defaults::splits_mamba1(fields.model_type())) else {
            let d_inner = self.d_inner(warnings)?;
            let conv = Conv { kernel, channels: d_inner.clone() };
            return Ok(Recurrent { recurrence: Recurrence::Mamba1 { d_inner, d_state }, conv: Some(conv) });
        };
        let head_dim = match fields.count_any(head_width)? {
            Some(width) => width,
            None => self.even_head(&heads, head_width, warnings)?,
        };
        let groups = fields.require(&SSM_GROUPS, "Mamba-2")?;
        warnings.extend(uneven((&groups, "groups"), (&heads, "heads")));
        let inner = product(&[heads.get(), head_dim.get()])?;
        let channels = sum(&[inner, product(&[2, groups.get(), d_state.get()])?])?;
        let rule = format!(
            "{} × {} + 2 × {} × {}",
            heads.source(),
            head_dim.source(),
            groups.source(),
            d_state.source()
        );
        Ok(Recurrent {
            recurrence: Recurrence::Mamba2 { heads, head_dim, d_state, groups },
            conv: Some(Conv { kernel, channels: Fact::derived(channels, rule) }),
        })
    }

    /// The width of a Mamba-2 head that is only known as its share of the block (Zamba2).
    fn even_head(&self, heads: &Fact, names: &[&str], warnings: &mut Vec<Warning>) -> Result<Fact> {
        if self.fields.count("mamba_expand")?.is_none() {
            return self.fields.require(names, "Mamba-2");
        }
        let inner = self.d_inner(warnings)?;
        if !inner.get().is_multiple_of(heads.get()) {
            let what = format!(
                "{} heads do not divide a block of {} ({})",
                heads.get(),
                inner.get(),
                inner.source()
            );
            return Err(Error::field(self.fields.place_of(heads), what));
        }
        let rule = format!("{} / {}", inner.source(), heads.source());
        match inner.get().checked_div(heads.get()) {
            Some(width) if width > 0 => Ok(Fact::derived(width, rule)),
            _ => self.fields.require(names, "Mamba-2"),
        }
    }

    /// Channels of a Mamba-1 block.
    fn d_inner(&self, warnings: &mut Vec<Warning>) -> Result<Fact> {
        if let Some(fact) = self.fields.count_any(&SSM_WIDTHS)? {
            return Ok(fact);
        }
        if class_defaults::plain_mamba1(self.fields.model_type())
            && let Some(width) = self.fields.count("intermediate_size")?
        {
            self.compare_expansion(&width, warnings)?;
            return Ok(width);
        }
        let expand = self.fields.require(&SSM_EXPANSIONS, "Mamba-1")?;
        let hidden = self.fields.require(&HIDDEN, "Mamba-1")?;
        let rule = format!("{} × {}", expand.source(), hidden.source());
        Ok(Fact::derived(product(&[expand.get(), hidden.get()])?, rule))
    }

    /// transformers' classes compute the width and then let the config's own value replace it; vLLM's mixers are made with
    /// the same value (`MambaMixer`, `intermediate_size=config.intermediate_size`). Both agree, so it is no doubt that a
    /// strict reading refuses: Falcon-Mamba-7B is published with an `expand` that no rule reads.
    fn compare_expansion(&self, width: &Fact, warnings: &mut Vec<Warning>) -> Result<()> {
        let (Some(expand), Some(hidden)) =
            (self.fields.count_any(&SSM_EXPANSIONS)?, self.fields.count_any(&HIDDEN)?)
        else {
            return Ok(());
        };
        let product = product(&[expand.get(), hidden.get()])?;
        if product != width.get() {
            let what = format!(
                "{}, but {} × {} is {product}; engines take the first",
                width.get(),
                expand.source(),
                hidden.source()
            );
            let warning = Warning::new(self.fields.place_of(width), what);
            if !warnings.contains(&warning) {
                warnings.push(warning);
            }
        }
        Ok(())
    }

    pub(super) fn short_conv(&self) -> Result<Recurrent> {
        let kernel = self.fields.require(&["conv_L_cache"], "a short convolution")?;
        let channels = self.fields.require(&["conv_dim", "hidden_size"], "a short convolution")?;
        Ok(Recurrent { recurrence: Recurrence::ShortConv, conv: Some(Conv { kernel, channels }) })
    }
}

/// Kimi Delta Attention: convolutions over q, k and v.
pub(crate) fn kda_mixer(heads: Fact, dim: Fact, kernel: Fact) -> Result<Recurrent> {
    let channels = Fact::derived(product(&[3, heads.get(), dim.get()])?, "3 × heads × head_dim (q, k and v)");
    Ok(Recurrent { recurrence: Recurrence::Kda { heads, dim }, conv: Some(Conv { kernel, channels }) })
}
