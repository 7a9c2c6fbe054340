//! The three layers of metadata that a scheduler or a cache manager reads: what each layer of the model is, how each
//! component of its state lives, and what service can count on without knowing any hardware.
//!
//! The document's schema is `assets/schema/describe.schema.json`. Bytes are of one request, unsharded.

mod layout;
mod lifecycle;
mod service;

use serde::Serialize;

use crate::architecture::Architecture;
use crate::settings::Settings;
use crate::size::StateModel;
use crate::state::StateComponent;
use crate::warning::Warning;
use crate::{Result, Tokens};

pub use layout::{Payload, PayloadPart};
pub use lifecycle::{DecodeReads, Lifetime, Needs, OtherReaders, PrefixHit, ReadRule};
pub(crate) use service::ranks;
pub use service::{Block, ComponentService, RanksHold, Reuse, Service, TensorParallel};

/// The JSON Schema of [`Description`].
pub const SCHEMA: &str = include_str!("../../../../assets/schema/describe.schema.json");

/// The three layers of metadata of one version.
#[derive(Clone, Debug, Serialize)]
pub struct Description {
    /// Name and version of this document's form.
    pub schema: &'static str,
    /// Catalogue id or path.
    pub model: String,
    /// The settings that were given.
    pub settings: Settings,
    /// What each layer is.
    pub architecture: Layers,
    /// How each component of the state lives.
    pub lifecycle: Vec<Lifetime>,
    /// What service can count on.
    pub service: Service,
    /// Assumptions and doubts.
    pub warnings: Vec<Warning>,
}

/// What the config says, layer by layer.
#[derive(Clone, Debug, Serialize)]
pub struct Layers {
    /// `model_type` of the text part.
    pub model_type: Option<String>,
    /// The classes that the checkpoint asks for.
    pub architectures: Vec<String>,
    /// The model's dtype.
    pub dtype: &'static str,
    /// The longest context that the config allows.
    pub max_context: Option<Tokens>,
    /// The number of layers; each later pass of a loop counts again.
    pub layer_count: usize,
    /// Every layer in order.
    pub layers: Vec<Layer>,
}

/// One layer.
#[derive(Clone, Debug, Serialize)]
pub struct Layer {
    /// From 0.
    pub index: usize,
    /// What it does; several where it does several things side by side, none where it is an MLP alone.
    pub mixers: Vec<&'static str>,
    /// The state that it keeps, as indices into `lifecycle`.
    pub components: Vec<usize>,
    /// Why it keeps none of its own, where it uses an earlier layer's cache.
    pub uses_cache_of: Option<String>,
    /// The layer whose weights it runs with, where it is a later pass of a loop.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub weights_of: Option<usize>,
}

/// Equal components of several layers, with what the mixer says beyond their bytes.
#[derive(Clone, Debug)]
struct Group {
    component: StateComponent,
    payload: Payload,
    ranks: TensorParallel,
    /// Tokens of a group whose rows the next group's entry needs too.
    overlap: Option<Tokens>,
    layers: Vec<usize>,
}

/// Describes one version. `model` is only a label.
///
/// # Errors
///
/// A format that does not fit the shape, a block that cuts a compression group, or a figure beyond 64 bits.
pub fn describe(model: &str, architecture: &Architecture, settings: &Settings) -> Result<Description> {
    let formats = architecture.formats(settings);
    let mut groups: Vec<Group> = Vec::new();
    let mut kept_by_class = Vec::with_capacity(architecture.classes().len());
    for class in architecture.classes() {
        let mut kept = Vec::new();
        let own = if class.borrows.is_none() { class.mixers.as_slice() } else { &[] };
        for mixer in own {
            for component in mixer.components(&formats)? {
                let payload = layout::payload(mixer, &component, &formats)?;
                let ranks = service::ranks(mixer, &component);
                let overlap = lifecycle::overlap(mixer, component.kind);
                let known = groups.iter().enumerate().position(|(index, group)| {
                    // What a layer keeps twice (LongCat's two attention blocks) is two components of it.
                    !kept.contains(&index)
                        && group.component.kind == component.kind
                        && group.component.growth == component.growth
                        && group.component.format == component.format
                        && group.component.reads == component.reads
                        && group.payload == payload
                        && group.ranks == ranks
                        && group.overlap == overlap
                });
                let index = known.unwrap_or_else(|| {
                    groups.push(Group { component, payload, ranks, overlap, layers: Vec::new() });
                    groups.len() - 1
                });
                groups[index].layers.extend(&class.layers);
                kept.push(index);
            }
        }
        kept_by_class.push(kept);
    }
    for group in &mut groups {
        group.layers.sort_unstable();
    }
    let layer = |(index, class): (usize, &crate::architecture::LayerClass)| Layer {
        index,
        mixers: class.mixers.iter().map(crate::mixer::Mixer::name).filter(|name| *name != "none").collect(),
        components: architecture.class_of(index).map_or_else(Vec::new, |class| kept_by_class[class].clone()),
        uses_cache_of: class.borrows.clone(),
        weights_of: Some(architecture.weights_of(index)).filter(|owner| *owner != index),
    };
    let layers: Vec<Layer> = architecture.layers().enumerate().map(layer).collect();
    let block = service::block(&groups, settings)?;
    let state = StateModel::new(architecture, settings)?;
    let lifecycle = groups.iter().enumerate().map(|(index, group)| Lifetime::of(index, group)).collect();
    Ok(Description {
        schema: "kvscope-describe-1",
        model: model.to_owned(),
        settings: settings.clone(),
        architecture: Layers {
            model_type: architecture.model_type().map(str::to_owned),
            architectures: architecture.architectures().to_vec(),
            dtype: architecture.dtype().name(),
            max_context: architecture.max_context().map(|fact| Tokens::new(fact.get())),
            layer_count: architecture.layer_count(),
            layers,
        },
        lifecycle: lifecycle::with_other_readers(lifecycle, &state),
        service: service::service(&groups, block, settings)?,
        warnings: state.warnings().to_vec(),
    })
}
