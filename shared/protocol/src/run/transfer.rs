//! Transfers between tiers: what was measured, the fits to a declared half of it, and how these did on the other half.

use kvscope_sizing::Bytes;
use kvscope_sizing::Tokens;
use kvscope_sizing::prediction::{FittedTime, Grade, LinkFit, LinkPoint};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Drop, SampleSummary, TierName, Verdict, WorstTransfer, quantile};

/// One measured transfer: blocks of state that go to a tier, come back, or both.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Transfer {
    /// Its place among the run's transfers, from 0.
    pub transfer: u32,
    /// What blocks are moved to and from.
    pub tier: TierName,
    /// What the tier's bytes lie in: `memory`, `memory (page cache)`, `device` or `memory of another process`.
    #[serde(skip_deserializing)]
    pub medium: &'static str,
    /// Which way they go.
    pub direction: Direction,
    /// Where the blocks lie.
    pub pattern: Pattern,
    /// Whether the fit is made from it; declared before anything is measured. The others judge the fit.
    pub fit_half: bool,
    /// How the tier moves blocks, with the reason where it is not the usual way; `null` where it was not reached.
    pub method: Option<String>,
    /// Bytes of one block; of the largest where there are several sizes.
    pub block_bytes: Bytes,
    /// How many blocks.
    pub blocks: u64,
    /// Bytes of all blocks together.
    pub bytes: Bytes,
    /// Whose state it is; `null` for random blocks.
    pub state: Option<StateMoved>,
    /// Computed and stored before a state is moved; `null` for random blocks.
    pub predicted: Option<PredictedTransfer>,
    /// What a fit to the declared half of the tier's points says of random blocks; no prediction.
    pub fitted: Option<FittedTransfer>,
    /// What came out.
    pub measured: Option<MeasuredTransfer>,
    /// Whether every restored page had the checksum that it was saved with; `null` where nothing was restored.
    pub correct: Option<bool>,
    /// `ok`, `unsteady`, `partial: …`, `skipped: …` or `failed: …` with the reason.
    pub status: String,
    /// What a reader of the figures has to know.
    pub warnings: Vec<String>,
}

/// Which way blocks go.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Direction {
    /// From memory to the tier.
    Save,
    /// From the tier to memory.
    Restore,
    /// Every other block each way.
    Mixed,
}

impl Direction {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Save, Self::Restore, Self::Mixed];

    /// The word in JSON and on screen.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Save => "save",
            Self::Restore => "restore",
            Self::Mixed => "mixed",
        }
    }
}

/// Where the blocks of one transfer lie, in memory and in the tier.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Pattern {
    /// One after another.
    Contiguous,
    /// In random places, in random order.
    Fragments,
}

impl Pattern {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Contiguous, Self::Fragments];

    /// The word in JSON and on screen.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Contiguous => "contiguous",
            Self::Fragments => "fragments",
        }
    }
}

/// Whose state was moved, and how it was laid out: block by block, each on whole pages of 4096 bytes.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct StateMoved {
    /// Catalogue id or path.
    pub model: String,
    /// Whose blocks they are, with the version whose rules were followed.
    pub engine: String,
    /// Tokens of the request.
    pub context: Tokens,
    /// Tokens of one block.
    pub block_tokens: Tokens,
    /// Dense bytes of the whole request.
    pub logical_bytes: Bytes,
    /// Blocks of the whole request; more than were moved where memory, disk or time asked for fewer.
    pub blocks_total: u64,
    /// The blocks that were moved, by size.
    pub parts: Vec<StatePart>,
    /// What whole pages add to the blocks that were moved.
    pub page_padding_bytes: Bytes,
}

/// Blocks of one size.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct StatePart {
    /// What they hold, in words.
    pub what: String,
    /// How many were moved.
    pub blocks: u64,
    /// Bytes of one, without what whole pages add.
    pub block_bytes: Bytes,
}

/// What was computed before a state was moved.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct PredictedTransfer {
    /// Bytes of its blocks in memory, whole pages included: what will be asked for.
    pub bytes: Bytes,
    /// The time, from α and β; `null` where no steady transfer gave them.
    pub seconds: Option<f64>,
    /// `fitted`: the constants were fitted to transfers of random blocks, none of which is this one.
    pub grade: Grade,
    /// The constants, with the residuals of the points that they were fitted to.
    pub link: Option<LinkFit>,
}

