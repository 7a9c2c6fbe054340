//! Prefix reuse: what a second request can take over of a first one whose tokens it begins with, under the rules of
//! engines and of a disk store, what runs again, and what is kept for it.
//!
//! At least one token of the second request is computed, since its output is what the answer starts from. A hit ends where
//! every component accepts it: entries of every token at whole blocks, compressed streams at whole groups, windows where
//! their last tokens are still there, a recurrent state exactly where one was saved.

mod ends;
#[cfg(not(target_arch = "wasm32"))]
pub(in crate::plan) mod published;
mod rows;

use std::cell::RefCell;

use serde::Serialize;

use super::{Moving, Sensitivity, sensitivities, sensitivity};
use crate::architecture::Architecture;
use crate::engine::{Engine, EngineKind};
use crate::settings::Settings;
use crate::size::StateModel;
use crate::warning::Warning;
use crate::{Bytes, BytesPerToken, Error, Ratio, Result, Tokens};

pub use ends::Ends;

/// Two requests, the second of which begins with tokens of the first.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
pub struct SharedPrefix {
    /// Tokens of the first request's prompt.
    pub first_tokens: Tokens,
    /// Tokens of the second request's prompt.
    pub second_tokens: Tokens,
    /// Tokens from the first on that both have.
    pub shared_tokens: Tokens,
}

/// What is asked of one model.
#[derive(Clone, Debug)]
pub struct PrefixQuestion<'q> {
    /// Catalogue id or path, a label.
    pub model: &'q str,
    /// The layers.
    pub architecture: &'q Architecture,
    /// Formats, blocks, batch tokens, how states are kept.
    pub settings: &'q Settings,
    /// The vLLM whose blocks are asked for.
    pub vllm: &'q Engine,
    /// The two requests.
    pub prefix: SharedPrefix,
    /// Tokens between the windows that a periodic store keeps.
    pub interval: Tokens,
    /// Whether inputs are moved.
    pub moving: Moving,
}

/// What the second request can reuse, rule by rule.
#[derive(Clone, Debug, Serialize)]
pub struct PrefixPlan {
    /// Catalogue id or path.
    pub model: String,
    /// The two requests.
    #[serde(flatten)]
    pub prefix: SharedPrefix,
    /// Tokens between the windows of a periodic store.
    pub interval_tokens: Tokens,
    /// The settings that were given.
    pub settings: Settings,
    /// One row a rule.
    pub rules: Vec<ReuseUnder>,
    /// Assumptions and doubts.
    pub warnings: Vec<Warning>,
}

/// What one rule lets the second request reuse.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ReuseUnder {
    /// `vllm_blocks sglang_checkpoints store_full store_at_end store_periodic store_zero store_one_window`
    pub rule: &'static str,
    /// The tokens of which a hit ends at a multiple; absent where it ends only where a state was saved.
    pub granularity_tokens: Option<Tokens>,
    /// Where the hit ends: everything before is reused, apart from what is replayed.
    pub hit_tokens: Tokens,
    /// Shared tokens that lie behind the end of the hit.
    pub lost_tokens: Tokens,
    /// Tokens before the end of the hit that run again to fill windows that were not kept.
    pub replayed_tokens: Tokens,
    /// Tokens that the second request runs: those behind the hit and those replayed.
    pub computed_tokens: Tokens,
    /// Tokens that it does not run over all of its tokens.
    pub saved_share: Ratio,
    /// Bytes that are kept of the first request, dense and unsharded.
    pub kept_bytes: Bytes,
    /// The same over its tokens.
    pub kept_bytes_per_token: BytesPerToken,
    /// Bytes of state that the second request takes over.
    pub reused_bytes: Bytes,
    /// Bytes written of the first request over those that a hit at its end reads; absent where nothing is written.
    pub write_amplification: Option<Ratio>,
    /// Why the hit ends there.
    pub why: String,
    /// What a tenth of each input does to the tokens that are computed, the input that matters most first.
    pub sensitivities: Vec<Sensitivity>,
}

impl SharedPrefix {
    /// Two prompts of so many tokens that begin with `shared` equal ones.
    ///
    /// # Errors
    ///
    /// A prompt without tokens, or more shared tokens than the shorter prompt has.
    pub fn new(first: Tokens, second: Tokens, shared: Tokens) -> Result<Self> {
        for (name, tokens) in [("first", first), ("second", second)] {
            if tokens.get() == 0 {
                return Err(Error::setting(name, "a prompt of 0 tokens has no prefix; give at least 1"));
            }
        }
        let shorter = first.min(second);
        if shared > shorter {
            let what = format!("{shared} tokens cannot be shared by prompts of {first} and {second}");
            return Err(Error::setting("shared", what));
        }
        Ok(Self { first_tokens: first, second_tokens: second, shared_tokens: shared })
    }

    /// The same of two prompts given as token ids.
    ///
    /// # Errors
    ///
    /// As [`SharedPrefix::new`].
    pub fn of_ids(first: &[u64], second: &[u64]) -> Result<Self> {
        let shared = first.iter().zip(second).take_while(|(a, b)| a == b).count();
        let tokens = |count: usize| Tokens::new(count as u64);
        Self::new(tokens(first.len()), tokens(second.len()), tokens(shared))
    }

    /// The last token at which a hit can end.
    pub(crate) fn reach(&self) -> u64 {
        self.shared_tokens.get().min(self.second_tokens.get() - 1)
    }

    fn within(&self, architecture: &Architecture) -> Result<()> {
        super::within("first", self.first_tokens, architecture)?;
        super::within("second", self.second_tokens, architecture)
    }
}

