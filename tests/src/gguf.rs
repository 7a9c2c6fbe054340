//! GGUF files for tests.

/// A dense model of two layers with eight K/V heads of 128 values, without tensors; `extra` are further numbers.
pub fn dense(extra: &[(&str, u32)]) -> Vec<u8> {
    let numbers = [
        ("llama.block_count", 2),
        ("llama.embedding_length", 4096),
        ("llama.attention.head_count", 32),
        ("llama.attention.head_count_kv", 8),
    ];
    // Version 3, no tensors, then the number of keys.
    let mut bytes = b"GGUF\x03\0\0\0\0\0\0\0\0\0\0\0".to_vec();
    bytes.extend((1 + numbers.len() as u64 + extra.len() as u64).to_le_bytes());
    put_text(&mut bytes, "general.architecture");
    bytes.extend(8_u32.to_le_bytes());
    put_text(&mut bytes, "llama");
    for (key, value) in extra.iter().chain(&numbers) {
        put_text(&mut bytes, key);
        bytes.extend(4_u32.to_le_bytes());
        bytes.extend(value.to_le_bytes());
    }
    bytes
}

fn put_text(bytes: &mut Vec<u8>, text: &str) {
    bytes.extend((text.len() as u64).to_le_bytes());
    bytes.extend(text.as_bytes());
}
