//! Architectures between two versions: the second's for the causes already taken, the first's for the rest.

use super::cause::Cause;
use crate::architecture::{Architecture, LayerClass, LayerDraft};
use crate::fact::Fact;
use crate::format::{IndexFormat, KvFormat};
use crate::mixer::{
    CompressedAttention, Compression, Conv, Generation, Heads, IndexKeys, IndexLayout, Latent, Mixer,
    Recurrence, Recurrent,
};
use crate::settings::Settings;

/// The architecture on the way from `from` to `to` after every cause up to `done`.
///
/// With [`Cause::Layers`] alone, the layers of `from` are cut, or repeated from the first on, to the count of `to`.
/// From [`Cause::Mixer`] on, each layer does what it does in `to`, in the shape that `from` gives that mixer where it
/// has it; a mixer that `from` lacks comes with its own shape.
pub(super) fn intermediate(from: &Architecture, to: &Architecture, done: Cause) -> Architecture {
    let old = from.layer_count().max(1);
    let mut kinds: Vec<LayerDraft> = Vec::new();
    let mut pairs: Vec<(Option<usize>, Option<usize>)> = Vec::new();
    let mut layers = Vec::with_capacity(to.layer_count());
    for index in 0..to.layer_count() {
        let pair = (from.class_of(index % old), to.class_of(index));
        let known = pairs.iter().position(|known| *known == pair).unwrap_or_else(|| {
            let before = pair.0.map(|class| &from.classes()[class]);
            let after = pair.1.map(|class| &to.classes()[class]);
            kinds.push(draft(from, before, after, done));
            pairs.push(pair);
            pairs.len() - 1
        });
        layers.push(known);
    }
    let formats_of = if done < Cause::Format { from } else { to };
    formats_of.with_layers(&kinds, &layers)
}

/// A layer that was `old` and becomes `new`.
fn draft(from: &Architecture, old: Option<&LayerClass>, new: Option<&LayerClass>, done: Cause) -> LayerDraft {
    let kept = old.and_then(|layer| layer.borrows.clone());
    let new = match new {
        Some(new) if done >= Cause::Mixer => new,
        _ => {
            return LayerDraft { mixers: old.map_or(&[][..], |layer| &layer.mixers).into(), borrows: kept };
        }
    };
    let keys = old.into_iter().flat_map(|layer| &layer.mixers).find_map(keys_of);
    let morph = Morph { done, keys };
    let mixers = new.mixers.iter().map(|mixer| morph.mixer(counterpart(old, from.classes(), mixer), mixer));
    let borrows = if done < Cause::Sharing { kept } else { new.borrows.clone() };
    LayerDraft { mixers: mixers.collect(), borrows }
}

/// Settings under which an intermediate before [`Cause::Format`] is sized: mixers that bring a record layout of their
/// own are stored as the first version stores its values, so that the layout is a change of its own.
pub(super) fn settings_before_format(from: &Architecture, to: &Architecture, given: &Settings) -> Settings {
    let mut settings = given.clone();
    if given.kv_dtype.is_none() {
        settings.kv_dtype = match (generation(from), generation(to)) {
            (None, Some(_)) => Some(from.dtype().into()),
            (Some(Generation::V4), None) if only_latents(to) => Some(KvFormat::Fp8DsMla),
            _ => None,
        };
    }
    if given.index_dtype.is_none() {
        settings.index_dtype = index_layout(from).map(|layout| match layout {
            IndexLayout::Dsa => IndexFormat::Fp8,
            IndexLayout::Csa => IndexFormat::Fp4,
            IndexLayout::Plain => IndexFormat::Bf16,
        });
    }
    settings
}

fn generation(architecture: &Architecture) -> Option<Generation> {
    architecture.mixers().find_map(|mixer| match mixer {
        Mixer::Compressed(attention) => Some(attention.generation),
        _ => None,
    })
}

fn only_latents(architecture: &Architecture) -> bool {
    architecture.mixers().all(|mixer| matches!(mixer, Mixer::Mla(_) | Mixer::Dsa { .. } | Mixer::None))
}

