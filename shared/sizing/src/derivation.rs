use serde::Serialize;
use smol_str::SmolStr;

use crate::Bytes;
use crate::fact::{Fact, Source};

/// How one figure of one layer is computed: a formula, its inputs with their sources, and the result.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Derivation {
    /// The formula over the inputs' symbols: `kv_heads × (k_width + v_width) × bytes_per_value`.
    pub formula: SmolStr,
    /// Every symbol of the formula.
    pub inputs: Vec<Input>,
    /// What the formula gives: bytes of one entry, or of the whole component where it is constant.
    pub result: Bytes,
}

/// One symbol of a formula.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Input {
    /// The symbol in the formula.
    pub symbol: &'static str,
    /// Its value.
    pub value: u64,
    /// Where the value came from.
    pub source: Source,
}

impl Derivation {
    /// A derivation with the given formula, inputs and result.
    pub fn new(formula: &'static str, inputs: Vec<Input>, result: Bytes) -> Self {
        Self { formula: SmolStr::new_static(formula), inputs, result }
    }

    /// The formula with numbers in place of symbols: `8 × (128 + 128) × 2`.
    pub fn worked(&self) -> String {
        let mut words: Vec<String> = Vec::new();
        for word in self.formula.split_inclusive([' ', '(', ')']) {
            let symbol = word.trim_end_matches([' ', '(', ')']);
            let value = self.inputs.iter().find(|input| input.symbol == symbol);
            words.push(match value {
                Some(input) => word.replacen(symbol, &input.value.to_string(), 1),
                None => word.to_owned(),
            });
        }
        words.concat()
    }
}

impl Input {
    /// A symbol bound to a fact.
    pub fn of(symbol: &'static str, fact: &Fact) -> Self {
        Self { symbol, value: fact.get(), source: fact.source().clone() }
    }

    /// A symbol bound to a value with its own source.
    pub fn new(symbol: &'static str, value: u64, source: Source) -> Self {
        Self { symbol, value, source }
    }
}