/// What the second request can reuse under every rule that the model has a use for.
///
/// # Errors
///
/// Prompts that are longer than the config allows, an interval of zero, a format that does not fit, or an overflow. An engine
/// that does not take the model is a warning, and its row is missing.
pub fn reuse(question: &PrefixQuestion<'_>) -> Result<PrefixPlan> {
    question.prefix.within(question.architecture)?;
    if question.interval.get() == 0 {
        return Err(Error::setting("every", "a window every 0 tokens is no interval; give at least 1"));
    }
    if question.vllm.kind() != EngineKind::Vllm {
        return Err(Error::setting("vllm", format!("{} is no version of vLLM", question.vllm)));
    }
    let state = StateModel::new(question.architecture, question.settings)?;
    let mut warnings = state.warnings().to_vec();
    let mut rules = Vec::new();
    match rows::vllm(question, &state) {
        Ok(row) => rules.push(row),
        Err(error) => warnings.push(Warning::new("vllm", format!("left out: {error}"))),
    }
    rules.push(rows::sglang(question, &state)?);
    rules.extend(rows::stores(question, &state)?);
    if question.moving == Moving::Inputs {
        move_inputs(question, &mut rules);
    }
    Ok(PrefixPlan {
        model: question.model.to_owned(),
        prefix: question.prefix,
        interval_tokens: question.interval,
        settings: question.settings.clone(),
        rules,
        warnings,
    })
}

/// Tokens that are computed of the second prompt, by how many it shares with the first.
#[derive(Clone, Debug, PartialEq)]
pub struct ReuseCurve {
    /// Shared tokens, rising.
    pub shared: Vec<Tokens>,
    /// Each rule with the tokens that it has computed.
    pub rules: Vec<(&'static str, Vec<Tokens>)>,
}

/// Lengths of the shared prefix that a curve has, beside the one that was asked.
const SHARES: u64 = 64;

/// What every rule of [`reuse`] has computed as the shared prefix grows to the whole of the shorter prompt.
///
/// # Errors
///
/// As [`reuse`].
pub fn reuse_curve(question: &PrefixQuestion<'_>) -> Result<ReuseCurve> {
    let SharedPrefix { first_tokens, second_tokens, shared_tokens } = question.prefix;
    let shorter = first_tokens.min(second_tokens).get();
    let part = |share: u64| u128::from(shorter) * u128::from(share) / u128::from(SHARES);
    let mut places: Vec<u64> = (1..=SHARES).filter_map(|share| u64::try_from(part(share)).ok()).collect();
    places.push(shared_tokens.get());
    places.sort_unstable();
    places.dedup();
    let shared: Vec<Tokens> = places.into_iter().filter(|tokens| *tokens > 0).map(Tokens::new).collect();
    let mut rules: Vec<(&'static str, Vec<Tokens>)> = Vec::new();
    for shared_tokens in &shared {
        let prefix = SharedPrefix { shared_tokens: *shared_tokens, ..question.prefix };
        let plan = reuse(&PrefixQuestion { prefix, moving: Moving::Nothing, ..question.clone() })?;
        for row in plan.rules {
            match rules.iter_mut().find(|(rule, _)| *rule == row.rule) {
                Some((_, computed)) => computed.push(row.computed_tokens),
                None => rules.push((row.rule, vec![row.computed_tokens])),
            }
        }
    }
    Ok(ReuseCurve { shared, rules })
}

/// Says of each rule what a tenth of each input does to the tokens that it has computed. Of a prompt that becomes shorter than
/// the shared tokens all is shared.
fn move_inputs(question: &PrefixQuestion<'_>, rules: &mut [ReuseUnder]) {
    let SharedPrefix { first_tokens, second_tokens, shared_tokens } = question.prefix;
    let step = question.settings.max_num_batched_tokens.unwrap_or(rows::BATCH_TOKENS);
    let inputs = [
        ("first prompt", first_tokens.get() as f64),
        ("second prompt", second_tokens.get() as f64),
        ("shared tokens", shared_tokens.get() as f64),
        ("interval of windows", question.interval.get() as f64),
        ("tokens of a step", step as f64),
    ];
    // Every rule asks for the same moved inputs, whose rows are made once for all of them.
    let made: RefCell<Vec<(Vec<f64>, Vec<ReuseUnder>)>> = RefCell::default();
    for rule in rules {
        let name = rule.rule;
        rule.sensitivities = sensitivities(&inputs, |of| {
            let mut made = made.borrow_mut();
            if made.iter().all(|(known, _)| known != of) {
                made.push((of.to_vec(), moved_to(question, of).unwrap_or_default()));
            }
            let rows = &made.iter().find(|(known, _)| known == of)?.1;
            Some(rows.iter().find(|row| row.rule == name)?.computed_tokens.get() as f64)
        });
    }
}

/// The rows for inputs in the order of [`move_inputs`]; none where they are no question.
fn moved_to(question: &PrefixQuestion<'_>, of: &[f64]) -> Option<Vec<ReuseUnder>> {
    let tokens = |place: usize| sensitivity::tokens(*of.get(place)?);
    let (first, second) = (tokens(0)?, tokens(1)?);
    let prefix = SharedPrefix::new(first, second, tokens(2)?.min(first).min(second)).ok()?;
    let settings = Settings { max_num_batched_tokens: Some(tokens(4)?.get()), ..question.settings.clone() };
    let (interval, moving) = (tokens(3)?, Moving::Nothing);
    let moved = PrefixQuestion { prefix, interval, settings: &settings, moving, ..question.clone() };
    Some(reuse(&moved).ok()?.rules)
}

impl PrefixPlan {
    /// The row of one rule.
    pub fn rule(&self, name: &str) -> Option<&ReuseUnder> {
        self.rules.iter().find(|row| row.rule == name)
    }
}
