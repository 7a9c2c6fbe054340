use clap::Args;
use kvscope_sizing::{Comparison, UnitSystem, compare};

use super::request::{Accounting, Contexts, warn};
use crate::failure::Failure;
use crate::model::Model;
use crate::output::{self, Figures};

#[derive(Args, Debug)]
pub(super) struct Arguments {
    /// The first version
    #[arg(value_name = "MODEL")]
    from: String,
    /// The second version
    #[arg(value_name = "MODEL")]
    to: String,
    #[command(flatten)]
    contexts: Contexts,
    #[command(flatten)]
    accounting: Accounting,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(super) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let settings = arguments.accounting.settings()?;
    let n = arguments.contexts.one()?;
    if arguments.contexts.batch()? != 1 {
        return Err(Failure::input("batch: compare shows one request; leave batch out"));
    }
    let models = [Model::load(&arguments.from)?, Model::load(&arguments.to)?];
    let states = [models[0].state(&settings)?, models[1].state(&settings)?];
    let comparison = compare((&models[0].label, &states[0]), (&models[1].label, &states[1]), n)?;
    if arguments.json {
        output::json(&comparison);
        return Ok(());
    }
    output::figures(&format!("{}\n\n{}", comparison.sentence, table(&comparison).render()));
    let warnings = models.iter().flat_map(|model| {
        model.architecture.warnings().iter().map(|warning| (model.label.as_str(), warning))
    });
    warn(warnings);
    Ok(())
}

fn table(comparison: &Comparison) -> Figures {
    let [from, to] = [comparison.from.as_str(), comparison.to.as_str()];
    let mut table = Figures::new(1, &["", from, to, "change"]);
    for change in &comparison.components {
        let name = change.kind.name();
        let layers = change.layers;
        table.row([
            format!("{name} layers"),
            layers[0].to_string(),
            layers[1].to_string(),
            difference(layers),
        ]);
        let bytes = change.bytes.map(kvscope_sizing::Bytes::get);
        table.row([format!("{name} bytes"), bytes_cell(bytes[0]), bytes_cell(bytes[1]), ratio(bytes)]);
    }
    let slope = comparison.slope_bytes_per_token;
    let slope_ratio = if slope[0].as_f64() > 0.0 {
        format!("{:.3}×", slope[1].as_f64() / slope[0].as_f64())
    } else {
        "–".to_owned()
    };
    table.row(["slope".to_owned(), slope[0].to_string(), slope[1].to_string(), slope_ratio]);
    for (name, bytes) in [("fixed", comparison.fixed_bytes), ("resident", comparison.resident_bytes)] {
        let counts = bytes.map(kvscope_sizing::Bytes::get);
        table.row([name.to_owned(), bytes_cell(counts[0]), bytes_cell(counts[1]), ratio(counts)]);
    }
    table
}

fn bytes_cell(count: u64) -> String {
    let bytes = kvscope_sizing::Bytes::new(count);
    format!("{bytes} ({})", bytes.display(UnitSystem::Decimal))
}

fn difference([from, to]: [u64; 2]) -> String {
    if to >= from { format!("+{}", to - from) } else { format!("−{}", from - to) }
}

fn ratio([from, to]: [u64; 2]) -> String {
    if from == 0 { "–".to_owned() } else { format!("{:.3}×", to as f64 / from as f64) }
}
