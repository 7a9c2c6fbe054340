//! What a scheduler should know of a request instead of its prompt length: the answer of `kvscope plan label`.

use serde::Serialize;

use super::prefill::PrefillAtPeak;
use super::{Moving, Sensitivity, Subject, sensitivities, sensitivity};
use crate::cost::Types;
use crate::describe::ranks;
use crate::hardware::Gpu;
use crate::settings::Settings;
use crate::size::StateModel;
use crate::state::{ComponentKind, Lifecycle};
use crate::warning::Warning;
use crate::{Bytes, BytesPerToken, Error, Result, Tokens};

/// One version at one length.
#[derive(Clone, Debug, Serialize)]
pub struct Label {
    /// Tokens of the request.
    pub context: Tokens,
    /// Bytes that it holds.
    pub resident_bytes: Bytes,
    /// Bytes that its next token adds.
    pub slope_bytes_per_token: BytesPerToken,
    /// Bytes of it that do not grow.
    pub fixed_bytes: Bytes,
    /// Bytes of state that a decode step reads.
    pub read_bytes_per_step: Bytes,
    /// Bytes that a hand-over sends.
    pub handover_bytes: Bytes,
    /// How its state lives: `token`, `window`, `request`, joined where it lives in several ways.
    pub lifecycle_class: String,
    /// What the hardware makes of it; null where none is given or the config lacks a width.
    pub hardware: Option<HardwareLabel>,
}

/// The same on some GPUs, at datasheet rates.
#[derive(Clone, Debug, Serialize)]
pub struct HardwareLabel {
    /// The GPU's id.
    pub gpu: String,
    /// How many tensor-parallel ranks share the request: state is read and restored in the time of the fullest, and what all
    /// heads share each of them has whole.
    pub count: u64,
    /// Always `datasheet`: no step is faster than this.
    pub grade: &'static str,
    /// Seconds that a decode step's state takes to be read.
    pub read_seconds_per_step: f64,
    /// Seconds of a prefill's operations; null where the config lacks a width or the datasheet a rate.
    pub prefill_seconds: Option<f64>,
    /// Seconds to bring the state back from the host's memory; null where that is the GPU's own.
    pub restore_seconds: Option<f64>,
    /// Why each of these times that is null is not there.
    pub missing: Vec<Warning>,
}

/// The labels of one version.
#[derive(Clone, Debug, Serialize)]
pub struct LabelPlan {
    /// Catalogue id or path.
    pub model: String,
    /// The settings.
    pub settings: Settings,
    /// One label a length.
    pub labels: Vec<Label>,
    /// What a tenth of each input does to the first label.
    pub sensitivities: LabelSensitivities,
    /// Assumptions and doubts.
    pub warnings: Vec<Warning>,
}

/// What a tenth of each input does to a label, the input that matters most first.
#[derive(Clone, Debug, Default, Serialize)]
pub struct LabelSensitivities {
    /// To the bytes that the request holds.
    pub resident_bytes: Vec<Sensitivity>,
    /// To the seconds of its prefill; empty where the label has none.
    pub prefill_seconds: Vec<Sensitivity>,
}

