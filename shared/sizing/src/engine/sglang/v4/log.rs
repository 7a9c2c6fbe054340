//! The lines that SGLang prints about DeepSeek-V4's and V4.1's pools.

use super::{DENSE_RATIO, PAIR_RATIO, SPARSE_RATIO, V4Pool};
use crate::engine::sglang::pool::PoolTokens;
use crate::engine::sglang::window_size::WindowSize;
use crate::mixer::Generation;
use crate::settings::Settings;
use crate::{Bytes, Result};

impl V4Pool {
    /// What a launch prints of its pools, on a rank that alone decides them; `budget` where they are sized from one.
    ///
    /// Source: SGLang 0.5.23, `DSV4PoolConfigurator` of `model_executor/pool_configurator.py`.
    pub(in crate::engine::sglang) fn log_lines(
        &self,
        tokens: PoolTokens,
        settings: &Settings,
        budget: Option<u64>,
    ) -> Result<Vec<String>> {
        let window = tokens.window.unwrap_or(0);
        let mut lines = vec![format!("DSV4 SWA sizing: {}", self.window_words(window, settings))];
        if let Some(budget) = budget {
            lines.push(self.budget_line(budget, tokens.full)?);
        }
        let rows = match self.layers_of(SPARSE_RATIO) {
            0 => 0,
            _ => (window / self.page).saturating_mul(self.ring(SPARSE_RATIO)),
        };
        lines.push(format!(
            "DSV4 pool sizes: full={}, swa={window}, c4={}, c128={}, c4_state={rows}, c128_state=0",
            tokens.full,
            tokens.full / SPARSE_RATIO,
            tokens.full / DENSE_RATIO,
        ));
        Ok(lines)
    }

    fn window_words(&self, window: u64, settings: &Settings) -> String {
        if let WindowSize::Cap(cap) = self.tokens.size {
            let tails = cap.kept_tokens() / (self.tokens.longest + self.page);
            return format!(
                "mode=cap, swa_tokens={window}, request_cap+headroom={window}, prefix_tails={tails}"
            );
        }
        // V4's launch sets a ratio where nothing does.
        let is_set = settings.swa_full_tokens_ratio.is_some() || self.generation == Generation::V4;
        let source = if is_set { "explicit" } else { "default" };
        let ratio = self.tokens.ratio().unwrap_or(0.0);
        format!("mode=ratio ({source}), swa_tokens={window}, swa_full_tokens_ratio={ratio:?}")
    }

    fn budget_line(&self, budget: u64, full: u64) -> Result<String> {
        let of_ring =
            |ratio| self.ring_row().times(self.slot_rows(ratio, self.requests))?.times(self.layers_of(ratio));
        let windows = match self.tokens.size {
            WindowSize::Cap(cap) => cap.of_launch()? as f64 * self.per_window_token()?.as_f64(),
            _ => 0.0,
        };
        let gib = |bytes: f64| bytes / f64::from(1_u32 << 30);
        let of_ring = |ratio| of_ring(ratio).map(|bytes: Bytes| gib(bytes.get() as f64));
        Ok(format!(
            "DSV4 memory calculation: unified=False, unified_fp8=False, dspark_draft_bf16=False, \
             bytes_per_full_token={:.2}, available_bytes={:.2} GB, c128_state_fixed={:.2} GB, c2_state_fixed={:.2} GB, \
             swa_fixed={:.2} GB, swa_ring_fixed=0.00 GB, c4_state_fixed=0.00 GB, full_token={full}",
            self.bytes_per_token()?.as_f64(),
            gib(budget as f64),
            of_ring(DENSE_RATIO)?,
            of_ring(PAIR_RATIO)?,
            gib(windows),
        ))
    }
}
