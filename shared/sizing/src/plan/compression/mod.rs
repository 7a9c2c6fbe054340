//! Compression of state on its way: what may be touched, how long it takes, and the bandwidth above which it does not pay.
//!
//! Without compression T₀ = M + V/B; with it T = M + Vₜ/S + (Vₜ/CR + Vᵣ)/B, where M is the time beside the transfer, Vₜ is what the strategy may
//! touch, Vᵣ the rest, S the speed of encoding and decoding one after the other and CR the ratio. T < T₀ where
//! B < B* = (1 − 1/CR)·S, whatever the rest is (the controller of arXiv 2605.13734, with bytes and seconds throughout).

mod applies;
mod envelope;
#[cfg(not(target_arch = "wasm32"))]
pub(in crate::plan) mod published;
mod table;

use serde::Serialize;

use crate::plan::{Sensitivity, sensitivities};
use crate::size::StateModel;
use crate::state::ComponentKind;
use crate::{Bytes, Error, Result, Tokens};

pub use applies::{Method, Touch, touch};
pub use envelope::{Segment, segments};
pub use table::{KVSERVE_GBPS, KVSERVE_ROWS, Line, Told, kvserve_points, line, published, told};

/// One way to make state smaller, with what was measured of it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Strategy {
    /// Its name.
    pub name: String,
    /// What it does to values, which says what it may touch.
    pub method: Method,
    /// CR: bytes before over bytes after, of what it touches.
    pub ratio: f64,
    /// S: bytes a second of encoding and decoding together: 1 / (1/encode + 1/decode).
    pub codec_bytes_per_second: f64,
    /// Points of accuracy that it costs; null where nobody measured it.
    pub accuracy_loss_points: Option<f64>,
    /// Where its figures come from.
    pub source: String,
}

/// What compression is asked for.
#[derive(Clone, Debug, PartialEq)]
pub struct Transfer {
    /// Seconds beside moving the state: prefill, the first steps.
    pub model_seconds: f64,
    /// Bytes a second that the link really moves.
    pub bytes_per_second: f64,
    /// Seconds that it takes to start.
    pub start_seconds: f64,
    /// The most points of accuracy that may be lost; absent where any loss will do.
    pub accuracy_floor_points: Option<f64>,
    /// The longest time that is allowed.
    pub slo_seconds: Option<f64>,
}

/// What compression does for one request.
#[derive(Clone, Debug, Serialize)]
pub struct CompressionPlan {
    /// Tokens of the request.
    pub context_tokens: Tokens,
    /// Bytes that a decode worker must receive.
    pub transfer_bytes: Bytes,
    /// What may be touched of each component.
    pub components: Vec<ComponentTouch>,
    /// Sending everything as it is, first, then the strategies in the order in which they were given.
    pub options: Vec<Choice>,
    /// The fastest that is allowed; null where none is.
    pub winner: Option<String>,
    /// The fastest allowed option for every bandwidth, from the slowest link on that meets the longest time allowed.
    pub by_bandwidth: Vec<Segment>,
    /// The winner's seconds with each input a tenth less and more, the input that matters most first; empty without a winner.
    pub sensitivities: Vec<Sensitivity>,
}

/// What strategies may do to one component.
#[derive(Clone, Debug, Serialize)]
pub struct ComponentTouch {
    /// What is kept.
    pub kind: ComponentKind,
    /// How it is stored.
    pub format: &'static str,
    /// Its bytes.
    pub bytes: Bytes,
    /// Each method with what it may do.
    pub methods: Vec<MethodTouch>,
}

/// Whether one method may touch a component.
#[derive(Clone, Debug, Serialize)]
pub struct MethodTouch {
    /// The method.
    pub method: Method,
    /// Whether it applies.
    pub applies: bool,
    /// Why not.
    pub why: Option<&'static str>,
}

/// The name of the option that sends everything as it is.
pub const AS_IT_IS: &str = "none";

