//! One row a rule.

use super::ends::{self, Ends, Windows};
use super::{PrefixQuestion, ReuseUnder};
use crate::engine::{Figure, Quantity, Query, answer};
use crate::growth::Growth;
use crate::mixer::{Generation, Mixer};
use crate::service::WindowPolicy;
use crate::settings::{MambaCacheMode, MambaRadixStrategy, Settings};
use crate::size::StateModel;
use crate::state::{ComponentKind, Lifecycle};
use crate::{Bytes, BytesPerToken, Error, Ratio, Result, Tokens};

/// Tokens a step of vLLM's server on GPUs with at least 70 GiB.
pub(super) const BATCH_TOKENS: u64 = 8192;
/// Tokens that SGLang's linear attention computes at once; its buffered strategies save a state at such a multiple.
const STATE_CHUNK: u64 = 64;

/// A hit before its bytes are counted.
struct Hit<'q> {
    question: &'q PrefixQuestion<'q>,
    state: &'q StateModel,
    rule: &'static str,
    ends: Ends,
    end: u64,
    /// Tokens before the end that run again.
    replayed: u64,
    /// Where a window was kept that is taken over.
    window_at: Option<u64>,
    why: String,
}

/// vLLM: whole blocks, raised until a page of attention holds a state; states where a prefill step ended.
pub(super) fn vllm(question: &PrefixQuestion<'_>, state: &StateModel) -> Result<ReuseUnder> {
    let mut settings = Settings { prefix_caching: Some(true), ..question.settings.clone() };
    settings.max_num_batched_tokens.get_or_insert(BATCH_TOKENS);
    let query = Query::new(question.architecture, question.vllm.clone(), &settings)?;
    let Figure::Tokens(block) = answer(&query, Quantity::AttentionBlockSize)? else {
        return Err(Error::setting("vllm", "the planner names no block"));
    };
    let block = block.get().max(1).saturating_mul(settings.dcp());
    let first = question.prefix.first_tokens.get();
    let batch_tokens = settings.max_num_batched_tokens.unwrap_or(BATCH_TOKENS);
    let mut padded = None;
    let drafts = settings.draft_tokens() > 0;
    let (checkpoints, mut why) = if !ends::has_states(state) {
        (None, format!("whole blocks of {}", Tokens::new(block).counted()))
    } else if settings.mamba_cache_mode == Some(MambaCacheMode::None) {
        (Some(Vec::new()), "mamba_cache_mode none keeps no state".to_owned())
    } else if settings.mamba_cache_mode == Some(MambaCacheMode::All) {
        (None, format!("a state for every whole block of {}", Tokens::new(block).counted()))
    } else {
        padded = padded_state(state, block)?;
        let [of_block, of_step] = [block, batch_tokens].map(|tokens| Tokens::new(tokens).counted());
        let why = format!("whole blocks of {of_block}, and a state only where a step of {of_step} ended");
        (Some(ends::aligned_steps(first, block, batch_tokens, if drafts { block } else { 0 })?), why)
    };
    let ends = Ends { grain: block, checkpoints };
    let mut reach = question.prefix.reach();
    if drafts {
        // EAGLE and MTP compute the last matching block again for their drafts.
        reach = (reach / block).saturating_sub(1) * block;
        why.push_str("; with drafts the last matching block runs again");
    }
    let end = ends.last_up_to(reach);
    let states = match &ends.checkpoints {
        Some(saved) => saved.len() as u64,
        None => u64::from(ends::has_states(state)).saturating_mul(first / block),
    };
    let one = padded.map_or_else(|| state_bytes(state), Ok)?;
    let kept = entries(state, first / block * block)?.plus(one.times(states)?)?;
    Hit { question, state, rule: "vllm_blocks", ends, end, replayed: 0, window_at: Some(end), why }
        .row(kept, None)
}

/// Bytes of one saved state of all layers where each layer's page is padded to a page of attention.
fn padded_state(state: &StateModel, block: u64) -> Result<Option<Bytes>> {
    let of_token = state.parts().iter().find(|part| matches!(part.component.growth, Growth::Linear { .. }));
    let Some(attention) = of_token else { return Ok(None) };
    let page = attention.component.growth.entry().times(block)?;
    let layers = state
        .parts()
        .iter()
        .filter(|part| part.component.kind == ComponentKind::RecurrentState)
        .map(|part| part.layers);
    page.times(layers.sum()).map(Some)
}

