//! The keys that llama.cpp's converter (October 2026) writes for a catalogue config. Independent of the reader: it goes
//! the other way, from Hugging Face fields to keys.

use serde_json::Value as Json;

use super::gguf_file::{GgufFile, Value};

/// The file of a config, or nothing where llama.cpp has no class for it.
pub(crate) fn convert(config: &Json) -> Option<GgufFile> {
    let config = config.get("text_config").unwrap_or(config);
    let class = class_of(config)?;
    let mut file = Converter { config, class, file: GgufFile::new(class) };
    file.common();
    match class {
        "deepseek2" | "deepseek32" | "glm-dsa" => file.latent(),
        "kimi-linear" | "kimi-k3" | "glm5-next" => file.kda(),
        "deepseek4" => file.compressed(),
        "gemma4" => file.gemma4(),
        "falcon-h1" | "granitehybrid" | "nemotron_h" | "nemotron_h_moe" | "jamba" => file.mamba(),
        "qwen3next" | "qwen35" | "qwen35moe" | "qwen4exp" => file.delta_net(),
        "mimo2" | "step35" | "olmo2" => file.windows_by_layer(),
        _ => {}
    }
    Some(file.file)
}

fn class_of(config: &Json) -> Option<&'static str> {
    Some(match config["model_type"].as_str()? {
        "cohere2" => "cohere2",
        "deepseek_v2" | "deepseek_v3" | "kimi_k2" | "glm4_moe_lite" => "deepseek2",
        "deepseek_v32" => "deepseek32",
        // V4.1 has stores of its own, which llama.cpp does not know.
        "deepseek_v4" if config.get("kv_source_layer_ids").is_none() => "deepseek4",
        "falcon_h1" => "falcon-h1",
        "gemma2" => "gemma2",
        "gemma3_text" => "gemma3",
        "gemma4_text" => "gemma4",
        "glm4_moe" => "glm4moe",
        "glm_moe_dsa" => "glm-dsa",
        "glm5_next_text" => "glm5-next",
        "gpt_oss" => "gpt-oss",
        "granitemoehybrid" => "granitehybrid",
        "hunyuan_v1_moe" => "hunyuan-moe",
        "hy_v3" => "hy_v3",
        "jamba" => "jamba",
        "kimi_linear" if config.get("q_lora_rank").is_some_and(|rank| !rank.is_null()) => "kimi-k3",
        "kimi_linear" => "kimi-linear",
        "llama" | "mixtral" => "llama",
        "llama4_text" => "llama4",
        "mimo_v2_flash" => "mimo2",
        "minimax" | "minimax_text_01" => "minimax-01",
        "minimax_m2" => "minimax-m2",
        // The converter drops the window of Mistral's first model.
        "mistral" if config["sliding_window"].is_null() && config.get("kv_lora_rank").is_none() => "llama",
        "nemotron_h" if config.get("n_routed_experts").is_some() => "nemotron_h_moe",
        "nemotron_h" => "nemotron_h",
        "olmo3" => "olmo2",
        "phi3" => "phi3",
        "qwen3" => "qwen3",
        "qwen3_moe" => "qwen3moe",
        "qwen3_next" => "qwen3next",
        "qwen3_5_text" => "qwen35",
        "qwen3_5_moe_text" => "qwen35moe",
        "qwen4_exp_text" => "qwen4exp",
        "step3p7" => "step35",
        _ => return None,
    })
}

struct Converter<'c> {
    config: &'c Json,
    class: &'static str,
    file: GgufFile,
}