/// The labels of a model at some lengths, on `count` of a GPU where one is given.
///
/// # Errors
///
/// A length beyond the model's, a count of zero, or a figure beyond 64 bits.
pub fn label(
    subject: &Subject<'_>,
    settings: &Settings,
    contexts: &[Tokens],
    hardware: Option<(&Gpu, u64)>,
    moving: Moving,
) -> Result<LabelPlan> {
    if hardware.is_some_and(|(_, count)| count == 0) {
        return Err(Error::setting("count", "0 GPUs hold nothing; give at least 1"));
    }
    let state = StateModel::new(subject.architecture, settings)?;
    let prefill = hardware.map(|(gpu, count)| {
        let types = Types::of(subject.architecture);
        PrefillAtPeak::new(subject, settings, types, gpu, count as f64)
    });
    // What the config or the datasheet lacks is no error of a label: it has no such time then, and says why.
    let prefill = prefill.transpose();
    let labels = contexts.iter().map(|n| {
        super::within("context", *n, subject.architecture)?;
        let resident = state.resident(*n, 1)?;
        Ok(Label {
            context: *n,
            resident_bytes: resident,
            slope_bytes_per_token: state.slope(Some(*n))?,
            fixed_bytes: state.fixed(Some(*n))?,
            read_bytes_per_step: state.read_per_step(*n, 1)?,
            handover_bytes: state.transferred(*n, 1)?,
            lifecycle_class: lifecycle_class(&state),
            hardware: hardware
                .map(|(gpu, count)| {
                    let seconds = |bytes: Bytes, rate: u64| bytes.get() as f64 / rate as f64;
                    let rank = of_rank(subject, settings, *n, count)?;
                    let mut missing = Vec::new();
                    let mut lacks = |field: &str, why: String| missing.push(Warning::new(field, why));
                    let prefill = match &prefill {
                        Ok(prefill) => prefill.as_ref().map(|prefill| prefill.seconds(*n)).transpose(),
                        Err(error) => Err(error.clone()),
                    };
                    let prefill_seconds = prefill.unwrap_or_else(|error| {
                        lacks("prefill_seconds", format!("not computed: {error}"));
                        None
                    });
                    if gpu.host_link.is_none() {
                        lacks("restore_seconds", format!("{} has the host's memory as its own", gpu.name));
                    }
                    Ok(HardwareLabel {
                        gpu: gpu.id.clone(),
                        count,
                        grade: "datasheet",
                        read_seconds_per_step: seconds(rank.read, gpu.memory_bytes_per_second),
                        prefill_seconds,
                        restore_seconds: gpu
                            .host_link
                            .as_ref()
                            .map(|link| seconds(rank.resident, link.bytes_per_second)),
                        missing,
                    })
                })
                .transpose()?,
        })
    });
    let labels = labels.collect::<Result<Vec<_>>>()?;
    let moved = |n: Tokens| LabelSensitivities {
        resident_bytes: moved_resident(&state, n),
        prefill_seconds: match &prefill {
            Ok(Some(prefill)) => moved_prefill(prefill, n),
            _ => Vec::new(),
        },
    };
    let first = contexts.first().copied().filter(|_| moving == Moving::Inputs);
    Ok(LabelPlan {
        model: subject.model.to_owned(),
        settings: settings.clone(),
        labels,
        sensitivities: first.map(moved).unwrap_or_default(),
        warnings: state.warnings().to_vec(),
    })
}

fn moved_resident(state: &StateModel, n: Tokens) -> Vec<Sensitivity> {
    sensitivities(&[("context", n.get() as f64), ("growing part", 1.0), ("fixed part", 1.0)], |of| {
        let n = sensitivity::tokens(of[0])?;
        let fixed = state.fixed(Some(n)).ok()?.get() as f64;
        let growing = state.resident(n, 1).ok()?.get() as f64 - fixed;
        Some(growing * of[1] + fixed * of[2])
    })
}

fn moved_prefill(prefill: &PrefillAtPeak<'_>, n: Tokens) -> Vec<Sensitivity> {
    sensitivities(&[("context", n.get() as f64), ("rate of computing", 1.0)], |of| {
        Some(prefill.seconds(sensitivity::tokens(of[0])?).ok()? / of[1])
    })
}

/// What the fullest of some tensor-parallel ranks holds and reads of a request.
struct OfRank {
    resident: Bytes,
    read: Bytes,
}

fn of_rank(subject: &Subject<'_>, settings: &Settings, n: Tokens, count: u64) -> Result<OfRank> {
    let formats = subject.architecture.formats(settings);
    let mut rank = OfRank { resident: Bytes::ZERO, read: Bytes::ZERO };
    for class in subject.architecture.classes() {
        let layers = class.layers.len() as u64;
        for mixer in &class.mixers {
            for component in mixer.components(&formats)? {
                let division = ranks(mixer, &component);
                let of = |bytes: Bytes| division.bytes_of_rank(bytes, count)?.times(layers);
                rank.read = rank.read.plus(of(component.read_bytes(n)?)?)?;
                if class.borrows.is_none() {
                    rank.resident = rank.resident.plus(of(component.bytes(n)?)?)?;
                }
            }
            // What is read of earlier layers' entries belongs to all heads.
            for component in mixer.borrowed(&formats)? {
                rank.read = rank.read.plus(component.read_bytes(n)?.times(layers)?)?;
            }
        }
    }
    Ok(rank)
}

/// The lifecycles of all components that outlive a step.
fn lifecycle_class(state: &StateModel) -> String {
    let all = [(Lifecycle::Token, "token"), (Lifecycle::Window, "window"), (Lifecycle::Request, "request")];
    let has = |lifecycle: Lifecycle| {
        let lives = |kind: ComponentKind| kind != ComponentKind::CompressorState;
        let mut kept = state.parts().iter().map(|part| &part.component);
        kept.any(|component| component.lifecycle == lifecycle && lives(component.kind))
    };
    let words: Vec<&str> = all.into_iter().filter(|(one, _)| has(*one)).map(|(_, word)| word).collect();
    if words.is_empty() { "none".to_owned() } else { words.join("+") }
}
