//! From ids to versions that can be sized.

use kvscope_charts::palette::{SeriesColour, assign_colours};
use kvscope_sizing::engine::{
    Engine, EngineKind, EngineSize, Query, Reservation, Room, logical_bytes, logical_curve, ranks,
    reservation, reserved_bytes, reserved_curve, settings_in, size_in_engine,
};
use kvscope_sizing::plan::{Gpus, Left, Subject, left};
use kvscope_sizing::{
    Architecture, ByteKind, Bytes, CatalogueEntry, LargestContext, Settings, StateModel, Tokens, find_entry,
};
use serde_json::Value;

use super::Shared;

/// A version that was found and read.
#[derive(Debug)]
pub(crate) struct Model {
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) family: String,
    pub(crate) source: Source,
    pub(crate) architecture: Architecture,
    /// The config that the reader opened; none of the catalogue's, and none of a GGUF file.
    pub(crate) config: Option<Value>,
}

/// What says what a version is.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Source {
    /// The catalogue.
    Entry(&'static CatalogueEntry),
    /// A `config.json` that the reader opened.
    Config,
    /// A GGUF file that the reader opened.
    Gguf,
}

/// A version that is shown, with its state or the reason why there is none.
#[derive(Clone, Debug)]
pub(crate) struct Chosen {
    pub(crate) id: String,
    /// Its name, or its id where it was not found.
    pub(crate) name: String,
    pub(crate) colour: SeriesColour,
    pub(crate) model: Option<Shared<Model>>,
    pub(crate) state: Result<Shared<StateModel>, String>,
}

/// All versions that are shown, and what they were made from.
#[derive(Debug)]
pub(crate) struct ChosenSet {
    pub(crate) list: Vec<Chosen>,
    pub(crate) settings: Settings,
    /// Whose reserved bytes stand beside the logical ones, with its settings.
    pub(crate) engine: Option<(Engine, Settings)>,
    /// Which bytes are asked for; an engine stands beside resident ones alone.
    pub(crate) bytes: ByteKind,
    /// GPUs whose memory beside weights is compared with resident bytes.
    pub(crate) gpus: Option<Gpus>,
    ids: Vec<String>,
    own: Vec<Shared<Model>>,
}

/// Whose bytes are asked for beside an engine.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Accounting {
    /// Dense bytes of one of the engine's ranks.
    Logical,
    /// The engine's own.
    Reserved,
}

/// A version by its id, or the sentence that says why there is none.
type Found = (String, Result<Shared<Model>, String>);

impl ChosenSet {
    pub(super) fn new(ids: Vec<String>, settings: Settings, own: Vec<Shared<Model>>) -> Self {
        let list = size_all(&find_all(&ids, &own), &settings);
        Self { list, settings, engine: None, bytes: ByteKind::Resident, gpus: None, ids, own }
    }

    /// The same versions beside an engine.
    pub(super) fn beside(&self, engine: Option<(Engine, Settings)>) -> Self {
        let (list, settings) = (self.list.clone(), self.settings.clone());
        let (ids, own) = (self.ids.clone(), self.own.clone());
        Self { list, settings, engine, bytes: self.bytes, gpus: self.gpus, ids, own }
    }

    /// The same versions asked for some bytes, and beside GPUs; engines and GPUs hold resident bytes alone.
    pub(super) fn asked_for(&self, bytes: ByteKind, gpus: Option<Gpus>) -> Self {
        let is_resident = bytes == ByteKind::Resident;
        let engine = self.engine.clone().filter(|_| is_resident);
        Self { bytes, gpus: gpus.filter(|_| is_resident), ..self.beside(engine) }
    }

    /// Whether it would come out the same.
    pub(super) fn is_of(&self, ids: &[String], settings: &Settings, own: &[Shared<Model>]) -> bool {
        self.ids == ids && self.settings == *settings && self.own == own
    }

    /// Ranks that share one copy of a model in the engine, whose figures are of one of them; none where there is no engine.
    pub(crate) fn ranks(&self) -> Option<u64> {
        let (engine, settings) = self.engine.as_ref()?;
        Some(ranks(engine.kind(), settings))
    }

    /// The accounting of the engine, or the logical one on as many ranks.
    fn engine_of(&self, accounting: Accounting) -> Option<(Engine, &Settings)> {
        let (engine, settings) = self.engine.as_ref()?;
        let engine = match accounting {
            Accounting::Logical => Engine::newest(EngineKind::Logical),
            Accounting::Reserved => engine.clone(),
        };
        Some((engine, settings))
    }

