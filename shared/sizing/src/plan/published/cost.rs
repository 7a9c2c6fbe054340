//! Operations, bytes read and parameters, as claims ask for them.

use serde_json::{Map, Value};

use super::{Inputs, settings_of};
use crate::architecture::Architecture;
use crate::claims::PublishedFigure;
use crate::config::read_config_value;
use crate::cost::{CostOf, FlopWeights, ModelCost, Operand, Part, Types};
use crate::parameters::Parameters;
use crate::record::FromJson;
use crate::settings::Settings;
use crate::{Error, Ratio, Result, Tokens, find_entry, group_digits};

/// A version with everything that its cost depends on.
struct Model {
    name: String,
    architecture: Architecture,
    parameters: Parameters,
    settings: Settings,
    types: Types,
    weights: FlopWeights,
}

impl Model {
    /// `model` and `with`, `settings`, `weights`, `experts`, `core` and `flop_weights` of a recipe.
    fn read(inputs: &mut Inputs<'_>) -> Result<Self> {
        let entry = find_entry(&inputs.get::<String>("model")?)?;
        let mut config = entry.config.clone();
        for (key, value) in inputs.get::<Option<Fields>>("with")?.unwrap_or_default().0 {
            config[key] = value;
        }
        let architecture = read_config_value(&config)?;
        let settings = settings_of(inputs)?;
        let mut types = Types::of(&architecture);
        if let Some(weights) = inputs.get::<Option<Operand>>("weights")? {
            types = types.in_one(weights);
        }
        types.core = inputs.get::<Option<Operand>>("core")?.unwrap_or(types.core);
        let weights = match inputs.get::<Option<String>>("flop_weights")? {
            Some(given) => FlopWeights::given(&given)?,
            None => FlopWeights::plain(),
        };
        let parameters = Parameters::of(&config, &architecture)?;
        Ok(Self { name: entry.name.clone(), architecture, parameters, settings, types, weights })
    }

    fn of(&self) -> CostOf<'_> {
        CostOf {
            architecture: &self.architecture,
            parameters: &self.parameters,
            settings: &self.settings,
            types: self.types,
            weights: self.weights,
        }
    }

    fn decode(&self, n: Tokens) -> Result<ModelCost> {
        self.of().decode(n, 1)
    }
}

/// The fields of an object.
#[derive(Default)]
struct Fields(Map<String, Value>);

impl FromJson for Fields {
    fn from_json(value: &Value) -> Result<Self> {
        crate::record::object(value).map(|object| Self(object.clone()))
    }
}

/// Weighted operations of one decode step at `context`.
pub(super) fn step_flops(inputs: &mut Inputs<'_>) -> Result<PublishedFigure> {
    let model = Model::read(inputs)?;
    let n = Tokens::context(inputs.get("context")?)?;
    let cost = model.decode(n)?;
    Ok(PublishedFigure {
        value: cost.weighted_flops,
        what: format!("{}: operations of one decode step at {}, by weight", model.name, n.counted()),
        worked: by_part(&model, &cost)?,
    })
}

/// How much the weighted operations of a step grow from one length to another.
pub(super) fn step_flops_growth(inputs: &mut Inputs<'_>) -> Result<PublishedFigure> {
    let model = Model::read(inputs)?;
    let [from, to] = [Tokens::context(inputs.get("from")?)?, Tokens::context(inputs.get("to")?)?];
    let [before, after] = [model.decode(from)?, model.decode(to)?];
    let value = after.weighted_flops.over(before.weighted_flops)?.minus(Ratio::whole(1))?;
    Ok(PublishedFigure {
        value,
        what: format!("{}: growth of a decode step's operations from {from} to {}", model.name, to.counted()),
        worked: format!("({}) ÷ ({}) − 1", by_part(&model, &after)?, by_part(&model, &before)?),
    })
}

/// Bytes of state that some `parts` of one decode step read at `context`.
pub(super) fn step_read(inputs: &mut Inputs<'_>) -> Result<PublishedFigure> {
    let model = Model::read(inputs)?;
    let n = Tokens::context(inputs.get("context")?)?;
    let parts: Vec<Part> = inputs.get("parts")?;
    let cost = model.decode(n)?;
    let mut terms = Vec::new();
    let mut total = 0;
    for row in cost.rows.iter().filter(|row| parts.contains(&row.part)) {
        let bytes = row.state_read_bytes.get();
        if bytes > 0 {
            total += bytes;
            terms.push(format!("{} {} B", row.part.name(), group_digits(bytes)));
        }
    }
    Ok(PublishedFigure {
        value: Ratio::whole(total),
        what: format!("{}: bytes of state that one decode step reads at {}", model.name, n.counted()),
        worked: terms.join(" + "),
    })
}

/// Operations for each byte of state that a part of one decode step reads.
pub(super) fn intensity(inputs: &mut Inputs<'_>) -> Result<PublishedFigure> {
    let model = Model::read(inputs)?;
    let n = Tokens::context(inputs.get("context")?)?;
    let part: Part = inputs.get("part")?;
    let cost = model.decode(n)?;
    let rows = || cost.rows.iter().filter(|row| row.part == part);
    let flops: u64 = rows().map(|row| row.flops).sum();
    let bytes: u64 = rows().map(|row| row.state_read_bytes.get()).sum();
    Ok(PublishedFigure {
        value: Ratio::whole(flops).over(Ratio::whole(bytes))?,
        what: format!("{}: operations of the {} for each byte that it reads", model.name, part.name()),
        worked: format!("{} ÷ {} B", group_digits(flops), group_digits(bytes)),
    })
}

/// Parameters of a model: all, or those that a token is multiplied by.
pub(super) fn parameters(inputs: &mut Inputs<'_>) -> Result<PublishedFigure> {
    let model = Model::read(inputs)?;
    let which: String = inputs.get("which")?;
    let count = match which.as_str() {
        "total" => model.parameters.total,
        "active" => model.parameters.active,
        other => return Err(Error::field("which", format!("{other:?} is neither total nor active"))),
    };
    let largest =
        |row: &&crate::parameters::ParameterRow| if which == "total" { row.total } else { row.active };
    let mut rows: Vec<_> = model.parameters.rows.iter().filter(|row| largest(row) > 0).collect();
    crate::sort_short(&mut rows, |a, b| largest(a) < largest(b));
    let terms: Vec<String> = rows
        .iter()
        .map(|row| {
            let layers = crate::counted(row.layers, "layer", "layers");
            format!("{} of {layers} {}", row.part.name(), group_digits(largest(row)))
        })
        .collect();
    Ok(PublishedFigure {
        value: Ratio::whole(count),
        what: format!("{}: {which} parameters, counted from the config", model.name),
        worked: terms.join(" + "),
    })
}

/// `projections 23.1 G + core 70.0 G`
fn by_part(model: &Model, cost: &ModelCost) -> Result<String> {
    let mut parts: Vec<(Part, Ratio)> = Vec::new();
    for row in &cost.rows {
        let weighted = Ratio::whole(row.flops).times(model.weights.of(row.operand))?;
        match parts.iter_mut().find(|(part, _)| *part == row.part) {
            Some((_, sum)) => *sum = sum.plus(weighted)?,
            None => parts.push((row.part, weighted)),
        }
    }
    let words = parts.iter().map(|(part, sum)| format!("{} {:.1} G", part.name(), sum.as_f64() / 1e9));
    Ok(words.collect::<Vec<_>>().join(" + "))
}
