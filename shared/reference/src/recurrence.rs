//! One decode step of every recurrence.

use crate::dot;

/// What a step leaves behind and gives.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// Laid out as the state before.
    pub state: Vec<f64>,
    /// What the step gives.
    pub output: Vec<f64>,
}

impl Outcome {
    /// Nothing done yet.
    pub fn of(state: &[f64]) -> Self {
        Self { state: state.to_vec(), output: Vec::new() }
    }
}

/// One head of the gated delta rule over `state[value][key]`, with a decay for each key dimension:
/// S ← S·diag(α); u = β(v − S·k); S ← S + u·kᵀ; o = S·q (arXiv 2412.06464 with one α, arXiv 2510.26692 with one for
/// each dimension). Key and query are normalised first, the query scaled.
pub fn delta_rule(state: &mut [f64], head: &DeltaHead<'_>) -> Vec<f64> {
    let key = normalised(head.key);
    let scale = 1.0 / (head.query.len() as f64).sqrt();
    let query: Vec<f64> = normalised(head.query).iter().map(|value| value * scale).collect();
    state
        .chunks_mut(key.len())
        .zip(head.value)
        .map(|(row, value)| {
            for (entry, decay) in row.iter_mut().zip(head.decay) {
                *entry *= decay;
            }
            let correction = head.beta * (value - dot(row, &key));
            for (entry, key) in row.iter_mut().zip(&key) {
                *entry += correction * key;
            }
            dot(row, &query)
        })
        .collect()
}

/// What one head of [`delta_rule`] gets.
#[derive(Clone, Copy, Debug)]
pub struct DeltaHead<'a> {
    /// One for each key dimension.
    pub decay: &'a [f64],
    /// How much of the correction is taken.
    pub beta: f64,
    /// As given.
    pub query: &'a [f64],
    /// As given.
    pub key: &'a [f64],
    /// One for each row of the state.
    pub value: &'a [f64],
}

/// One channel of Mamba-1: h ← exp(Δ·A)·h + Δ·x·B; y = C·h + D·x (arXiv 2312.00752).
pub fn mamba1(state: &mut [f64], channel: &Mamba1Channel<'_>) -> f64 {
    for (n, entry) in state.iter_mut().enumerate() {
        *entry = (channel.step * channel.a[n]).exp() * *entry + channel.step * channel.x * channel.b[n];
    }
    dot(state, channel.c) + channel.skip * channel.x
}

/// What one channel of [`mamba1`] gets.
#[derive(Clone, Copy, Debug)]
pub struct Mamba1Channel<'a> {
    /// Δ.
    pub step: f64,
    /// Input.
    pub x: f64,
    /// A, one for each state value.
    pub a: &'a [f64],
    /// B.
    pub b: &'a [f64],
    /// C.
    pub c: &'a [f64],
    /// D.
    pub skip: f64,
}

/// One head of Mamba-2 over `state[channel][n]`: H ← a·H + Δ·x·Bᵀ; y = H·C + D·x (arXiv 2405.21060).
pub fn mamba2(state: &mut [f64], head: &Mamba2Head<'_>) -> Vec<f64> {
    state
        .chunks_mut(head.b.len())
        .zip(head.x)
        .map(|(row, x)| {
            for (entry, b) in row.iter_mut().zip(head.b) {
                *entry = head.decay * *entry + head.step * x * b;
            }
            dot(row, head.c) + head.skip * x
        })
        .collect()
}

/// What one head of [`mamba2`] gets.
#[derive(Clone, Copy, Debug)]
pub struct Mamba2Head<'a> {
    /// a = exp(Δ·A).
    pub decay: f64,
    /// Δ.
    pub step: f64,
    /// One for each channel.
    pub x: &'a [f64],
    /// B.
    pub b: &'a [f64],
    /// C.
    pub c: &'a [f64],
    /// D.
    pub skip: f64,
}

/// One head of lightning attention over `state[key][value]`: S ← λ·S + k·vᵀ; o = qᵀ·S (arXiv 2401.04658).
pub fn lightning(state: &mut [f64], decay: f64, query: &[f64], key: &[f64], value: &[f64]) -> Vec<f64> {
    let mut output = vec![0.0; value.len()];
    for (row, (key, query)) in state.chunks_mut(value.len()).zip(key.iter().zip(query)) {
        for (place, entry) in row.iter_mut().enumerate() {
            *entry = decay * *entry + key * value[place];
            output[place] += query * *entry;
        }
    }
    output
}

/// A causal convolution over `state[column][channel]`, the oldest input first: `y = Σ wⱼ·sⱼ + w_last·x` for each channel;
/// then the oldest input leaves and x comes. `taps` is `[tap][channel]`.
pub fn convolution(state: &[f64], taps: &[f64], x: &[f64]) -> Outcome {
    let channels = x.len();
    let mut inputs = state.to_vec();
    inputs.extend(x);
    let output = (0..channels)
        .map(|channel| {
            let of_channel = |values: &[f64]| -> Vec<f64> {
                values.iter().skip(channel).step_by(channels).copied().collect()
            };
            dot(&of_channel(&inputs), &of_channel(taps))
        })
        .collect();
    Outcome { state: inputs[channels..].to_vec(), output }
}