    /// Asks about a version; none where there is no engine, or no version to ask about.
    fn ask<T>(
        &self,
        chosen: &Chosen,
        at: (Tokens, u64),
        question: fn(&Query<'_>, &[Tokens]) -> kvscope_sizing::Result<T>,
        contexts: &[Tokens],
    ) -> Option<Result<T, String>> {
        self.engine.as_ref()?;
        let query = self.query(chosen, at)?;
        Some(question(&query, contexts).map_err(|error| error.to_string()))
    }

    /// Logical bytes of a batch as they stand beside what an engine reserves.
    pub(crate) fn logical(&self, chosen: &Chosen, at: (Tokens, u64)) -> Result<Bytes, String> {
        let state = chosen.state.as_ref().map_err(Clone::clone)?;
        let bytes = |query: &Query<'_>| logical_bytes(query, state).map_err(|error| error.to_string());
        match self.query(chosen, at).filter(|_| self.bytes == ByteKind::Resident) {
            Some(query) => bytes(&query),
            None => state.bytes_of(self.bytes, at.0, at.1).map_err(|error| error.to_string()),
        }
    }

    /// The same at many contexts; empty where ranks cannot share the version. The list ends before the first context that has
    /// no figure.
    pub(crate) fn logical_curve(&self, chosen: &Chosen, contexts: &[Tokens], batch: u64) -> Vec<Bytes> {
        let Ok(state) = &chosen.state else { return Vec::new() };
        if self.bytes != ByteKind::Resident {
            return contexts.iter().map_while(|n| state.bytes_of(self.bytes, *n, batch).ok()).collect();
        }
        let first = contexts.first().copied().unwrap_or_default();
        let query = self.query(chosen, (first, batch));
        query.and_then(|query| logical_curve(&query, state, contexts).ok()).unwrap_or_default()
    }

    /// The question to the engine, or to the logical accounting where there is none; none where there is no version.
    fn query<'a>(&'a self, chosen: &'a Chosen, (context, batch): (Tokens, u64)) -> Option<Query<'a>> {
        let (engine, settings) = match &self.engine {
            Some((engine, settings)) => (engine.clone(), settings),
            None => (Engine::newest(EngineKind::Logical), &self.settings),
        };
        let architecture = &chosen.model.as_ref()?.architecture;
        Some(Query { architecture, engine, context: Some(context), batch, settings })
    }

    /// Every figure of an accounting for one version, as the command line's `size` has them; none where there is no engine.
    pub(crate) fn in_engine(
        &self,
        accounting: Accounting,
        chosen: &Chosen,
        (context, batch): (Tokens, u64),
        memory: Option<Bytes>,
    ) -> Option<Result<EngineSize, String>> {
        let (engine, settings) = self.engine_of(accounting)?;
        let model = chosen.model.as_ref()?;
        let query =
            Query { architecture: &model.architecture, engine, context: Some(context), batch, settings };
        let launch = memory.map_or_else(|| Ok(settings.clone()), |memory| settings_in(&query, memory));
        let size = launch.and_then(|settings| {
            size_in_engine(&model.id, query.architecture, &query.engine, query.context, batch, &settings)
        });
        Some(size.map_err(|error| error.to_string()))
    }

    /// What the engine reserves for a batch of requests of that length, or why it refuses the version.
    pub(crate) fn reserved(&self, chosen: &Chosen, at: (Tokens, u64)) -> Option<Result<Bytes, String>> {
        self.ask(chosen, at, |query, _| reserved_bytes(query), &[])
    }

    /// The same at many contexts; empty where the engine refuses the version.
    pub(crate) fn reserved_curve(&self, chosen: &Chosen, contexts: &[Tokens], batch: u64) -> Vec<Bytes> {
        let first = contexts.first().copied().unwrap_or_default();
        let curve = self.ask(chosen, (first, batch), reserved_curve, contexts);
        curve.and_then(Result::ok).unwrap_or_default()
    }

    /// Reserved beside logical bytes, with what lies between them.
    pub(crate) fn reservation(
        &self,
        chosen: &Chosen,
        at: (Tokens, u64),
    ) -> Option<Result<Reservation, String>> {
        self.ask(chosen, at, |query, _| reservation(query), &[])
    }

    /// The longest context of which a batch fits the memory, by the engine's accounting where there is one, else by the
    /// logical one.
    pub(crate) fn longest(
        &self,
        chosen: &Chosen,
        batch: u64,
        memory: Bytes,
    ) -> Option<Result<LargestContext, String>> {
        #[allow(
            clippy::redundant_closure_for_method_calls,
            reason = "the method is of one lifetime, the question of any"
        )]
        self.in_room(chosen, batch, memory, |room| room.largest_context())
    }

    /// The most requests of that length that fit the memory; none within where any number does.
    pub(crate) fn most_requests(
        &self,
        chosen: &Chosen,
        context: Tokens,
        memory: Bytes,
    ) -> Option<Result<Option<u64>, String>> {
        self.in_room(chosen, 1, memory, |room| room.largest_batch(context))
    }

    /// What GPUs leave beside the version's weights, and the longest context of a batch that fits it.
    pub(crate) fn left(&self, chosen: &Chosen, batch: u64, gpus: Gpus) -> Option<Result<Left, String>> {
        let (model, state) = (chosen.model.as_ref()?, chosen.state.as_ref().ok()?);
        let query = self.query(chosen, (Tokens::default(), batch))?;
        Some(left(&model.subject(), state, &query, gpus).map_err(|error| error.to_string()))
    }

    fn in_room<T>(
        &self,
        chosen: &Chosen,
        batch: u64,
        memory: Bytes,
        question: impl FnOnce(&Room<'_>) -> kvscope_sizing::Result<T>,
    ) -> Option<Result<T, String>> {
        let (model, state) = (chosen.model.as_ref()?, chosen.state.as_ref().ok()?);
        let (engine, settings) = match &self.engine {
            Some((engine, settings)) => (engine.clone(), settings),
            None => (Engine::newest(EngineKind::Logical), &self.settings),
        };
        // The memory that is asked about stands in the place of a pool's own size.
        let settings = &Settings { available_kv_bytes: None, ..settings.clone() };
        let query = Query { architecture: &model.architecture, engine, context: None, batch, settings };
        Some(question(&Room { query, state, memory }).map_err(|error| error.to_string()))
    }

    /// Those that could be sized.
    pub(crate) fn sized(&self) -> impl Iterator<Item = (&Chosen, &StateModel)> {
        self.list.iter().filter_map(|chosen| Some((chosen, &**chosen.state.as_ref().ok()?)))
    }
}