fn index_layout(architecture: &Architecture) -> Option<IndexLayout> {
    architecture.mixers().find_map(keys_of).map(|keys| keys.layout)
}

/// The index keys that a layer with this mixer keeps.
fn keys_of(mixer: &Mixer) -> Option<&IndexKeys> {
    match mixer {
        Mixer::Dsa { index, .. } => index.as_ref(),
        Mixer::IndexedFull(_, keys) => Some(keys),
        Mixer::Compressed(attention) => attention.compression.as_ref()?.index.as_ref(),
        _ => None,
    }
}

/// The mixer of the first version that is most like `wanted`: of the same kind in the same layer, of the same kind in
/// any layer, then one that shares its shape.
fn counterpart<'a>(
    layer: Option<&'a LayerClass>,
    all: &'a [LayerClass],
    wanted: &Mixer,
) -> Option<&'a Mixer> {
    let here = || layer.into_iter().flat_map(|layer| &layer.mixers);
    let anywhere = || all.iter().flat_map(|layer| &layer.mixers);
    let same = |mixer: &&Mixer| likeness(mixer, wanted) == Likeness::Kind;
    let related = |mixer: &&Mixer| likeness(mixer, wanted) == Likeness::Shape;
    here().find(same).or_else(|| anywhere().find(same)).or_else(|| here().find(related)).or_else(|| {
        let mut found = anywhere();
        found.find(related)
    })
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Likeness {
    Kind,
    Shape,
    None,
}

fn likeness(a: &Mixer, b: &Mixer) -> Likeness {
    let same_kind = match (a, b) {
        (Mixer::Compressed(a), Mixer::Compressed(b)) => role(a) == role(b),
        (Mixer::Recurrent(a), Mixer::Recurrent(b)) => {
            return if same_recurrence(&a.recurrence, &b.recurrence) {
                Likeness::Kind
            } else {
                Likeness::None
            };
        }
        _ => std::mem::discriminant(a) == std::mem::discriminant(b),
    };
    let both_compressed = matches!((a, b), (Mixer::Compressed(_), Mixer::Compressed(_)));
    match (same_kind, a.heads().zip(b.heads()), latent_of(a).zip(latent_of(b)), both_compressed) {
        (true, ..) => Likeness::Kind,
        (_, Some(_), ..) | (_, _, Some(_), _) | (.., true) => Likeness::Shape,
        _ => Likeness::None,
    }
}

/// Window alone, dense entries (HCA), or chosen entries (CSA, CSA2).
fn role(attention: &CompressedAttention) -> Option<bool> {
    attention.compression.as_ref().map(|branch| branch.top_k.is_some())
}

fn same_recurrence(a: &Recurrence, b: &Recurrence) -> bool {
    std::mem::discriminant(a) == std::mem::discriminant(b)
}

fn latent_of(mixer: &Mixer) -> Option<&Latent> {
    match mixer {
        Mixer::Mla(latent) | Mixer::Dsa { latent, .. } => Some(latent),
        _ => None,
    }
}

/// Takes from the second version what belongs to a cause up to `done`.
#[derive(Clone, Copy, Debug)]
struct Morph<'a> {
    done: Cause,
    /// The index keys of the layer that is changed: they stay, whatever its mixer becomes, until their own cause.
    keys: Option<&'a IndexKeys>,
}

