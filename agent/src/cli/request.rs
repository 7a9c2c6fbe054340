//! The options that every sizing command takes: contexts, batch, engine, formats.

use clap::Args;
use kvscope_sizing::engine::{Engine, EngineKind};
use kvscope_sizing::{Architecture, Settings, Tokens, Unknown, Warning};

use super::setting_names::{self, Pair};
use crate::batch;
use crate::failure::Failure;
use crate::given;
use crate::output;

// What is asked of several models at once, and how the answer is printed. Its words would be those of the commands.
#[derive(Args, Debug)]
pub(super) struct Request {
    /// Catalogue ids, config.json or GGUF files, folders, or - for standard input
    #[arg(required = true, value_name = "MODEL")]
    pub(super) models: Vec<String>,
    #[command(flatten)]
    pub(super) contexts: Contexts,
    #[command(flatten)]
    pub(super) batch: Batch,
    #[command(flatten)]
    pub(super) accounting: Accounting,
    /// Print JSON
    #[arg(long, conflicts_with = "csv")]
    pub(super) json: bool,
    /// Print comma-separated values
    #[arg(long)]
    pub(super) csv: bool,
}

/// Contexts.
#[derive(Args, Debug)]
pub(super) struct Contexts {
    /// Tokens of each request: 100000, 100K, 128Ki, 1M; several with commas
    #[arg(long, value_delimiter = ',', value_name = "TOKENS")]
    pub(super) context: Vec<String>,
}

/// The batch, for what answers for several requests.
#[derive(Args, Debug)]
pub(super) struct Batch {
    /// Requests of that length
    #[arg(long, default_value = "1", value_name = "N")]
    batch: String,
}

/// Engine and formats.
#[derive(Args, Debug)]
pub(super) struct Accounting {
    /// Whose accounting: logical (dense bytes), vllm@0.33, sglang@0.5.23, llama.cpp, trtllm, transformers
    #[arg(long, default_value = "logical", value_name = "ENGINE")]
    engine: String,
    /// Format of K/V values, latents and entries: `bf16`, `f16`, `fp8`, `fp8_ds_mla`, `q8_0`, …
    #[arg(long, value_name = "FORMAT")]
    kv_dtype: Option<String>,
    /// Format of index keys: fp8, fp4, bf16
    #[arg(long, value_name = "FORMAT")]
    index_dtype: Option<String>,
    /// Format of recurrent state: f32, bf16, f16
    #[arg(long, value_name = "FORMAT")]
    state_dtype: Option<String>,
    /// Tensor-parallel ranks
    #[arg(long, value_name = "N")]
    tp: Option<String>,
    /// Pipeline-parallel ranks
    #[arg(long, value_name = "N")]
    pp: Option<String>,
    /// Decode-context-parallel ranks
    #[arg(long, value_name = "N")]
    dcp: Option<String>,
    /// Any other setting by its name; `--set help` lists the names by engine
    #[arg(long = "set", value_name = "NAME=VALUE", value_parser = Pair)]
    settings: Vec<String>,
    /// Refuse a config with fields that could change the state and that no rule knows
    #[arg(long)]
    strict: bool,
}

impl Contexts {
    pub(super) fn tokens(&self) -> Result<Vec<Tokens>, Failure> {
        self.context.iter().map(|text| Ok(text.parse()?)).collect()
    }

    /// Every context that is given; a single absent one asks for slope and fixed part alone.
    pub(super) fn each(&self) -> Result<Vec<Option<Tokens>>, Failure> {
        let given: Vec<Option<Tokens>> = self.tokens()?.into_iter().map(Some).collect();
        Ok(if given.is_empty() { vec![None] } else { given })
    }

    /// One context, 100,000 tokens where none is given.
    pub(super) fn one(&self) -> Result<Tokens, Failure> {
        match self.tokens()?.as_slice() {
            [] => Ok(Tokens::new(100_000)),
            [one] => Ok(*one),
            _ => Err(Failure::input("context: this command takes one length, not several")),
        }
    }

    /// One context; where none is given the usual one, or all that the config allows where that is less.
    pub(super) fn one_of(&self, architecture: &Architecture) -> Result<Tokens, Failure> {
        let usual = self.one()?;
        let limit = architecture.max_context().map(|fact| Tokens::new(fact.get()));
        Ok(limit.filter(|limit| self.context.is_empty() && *limit < usual).unwrap_or(usual))
    }

    /// Every context that is given, that of [`Self::one_of`] where none is.
    pub(super) fn given_or_usual(&self, architecture: &Architecture) -> Result<Vec<Tokens>, Failure> {
        let given = self.tokens()?;
        if given.is_empty() { Ok(vec![self.one_of(architecture)?]) } else { Ok(given) }
    }
}

impl Batch {
    pub(super) fn count(&self) -> Result<u64, Failure> {
        batch::read(&self.batch)
    }
}

