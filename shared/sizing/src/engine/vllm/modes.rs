//! How recurrent states are kept beside prefixes.

use super::rules::Rules;
use crate::architecture::Architecture;
use crate::mixer::{Mixer, Recurrence};
use crate::settings::{MambaCacheMode, Settings};
use crate::warning::Warning;
use crate::{Error, Result};

/// How states are kept: what is set, else by whether prefixes are.
///
/// Source: vLLM 0.11 to 0.33, `MambaModelConfig` of `model_executor/models/config.py` and `is_prefix_caching_supported` of
/// `config/model.py`.
///
/// # Errors
///
/// A mode that the version or the class does not have.
pub(super) fn cache_mode(
    architecture: &Architecture,
    settings: &Settings,
    rules: Rules,
    warnings: &mut Vec<Warning>,
) -> Result<MambaCacheMode> {
    let states = States::of(architecture);
    if states.any && settings.mamba_cache_mode == Some(MambaCacheMode::All) && rules.no_all_mode {
        let what =
            "vLLM has no mode all from 0.32 on (`MambaCacheMode` of `config/cache.py`); set align or none";
        return Err(Error::setting("mamba_cache_mode", what));
    }
    if architecture.model_type() == Some("zaya") {
        // `ZayaForCausalLM` asserts it.
        if settings.prefix_caching == Some(true)
            || settings.mamba_cache_mode.is_some_and(|mode| mode != MambaCacheMode::None)
        {
            let what =
                "vLLM refuses to keep prefixes of ZAYA (`models/zaya.py`); its states are kept without them";
            warnings.push(Warning::new("prefix_caching", what));
        }
        return Ok(MambaCacheMode::None);
    }
    if states.any && !rules.hybrid_prefixes {
        if settings.prefix_caching == Some(true) || settings.mamba_cache_mode.is_some() {
            let what =
                "this version of vLLM keeps no prefixes of models with recurrent state (`MambaModelConfig`)";
            warnings.push(Warning::new("prefix_caching", what));
        }
        return Ok(MambaCacheMode::None);
    }
    if states.any && settings.prefix_caching == Some(false) {
        if settings.mamba_cache_mode.is_some_and(|mode| mode != MambaCacheMode::None) {
            let what = "vLLM takes none where prefixes are not kept (`MambaModelConfig`)";
            warnings.push(Warning::new("mamba_cache_mode", what));
        }
        return Ok(MambaCacheMode::None);
    }
    let mode = match (settings.mamba_cache_mode, settings.prefix_caching) {
        (Some(MambaCacheMode::All), _) if states.any && !states.may_be_of_every_block => {
            if architecture.model_type().is_some_and(|class| class.starts_with("qwen")) {
                let what = "vLLM refuses all for Qwen's linear attention (`models/qwen3_5.py`); set align";
                return Err(Error::setting("mamba_cache_mode", what));
            }
            let what =
                "vLLM takes align in place of all for classes other than those of Mamba (`MambaModelConfig`)";
            warnings.push(Warning::new("mamba_cache_mode", what));
            MambaCacheMode::Align
        }
        (Some(MambaCacheMode::Align), _) if states.any && !rules.has_align => {
            let what = "this version of vLLM has no modes: a state for every block where the class can have one, else none";
            warnings.push(Warning::new("mamba_cache_mode", what));
            states.of_prefixes(settings, rules)
        }
        (Some(MambaCacheMode::None), Some(true)) if states.any => {
            let what = "vLLM chooses a mode itself where prefixes are kept (`MambaModelConfig`)";
            warnings.push(Warning::new("mamba_cache_mode", what));
            states.of_prefixes(settings, rules)
        }
        (Some(mode), _) => mode,
        (None, Some(true)) => states.of_prefixes(settings, rules),
        // Models without attention keep no prefixes unless that is asked.
        (None, None) if rules.hybrid_prefix_caching && states.beside_attention => {
            states.of_prefixes(settings, rules)
        }
        (None, Some(false) | None) => MambaCacheMode::None,
    };
    if states.any && settings.mamba_cache_mode.is_none() && settings.prefix_caching != Some(false) {
        let what = format!("not given; states are kept in mode {} by default", mode.name());
        let field = if settings.prefix_caching.is_some() { "mamba_cache_mode" } else { "prefix_caching" };
        warnings.push(Warning::new(field, what));
    }
    Ok(mode)
}

/// What the mode goes by.
#[derive(Clone, Copy, Debug)]
struct States {
    any: bool,
    /// Whether other layers have attention.
    beside_attention: bool,
    /// Whether the class can have one for every block (`SupportsMambaPrefixCaching`: the classes of Mamba-1 and Mamba-2).
    may_be_of_every_block: bool,
}

impl States {
    fn of(architecture: &Architecture) -> Self {
        let mixers = || architecture.mixers();
        let is_state = |mixer: &Mixer| matches!(mixer, Mixer::Recurrent(_));
        let is_of_mamba = |mixer: &Mixer| match mixer {
            Mixer::Recurrent(recurrent) => {
                matches!(recurrent.recurrence, Recurrence::Mamba1 { .. } | Recurrence::Mamba2 { .. })
            }
            _ => true,
        };
        // Inkling's convolutions are windows of tokens.
        let are_windows = architecture.model_type().is_some_and(|class| class.starts_with("inkling"));
        Self {
            any: mixers().any(is_state) && !are_windows,
            beside_attention: mixers().any(|mixer| !is_state(mixer) && !matches!(mixer, Mixer::None)),
            may_be_of_every_block: mixers().all(is_of_mamba)
                && !architecture.model_type().is_some_and(|class| class.starts_with("plamo2")),
        }
    }

    /// The mode where prefixes are kept and nothing says how.
    fn of_prefixes(self, settings: &Settings, rules: Rules) -> MambaCacheMode {
        let drafts = rules.drafts_without_all && settings.draft_tokens() > 0;
        match (rules.all_for_prefixes && self.may_be_of_every_block, rules.has_align) {
            (true, _) if !drafts => MambaCacheMode::All,
            (_, true) => MambaCacheMode::Align,
            // Prefixes of the other classes are not kept.
            (_, false) => MambaCacheMode::None,
        }
    }
}
