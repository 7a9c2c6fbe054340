//! What one rank of a model keeps: which layers it has, and how tensor parallelism divides their state.

use super::Quantity;
use super::pipeline::LayerRange;
use crate::architecture::{Architecture, LayerClass};
use crate::fact::Fact;
use crate::mixer::{Conv, Heads, Mixer, Recurrence, Recurrent};
use crate::settings::Formats;
use crate::state::{ComponentKind, StateComponent};
use crate::{Bytes, BytesPerToken, Error, Result, Tokens};

/// The state of one rank, equal layers grouped.
#[derive(Clone, Debug)]
pub(crate) struct RankState {
    classes: Vec<RankClass>,
}

/// Equal layers of one rank.
#[derive(Clone, Debug)]
pub(crate) struct RankClass {
    /// Their mixers with the heads and channels of this rank.
    pub(crate) mixers: Vec<Mixer>,
    /// What one layer keeps.
    pub(crate) components: Vec<StateComponent>,
    /// How many of them the rank has.
    pub(crate) layers: u64,
    /// Whether they use an earlier layer's cache.
    pub(crate) borrows: bool,
}

/// How many ranks share a layer's heads, and what becomes of heads that they cannot share evenly.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Split {
    pub(crate) tp: u64,
    /// Ranks that share recurrent heads: more than share K/V heads where some of those hold other tokens.
    pub(crate) recurrent_tp: u64,
    pub(crate) uneven: UnevenHeads,
    pub(crate) groups: FewGroups,
}

/// K/V heads that ranks cannot share evenly.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum UnevenHeads {
    /// The engine does not start.
    Refused,
    /// Every rank has room for as many as the fullest one.
    RoundedUp,
}

/// Groups of a convolution's channels that ranks cannot share evenly.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum FewGroups {
    /// Every rank has a group of its own.
    Replicated,
    /// Channels are divided, whatever groups they are of.
    Divided,
}

impl Split {
    /// Even shares alone.
    pub(crate) fn even(tp: u64) -> Self {
        Self { tp, recurrent_tp: tp, uneven: UnevenHeads::Refused, groups: FewGroups::Replicated }
    }
}

impl RankState {
    /// The state of the layers in `range` on one of the ranks that share it, with every mixer changed by `adjust` after it
    /// was divided.
    ///
    /// # Errors
    ///
    /// A shape that they cannot share, a format that does not fit, or an overflow.
    pub(crate) fn adjusted(
        architecture: &Architecture,
        formats: &Formats,
        split: Split,
        range: &LayerRange,
        adjust: impl Fn(Mixer) -> Mixer,
    ) -> Result<Self> {
        let mut classes = Vec::with_capacity(architecture.classes().len());
        for class in architecture.classes() {
            // A rank runs all passes of the layers whose weights it has.
            let is_here = |index: &&usize| range.contains(&architecture.weights_of(**index));
            let layers = class.layers.iter().filter(is_here).count() as u64;
            if layers > 0 {
                classes.push(RankClass::new(class, formats, split, layers, &adjust)?);
            }
        }
        Ok(Self { classes })
    }

    /// Adds `drafts` layers like the last one that keeps every token, or like the last layer where none does.
    pub(crate) fn add_drafts(&mut self, drafts: u64) {
        let keeps_all = |class: &RankClass| {
            !class.borrows && class.components.iter().any(|kept| quantity_of(kept.kind) == Quantity::KvBytes)
        };
        let last = self.classes.iter().rposition(keeps_all);
        if let Some(class) = last.or_else(|| self.classes.len().checked_sub(1)) {
            self.classes[class].layers += drafts;
        }
    }

    /// Adds the caches of `layers` layers like the first that keeps every token, which nothing is written to.
    pub(crate) fn add_unused(&mut self, layers: u64) {
        let first =
            self.components().map(|(kept, _)| kept).find(|kept| quantity_of(kept.kind) == Quantity::KvBytes);
        let Some(kept) = first.cloned().filter(|_| layers > 0) else { return };
        self.classes.push(RankClass { mixers: Vec::new(), components: vec![kept], layers, borrows: true });
    }

    /// The distinct classes.
    pub(crate) fn classes(&self) -> &[RankClass] {
        &self.classes
    }

    /// Every component with the number of layers that keep it.
    pub(crate) fn components(&self) -> impl Iterator<Item = (&StateComponent, u64)> {
        self.classes
            .iter()
            .filter(|class| !class.borrows)
            .flat_map(|class| class.components.iter().map(|component| (component, class.layers)))
    }