/// One option with its time.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Choice {
    /// The strategy's name, or `none`.
    pub name: String,
    /// Bytes that it touches.
    pub touched_bytes: Bytes,
    /// Bytes that go over the link.
    pub sent_bytes: f64,
    /// All bytes over those sent.
    pub whole_ratio: f64,
    /// T₀ or T.
    pub seconds: f64,
    /// What of it is encoding and decoding.
    pub codec_seconds: f64,
    /// B*: it pays below this bandwidth; absent for `none`, and where nothing may be touched.
    pub pays_below_bytes_per_second: Option<f64>,
    /// The slowest link that meets the longest time allowed; absent where none does or none is given.
    pub slo_bytes_per_second: Option<f64>,
    /// Why it may not be chosen.
    pub refused: Option<String>,
    /// Whether it may be but for the longest time allowed, which another bandwidth meets.
    #[serde(skip)]
    is_allowed_elsewhere: bool,
}

impl Strategy {
    /// Checks the figures.
    ///
    /// # Errors
    ///
    /// A ratio that does not shrink, a speed that is not positive, or a loss that is no number.
    pub fn check(&self) -> Result<()> {
        let name = &self.name;
        if !(self.ratio.is_finite() && self.ratio > 1.0) {
            let what =
                format!("{name} with a ratio of {} makes nothing smaller; give more than 1", self.ratio);
            return Err(Error::setting("strategy", what));
        }
        if !(self.codec_bytes_per_second.is_finite() && self.codec_bytes_per_second > 0.0) {
            let what =
                format!("{name} at {} B/s never ends; give a positive speed", self.codec_bytes_per_second);
            return Err(Error::setting("strategy", what));
        }
        match self.accuracy_loss_points {
            Some(loss) if !(loss.is_finite() && loss >= 0.0) => {
                Err(Error::setting("strategy", format!("{name}: {loss} is no loss in points")))
            }
            _ => Ok(()),
        }
    }

    /// B* = (1 − 1/CR)·S.
    pub fn pays_below(&self) -> f64 {
        (1.0 - 1.0 / self.ratio) * self.codec_bytes_per_second
    }

    /// 1 / (1/encode + 1/decode): every byte is encoded and decoded, one after the other.
    pub fn harmonic(encode: f64, decode: f64) -> f64 {
        1.0 / (1.0 / encode + 1.0 / decode)
    }
}

impl Transfer {
    fn check(&self) -> Result<()> {
        let rate = self.bytes_per_second;
        if !(rate.is_finite() && rate > 0.0) {
            return Err(Error::setting("bandwidth", format!("a rate of {rate} B/s moves nothing")));
        }
        let times = [("model_time", Some(self.model_seconds)), ("start", Some(self.start_seconds))];
        for (name, seconds) in times.into_iter().chain([("slo", self.slo_seconds)]) {
            if let Some(seconds) = seconds
                && !(seconds.is_finite() && seconds >= 0.0)
            {
                return Err(Error::setting(name, format!("{seconds} s is no time")));
            }
        }
        match self.accuracy_floor_points {
            Some(points) if !(points.is_finite() && points >= 0.0) => {
                Err(Error::setting("loss", format!("{points} is no loss in points; give 0 or more")))
            }
            _ => Ok(()),
        }
    }
}

/// Compares strategies for the state of one request of `context` tokens.
///
/// # Errors
///
/// A link without bandwidth, a strategy that makes nothing smaller, a time that is none, or an overflow.
pub fn compress(
    state: &StateModel,
    context: Tokens,
    transfer: &Transfer,
    strategies: &[Strategy],
) -> Result<CompressionPlan> {
    transfer.check()?;
    for strategy in strategies {
        strategy.check()?;
    }
    let components = components(state, context)?;
    let all = Bytes::total(components.iter().map(|component| component.bytes))?;
    let mut options = vec![option(all, Bytes::ZERO, transfer, None)];
    for strategy in strategies {
        let touched = components
            .iter()
            .filter(|component| {
                component.methods.iter().any(|one| one.method == strategy.method && one.applies)
            })
            .map(|component| component.bytes);
        options.push(option(all, Bytes::total(touched)?, transfer, Some(strategy)));
    }
    let allowed = || options.iter().filter(|option| option.refused.is_none());
    let winner = allowed().min_by(|a, b| a.seconds.total_cmp(&b.seconds));
    let strategy = winner.and_then(|winner| strategies.iter().find(|one| one.name == winner.name));
    let sensitivities =
        winner.map_or_else(Vec::new, |winner| sensitivities_of(winner, strategy, transfer, all));
    let winner = winner.map(|option| option.name.clone());
    let by_bandwidth = segments(&options, transfer);
    Ok(CompressionPlan {
        context_tokens: context,
        transfer_bytes: all,
        components,
        options,
        winner,
        by_bandwidth,
        sensitivities,
    })
}

