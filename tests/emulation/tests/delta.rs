//! The gated delta rule: gated DeltaNet and KDA.
#![cfg(unix)]
#![allow(clippy::unwrap_used, reason = "a panic is a test's report")]

use kvscope_emulation::{Argument, DIVERGENT_EXCHANGE, Job, Launch, ORDERS, OUT_OF_BOUNDS, Random};
use kvscope_emulation::{Storage, f32s, floats, run, run_everywhere};
use kvscope_reference::recurrence::{DeltaHead, delta_rule};
use kvscope_reference::{relative_error, widen};

/// f32 sums over f32 values.
const TOLERANCE: f64 = 1e-6;

#[derive(Clone, Copy, Debug)]
struct Case {
    /// `gdn` or `kda`.
    form: &'static str,
    storage: Storage,
    k_heads: usize,
    v_heads: usize,
    k_dim: usize,
    v_dim: usize,
    requests: usize,
}

impl Case {
    /// The job, and the state and output that it should give.
    fn job(&self, seed: u64) -> (Job, Vec<f64>, Vec<f64>) {
        let Self { k_heads, v_heads, k_dim, v_dim, requests, .. } = *self;
        let mut random = Random::new(seed);
        let mut job = Job::new();
        let state = self.storage.random(requests * v_heads * v_dim * k_dim, &mut random);
        let inputs = 2 * k_heads * k_dim + v_heads * v_dim;
        let activations = random.floats(requests * inputs);
        let decays = if self.form == "kda" { v_heads * k_dim } else { v_heads };
        let gates = random.between(0.05, 0.999, requests * (decays + v_heads));

        let mut right = self.storage.numbers(&state);
        let mut output = Vec::new();
        for request in 0..requests {
            let activations = widen(&activations[request * inputs..][..inputs]);
            let gates = widen(&gates[request * (decays + v_heads)..][..decays + v_heads]);
            for head in 0..v_heads {
                let decay = match self.form {
                    "kda" => gates[head * k_dim..][..k_dim].to_vec(),
                    _ => vec![gates[head]; k_dim],
                };
                let k_head = head * k_heads / v_heads;
                let state = &mut right[(request * v_heads + head) * v_dim * k_dim..][..v_dim * k_dim];
                output.extend(delta_rule(
                    state,
                    &DeltaHead {
                        decay: &decay,
                        beta: gates[decays + head],
                        query: &activations[k_head * k_dim..][..k_dim],
                        key: &activations[(k_heads + k_head) * k_dim..][..k_dim],
                        value: &activations[2 * k_heads * k_dim + head * v_dim..][..v_dim],
                    },
                ));
            }
        }

        let state = job.changed(state);
        let [activations, gates] = [activations, gates].map(|values| job.input(f32s(&values)));
        let to = job.output(requests * v_heads * v_dim * 4);
        job.launch(Launch {
            kernel: format!("{}_{}_{k_dim}", self.form, self.storage.name()),
            grid: [v_dim.div_ceil(32), v_heads, requests].map(|count| u32::try_from(count).unwrap()),
            threads: 128,
            dynamic_shared: 0,
            argument: Argument::new()
                .address(state)
                .address(activations)
                .address(gates)
                .address(to)
                .count(k_heads)
                .count(v_heads)
                .count(v_dim),
        });
        (job, right, output)
    }

    fn check(&self) {
        let (job, state, output) = self.job(self.k_dim as u64);
        let results = run_everywhere(&job);
        let off = relative_error(output, &floats(&results[1]));
        assert!(off < TOLERANCE, "{self:?}: the output is off by {off}");
        let off = self.storage.error(&state, &results[0]);
        assert!(off < TOLERANCE, "{self:?}: the state is off by {off}");
    }
}

const USUAL: Case =
    Case { form: "gdn", storage: Storage::F32, k_heads: 2, v_heads: 4, k_dim: 128, v_dim: 128, requests: 1 };

#[test]
fn every_width_and_storage_agrees_with_the_reference() {
    for form in ["gdn", "kda"] {
        for storage in [Storage::F32, Storage::Bf16] {
            for (k_dim, v_dim) in [(64, 64), (128, 128), (256, 32)] {
                let (k_heads, v_heads) = if form == "kda" { (2, 2) } else { (1, 3) };
                Case { form, storage, k_heads, v_heads, k_dim, v_dim, requests: 2 }.check();
            }
        }
    }
}

#[test]
fn heads_that_share_keys_and_rows_that_are_no_whole_tile() {
    Case { k_heads: 1, v_heads: 4, v_dim: 33, ..USUAL }.check();
    Case { k_heads: 3, v_heads: 3, v_dim: 7, requests: 3, ..USUAL }.check();
}

#[test]
fn a_row_too_many_is_seen() {
    let (job, ..) = Case { v_dim: 33, k_heads: 1, v_heads: 1, ..USUAL }.job(1);
    let failure = run(OUT_OF_BOUNDS.name, &job, &ORDERS[..1]).unwrap_err();
    assert!(failure.report.contains("heap-buffer-overflow"), "{}", failure.report);
    assert!(failure.report.contains("delta.cu:"), "{}", failure.report);
}

#[test]
fn an_exchange_that_a_lane_does_not_come_to_ends_the_run() {
    let (job, ..) = USUAL.job(1);
    let failure = run(DIVERGENT_EXCHANGE.name, &job, &ORDERS[..1]).unwrap_err();
    assert!(failure.report.contains("emulation: "), "{}", failure.report);
}