/// What a fit says of a transfer.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct FittedTransfer {
    /// The time of it.
    pub seconds: FittedTime,
    /// `fitted`, always.
    pub grade: Grade,
    /// The constants, with the residuals of the points that they were fitted to.
    pub link: LinkFit,
}

/// What came out of one transfer.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct MeasuredTransfer {
    /// Bytes asked of the system for the blocks in memory; `null` for random blocks, which lie in a larger memory.
    pub asked_bytes: Option<Bytes>,
    /// The time of one transfer.
    pub seconds: SampleSummary,
    /// Bytes over the median time.
    pub bytes_per_second: f64,
    /// Every sample that counts, in seconds.
    pub samples_seconds: Vec<f64>,
    /// Samples that do not count.
    pub drops: Vec<Drop>,
}

impl Transfer {
    /// A transfer as it is stored; an error says what is not one.
    pub fn read(stored: &Value) -> Result<Self, String> {
        let read = Self::deserialize(stored).map_err(|error| error.to_string())?;
        Ok(Self { medium: read.tier.medium(), ..read })
    }

    /// Whether the figures hold as they are: enough samples that vary little.
    pub fn is_steady(&self) -> bool {
        self.status == "ok"
    }

    /// (predicted − measured) / measured of a state, (fitted − measured) / measured of random blocks.
    pub fn time_error(&self) -> Option<f64> {
        let measured = self.measured.as_ref()?.seconds.median;
        let said = match &self.predicted {
            Some(predicted) => predicted.seconds?,
            None => self.fitted.as_ref()?.seconds.0,
        };
        (measured > 0.0).then_some(said / measured - 1.0)
    }

    /// What a fit sees of it.
    pub fn point(&self) -> Option<LinkPoint> {
        let measured_seconds = self.measured.as_ref()?.seconds.median;
        Some(LinkPoint { blocks: self.blocks, bytes: self.bytes, measured_seconds })
    }
}

/// Whether a stored transfer has no figure, or one of too few samples, for want of time alone: what a resumed run measures.
pub fn is_missing_transfer(stored: &Value) -> bool {
    stored.get("status").and_then(Value::as_str).is_some_and(|status| status.starts_with("partial"))
}

/// One verdict for each tier over random blocks, and one over states. Only those judge that no fit was made from; `worst`
/// names a case and is `null`.
pub fn transfer_verdicts(transfers: &[Transfer]) -> Vec<Verdict> {
    let mut verdicts = Vec::new();
    for (tier, of) in TierName::ALL.into_iter().flat_map(|tier| [(tier, Over::Blocks), (tier, Over::States)])
    {
        let mut own = transfers.iter().filter(|transfer| transfer.tier == tier && Over::of(transfer) == of);
        if own.clone().next().is_some() {
            verdicts.push(verdict_of(tier, of, &mut own));
        }
    }
    verdicts
}

/// What a verdict is over.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Over {
    Blocks,
    States,
}

impl Over {
    fn of(transfer: &Transfer) -> Self {
        if transfer.state.is_some() { Self::States } else { Self::Blocks }
    }
}

fn verdict_of(tier: TierName, of: Over, transfers: &mut dyn Iterator<Item = &Transfer>) -> Verdict {
    let unseen: Vec<&Transfer> = transfers
        .filter(|transfer| {
            transfer.measured.is_some() && transfer.correct != Some(false) && !transfer.fit_half
        })
        .collect();
    let judged: Vec<(&Transfer, f64)> = unseen
        .iter()
        .filter(|transfer| transfer.is_steady())
        .filter_map(|transfer| Some((*transfer, transfer.time_error()?)))
        .collect();
    let signed: Vec<f64> = judged.iter().map(|(_, error)| *error).collect();
    let absolute: Vec<f64> = signed.iter().map(|error| error.abs()).collect();
    let mut verdict = Verdict {
        of: match of {
            Over::Blocks => tier.word().to_owned(),
            Over::States => format!("{} states", tier.word()),
        },
        points: count(judged.len()),
        unsteady: count(unseen.iter().filter(|transfer| !transfer.is_steady()).count()),
        median_error: quantile(&absolute, 0.5),
        p90_error: quantile(&absolute, 0.9),
        bias: quantile(&signed, 0.5),
        worst: None,
        worst_transfer: None,
        intensity: None,
        bound: None,
        bound_share: None,
        fit: None,
        sentence: String::new(),
    };
    let worst = judged.iter().max_by(|a, b| a.1.abs().total_cmp(&b.1.abs()));
    verdict.worst_transfer =
        worst.map(|(transfer, error)| WorstTransfer { transfer: transfer.transfer, error: *error });
    verdict.sentence = sentence(&verdict, of, worst.copied());
    verdict
}

