//! Whose accounting stands beside the logical one, and the settings of engines that a link carries.

use kvscope_sizing::Settings;
use kvscope_sizing::engine::{EngineKind, has_setting};
use kvscope_sizing::plan::Gpus;

use super::ViewState;

/// A setting of an engine, by its name in [`Settings::NAMES`], in links and on the command line.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct EngineSetting(&'static str);

/// Settings that have a place of their own in the view and a key of their own in a link.
const ELSEWHERE: [&str; 5] = ["context", "batch", "kv_dtype", "index_dtype", "state_dtype"];

/// The settings that change most of what engines reserve, in the order of the page, in a few words.
const COMMON: [(&str, &str); 17] = [
    ("tp", "tensor ranks"),
    ("pp", "pipeline ranks"),
    ("dcp", "context ranks"),
    ("gpu", "GPU"),
    ("block_size", "tokens of a block"),
    ("max_model_len", "longest request"),
    ("max_num_batched_tokens", "tokens of a batch"),
    ("prefix_caching", "prefix caching"),
    ("radix_cache", "prefix caching"),
    ("num_speculative_tokens", "draft tokens"),
    ("max_running_requests", "requests at once"),
    ("pool_tokens", "tokens of the pool"),
    ("state_slots", "state slots"),
    ("n_ubatch", "micro-batch"),
    ("kv_unified", "one stream for all"),
    ("swa_full", "windows in full"),
    ("flash_attn", "flash attention"),
];

/// K and V in formats of their own, which stand with the formats.
const K_AND_V: [(&str, &str); 2] = [("k_dtype", "K format"), ("v_dtype", "V format")];

/// How often a setting is asked for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Standing {
    /// A format of K or V alone, beside that of both.
    Format,
    /// It changes most.
    Common,
    /// Everything else.
    Rare,
}

impl EngineSetting {
    /// Every setting that a link's `es` takes, in the order of [`Settings::NAMES`].
    pub fn all() -> impl Iterator<Item = Self> {
        Settings::NAMES.iter().filter(|name| !ELSEWHERE.contains(name)).map(|name| Self(name))
    }

    /// Those of one standing that `engine` has, in the order of the page.
    pub fn of(engine: EngineKind, standing: Standing) -> Vec<Self> {
        let listed =
            |list: &'static [(&'static str, &'static str)]| list.iter().map(|(name, _)| Self(name)).collect();
        let mut all: Vec<Self> = match standing {
            Standing::Format => listed(&K_AND_V),
            Standing::Common => listed(&COMMON),
            Standing::Rare => Self::all().filter(|setting| setting.usual_label().is_none()).collect(),
        };
        all.retain(|setting| setting.is_of(engine));
        all
    }

    /// The name on the command line and in links.
    pub fn name(self) -> &'static str {
        self.0
    }

    /// What it is, in a few words: the name's own where the page has none.
    pub fn label(self) -> String {
        self.usual_label().map_or_else(|| self.0.replace('_', " "), str::to_owned)
    }

    fn usual_label(self) -> Option<&'static str> {
        COMMON.iter().chain(&K_AND_V).find(|(name, _)| *name == self.0).map(|(_, label)| *label)
    }

    /// Whether the page offers it for `engine`: of logical bytes, formats alone are asked.
    pub fn is_of(self, engine: EngineKind) -> bool {
        has_setting(engine, self.0) && (engine != EngineKind::Logical || Settings::is_format(self.0))
    }

    /// Its value in `settings` as it is typed; none where the engine's default holds.
    pub fn value(self, settings: &Settings) -> Option<String> {
        settings.value(self.0)
    }

    /// Sets it from what was typed; nothing typed restores the engine's default.
    ///
    /// # Errors
    ///
    /// A sentence, where the value is of a wrong kind or out of range.
    pub fn set(self, settings: &mut Settings, typed: &str) -> Result<(), String> {
        if typed.trim().is_empty() {
            settings.clear(self.0);
            return Ok(());
        }
        settings.set(self.0, typed.trim()).map_err(|error| error.what().to_owned())
    }
}

impl ViewState {
    /// The settings that logical sizing takes.
    pub fn settings(&self) -> Settings {
        self.settings_of(Settings::is_format)
    }

    /// The settings that the engine answers for: formats, and its own. None where logical bytes alone are shown.
    pub fn engine_settings(&self) -> Option<Settings> {
        (self.engine.kind() != EngineKind::Logical).then(|| self.settings_of(|_| true))
    }