/// Reads a version of the catalogue.
fn catalogue_model(id: &str) -> Result<Model, String> {
    let entry = find_entry(id).map_err(|error| without_command(&error.to_string()))?;
    let architecture = entry.architecture().map_err(|error| format!("{}: {error}", entry.id))?;
    Ok(Model {
        id: entry.id.clone(),
        name: entry.name.clone(),
        family: entry.family.clone(),
        source: Source::Entry(entry),
        architecture,
        config: None,
    })
}

/// Why a link's id leads to no version, unless it may be one of the reader's own.
pub(super) fn stray(id: &str) -> Option<String> {
    let refusal = find_entry(id).err().filter(|_| !id.starts_with(Model::OWN))?;
    Some(without_command(&refusal.to_string()))
}

/// A sentence without its advice to run a command: here the list of versions is beside it.
fn without_command(sentence: &str) -> String {
    let told = sentence.split_once("; see `kvscope").map_or(sentence, |(told, _)| told);
    if told.len() == sentence.len() {
        sentence.to_owned()
    } else {
        format!("{told}; choose one from the list")
    }
}

/// Finds every id once, among the reader's own configs first.
fn find_all(ids: &[String], own: &[Shared<Model>]) -> Vec<Found> {
    let mut found: Vec<Found> = Vec::new();
    for id in ids {
        if found.iter().any(|(known, _)| known == id) {
            continue;
        }
        found.push((id.clone(), find_model(id, own)));
    }
    found
}

/// Finds a version by its id, among the reader's own configs first.
pub(crate) fn find_model(id: &str, own: &[Shared<Model>]) -> Result<Shared<Model>, String> {
    match own.iter().find(|model| model.id == *id) {
        Some(model) => Ok(model.clone()),
        None if id.starts_with(Model::OWN) => {
            Err(format!("{id} is a file that was opened where this link was made; open it here to see it"))
        }
        None => catalogue_model(id).map(Shared::new),
    }
}

/// The state of every version that was found.
fn size_all(found: &[Found], settings: &Settings) -> Vec<Chosen> {
    let families: Vec<&str> =
        found.iter().map(|(id, model)| model.as_ref().map_or(id.as_str(), |model| &model.family)).collect();
    let colours = assign_colours(&families);
    let size = |model: &Shared<Model>| {
        StateModel::new(&model.architecture, settings).map(Shared::new).map_err(|error| error.to_string())
    };
    found
        .iter()
        .zip(colours)
        .map(|((id, model), colour)| Chosen {
            id: id.clone(),
            name: model.as_ref().map_or_else(|_| id.clone(), |model| model.name.clone()),
            colour,
            model: model.as_ref().ok().cloned(),
            state: model.as_ref().map_err(Clone::clone).and_then(size),
        })
        .collect()
}