/// SGLang: a tree of tokens whose nodes keep a state only where one was copied, and windows only at their end.
pub(super) fn sglang(question: &PrefixQuestion<'_>, state: &StateModel) -> Result<ReuseUnder> {
    let page = question.settings.block_size.unwrap_or_else(|| ends::sglang_page(question.architecture));
    let first = question.prefix.first_tokens.get();
    let windows = Windows::of(state);
    let mut why = match page {
        1 => "single tokens".to_owned(),
        _ => format!("pages of {}", Tokens::new(page).counted()),
    };
    let mut checkpoints = None;
    if ends::has_states(state) {
        let buffered = !matches!(question.settings.mamba_radix_strategy, Some(MambaRadixStrategy::NoBuffer));
        let chunk = if buffered { ends::common_multiple(STATE_CHUNK, page)? } else { page };
        let mut saved = vec![first / chunk * chunk];
        if let Some(interval) = question.settings.checkpoint_interval.filter(|interval| *interval > 0) {
            saved.extend((1..=first / interval).map(|index| index * interval));
            saved.sort_unstable();
            saved.dedup();
        }
        saved.retain(|end| *end > 0);
        why = format!("{why}, and a state only where one was saved: at {}", listed(&saved));
        checkpoints = Some(saved);
    }
    let ends = Ends { grain: page, checkpoints };
    let mut end = ends.last_up_to(question.prefix.reach());
    if windows.widest > 0 && first > windows.widest.saturating_add(page) {
        // Of windows the last tokens of the first request are left, and one page before them.
        why.push_str(", and windows only at the end of the first request");
        if end < first.saturating_sub(page) {
            end = 0;
        }
    }
    let states = ends.checkpoints.as_ref().map_or(0, Vec::len) as u64;
    let kept = state.persisted(Tokens::new(first / page * page), 1, WindowPolicy::AtEnd)?;
    let kept = kept.get() - state_bytes(state)?.get();
    let kept = Bytes::new(kept).plus(state_bytes(state)?.times(states)?)?;
    Hit { question, state, rule: "sglang_checkpoints", ends, end, replayed: 0, window_at: Some(end), why }
        .row(kept, None)
}

/// How a disk store treats windows.
#[derive(Clone, Copy)]
enum Stored {
    By(WindowPolicy),
    /// Nothing, and one window replayed in place of all that its layers look back to: DeepSeek-V4.1's approximation.
    OneWindow,
}

/// A disk store: entries up to the last whole group, a state at the end of the request, windows by policy.
pub(super) fn stores(question: &PrefixQuestion<'_>, state: &StateModel) -> Result<Vec<ReuseUnder>> {
    let windows = Windows::of(state);
    let interval = question.interval;
    let mut policies = vec![("store_at_end", Stored::By(WindowPolicy::AtEnd))];
    if windows.any() {
        policies.insert(0, ("store_full", Stored::By(WindowPolicy::Full)));
        policies.push(("store_periodic", Stored::By(WindowPolicy::Periodic { interval })));
        policies.push(("store_zero", Stored::By(WindowPolicy::Zero)));
    }
    if replays_one_window(question) {
        policies.push(("store_one_window", Stored::OneWindow));
    }
    policies.into_iter().map(|(rule, stored)| store(question, state, rule, stored)).collect()
}

fn store(
    question: &PrefixQuestion<'_>,
    state: &StateModel,
    rule: &'static str,
    stored: Stored,
) -> Result<ReuseUnder> {
    let windows = Windows::of(state);
    let group = ends::whole_groups(state)?;
    let first = question.prefix.first_tokens.get();
    let whole = first / group * group;
    let mut why = match group {
        1 => "any token".to_owned(),
        _ => format!("whole groups of {}", Tokens::new(group).counted()),
    };
    let mut checkpoints = None;
    if ends::has_states(state) {
        why.push_str(", and a state only at the end of the first request");
        checkpoints = Some(vec![whole]);
    }
    let ends = Ends { grain: group, checkpoints };
    let end = ends.last_up_to(question.prefix.reach());
    let all = windows.replay(end);
    let at_end = end == whole;
    let (replayed, window_at, policy) = match stored {
        Stored::By(WindowPolicy::Full) => (0, Some(end), WindowPolicy::Full),
        Stored::By(WindowPolicy::AtEnd) if at_end => (0, Some(end), WindowPolicy::AtEnd),
        Stored::By(WindowPolicy::AtEnd) => (all, None, WindowPolicy::AtEnd),
        Stored::By(WindowPolicy::Periodic { interval }) => {
            let since = if at_end { 0 } else { end % interval.get().max(1) };
            let window_at = (since <= all).then_some(end - since);
            (since.min(all), window_at, WindowPolicy::Periodic { interval })
        }
        Stored::By(WindowPolicy::Zero) => (all, None, WindowPolicy::Zero),
        Stored::OneWindow => (windows.widest.min(end), None, WindowPolicy::Zero),
    };
    if windows.any() {
        why.push_str(match stored {
            Stored::By(WindowPolicy::Full) => "; the windows of every token are there",
            Stored::By(WindowPolicy::AtEnd) => "; windows are there at the end of the first request alone",
            Stored::By(WindowPolicy::Periodic { .. }) => {
                "; windows are there at every interval and at the end"
            }
            Stored::By(WindowPolicy::Zero) => {
                "; no windows: every window layer looks back one window further"
            }
            Stored::OneWindow => "; no windows, and one is run again: an approximation",
        });
    }
    let kept = state.persisted(Tokens::new(first), 1, policy)?;
    let read = match policy {
        WindowPolicy::Zero => kept,
        _ => state.persisted(Tokens::new(first), 1, WindowPolicy::AtEnd)?,
    };
    let amplification =
        (read > Bytes::ZERO).then(|| Ratio::from(kept).over(Ratio::from(read))).transpose()?;
    Hit { question, state, rule, ends, end, replayed, window_at, why }.row(kept, amplification)
}

