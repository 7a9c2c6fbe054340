//! What is said of the largest batch that fits, the same in every answer.

use super::fit::Room;
use super::fit_notes::Bound;
use super::{EngineKind, vllm};
use crate::state::counted;
use crate::{Result, Tokens};

impl Room<'_> {
    /// What stands beside `most` requests of `context` tokens, which are the most that fit: whatever bounds them besides the memory,
    /// how many have blocks while they decode, and how many the engine runs unless a launch says otherwise.
    ///
    /// # Errors
    ///
    /// Settings that do not fit the model.
    pub fn remarks(&self, context: Tokens, most: u64) -> Result<Vec<String>> {
        if self.is_dense() {
            return Ok(Vec::new());
        }
        let of =
            |requests: u64| format!("{} of {}", counted(requests, "request", "requests"), context.counted());
        let mut remarks = Vec::new();
        if self.bound(context, most)? == Bound::AdmittedRequests {
            remarks.push(format!("{}: not bounded by the memory; {}", of(most), self.why_no_more()?));
        } else if let Some((requests, each)) =
            self.while_decoding(context)?.filter(|(requests, _)| *requests > most)
        {
            remarks.push(format!(
                "{} are counted with room for what is in flight, as the engine prints its concurrency; while they decode the \
                 memory has blocks for {requests}, {each} each, and admission goes by free blocks at run time",
                of(most)
            ));
        }
        if self.query.engine.kind() == EngineKind::Vllm {
            let limit = vllm::default_sequences(self.query.settings, &self.query.engine);
            if most > limit {
                remarks.push(format!(
                    "{} have room, of which vLLM runs {limit} at once unless a launch gives more (max_num_seqs, the server's default \
                     on this GPU)",
                    of(most)
                ));
            }
        }
        Ok(remarks)
    }

    fn why_no_more(&self) -> Result<&'static str> {
        Ok(match self.query.engine.kind() {
            EngineKind::LlamaCpp => "more sequences are not started (LLAMA_MAX_SEQ)",
            _ if self.launch()?.is_some() => {
                "the launch admits no more; max_running_requests and state_slots set how many"
            }
            _ => "the launch admits no more; max_running_requests sets how many",
        })
    }
}
