//! The finding as a sentence, made from the series at the cursor.

use kvscope_sizing::{ByteKind, Bytes, Tokens, UnitSystem};

use crate::label;

/// What the headline is made from.
#[derive(Clone, Debug)]
pub struct HeadlineInput<'a> {
    /// The cursor's context.
    pub context: Tokens,
    /// Requests at that context together.
    pub batch: u64,
    /// Units of the figures.
    pub units: UnitSystem,
    /// Which bytes they are.
    pub bytes: ByteKind,
    /// Each model's name and its bytes for the whole batch: logical ones, or those that the engine reserves.
    pub values: &'a [(&'a str, Bytes)],
    /// The engine whose bytes they are; none for logical ones.
    pub reserved: Option<Reserved<'a>>,
}

/// An engine whose reserved bytes a headline speaks of.
#[derive(Clone, Copy, Debug)]
pub struct Reserved<'a> {
    /// The engine.
    pub by: &'a str,
    /// Ranks that share one copy of the model; the figures are of one of them.
    pub ranks: u64,
    /// The models that the engine refuses.
    pub refused: &'a [&'a str],
}

/// The finding: who keeps most, who keeps least, by how much.
///
/// ```
/// # use kvscope_charts::headline::{HeadlineInput, headline};
/// # use kvscope_sizing::{ByteKind, Bytes, Tokens, UnitSystem};
/// let values = [("MiniMax-M2.7", Bytes::new(25_395_200_000)), ("Qwen3.5-397B-A17B", Bytes::new(3_264_061_440))];
/// let input = HeadlineInput {
///     context: Tokens::new(100_000), batch: 1, units: UnitSystem::Decimal, bytes: ByteKind::Resident, values: &values,
///     reserved: None,
/// };
/// assert_eq!(
///     headline(&input),
///     "At 100,000 tokens MiniMax-M2.7 keeps 25.4 GB for one request. \
///      Qwen3.5-397B-A17B keeps 3.26 GB, 7.8 times less."
/// );
/// ```
pub fn headline(input: &HeadlineInput) -> String {
    let place = format!("At {}", label::context(input.context));
    match (input.values, input.reserved) {
        ([], None | Some(Reserved { refused: [], .. })) => "No model is chosen.".to_owned(),
        ([], Some(reserved)) => format!("{place} {} refuses {}.", reserved.by, names(reserved.refused)),
        (_, None) => logical(input, &place),
        (_, Some(reserved)) => {
            let said = held(input, &place, reserved);
            match reserved.refused {
                [] => said,
                refused => format!("{said} It refuses {}.", names(refused)),
            }
        }
    }
}

/// `At 100,000 tokens vllm reserves 25.4 GB for one request of MiniMax-M2.7 and 3.35 GB for Qwen3.5, 7.6 times less.`
fn held(input: &HeadlineInput, place: &str, reserved: Reserved<'_>) -> String {
    let [top, bottom] = ends(input.values);
    let rank = label::one_rank(" on ", reserved.ranks);
    let requests = requests(input.batch);
    let said = format!(
        "{place} {} reserves {}{}{rank} for {requests} of {}",
        reserved.by,
        top.bytes.display(input.units),
        top.each(),
        top.names(),
    );
    if top.bytes == bottom.bytes {
        return format!("{said}.");
    }
    format!(
        "{said} and {}{} for {}{}{}.",
        bottom.bytes.display(input.units),
        bottom.each(),
        bottom.names(),
        difference(top.bytes, bottom.bytes),
        least_of(input.values.len()),
    )
}

