//! The finding as a sentence, made from the series at the cursor.

use kvscope_sizing::{Bytes, Tokens, UnitSystem};

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
    /// Each model's name and its bytes for the whole batch.
    pub values: &'a [(&'a str, Bytes)],
    /// What an engine reserves for them, where one is asked.
    pub reserved: Option<Reserved<'a>>,
}

/// What an engine reserves, beside the figures of a headline.
#[derive(Clone, Copy, Debug)]
pub struct Reserved<'a> {
    /// The engine.
    pub by: &'a str,
    /// Ranks that share one copy of the model; all figures, logical ones too, are of one of them.
    pub ranks: u64,
    /// Bytes for the whole batch, one entry a model in order; none where the engine refuses it.
    pub values: &'a [Option<Bytes>],
}

/// The finding: who keeps most, who keeps least, by how much.
///
/// ```
/// # use kvscope_charts::headline::{HeadlineInput, headline};
/// # use kvscope_sizing::{Bytes, Tokens, UnitSystem};
/// let values = [("MiniMax-M2.7", Bytes::new(25_395_200_000)), ("Qwen3.5-397B-A17B", Bytes::new(3_264_061_440))];
/// let input = HeadlineInput {
///     context: Tokens::new(100_000), batch: 1, units: UnitSystem::Decimal, values: &values, reserved: None,
/// };
/// assert_eq!(
///     headline(&input),
///     "At 100,000 tokens MiniMax-M2.7 keeps 25.4 GB for one request. \
///      Qwen3.5-397B-A17B keeps 3.26 GB, 7.8 times less."
/// );
/// ```
pub fn headline(input: &HeadlineInput) -> String {
    let said = logical(input);
    let reserved = input.reserved.filter(|_| !input.values.is_empty());
    reserved.map_or_else(|| said.clone(), |reserved| format!("{said} {}", beside(input, reserved)))
}

/// `Reserved by vllm: MiniMax-M2.7 25.4 GB, Qwen3.5-397B-A17B 3.35 GB.` for those that keep most and least, and for those
/// that the engine's own order would name.
fn beside(input: &HeadlineInput, reserved: Reserved<'_>) -> String {
    let place = |bytes: Option<Bytes>| input.values.iter().position(|(_, other)| Some(*other) == bytes);
    let reserved_place =
        |bytes: Option<Bytes>| reserved.values.iter().position(|other| bytes.is_some() && *other == bytes);
    let (logical, kept) =
        (|| input.values.iter().map(|(_, bytes)| *bytes), || reserved.values.iter().flatten());
    let mut places: Vec<usize> = Vec::new();
    for found in [
        place(logical().max()),
        place(logical().min()),
        reserved_place(kept().max().copied()),
        reserved_place(kept().min().copied()),
    ] {
        places.extend(found.filter(|found| !places.contains(found)));
    }
    let shown = |place: &usize| {
        let name = input.values.get(*place).map_or("", |(name, _)| *name);
        match reserved.values.get(*place).copied().flatten() {
            Some(bytes) => format!("{name} {}", bytes.display(input.units)),
            None => format!("{name} refused"),
        }
    };
    let list: Vec<String> = places.iter().map(shown).collect();
    let rank = label::one_rank(", ", reserved.ranks);
    format!("Reserved by {}{rank}: {}.", reserved.by, list.join(", "))
}

