//! What a prefill worker sends to a decode worker, and over which links: the answer of `kvscope plan handover`.

mod curve;
mod layerwise;
mod parts;

use serde::Serialize;

use super::prefill::{PrefillAtPeak, share_of_rate};
use super::{Moving, Sensitivity, Subject, positive, sensitivities, sensitivity, within};
use crate::cost::Types;
use layerwise::LayerShares;
use parts::parts;

use crate::describe::describe;
use crate::hardware::{Gpu, Link, links};
use crate::settings::Settings;
use crate::size::StateModel;
use crate::state::ComponentKind;
use crate::warning::Warning;
use crate::{Bytes, Error, Result, Tokens};

pub use curve::{HandoverCurve, handover_curve};

/// A link that a payload goes over: t = start + blocks × α + bytes / β.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ChosenLink {
    /// Its id, or what the caller calls it.
    pub link: String,
    /// `datasheet`, `given` or `fitted`.
    pub grade: &'static str,
    /// The file, the run or the publication that its figures come from.
    pub source: String,
    /// Seconds until the first byte.
    pub start_seconds: f64,
    /// α: seconds that each block adds.
    pub alpha_seconds: f64,
    /// β: bytes a second.
    pub bytes_per_second: f64,
}

impl ChosenLink {
    /// A link at its nominal rate.
    pub fn nominal(link: &Link) -> Self {
        Self {
            link: link.id.clone(),
            grade: "datasheet",
            source: link.source.join("; "),
            start_seconds: 0.0,
            alpha_seconds: 0.0,
            bytes_per_second: link.bytes_per_second as f64,
        }
    }

    /// Seconds for `bytes` in `blocks` blocks.
    ///
    /// # Errors
    ///
    /// A link that moves nothing, or a time that is none.
    pub fn seconds(&self, blocks: u64, bytes: Bytes) -> Result<f64> {
        let rate = positive("bandwidth", self.bytes_per_second).map_err(|_| {
            Error::setting("bandwidth", format!("{} moves nothing; give a rate above 0", self.link))
        })?;
        for (name, seconds) in [("start", self.start_seconds), ("alpha", self.alpha_seconds)] {
            if !seconds.is_finite() || seconds < 0.0 {
                return Err(Error::setting(name, format!("{seconds} is no time")));
            }
        }
        let seconds = self.start_seconds + self.alpha_seconds * blocks as f64 + bytes.get() as f64 / rate;
        if !seconds.is_finite() {
            return Err(Error::setting("alpha", "its blocks take longer than can be said"));
        }
        Ok(seconds)
    }
}

/// Where prefill times come from.
#[derive(Clone, Debug)]
pub enum PrefillTime<'a> {
    /// Measured or published seconds, one for each length.
    Given(&'a [f64]),
    /// Operations over so many percent of the datasheet's rate.
    Estimated {
        /// Percent of the rate that a prefill reaches.
        percent: f64,
        /// Types of weights and attention.
        types: Types,
    },
}

/// What is asked of a hand-over.
#[derive(Clone, Debug)]
pub struct HandoverQuestion<'a> {
    /// Lengths of prompts.
    pub contexts: &'a [Tokens],
    /// Formats of the state.
    pub settings: &'a Settings,
    /// The GPU of the prefill instances.
    pub gpu: &'a Gpu,
    /// GPUs of one instance.
    pub count: u64,
    /// Tensor-parallel ranks that each hold a part of the state.
    pub tp: u64,
    /// GPUs that prefill, of all instances together.
    pub fleet: Option<u64>,
    /// Links to compare.
    pub links: &'a [ChosenLink],
    /// Blocks that a payload is sent in; where it is none, those of the description's service layer.
    pub blocks: Option<u64>,
    /// Where prefill times come from.
    pub prefill: PrefillTime<'a>,
    /// Whether inputs are moved.
    pub moving: Moving,
}

