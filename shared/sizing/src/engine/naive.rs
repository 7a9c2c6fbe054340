//! Bytes by the formulas of tools that do not know a model's layers, for `overestimate_factor`.

use super::dtype::formats_in;
use super::shard::{RankClass, RankState, quantity_of, shard_count};
use super::{EngineKind, Figure, Quantity, needed};
use crate::architecture::Architecture;
use crate::fact::Fact;
use crate::format::KvFormat;
use crate::growth::Growth;
use crate::mixer::{Heads, Latent, Mixer};
use crate::settings::{Formats, NaiveFormula, Settings};
use crate::state::StateComponent;
use crate::{Bytes, Error, Result, Tokens};

/// What a naive formula is applied to.
#[derive(Clone, Copy, Debug)]
pub(super) struct Naive<'a> {
    /// The model.
    pub(super) architecture: &'a Architecture,
    /// The engine, which may run the model in another dtype.
    pub(super) engine: EngineKind,
    /// The layers of the rank, divided.
    pub(super) rank: &'a RankState,
    /// The settings of the engine, formats resolved.
    pub(super) settings: &'a Settings,
    /// Tokens of one request.
    pub(super) context: Tokens,
    /// Requests.
    pub(super) batch: u64,
}

impl Naive<'_> {
    /// The formula's bytes over the correct ones.
    ///
    /// # Errors
    ///
    /// No formula is set, the model lacks what it reads, or there is nothing to compare with.
    pub(super) fn factor(&self, correct: Bytes) -> Result<Figure> {
        let formula = self.settings.naive.ok_or_else(|| needed("naive"))?;
        if correct == Bytes::ZERO {
            return Err(Error::setting("naive", "the model keeps nothing at this length; there is no ratio"));
        }
        Ok(Figure::Ratio(self.bytes(formula)?.get() as f64 / correct.get() as f64))
    }

    fn bytes(&self, formula: NaiveFormula) -> Result<Bytes> {
        let one = match formula {
            NaiveFormula::AllLayersFull => self.all_layers_full()?,
            NaiveFormula::WindowsFull => self.rank.sum(|component| self.without_window(component))?,
            NaiveFormula::MhaHeads => self.replaced(query_heads)?,
            NaiveFormula::MlaAsMha => {
                let heads = self.plain_heads()?;
                self.replaced(|mixer| latent_of(mixer).map(|_| heads.clone()))?
            }
            NaiveFormula::MlaAsKv => self.replaced(|mixer| latent_of(mixer).map(rank_as_heads))?,
        };
        one.times(self.batch)
    }

    /// Every layer costs what a layer costs that keeps every token.
    fn all_layers_full(&self) -> Result<Bytes> {
        let grows = |component: &&StateComponent| matches!(component.growth, Growth::Linear { .. });
        let full = self
            .rank
            .classes()
            .iter()
            .find(|class| !class.borrows && class.components.iter().any(|kept| grows(&kept)))
            .ok_or_else(|| Error::setting("naive", "no layer of this model keeps every token"))?;
        let layers: u64 = self.rank.classes().iter().map(|class| class.layers).sum();
        let mut one = Bytes::ZERO;
        for component in full.components.iter().filter(grows) {
            one = one.plus(component.bytes(self.context)?)?;
        }
        one.times(layers)
    }

    fn without_window(&self, component: &StateComponent) -> Result<Bytes> {
        match quantity_of(component.kind) {
            Quantity::WindowBytes => component.growth.entry().times(self.context.get()),
            _ => component.bytes(self.context),
        }
    }

    /// Layers whose mixers `heads` replaces keep K and V of those heads; the others keep what they keep.
    fn replaced(&self, heads: impl Fn(&Mixer) -> Option<Heads>) -> Result<Bytes> {
        let formats = self.plain_formats();
        self.rank.classes().iter().filter(|class| !class.borrows).try_fold(Bytes::ZERO, |total, class| {
            total.plus(self.layer_bytes(class, &heads, &formats)?.times(class.layers)?)
        })
    }

    fn layer_bytes(
        &self,
        class: &RankClass,
        heads: &impl Fn(&Mixer) -> Option<Heads>,
        formats: &Formats,
    ) -> Result<Bytes> {
        let mut bytes = Bytes::ZERO;
        for mixer in &class.mixers {
            let kept = match heads(mixer) {
                Some(heads) => with_heads(mixer, heads).components(formats)?,
                None => mixer.components(&formats_in(self.architecture, self.engine, self.settings))?,
            };
            for component in &kept {
                bytes = bytes.plus(component.bytes(self.context)?)?;
            }
        }
        Ok(bytes)
    }

    /// K and V of `num_key_value_heads` heads of `hidden_size / num_attention_heads` values.
    fn plain_heads(&self) -> Result<Heads> {
        let fields = self.architecture.plain_heads();
        let missing =
            |field: &str| Error::field(field, "no plain number above 0, and the naive formula reads it");
        let hidden = fields.hidden.as_ref().ok_or_else(|| missing("hidden_size"))?;
        let query = fields.query_heads.as_ref().ok_or_else(|| missing("num_attention_heads"))?;
        let kv_heads = fields.kv_heads.as_ref().unwrap_or(query);
        let own = shard_count(kv_heads, self.settings.tp())?;
        let width = Fact::derived(hidden.get() / query.get().max(1), "hidden_size / num_attention_heads");
        Ok(Heads { query_heads: None, kv_heads: own, k_width: width.clone(), v_width: width })
    }

    /// The record of a latent is no format of heads: there one byte a value is meant.
    fn plain_formats(&self) -> Formats {
        let mut settings = self.settings.clone();
        if settings.kv_dtype == Some(KvFormat::Fp8DsMla) {
            settings.kv_dtype = Some(KvFormat::Fp8);
        }
        formats_in(self.architecture, self.engine, &settings)
    }
}

fn query_heads(mixer: &Mixer) -> Option<Heads> {
    let (Mixer::Full(heads)
    | Mixer::IndexedFull(heads, _)
    | Mixer::Sliding { heads, .. }
    | Mixer::Chunked { heads, .. }
    | Mixer::Cross { heads, .. }) = mixer
    else {
        return None;
    };
    let query = heads.query_heads.clone()?;
    Some(Heads { kv_heads: query, ..heads.clone() })
}

fn latent_of(mixer: &Mixer) -> Option<&Latent> {
    match mixer {
        Mixer::Mla(latent) | Mixer::Dsa { latent, .. } => Some(latent),
        _ => None,
    }
}

fn rank_as_heads(latent: &Latent) -> Heads {
    Heads {
        query_heads: None,
        kv_heads: Fact::derived(1, "one latent read as K and V"),
        k_width: latent.rank.clone(),
        v_width: latent.rank.clone(),
    }
}

/// A latent becomes plain heads and loses its indexer; other mixers keep their kind.
fn with_heads(mixer: &Mixer, new: Heads) -> Mixer {
    let mut own = mixer.clone();
    match &mut own {
        Mixer::Full(heads)
        | Mixer::IndexedFull(heads, _)
        | Mixer::Sliding { heads, .. }
        | Mixer::Chunked { heads, .. }
        | Mixer::Cross { heads, .. } => *heads = new,
        _ => return Mixer::Full(new),
    }
    own
}