fn sentence(verdict: &Verdict, of: Over, worst: Option<(&Transfer, f64)>) -> String {
    let name = &verdict.of;
    let left_out = match verdict.unsteady {
        0 => String::new(),
        n => format!("; {n} unsteady or with too few samples left out"),
    };
    let (Some(median), Some(bias), Some((transfer, error))) = (verdict.median_error, verdict.bias, worst)
    else {
        return match of {
            Over::Blocks => format!("{name}: no steady transfer judges the fit{left_out}."),
            Over::States => format!("{name}: no steady transfer judges the prediction{left_out}."),
        };
    };
    let (what, said) = match of {
        Over::Blocks => ("transfers that the fits have not seen", "fitted"),
        Over::States => ("saves and restores, predicted from α and β,", "predicted"),
    };
    let side = match bias {
        bias if bias.abs() < 0.02 => "with no clear bias".to_owned(),
        bias if bias < 0.0 => format!("transfers are typically slower than {said}"),
        _ => format!("transfers are typically faster than {said}"),
    };
    let whose = match &transfer.state {
        Some(state) => format!("{} at {} tokens, ", state.model, state.context),
        None => String::new(),
    };
    format!(
        "{name}: over {} {what} the time is {:.1} % off in the median, {side}; the worst is \
         {:+.0} % at a {} of {whose}{} blocks of {} bytes ({}){left_out}.",
        verdict.points,
        median * 100.0,
        error * 100.0,
        transfer.direction.word(),
        transfer.blocks,
        transfer.block_bytes.get(),
        transfer.pattern.word(),
    )
}