/// What is sent, how long it takes, and which link is needed.
#[derive(Clone, Debug, Serialize)]
pub struct HandoverPlan {
    /// Catalogue id or path.
    pub model: String,
    /// The GPU's id.
    pub gpu: String,
    /// GPUs of one instance.
    pub count: u64,
    /// Tensor-parallel ranks.
    pub tp: u64,
    /// The settings.
    pub settings: Settings,
    /// `given`, or `estimated` from the datasheet's rate.
    pub prefill_from: &'static str,
    /// Percent of that rate that it is estimated at; null where seconds are given.
    pub efficiency_percent: Option<f64>,
    /// Bytes that one more token adds beyond every window, for one copy.
    pub slope_bytes_per_token: f64,
    /// Bytes that do not grow, for one copy.
    pub fixed_bytes: Bytes,
    /// The same at every length.
    pub at: Vec<HandoverAt>,
    /// What a tenth of each input does at the first length.
    pub sensitivities: HandoverSensitivities,
    /// Assumptions and doubts.
    pub warnings: Vec<Warning>,
}

/// What a tenth of each input does to the hand-over of the first length, the input that matters most first.
#[derive(Clone, Debug, Serialize)]
pub struct HandoverSensitivities {
    /// To Φ, in bytes a second.
    pub egress: Vec<Sensitivity>,
    /// To the seconds after the prefill on the first link, layer by layer.
    pub layerwise_seconds: Vec<Sensitivity>,
}

/// The hand-over of one length.
#[derive(Clone, Debug, Serialize)]
pub struct HandoverAt {
    /// Tokens of the prompt.
    pub context: Tokens,
    /// One copy of what a decode worker must receive.
    pub payload_bytes: Bytes,
    /// What all ranks hold of it together, where some hold the same.
    pub held_by_ranks_bytes: Bytes,
    /// Blocks that it is sent in, each of which adds a link's α.
    pub blocks: u64,
    /// By component.
    pub components: Vec<HandoverPart>,
    /// Seconds of the prefill on one instance.
    pub prefill_seconds: f64,
    /// Φ: bytes a second that an instance sends while it prefills one prompt after the other.
    pub egress_bytes_per_second: f64,
    /// The same of the whole fleet.
    pub fleet_bytes_per_second: Option<f64>,
    /// The slowest link whose nominal rate is no less than Φ; null where none is.
    pub needs_link: Option<String>,
    /// What each link makes of it.
    pub links: Vec<LinkTime>,
}

/// One component of a payload.
#[derive(Clone, Debug, Serialize)]
pub struct HandoverPart {
    /// What is sent.
    pub kind: ComponentKind,
    /// Its format.
    pub format: &'static str,
    /// Layers that keep it.
    pub layers: u64,
    /// Bytes of one copy.
    pub bytes: Bytes,
    /// Bytes that all ranks hold together.
    pub held_by_ranks_bytes: Bytes,
}

/// A payload on one link.
#[derive(Clone, Debug, Serialize)]
pub struct LinkTime {
    /// The link.
    #[serde(flatten)]
    pub link: ChosenLink,
    /// Seconds after the prefill, if all is sent then.
    pub seconds: f64,
    /// Those over the prefill's.
    pub share_of_prefill: f64,
    /// Seconds after the prefill, if each layer is sent as soon as it is computed.
    pub layerwise_seconds: f64,
}

/// What is sent.
///
/// # Errors
///
/// A length beyond the model's, an instance without GPUs, a link or a prefill without a time, or a GPU whose datasheet prints
/// no rate.
pub fn handover(subject: &Subject<'_>, question: &HandoverQuestion<'_>) -> Result<HandoverPlan> {
    let way = Way::of(subject, question)?;
    let mut at = Vec::with_capacity(question.contexts.len());
    for (place, n) in question.contexts.iter().enumerate() {
        at.push(hand_over(subject, question, *n, way.blocks.at(*n), way.prefill.seconds(place, *n)?)?);
    }
    let moved = at.first().map(|first| Moved { subject, way: &way, question, first });
    let state = &way.state;
    Ok(HandoverPlan {
        model: subject.model.to_owned(),
        gpu: question.gpu.id.clone(),
        count: question.count,
        tp: question.tp,
        settings: question.settings.clone(),
        prefill_from: match question.prefill {
            PrefillTime::Given(_) => "given",
            PrefillTime::Estimated { .. } => "estimated",
        },
        efficiency_percent: match question.prefill {
            PrefillTime::Given(_) => None,
            PrefillTime::Estimated { percent, .. } => Some(percent),
        },
        slope_bytes_per_token: state.slope(None)?.as_f64(),
        fixed_bytes: state.fixed(None)?,
        sensitivities: HandoverSensitivities {
            egress: question.moving.rows(|| moved.as_ref().map_or_else(Vec::new, Moved::egress)),
            layerwise_seconds: question
                .moving
                .rows(|| moved.as_ref().map_or_else(Vec::new, Moved::layerwise_seconds)),
        },
        at,
        warnings: state.warnings().to_vec(),
    })
}