    /// The one format of what `quantity` counts; of states, of the recurrent state.
    pub(crate) fn format_of(&self, quantity: Quantity) -> Option<&'static str> {
        let is_of = |component: &StateComponent| match quantity {
            Quantity::StateBytes => component.kind == ComponentKind::RecurrentState,
            _ => quantity_of(component.kind) == quantity,
        };
        let mut formats = self.components().filter(|(of, _)| is_of(of)).map(|(of, _)| of.format);
        let first = formats.next()?;
        formats.all(|format| format == first).then_some(first)
    }

    /// Layers that hold what `quantity` counts, those that use another's cache too, where each of them has one component and
    /// all are equal.
    pub(crate) fn equal_layers(&self, quantity: Quantity) -> Option<u64> {
        let mut of = self.components_with_borrowed().filter(|(kept, _)| quantity_of(kept.kind) == quantity);
        let (first, layers) = of.next()?;
        of.try_fold(layers, |sum, (kept, layers)| (kept.growth == first.growth).then_some(sum + layers))
    }

    /// The same, as engines count it that reserve a cache for layers which use another layer's.
    pub(crate) fn components_with_borrowed(&self) -> impl Iterator<Item = (&StateComponent, u64)> {
        self.classes
            .iter()
            .flat_map(|class| class.components.iter().map(|component| (component, class.layers)))
    }

    /// Sums `bytes` of one layer over all layers, those that use another's cache too.
    pub(crate) fn sum_with_borrowed(
        &self,
        bytes: impl Fn(&StateComponent) -> Result<Bytes>,
    ) -> Result<Bytes> {
        self.components_with_borrowed()
            .try_fold(Bytes::ZERO, |total, (component, layers)| total.plus(bytes(component)?.times(layers)?))
    }

    /// Bytes of one request that one more token adds at `n`; `None` asks beyond every window.
    pub(crate) fn slope(&self, n: Option<Tokens>) -> Result<BytesPerToken> {
        self.components().try_fold(BytesPerToken::ZERO, |total, (component, layers)| {
            total.plus(component.growth.slope(n)?.times(layers)?)
        })
    }

    /// Bytes of one request that do not grow at `n`; `None` asks beyond every window.
    pub(crate) fn fixed(&self, n: Option<Tokens>) -> Result<Bytes> {
        self.sum(|component| component.growth.fixed(n))
    }

    /// Sums `bytes` of one layer over all layers.
    pub(crate) fn sum(&self, bytes: impl Fn(&StateComponent) -> Result<Bytes>) -> Result<Bytes> {
        self.components()
            .try_fold(Bytes::ZERO, |total, (component, layers)| total.plus(bytes(component)?.times(layers)?))
    }
}

impl RankClass {
    fn new(
        class: &LayerClass,
        formats: &Formats,
        split: Split,
        layers: u64,
        adjust: &impl Fn(Mixer) -> Mixer,
    ) -> Result<Self> {
        let mut mixers = Vec::with_capacity(class.mixers.len());
        let mut components = Vec::new();
        for mixer in &class.mixers {
            let own = adjust(shard(mixer, split)?);
            components.extend(own.components(formats)?);
            mixers.push(own);
        }
        Ok(Self { mixers, components, layers, borrows: class.borrows.is_some() })
    }
}

/// Which of the `…_bytes` quantities counts a component.
pub(crate) fn quantity_of(kind: ComponentKind) -> Quantity {
    match kind {
        ComponentKind::Kv | ComponentKind::MlaLatent | ComponentKind::CompressedKv => Quantity::KvBytes,
        ComponentKind::WindowKv | ComponentKind::ChunkKv => Quantity::WindowBytes,
        ComponentKind::RecurrentState | ComponentKind::ConvState | ComponentKind::CompressorState => {
            Quantity::StateBytes
        }
        ComponentKind::IndexKey => Quantity::IndexBytes,
        ComponentKind::CrossKv => Quantity::CrossBytes,
    }
}

