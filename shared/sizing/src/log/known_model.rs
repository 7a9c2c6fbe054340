//! The catalogue entry that a log's model name stands for.

use crate::catalogue::{CatalogueEntry, catalogue};

/// Endings that say how the weights are stored or tuned, none of which changes the cache.
const ENDINGS: &[&str] = &[
    "instruct",
    "chat",
    "it",
    "base",
    "thinking",
    "reasoning",
    "exp",
    "preview",
    "hf",
    "gguf",
    "fp8",
    "fp4",
    "nvfp4",
    "mxfp4",
    "bf16",
    "f16",
    "fp16",
    "f32",
    "int4",
    "int8",
    "w4a16",
    "w4a8",
    "w8a8",
    "w8a16",
    "awq",
    "gptq",
    "autoround",
    "bnb",
    "4bit",
    "8bit",
    "4",
    "8",
    "bit",
    "ud",
    "qat",
    "dynamic",
    "quantized",
    "block",
    "mtp",
    "imatrix",
    "text",
];

/// Finds the entry whose id the name is, or begins with, apart from endings that do not change the cache. The name may
/// be a path, a repository, or a file.
pub(super) fn find(name: &str) -> Option<&'static CatalogueEntry> {
    // The snapshot folder of a cache of downloads comes below the name.
    let name = name.split("/snapshots/").next().unwrap_or(name).trim_end_matches(['/', '\\']);
    let last = name.rsplit(['/', '\\']).next().unwrap_or(name);
    let last = last.rsplit("--").next().unwrap_or(last);
    let plain = last.to_ascii_lowercase().replace([' ', '_'], "-");
    let plain = plain.trim_end_matches(".gguf");
    let longest = |name: &str| {
        catalogue().iter().filter(|entry| is_it(name, &entry.id)).max_by_key(|entry| entry.id.len())
    };
    longest(plain).or_else(|| longest(plain.split_once('-')?.1))
}

fn is_it(name: &str, id: &str) -> bool {
    let Some(rest) = name.strip_prefix(id) else { return false };
    rest.is_empty() || (rest.starts_with('-') && rest[1..].split(['-', '.']).all(is_ending))
}

fn is_ending(word: &str) -> bool {
    let letters = word.trim_start_matches(|c: char| c.is_ascii_digit());
    let quantised = word.starts_with('q') || word.starts_with("iq");
    ENDINGS.contains(&word)
        // Release dates (2507), parts of a split file and of a quantisation's name (Q4_K_M, IQ3_XXS).
        || (letters.is_empty() && word.len() >= 4)
        || matches!(word, "of" | "k" | "m" | "s" | "l" | "xl" | "xs" | "xxs" | "0" | "1")
        || (quantised && word.trim_start_matches(['i', 'q']).bytes().all(|byte| byte.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_only_say_how_weights_are_stored_are_the_model() {
        for (name, id) in [
            ("Qwen/Qwen3.5-27B", "qwen3.5-27b"),
            ("~/.cache/huggingface/qwen3.6-27b-autoround-int4", "qwen3.6-27b"),
            ("/mnt/models--meta-llama--Llama-3.1-8B-Instruct/snapshots/0e9e39f2/", "llama-3.1-8b"),
            ("meta-llama/Meta-Llama-3.1-8B-Instruct", "llama-3.1-8b"),
            ("Qwen3.8-27B-UD-Q5_K_M.gguf", "qwen3.8-27b"),
            ("Qwen3.5 397B A17B", "qwen3.5-397b-a17b"),
            ("/m/gpt-oss-120b-Q4_K_M-00001-of-00002.gguf", "gpt-oss-120b"),
            ("Qwen/Qwen3-235B-A22B-Thinking-2507-FP8", "qwen3-235b-a22b"),
            ("zai-org/GLM-4.7-Flash", "glm-4.7-flash"),
        ] {
            assert_eq!(find(name).map(|entry| entry.id.as_str()), Some(id), "{name}");
        }
    }

    #[test]
    fn other_models_of_a_family_are_not_taken_for_a_known_one() {
        for name in
            ["GLM-4.7-Air", "Qwen3.5-2B", "glm-5.9", "deepseek-v3.2-flash-lite", "", "/", "model.gguf"]
        {
            assert!(find(name).is_none(), "{name}");
        }
    }
}
