//! Whose accounting stands beside the logical one, and the settings of engines that a link carries.

use kvscope_sizing::engine::{EngineKind, has_setting};
use kvscope_sizing::{KvFormat, Settings};

use super::ViewState;

/// A setting of an engine that the page offers. Its name is that of the command line's `--set`.
#[derive(Clone, Copy, Debug)]
pub struct EngineSetting {
    /// The name in [`Settings::set`], in links and on the command line.
    pub name: &'static str,
    /// What it is, in words.
    pub label: &'static str,
    /// What it takes.
    pub takes: Takes,
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
    /// A format of K/V by its name.
    Format,
}

impl Takes {
    /// Everything that it takes; nothing where there is too much to list.
    pub fn offers(self) -> Vec<&'static str> {
        match self {
            Self::Count => Vec::new(),
            Self::OnOff => vec!["on", "off"],
            Self::Format => KvFormat::all().map(|(name, _)| name).collect(),
        }
    }
}

macro_rules! setting {
    ($name:ident, $label:literal, $takes:ident, $text:expr) => {
        EngineSetting {
            name: stringify!($name),
            label: $label,
            takes: Takes::$takes,
            get: |settings| settings.$name.map($text),
            clear: |settings| settings.$name = None,
        }
    };
}

macro_rules! count {
    ($name:ident, $label:literal) => {
        setting!($name, $label, Count, |count| count.to_string())
    };
}

macro_rules! on_off {
    ($name:ident, $label:literal) => {
        setting!($name, $label, OnOff, |is_on| if is_on { "on" } else { "off" }.to_owned())
    };
}

macro_rules! format_of {
    ($name:ident, $label:literal) => {
        setting!($name, $label, Format, |format| format.name().to_owned())
    };
}

/// The settings that change most of what engines reserve, in the order of the page.
pub const ENGINE_SETTINGS: [EngineSetting; 14] = [
    count!(tp, "tensor ranks"),
    count!(pp, "pipeline ranks"),
    count!(dcp, "context ranks"),
    format_of!(k_dtype, "K format"),
    format_of!(v_dtype, "V format"),
    count!(block_size, "tokens of a block"),
    count!(max_num_batched_tokens, "tokens of a batch"),
    on_off!(prefix_caching, "prefix caching"),
    count!(num_speculative_tokens, "draft tokens"),
    count!(pool_tokens, "tokens of the pool"),
    count!(state_slots, "state slots"),
    count!(n_ubatch, "micro-batch"),
    on_off!(kv_unified, "one stream for all"),
    on_off!(swa_full, "windows in full"),
];

impl EngineSetting {
    /// Whether the page offers it for `engine`: of logical bytes, formats alone are asked.
    pub fn is_of(&self, engine: EngineKind) -> bool {
        has_setting(engine, self.name) && (engine != EngineKind::Logical || self.takes == Takes::Format)
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
    /// The settings that logical sizing takes.
    pub fn settings(&self) -> Settings {
        self.settings_of(|setting| setting.takes == Takes::Format)
    }

    /// The settings that the engine answers for: formats, and its own. None where logical bytes alone are shown.
    pub fn engine_settings(&self) -> Option<Settings> {
        (self.engine.kind() != EngineKind::Logical).then(|| self.settings_of(|_| true))
    }

    /// Formats, and of the engine's own settings those that are asked for.
    fn settings_of(&self, is_asked: impl Fn(&EngineSetting) -> bool) -> Settings {
        let mut settings = Settings {
            kv_dtype: self.kv_format,
            index_dtype: self.index_format,
            state_dtype: self.state_format,
            ..self.engine_own.clone()
        };
        let kind = self.engine.kind();
        for setting in ENGINE_SETTINGS.iter().filter(|setting| !setting.is_of(kind) || !is_asked(setting)) {
            (setting.clear)(&mut settings);
        }
        settings
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_setting_is_read_as_it_is_written() {
        for setting in ENGINE_SETTINGS {
            let mut settings = Settings::default();
            let typed = setting.takes.offers().pop().unwrap_or("8");
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
