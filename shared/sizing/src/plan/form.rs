//! The plans that the page offers, with the options that it asks for. What is offered is what `kvscope plan` takes under the
//! same names.

/// A plan of the page.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
pub enum PlanKind {
    /// How many requests fit.
    #[default]
    Capacity,
    /// What a second request reuses.
    Prefix,
    /// What a prefill worker sends.
    Handover,
    /// Restore or recompute.
    Offload,
    /// What a scheduler should use instead of the prompt's length.
    Label,
    /// Operations and bytes of a step.
    Cost,
    /// Which compression pays.
    Compress,
    /// A request trace replayed over tiers.
    Simulate,
}

/// One option of a plan.
#[derive(Clone, Copy, Debug)]
pub struct Field {
    /// Its name on the command line, in the API and in links.
    pub name: &'static str,
    /// What it is, in a few words.
    pub label: &'static str,
    /// What can be given.
    pub kind: FieldKind,
    /// What the page gives where nothing was typed; empty where nothing is.
    pub usual: &'static str,
    /// What holds then, in words.
    pub absent: &'static str,
    /// Whether few need it.
    pub is_rare: bool,
}

/// What an option takes.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum FieldKind {
    /// A GPU of `assets/hardware`.
    Gpu,
    /// A link of `assets/hardware`.
    Link,
    /// One of these words.
    Words(&'static [&'static str]),
    /// A number, a rate, a list.
    Text,
    /// The same, which is one of [`crate::Settings`].
    Setting,
}

const TYPES: FieldKind = FieldKind::Words(&["f32", "bf16", "fp8", "fp4"]);
/// The last is what the published checkpoint has, part by part.
const WEIGHT_TYPES: FieldKind = FieldKind::Words(&["f32", "bf16", "fp8", "fp4", "checkpoint"]);

const fn field(name: &'static str, label: &'static str, kind: FieldKind) -> Field {
    Field { name, label, kind, usual: "", absent: "not given", is_rare: false }
}

const fn usual(field: Field, usual: &'static str) -> Field {
    Field { usual, ..field }
}

const fn absent(field: Field, absent: &'static str) -> Field {
    Field { absent, ..field }
}

const fn rare(field: Field) -> Field {
    Field { is_rare: true, ..field }
}

const GPU: Field = usual(field("gpu", "GPU", FieldKind::Gpu), "h200");
const COUNT: Field = usual(field("count", "GPUs", FieldKind::Text), "8");
const WEIGHTS: Field = absent(field("weight_dtype", "weights", WEIGHT_TYPES), "as the config says");
const EFFICIENCY: Field =
    rare(usual(field("efficiency", "percent of the rate that a prefill reaches", FieldKind::Text), "40"));

const CAPACITY: &[Field] = &[
    GPU,
    COUNT,
    WEIGHTS,
    absent(field("mix", "mix of lengths", FieldKind::Text), "one length"),
    field("price", "price an hour", FieldKind::Text),
    rare(usual(field("memory_percent", "percent of the memory", FieldKind::Text), "90")),
    rare(absent(field("memory", "memory of a GPU", FieldKind::Text), "datasheet's")),
    rare(absent(field("weights", "bytes of all weights", FieldKind::Text), "counted")),
    rare(absent(field("weights_over", "GPUs that share the weights", FieldKind::Text), "tp × pp")),
    rare(absent(field("activations", "activations on a GPU", FieldKind::Text), "estimated")),
    rare(usual(field("batch_tokens", "tokens of a prefill batch", FieldKind::Text), "8192")),
    rare(usual(field("graphs", "graphs and buffers on a GPU", FieldKind::Text), "2GiB")),
];

const PREFIX: &[Field] = &[
    usual(field("first", "first prompt", FieldKind::Text), "10K"),
    absent(field("second", "second prompt", FieldKind::Text), "as the first"),
    usual(field("shared", "shared tokens", FieldKind::Text), "9K"),
    usual(field("every", "window every", FieldKind::Text), "4096"),
    rare(absent(field("block_size", "tokens of a block", FieldKind::Setting), "engine's")),
    rare(absent(field("max_num_batched_tokens", "tokens of a prefill step", FieldKind::Setting), "8192")),
    rare(absent(field("checkpoint_interval", "a state every", FieldKind::Setting), "at the end")),
];

