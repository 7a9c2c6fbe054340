use serde_json::Value;

use super::plans;
use super::recipe::{LayersOf, Recipe, StateFigure, StateOf};
use crate::architecture::{Architecture, LayerClass};
use crate::catalogue::find_entry;
use crate::config::read_config_value;
use crate::growth::Growth;
use crate::mixer::Mixer;
use crate::service::WindowPolicy;
use crate::size::{Part, StateModel};
use crate::{Error, Ratio, Result, Tokens};

impl Recipe {
    /// The figure in plain units: bytes, layers, tokens, a ratio of two. `None` where something is missing.
    pub(super) fn evaluate(&self) -> Result<Option<Ratio>> {
        if self.missing().is_some() {
            return Ok(None);
        }
        self.compute().map(Some)
    }

    pub(super) fn compute(&self) -> Result<Ratio> {
        match self {
            Self::State(state) => state.compute(),
            Self::Layers(layers) => layers.compute(),
            Self::Pattern { model, first, then } => {
                let architecture = find_entry(model)?.architecture()?;
                let wanted = first.iter().chain(then.iter().cycle());
                let fitting = architecture.layers().zip(wanted).take_while(|(layer, name)| has(layer, name));
                Ok(Ratio::whole(fitting.count() as u64))
            }
            Self::TokensPerEntry { model, mixer } => {
                let architecture = find_entry(model)?.architecture()?;
                tokens_per_entry(&architecture, mixer)
                    .ok_or_else(|| Error::setting("mixer", format!("{model} compresses nothing in {mixer}")))
            }
            Self::MaxContext { model } => {
                let architecture = find_entry(model)?.architecture()?;
                let context = architecture.max_context().map(|fact| Ratio::whole(fact.get()));
                context.ok_or_else(|| Error::field("max_position_embeddings", format!("absent in {model}")))
            }
            Self::Field { model, path } => {
                let pointer = format!("/{}", path.replace('.', "/"));
                let number = find_entry(model)?.config.pointer(&pointer).and_then(Value::as_u64);
                number
                    .map(Ratio::whole)
                    .ok_or_else(|| Error::field(path, format!("no whole number in {model}")))
            }
            Self::Quoted { figure, .. } => Ok(figure.value()),
            Self::Ratio { of, over } => of.compute()?.over(over.compute()?),
            Self::Spread(parts) => {
                let figures = parts.iter().map(Self::compute).collect::<Result<Vec<_>>>()?;
                let best = |wanted: std::cmp::Ordering| {
                    figures.iter().copied().reduce(|best, next| {
                        if next.partial_cmp(&best) == Some(wanted) { next } else { best }
                    })
                };
                let (Some(most), Some(least)) =
                    (best(std::cmp::Ordering::Greater), best(std::cmp::Ordering::Less))
                else {
                    return Err(Error::setting("spread", "no figures"));
                };
                most.over(least)
            }
            Self::Plan(inputs) => Ok(plans::figure(inputs)?.value),
            Self::Needs(what) => Err(Error::setting("needs", what)),
        }
    }
}

impl LayersOf {
    fn compute(&self) -> Result<Ratio> {
        let architecture = find_entry(&self.model)?.architecture()?;
        let counted = architecture.layers().filter(|layer| {
            let wanted = self.mixer.as_deref();
            wanted.is_none_or(|name| has(layer, name))
        });
        Ok(Ratio::whole(counted.count() as u64))
    }
}

/// What one component of a version adds to a figure.
pub(super) struct Term {
    pub(super) part: Part,
    /// How many layers count.
    pub(super) layers: u64,
    /// The figure of one layer.
    pub(super) one: Ratio,
}

impl Term {
    pub(super) fn total(&self) -> Result<Ratio> {
        self.one.times(Ratio::whole(self.layers))
    }
}

impl StateOf {
    fn compute(&self) -> Result<Ratio> {
        self.terms()?.iter().try_fold(Ratio::ZERO, |total, term| total.plus(term.total()?))
    }

    /// The components that count, each with its figure.
    pub(super) fn terms(&self) -> Result<Vec<Term>> {
        let architecture = self.architecture()?;
        let state = StateModel::new(&architecture, &self.settings)?;
        let n = self.context()?;
        let needed = || n.ok_or_else(|| Error::setting("context", "this figure needs one"));
        let counts = |part: &&Part| match &self.kinds {
            Some(kinds) => kinds.contains(&part.component.kind),
            None => true,
        };
        let mut terms = Vec::new();
        for part in state.parts().iter().filter(counts) {
            let kept = &part.component;
            let one: Ratio = match self.figure {
                StateFigure::Slope => kept.growth.slope(n)?.into(),
                StateFigure::Fixed => kept.growth.fixed(n)?.into(),
                StateFigure::Resident => kept.bytes(needed()?)?.into(),
                StateFigure::PersistedWithAllWindows => {
                    kept.persisted_bytes(needed()?, WindowPolicy::Full)?.into()
                }
                StateFigure::EveryLayerFull => match kept.growth {
                    Growth::Linear { .. } => kept.bytes(needed()?)?.into(),
                    _ => continue,
                },
            };
            let layers = match self.figure {
                StateFigure::EveryLayerFull => architecture.layer_count() as u64,
                _ => part.layers,
            };
            terms.push(Term { part: part.clone(), layers, one });
        }
        Ok(terms)
    }

    pub(super) fn context(&self) -> Result<Option<Tokens>> {
        self.context.map(Tokens::context).transpose()
    }

    fn architecture(&self) -> Result<Architecture> {
        let mut config = match (&self.model, &self.config) {
            (Some(model), None) => find_entry(model)?.config.clone(),
            (None, Some(config)) => config.clone(),
            _ => return Err(Error::setting("recipe", "give either a model or a config")),
        };
        for (path, value) in &self.with {
            let mut place = &mut config;
            for key in path.split('.') {
                let Value::Object(fields) = place else {
                    return Err(Error::field(path, "does not lie in an object"));
                };
                place = fields.entry(key).or_insert(Value::Null);
            }
            *place = value.clone();
        }
        read_config_value(&config)
    }
}

pub(super) fn has(layer: &LayerClass, mixer: &str) -> bool {
    layer.mixers.iter().any(|known| known.name() == mixer)
}

fn tokens_per_entry(architecture: &Architecture, mixer: &str) -> Option<Ratio> {
    architecture.mixers().find_map(|known| match known {
        Mixer::Compressed(attention) if known.name() == mixer => {
            attention.compression.as_ref().map(|branch| Ratio::whole(branch.ratio.get()))
        }
        _ => None,
    })
}