    /// The same for the growth figure, where the GPUs that it is compared with share each request.
    pub fn grown_settings(&self) -> Option<Settings> {
        let settings = self.engine_settings()?;
        Some(match self.gpus {
            Some(gpus) => Gpus::shared(gpus.gpu, gpus.count, self.engine.kind(), &settings),
            None => settings,
        })
    }

    /// Formats, and of the engine's own settings those that are asked for.
    fn settings_of(&self, is_asked: fn(&str) -> bool) -> Settings {
        let mut settings = Settings {
            kv_dtype: self.kv_format,
            index_dtype: self.index_format,
            state_dtype: self.state_format,
            ..self.engine_own.clone()
        };
        let kind = self.engine.kind();
        for setting in EngineSetting::all().filter(|setting| !setting.is_of(kind) || !is_asked(setting.0)) {
            settings.clear(setting.0);
        }
        settings
    }
}

#[cfg(test)]
mod tests {
    use kvscope_sizing::KvFormat;

    use super::*;

    /// Every setting of the engine, and no other, stands in one place of the page or has a place of its own.
    #[test]
    fn every_setting_of_an_engine_stands_in_one_place() {
        for engine in EngineKind::ALL.into_iter().filter(|engine| *engine != EngineKind::Logical) {
            let standings = [Standing::Format, Standing::Common, Standing::Rare];
            // The request's formats are of every accounting, whatever the engine takes.
            let mut names: Vec<&str> = ELSEWHERE.to_vec();
            names.retain(|name| has_setting(engine, name));
            names.extend(
                standings.into_iter().flat_map(|of| EngineSetting::of(engine, of)).map(EngineSetting::name),
            );
            let mut expected: Vec<&str> =
                Settings::NAMES.iter().copied().filter(|name| has_setting(engine, name)).collect();
            names.sort_unstable();
            expected.sort_unstable();
            assert_eq!(names, expected, "{engine:?}");
        }
        assert!(COMMON.iter().chain(&K_AND_V).all(|(name, _)| Settings::NAMES.contains(name)));
    }

    #[test]
    fn what_was_typed_is_refused_without_its_name_and_nothing_typed_restores_the_default() {
        let tp = EngineSetting::all().find(|setting| setting.name() == "tp").unwrap();
        let mut settings = Settings::default();
        assert_eq!(tp.set(&mut settings, "0").unwrap_err(), "0 is outside 1 to 1024");
        tp.set(&mut settings, "8").unwrap();
        assert_eq!(tp.value(&settings).as_deref(), Some("8"));
        tp.set(&mut settings, " ").unwrap();
        assert_eq!(settings, Settings::default());
    }

    #[test]
    fn an_engine_gets_its_own_settings_alone() {
        let mut view = ViewState { engine: "vllm@0.30".parse().unwrap(), ..ViewState::default() };
        view.engine_own.set("tp", "4").unwrap();
        view.engine_own.set("n_ubatch", "256").unwrap();
        let settings = view.engine_settings().unwrap();
        assert_eq!((settings.tp, settings.n_ubatch), (Some(4), None));
        view.gpus = Some("h200:8".parse().unwrap());
        assert_eq!(view.grown_settings().unwrap().tp, Some(4), "ranks that are given stay");
        view.engine_own.set("dcp", "2").unwrap();
        view.engine = "llama.cpp".parse().unwrap();
        let settings = view.grown_settings().unwrap();
        assert_eq!((settings.tp, settings.n_ubatch), (None, Some(256)));
        view.engine = "transformers".parse().unwrap();
        view.engine_own = Settings::default();
        assert_eq!((view.engine_settings().unwrap().tp, view.grown_settings().unwrap().tp), (None, Some(8)));
        view.engine = "logical".parse().unwrap();
        assert_eq!(view.engine_settings(), None);
    }

    /// llama.cpp has `-ctk` and `-ctv`; vLLM has `--kv-cache-dtype` alone.
    #[test]
    fn k_and_v_are_chosen_apart_where_the_engine_has_it() {
        let mut view = ViewState::default();
        view.engine_own.set("k_dtype", "q8_0").unwrap();
        view.engine_own.set("tp", "4").unwrap();
        assert_eq!((view.settings().k_dtype, view.settings().tp), (Some(KvFormat::Q8_0), None));
        view.engine = "llama.cpp".parse().unwrap();
        assert_eq!(view.settings().k_dtype, Some(KvFormat::Q8_0));
        assert_eq!(view.engine_settings().unwrap().k_dtype, Some(KvFormat::Q8_0));
        view.engine = "vllm".parse().unwrap();
        assert_eq!((view.settings().k_dtype, view.engine_settings().unwrap().k_dtype), (None, None));
    }
}
