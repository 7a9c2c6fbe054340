//! Whose accounting stands beside the logical one, and the settings of engines that a link carries.

use kvscope_sizing::Settings;
use kvscope_sizing::engine::EngineKind;

use super::ViewState;
use EngineKind::{LlamaCpp, SgLang, Transformers, TrtLlm, Vllm};

/// A setting of an engine that the page offers. Its name is that of the command line's `--set`.
#[derive(Clone, Copy, Debug)]
pub struct EngineSetting {
    /// The name in [`Settings::set`], in links and on the command line.
    pub name: &'static str,
    /// What it is, in words.
    pub label: &'static str,
    /// What it takes.
    pub takes: Takes,
    /// The engines that it changes.
    pub engines: &'static [EngineKind],
    get: fn(&Settings) -> Option<String>,
    clear: fn(&mut Settings),
}

/// What a setting takes.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Takes {
    /// A count, as people type it.
    Count,
    /// `on` or `off`.
    OnOff,
}

macro_rules! count {
    ($name:ident, $label:literal, $engines:expr) => {
        EngineSetting {
            name: stringify!($name),
            label: $label,
            takes: Takes::Count,
            engines: $engines,
            get: |settings| settings.$name.map(|count| count.to_string()),
            clear: |settings| settings.$name = None,
        }
    };
}

macro_rules! on_off {
    ($name:ident, $label:literal, $engines:expr) => {
        EngineSetting {
            name: stringify!($name),
            label: $label,
            takes: Takes::OnOff,
            engines: $engines,
            get: |settings| settings.$name.map(|is_on| if is_on { "on" } else { "off" }.to_owned()),
            clear: |settings| settings.$name = None,
        }
    };
}

/// The settings that change most of what engines reserve, in the order of the page.
pub const ENGINE_SETTINGS: [EngineSetting; 9] = [
    count!(tp, "tensor ranks", &[Vllm, SgLang, TrtLlm, Transformers]),
    count!(pp, "pipeline ranks", &[Vllm, SgLang, TrtLlm, Transformers]),
    count!(block_size, "tokens of a block", &[Vllm, SgLang, TrtLlm]),
    count!(max_num_batched_tokens, "tokens of a batch", &[Vllm]),
    on_off!(prefix_caching, "prefix caching", &[Vllm]),
    count!(num_speculative_tokens, "draft tokens", &[Vllm]),
    count!(n_ubatch, "micro-batch", &[LlamaCpp]),
    on_off!(kv_unified, "one stream for all", &[LlamaCpp]),
    on_off!(swa_full, "windows in full", &[LlamaCpp]),
];

impl EngineSetting {
    /// Whether `engine` heeds it.
    pub fn is_of(&self, engine: EngineKind) -> bool {
        self.engines.contains(&engine)
    }

    /// Its value in `settings` as it is typed; none where the engine's default holds.
    pub fn value(&self, settings: &Settings) -> Option<String> {
        (self.get)(settings)
    }

    /// Sets it from what was typed; nothing typed restores the engine's default.
    ///
    /// # Errors
    ///
    /// A sentence that names the setting, where the value is of a wrong kind or out of range.
    pub fn set(&self, settings: &mut Settings, typed: &str) -> Result<(), String> {
        if typed.trim().is_empty() {
            (self.clear)(settings);
            return Ok(());
        }
        settings.set(self.name, typed.trim()).map_err(|error| error.to_string())
    }
}

impl ViewState {
    /// The settings that the engine answers for: formats, and its own. None where logical bytes alone are shown.
    pub fn engine_settings(&self) -> Option<Settings> {
        let kind = self.engine.kind();
        if kind == EngineKind::Logical {
            return None;
        }
        let mut settings = Settings {
            kv_dtype: self.kv_format,
            index_dtype: self.index_format,
            state_dtype: self.state_format,
            ..self.engine_own.clone()
        };
        for setting in ENGINE_SETTINGS.iter().filter(|setting| !setting.is_of(kind)) {
            (setting.clear)(&mut settings);
        }
        Some(settings)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_setting_is_read_as_it_is_written() {
        for setting in ENGINE_SETTINGS {
            let mut settings = Settings::default();
            let typed = if setting.takes == Takes::OnOff { "off" } else { "8" };
            setting.set(&mut settings, typed).unwrap();
            assert_eq!(setting.value(&settings).as_deref(), Some(typed), "{}", setting.name);
            assert!(setting.set(&mut settings, "many").unwrap_err().starts_with(setting.name));
            setting.set(&mut settings, " ").unwrap();
            assert_eq!(settings, Settings::default(), "{}", setting.name);
        }
    }

    #[test]
    fn an_engine_gets_its_own_settings_alone() {
        let mut view = ViewState { engine: "vllm@0.30".parse().unwrap(), ..ViewState::default() };
        view.engine_own.set("tp", "4").unwrap();
        view.engine_own.set("n_ubatch", "256").unwrap();
        let settings = view.engine_settings().unwrap();
        assert_eq!((settings.tp, settings.n_ubatch), (Some(4), None));
        view.engine = "llama.cpp".parse().unwrap();
        let settings = view.engine_settings().unwrap();
        assert_eq!((settings.tp, settings.n_ubatch), (None, Some(256)));
        view.engine = "logical".parse().unwrap();
        assert_eq!(view.engine_settings(), None);
    }
}