impl Morph<'_> {
    fn pick<T: Clone>(self, cause: Cause, old: &T, new: &T) -> T {
        if self.done < cause { old.clone() } else { new.clone() }
    }

    fn mixer(self, old: Option<&Mixer>, new: &Mixer) -> Mixer {
        match new {
            Mixer::Full(heads) => Mixer::Full(self.heads(old, heads)),
            Mixer::IndexedFull(heads, index) => {
                let heads = self.heads(old, heads);
                let before = match old {
                    Some(Mixer::IndexedFull(_, index)) => Some(index),
                    _ => self.keys,
                };
                match self.index(before, Some(index)) {
                    Some(index) => Mixer::IndexedFull(heads, index),
                    None => Mixer::Full(heads),
                }
            }
            Mixer::Sliding { heads, window } => {
                let before = match old {
                    Some(Mixer::Sliding { window: before, .. }) => before,
                    _ => window,
                };
                Mixer::Sliding {
                    heads: self.heads(old, heads),
                    window: self.pick(Cause::Window, before, window),
                }
            }
            Mixer::Chunked { heads, chunk } => {
                let before = match old {
                    Some(Mixer::Chunked { chunk: before, .. }) => before,
                    _ => chunk,
                };
                Mixer::Chunked {
                    heads: self.heads(old, heads),
                    chunk: self.pick(Cause::Window, before, chunk),
                }
            }
            Mixer::Cross { heads, encoder_tokens } => {
                let before = match old {
                    Some(Mixer::Cross { encoder_tokens: before, .. }) => before,
                    _ => encoder_tokens,
                };
                Mixer::Cross {
                    heads: self.heads(old, heads),
                    encoder_tokens: self.pick(Cause::Window, before, encoder_tokens),
                }
            }
            Mixer::Mla(latent) => Mixer::Mla(self.latent(old, latent)),
            Mixer::Dsa { latent, index, top_k } => {
                let (old_index, old_top_k) = match old {
                    Some(Mixer::Dsa { index, top_k, .. }) => (index.as_ref(), top_k),
                    _ => (self.keys.filter(|_| index.is_some()), &None),
                };
                Mixer::Dsa {
                    latent: self.latent(old, latent),
                    index: self.index(old_index, index.as_ref()),
                    top_k: self.pick(Cause::IndexKeys, old_top_k, top_k),
                }
            }
            Mixer::Compressed(new) => match old {
                Some(Mixer::Compressed(old)) => Mixer::Compressed(self.compressed(old, new)),
                _ => Mixer::Compressed(CompressedAttention {
                    compression: new.compression.as_ref().map(|branch| self.new_branch(branch)),
                    ..new.clone()
                }),
            },
            Mixer::Recurrent(new) => match old {
                Some(Mixer::Recurrent(old)) => Mixer::Recurrent(self.recurrent(old, new)),
                _ => Mixer::Recurrent(new.clone()),
            },
            Mixer::None => Mixer::None,
        }
    }

    fn heads(self, old: Option<&Mixer>, new: &Heads) -> Heads {
        let Some(old) = old.and_then(Mixer::heads) else { return new.clone() };
        Heads {
            query_heads: self.pick(Cause::Heads, &old.query_heads, &new.query_heads),
            kv_heads: self.pick(Cause::Heads, &old.kv_heads, &new.kv_heads),
            k_width: self.pick(Cause::Widths, &old.k_width, &new.k_width),
            v_width: self.pick(Cause::Widths, &old.v_width, &new.v_width),
        }
    }

    fn latent(self, old: Option<&Mixer>, new: &Latent) -> Latent {
        let Some(old) = old.and_then(latent_of) else { return new.clone() };
        Latent {
            rank: self.pick(Cause::Widths, &old.rank, &new.rank),
            rope: self.pick(Cause::Widths, &old.rope, &new.rope),
            query_heads: self.pick(Cause::Heads, &old.query_heads, &new.query_heads),
            nope: self.pick(Cause::Widths, &old.nope, &new.nope),
            v_width: self.pick(Cause::Widths, &old.v_width, &new.v_width),
        }
    }

    /// The keys of an indexer. Their layout is a format.
    fn index(self, old: Option<&IndexKeys>, new: Option<&IndexKeys>) -> Option<IndexKeys> {
        if self.done < Cause::IndexKeys {
            return old.cloned();
        }
        let mut index = new?.clone();
        if let Some(old) = old {
            index.layout = self.pick(Cause::Format, &old.layout, &index.layout);
        }
        Some(index)
    }

    fn compressed(self, old: &CompressedAttention, new: &CompressedAttention) -> CompressedAttention {
        let compression = match (&old.compression, &new.compression) {
            (Some(before), Some(after)) if role(old) == role(new) => Some(self.branch(before, after)),
            (_, after) => after.as_ref().map(|branch| self.new_branch(branch)),
        };
        CompressedAttention {
            width: self.pick(Cause::Widths, &old.width, &new.width),
            rope: self.pick(Cause::Widths, &old.rope, &new.rope),
            query_heads: self.pick(Cause::Heads, &old.query_heads, &new.query_heads),
            window: self.pick(Cause::Window, &old.window, &new.window),
            compression,
            generation: self.pick(Cause::Format, &old.generation, &new.generation),
        }
    }

    fn branch(self, old: &Compression, new: &Compression) -> Compression {
        Compression {
            ratio: self.pick(Cause::Compression, &old.ratio, &new.ratio),
            own_store: self.pick(Cause::Sharing, &old.own_store, &new.own_store),
            index: self.index(old.index.as_ref(), new.index.as_ref()),
            reindex: self.pick(Cause::Sharing, &old.reindex, &new.reindex),
            top_k: self.pick(Cause::IndexKeys, &old.top_k, &new.top_k),
            rows: self.pick(Cause::Compression, &old.rows, &new.rows),
        }
    }

    /// A branch that the first version lacks: with a store of its own until sharing is taken, and with the keys that the
    /// layer kept before until those of the branch are.
    fn new_branch(self, new: &Compression) -> Compression {
        let keys = self.keys.filter(|_| new.index.is_some());
        Compression {
            own_store: self.pick(Cause::Sharing, &true, &new.own_store),
            index: self.index(keys, new.index.as_ref()),
            ..new.clone()
        }
    }

    fn recurrent(self, old: &Recurrent, new: &Recurrent) -> Recurrent {
        let conv = match (&old.conv, &new.conv) {
            (Some(before), Some(after)) => Some(Conv {
                kernel: self.pick(Cause::Widths, &before.kernel, &after.kernel),
                channels: self.pick(Cause::Widths, &before.channels, &after.channels),
            }),
            (_, after) => after.clone(),
        };
        Recurrent { recurrence: self.recurrence(&old.recurrence, &new.recurrence), conv }
    }

    fn recurrence(self, old: &Recurrence, new: &Recurrence) -> Recurrence {
        let heads = |old: &Fact, new: &Fact| self.pick(Cause::Heads, old, new);
        let width = |old: &Fact, new: &Fact| self.pick(Cause::Widths, old, new);
        match (old, new) {
            (
                Recurrence::GatedDeltaNet { v_heads: a, v_dim: b, k_dim: c },
                Recurrence::GatedDeltaNet { v_heads, v_dim, k_dim },
            ) => Recurrence::GatedDeltaNet {
                v_heads: heads(a, v_heads),
                v_dim: width(b, v_dim),
                k_dim: width(c, k_dim),
            },
            (Recurrence::Kda { heads: a, dim: b }, Recurrence::Kda { heads: c, dim: d }) => {
                Recurrence::Kda { heads: heads(a, c), dim: width(b, d) }
            }
            (Recurrence::Lightning { heads: a, dim: b }, Recurrence::Lightning { heads: c, dim: d }) => {
                Recurrence::Lightning { heads: heads(a, c), dim: width(b, d) }
            }
            (
                Recurrence::Mamba1 { d_inner: a, d_state: b },
                Recurrence::Mamba1 { d_inner: c, d_state: d },
            ) => Recurrence::Mamba1 { d_inner: width(a, c), d_state: width(b, d) },
            (
                Recurrence::Mamba2 { heads: a, head_dim: b, d_state: c, groups: d },
                Recurrence::Mamba2 { heads: e, head_dim, d_state, groups },
            ) => Recurrence::Mamba2 {
                heads: heads(a, e),
                head_dim: width(b, head_dim),
                d_state: width(c, d_state),
                groups: heads(d, groups),
            },
            _ => new.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalogue::catalogue;

    /// A field that no cause takes would end up in the last step, whatever that is called.
    #[test]
    fn all_causes_together_make_the_second_version() {
        let read: Vec<_> = catalogue().iter().map(|entry| entry.architecture().unwrap()).collect();
        for from in &read {
            for to in &read {
                let made = intermediate(from, to, Cause::Format);
                assert_eq!(made.classes(), to.classes(), "{:?} → {:?}", from.model_type(), to.model_type());
            }
        }
    }
}
