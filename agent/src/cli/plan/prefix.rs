use clap::Args;
use kvscope_sizing::engine::{Engine, EngineKind};
use kvscope_sizing::plan::prefix::{PrefixPlan, PrefixQuestion, SharedPrefix, reuse};
use kvscope_sizing::{Tokens, UnitSystem, group_digits};

use super::quantity::percent_words;
use super::{Around, Asked};
use crate::cli::request::Accounting;
use crate::failure::Failure;
use crate::input::Files;
use crate::model::Model;
use crate::output::Figures;

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
    #[arg(long, value_name = "FILE", requires = "first_tokens")]
    second_tokens: Option<String>,
    /// Tokens between the windows that a periodic disk store keeps
    #[arg(long, default_value = "4096", value_name = "TOKENS")]
    every: String,
    #[command(flatten)]
    accounting: Accounting,
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
        super::print(plans, table, |plan| (&plan.model, &plan.warnings))
    }
}

fn plans(arguments: &Arguments, around: &Around<'_>) -> Result<Vec<PrefixPlan>, Failure> {
    let settings = arguments.accounting.settings()?;
    let vllm = vllm(arguments.accounting.engine()?)?;
    let prefix = arguments.prefix(around.files)?;
    let interval = tokens("every", &arguments.every)?;
    let mut plans = Vec::new();
    for name in &arguments.models {
        let model = Model::load_from(around.files, name, arguments.accounting.unknown())?;
        let question = PrefixQuestion {
            model: &model.label,
            architecture: &model.architecture,
            settings: &settings,
            vllm: &vllm,
            prefix,
            interval,
        };
        plans.push(reuse(&question).map_err(|error| model.failure(&error))?);
    }
    Ok(plans)
}

/// The vLLM whose blocks are asked for: the newest where no engine is named.
fn vllm(engine: Engine) -> Result<Engine, Failure> {
    match engine.kind() {
        EngineKind::Logical => Ok(Engine::newest(EngineKind::Vllm)),
        EngineKind::Vllm => Ok(engine),
        _ => Err(Failure::input(format!(
            "engine: {engine} has a row of its own; --engine names the version of vLLM here: vllm@0.33"
        ))),
    }
}

impl Arguments {
    fn prefix(&self, files: Files<'_>) -> Result<SharedPrefix, Failure> {
        if let (Some(first), Some(second)) = (&self.first_tokens, &self.second_tokens) {
            return Ok(SharedPrefix::of_ids(&ids(first, files)?, &ids(second, files)?)?);
        }
        let given =
            |name: &str, text: &Option<String>| text.as_ref().map(|text| tokens(name, text)).transpose();
        let first = given("first", &self.first)?.unwrap_or_default();
        let second = given("second", &self.second)?.unwrap_or(first);
        let shared = given("shared", &self.shared)?.unwrap_or(first.min(second));
        Ok(SharedPrefix::new(first, second, shared)?)
    }
}

fn tokens(name: &str, text: &str) -> Result<Tokens, Failure> {
    let count = kvscope_sizing::parse_count(text).map_err(|why| Failure::input(format!("{name}: {why}")))?;
    if count > Tokens::MAX.get() {
        return Err(Failure::input(format!("{name}: {text} is more than any context")));
    }
    Ok(Tokens::new(count))
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

fn table(plan: &PrefixPlan) -> String {
    let header = [
        "rule",
        "hit",
        "lost",
        "replayed",
        "computed",
        "saved",
        "kept a token",
        "taken over",
        "written / read",
        "where a hit ends",
    ];
    let mut table = Figures::new(1, &header).text_last();
    for row in &plan.rules {
        let amplification =
            row.write_amplification.map_or("–".to_owned(), |ratio| format!("{:.2}×", ratio.as_f64()));
        table.row([
            row.rule.replace('_', " "),
            row.hit_tokens.to_string(),
            row.lost_tokens.to_string(),
            row.replayed_tokens.to_string(),
            row.computed_tokens.to_string(),
            percent_words(row.saved_share.as_f64()),
            format!("{:.0} B", row.kept_bytes_per_token.as_f64()),
            row.reused_bytes.display(UnitSystem::Decimal),
            amplification,
            row.why.clone(),
        ]);
    }
    let prefix = &plan.prefix;
    format!(
        "{}: {} tokens, then {} that share the first {}; periodic windows every {}\n{}",
        plan.model,
        prefix.first_tokens,
        prefix.second_tokens,
        prefix.shared_tokens,
        group_digits(plan.interval_tokens.get()),
        table.render()
    )
}
