//! Configs of one's own, as programs and people leave them.

use std::fs;

use kvscope_tests::command_line::{kvscope, size};
use tempfile::TempDir;

/// Python writes `Infinity` into Mamba-2 configs, and some editors a byte order mark at their start.
#[test]
fn configs_as_python_writes_them_are_read_by_every_command() {
    let home = TempDir::new().expect("a temporary folder");
    let path = home.path().join("config.json");
    let config = r#"{"num_hidden_layers": 4, "num_attention_heads": 8, "hidden_size": 512, "dtype": "bfloat16",
        "time_step_limit": [0.0, Infinity]}"#;
    fs::write(&path, format!("\u{feff}{config}")).expect("the config can be written");
    let path = path.to_str().expect("a path in UTF-8");
    // 4 layers × 2 × 8 heads × 64 × 2 B.
    assert_eq!(size([path])[0]["slope_bytes_per_token"], 8192);
    for command in ["layers", "explain", "describe"] {
        let finished = kvscope([command, path]);
        assert_eq!(finished.status, Some(0), "{command}: {}", finished.stderr);
    }
}
