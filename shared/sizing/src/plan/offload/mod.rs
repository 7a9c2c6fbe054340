//! Offload: restoring a request's state from a tier against computing it again.
//!
//! Restoring takes start + α·copies + bytes/β, so the same bytes cost more the smaller the pieces that they lie in. Computing
//! again takes FLOPs/F, the part that grows with the square of the context included. κ* is how many tokens can be restored in
//! the time in which one new token is computed, and BW* the bandwidth at which both take as long; for short contexts
//! κ* = (f/F)·(β/b) and BW* = b·F/f with b the bytes and f the FLOPs of one token (after arXiv 2601.19910, with κ the cached
//! tokens over the new ones).

mod curves;
mod layout;
#[cfg(not(target_arch = "wasm32"))]
pub(in crate::plan) mod published;
mod tier;
mod turns;

use serde::Serialize;

use crate::architecture::Architecture;
use crate::describe::describe;
use crate::plan::{Sensitivity, sensitivities};
use crate::settings::Settings;
use crate::warning::Warning;
use crate::{Bytes, BytesPerToken, Error, Result, Tokens};

pub use curves::{RestoreCurve, RestoreCurves, restore_curves};
pub use layout::{Copies, CopyLayout};
pub use tier::{Tier, TierGrade};
pub use turns::{Turn, Way};

/// What computing a prompt again costs.
#[derive(Clone, Copy)]
pub struct Recompute<'c> {
    /// Floating point operations of a prompt of so many tokens.
    pub flops: &'c dyn Fn(Tokens) -> Result<f64>,
    /// Seconds that the machine really takes for it.
    pub seconds: &'c dyn Fn(Tokens) -> Result<f64>,
}

impl std::fmt::Debug for Recompute<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Recompute").finish_non_exhaustive()
    }
}

/// What is asked of one model.
#[derive(Clone, Copy, Debug)]
pub struct OffloadQuestion<'q> {
    /// Catalogue id or path, a label.
    pub model: &'q str,
    /// The layers.
    pub architecture: &'q Architecture,
    /// Formats and the block.
    pub settings: &'q Settings,
    /// Tokens of the request.
    pub context: Tokens,
    /// Where its state can be restored from.
    pub tiers: &'q [Tier],
    /// What computing it again costs.
    pub recompute: Recompute<'q>,
}

/// Restore against recompute, tier by tier.
#[derive(Clone, Debug, Serialize)]
pub struct OffloadPlan {
    /// Catalogue id or path.
    pub model: String,
    /// Tokens of the request.
    pub context_tokens: Tokens,
    /// Tokens of a block.
    pub block_tokens: Tokens,
    /// Seconds of computing the prompt again.
    pub recompute_seconds: f64,
    /// Operations of it.
    pub recompute_flops: f64,
    /// F: operations a second over all of them, each type at its own rate.
    pub flops_per_second: f64,
    /// Longest context that break-evens are looked for up to.
    pub searched_up_to_tokens: Tokens,
    /// One row for each tier and layout.
    pub rows: Vec<Restore>,
    /// κ of the first tier in whole blocks with each input a tenth less and more, the input that matters most first.
    pub sensitivities: Vec<Sensitivity>,
    /// Assumptions and doubts.
    pub warnings: Vec<Warning>,
}

/// Restoring from one tier in one layout.
#[derive(Clone, Debug, Serialize)]
pub struct Restore {
    /// The tier.
    pub tier: String,
    /// Where its α and β come from.
    pub grade: TierGrade,
    /// The same in words.
    pub source: String,
    /// How the state lies there.
    pub layout: CopyLayout,
    /// Pieces that are copied one by one.
    pub copies: u64,
    /// Bytes of all of them: whole blocks.
    pub bytes: Bytes,
    /// Tensor-parallel ranks that restore at once.
    pub ranks: u64,
    /// Bytes that the fullest of them restores.
    pub rank_bytes: Bytes,
    /// Seconds; null where nothing is kept, as all that follows.
    pub seconds: Option<f64>,
    /// Bytes over seconds.
    pub bytes_per_second: Option<f64>,
    /// κ at this context: tokens restored in the time in which one is computed, both on average.
    pub kappa: Option<f64>,
    /// BW*: β at which restoring takes as long as computing; null where the pieces alone take longer.
    pub break_even_bytes_per_second: Option<f64>,
    /// Where restoring and computing change places; none where nothing is kept.
    pub turns: Vec<Turn>,
    /// Whether restoring is quicker at this context.
    pub restore_wins: Option<bool>,
}

/// κ* = (f/F)·(BW/b): cached tokens that are restored in the time in which one new token is computed.
///
/// # Errors
///
/// A figure that is not a positive number.
pub fn kappa(
    flops_per_token: f64,
    flops_per_second: f64,
    bandwidth: f64,
    slope: BytesPerToken,
) -> Result<f64> {
    let bytes = checked("slope", slope.as_f64())?;
    let seconds = checked("flops", flops_per_token)? / checked("flops_per_second", flops_per_second)?;
    Ok(seconds * checked("bandwidth", bandwidth)? / bytes)
}

