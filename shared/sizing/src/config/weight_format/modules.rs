//! Which parts of a model a list of module names means.

/// A part of the layers whose matrices have one type.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Modules {
    Attention,
    Mlp,
    Experts,
    SharedExperts,
}

/// A layer and an expert whose modules names are asked for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sample {
    pub(super) layer: u64,
    pub(super) expert: u64,
}

impl Sample {
    /// Three of the model's middle, of which two decide: lists that name every layer and expert name them too, and those of
    /// the first and last layers, or of single ones, do not.
    pub(super) fn of(layers: u64) -> [Self; 3] {
        // The config's count is not checked yet.
        let layer = |quarter| layers.saturating_mul(quarter) / 4;
        [1, 2, 3].map(|quarter| Self { layer: layer(quarter), expert: 2 * quarter - 1 })
    }
}

impl Modules {
    /// Matrices of the part in one layer, by the names of several classes; each list is one class's.
    fn matrices(self) -> &'static [&'static [&'static str]] {
        match self {
            Self::Attention => &[
                &["self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.o_proj"],
                &[
                    "self_attn.q_b_proj",
                    "self_attn.kv_a_proj_with_mqa",
                    "self_attn.kv_b_proj",
                    "self_attn.o_proj",
                ],
                &["attn.wq_b", "attn.wkv", "attn.wo_a", "attn.wo_b"],
            ],
            Self::Mlp => &[&["mlp.gate_proj", "mlp.up_proj", "mlp.down_proj"]],
            Self::Experts => &[
                &["mlp.experts.0.gate_proj", "mlp.experts.0.up_proj", "mlp.experts.0.down_proj"],
                &[
                    "block_sparse_moe.experts.0.w1",
                    "block_sparse_moe.experts.0.w2",
                    "block_sparse_moe.experts.0.w3",
                ],
                &["ffn.experts.0.w1", "ffn.experts.0.w2", "ffn.experts.0.w3"],
            ],
            Self::SharedExperts => &[
                &[
                    "mlp.shared_experts.gate_proj",
                    "mlp.shared_experts.up_proj",
                    "mlp.shared_experts.down_proj",
                ],
                &["mlp.shared_expert.gate_proj", "mlp.shared_expert.up_proj", "mlp.shared_expert.down_proj"],
                &["ffn.shared_experts.w1", "ffn.shared_experts.w2", "ffn.shared_experts.w3"],
            ],
        }
    }

    /// Whether names that a type is for, all linear layers where there are none, mean most of the part in some class.
    pub(super) fn are_targets(self, names: &[String], sample: Sample) -> bool {
        names.is_empty() || self.are_named(names, sample)
    }

    /// Whether names mean most of the part in some class: of one matrix out of several the rest decides.
    pub(super) fn are_named(self, names: &[String], sample: Sample) -> bool {
        let Sample { layer, expert } = sample;
        let is_named = |matrix: &&&str| {
            let matrix = matrix.replace("experts.0.", &format!("experts.{expert}."));
            let module = format!("model.layers.{layer}.{matrix}");
            names.iter().any(|name| means(name, &module))
        };
        self.matrices().iter().any(|class| 2 * class.iter().filter(is_named).count() > class.len())
    }
}

/// Whether a name of a list means a module: a pattern behind `re:` from the beginning on, a name with `*` as file names have
/// it, any other as whole parts between dots.
fn means(name: &str, module: &str) -> bool {
    if let Some(pattern) = name.strip_prefix("re:") {
        let ends = pattern.ends_with('$');
        let pattern = pattern.trim_start_matches('^').trim_end_matches('$');
        let glob = |one: String| if ends || one.ends_with('*') { one } else { one + "*" };
        return alternatives(pattern).into_iter().any(|one| fits(&glob(of_regex(&one)), module));
    }
    // Layers that predict further tokens are others.
    if name.starts_with("mtp") {
        return false;
    }
    let (name, module) = (from_layers(name), from_layers(module));
    if name.contains('*') {
        return fits(name, module) || fits(&format!("*.{name}"), module);
    }
    has_parts(module, name)
}

fn from_layers(text: &str) -> &str {
    text.find("layers.").map_or(text, |at| &text[at..])
}

