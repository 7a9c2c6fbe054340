//! What a plan is asked, as it was typed: texts by the names of the options, which the command line, the API and links share.

use std::str::FromStr;

use super::Mix;
use crate::architecture::Architecture;
use crate::cost::{Operand, Types, WeightChoice};
use crate::{Bytes, Error, Result, Tokens, parse_count};

/// Texts by the names of options, sorted by them. What is not there has its usual value.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Given(Vec<(String, String)>);

impl Given {
    /// The options that have a text.
    pub fn of<'t>(pairs: impl IntoIterator<Item = (&'t str, Option<String>)>) -> Self {
        let mut given = Self::default();
        for (name, text) in pairs {
            given.set(name, text.as_deref().unwrap_or_default());
        }
        given
    }

    /// Gives an option; an empty text takes it back.
    pub fn set(&mut self, name: &str, text: &str) {
        let text = text.trim();
        self.0.retain(|(known, _)| known != name);
        if !text.is_empty() {
            let place = self.0.partition_point(|(known, _)| known.as_str() < name);
            self.0.insert(place, (name.to_owned(), text.to_owned()));
        }
    }

    /// Every option that was given, by name.
    pub fn pairs(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, text)| (name.as_str(), text.as_str()))
    }

    /// What was typed.
    pub fn text(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(known, _)| known == name).map(|(_, text)| text.as_str())
    }

    /// Several values between separators; none where nothing was typed.
    pub fn list(&self, name: &str, separator: char) -> Vec<&str> {
        let parts = self.text(name).unwrap_or_default().split(separator).map(str::trim);
        parts.filter(|part| !part.is_empty()).collect()
    }

    /// A whole number: `8`, `1K`.
    pub(super) fn count(&self, name: &str, usual: u64) -> Result<u64> {
        self.some_count(name).map(|count| count.unwrap_or(usual))
    }

    pub(super) fn some_count(&self, name: &str) -> Result<Option<u64>> {
        self.read(name, |text| parse_count(text).map_err(|what| Error::setting(name, what)))
    }

    pub(super) fn some_tokens(&self, name: &str) -> Result<Option<Tokens>> {
        let beyond = |count: u64| count > Tokens::MAX.get();
        match self.some_count(name)? {
            Some(count) if beyond(count) => {
                Err(Error::setting(name, format!("{count} is more than any context")))
            }
            count => Ok(count.map(Tokens::new)),
        }
    }

    pub(super) fn some_bytes(&self, name: &str) -> Result<Option<Bytes>> {
        self.read(name, |text| Bytes::given(text).map_err(|error| Error::setting(name, error.what())))
    }

    pub(super) fn some_number(&self, name: &str) -> Result<Option<f64>> {
        self.read(name, |text| number(name, text))
    }

    pub(super) fn some_seconds(&self, name: &str) -> Result<Option<f64>> {
        self.read(name, |text| seconds(name, text))
    }

    /// Types of what the formats of state do not say: the model's own where they are not given.
    ///
    /// # Errors
    ///
    /// No type of operands.
    pub fn types(&self, architecture: &Architecture) -> Result<Types> {
        let read = |name: &str| {
            self.read(name, |text| {
                Operand::from_str(text).map_err(|error| Error::setting(name.replace('_', "-"), error.what()))
            })
        };
        let mut types = Types::of(architecture);
        if let Some(choice) = self.read("weight_dtype", WeightChoice::from_str)? {
            types = types.chosen(choice, architecture)?;
        }
        if let Some(experts) = read("expert_dtype")? {
            types = types.with_experts(experts);
        }
        if let Some(core) = read("core_dtype")? {
            types.core = core;
        }
        Ok(types)
    }

    fn read<T>(&self, name: &str, read: impl FnOnce(&str) -> Result<T>) -> Result<Option<T>> {
        self.text(name).map(read).transpose()
    }
}

/// Bytes a second: `50GB/s`, `26.5 GiB/s`, or bits: `100Gbps`.
///
/// # Errors
///
/// No rate, or one that moves nothing.
pub fn bytes_per_second(name: &str, text: &str) -> Result<f64> {
    let compact: String = text.chars().filter(|c| !c.is_whitespace()).collect();
    let wrong = || {
        Error::setting(
            name,
            format!(
                "{text:?} is no rate; write 50GB/s (10^9 bytes a second) or 100Gbps (10^9 bits a second)"
            ),
        )
    };
    let rate = if let Some(bits) = compact.strip_suffix("bps").or_else(|| compact.strip_suffix("bit/s")) {
        parse_count(bits).map_err(|_| wrong())? as f64 / 8.0
    } else {
        let bytes = compact.strip_suffix("/s").ok_or_else(wrong)?;
        bytes.parse::<Bytes>().map_err(|_| wrong())?.get() as f64
    };
    if rate > 0.0 { Ok(rate) } else { Err(Error::setting(name, "a rate of 0 B/s moves nothing")) }
}