/// BW* = b·F/f: the bandwidth at which restoring a token takes as long as computing it, in bytes a second.
///
/// # Errors
///
/// A figure that is not a positive number.
pub fn break_even_bandwidth(
    slope: BytesPerToken,
    flops_per_second: f64,
    flops_per_token: f64,
) -> Result<f64> {
    let bytes = checked("slope", slope.as_f64())?;
    Ok(bytes * checked("flops_per_second", flops_per_second)? / checked("flops", flops_per_token)?)
}

fn checked(name: &str, value: f64) -> Result<f64> {
    if value.is_finite() && value > 0.0 {
        return Ok(value);
    }
    Err(Error::setting(name, format!("{value} has no break-even; give a positive number")))
}

/// The longest context that is searched where the config names none.
const LONGEST: u64 = 1 << 20;

/// Compares restoring the state of one request with computing it again.
///
/// # Errors
///
/// A tier or a machine without speed, a context beyond the config's, a block that cuts a compression group, or an overflow.
pub fn offload(question: &OffloadQuestion<'_>) -> Result<OffloadPlan> {
    for tier in question.tiers {
        tier.check()?;
    }
    crate::plan::within("context", question.context, question.architecture)?;
    let limit = question.architecture.max_context().map(crate::Fact::get);
    let longest = limit.unwrap_or(LONGEST).max(question.context.get());
    let described = describe(question.model, question.architecture, question.settings)?;
    let flops = (question.recompute.flops)(question.context)?;
    let recompute_seconds = computed_seconds(question, question.context.get())?;
    let flops_per_second = checked("flops_per_second", flops / recompute_seconds)?;
    let computing = turns::computing_at(question, longest)?;
    let mut rows = Vec::new();
    for tier in question.tiers {
        let layouts = layout::Layouts::of(&described, tier.ranks)?;
        for layout in CopyLayout::ALL {
            rows.push(row(question, tier, &layouts, layout, recompute_seconds, &computing)?);
        }
    }
    let by_block = rows.iter().find(|row| row.layout == CopyLayout::ByBlock);
    let sensitivities = question
        .tiers
        .first()
        .zip(by_block)
        .map_or_else(Vec::new, |(tier, row)| sensitivities_of(tier, row, flops, flops_per_second));
    Ok(OffloadPlan {
        model: question.model.to_owned(),
        context_tokens: question.context,
        block_tokens: described.service.block.tokens,
        recompute_seconds,
        recompute_flops: flops,
        flops_per_second,
        searched_up_to_tokens: Tokens::new(longest),
        warnings: warnings(described.warnings, &rows),
        rows,
        sensitivities,
    })
}

/// Those of the description, and that there is nothing to restore.
fn warnings(mut warnings: Vec<Warning>, rows: &[Restore]) -> Vec<Warning> {
    if rows.iter().any(|row| row.seconds.is_none()) {
        let message = "the model keeps no state, so nothing is restored and there is no break-even";
        warnings.push(Warning::new("state", message));
    }
    warnings
}

fn sensitivities_of(tier: &Tier, row: &Restore, flops: f64, flops_per_second: f64) -> Vec<Sensitivity> {
    if row.seconds.is_none() {
        return Vec::new();
    }
    let inputs = [
        ("bytes", row.rank_bytes.get() as f64),
        ("beta", tier.beta_bytes_per_second),
        ("alpha", tier.alpha_seconds),
        ("start", tier.start_seconds),
        ("operations", flops),
        ("operations a second", flops_per_second),
    ];
    sensitivities(&inputs, |of| {
        let [bytes, beta, alpha, start, flops, rate] = *of else { return None };
        let restoring = start + alpha * row.copies as f64 + bytes / beta;
        (restoring > 0.0).then(|| flops / rate / restoring)
    })
}

fn row(
    question: &OffloadQuestion<'_>,
    tier: &Tier,
    layouts: &layout::Layouts,
    layout: CopyLayout,
    recompute_seconds: f64,
    computing: &[(u64, f64)],
) -> Result<Restore> {
    let copies = layouts.at(question.context, layout)?;
    let seconds = Some(tier.seconds(copies)).filter(|_| copies.bytes > Bytes::ZERO);
    let left = recompute_seconds - tier.start_seconds - tier.alpha_seconds * copies.pieces as f64;
    Ok(Restore {
        tier: tier.name.clone(),
        grade: tier.grade,
        source: tier.source.clone(),
        layout,
        copies: copies.pieces,
        bytes: copies.bytes,
        ranks: tier.ranks,
        rank_bytes: copies.rank_bytes,
        seconds,
        bytes_per_second: seconds.map(|seconds| copies.bytes.get() as f64 / seconds),
        kappa: seconds.map(|seconds| recompute_seconds / seconds),
        break_even_bytes_per_second: seconds
            .filter(|_| left > 0.0)
            .map(|_| copies.rank_bytes.get() as f64 / left),
        turns: match seconds {
            Some(_) => turns::turns(question, tier, layouts, layout, computing)?,
            None => Vec::new(),
        },
        restore_wins: seconds.map(|seconds| seconds < recompute_seconds),
    })
}

fn computed_seconds(question: &OffloadQuestion<'_>, tokens: u64) -> Result<f64> {
    let seconds = (question.recompute.seconds)(Tokens::new(tokens))?;
    if seconds.is_finite() {
        return Ok(seconds);
    }
    let what = format!("{tokens} tokens take longer than can be said; give more operations a second");
    Err(Error::setting("flops_per_second", what))
}
