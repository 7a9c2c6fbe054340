//! The lines about memory that vLLM prints at start-up.

use super::VllmPlan;
use super::rules::FitCheck;
use crate::warning::Warning;
use crate::{Result, group_digits};

impl VllmPlan<'_> {
    /// In the order of the log. Lines that need the pool are left out without it.
    pub(super) fn lines(&self) -> Result<Vec<String>> {
        let mut lines = Vec::new();
        if self.has_states {
            self.alignment_lines(&mut lines)?;
        }
        for kind in &self.grouping.padded {
            let waste = kind.padding as f64 / kind.layers as f64 * 100.0;
            lines.push(format!(
                "Add {} padding layers, may waste at most {waste:.2}% KV cache memory",
                kind.padding
            ));
        }
        let (Some(_), Some(length)) = (self.settings.available_kv_bytes, self.max_model_len) else {
            return Ok(lines);
        };
        if self.grouping.groups.is_empty() {
            return Ok(lines);
        }
        if let Some(refusal) = self.refusal()? {
            lines.push(refusal);
            return Ok(lines);
        }
        let tokens = group_digits(self.logged_tokens(length)?);
        let concurrency = self.max_concurrency(length)?;
        let length = group_digits(length);
        let size = format!("GPU KV cache size: {tokens} tokens");
        let requests = format!("Maximum concurrency for {length} tokens per request: {concurrency:.2}x");
        if self.rules.one_capacity_line {
            lines.push(format!("{size}, {requests}"));
        } else {
            lines.extend([size, requests]);
        }
        Ok(lines)
    }

    /// What the start ends with where a request of the longest length does not fit (`_check_enough_kv_cache_memory`).
    ///
    /// # Errors
    ///
    /// An overflow.
    fn refusal(&self) -> Result<Option<String>> {
        let (Some(available), Some(length)) = (self.settings.available_kv_bytes, self.max_model_len) else {
            return Ok(None);
        };
        if self.grouping.groups.is_empty() || self.starts_with(length)? {
            return Ok(None);
        }
        if available == 0 {
            return Ok(Some("ValueError: No available memory for the cache blocks.".to_owned()));
        }
        let gib = |bytes: u64| {
            let gib = bytes as f64 / f64::from(1_u32 << 30);
            match self.rules.fit_check {
                FitCheck::Layers => format!("{gib:.2}"),
                _ => format!("{:?}", (gib * 100.0).round() / 100.0),
            }
        };
        let shorter = match self.longest_length(length)? {
            0 => String::new(),
            fitting => {
                format!(" Based on the available memory, the estimated maximum model length is {fitting}.")
            }
        };
        Ok(Some(format!(
            "ValueError: To serve at least one request with the {}'s max seq len ({length}), ({} GiB KV cache is needed, which \
             is larger than the available KV cache memory ({} GiB).{shorter}",
            if self.rules.group_aware_token_line { "model" } else { "models" },
            gib(self.needed_bytes(length)?.get()),
            gib(available)
        )))
    }

    /// Says so where the memory is too small to start with.
    pub(super) fn refusal_warning(&self) -> Option<Warning> {
        self.settings.available_kv_bytes?;
        // What overflows does not fit either.
        let length = self.max_model_len.filter(|length| !self.starts_with(*length).unwrap_or(false))?;
        let what = format!(
            "vLLM refuses to start: a request of max_model_len {} does not fit; the figures of its pool are what it would have",
            group_digits(length)
        );
        Some(Warning::new("available_kv_bytes", what))
    }

    fn alignment_lines(&self, lines: &mut Vec<String>) -> Result<()> {
        if self.blocks.raised {
            let block = self.blocks.attention;
            lines.push(format!(
                "Setting attention block size to {block} tokens to ensure that attention page size is >= mamba page size."
            ));
        }
        let mut largest = None;
        for set in self.grouping.groups.iter().flat_map(|group| &group.sets).filter(|set| set.spec.is_state())
        {
            largest = largest.max(Some(set.spec.content()?));
        }
        if let (Some(page), Some(state)) = (self.blocks.state_page, largest) {
            let percent = (page - state) as f64 / state as f64 * 100.0;
            lines.push(format!(
                "Padding mamba page size by {percent:.2}% to ensure that mamba page size and attention page size are exactly equal."
            ));
        }
        Ok(())
    }
}