const HANDOVER: &[Field] = &[
    GPU,
    COUNT,
    absent(field("tp", "tensor ranks", FieldKind::Setting), "1"),
    absent(field("fleet", "GPUs in all", FieldKind::Text), "one instance"),
    absent(field("link", "link", FieldKind::Link), "each of a network"),
    absent(field("bandwidth", "own link", FieldKind::Text), "not given"),
    rare(absent(field("start_us", "its first byte after, µs", FieldKind::Text), "0")),
    rare(absent(field("alpha_us", "each block adds on it, µs", FieldKind::Text), "0")),
    rare(absent(field("blocks", "blocks of a payload", FieldKind::Text), "the model's")),
    rare(absent(field("prefill_seconds", "seconds of the prefill", FieldKind::Text), "estimated")),
    EFFICIENCY,
    rare(WEIGHTS),
];

const OFFLOAD: &[Field] = &[
    GPU,
    COUNT,
    absent(field("tier", "tiers", FieldKind::Text), "GPU's own link"),
    absent(field("tflops", "real TFLOP/s", FieldKind::Text), "estimated"),
    EFFICIENCY,
    rare(absent(field("block_size", "tokens of a block", FieldKind::Setting), "16")),
    rare(WEIGHTS),
];

const COMPRESS: &[Field] = &[
    usual(field("bandwidth", "link moves", FieldKind::Text), "25Gbps"),
    absent(field("slo", "longest time", FieldKind::Text), "any"),
    absent(field("loss", "points lost", FieldKind::Text), "any"),
    absent(field("strategy", "strategies", FieldKind::Text), "published ones"),
    rare(absent(field("start", "a transfer starts in", FieldKind::Text), "0s")),
    rare(absent(field("model_time", "time beside moving", FieldKind::Text), "0s")),
];

const COST: &[Field] = &[
    WEIGHTS,
    absent(field("expert_dtype", "experts", TYPES), "as weights"),
    absent(field("core_dtype", "attention", TYPES), "bf16"),
    absent(field("flop_weights", "operations", FieldKind::Words(&["plain", "fp8"])), "plain"),
];

/// `tiers` stands for as many `--tier` as it has parts: plans share options of one name, and a tier of an offload is another thing.
const SIMULATE: &[Field] = &[
    usual(field("tiers", "tiers", FieldKind::Text), "gpu=40GB;host=200GB"),
    usual(field("synthetic", "made requests", FieldKind::Text), "10K"),
    usual(field("block", "tokens of a block", FieldKind::Text), "512"),
    usual(field("prefetch", "blocks brought ahead", FieldKind::Text), "0"),
    rare(usual(field("seed", "seed of made requests", FieldKind::Text), "1")),
    rare(field("prefill_rate", "prompt tokens a second", FieldKind::Text)),
    rare(field("decode_rate", "answer tokens a second", FieldKind::Text)),
];

impl PlanKind {
    /// Every one, in the order of the page.
    pub const ALL: [Self; 8] = [
        Self::Capacity,
        Self::Prefix,
        Self::Handover,
        Self::Offload,
        Self::Label,
        Self::Cost,
        Self::Compress,
        Self::Simulate,
    ];

    /// The word on the command line, in the API and in links.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Capacity => "capacity",
            Self::Prefix => "prefix",
            Self::Handover => "handover",
            Self::Offload => "offload",
            Self::Label => "label",
            Self::Cost => "cost",
            Self::Compress => "compress",
            Self::Simulate => "simulate",
        }
    }

    /// The word on screen.
    pub const fn title(self) -> &'static str {
        match self {
            Self::Capacity => "capacity",
            Self::Prefix => "prefix reuse",
            Self::Handover => "hand-over",
            Self::Offload => "offload",
            Self::Label => "scheduling label",
            Self::Cost => "cost of a step",
            Self::Compress => "compression",
            Self::Simulate => "trace replay",
        }
    }

    /// Its options, in the order of the page.
    pub const fn fields(self) -> &'static [Field] {
        match self {
            Self::Capacity => CAPACITY,
            Self::Prefix => PREFIX,
            Self::Handover => HANDOVER,
            Self::Offload => OFFLOAD,
            Self::Label => &[GPU, COUNT],
            Self::Cost => COST,
            Self::Compress => COMPRESS,
            Self::Simulate => SIMULATE,
        }
    }

    /// Whether any plan has an option of that name.
    pub fn has_field(name: &str) -> bool {
        Self::ALL.iter().any(|plan| plan.fields().iter().any(|field| field.name == name))
    }
}