fn sensitivities_of(
    winner: &Choice,
    strategy: Option<&Strategy>,
    transfer: &Transfer,
    all: Bytes,
) -> Vec<Sensitivity> {
    let mut inputs = vec![
        ("bytes", all.get() as f64),
        ("bandwidth", transfer.bytes_per_second),
        ("model time", transfer.model_seconds),
        ("start", transfer.start_seconds),
    ];
    if let Some(strategy) = strategy {
        inputs.extend([("ratio", strategy.ratio), ("codec speed", strategy.codec_bytes_per_second)]);
    }
    let touched_share =
        if all == Bytes::ZERO { 0.0 } else { winner.touched_bytes.get() as f64 / all.get() as f64 };
    sensitivities(&inputs, |of| {
        let (&[bytes, bandwidth, model, start], codec) = of.split_first_chunk()?;
        let (ratio, coding) = match codec {
            [ratio, speed] => (*ratio, bytes * touched_share / speed),
            _ => (1.0, 0.0),
        };
        let sent = bytes * (1.0 - touched_share) + bytes * touched_share / ratio;
        Some(model + start + coding + sent / bandwidth)
    })
}

fn components(state: &StateModel, context: Tokens) -> Result<Vec<ComponentTouch>> {
    let mut components = Vec::with_capacity(state.parts().len());
    for part in state.parts() {
        let kept = &part.component;
        let methods = Method::ALL.map(|method| match touch(method, kept.kind, kept.format) {
            Touch::Applies => MethodTouch { method, applies: true, why: None },
            Touch::Leaves(why) => MethodTouch { method, applies: false, why: Some(why) },
        });
        components.push(ComponentTouch {
            kind: kept.kind,
            format: kept.format,
            bytes: kept.transfer_bytes(context)?.times(part.layers)?,
            methods: methods.into(),
        });
    }
    Ok(components)
}

fn option(all: Bytes, touched: Bytes, transfer: &Transfer, strategy: Option<&Strategy>) -> Choice {
    let (touched_bytes, all_bytes) = (touched.get() as f64, all.get() as f64);
    let (codec_seconds, sent_bytes) = match strategy {
        None => (0.0, all_bytes),
        Some(strategy) => (
            touched_bytes / strategy.codec_bytes_per_second,
            all_bytes - touched_bytes + touched_bytes / strategy.ratio,
        ),
    };
    let constant = transfer.model_seconds + transfer.start_seconds + codec_seconds;
    let seconds = constant + sent_bytes / transfer.bytes_per_second;
    let works = touched > Bytes::ZERO;
    let refused = match strategy {
        Some(_) if !works => Some("nothing of this state may be touched by it".to_owned()),
        Some(strategy) => refusal(strategy, transfer),
        None => None,
    };
    let late = transfer.slo_seconds.filter(|slo| seconds > *slo);
    Choice {
        name: strategy.map_or_else(|| AS_IT_IS.to_owned(), |strategy| strategy.name.clone()),
        touched_bytes: touched,
        sent_bytes,
        whole_ratio: if sent_bytes > 0.0 { all_bytes / sent_bytes } else { 1.0 },
        seconds,
        codec_seconds,
        pays_below_bytes_per_second: strategy.filter(|_| works).map(Strategy::pays_below),
        slo_bytes_per_second: transfer
            .slo_seconds
            .map(|slo| slo - constant)
            .filter(|left| *left > 0.0)
            .map(|left| sent_bytes / left),
        is_allowed_elsewhere: refused.is_none(),
        refused: refused.or_else(|| late.map(|slo| format!("takes longer than the {slo} s allowed"))),
    }
}

/// `1 point`, `2.5 points`
fn points(loss: f64) -> String {
    let noun = if (loss - 1.0).abs() < f64::EPSILON { "point" } else { "points" };
    format!("{loss} {noun}")
}

fn refusal(strategy: &Strategy, transfer: &Transfer) -> Option<String> {
    let floor = transfer.accuracy_floor_points?;
    match strategy.accuracy_loss_points {
        None => Some("its loss of accuracy is not known".to_owned()),
        Some(loss) if loss > floor => Some(format!("loses {}, more than the {floor} allowed", points(loss))),
        Some(_) => None,
    }
}