fn logical(input: &HeadlineInput, place: &str) -> String {
    let [top, bottom] = ends(input.values);
    let requests = requests(input.batch);
    let amount = top.bytes.display(input.units);
    let (does, all_do, step) = match input.bytes {
        ByteKind::Resident => ("keeps", "keep", ""),
        ByteKind::Read => ("reads", "read", " a step"),
        ByteKind::Persisted => ("persists", "persist", ""),
        ByteKind::Transferred => ("transfers", "transfer", ""),
    };
    if top.bytes == bottom.bytes {
        return match input.values.len() {
            1 => format!("{place} {} {does} {amount}{step} for {requests}.", top.names()),
            2 => format!("{place} {} {all_do} the same {amount}{step} for {requests}.", top.names()),
            count => format!("{place} all {count} models {all_do} the same {amount}{step} for {requests}."),
        };
    }
    let verb = |holders: &Holders<'_>| if holders.names.len() == 1 { does } else { all_do };
    format!(
        "{place} {} {} {amount}{}{step} for {requests}. {} {} {}{}{}{}.",
        top.names(),
        verb(&top),
        top.each(),
        bottom.names(),
        verb(&bottom),
        bottom.bytes.display(input.units),
        bottom.each(),
        difference(top.bytes, bottom.bytes),
        least_of(input.values.len()),
    )
}

/// Who has most and who has least.
fn ends<'a>(values: &[(&'a str, Bytes)]) -> [Holders<'a>; 2] {
    let all = || values.iter().map(|(_, bytes)| *bytes);
    [all().max(), all().min()].map(|bytes| Holders::of(values, bytes.unwrap_or_default()))
}

fn requests(batch: u64) -> String {
    if batch == 1 { "one request".to_owned() } else { label::counted(batch, "request", "requests") }
}

/// Of two, the other one is the most anyway.
fn least_of(count: usize) -> String {
    if count > 2 { format!(", the least of {count}") } else { String::new() }
}

/// `, 7.8 times less`, `, 12 % less`; nothing to divide by leaves nothing to say.
fn difference(most: Bytes, least: Bytes) -> String {
    if least == Bytes::ZERO {
        return String::new();
    }
    let ratio = most.get() as f64 / least.get() as f64;
    if ratio >= 1.95 {
        return format!(", {} times less", label::two_figures(ratio));
    }
    let percent = (1.0 - 1.0 / ratio) * 100.0;
    if percent < 0.95 { ", less than 1 % below".to_owned() } else { format!(", {percent:.0} % less") }
}

/// The models that share one figure.
struct Holders<'a> {
    bytes: Bytes,
    names: Vec<&'a str>,
}

