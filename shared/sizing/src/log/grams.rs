//! Which short pieces of text a line has, so that most searches for the words of a known line end before they begin.

/// A set of runs of three bytes, by a hash: what was added is in it, and little else where the text is short.
#[derive(Clone, Copy, Debug)]
pub(super) struct Grams([u64; WORDS]);

/// Words of the set: of an ordinary line of 200 bytes a fifth of its bits is set.
const WORDS: usize = 1 << WORDS_LOG2;
const WORDS_LOG2: u32 = 4;
const LAST_THREE: u32 = 0x00ff_ffff;
/// The golden ratio, by which neighbouring values are spread over all bits.
const SPREAD: u32 = 0x9e37_79b1;

impl Grams {
    pub(super) fn of(text: &str) -> Self {
        let mut found = Self([0; WORDS]);
        let mut recent = 0;
        for (at, byte) in text.bytes().enumerate() {
            recent = recent << 8 & LAST_THREE | u32::from(byte);
            if at >= 2 {
                let (word, bit) = place(recent);
                found.0[word] |= bit;
            }
        }
        found
    }

    /// Whether the text may have `words` in it; where this is false it has not.
    pub(super) fn may_have(&self, words: &str) -> bool {
        let mut recent = 0;
        for (at, byte) in words.bytes().enumerate() {
            recent = recent << 8 & LAST_THREE | u32::from(byte);
            let (word, bit) = place(recent);
            if at >= 2 && self.0[word] & bit == 0 {
                return false;
            }
        }
        true
    }
}

/// Where a run of three bytes is in the set.
fn place(run: u32) -> (usize, u64) {
    let hash = run.wrapping_mul(SPREAD) >> (32 - 6 - WORDS_LOG2);
    ((hash >> 6) as usize, 1 << (hash & 63))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_text_has_is_found_and_other_words_are_not() {
        let text = "(APIServer pid=1) INFO 11-06 12:00:01 [loggers.py:123] Engine 000: Running: 3 reqs";
        let grams = Grams::of(text);
        for start in 0..text.len() {
            for end in start..=text.len() {
                assert!(grams.may_have(&text[start..end]), "{start}..{end}");
            }
        }
        for other in ["GPU KV cache size:", "server_args=", "llama_kv_cache", "Runnung"] {
            assert!(!grams.may_have(other), "{other}");
        }
        assert!(!Grams::of("").may_have("abc"));
        assert!(Grams::of("").may_have("ab"));
    }
}
