//! How a context is split into streams of cells.

use super::classes;
use crate::engine::{Query, needed};
use crate::warning::Warning;
use crate::{Error, Result, group_digits};

/// Cells come in multiples of this (`GGML_PAD(…, 256)`).
const CELL_PADDING: u64 = 256;
/// Sequences that one context can have (`LLAMA_MAX_SEQ` of `llama-cparams.h`; `llama_context` throws beyond it).
pub(super) const MOST_SEQUENCES: u64 = 256;

/// Tokens of one physical batch where nothing is set, and of one logical batch, of which it is a part (`llama_context_default_params`).
const DEFAULT_UBATCH: u64 = 512;
const DEFAULT_BATCH: u64 = 2048;

/// The cells of one context, in tokens.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Cells {
    /// Tokens that were asked for in one stream, before padding.
    pub(super) asked: u64,
    /// Of them, those of one sequence that the batch's own requests fill.
    pub(super) filled: u64,
    /// Cells of one stream.
    pub(super) per_stream: u64,
    /// Streams: one where all sequences share it, else one a sequence.
    pub(super) streams: u64,
    /// Sequences of the context.
    pub(super) sequences: u64,
    /// Snapshots of recurrent state that each sequence can roll back to.
    pub(super) snapshots: u64,
    /// Snapshots that were asked for and that this class does not keep.
    pub(super) dropped_snapshots: u64,
    ubatch: u64,
    full_window: bool,
    unified: bool,
    /// Whether a length is asked for; figures without one are beyond every window.
    has_length: bool,
}

impl Cells {
    /// `n_ctx` (or the context) is padded, shared by all sequences in one unified stream or else divided by them, and
    /// padded again (`llama_context` constructor).
    ///
    /// # Errors
    ///
    /// Neither `n_ctx`, a context nor the config gives a length, or it is below one token a sequence.
    pub(super) fn new(query: &Query<'_>) -> Result<Self> {
        let settings = query.settings;
        let sequences = settings.n_seq_max.unwrap_or(query.batch);
        if sequences > MOST_SEQUENCES {
            let (field, given) = match settings.n_seq_max {
                Some(_) => ("n_seq_max", "sequences"),
                None => ("batch", "requests"),
            };
            let what = format!(
                "{sequences} {given}; llama.cpp starts with at most {MOST_SEQUENCES} (LLAMA_MAX_SEQ)"
            );
            return Err(Error::setting(field, what));
        }
        let unified = settings.kv_unified.unwrap_or(false);
        // `-c 0` is the length that the model was trained on.
        let trained = || query.architecture.max_context().map(crate::Fact::get);
        let asked = match settings.n_ctx {
            Some(0) => None,
            asked => asked.or(query.context.map(crate::Tokens::get)),
        };
        let total = asked.or_else(trained).ok_or_else(|| needed("n_ctx"))?;
        let (asked, streams) = if unified { (total, 1) } else { (padded(total)? / sequences, sequences) };
        if asked == 0 {
            return Err(Error::setting("n_ctx", format!("{total} cells for {sequences} sequences")));
        }
        let asked_snapshots = settings.n_rs_seq.unwrap_or(settings.draft_tokens());
        let rolls_back = classes::rolls_back(query.architecture);
        let (snapshots, dropped_snapshots) =
            if rolls_back { (asked_snapshots, 0) } else { (0, asked_snapshots) };
        let each = total / sequences;
        Ok(Self {
            asked: if unified { total } else { each },
            filled: query.context.map_or(each, |context| context.get().min(each)),
            per_stream: padded(asked)?,
            streams,
            sequences,
            snapshots,
            dropped_snapshots,
            ubatch: settings.n_ubatch.unwrap_or(DEFAULT_UBATCH),
            full_window: settings.swa_full.unwrap_or(false),
            unified,
            has_length: query.context.is_some(),
        })
    }

    /// Says where a context that is set has no room for the requests that are asked for.
    pub(super) fn too_few(&self, query: &Query<'_>) -> Vec<Warning> {
        let mut warnings = Vec::new();
        if let Some(sequences) = query.settings.n_seq_max.filter(|sequences| *sequences < query.batch) {
            let message = format!(
                "{sequences} sequences, but the batch has {} requests; the figures are those of {sequences}",
                query.batch
            );
            warnings.push(Warning::new("n_seq_max", message));
        }
        if self.ubatch > DEFAULT_BATCH {
            let message = format!(
                "{} tokens, and llama.cpp takes no more than a logical batch has, which is {DEFAULT_BATCH} unless -b says more; it is \
                 taken to",
                self.ubatch
            );
            warnings.push(Warning::new("n_ubatch", message));
        }
        if let Some(needed) = self.missed(query) {
            let message = format!(
                "{} cells in one stream, but {} are asked for; the figures are those of the {}",
                group_digits(self.per_stream),
                group_digits(needed),
                group_digits(self.per_stream)
            );
            warnings.push(Warning::new("n_ctx", message));
        }
        warnings
    }

    /// Cells that the requests of one stream need, where a set context has fewer.
    pub(super) fn missed(&self, query: &Query<'_>) -> Option<u64> {
        let in_stream = if self.unified { query.batch.min(self.sequences).max(1) } else { 1 };
        let needed = query.context?.get().saturating_mul(in_stream);
        (query.settings.n_ctx.is_some() && needed > self.per_stream).then_some(needed)
    }