/// What is the same at every length.
struct Way<'a> {
    state: StateModel,
    prefill: Prefill<'a>,
    blocks: Blocks,
}

impl<'a> Way<'a> {
    fn of(subject: &Subject<'_>, question: &HandoverQuestion<'a>) -> Result<Self> {
        if question.count == 0 || question.tp == 0 {
            return Err(Error::setting("count", "0 GPUs prefill nothing; give at least 1"));
        }
        if question.blocks == Some(0) {
            return Err(Error::setting("blocks", "a payload is sent in 1 block or more"));
        }
        check_ranks(subject, question)?;
        for n in question.contexts {
            within("context", *n, subject.architecture)?;
        }
        let state = StateModel::new(subject.architecture, question.settings)?;
        let prefill = Prefill::of(subject, question)?;
        let blocks = if let Some(blocks) = question.blocks {
            Blocks::Given(blocks)
        } else {
            let described = describe(subject.model, subject.architecture, question.settings)?;
            Blocks::OfTokens(described.service.block.tokens)
        };
        Ok(Self { state, prefill, blocks })
    }
}

/// Refuses a fleet that is no whole number of instances, and ranks that an instance or the model does not have.
fn check_ranks(subject: &Subject<'_>, question: &HandoverQuestion<'_>) -> Result<()> {
    let (count, tp) = (question.count, question.tp);
    if let Some(fleet) = question.fleet.filter(|fleet| !fleet.is_multiple_of(count) || *fleet == 0) {
        let what = format!("{fleet} GPUs are no whole number of instances of {count}");
        return Err(Error::setting("fleet", what));
    }
    if tp > count {
        return Err(Error::setting(
            "tp",
            format!("{tp} ranks are more than the {count} GPUs of an instance"),
        ));
    }
    match &subject.architecture.plain_heads().query_heads {
        Some(heads) if !heads.get().is_multiple_of(tp) => {
            let what = format!("{tp} ranks do not divide {} query heads ({})", heads.get(), heads.source());
            Err(Error::setting("tp", what))
        }
        _ => Ok(()),
    }
}

/// How many blocks a payload is sent in.
#[derive(Clone, Copy)]
enum Blocks {
    Given(u64),
    OfTokens(Tokens),
}

impl Blocks {
    fn at(self, n: Tokens) -> u64 {
        match self {
            Self::Given(blocks) => blocks,
            Self::OfTokens(tokens) => n.get().div_ceil(tokens.get().max(1)).max(1),
        }
    }
}

fn hand_over(
    subject: &Subject<'_>,
    question: &HandoverQuestion<'_>,
    n: Tokens,
    blocks: u64,
    prefill_seconds: f64,
) -> Result<HandoverAt> {
    let components = parts(subject, question, n)?;
    let payload = Bytes::total(components.iter().map(|part| part.bytes))?;
    let held = Bytes::total(components.iter().map(|part| part.held_by_ranks_bytes))?;
    let egress = payload.get() as f64 / prefill_seconds;
    let no_prefill =
        || Error::setting("prefill_seconds", format!("{prefill_seconds} is no time of a prefill"));
    if !egress.is_finite() {
        return Err(no_prefill());
    }
    let layers = LayerShares::of(subject, question.settings, n)?;
    let link_time = |link: &ChosenLink| {
        let seconds = link.seconds(blocks, payload)?;
        if !(seconds / prefill_seconds).is_finite() {
            return Err(no_prefill());
        }
        Ok(LinkTime {
            link: link.clone(),
            seconds,
            share_of_prefill: seconds / prefill_seconds,
            layerwise_seconds: layers.seconds_after(seconds, prefill_seconds),
        })
    };
    Ok(HandoverAt {
        context: n,
        payload_bytes: payload,
        held_by_ranks_bytes: held,
        blocks,
        components,
        prefill_seconds,
        egress_bytes_per_second: egress,
        fleet_bytes_per_second: question.fleet.map(|fleet| egress * fleet as f64 / question.count as f64),
        needs_link: links()
            .iter()
            .filter(|link| link.class.is_of_network())
            .find(|link| link.bytes_per_second as f64 >= egress)
            .map(|link| link.id.clone()),
        links: question.links.iter().map(link_time).collect::<Result<_>>()?,
    })
}