impl Converter<'_> {
    fn get(&self, field: &str) -> Option<u32> {
        u32::try_from(self.config[field].as_u64()?).ok()
    }

    fn need(&self, field: &str) -> u32 {
        self.get(field).unwrap_or_else(|| panic!("{field} in {}", self.config["model_type"]))
    }

    fn put(&mut self, key: &str, value: Value) {
        self.file.set(&format!("{}.{key}", self.class), value);
    }

    fn number(&mut self, key: &str, value: u32) {
        self.put(key, Value::U32(value));
    }

    fn layers(&self) -> u32 {
        self.need("num_hidden_layers")
    }

    fn is_kind(&self, index: u32, kind: &str) -> bool {
        self.config["layer_types"][index as usize] == kind
    }

    /// What every class has. Draft layers are in the block count, except in DeepSeek-V4's files.
    fn common(&mut self) {
        let drafts =
            if self.class == "deepseek4" { 0 } else { self.get("num_nextn_predict_layers").unwrap_or(0) };
        self.number("block_count", self.layers() + drafts);
        if drafts > 0 {
            self.number("nextn_predict_layers", drafts);
        }
        let heads = self.get("num_attention_heads").unwrap_or(16);
        self.number("attention.head_count", heads);
        self.number("attention.head_count_kv", self.get("num_key_value_heads").unwrap_or(heads));
        let fields = [
            ("embedding_length", "hidden_size"),
            ("context_length", "max_position_embeddings"),
            ("attention.sliding_window", "sliding_window"),
            ("attention.key_length", "head_dim"),
            ("attention.value_length", "head_dim"),
        ];
        for (key, field) in fields {
            if let Some(value) = self.get(field) {
                self.number(key, value);
            }
        }
        if self.get("head_dim").is_none()
            && let Some(width) = self.get("attention_head_dim")
        {
            self.number("attention.key_length", width);
            self.number("attention.value_length", width);
        }
        // Qwen3 carries a window that is switched off; Llama 4's converter writes none.
        if self.config["use_sliding_window"] == false || self.class == "llama4" {
            self.file.keys.retain(|(key, _)| !key.ends_with("attention.sliding_window"));
        }
    }

    fn latent(&mut self) {
        let (rank, rope) = (self.need("kv_lora_rank"), self.need("qk_rope_head_dim"));
        self.number("attention.kv_lora_rank", rank);
        self.number("attention.key_length", rank + rope);
        self.number("attention.value_length", rank);
        self.number("attention.key_length_mla", self.need("qk_nope_head_dim") + rope);
        self.number("attention.value_length_mla", self.need("v_head_dim"));
        self.number("rope.dimension_count", rope);
        if !matches!(self.class, "kimi-linear" | "kimi-k3" | "glm5-next") {
            self.number("attention.head_count_kv", 1);
        }
        self.indexer();
    }

    fn indexer(&mut self) {
        let Some(width) = self.get("index_head_dim") else { return };
        self.number("attention.indexer.key_length", width);
        self.number("attention.indexer.head_count", self.need("index_n_heads"));
        self.number("attention.indexer.top_k", self.need("index_topk"));
        if let Some(pool) = self.get("index_kpool") {
            self.number("attention.indexer.kpool", pool);
        }
        if let Some(types) = self.config["indexer_types"].as_array() {
            let owners = types.iter().map(|kind| kind == "full").collect();
            self.put("attention.indexer.types", Value::Bools(owners));
        }
    }

    fn kda(&mut self) {
        self.latent();
        let linear = &self.config["linear_attn_config"];
        let of = |nested: &str, plain: &str| {
            let value = linear[nested].as_u64().or_else(|| self.config[plain].as_u64()).unwrap();
            u32::try_from(value).unwrap()
        };
        let (dim, kernel) =
            (of("head_dim", "linear_head_dim"), of("short_conv_kernel_size", "linear_conv_kernel_dim"));
        let full = |index: u32| match linear["full_attn_layers"].as_array() {
            Some(list) => list.contains(&Json::from(index + 1)),
            None => !self.is_kind(index, "linear_attention"),
        };
        let heads = (0..self.layers()).map(|index| u32::from(full(index)));
        let heads = heads.chain((0..self.get("num_nextn_predict_layers").unwrap_or(0)).map(|_| 1)).collect();
        self.number("kda.head_dim", dim);
        self.number("ssm.conv_kernel", kernel);
        self.put("attention.head_count_kv", Value::U32s(heads));
    }

    fn compressed(&mut self) {
        self.indexer();
        self.number("rope.dimension_count", self.need("qk_rope_head_dim"));
        let ratios = self.config["compress_ratios"].as_array().unwrap();
        let ratios = ratios.iter().map(|ratio| u32::try_from(ratio.as_u64().unwrap()).unwrap()).collect();
        self.put("attention.compress_ratios", Value::U32s(ratios));
    }

    fn gemma4(&mut self) {
        let width = self.need("head_dim");
        let global = self.get("global_head_dim").unwrap_or(width);
        self.number("attention.key_length", global);
        self.number("attention.value_length", global);
        self.number("attention.key_length_swa", width);
        self.number("attention.value_length_swa", width);
        self.number("attention.shared_kv_layers", self.get("num_kv_shared_layers").unwrap_or(0));
        self.pattern();
        let plain = self.need("num_key_value_heads");
        let global = self.get("num_global_key_value_heads").unwrap_or(plain);
        let heads = (0..self.layers())
            .map(|index| if self.is_kind(index, "sliding_attention") { plain } else { global })
            .collect();
        self.put("attention.head_count_kv", Value::U32s(heads));
    }

    fn pattern(&mut self) {
        let near = (0..self.layers()).map(|index| match self.config["hybrid_layer_pattern"].as_array() {
            Some(list) => list[index as usize] == 1,
            None => self.is_kind(index, "sliding_attention"),
        });
        let drafts = self.get("num_nextn_predict_layers").unwrap_or(0);
        let near = near.chain((0..drafts).map(|_| true)).collect();
        self.put("attention.sliding_window_pattern", Value::Bools(near));
    }

    fn windows_by_layer(&mut self) {
        // OLMo's converter leaves the pattern to the class.
        if self.class == "olmo2" {
            return;
        }
        self.pattern();
        if self.class == "mimo2" {
            self.number("attention.value_length", self.need("v_head_dim"));
            let (full, near) = (self.need("num_key_value_heads"), self.need("swa_num_key_value_heads"));
            let list = self.config["hybrid_layer_pattern"].as_array().unwrap();
            let heads = list.iter().map(|kind| if *kind == 1 { near } else { full }).collect();
            self.put("attention.head_count_kv", Value::U32s(heads));
        }
    }

    fn mamba(&mut self) {
        let any = |fields: &[&str]| fields.iter().find_map(|field| self.get(field));
        let kernel = any(&["conv_kernel", "mamba_d_conv"]).unwrap();
        let state = any(&["ssm_state_size", "mamba_d_state"]).unwrap();
        let heads = any(&["mamba_num_heads", "mamba_n_heads"]);
        let width = any(&["mamba_head_dim", "mamba_d_head"]);
        let groups = any(&["n_groups", "mamba_n_groups"]);
        let inner = match (heads, width) {
            (Some(heads), Some(width)) => heads * width,
            _ => self.need("mamba_expand") * self.need("hidden_size"),
        };
        self.number("ssm.conv_kernel", kernel);
        self.number("ssm.state_size", state);
        self.number("ssm.inner_size", inner);
        self.number("ssm.time_step_rank", heads.unwrap_or(256));
        if let (Some(groups), Some(_)) = (groups, heads) {
            self.number("ssm.group_count", groups);
        }
        let kv_heads = self.need("num_key_value_heads");
        let drafts = self.get("num_nextn_predict_layers").unwrap_or(0);
        let own: Vec<char> = (0..self.layers()).map(|index| self.letter(index)).collect();
        let of = |wanted: &str, value: u32| -> Vec<u32> {
            let own = own.iter().map(|letter| if wanted.contains(*letter) { value } else { 0 });
            own.chain((0..drafts).map(|_| value)).collect()
        };
        let (heads, mlp) = (of("*", kv_heads), of("E-", 4096));
        match self.class {
            "falcon-h1" => {}
            "nemotron_h" | "nemotron_h_moe" => {
                self.put("attention.head_count_kv", Value::U32s(heads));
                self.put("feed_forward_length", Value::U32s(mlp));
            }
            _ => {
                self.put("attention.head_count_kv", Value::U32s(heads));
                self.number("feed_forward_length", 4096);
            }
        }
    }

    /// Nemotron's letter of one layer, from whichever field the config has.
    fn letter(&self, index: u32) -> char {
        let at = index as usize;
        if let Some(letters) = self.config["hybrid_override_pattern"].as_str() {
            return letters.chars().nth(at).unwrap();
        }
        if let Some(period) = self.get("attn_layer_period") {
            return if index % period == self.need("attn_layer_offset") { '*' } else { 'M' };
        }
        let kinds = ["layer_types", "layers_block_type"].map(|field| self.config[field][at].as_str());
        match kinds.into_iter().flatten().next() {
            Some("attention" | "full_attention") => '*',
            Some("moe" | "mlp") => 'E',
            _ => 'M',
        }
    }

    fn delta_net(&mut self) {
        let (k_heads, v_heads) = (self.need("linear_num_key_heads"), self.need("linear_num_value_heads"));
        self.number("ssm.conv_kernel", self.need("linear_conv_kernel_dim"));
        self.number("ssm.state_size", self.need("linear_key_head_dim"));
        self.number("ssm.group_count", k_heads);
        self.number("ssm.time_step_rank", v_heads);
        self.number("ssm.inner_size", v_heads * self.need("linear_value_head_dim"));
        self.number("full_attention_interval", self.get("full_attention_interval").unwrap_or(4));
        if self.class == "qwen4exp" {
            self.number("attention.indexer.key_length", self.need("indexer_head_dim"));
            self.number("attention.indexer.head_count", self.need("indexer_n_heads"));
            self.number("attention.indexer.top_k", self.need("indexer_budget"));
            let ratio = self.need("indexer_compress_ratio");
            let ratios =
                (0..self.layers()).map(|index| ratio * u32::from(self.is_kind(index, "full_attention")));
            let ratios = ratios.collect();
            self.put("attention.compress_ratios", Value::U32s(ratios));
        }
    }
}