/// The mixer as one rank holds it. K/V heads are divided, at least one stays; latents, index keys and compressed entries
/// are the same on every rank; recurrent heads and channels are divided.
///
/// Source: vLLM 0.33 `ModelConfig.get_num_kv_heads` and `mamba_utils`; SGLang 0.5.23 `mamba_utils`.
fn shard(mixer: &Mixer, split: Split) -> Result<Mixer> {
    let mut own = mixer.clone();
    let tp = split.tp;
    if tp == 1 && split.recurrent_tp == 1 {
        return Ok(own);
    }
    match &mut own {
        Mixer::Full(heads)
        | Mixer::IndexedFull(heads, _)
        | Mixer::Sliding { heads, .. }
        | Mixer::Chunked { heads, .. }
        | Mixer::Cross { heads, .. } => *heads = shard_heads(heads, split)?,
        Mixer::Recurrent(recurrent) => *recurrent = shard_recurrent(recurrent, split)?,
        // Only an expanded cache holds heads: the query heads of its rank.
        Mixer::Mla(latent) | Mixer::Dsa { latent, .. } => {
            latent.query_heads =
                latent.query_heads.as_ref().map(|heads| shard_count(heads, tp)).transpose()?;
        }
        Mixer::Compressed(_) | Mixer::None => {}
    }
    Ok(own)
}

fn shard_heads(heads: &Heads, split: Split) -> Result<Heads> {
    let kv_heads = match split.uneven {
        UnevenHeads::Refused => shard_count(&heads.kv_heads, split.tp)?,
        UnevenHeads::RoundedUp => rounded_up(&heads.kv_heads, split.tp),
    };
    Ok(Heads {
        query_heads: heads.query_heads.as_ref().map(|heads| shard_count(heads, split.tp)).transpose()?,
        kv_heads,
        k_width: heads.k_width.clone(),
        v_width: heads.v_width.clone(),
    })
}

/// Whether every rank gets as many heads, or every head goes to as many ranks.
pub(crate) fn shares_evenly(heads: u64, tp: u64) -> bool {
    heads.is_multiple_of(tp) || tp.is_multiple_of(heads)
}

/// Heads of one rank. It keeps at least one, so beyond one head a rank its share no longer falls.
///
/// # Errors
///
/// Neither count divides the other.
pub(crate) fn shard_count(heads: &Fact, tp: u64) -> Result<Fact> {
    if !shares_evenly(heads.get(), tp) {
        let what = format!(
            "{tp} ranks cannot share {} heads evenly ({}); one must divide the other",
            heads.get(),
            heads.source()
        );
        return Err(Error::setting("tp", what));
    }
    Ok(Fact::derived((heads.get() / tp).max(1), format!("max(1, {} / tp {tp})", heads.source())))
}

fn rounded_up(heads: &Fact, tp: u64) -> Fact {
    Fact::derived(heads.get().div_ceil(tp), format!("{} / tp {tp}, rounded up", heads.source()))
}

fn shard_recurrent(recurrent: &Recurrent, split: Split) -> Result<Recurrent> {
    let tp = split.recurrent_tp;
    let divide = |fact: &Fact| divided(fact, tp);
    let recurrence = match &recurrent.recurrence {
        Recurrence::GatedDeltaNet { v_heads, v_dim, k_dim } => Recurrence::GatedDeltaNet {
            v_heads: divide(v_heads)?,
            v_dim: v_dim.clone(),
            k_dim: k_dim.clone(),
        },
        Recurrence::Kda { heads, dim } => Recurrence::Kda { heads: divide(heads)?, dim: dim.clone() },
        Recurrence::Mamba1 { d_inner, d_state } => {
            Recurrence::Mamba1 { d_inner: divide(d_inner)?, d_state: d_state.clone() }
        }
        Recurrence::Mamba2 { heads, head_dim, d_state, groups } => Recurrence::Mamba2 {
            heads: divide(heads)?,
            head_dim: head_dim.clone(),
            d_state: d_state.clone(),
            groups: groups.clone(),
        },
        Recurrence::Lightning { heads, dim } => {
            Recurrence::Lightning { heads: divide(heads)?, dim: dim.clone() }
        }
        Recurrence::ShortConv => Recurrence::ShortConv,
    };
    let conv = match &recurrent.conv {
        Some(conv) => {
            Some(Conv { kernel: conv.kernel.clone(), channels: conv_channels(recurrent, conv, split)? })
        }
        None => None,
    };
    Ok(Recurrent { recurrence, conv })
}