fn replays_one_window(question: &PrefixQuestion<'_>) -> bool {
    question.architecture.mixers().any(|mixer| match mixer {
        Mixer::Compressed(attention) => attention.generation == Generation::V41,
        _ => false,
    })
}

impl Hit<'_> {
    fn row(self, kept: Bytes, write_amplification: Option<Ratio>) -> Result<ReuseUnder> {
        let prefix = self.question.prefix;
        let second = prefix.second_tokens.get();
        let computed = second - self.end + self.replayed;
        let saved = Ratio::new(i128::from(second - computed), i128::from(second))?;
        let mut reused = Bytes::ZERO;
        if self.end > 0 {
            reused = entries(self.state, self.end)?.plus(state_bytes(self.state)?)?;
            if let Some(at) = self.window_at {
                reused = reused.plus(live_windows(self.state, at)?)?;
            }
        }
        Ok(ReuseUnder {
            rule: self.rule,
            granularity_tokens: self.ends.checkpoints.is_none().then(|| Tokens::new(self.ends.grain)),
            hit_tokens: Tokens::new(self.end),
            lost_tokens: Tokens::new(prefix.shared_tokens.get() - self.end),
            replayed_tokens: Tokens::new(self.replayed),
            computed_tokens: Tokens::new(computed),
            saved_share: saved,
            kept_bytes: kept,
            kept_bytes_per_token: BytesPerToken::new(kept, prefix.first_tokens.get())?,
            reused_bytes: reused,
            write_amplification,
            why: self.why,
            sensitivities: Vec::new(),
        })
    }
}

/// Bytes of what keeps an entry for every token or group, and of what is kept once.
fn entries(state: &StateModel, end: u64) -> Result<Bytes> {
    sum(state, end, |kind, lifecycle| {
        (lifecycle == Lifecycle::Token || kind == ComponentKind::CrossKv)
            && !matches!(kind, ComponentKind::CompressorState)
    })
}

/// Bytes of windows and chunks that the token after `end` attends to.
fn live_windows(state: &StateModel, end: u64) -> Result<Bytes> {
    sum(state, end, |kind, _| matches!(kind, ComponentKind::WindowKv | ComponentKind::ChunkKv))
}

/// Bytes of one recurrent and convolution state of all layers.
fn state_bytes(state: &StateModel) -> Result<Bytes> {
    sum(state, 0, |kind, _| matches!(kind, ComponentKind::RecurrentState | ComponentKind::ConvState))
}

fn sum(state: &StateModel, end: u64, counts: impl Fn(ComponentKind, Lifecycle) -> bool) -> Result<Bytes> {
    let counted = state.parts().iter().filter(|part| counts(part.component.kind, part.component.lifecycle));
    counted
        .map(|part| part.component.transfer_bytes(Tokens::new(end))?.times(part.layers))
        .try_fold(Bytes::ZERO, |total, bytes| total.plus(bytes?))
}

/// The first few of several places.
fn listed(places: &[u64]) -> String {
    const SHOWN: usize = 3;
    let words: Vec<String> = places.iter().take(SHOWN).map(|place| crate::group_digits(*place)).collect();
    match places.len() {
        0 => "nowhere".to_owned(),
        count if count <= SHOWN => words.join(", "),
        count => format!("{}, … ({count} places)", words.join(", ")),
    }
}
