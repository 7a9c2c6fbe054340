use clap::Args;
use kvscope_sizing::plan::simulation::{Compare, Trace};
use kvscope_sizing::plan::{
    Given, Moving, NamedTrace, SimulationAnswer, Subject, simulation_of, typed_block, typed_trace,
};
use kvscope_sizing::{Settings, UnitSystem};

use super::{Around, Asked, text};
use crate::cli::request::Accounting;
use crate::failure::Failure;
use crate::model::Model;

/// What is replayed.
#[derive(Args, Debug)]
pub(in crate::cli) struct Question {
    /// Catalogue ids, config.json or GGUF files, folders, or - for standard input
    #[arg(required = true, value_name = "MODEL")]
    models: Vec<String>,
    /// Requests as JSON lines: `timestamp` (ms), `input_length`, `output_length`, `hash_ids`, as in the public Mooncake traces
    #[arg(long, value_name = "FILE", required_unless_present = "synthetic")]
    trace: Option<String>,
    /// So many made requests of that shape in place of a file
    #[arg(long, value_name = "REQUESTS", conflicts_with = "trace")]
    synthetic: Option<String>,
    /// Makes other made requests
    #[arg(long, default_value = "1", value_name = "N", requires = "synthetic")]
    seed: u64,
    /// Tokens of a block
    #[arg(long, default_value = "512", value_name = "TOKENS")]
    block: String,
    /// Where state is kept, the nearest first: gpu=40GB, host=1TB, gpu=1000blocks, ssd=unlimited
    #[arg(long = "tier", required = true, value_name = "NAME=SIZE")]
    tiers: Vec<String>,
    /// Blocks that are brought to the first tier after a request
    #[arg(long, default_value = "0", value_name = "BLOCKS")]
    prefetch: u64,
    /// Tokens of a prompt a second, to count the state of running requests
    #[arg(long, value_name = "RATE", requires = "decode_rate")]
    prefill_rate: Option<String>,
    /// Tokens of an answer a second, for each request
    #[arg(long, value_name = "RATE", requires = "prefill_rate")]
    decode_rate: Option<String>,
    /// Leave out the comparison with Belady's rule
    #[arg(long)]
    no_optimum: bool,
    #[command(flatten)]
    accounting: Accounting,
}

#[derive(Args, Debug)]
pub(super) struct Arguments {
    #[command(flatten)]
    question: Question,
    /// What a tenth of each input does to the share of blocks taken over, which takes two more replays an input
    #[arg(long)]
    sensitivities: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// A million requests of the usual shape are about 200 MB.
const LARGEST_TRACE: u64 = 4 << 30;

impl Asked for Arguments {
    type Answer = Vec<SimulationAnswer>;

    fn answer(&self, around: &Around<'_>) -> Result<Vec<SimulationAnswer>, Failure> {
        let moving = if self.sensitivities { Moving::Inputs } else { Moving::Nothing };
        self.question.answers(around, moving)
    }

    fn wants_json(&self) -> bool {
        self.json
    }

    fn print(&self, answers: &Vec<SimulationAnswer>) -> Result<(), Failure> {
        let text = |answer: &SimulationAnswer| {
            let shows = if self.sensitivities { text::Shows::EveryInput } else { text::Shows::Most };
            text::of(&answer.sheet(UnitSystem::Decimal), shows)
        };
        super::print(answers, text, |answer| (&answer.model, &answer.warnings))
    }
}

impl Question {
    fn answers(&self, around: &Around<'_>, moving: Moving) -> Result<Vec<SimulationAnswer>, Failure> {
        let settings = self.accounting.logical_settings()?;
        let given = self.given();
        let named = self.trace(&given, around)?;
        let mut answers = Vec::new();
        for name in &self.models {
            let model = Model::load_from(around.files, name, self.accounting.unknown())?;
            answers.push(self.answer(&model, &model.label, &settings, &named, moving)?);
        }
        Ok(answers)
    }

    fn answer(
        &self,
        model: &Model,
        label: &str,
        settings: &Settings,
        named: &NamedTrace,
        moving: Moving,
    ) -> Result<SimulationAnswer, Failure> {
        let tiers: Vec<&str> = self.tiers.iter().map(String::as_str).collect();
        let optimum = if self.no_optimum { Compare::Alone } else { Compare::WithOptimum };
        let subject = Subject { model: label, ..model.subject() };
        let answer = simulation_of(&subject, settings, named, &tiers, &self.given(), optimum, moving);
        answer.map_err(|error| model.failure(&error))
    }

    /// The replay of the one version that a figure is of, under the name that figures show.
    pub(in crate::cli) fn drawn(&self) -> Result<Drawn, Failure> {
        let [name] = self.models.as_slice() else {
            return Err(Failure::input("MODEL: a figure is of one replay; give one version"));
        };
        let settings = self.accounting.logical_settings()?;
        let around = Around::of_process()?;
        let named = self.trace(&self.given(), &around)?;
        let model = Model::load_checked(name, self.accounting.unknown())?;
        let label = model.entry.map_or_else(|| model.shown.clone(), |entry| entry.name.clone());
        let answer = self.answer(&model, &label, &settings, &named, Moving::Nothing)?;
        let mut asked = self.given();
        asked.set("tiers", &self.tiers.join(";"));
        let id = model.entry.map(|entry| entry.id.clone());
        let id = id.filter(|_| self.trace.is_none() && !self.no_optimum);
        Ok(Drawn { answer, asked, settings, id })
    }
}

/// A replay that is drawn.
pub(in crate::cli) struct Drawn {
    pub(in crate::cli) answer: SimulationAnswer,
    /// The options, by the names of the page.
    pub(in crate::cli) asked: Given,
    pub(in crate::cli) settings: Settings,
    /// Of the version, where the page can be asked the same: files are not in links.
    pub(in crate::cli) id: Option<String>,
}

impl Question {
    fn given(&self) -> Given {
        Given::of([
            ("synthetic", self.synthetic.clone()),
            ("seed", Some(self.seed.to_string())),
            ("block", Some(self.block.clone())),
            ("prefetch", Some(self.prefetch.to_string())),
            ("prefill_rate", self.prefill_rate.clone()),
            ("decode_rate", self.decode_rate.clone()),
        ])
    }

    fn trace(&self, given: &Given, around: &Around<'_>) -> Result<NamedTrace, Failure> {
        if let Some(made) = typed_trace(given, around.most_made_requests)? {
            return Ok(made);
        }
        let block = typed_block(given)?;
        let file = self.trace.as_deref().unwrap_or("-");
        let text = around.files.read_text(file, LARGEST_TRACE, "give a part of it")?;
        let label = around.files.label(file).to_owned();
        match Trace::read(&text, block) {
            Ok(trace) => Ok(NamedTrace { label, trace }),
            Err(error) => Err(Failure::input(format!("{label}: {}", error.what()))),
        }
    }
}
