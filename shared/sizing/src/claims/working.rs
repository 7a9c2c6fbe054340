//! How the computed figure of a claim comes about, step by step.

use serde::Serialize;
use serde_json::Value;

use super::evaluate::{Term, has};
use super::plans;
use super::recipe::{Recipe, StateFigure, StateOf};
use super::words::figure;
use super::{CheckedClaim, Claim};
use crate::catalogue::find_entry;
use crate::growth::Growth;
use crate::state::counted;
use crate::{Ratio, Result, group_digits, layer_ranges};

/// One step of a computation, and the steps that it is made of.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
pub struct Working {
    /// What is computed.
    pub what: String,
    /// How, with its result: `15 layers × 100,000 entries × 2,048 B = 3,072,000,000 B`.
    pub worked: String,
    /// What it is made of; empty where nothing is below it.
    pub parts: Vec<Working>,
}

impl Working {
    fn new(what: impl Into<String>, worked: impl Into<String>, parts: Vec<Self>) -> Self {
        Self { what: what.into(), worked: worked.into(), parts }
    }
}

impl CheckedClaim {
    /// The steps of the computed figure, the last of which compares it with the published one.
    ///
    /// # Errors
    ///
    /// What the figure itself reports.
    pub fn working(&self) -> Result<Vec<Working>> {
        let mut steps = vec![self.claim.recipe.working()?];
        if self.computed.is_some() {
            steps.push(self.claim.comparison(&self.computed_words(), &self.difference_words()));
        }
        Ok(steps)
    }
}

impl Claim {
    fn comparison(&self, computed: &str, difference: &str) -> Working {
        let unit = self.unit.name();
        let worked = format!("{computed} {unit} − {} {unit} = {difference} {unit}", self.published_words());
        Working::new("computed less published", worked, Vec::new())
    }
}

impl Recipe {
    fn working(&self) -> Result<Working> {
        if let Some(needs) = self.missing() {
            return Ok(Working::new("not computed", format!("needs {needs}"), Vec::new()));
        }
        let value = self.compute()?;
        let is = |what: String, parts: Vec<Working>| Working::new(what, figure(value), parts);
        Ok(match self {
            Self::State(state) => state.working(value)?,
            Self::Layers(layers) => {
                let architecture = find_entry(&layers.model)?.architecture()?;
                let wanted = |name: &String| {
                    architecture
                        .layers()
                        .enumerate()
                        .filter(|(_, layer)| has(layer, name))
                        .map(|(at, _)| at)
                        .collect()
                };
                let places: Option<Vec<usize>> = layers.mixer.as_ref().map(wanted);
                let (with, worked) = match (&layers.mixer, places) {
                    (Some(mixer), Some(places)) if !places.is_empty() => {
                        (format!(" with {mixer}"), format!("{}: {}", figure(value), layer_ranges(&places)))
                    }
                    (Some(mixer), _) => (format!(" with {mixer}"), figure(value)),
                    (None, _) => (String::new(), figure(value)),
                };
                Working::new(format!("layers of {}{with}", name(&layers.model)?), worked, Vec::new())
            }
            Self::Pattern { model, first, then } => {
                let order = format!("{}, then {} in turn", first.join(", "), then.join(", "));
                is(format!("layers of {}, from the first on, that are {order}", name(model)?), Vec::new())
            }
            Self::TokensPerEntry { model, mixer } => {
                is(format!("tokens of one entry in the {mixer} layers of {}", name(model)?), Vec::new())
            }
            Self::MaxContext { model } => is(
                format!("the longest context that the config of {} allows, in tokens", name(model)?),
                Vec::new(),
            ),
            Self::Field { model, path } => {
                is(format!("{path} in the config of {}", name(model)?), Vec::new())
            }
            Self::Quoted { of, .. } => is(format!("printed by the source: {of}"), Vec::new()),
            Self::Ratio { of, over } => {
                let worked =
                    format!("{} ÷ {} = {}", figure(of.compute()?), figure(over.compute()?), figure(value));
                Working::new("the first over the second", worked, vec![of.working()?, over.working()?])
            }
            Self::Spread(parts) => is(
                "the largest over the smallest".to_owned(),
                parts.iter().map(Self::working).collect::<Result<_>>()?,
            ),
            Self::Plan(inputs) => {
                let of = plans::figure(inputs)?;
                Working::new(of.what, of.worked, Vec::new())
            }
            Self::Needs(_) => unreachable!("it is missing something"),
        })
    }
}

impl StateOf {
    fn working(&self, total: Ratio) -> Result<Working> {
        let what = match self.figure {
            StateFigure::Resident => "bytes held",
            StateFigure::Slope => "bytes that one more token adds",
            StateFigure::Fixed => "bytes that do not grow",
            StateFigure::PersistedWithAllWindows => {
                "bytes on disk if the window entries of every token are stored"
            }
            StateFigure::EveryLayerFull => "bytes held if every layer kept every token",
        };
        let mut words = vec![format!("{}: {what}", self.version()?)];
        if let Some(n) = self.context()? {
            words.push(format!("at {}", n.counted()));
        }
        words.extend(self.with.iter().map(|(path, value)| format!("with {path} = {}", plain(value))));
        if let Some(kinds) = &self.kinds {
            let labels: Vec<&str> = kinds.iter().map(|kind| kind.label()).collect();
            words.push(format!("{} alone", labels.join(", ")));
        }
        let parts = self.terms()?.iter().map(|term| self.term(term)).collect::<Result<_>>()?;
        Ok(Working::new(words.join(", "), format!("{} {}", figure(total), self.unit()), parts))
    }

    fn unit(&self) -> &'static str {
        if self.figure == StateFigure::Slope { "B/token" } else { "B" }
    }

    fn version(&self) -> Result<String> {
        match (&self.model, &self.config) {
            (Some(model), _) => name(model),
            (None, Some(Value::Object(config))) => {
                let fields: Vec<String> =
                    config.iter().map(|(field, value)| format!("{field} {}", plain(value))).collect();
                Ok(format!("a config of {}", fields.join(", ")))
            }
            _ => Ok("no version".to_owned()),
        }
    }

    /// One component: its product, and below it the formula of one entry with the config fields that it takes.
    fn term(&self, term: &Term) -> Result<Working> {
        let component = &term.part.component;
        let held = matches!(self.figure, StateFigure::Resident | StateFigure::EveryLayerFull);
        let worked = if let Some(n) = self.context()?.filter(|_| held) {
            component.product(term.layers, n, 1)?
        } else {
            let (layers, unit) = (counted(term.layers, "layer", "layers"), self.unit());
            format!("{layers} × {} {unit} = {} {unit}", figure(term.one), figure(term.total()?))
        };
        let of_one = if matches!(component.growth, Growth::Constant { .. }) { "a layer" } else { "an entry" };
        let derivation = &component.derivation;
        let entry = format!("{} = {} B {of_one}", derivation.worked(), group_digits(derivation.result.get()));
        let inputs = derivation.inputs.iter().map(|input| {
            let value = format!("{}, from {}", group_digits(input.value), input.source);
            Working::new(input.symbol, value, Vec::new())
        });
        let entry = Working::new(derivation.formula.clone(), entry, inputs.collect());
        let what = format!(
            "{} in {}, layers {}",
            component.kind.label(),
            component.format,
            layer_ranges(term.part.places())
        );
        Ok(Working::new(what, worked, vec![entry]))
    }
}

fn name(model: &str) -> Result<String> {
    Ok(find_entry(model)?.name.clone())
}

/// A text without its quotes.
fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}