/// Whether the parts of `name` stand in a row among those of `module`. Checkpoints name tens of thousands, so that nothing is
/// copied here.
fn has_parts(module: &str, name: &str) -> bool {
    module.match_indices(name).any(|(at, _)| {
        let (before, behind) = (&module[..at], &module[at + name.len()..]);
        (before.is_empty() || before.ends_with('.')) && (behind.is_empty() || behind.starts_with('.'))
    })
}

/// More are not looked at, since a config may have any number: exporters write one or two groups.
const MOST_GROUPS: usize = 8;
const MOST_ALTERNATIVES: usize = 64;

/// A pattern with groups of words, once for each choice of one of each.
fn alternatives(pattern: &str) -> Vec<String> {
    let (mut begun, mut rest) = (vec![String::new()], pattern);
    for _ in 0..MOST_GROUPS {
        let Some((before, group)) = rest.split_once('(') else { break };
        let Some((words, behind)) = group.split_once(')') else { break };
        let words = words.trim_start_matches("?:");
        let each = |start: &String| {
            let words = words.split('|').take(MOST_ALTERNATIVES);
            words.map(|word| format!("{start}{before}{word}")).collect::<Vec<_>>()
        };
        begun = begun.iter().flat_map(each).take(MOST_ALTERNATIVES).collect();
        rest = behind;
    }
    begun.into_iter().map(|start| start + rest).collect()
}

/// `.*` and `.+` as `*`, `\.` as a dot, `\d+` as `*`; other signs stay and mean themselves.
fn of_regex(pattern: &str) -> String {
    let all = [(".*", "*"), (".+", "*"), ("\\d+", "*"), ("[0-9]+", "*"), ("\\.", ".")];
    all.iter().fold(pattern.to_owned(), |text, (from, to)| text.replace(from, to))
}

/// Whether a text is as a pattern with `*` says.
fn fits(pattern: &str, text: &str) -> bool {
    let parts: Vec<&str> = pattern.split('*').collect();
    let [first, middle @ .., last] = parts.as_slice() else { return pattern == text };
    let Some(mut rest) = text.strip_prefix(first) else { return false };
    for part in middle {
        let Some(at) = rest.find(part) else { return false };
        rest = &rest[at + part.len()..];
    }
    rest.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_mean_modules_as_their_exporters_read_them() {
        let module = "model.layers.1.mlp.experts.0.down_proj";
        for name in [
            "re:.*\\.experts",
            "re:.*mlp\\..*down_proj$",
            "*.mlp.*",
            "model.layers.1*",
            "experts",
            "re:.*(x|mlp).*",
        ] {
            assert!(means(name, module), "{name}");
        }
        for name in [
            "re:.*mlp\\.(gate|up|gate_up|down)_proj.*",
            "re:.*shared_experts.*",
            "model.layers.0*",
            "lm_head",
            "gate",
            "re:.*experts$",
            "visual.blocks.0.attn",
            "down",
        ] {
            assert!(!means(name, module), "{name}");
        }
    }

    /// Both groups are chosen from; sixty thousand of them once overflowed the stack.
    #[test]
    fn groups_are_chosen_from_and_their_number_is_bounded() {
        assert_eq!(alternatives("a(b|c)d(?:e|f)g"), ["abdeg", "abdfg", "acdeg", "acdfg"]);
        assert_eq!(alternatives("a(b"), ["a(b"]);
        assert!(alternatives(&"()".repeat(60_000)).len() == 1);
        assert!(alternatives(&"(a|b)".repeat(60_000)).len() <= MOST_ALTERNATIVES);
    }

    #[test]
    fn no_count_of_layers_overflows() {
        assert_eq!(Sample::of(32).map(|sample| sample.layer), [8, 16, 24]);
        assert!(Sample::of(u64::MAX).iter().all(|sample| sample.layer == u64::MAX / 4));
    }

    #[test]
    fn most_of_a_part_decides() {
        let left_out = |names: &[&str]| {
            let all: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
            Modules::Attention.are_named(&all, Sample { layer: 1, expert: 0 })
        };
        assert!(!left_out(&["model.layers.1.self_attn.o_proj"]));
        assert!(left_out(&["q_proj", "k_proj", "v_proj"]));
        assert!(left_out(&["language_model.model.layers.1.self_attn*"]));
        assert!(left_out(&["*.attn.*"]));
        assert!(!left_out(&["mtp.layers.1.self_attn*"]));
        assert!(!left_out(&["model.layers.0.self_attn*", "re:.*linear_attn.*", "visual.blocks.1.attn"]));
    }
}
