//! What some GPUs leave for one version's state beside its weights, and the context that fills it.

use std::fmt;
use std::str::FromStr;

use super::capacity::Spread;
use super::memory::Memory;
use super::typed::{holders, memory_question};
use super::{Given, Subject};
use crate::cost::WeightChoice;
use crate::engine::{EngineKind, Query, Room, ranks};
use crate::hardware::{Gpu, find_gpu};
use crate::settings::Settings;
use crate::size::StateModel;
use crate::{Bytes, Error, LargestContext, Result, parse_count};

/// Some equal GPUs that hold a model: `h200:8:fp8` in links, `8 × H200 SXM, fp8 weights` on screen.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Gpus {
    /// Which.
    pub gpu: &'static Gpu,
    /// How many, 1 to [`Gpus::MOST`].
    pub count: u64,
    /// The types of the weights; as each config says where absent.
    pub weights: Option<WeightChoice>,
}

/// What GPUs leave for the state of one version.
#[derive(Clone, Debug, PartialEq)]
pub struct Left {
    /// The memory of one of them.
    pub memory: Memory,
    /// How many share each request.
    pub ranks: u64,
    /// The longest context of the batch that fits.
    pub longest: LargestContext,
    /// The height at which the batch's curve reaches what is left. Beside an engine curves are of one rank, and it is what
    /// one GPU leaves. Logical curves are of the whole model, and of several ranks it is what they hold together: as many
    /// times that where they divide the state, less where each of them holds a part whole. None where nothing is left, and
    /// where ranks together hold any context.
    pub level: Option<Bytes>,
}

impl Gpus {
    /// More than any server has.
    pub const MOST: u64 = 1024;

    /// By a GPU's id, their number, and the type of the weights.
    ///
    /// # Errors
    ///
    /// An unknown id, or a number outside 1 to [`Self::MOST`].
    pub fn new(id: &str, count: u64, weights: Option<WeightChoice>) -> Result<Self> {
        if !(1..=Self::MOST).contains(&count) {
            return Err(Error::setting("count", format!("{count} is outside 1 to {}", Self::MOST)));
        }
        Ok(Self { gpu: find_gpu(id)?, count, weights })
    }

    /// An engine's settings on `count` of a GPU: requests are divided among all of them, unless ranks are given (llama.cpp has
    /// no such ranks), and engines that choose by the GPU have this one, unless another is given.
    pub fn shared(gpu: &Gpu, count: u64, engine: EngineKind, settings: &Settings) -> Settings {
        let gives_ranks = settings.tp.is_some() || settings.pp.is_some() || settings.dcp.is_some();
        let all = !gives_ranks && count > 1 && engine != EngineKind::LlamaCpp;
        let chooses = settings.gpu.is_none() && matches!(engine, EngineKind::Vllm | EngineKind::SgLang);
        Settings {
            tp: if all { Some(count) } else { settings.tp },
            gpu: if chooses { Some(gpu.name.clone()) } else { settings.gpu.clone() },
            ..settings.clone()
        }
    }

    /// `h200:8`, `h200:8:fp8`
    pub fn key(&self) -> String {
        let weights = self.weights.map_or(String::new(), |weights| format!(":{}", weights.name()));
        format!("{}:{}{weights}", self.gpu.id, self.count)
    }
}

impl fmt::Display for Gpus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} × {}", self.count, self.gpu.name)?;
        self.weights.map_or(Ok(()), |weights| write!(f, ", {} weights", weights.name()))
    }
}

impl FromStr for Gpus {
    type Err = Error;

    /// Reads [`Gpus::key`]; without a number it is one GPU.
    fn from_str(key: &str) -> Result<Self> {
        let mut parts = key.split(':');
        let id = parts.next().unwrap_or_default();
        let count = parse_count(parts.next().unwrap_or("1")).map_err(|what| Error::setting("count", what))?;
        Self::new(id, count, parts.next().map(str::parse).transpose()?)
    }
}