fn logical(input: &HeadlineInput) -> String {
    let Some(most) = input.values.iter().map(|(_, bytes)| *bytes).max() else {
        return "No model is chosen.".to_owned();
    };
    let least = input.values.iter().map(|(_, bytes)| *bytes).min().unwrap_or(most);
    let place = format!("At {}", label::context(input.context));
    let requests = if input.batch == 1 {
        "for one request".to_owned()
    } else {
        format!("for {}", label::counted(input.batch, "request", "requests"))
    };
    let requests = requests + &label::one_rank(" on ", input.reserved.map_or(1, |reserved| reserved.ranks));
    let amount = most.display(input.units);
    let top = Holders::of(input.values, most);
    if most == least {
        return match input.values.len() {
            1 => format!("{place} {} keeps {amount} {requests}.", top.names()),
            2 => format!("{place} {} keep the same {amount} {requests}.", top.names()),
            count => format!("{place} all {count} models keep the same {amount} {requests}."),
        };
    }
    let bottom = Holders::of(input.values, least);
    let rank = match input.values.len() {
        0..=2 => String::new(),
        count => format!(", the least of {count}"),
    };
    format!(
        "{place} {} {amount}{} {requests}. {} {}{}{}{rank}.",
        top.keep(),
        top.each(),
        bottom.keep(),
        least.display(input.units),
        bottom.each(),
        difference(most, least),
    )
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
struct Holders<'a>(Vec<&'a str>);

impl<'a> Holders<'a> {
    fn of(values: &'a [(&'a str, Bytes)], bytes: Bytes) -> Self {
        Self(values.iter().filter(|(_, other)| *other == bytes).map(|(name, _)| *name).collect())
    }

    fn names(&self) -> String {
        match self.0.as_slice() {
            [one] => (*one).to_owned(),
            [first, second] => format!("{first} and {second}"),
            [first, second, third] => format!("{first}, {second} and {third}"),
            [first, rest @ ..] => format!("{first} and {} others", rest.len()),
            [] => String::new(),
        }
    }

    fn keep(&self) -> String {
        format!("{} {}", self.names(), if self.0.len() == 1 { "keeps" } else { "keep" })
    }

    fn each(&self) -> &'static str {
        if self.0.len() == 1 { "" } else { " each" }
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
            values: &values,
            reserved: None,
        })
    }

    /// An engine may turn the order round, and refuse a model.
    #[test]
    fn reserved_figures_stand_beside_the_logical_ones() {
        let values = [("A", Bytes::new(4_000)), ("B", Bytes::new(2_000)), ("C", Bytes::new(1_000))];
        let said = |ranks: u64, reserved: &[Option<u64>]| {
            let reserved: Vec<_> = reserved.iter().map(|bytes| bytes.map(Bytes::new)).collect();
            headline(&HeadlineInput {
                context: Tokens::new(100_000),
                batch: 1,
                units: UnitSystem::Decimal,
                values: &values,
                reserved: Some(Reserved { by: "vllm", ranks, values: &reserved }),
            })
        };
        let logical = "At 100,000 tokens A keeps 4.00 kB for one request. C keeps 1.00 kB, 4.0 times less, the least of 3.";
        assert_eq!(
            said(1, &[Some(4_100), Some(2_000), Some(1_000)]),
            format!("{logical} Reserved by vllm: A 4.10 kB, C 1.00 kB.")
        );
        assert_eq!(
            said(1, &[Some(4_100), Some(5_000), None]),
            format!("{logical} Reserved by vllm: A 4.10 kB, C refused, B 5.00 kB.")
        );
        assert_eq!(
            said(1, &[None, None, None]),
            format!("{logical} Reserved by vllm: A refused, C refused.")
        );
        let of_a_rank = logical.replace("request.", "request on one rank of 8.");
        assert_eq!(
            said(8, &[Some(4_100), Some(2_000), Some(1_000)]),
            format!("{of_a_rank} Reserved by vllm, one rank of 8: A 4.10 kB, C 1.00 kB.")
        );
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
    fn batches_and_nothing() {
        assert_eq!(said(1_024, &[("A", 1_000)]), "At 100,000 tokens A keeps 1.00 kB for 1,024 requests.");
        assert_eq!(
            said(2, &[("A", 1_000), ("B", 0)]),
            "At 100,000 tokens A keeps 1.00 kB for 2 requests. B keeps 0 B."
        );
    }
}
