//! Launches that SGLang refuses, in its own rules (0.5.23, `arg_groups` and `mem_cache/kv_cache_configurator.py`).

use super::launch::{Launch, Overlap};
use super::{classes, requests};
use crate::engine::Query;
use crate::format::KvFormat;
use crate::mixer::Mixer;
use crate::settings::{MambaRadixStrategy, Settings};
use crate::state::counted;
use crate::{Error, Result};

/// Tokens between two states that a decoding request snapshots (`mamba_track_interval`).
const TRACK_INTERVAL: u64 = 256;

/// Refuses ranks that cannot be: groups of data-parallel attention and context-parallel ranks are parts of the
/// tensor-parallel ones (`handle_data_parallelism`, `initialize_model_parallel`).
///
/// # Errors
///
/// The setting that does not fit.
pub(super) fn ranks(settings: &Settings) -> Result<()> {
    let (tp, dcp, groups) = (settings.tp(), settings.dcp(), settings.dp.unwrap_or(1));
    if !tp.is_multiple_of(groups) {
        let what = format!(
            "{groups} groups of data-parallel attention must divide the {tp} tensor-parallel ranks, which they share out; \
             SGLang refuses this"
        );
        return Err(Error::setting("dp", what));
    }
    if !tp.is_multiple_of(dcp) {
        let what = format!(
            "{dcp} context-parallel ranks must divide the {tp} tensor-parallel ones, whose ranks they are; SGLang refuses \
             this"
        );
        return Err(Error::setting("dcp", what));
    }
    let group = tp / groups;
    if group.is_multiple_of(dcp) {
        return Ok(());
    }
    // SGLang divides K/V heads by `attn_tp // dcp` (`get_num_kv_heads`), and has no rule where that is nothing.
    let what = format!(
        "{dcp} context-parallel ranks hold the tokens of one request, but a group of data-parallel attention has {}; no rule \
         says how several groups share them",
        counted(group, "rank", "ranks")
    );
    Err(Error::setting("dcp", what))
}

/// Refuses settings that do not fit each other or the model.
///
/// # Errors
///
/// The setting that does not fit.
pub(super) fn launch(query: &Query<'_>, launch: &Launch) -> Result<()> {
    formats(query)?;
    pools(query, launch)?;
    if query.engine.at_least(&[0, 5, 14]) && query.settings.radix_cache != Some(false) {
        strategy(query, launch)?;
    }
    Ok(())
}

/// Refuses fewer state slots than one request takes: `max_num_reqs <= 0` (`resolve_max_num_reqs`).
///
/// # Errors
///
/// `state_slots`.
pub(super) fn slots(settings: &Settings, launch: &Launch) -> Result<()> {
    let each = requests::state_slots_per_request(settings, launch);
    let (Some(slots), least) = (settings.state_slots, each * launch.attention_dp) else { return Ok(()) };
    if slots >= least {
        return Ok(());
    }
    let what = format!(
        "{} no request, which takes {each}; SGLang refuses this; set {least} or more",
        if slots == 1 { "1 slot admits".to_owned() } else { format!("{slots} slots admit") }
    );
    Err(Error::setting("state_slots", what))
}

/// Formats by the mixer: DSA and DeepSeek-V4 keep bf16 or FP8 (`_dsa_kv_cache_dtype_default`, `_deepseek_v4_kv_cache_dtype`, which
/// V4.1 has too: `configs/deepseek_v41.py` gives it V4's class), and they alone the scaled record.
fn formats(query: &Query<'_>) -> Result<()> {
    let Some((name, asked)) = query.settings.latent_dtype() else { return Ok(()) };
    let mut mixers = query.architecture.mixers();
    let is_sparse = mixers.any(|mixer| matches!(mixer, Mixer::Dsa { .. } | Mixer::Compressed(_)));
    let refused = match asked {
        KvFormat::Nvfp4 | KvFormat::Mxfp8 => is_sparse,
        KvFormat::Fp8DsMla => !is_sparse && classes::has_latents(query.architecture),
        _ => false,
    };
    if !refused {
        return Ok(());
    }
    let what = format!("SGLang refuses {} for these latents; set fp8 or bf16", asked.name());
    Err(Error::setting(name, what))
}

/// `handle_cache_compatibility` (the ratio), `check_server_args` (chunks of whole pages) and the pooled index of DSA.
fn pools(query: &Query<'_>, launch: &Launch) -> Result<()> {
    let settings = query.settings;
    if let Some(ratio) = settings.swa_full_tokens_ratio.filter(|ratio| ratio.get() > 1.0) {
        let what = format!("{} is more than 1, which SGLang refuses", ratio.get());
        return Err(Error::setting("swa_full_tokens_ratio", what));
    }
    let (chunk, page) = (launch.chunked_prefill, launch.page);
    if chunk % page != 0 {
        let field =
            if settings.max_num_batched_tokens.is_some() { "max_num_batched_tokens" } else { "block_size" };
        let what = format!(
            "pages of {page} tokens do not divide a prefill chunk of {chunk} (max_num_batched_tokens); SGLang refuses this"
        );
        return Err(Error::setting(field, what));
    }
    let mut keys = query.architecture.mixers().filter_map(|mixer| match mixer {
        Mixer::Dsa { index, .. } => index.as_ref(),
        _ => None,
    });
    if settings.dcp() > 1 && keys.any(|keys| keys.pool.get() > 1) {
        let what = "SGLang refuses context-parallel ranks where tokens share an index key; set 1";
        return Err(Error::setting("dcp", what));
    }
    Ok(())
}

/// `validate_mamba_extra_buffer` and `validate_mamba_no_buffer`, of a strategy that is set.
fn strategy(query: &Query<'_>, launch: &Launch) -> Result<()> {
    let has_state = query.architecture.mixers().any(|mixer| matches!(mixer, Mixer::Recurrent(_)));
    let Some(asked) = query.settings.mamba_radix_strategy.filter(|_| has_state) else { return Ok(()) };
    let page = launch.page;
    let what = match asked {
        MambaRadixStrategy::NoBuffer if page > 1 => {
            format!("no_buffer needs pages of one token, and block_size is {page}")
        }
        // Pipeline ranks end the overlap only after this is asked (`run_resolution_pipeline`).
        MambaRadixStrategy::NoBuffer if query.settings.async_scheduling != Some(false) => {
            "no_buffer cannot overlap batches; set async_scheduling=false".to_owned()
        }
        MambaRadixStrategy::NoBuffer => return Ok(()),
        _ if !classes::may_have_extra_buffer(query.architecture) => {
            "this class has no extra buffer; set no_buffer".to_owned()
        }
        MambaRadixStrategy::ExtraBufferLazy if launch.overlap == Overlap::Off => {
            "extra_buffer_lazy needs batches that overlap; set extra_buffer".to_owned()
        }
        _ if !TRACK_INTERVAL.is_multiple_of(page) => {
            format!(
                "states are kept every {TRACK_INTERVAL} tokens, no multiple of pages of {page}; set block_size"
            )
        }
        _ => return Ok(()),
    };
    Err(Error::setting("mamba_radix_strategy", format!("{what} (SGLang refuses this)")))
}
