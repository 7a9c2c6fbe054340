//! Parameters of a model from its config: how many there are, and how many a token is multiplied by.
//!
//! Draft layers, encoders of pictures and sound, and tables of n-grams are left out, as they are of the layers. Biases and
//! norms are left out: they are below a thousandth of every model.

mod mixers;
mod product;
mod shapes;

use serde::Serialize;
use serde_json::Value;

pub use shapes::{AttentionShapes, Experts, Mlp, RecurrenceShapes, WeightShapes};

use crate::Result;
use crate::architecture::{Architecture, LayerClass};
use crate::config::read_weights;
use crate::cost::Part;
use crate::fact::Fact;
use product::Matrix;

/// The weights of one model.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Parameters {
    /// All of them.
    pub total: u64,
    /// Those that one token is multiplied by: every matrix, of the experts those that it passes, of cross-attention also those
    /// that a token of the encoder passes. The table of token vectors is
    /// looked up and does not count; the head does, also where it is that table. A later pass of a loop counts again.
    pub active: u64,
    /// The same by part and kind of layer.
    pub rows: Vec<ParameterRow>,
}

/// The weights of one part of equal layers.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ParameterRow {
    /// Which part.
    pub part: Part,
    /// The layers' mixers; empty for what stands around the layers.
    pub mixer: String,
    /// How many layers have it; 1 for what stands around them.
    pub layers: u64,
    /// Parameters of all these layers; none where they run again with the weights of earlier ones.
    pub total: u64,
    /// Those that a token is multiplied by.
    pub active: u64,
    /// Those that the active ones are chosen from.
    #[serde(skip)]
    pub(crate) pool: u64,
    /// Their kind, as an index into the architecture's classes.
    #[serde(skip)]
    pub(crate) class: Option<usize>,
    /// One layer, matrix by matrix: `q 3,072 × 6,144 + k 3,072 × 1,024`.
    pub worked: String,
}

impl Parameters {
    /// Counts the parameters of a config whose layers `architecture` has.
    ///
    /// # Errors
    ///
    /// A width that the config does not say or that has a wrong type, by its field, or a count beyond 64 bits.
    pub fn of(config: &Value, architecture: &Architecture) -> Result<Self> {
        let shapes = read_weights(config, architecture)?;
        let mut rows = Vec::new();
        for kind in kinds(architecture, &shapes)? {
            let class = (kind.class, &architecture.classes()[kind.class]);
            rows.extend(rows_of(Some(class), kind.runs, &kind.matrices)?);
        }
        let (hidden, vocabulary) = (shapes.hidden.get(), shapes.vocabulary.get());
        let table = Matrix::new(Part::Embedding, "token vectors", vocabulary, hidden).times(1, 0);
        let copies = u64::from(!shapes.ties_embeddings);
        let head = Matrix::new(Part::Head, "head", hidden, vocabulary).times(copies, 1);
        rows.extend(rows_of(None, Runs { layers: 1, again: false }, &[table, head])?);
        let sum = |of: fn(&ParameterRow) -> u64| {
            rows.iter().map(of).try_fold(0_u64, u64::checked_add).ok_or_else(product::overflow)
        };
        Ok(Self { total: sum(|row| row.total)?, active: sum(|row| row.active)?, rows })
    }

    /// Parameters of one part that a token is multiplied by.
    pub fn active_in(&self, part: Part) -> u64 {
        self.rows.iter().filter(|row| row.part == part).map(|row| row.active).sum()
    }
}

/// Layers that have the same matrices.
struct Kind {
    class: usize,
    runs: Runs,
    /// Those of one layer.
    matrices: Vec<Matrix>,
}

/// How many layers, and whether they run again with the weights of earlier ones.
#[derive(Clone, Copy)]
struct Runs {
    layers: u64,
    again: bool,
}