impl Accounting {
    /// What becomes of config fields that no rule knows.
    pub(super) fn unknown(&self) -> Unknown {
        if self.strict { Unknown::Refuse } else { Unknown::Warn }
    }

    /// The settings, for commands that show logical bytes alone: what only an engine accounts for is refused.
    pub(super) fn logical_settings(&self) -> Result<Settings, Failure> {
        self.logical_settings_and(&[])
    }

    /// As [`Self::logical_settings`], for a command that answers for the settings named in `answered` too.
    pub(super) fn logical_settings_and(&self, answered: &[&str]) -> Result<Settings, Failure> {
        if self.engine()?.kind() != EngineKind::Logical {
            let engine = &self.engine;
            return Err(Failure::input(format!(
                "engine: this command shows logical bytes; for {engine} use `kvscope size`"
            )));
        }
        let settings = self.settings()?;
        match engine_setting(&settings, answered) {
            None => Ok(settings),
            Some(name) => Err(Failure::input(format!(
                "{name}: this command shows what the model's own layers keep, without ranks, blocks or drafts; use `kvscope size`"
            ))),
        }
    }

    /// The engine with its settings; what only an engine accounts for is refused where none is named.
    pub(super) fn engine_with_settings(&self) -> Result<(Engine, Settings), Failure> {
        let (engine, settings) = (self.engine()?, self.settings()?);
        match engine_setting(&settings, &[]).filter(|_| engine.kind() == EngineKind::Logical) {
            None => Ok((engine, settings)),
            Some(name) => Err(Failure::input(format!(
                "{name}: logical bytes do not change with it; name an engine with --engine"
            ))),
        }
    }

    pub(super) fn engine(&self) -> Result<Engine, Failure> {
        Ok(self.engine.parse()?)
    }

    pub(super) fn settings(&self) -> Result<Settings, Failure> {
        let named = [
            ("kv_dtype", &self.kv_dtype),
            ("index_dtype", &self.index_dtype),
            ("state_dtype", &self.state_dtype),
            ("tp", &self.tp),
            ("pp", &self.pp),
            ("dcp", &self.dcp),
        ];
        let mut pairs: Vec<(&str, &str)> =
            named.into_iter().filter_map(|(name, value)| Some((name, value.as_deref()?))).collect();
        for pair in &self.settings {
            let (name, value) = pair
                .split_once('=')
                .ok_or_else(|| Failure::input(format!("set: {pair:?} is not NAME=VALUE")))?;
            let name = name.trim();
            given::named(name, value)?;
            if OPTIONS_ALONE.contains(&name) {
                let what = "is set by no NAME=VALUE; a command that answers for it has the option";
                return Err(Failure::input(format!("set: {name} {what} --{name}")));
            }
            setting_names::check(name, &self.engine()?)?;
            pairs.push((name, value.trim()));
        }
        given::settings(pairs)
    }
}

/// Settings that are given by options of their own, by commands that answer for them.
pub(super) const OPTIONS_ALONE: [&str; 2] = ["context", "batch"];

/// Options that only an engine accounts for.
const OF_ENGINES: [&str; 4] = ["engine", "tp", "pp", "dcp"];

/// Leaves them out of the help of commands that show logical bytes alone and refuse them.
pub(super) fn hide_engines(option: clap::Arg) -> clap::Arg {
    let is_of_engines = OF_ENGINES.contains(&option.get_id().as_str());
    option.hide(is_of_engines)
}

/// Says so in the help of commands that answer one length.
pub(super) fn takes_one_context(option: clap::Arg) -> clap::Arg {
    if option.get_id() != "context" {
        return option;
    }
    option.help("Tokens of each request, one length: 100000, 100K, 128Ki, 1M")
}

/// The first setting outside `answered` that only an engine accounts for.
fn engine_setting(settings: &Settings, answered: &[&str]) -> Option<String> {
    let given = serde_json::to_value(settings).expect("settings are numbers and words");
    let given = given.as_object().expect("settings are an object").clone();
    given.into_iter().find_map(|(name, value)| {
        let alone = serde_json::Map::from_iter([(name.clone(), value)]);
        let alone: Settings = serde_json::from_value(alone.into()).expect("a part of what was written above");
        (alone.names_an_engine() && !answered.contains(&name.as_str())).then_some(name)
    })
}

/// Prints the warnings of several answers, each with its model's label, each once.
pub(super) fn warn_of_all<'w>(answers: impl IntoIterator<Item = (&'w str, &'w [Warning])>) {
    warn(
        answers
            .into_iter()
            .flat_map(|(label, warnings)| warnings.iter().map(move |warning| (label, warning))),
    );
}

/// Prints the warnings of several figures, each once.
pub(super) fn warn<'w>(warnings: impl IntoIterator<Item = (&'w str, &'w Warning)>) {
    let mut told = Vec::new();
    for (label, warning) in warnings {
        let line = format!("{label}: {warning}");
        if !told.contains(&line) {
            output::warning(&line);
            told.push(line);
        }
    }
}