/// Channels of one rank. Where `tp` does not divide the groups that heads share, every rank has a group of its own:
/// the groups are replicated up to `tp`, unless the engine divides channels alone.
fn conv_channels(recurrent: &Recurrent, conv: &Conv, split: Split) -> Result<Fact> {
    let tp = split.recurrent_tp;
    let (inner, group) = match &recurrent.recurrence {
        Recurrence::Mamba2 { heads, head_dim, d_state, .. } => {
            (product(heads.get(), head_dim.get())?, product(2, d_state.get())?)
        }
        Recurrence::GatedDeltaNet { v_heads, v_dim, k_dim } => {
            (product(v_heads.get(), v_dim.get())?, product(2, k_dim.get())?)
        }
        _ => return divided(&conv.channels, tp),
    };
    let shared = conv.channels.get().saturating_sub(inner);
    let groups = shared.checked_div(group).unwrap_or(0);
    if groups == 0 || groups.is_multiple_of(tp) || split.groups == FewGroups::Divided {
        return divided(&conv.channels, tp);
    }
    let channels =
        product(tp, group)?.checked_add(inner).ok_or_else(|| Error::overflow("channels of a rank"))?;
    let rule = format!("{groups} groups replicated to tp {tp}, then divided by it");
    divided(&Fact::derived(channels, rule), tp)
}

fn divided(fact: &Fact, tp: u64) -> Result<Fact> {
    if !fact.get().is_multiple_of(tp) {
        let what = format!("{tp} does not divide {} ({})", fact.get(), fact.source());
        return Err(Error::setting("tp", what));
    }
    Ok(Fact::derived(fact.get() / tp, format!("{} / tp {tp}", fact.source())))
}

fn product(a: u64, b: u64) -> Result<u64> {
    a.checked_mul(b).ok_or_else(|| Error::overflow(format!("{a} × {b}")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Settings, read_config};

    fn rank(architecture: &Architecture, split: Split, layers: usize) -> Result<RankState> {
        let formats = architecture.formats(&Settings::default());
        RankState::adjusted(architecture, &formats, split, &(0..layers), std::convert::identity)
    }

    /// Falcon-H1: one group for all heads. At tp 2 each rank has the whole group: 3072 / 2 + 2 × 256 channels.
    #[test]
    fn groups_are_replicated_where_ranks_outnumber_them() {
        let config = r#"{"model_type": "falcon_h1", "num_hidden_layers": 24, "hidden_size": 2048,
            "num_attention_heads": 8, "num_key_value_heads": 2, "head_dim": 128, "mamba_d_ssm": 3072,
            "mamba_n_heads": 48, "mamba_d_head": 64, "mamba_d_state": 256, "mamba_n_groups": 1, "mamba_d_conv": 4}"#;
        let architecture = read_config(config).unwrap();
        let half = rank(&architecture, Split::even(2), 24).unwrap();
        let conv =
            half.components().find(|(component, _)| component.kind == ComponentKind::ConvState).unwrap();
        assert_eq!(conv.0.growth.entry().get(), 3 * (1536 + 512) * 2);
        // 2 K/V heads: one a rank at tp 2, and still one at tp 8.
        let slope = |tp| rank(&architecture, Split::even(tp), 24).unwrap().slope(None).unwrap();
        assert_eq!(slope(2).whole(), Some(24 * 2 * 128 * 2));
        assert_eq!(slope(8), slope(2));
        assert!(rank(&architecture, Split::even(5), 24).unwrap_err().to_string().starts_with("tp: "));
    }

    /// 6 K/V heads on 4 ranks are 2 on the fullest: 1 each would lose two heads.
    #[test]
    fn heads_that_ranks_cannot_share_are_refused_or_rounded_up() {
        let config = r#"{"num_hidden_layers": 1, "num_attention_heads": 24, "num_key_value_heads": 6, "head_dim": 64,
            "dtype": "bfloat16"}"#;
        let architecture = read_config(config).unwrap();
        let error = rank(&architecture, Split::even(4), 1).unwrap_err();
        assert_eq!(error.place(), Some("tp"));
        assert!(error.what().contains("6 heads evenly (num_key_value_heads)"), "{error}");
        let slope = |split| rank(&architecture, split, 1).unwrap().slope(None).unwrap().whole().unwrap();
        assert_eq!(slope(Split { uneven: UnevenHeads::RoundedUp, ..Split::even(4) }), 2 * 2 * 64 * 2);
        assert_eq!((slope(Split::even(3)), slope(Split::even(12))), (2 * 2 * 64 * 2, 2 * 64 * 2));
    }
}