fn kinds(architecture: &Architecture, shapes: &WeightShapes) -> Result<Vec<Kind>> {
    let mut kinds: Vec<(usize, Option<&Mlp>, Runs)> = Vec::new();
    for index in 0..architecture.layer_count() {
        let class = architecture.class_of(index).expect("every layer has a class");
        let owner = architecture.weights_of(index);
        let mlp = shapes.mlps.get(owner).and_then(Option::as_ref);
        let again = owner != index;
        match kinds.iter_mut().find(|kind| (kind.0, kind.1, kind.2.again) == (class, mlp, again)) {
            Some(known) => known.2.layers += 1,
            None => kinds.push((class, mlp, Runs { layers: 1, again })),
        }
    }
    let matrices = |(class, mlp, runs): (usize, Option<&Mlp>, Runs)| {
        let LayerClass { mixers, borrows, .. } = &architecture.classes()[class];
        let mut all = Vec::new();
        for mixer in mixers {
            all.extend(mixer.matrices(shapes)?);
        }
        if borrows.is_some() {
            all.retain(|matrix| !matrix.makes_state());
        }
        if let Some(mlp) = mlp {
            all.extend(mlp.matrices(shapes.hidden.get()));
        }
        if let Some(streams) = &shapes.streams {
            // Before the mixer and before the MLP: what is read, what is written, and how streams mix.
            let n = streams.get();
            all.push(Matrix::new(Part::Streams, "mixing", n * shapes.hidden.get(), n * (n + 2)).times(2, 2));
        }
        Ok(Kind { class, runs, matrices: all })
    };
    kinds.into_iter().map(matrices).collect()
}

impl Mlp {
    fn matrices(&self, hidden: u64) -> Vec<Matrix> {
        let name = if self.matrices == 3 { "gate, up and down" } else { "up and down" };
        let mut all = Vec::new();
        if let Some(width) = &self.dense {
            all.push(Matrix::new(Part::Mlp, name, hidden, width.get()).times(self.matrices, self.matrices));
        }
        let Some(experts) = &self.experts else { return all };
        all.push(Matrix::new(Part::Router, "router", hidden, experts.count.get()));
        let inner = experts.latent.as_ref().map_or(hidden, Fact::get);
        if experts.latent.is_some() {
            all.push(Matrix::new(Part::Router, "to and from the latent", hidden, inner).times(2, 2));
        }
        let of = |experts: &Fact| experts.get().saturating_mul(self.matrices);
        all.push(
            Matrix::new(Part::Experts, name, inner, experts.width.get())
                .times(of(&experts.count), of(&experts.active)),
        );
        if let Some(width) = &experts.shared_width {
            let shared = Matrix::new(Part::SharedExperts, name, hidden, width.get());
            all.push(shared.times(self.matrices, self.matrices));
        }
        all
    }
}

fn rows_of(
    class: Option<(usize, &LayerClass)>,
    runs: Runs,
    matrices: &[Matrix],
) -> Result<Vec<ParameterRow>> {
    let mut rows: Vec<ParameterRow> = Vec::new();
    for matrix in matrices {
        let of_layers = |one: u64| one.checked_mul(runs.layers).ok_or_else(product::overflow);
        let (pool, active) = (of_layers(matrix.parameters()?)?, of_layers(matrix.active_parameters()?)?);
        let total = if runs.again { 0 } else { pool };
        let known = rows.iter().position(|row| row.part == matrix.part);
        let place = known.unwrap_or_else(|| {
            rows.push(ParameterRow {
                part: matrix.part,
                mixer: class.map_or_else(String::new, |(_, class)| class.name()),
                class: class.map(|(index, _)| index),
                layers: runs.layers,
                total: 0,
                active: 0,
                pool: 0,
                worked: String::new(),
            });
            rows.len() - 1
        });
        let row = &mut rows[place];
        row.total = row.total.checked_add(total).ok_or_else(product::overflow)?;
        row.pool = row.pool.checked_add(pool).ok_or_else(product::overflow)?;
        row.active = row.active.checked_add(active).ok_or_else(product::overflow)?;
        matrix.words(&mut row.worked);
    }
    Ok(rows)
}
