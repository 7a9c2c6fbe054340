use clap::Args;
use kvscope_sizing::UnitSystem;
use kvscope_sizing::plan::prefix::{PrefixPlan, SharedPrefix, reuse};
use kvscope_sizing::plan::{Given, Moving, Subject, prefix_question, typed_prefix, vllm_of};

use super::{Around, Asked, text};
use crate::cli::request::Accounting;
use crate::failure::Failure;
use crate::input::Files;
use crate::model::Model;

#[derive(Args, Debug)]
pub(super) struct Arguments {
    /// Catalogue ids, config.json or GGUF files, folders, or - for standard input
    #[arg(required = true, value_name = "MODEL")]
    models: Vec<String>,
    /// Tokens of the first request's prompt
    #[arg(long, value_name = "TOKENS", required_unless_present = "first_tokens")]
    first: Option<String>,
    /// Tokens of the second request's prompt; the first one's where absent
    #[arg(long, value_name = "TOKENS", conflicts_with = "first_tokens")]
    second: Option<String>,
    /// Tokens from the first on that both have; all of the shorter prompt where absent
    #[arg(long, value_name = "TOKENS", conflicts_with = "first_tokens")]
    shared: Option<String>,
    /// The first prompt as token ids: a JSON list, or numbers with spaces
    #[arg(long, value_name = "FILE", requires = "second_tokens", conflicts_with = "first")]
    first_tokens: Option<String>,
    /// The second prompt as token ids
    #[arg(long, value_name = "FILE", requires = "first_tokens", conflicts_with_all = ["first", "second", "shared"])]
    second_tokens: Option<String>,
    /// Tokens between the windows that a periodic disk store keeps
    #[arg(long, default_value = "4096", value_name = "TOKENS")]
    every: String,
    #[command(flatten)]
    accounting: Accounting,
    #[command(flatten)]
    moves: text::Moves,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Far more token ids than any context has.
const LARGEST_TOKENS: u64 = 256 << 20;

impl Asked for Arguments {
    type Answer = Vec<PrefixPlan>;

    fn answer(&self, around: &Around<'_>) -> Result<Vec<PrefixPlan>, Failure> {
        plans(self, around)
    }

    fn wants_json(&self) -> bool {
        self.json
    }

    fn print(&self, plans: &Vec<PrefixPlan>) -> Result<(), Failure> {
        let text = |plan: &PrefixPlan| text::of(&plan.sheet(UnitSystem::Decimal), self.moves.shows());
        super::print(plans, text, |plan| (&plan.model, &plan.warnings))
    }
}

fn plans(arguments: &Arguments, around: &Around<'_>) -> Result<Vec<PrefixPlan>, Failure> {
    let settings = arguments.accounting.settings()?;
    let engine = vllm_of(arguments.accounting.engine()?);
    let given = Given::of([
        ("first", arguments.first.clone()),
        ("second", arguments.second.clone()),
        ("shared", arguments.shared.clone()),
        ("every", Some(arguments.every.clone())),
    ]);
    let prefix = match (&arguments.first_tokens, &arguments.second_tokens) {
        (Some(first), Some(second)) => {
            SharedPrefix::of_ids(&ids(first, around.files)?, &ids(second, around.files)?)?
        }
        _ => typed_prefix(&given)?,
    };
    let mut plans = Vec::new();
    for name in &arguments.models {
        let model = Model::load_from(around.files, name, arguments.accounting.unknown())?;
        let subject = Subject { model: &model.label, ..model.subject() };
        let question = prefix_question(&subject, &engine, &settings, prefix, &given, Moving::Inputs);
        let plan = question.and_then(|question| reuse(&question));
        plans.push(plan.map_err(|error| model.failure(&error))?);
    }
    Ok(plans)
}

/// Token ids of a file.
fn ids(file: &str, files: Files<'_>) -> Result<Vec<u64>, Failure> {
    let text = files.read_text(file, LARGEST_TOKENS, "give the prompt's token ids alone")?;
    let label = files.label(file);
    if text.trim_start().starts_with('[') {
        return serde_json::from_str(&text).map_err(|error| Failure::input(format!("{label}: {error}")));
    }
    let id = |word: &str| {
        word.parse().map_err(|_| Failure::input(format!("{label}: {word:?} is no token id; give numbers")))
    };
    text.split([',', ' ', '\t', '\n', '\r']).filter(|word| !word.is_empty()).map(id).collect()
}
