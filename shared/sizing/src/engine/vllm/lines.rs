//! The lines about memory that vLLM prints at start-up.

use super::VllmPlan;
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
