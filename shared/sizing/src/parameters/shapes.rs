use crate::fact::Fact;

/// Widths of weights that the state does not depend on.
#[derive(Clone, Debug)]
pub struct WeightShapes {
    /// Width of the residual stream.
    pub hidden: Fact,
    /// Words of the vocabulary.
    pub vocabulary: Fact,
    /// Whether the head multiplies by the table of token vectors.
    pub ties_embeddings: bool,
    /// Matrices around attention.
    pub attention: AttentionShapes,
    /// Matrices around recurrences.
    pub recurrence: RecurrenceShapes,
    /// Residual streams that hyper-connections mix.
    pub streams: Option<Fact>,
    /// What follows the mixer in each layer; a layer without an MLP has none.
    pub mlps: Vec<Option<Mlp>>,
}

/// Widths of the matrices around attention beyond its heads.
#[derive(Clone, Debug, Default)]
pub struct AttentionShapes {
    /// Queries are made through so many values (`q_lora_rank`).
    pub query_rank: Option<Fact>,
    /// Outputs go through so many values in each of so many groups (`o_lora_rank`, `o_groups`).
    pub output: Option<(Fact, Fact)>,
    /// Whether each head's output is gated by as many values.
    pub gates_output: bool,
    /// Whether layers of full attention use keys as values (Gemma 4).
    pub full_layers_share_k: bool,
}

/// Widths of the matrices around recurrences.
#[derive(Clone, Debug, Default)]
pub struct RecurrenceShapes {
    /// Values that a Mamba-1 step size is made of.
    pub step_rank: Option<Fact>,
    /// Whether the output gate of KDA is one whole matrix.
    pub gate_is_whole: bool,
}

/// The MLP of a layer: one for all tokens, experts, or both.
#[derive(Clone, Debug, PartialEq)]
pub struct Mlp {
    /// Width of the one that every token passes.
    pub dense: Option<Fact>,
    /// Experts.
    pub experts: Option<Experts>,
    /// Matrices of each: three with a gate, two without.
    pub matrices: u64,
}

/// Experts of a layer.
#[derive(Clone, Debug, PartialEq)]
pub struct Experts {
    /// How many there are.
    pub count: Fact,
    /// How many a token passes.
    pub active: Fact,
    /// Width of each.
    pub width: Fact,
    /// Width of those that every token passes, all together.
    pub shared_width: Option<Fact>,
    /// Values that experts work on, where that is not the residual stream.
    pub latent: Option<Fact>,
}