/// What GPUs leave beside the weights, as `kvscope plan capacity` fills them where nothing else is given: 90 % of the memory,
/// activations of a prefill of 8,192 tokens, 2 GiB of graphs. The query has engine, settings and batch; its context does not
/// matter, and its settings are those of [`Gpus::shared`] beside an engine.
///
/// # Errors
///
/// GPUs that the ranks do not divide, settings that do not fit the model, or weights of unknown size. A model that does not
/// fit is an answer.
pub fn left(subject: &Subject<'_>, state: &StateModel, query: &Query<'_>, gpus: Gpus) -> Result<Left> {
    let kind = query.engine.kind();
    let settings = Gpus::shared(gpus.gpu, gpus.count, kind, query.settings);
    let ranks = ranks(kind, &settings);
    let weights = gpus.weights.map(|weights| weights.name().to_owned());
    let given = Given::of([("weight_dtype", weights)]);
    let holders = holders(kind, &settings, gpus.count);
    let question = memory_question(subject, (gpus.gpu, gpus.count), holders, &given)?;
    let spread = Spread::of(kind, &question, subject.architecture);
    let memory = question.fill(subject)?;
    let room = memory.state_bytes.map(|bytes| spread.held(bytes)).transpose()?;
    let Some(room) = room else {
        return Ok(Left { memory, ranks, longest: LargestContext::Nothing, level: None });
    };
    let query = Query { settings: &settings, ..query.clone() };
    let batch = query.batch;
    let longest = Room { query, state, memory: room }.largest_context()?;
    let level = match longest {
        _ if kind != EngineKind::Logical || ranks == 1 => Some(room),
        LargestContext::Budget { tokens } => Some(state.resident(tokens, batch)?),
        LargestContext::Nothing | LargestContext::Limit { .. } => None,
    };
    Ok(Left { memory, ranks, longest, level })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::Engine;
    use crate::{Tokens, find_entry};

    fn asked(model: &str, gpus: &str, engine: &str, settings: &Settings) -> Result<Left> {
        let entry = find_entry(model)?;
        let architecture = entry.architecture()?;
        let state = StateModel::new(&architecture, settings)?;
        let engine: Engine = engine.parse()?;
        let query = Query { architecture: &architecture, engine, context: None, batch: 1, settings };
        left(&Subject::of(entry, &architecture), &state, &query, gpus.parse()?)
    }

    /// Llama 3.1 8B: 8,030,261,248 published parameters of two bytes, less norms and biases, which are not counted. Of
    /// 141 GB × 90 % there go the weights, 8,192 × 2 × (2 × 4,096 + 2 × 14,336) B of activations and 2 GiB of graphs. A token
    /// has 32 × 2 × 8 × 128 × 2 B = 131,072 B.
    #[test]
    fn one_gpu_leaves_what_its_weights_do_not_take_and_the_context_is_the_growths_own() {
        let left = asked("llama-3.1-8b", "h200", "logical", &Settings::default()).unwrap();
        let weights = left.memory.weight_bytes.get();
        assert!((2 * 8_029_000_000..=2 * 8_030_261_248).contains(&weights), "{weights}");
        let activations = 8192 * 2 * (2 * 4096 + 2 * 14_336);
        let state = 141_000_000_000 / 10 * 9 - weights - activations - (2 << 30);
        assert_eq!((left.level, left.ranks), (Some(Bytes::new(state)), 1));
        assert_eq!(left.longest, LargestContext::Budget { tokens: Tokens::new(state / 131_072) });
    }

    /// Of 8 ranks each has one of the 8 K/V heads, and together they hold 8 times what one leaves; of an MLA latent each has
    /// all, and together they hold no more than one of them: 61 layers × 576 values × 2 B a token.
    #[test]
    fn ranks_hold_together_what_they_divide_and_once_what_each_holds_whole() {
        let room = |left: &Left| left.memory.state_bytes.unwrap().get();
        let heads = asked("llama-3.1-70b", "h200:8", "logical", &Settings::default()).unwrap();
        let a_token = 80 * 2 * 8 * 128 * 2;
        assert_eq!(
            heads.longest,
            LargestContext::Budget { tokens: Tokens::new(room(&heads) / (a_token / 8)) }
        );
        assert_eq!(heads.level, Some(Bytes::new(room(&heads) / (a_token / 8) * a_token)));

        let latent = asked("deepseek-v3", "h200:8:fp8", "logical", &Settings::default()).unwrap();
        let a_token = 61 * 576 * 2;
        assert_eq!(latent.longest, LargestContext::Budget { tokens: Tokens::new(room(&latent) / a_token) });
        assert_eq!(latent.level, Some(Bytes::new(room(&latent) / a_token * a_token)));
    }

    /// Beside an engine the curve is of one rank, so the level is what one GPU leaves.
    #[test]
    fn beside_an_engine_the_level_is_one_gpus() {
        let left = asked("llama-3.1-70b", "h200:8", "vllm", &Settings::default()).unwrap();
        assert_eq!((left.ranks, left.level), (8, left.memory.state_bytes));
        let two = Settings { tp: Some(2), ..Settings::default() };
        assert_eq!(asked("llama-3.1-70b", "h200:8", "vllm", &two).unwrap().ranks, 2);
    }

    /// Kimi K2 has a million million parameters of a byte at least: one GPU of 141 GB does not hold them.
    #[test]
    fn a_model_that_does_not_fit_has_no_level_and_says_why() {
        let left = asked("kimi-k2", "h200", "logical", &Settings::default()).unwrap();
        assert_eq!((left.level, left.longest), (None, LargestContext::Nothing));
        assert!(left.memory.does_not_fit.unwrap().starts_with("weights alone need"));
    }

    #[test]
    fn gpus_are_read_as_links_have_them() {
        let gpus: Gpus = "H200:8".parse().unwrap();
        assert_eq!((gpus.key().as_str(), gpus.to_string().as_str()), ("h200:8", "8 × H200 SXM"));
        assert_eq!("h200".parse::<Gpus>().unwrap().count, 1);
        let fp8: Gpus = "h200:8:fp8".parse().unwrap();
        assert_eq!(
            (fp8.key().as_str(), fp8.to_string().as_str()),
            ("h200:8:fp8", "8 × H200 SXM, fp8 weights")
        );
        for (key, what) in [
            ("h300:8", "gpu: "),
            ("h200:0", "count: 0 is outside"),
            ("h200:x", "count: "),
            ("h200:8:fp7", "weight-dtype: "),
        ] {
            let error = key.parse::<Gpus>().unwrap_err().to_string();
            assert!(error.starts_with(what), "{error}");
        }
    }
}