/// Seconds: `15us`, `1.5 ms`, `2s`, `1m 30s`.
///
/// # Errors
///
/// No number, or none of these units behind it.
pub fn seconds(name: &str, text: &str) -> Result<f64> {
    let wrong = || Error::setting(name, format!("{text:?} is no time; write 15us, 1ms or 2s"));
    let mut rest = text.trim();
    let mut total = 0.0;
    if rest.is_empty() {
        return Err(wrong());
    }
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.').ok_or_else(wrong)?;
        let (number, behind) = rest.split_at(digits);
        let behind = behind.trim_start();
        let unit = behind.find(|c: char| !c.is_alphabetic()).unwrap_or(behind.len());
        let (unit, after) = behind.split_at(unit);
        let size = match unit {
            "ns" => 1e-9,
            "us" | "µs" | "μs" => 1e-6,
            "ms" => 1e-3,
            "s" | "sec" | "second" | "seconds" => 1.0,
            "m" | "min" | "minute" | "minutes" => 60.0,
            "h" | "hour" | "hours" => 3600.0,
            _ => return Err(wrong()),
        };
        total += number.parse::<f64>().map_err(|_| wrong())? * size;
        rest = after.trim_start();
    }
    time(name, total)
}

/// Seconds that nobody waits.
const MOST_SECONDS: f64 = 1e12;

/// A time that was given in seconds, or nothing.
pub(super) fn time(name: &str, seconds: f64) -> Result<f64> {
    if (0.0..=MOST_SECONDS).contains(&seconds) {
        return Ok(seconds);
    }
    let what =
        if seconds < 0.0 { "below 0 is no time; give 0 or more" } else { "nobody waits as long; give less" };
    Err(Error::setting(name, what))
}

/// A plain number.
///
/// # Errors
///
/// No number, or none that is finite.
pub fn number(name: &str, text: &str) -> Result<f64> {
    let number: Option<f64> = text.trim().parse().ok().filter(|number: &f64| number.is_finite());
    number.ok_or_else(|| Error::setting(name, format!("{text:?} is no number")))
}

/// A mix of lengths as it is typed: `lognormal:9.9,1,128,128Ki` or `4Ki,32Ki`; none where it is neither, as the name of a file
/// is.
///
/// # Errors
///
/// A distribution or a list without a length.
pub fn typed_mix(text: &str) -> Result<Option<Mix>> {
    let wrong = |what: String| Error::setting("mix", what);
    let Some(parts) = text.strip_prefix("lognormal:") else {
        let listed: std::result::Result<Vec<u64>, _> =
            text.split(',').map(|length| parse_count(length.trim())).collect();
        return listed.ok().map(Mix::listed).transpose();
    };
    let parts: Vec<&str> = parts.split(',').map(str::trim).collect();
    let [mu, sigma, from, to] = parts.as_slice() else {
        return Err(wrong(format!("{text:?} is not lognormal:MU,SIGMA,FROM,TO")));
    };
    let tokens = |text: &str| parse_count(text).map_err(wrong);
    Mix::log_normal(number("mix", mu)?, number("mix", sigma)?, tokens(from)?, tokens(to)?).map(Some)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_read_in_bits_and_bytes() {
        for (text, rate) in
            [("50GB/s", 50e9), ("26.5 GiB/s", 28_454_158_336.0), ("100Gbps", 12.5e9), ("8bit/s", 1.0)]
        {
            assert!((bytes_per_second("bandwidth", text).unwrap() - rate).abs() < 1e-6, "{text}");
        }
        for text in ["", "50", "50GB", "fast", "-1GB/s", "nan/s", "1e9/s"] {
            let error = bytes_per_second("bandwidth", text).unwrap_err().to_string();
            assert!(error.starts_with("bandwidth: ") && error.contains("is no rate"), "{text}: {error}");
        }
        let nothing = bytes_per_second("bandwidth", "0Gbps").unwrap_err().to_string();
        assert_eq!(nothing, "bandwidth: a rate of 0 B/s moves nothing");
    }

    #[test]
    fn times_are_read_with_their_unit() {
        for (text, wanted) in
            [("15us", 15e-6), ("15 µs", 15e-6), ("1.5ms", 1.5e-3), ("2s", 2.0), ("1m 30s", 90.0), ("0s", 0.0)]
        {
            assert!((seconds("alpha", text).unwrap() - wanted).abs() < 1e-12, "{text}");
        }
        let long = format!("{}s", "9".repeat(400));
        let error = seconds("alpha", &long).unwrap_err().to_string();
        assert_eq!(error, "alpha: nobody waits as long; give less");
        for text in ["", "15", "soon", "-1ms", "1.2.3s", "s", "1 fortnight"] {
            let error = seconds("alpha", text).unwrap_err().to_string();
            assert!(error.starts_with("alpha: ") && error.contains("is no time"), "{text}: {error}");
        }
        assert!(number("loss", "NaN").is_err() && number("loss", "1.5").is_ok());
    }

    #[test]
    fn an_empty_text_takes_an_option_back() {
        let mut given = Given::of([("count", Some("8".to_owned())), ("fleet", None)]);
        assert_eq!((given.count("count", 1).unwrap(), given.some_count("fleet").unwrap()), (8, None));
        given.set("count", " ");
        assert_eq!((given.count("count", 1).unwrap(), given), (1, Given::default()));
    }

    #[test]
    fn a_mix_is_a_list_or_a_distribution_and_anything_else_may_be_a_file() {
        assert_eq!(typed_mix("4Ki, 32Ki").unwrap(), Some(Mix::listed(vec![4096, 32_768]).unwrap()));
        assert!(typed_mix("lognormal:9.9,1,128,128Ki").unwrap().is_some());
        assert_eq!(typed_mix("lengths.txt").unwrap(), None);
        for text in ["0,0", "lognormal:9.9,1,128", "lognormal:x,1,128,256"] {
            assert!(typed_mix(text).unwrap_err().to_string().starts_with("mix: "), "{text}");
        }
    }
}