fn count(n: usize) -> u32 {
    u32::try_from(n).unwrap_or(u32::MAX)
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    fn link() -> LinkFit {
        let point =
            |bytes, measured_seconds| LinkPoint { blocks: 1, bytes: Bytes::new(bytes), measured_seconds };
        LinkFit::of(&[point(1 << 20, 1.0), point(2 << 20, 2.0)]).unwrap()
    }

    /// Which transfers a fit has seen.
    #[derive(Clone, Copy, PartialEq)]
    pub(in crate::run) enum Half {
        Fitted,
        Judged,
    }

    pub(in crate::run) fn transfer(
        number: u32,
        fitted: f64,
        half: Half,
        measured: f64,
        status: &str,
    ) -> Transfer {
        let seconds = SampleSummary {
            median: measured,
            p05: measured,
            p95: measured,
            n: 10,
            cv: Some(0.01),
            uncertainty: None,
        };
        Transfer {
            transfer: number,
            tier: TierName::File,
            medium: TierName::File.medium(),
            direction: Direction::Restore,
            pattern: Pattern::Fragments,
            block_bytes: Bytes::new(4096),
            blocks: 256,
            bytes: Bytes::new(1 << 20),
            state: None,
            fit_half: half == Half::Fitted,
            method: None,
            predicted: None,
            fitted: Some(FittedTransfer { seconds: FittedTime(fitted), grade: Grade::Fitted, link: link() }),
            measured: Some(MeasuredTransfer {
                asked_bytes: None,
                seconds,
                bytes_per_second: 1_048_576.0 / measured,
                samples_seconds: vec![measured; 10],
                drops: Vec::new(),
            }),
            correct: Some(true),
            status: status.to_owned(),
            warnings: Vec::new(),
        }
    }

    #[test]
    fn only_steady_transfers_that_no_fit_has_seen_judge() {
        // 1.0 fitted against 1.25, 1.0 and 0.8: −0.2, 0 and +0.25; the used and the unsteady one do not count.
        let transfers = [
            transfer(0, 1.0, Half::Judged, 1.25, "ok"),
            transfer(1, 1.0, Half::Judged, 1.0, "ok"),
            transfer(2, 1.0, Half::Judged, 0.8, "ok"),
            transfer(3, 1.0, Half::Fitted, 9.0, "ok"),
            transfer(4, 1.0, Half::Judged, 9.0, "unsteady"),
        ];
        let verdicts = transfer_verdicts(&transfers);
        assert_eq!(verdicts.len(), 1);
        let verdict = &verdicts[0];
        assert_eq!((verdict.points, verdict.unsteady, verdict.of.as_str()), (3, 1, "file"));
        assert!((verdict.median_error.unwrap() - 0.2).abs() < 1e-12);
        // At place 0.9 × 2 = 1.8 of 0, 0.2, 0.25.
        assert!((verdict.p90_error.unwrap() - 0.24).abs() < 1e-12);
        assert!(verdict.bias.unwrap().abs() < 1e-12);
        let worst = verdict.worst_transfer.as_ref().unwrap();
        assert!(worst.transfer == 2 && (worst.error - 0.25).abs() < 1e-12, "{worst:?}");
        assert_eq!(
            verdict.sentence,
            "file: over 3 transfers that the fits have not seen the time is 20.0 % off in the median, with no clear bias; \
             the worst is +25 % at a restore of 256 blocks of 4096 bytes (fragments); 1 unsteady or with too few samples left out."
        );
    }

    #[test]
    fn nothing_that_judges_gives_null_and_says_so() {
        let verdict = &transfer_verdicts(&[transfer(0, 1.0, Half::Fitted, 1.0, "ok")])[0];
        assert_eq!((verdict.median_error, verdict.p90_error, verdict.bias), (None, None, None));
        assert_eq!(verdict.sentence, "file: no steady transfer judges the fit.");
    }

    /// A state that was predicted to take a second.
    pub(in crate::run) fn state(number: u32, measured: f64) -> Transfer {
        let mut state = transfer(number, 9.0, Half::Judged, measured, "ok");
        state.state = Some(StateMoved {
            model: "minimax-m2.7".to_owned(),
            engine: "vllm@0.33".to_owned(),
            context: Tokens::new(16_384),
            block_tokens: Tokens::new(16),
            logical_bytes: Bytes::new(1 << 20),
            blocks_total: 256,
            parts: Vec::new(),
            page_padding_bytes: Bytes::ZERO,
        });
        state.predicted = Some(PredictedTransfer {
            bytes: Bytes::new(1 << 20),
            seconds: Some(1.0),
            grade: Grade::Fitted,
            link: Some(link()),
        });
        state
    }

    #[test]
    fn states_have_a_verdict_of_their_own_over_predictions() {
        let verdicts = transfer_verdicts(&[transfer(0, 1.0, Half::Judged, 1.0, "ok"), state(1, 1.25)]);
        // 1 s predicted against 1.25 s measured: −20 %, and the fit of 9 s beside it is not looked at.
        assert_eq!((verdicts[0].of.as_str(), verdicts[1].of.as_str()), ("file", "file states"));
        assert_eq!((verdicts[0].points, verdicts[1].points), (1, 1));
        assert!((verdicts[1].bias.unwrap() + 0.2).abs() < 1e-12);
        assert_eq!(
            verdicts[1].sentence,
            "file states: over 1 saves and restores, predicted from α and β, the time is 20.0 % off in the median, transfers \
             are typically slower than predicted; the worst is -20 % at a restore of minimax-m2.7 at 16,384 tokens, 256 blocks \
             of 4096 bytes (fragments)."
        );
    }

    #[test]
    fn a_stored_transfer_is_read_as_it_was() {
        let one = transfer(3, 1.0, Half::Judged, 1.25, "ok");
        let mut stored = serde_json::to_value(&one).unwrap();
        assert_eq!(Transfer::read(&stored).unwrap(), one);
        assert!(!is_missing_transfer(&stored));
        stored["status"] = "partial: 2 samples".into();
        assert!(is_missing_transfer(&stored));
        stored["tier"] = "tape".into();
        assert!(Transfer::read(&stored).unwrap_err().contains("tape"));
    }

    #[test]
    fn names_in_json_are_the_words() {
        for tier in TierName::ALL {
            assert_eq!(serde_json::to_value(tier).unwrap(), tier.word());
        }
        let json = serde_json::to_value(transfer(0, 1.0, Half::Judged, 1.0, "ok")).unwrap();
        assert_eq!(
            (json["direction"].as_str(), json["pattern"].as_str()),
            (Some("restore"), Some("fragments"))
        );
        assert_eq!(json["fitted"]["grade"], "fitted");
    }
}