impl<'a> Holders<'a> {
    fn of(values: &[(&'a str, Bytes)], bytes: Bytes) -> Self {
        let names = values.iter().filter(|(_, other)| *other == bytes).map(|(name, _)| *name).collect();
        Self { bytes, names }
    }

    fn names(&self) -> String {
        names(&self.names)
    }

    fn each(&self) -> &'static str {
        if self.names.len() == 1 { "" } else { " each" }
    }
}

/// `A`, `A and B`, `A, B and C`, `A and 3 others`.
fn names(all: &[&str]) -> String {
    match all {
        [one] => (*one).to_owned(),
        [first, second] => format!("{first} and {second}"),
        [first, second, third] => format!("{first}, {second} and {third}"),
        [first, rest @ ..] => format!("{first} and {} others", rest.len()),
        [] => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(batch: u64, values: &[(&str, u64)]) -> String {
        let values: Vec<(&str, Bytes)> =
            values.iter().map(|(name, bytes)| (*name, Bytes::new(*bytes))).collect();
        headline(&HeadlineInput {
            context: Tokens::new(100_000),
            batch,
            units: UnitSystem::Decimal,
            bytes: ByteKind::Resident,
            values: &values,
            reserved: None,
        })
    }

    /// It speaks of the engine's bytes alone: who has most and least of them, and who is refused.
    #[test]
    fn reserved_bytes_are_an_engines() {
        let said = |ranks: u64, values: &[(&str, u64)], refused: &[&str]| {
            let values: Vec<(&str, Bytes)> =
                values.iter().map(|(name, bytes)| (*name, Bytes::new(*bytes))).collect();
            headline(&HeadlineInput {
                context: Tokens::new(100_000),
                batch: 1,
                units: UnitSystem::Decimal,
                bytes: ByteKind::Resident,
                values: &values,
                reserved: Some(Reserved { by: "vllm", ranks, refused }),
            })
        };
        let all = [("A", 4_100), ("B", 5_000), ("C", 1_000)];
        assert_eq!(
            said(1, &all, &[]),
            "At 100,000 tokens vllm reserves 5.00 kB for one request of B and 1.00 kB for C, 5.0 times less, the least of 3."
        );
        assert_eq!(
            said(8, &all[..2], &["C"]),
            "At 100,000 tokens vllm reserves 5.00 kB on one rank of 8 for one request of B and 4.10 kB for A, 18 % less. \
             It refuses C."
        );
        assert_eq!(
            said(1, &all[..1], &["B", "C"]),
            "At 100,000 tokens vllm reserves 4.10 kB for one request of A. It refuses B and C."
        );
        assert_eq!(
            said(1, &[("A", 7_000), ("B", 7_000)], &[]),
            "At 100,000 tokens vllm reserves 7.00 kB each for one request of A and B."
        );
        assert_eq!(said(1, &[], &["A"]), "At 100,000 tokens vllm refuses A.");
        assert_eq!(said(1, &[], &[]), "No model is chosen.");
    }

    #[test]
    fn one_two_and_many() {
        assert_eq!(said(1, &[]), "No model is chosen.");
        assert_eq!(said(1, &[("A", 7_027_200_000)]), "At 100,000 tokens A keeps 7.03 GB for one request.");
        // 7,832,400,000 / 7,027,200,000 = 1.1146: the smaller is 10.3 % below.
        assert_eq!(
            said(1, &[("A", 7_027_200_000), ("B", 7_832_400_000)]),
            "At 100,000 tokens B keeps 7.83 GB for one request. A keeps 7.03 GB, 10 % less."
        );
        // 25,395,200,000 / 526,414,118 = 48.2.
        assert_eq!(
            said(1, &[("A", 526_414_118), ("B", 7_832_400_000), ("C", 25_395_200_000)]),
            "At 100,000 tokens C keeps 25.4 GB for one request. A keeps 526 MB, 48 times less, the least of 3."
        );
    }

    #[test]
    fn ties() {
        assert_eq!(
            said(1, &[("A", 1_000), ("B", 1_000)]),
            "At 100,000 tokens A and B keep the same 1.00 kB for one request."
        );
        assert_eq!(
            said(1, &[("A", 1_000), ("B", 1_000), ("C", 1_000)]),
            "At 100,000 tokens all 3 models keep the same 1.00 kB for one request."
        );
        assert_eq!(
            said(1, &[("A", 4_000), ("B", 4_000), ("C", 1_000), ("D", 1_000), ("E", 1_000), ("F", 1_000)]),
            "At 100,000 tokens A and B keep 4.00 kB each for one request. C and 3 others keep 1.00 kB each, \
             4.0 times less, the least of 6."
        );
    }

    #[test]
    fn other_bytes_have_verbs_of_their_own() {
        let said = |bytes: ByteKind, values: &[(&str, Bytes)]| {
            let units = UnitSystem::Decimal;
            headline(&HeadlineInput {
                context: Tokens::new(100_000),
                batch: 1,
                units,
                bytes,
                values,
                reserved: None,
            })
        };
        let [a, b] = [("A", Bytes::new(4_000)), ("B", Bytes::new(1_000))];
        assert_eq!(
            said(ByteKind::Read, &[a, b]),
            "At 100,000 tokens A reads 4.00 kB a step for one request. B reads 1.00 kB, 4.0 times less."
        );
        assert_eq!(said(ByteKind::Persisted, &[a]), "At 100,000 tokens A persists 4.00 kB for one request.");
        assert_eq!(
            said(ByteKind::Transferred, &[b, ("C", b.1)]),
            "At 100,000 tokens B and C transfer the same 1.00 kB for one request."
        );
    }

    #[test]
    fn batches_and_nothing() {
        assert_eq!(said(1_024, &[("A", 1_000)]), "At 100,000 tokens A keeps 1.00 kB for 1,024 requests.");
        assert_eq!(
            said(2, &[("A", 1_000), ("B", 0)]),
            "At 100,000 tokens A keeps 1.00 kB for 2 requests. B keeps 0 B."
        );
    }
}