/// The first length, whose inputs are moved.
struct Moved<'a> {
    subject: &'a Subject<'a>,
    way: &'a Way<'a>,
    question: &'a HandoverQuestion<'a>,
    first: &'a HandoverAt,
}

impl Moved<'_> {
    /// Payload and seconds of the prefill at a moved length, where the prefill is moved too.
    fn at(&self, context: f64, prefill: f64) -> Option<(Bytes, f64)> {
        let n = sensitivity::tokens(context)?;
        let payload = self.way.state.transferred(n, 1).ok()?;
        let seconds = match &self.way.prefill {
            Prefill::Given(_) => prefill,
            // Given seconds are the input; of estimated ones the rate is, and a longer prompt takes longer.
            Prefill::Estimated(peak) => peak.seconds(n).ok()? / prefill,
        };
        Some((payload, seconds))
    }

    fn prefill_input(&self) -> (&'static str, f64) {
        match &self.way.prefill {
            Prefill::Given(_) => ("prefill time", self.first.prefill_seconds),
            Prefill::Estimated(_) => ("rate of computing", 1.0),
        }
    }

    fn egress(&self) -> Vec<Sensitivity> {
        let inputs = [("context", self.first.context.get() as f64), self.prefill_input()];
        sensitivities(&inputs, |of| {
            let (payload, seconds) = self.at(of[0], of[1])?;
            Some(payload.get() as f64 / seconds)
        })
    }

    fn layerwise_seconds(&self) -> Vec<Sensitivity> {
        let Some(link) = self.question.links.first() else { return Vec::new() };
        let inputs = [
            ("context", self.first.context.get() as f64),
            self.prefill_input(),
            ("bandwidth", link.bytes_per_second),
            ("alpha", link.alpha_seconds),
            ("start", link.start_seconds),
        ];
        sensitivities(&inputs, |of| {
            let (payload, prefill) = self.at(of[0], of[1])?;
            let blocks = self.way.blocks.at(sensitivity::tokens(of[0])?);
            let moved = ChosenLink {
                bytes_per_second: of[2],
                alpha_seconds: of[3],
                start_seconds: of[4],
                ..link.clone()
            };
            let layers =
                LayerShares::of(self.subject, self.question.settings, sensitivity::tokens(of[0])?).ok()?;
            Some(layers.seconds_after(moved.seconds(blocks, payload).ok()?, prefill))
        })
    }
}

/// Bytes of one copy of what a decode worker must receive.
#[cfg(not(target_arch = "wasm32"))]
pub(super) fn payload(subject: &Subject<'_>, settings: &Settings, n: Tokens) -> Result<Bytes> {
    StateModel::new(subject.architecture, settings)?.transferred(n, 1)
}

/// Where the seconds of each prefill come from.
enum Prefill<'a> {
    Given(&'a [f64]),
    Estimated(Box<PrefillAtPeak<'a>>),
}

impl<'a> Prefill<'a> {
    fn of(subject: &Subject<'_>, question: &HandoverQuestion<'a>) -> Result<Self> {
        match question.prefill {
            PrefillTime::Given(seconds) if seconds.len() != question.contexts.len() => {
                let (given, lengths) = (seconds.len(), question.contexts.len());
                let lengths = crate::counted(lengths as u64, "length", "lengths");
                let what = format!("{given} for {lengths}; give one for each");
                Err(Error::setting("prefill_seconds", what))
            }
            PrefillTime::Given(seconds) => Ok(Self::Given(seconds)),
            PrefillTime::Estimated { percent, types } => {
                let gpus = question.count as f64 * share_of_rate(percent)?;
                let peak = PrefillAtPeak::new(subject, question.settings, types, question.gpu, gpus);
                let why = |error| {
                    Error::setting("prefill_seconds", format!("not given, and not estimated: {error}"))
                };
                Ok(Self::Estimated(Box::new(peak.map_err(why)?)))
            }
        }
    }

    fn seconds(&self, place: usize, n: Tokens) -> Result<f64> {
        match self {
            Self::Given(seconds) => positive("prefill_seconds", seconds[place]),
            Self::Estimated(peak) => positive("context", peak.seconds(n)?),
        }
    }
}