    /// Cells of one stream of a window cache: the window of every sequence that shares the stream, and the batch that
    /// is being written (`llama_kv_cache_iswa` constructor).
    pub(super) fn window(&self, window: u64, sequences_in_stream: u64) -> Result<u64> {
        padded(self.most_of_window(window, sequences_in_stream).min(self.per_stream))
    }

    /// Whether a stream of a window cache has a cell more for one more token, padding averaged out.
    pub(super) fn window_grows(&self, window: u64, sequences_in_stream: u64) -> bool {
        let short = self.has_length && self.per_stream < self.most_of_window(window, sequences_in_stream);
        self.full_window || short
    }

    /// Cells of one stream of a window cache where the context is long enough.
    fn most_of_window(&self, window: u64, sequences_in_stream: u64) -> u64 {
        if self.full_window {
            return u64::MAX;
        }
        window.saturating_mul(sequences_in_stream).saturating_add(self.ubatch)
    }

    /// Cells of one stream that hold a window of `sequences_in_stream` sequences.
    pub(super) fn filled_by_window(&self, window: u64, sequences_in_stream: u64) -> u64 {
        self.filled.min(window).saturating_mul(sequences_in_stream)
    }

    /// Cells of one stream that hold every token of its sequences.
    pub(super) fn filled_in_stream(&self) -> u64 {
        self.filled.saturating_mul(self.sequences_in_stream())
    }

    /// Why a stream has more cells than its sequences fill.
    pub(super) fn padding_words(&self, cells: u64, filled: u64) -> String {
        let sequences = self.sequences_in_stream();
        let padding = format!("cells come in multiples of {CELL_PADDING}: {cells} for {filled}");
        if self.filled.saturating_mul(sequences) < self.asked {
            return format!("n_ctx has room for {} tokens; {padding}", group_digits(self.asked));
        }
        padding
    }

    /// How cells of a window come about, in words.
    pub(super) fn window_words(&self) -> String {
        if self.full_window {
            return "windows have a cell for every token (swa_full)".to_owned();
        }
        let sequences = match self.sequences_in_stream() {
            1 => "the window".to_owned(),
            several => format!("the window of each of {several} sequences"),
        };
        format!(
            "cells are {sequences} and a micro-batch of {} tokens (n_ubatch), in multiples of {CELL_PADDING} and no more \
             than the context",
            self.ubatch
        )
    }

    /// Sequences that share one stream.
    pub(super) fn sequences_in_stream(&self) -> u64 {
        self.sequences / self.streams
    }

    /// Cells of one stream that keep an entry for every `ratio` tokens (`llama_kv_cache_dsv4` constructor).
    pub(super) fn compressed(&self, ratio: u64) -> Result<u64> {
        padded(self.per_stream.div_ceil(ratio.max(1)).max(1))
    }
}

fn padded(cells: u64) -> Result<u64> {
    cells
        .checked_next_multiple_of(CELL_PADDING)
        .ok_or_else(|| Error::overflow(format!("{cells} cells rounded up to {CELL_PADDING}")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Architecture, Settings, read_config};

    fn cells(settings: &[(&str, &str)]) -> Result<Cells> {
        let architecture: Architecture = read_config(
            r#"{"model_type": "llama", "num_hidden_layers": 2, "num_attention_heads": 4, "head_dim": 64}"#,
        )?;
        let mut chosen = Settings::default();
        for (name, value) in settings {
            chosen.set(name, value)?;
        }
        Cells::new(&Query::new(&architecture, "llama.cpp".parse()?, &chosen)?)
    }

    /// llama.cpp of October 2026: 10000 over 4 sequences becomes 4 × 2560, unified 10240.
    #[test]
    fn a_context_is_padded_before_and_after_it_is_divided() {
        let split = cells(&[("n_ctx", "10000"), ("n_seq_max", "4")]).unwrap();
        assert_eq!((split.per_stream, split.streams), (2560, 4));
        let unified = cells(&[("n_ctx", "10000"), ("n_seq_max", "4"), ("kv_unified", "true")]).unwrap();
        assert_eq!((unified.per_stream, unified.streams), (10_240, 1));
    }

    /// Gemma-3's window of 1024 with micro-batches of 512: 1536 cells alone, 4608 for four sequences in one stream.
    #[test]
    fn windows_hold_every_sequence_of_their_stream_and_a_batch() {
        let alone = cells(&[("n_ctx", "131072")]).unwrap();
        assert_eq!(alone.window(1024, alone.sequences_in_stream()).unwrap(), 1536);
        let shared = cells(&[("n_ctx", "32768"), ("n_seq_max", "4"), ("kv_unified", "true")]).unwrap();
        assert_eq!(shared.window(1024, shared.sequences_in_stream()).unwrap(), 4608);
        let full = cells(&[("n_ctx", "32768"), ("swa_full", "true")]).unwrap();
        assert_eq!(full.window(1024, 1).unwrap(), 32_768);
        let short = cells(&[("n_ctx", "512")]).unwrap();
        assert_eq!(short.window(1024, 1).unwrap(), 512);
    }

    #[test]
    fn a_context_needs_a_length() {
        assert_eq!(cells(&[]).unwrap_err().place(), Some("n_ctx"));
        assert!(cells(&[("n_ctx", "0")]).is_err());
    }
}