/// x·σ(x).
pub fn silu(x: f64) -> f64 {
    x / (1.0 + (-x).exp())
}

fn normalised(vector: &[f64]) -> Vec<f64> {
    let length = (dot(vector, vector) + 1e-6).sqrt();
    vector.iter().map(|value| value / length).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(got: &[f64], right: &[f64]) {
        assert_eq!(got.len(), right.len());
        for (got, right) in got.iter().zip(right) {
            assert!((got - right).abs() < 1e-5, "{got}, not {right}");
        }
    }

    #[test]
    fn the_delta_rule_by_hand() {
        // Key (3, 4)/5; S = (1, 2), decays 1/2 and 1/4: (0.5, 0.5); S·k = 0.7; u = 0.5 × (2 − 0.7) = 0.65;
        // S = (0.5 + 0.65 × 0.6, 0.5 + 0.65 × 0.8) = (0.89, 1.02); query (1, 0)/√2: 0.89/√2.
        let mut state = [1.0, 2.0];
        let head =
            DeltaHead { decay: &[0.5, 0.25], beta: 0.5, query: &[7.0, 0.0], key: &[3.0, 4.0], value: &[2.0] };
        let output = delta_rule(&mut state, &head);
        close(&state, &[0.89, 1.02]);
        close(&output, &[0.89 / 2.0_f64.sqrt()]);
    }

    #[test]
    fn with_full_beta_and_no_decay_the_delta_rule_stores_the_value_under_its_key() {
        // S·k = v afterwards, whatever was there: what the rule is for.
        let mut state = [0.3, -0.8, 0.1, 0.5, 0.9, -0.2];
        let key = [1.0, -2.0, 2.0];
        let head = DeltaHead { decay: &[1.0; 3], beta: 1.0, query: &key, key: &key, value: &[4.0, -5.0] };
        let output = delta_rule(&mut state, &head);
        let scale = 3.0_f64.sqrt();
        close(&output, &[4.0 / scale, -5.0 / scale]);
    }

    #[test]
    fn both_mambas_by_hand() {
        // exp(Δ·A) = 1/2 and 1/4; h = (0.5 × 4 + 2 × 3 × 1, 0.25 × 8 + 2 × 3 × −1) = (8, −4); y = 8 − 8 + 10 × 3.
        let ln2 = 2.0_f64.ln();
        let mut state = [4.0, 8.0];
        let channel = Mamba1Channel {
            step: 2.0,
            x: 3.0,
            a: &[-ln2 / 2.0, -ln2],
            b: &[1.0, -1.0],
            c: &[1.0, 2.0],
            skip: 10.0,
        };
        let y = mamba1(&mut state, &channel);
        close(&state, &[8.0, -4.0]);
        close(&[y], &[30.0]);

        // One decay for the head, two channels: (0.5 × 4 + 6, 0.5 × 8 − 6) and (0.5 × 2 + 2, 0.5 × 6 − 2).
        let mut state = [4.0, 8.0, 2.0, 6.0];
        let head =
            Mamba2Head { decay: 0.5, step: 2.0, x: &[3.0, 1.0], b: &[1.0, -1.0], c: &[1.0, 2.0], skip: 10.0 };
        let y = mamba2(&mut state, &head);
        close(&state, &[8.0, -2.0, 3.0, 1.0]);
        close(&y, &[34.0, 15.0]);
    }

    #[test]
    fn lightning_by_hand() {
        // S = ½ (2, 4; 6, 8) + (1, 2)ᵀ (3, 5) = (4, 7; 9, 14); o = (1, −1)·S = (−5, −7).
        let mut state = [2.0, 4.0, 6.0, 8.0];
        let output = lightning(&mut state, 0.5, &[1.0, -1.0], &[1.0, 2.0], &[3.0, 5.0]);
        close(&state, &[4.0, 7.0, 9.0, 14.0]);
        close(&output, &[-5.0, -7.0]);
    }

    #[test]
    fn a_convolution_by_hand() {
        // Two channels, three taps: channel 0 holds 1, 2 and gets 3: 1 × 1 + 2 × 10 + 3 × 100.
        let outcome = convolution(&[1.0, 5.0, 2.0, 6.0], &[1.0, 2.0, 10.0, 20.0, 100.0, 200.0], &[3.0, 7.0]);
        close(&outcome.output, &[321.0, 2.0 * 765.0]);
        close(&outcome.state, &[2.0, 6.0, 3.0, 7.0]);
        close(&[silu(0.0), silu(3.0_f64.ln())], &[0.0, 3.0_f64.ln() * 0.75]);
    }
}