impl Model {
    /// What ids of the reader's own configs start with; the catalogue has none such.
    pub(crate) const OWN: &'static str = "own-";

    /// What the catalogue knows; none for what the reader opened.
    pub(crate) fn entry(&self) -> Option<&'static CatalogueEntry> {
        match self.source {
            Source::Entry(entry) => Some(entry),
            Source::Config | Source::Gguf => None,
        }
    }

    /// What a plan asks about, under the name that figures show.
    pub(crate) fn subject(&self) -> Subject<'_> {
        let entry = self.entry();
        let config = entry.map(|entry| &entry.config).or(self.config.as_ref());
        Subject { model: &self.name, architecture: &self.architecture, config, entry }
    }

    /// Which of the reader's own it is, counted from 1; 0 for none of them.
    pub(crate) fn number(&self) -> usize {
        self.id.strip_prefix(Self::OWN).and_then(|number| number.parse().ok()).unwrap_or(0)
    }

    /// What it is called among what was asked: its id in the catalogue, or the name of what the reader opened.
    pub(crate) fn label(&self) -> &str {
        self.entry().map_or(&self.name, |entry| &entry.id)
    }

    /// The longest context that the config allows.
    pub(crate) fn max_context(&self) -> Option<Tokens> {
        self.architecture.max_context().map(|fact| Tokens::new(fact.get()))
    }
}

#[cfg(test)]
mod tests {
    use kvscope_sizing::engine::{Figure, Quantity};

    use super::*;

    #[test]
    fn what_is_not_there_says_so_and_the_rest_is_sized() {
        let ids = ["kimi-k2.6", "kimi-k2.5-nope", "own-1", "kimi-k2.6"].map(str::to_owned);
        let chosen = size_all(&find_all(&ids, &[]), &Settings::default());
        assert_eq!(chosen.len(), 3, "an id that is given twice is shown once");
        assert!(chosen[0].state.is_ok());
        assert!(chosen[1].state.as_ref().unwrap_err().contains("kimi-k2.5-nope"));
        assert!(chosen[2].state.as_ref().unwrap_err().contains("open it here"));
    }

    /// 61 layers × 576 values × 1 byte (issue: 70,272 B/token in BF16).
    #[test]
    fn settings_reach_the_state() {
        let mut settings = Settings::default();
        settings.set("kv_dtype", "fp8").unwrap();
        let chosen = size_all(&find_all(&["kimi-k2.6".to_owned()], &[]), &settings);
        let state = chosen[0].state.as_ref().unwrap();
        assert_eq!(state.resident(Tokens::new(100_000), 1).unwrap().get(), 3_513_600_000);
    }

    /// Qwen3.5-27B in SGLang: of 40 GB states have 9/19, 123 slots of 153,944,064 B, and a token of the rest takes 65,536 B.
    #[test]
    fn a_memory_is_that_of_states_and_caches() {
        let memory = Bytes::new(40_000_000_000);
        let tokens = (memory.get() - 123 * 153_944_064) / 65_536;
        assert_eq!(tokens, 321_424);
        let ids = vec!["qwen3.5-27b".to_owned()];
        let set = ChosenSet::new(ids, Settings::default(), Vec::new())
            .beside(Some((Engine::newest(EngineKind::SgLang), Settings::default())));
        let at = (Tokens::new(100_000), 1);
        let size = set.in_engine(Accounting::Reserved, &set.list[0], at, Some(memory)).unwrap().unwrap();
        let whole = |quantity: Quantity| size.figure(quantity).and_then(Figure::whole).unwrap();
        assert_eq!(whole(Quantity::LoggedKvTokens), tokens);
        // Tensors have a page of one token more than their budget.
        assert!(whole(Quantity::PoolBytes) <= memory.get() + 65_536);
        let longest = set.longest(&set.list[0], 1, memory).unwrap().unwrap();
        assert_eq!(longest, LargestContext::Budget { tokens: Tokens::new(tokens) });
    }

    #[test]
    fn an_unknown_model_names_no_command_in_the_browser() {
        let sentence = catalogue_model("zzzzzzzzzzzzzzzzzzzzzzzz").err().unwrap();
        assert_eq!(
            sentence,
            "\"zzzzzzzzzzzzzzzzzzzzzzzz\" is not in the catalogue; choose one from the list"
        );
        assert_eq!(stray("zzzzzzzzzzzzzzzzzzzzzzzz"), Some(sentence));
        assert_eq!((stray("own-1"), stray("GLM-4.5")), (None, None));
        assert!(catalogue_model("deepseek-v3.3").err().unwrap().contains("the nearest id is"));
    }
}
