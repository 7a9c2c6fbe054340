//! What of each case is run: layers and heads as memory and time allow, predicted and stored before anything is measured.

use kvscope_protocol::run::{Cache, Case, Line};
use kvscope_sizing::Tokens;

use super::Session;
use crate::bench::backend::Layout;
use crate::bench::layers::{Limits, Need, Wave, waves};
use crate::bench::plan::{CaseRequest, Divided};
use crate::bench::samples::WANTED_SAMPLES;
use crate::bench::{BenchError, in_words, record};

/// Random numbers are written this many times slower than memory is read, first touch included.
const FILL_SLOWNESS: f64 = 8.0;

/// A case that can be run.
#[derive(Clone, Debug)]
pub(super) struct Job {
    pub(super) index: usize,
    /// As it was asked for, or with fewer heads.
    pub(super) request: CaseRequest,
    layout: Layout,
    /// What it was scaled down to, in words.
    pub(super) scaled: Option<String>,
}

impl Session<'_, '_> {
    /// Chooses layers, predicts every case and stores the predictions, or why a case is not run.
    pub(super) fn choose(&mut self, cases: &mut [Case]) -> Result<(Vec<Job>, Vec<Wave>), BenchError> {
        let left = self.clock.left().as_secs_f64();
        // No more than a sixth of the time goes into filling state.
        let fill_rate = self.calibrated.calibration.ceilings.read_bytes_per_second / FILL_SLOWNESS;
        #[allow(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "positive; `as` saturates"
        )]
        let by_time = (left / 6.0 * fill_rate) as u64;
        let memory = self.plan.state_limit.min(self.backend.free_state_bytes()).get();

        let (mut jobs, mut needs, mut lines) = (Vec::new(), Vec::new(), Vec::new());
        for (index, case) in cases.iter_mut().enumerate() {
            match self.job(index, memory) {
                Ok((job, need)) => {
                    jobs.push(job);
                    needs.push(need);
                }
                Err(why) => {
                    case.status = format!("skipped: {why}");
                    lines.push(Line::Case(Box::new(case.clone())));
                }
            }
        }
        let largest_layer = needs.iter().map(|need| need.layer_bytes).max().unwrap_or(0);
        let limits = Limits {
            state_bytes: memory.min(by_time).max(largest_layer),
            // Two more than the samples wanted: the check and the warm-up. The rest is for a machine that slows down.
            step_seconds: left * 0.4 / (needs.len().max(1) * (WANTED_SAMPLES + 2)) as f64,
        };
        let groups = waves(&needs, limits);
        for (place, layers) in groups.iter().flat_map(|wave| &wave.cases) {
            let job = &jobs[*place];
            let case = &mut cases[job.index];
            record::predict(case, &job.request, &job.layout, *layers, self.calibrated)?;
            if self.backend.is_emulated() {
                record::emulated(case);
            }
            lines.push(Line::Prediction(Box::new(case.clone())));
        }
        // At once, so that a process that is killed leaves all cases or none of them.
        self.writer.append_all(&lines)?;
        Ok((jobs, groups))
    }

    /// What one layer of a case needs, with fewer heads where memory asks, or why it cannot be run.
    fn job(&self, index: usize, memory: u64) -> Result<(Job, Need), String> {
        let request = &self.requests[index];
        if request.layers == 0 || request.batch == 0 || request.context.get() == 0 {
            return Err("layers, context and batch must be at least 1".to_owned());
        }
        let whole = self.layout(request)?;
        let (request, layout, scaled) = if whole.layer_bytes <= memory {
            (request.clone(), whole, None)
        } else {
            self.fewer_heads(request, memory).ok_or_else(|| self.too_large(request, memory))?
        };
        let demand = record::demand(&request, &layout, 1, &self.calibrated.calibration)
            .map_err(|error| error.to_string())?;
        let layers = match request.cache {
            Cache::Cold => request.layers,
            Cache::Hot => record::layers_in_cache(&layout, &request, &self.calibrated.calibration)?,
        };
        let need = Need { layer_bytes: layout.layer_bytes, layers, layer_seconds: demand.time.seconds };
        Ok((Job { index, request, layout, scaled }, need))
    }

    fn layout(&self, request: &CaseRequest) -> Result<Layout, String> {
        self.backend
            .layout(&request.shape, request.context.get(), request.batch)
            .map_err(|error| error.to_string())
    }

    /// The request with a half, a quarter and so on of its heads: the first of which one layer fits.
    fn fewer_heads(
        &self,
        request: &CaseRequest,
        memory: u64,
    ) -> Option<(CaseRequest, Layout, Option<String>)> {
        (1..10).map(|power| 1 << power).find_map(|by| {
            let Divided { shape, sizing, what } = request.sizing.divided(by)?;
            let smaller = CaseRequest { shape, sizing, ..request.clone() };
            let layout = self.layout(&smaller).ok().filter(|layout| layout.layer_bytes <= memory)?;
            Some((smaller, layout, Some(what)))
        })
    }

    fn too_large(&self, request: &CaseRequest, memory: u64) -> String {
        let fits = |context: u64| {
            let request = CaseRequest { context: Tokens::new(context), ..request.clone() };
            self.layout(&request).is_ok_and(|layout| layout.layer_bytes <= memory)
        };
        let (mut largest, mut too_large) = (0, request.context.get());
        while too_large - largest > 1 {
            let middle = largest + (too_large - largest) / 2;
            if fits(middle) {
                largest = middle;
            } else {
                too_large = middle;
            }
        }
        let advice = match largest {
            0 => "no context fits".to_owned(),
            _ => format!("the largest context that fits is {} tokens", Tokens::new(largest)),
        };
        format!("one layer is larger than the {} that state may take; {advice}", in_words(memory))
    }
}
