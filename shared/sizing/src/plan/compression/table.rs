//! What a table of times against bandwidth tells of a strategy, and what it does not.
//!
//! T = a + V/B is a line against 1/B. From the line of uncompressed rows and that of a strategy follow what the link carried in
//! both cases, and where the lines cross. The ratio of the two slopes is the strategy's only if the uncompressed path used its
//! nominal bandwidth as well as the compressed one, and the speed of the codec is what the constants differ by, which is small
//! beside what the line leaves unexplained.

use serde::Serialize;

use super::{Method, Strategy};
use crate::{Error, Result};

/// Bandwidths of the columns of `KVServe`'s released table, in 10^9 bits a second.
pub const KVSERVE_GBPS: [f64; 6] = [5.0, 10.0, 25.0, 40.0, 50.0, 100.0];

/// Milliseconds of a job of Qwen2.5-32B by strategy and bandwidth (released with arXiv 2605.13734).
pub const KVSERVE_ROWS: [(&str, [f64; 6]); 4] = [
    ("none", [47_228.0, 24_034.0, 8_994.0, 6_826.0, 4_935.0, 4_518.0]),
    ("CacheGen", [7_426.0, 4_848.0, 4_352.0, 4_305.0, 4_275.0, 4_229.0]),
    ("KIVI", [10_157.0, 6_097.0, 4_369.0, 4_276.0, 4_252.0, 4_220.0]),
    ("KVServe", [5_161.0, 4_511.0, 4_284.0, 4_270.0, 4_236.0, 4_216.0]),
];

/// Seconds against the inverse of bandwidth, fitted with the least sum of squared relative differences.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Line {
    /// a: seconds that no bandwidth changes.
    pub constant_seconds: f64,
    /// V: bytes that the link carried.
    pub bytes: f64,
    /// (fitted − given) / given of each point.
    pub residuals: Vec<f64>,
    /// The mean of their magnitudes.
    pub mean_error: f64,
    /// The largest of them.
    pub worst_error: f64,
}

/// What two lines tell of a strategy.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Told {
    /// Bytes uncompressed over bytes compressed, as the link saw them.
    pub bytes_ratio: f64,
    /// Speed of the codec; absent where the strategy's constant is the smaller one.
    pub codec_bytes_per_second: Option<f64>,
    /// Where the two lines cross; absent where they do not at any positive bandwidth.
    pub crossing_bytes_per_second: Option<f64>,
    /// Whether the last given point, at the fastest link, still shows the strategy ahead.
    pub ahead_at_the_fastest: bool,
}

/// The line through points of (bytes a second, seconds).
///
/// # Errors
///
/// Fewer than two different bandwidths, or figures that are not positive.
pub fn line(points: &[(f64, f64)]) -> Result<Line> {
    let positive = |value: f64| value.is_finite() && value > 0.0;
    if points.iter().any(|(rate, seconds)| !positive(*rate) || !positive(*seconds)) {
        return Err(Error::setting("table", "bandwidths and times are positive numbers"));
    }
    // Divided by its time, each point asks for p·a + q·V = 1.
    let rows: Vec<(f64, f64)> =
        points.iter().map(|(rate, seconds)| (1.0 / seconds, 1.0 / rate / seconds)).collect();
    let sum = |term: &dyn Fn(&(f64, f64)) -> f64| rows.iter().map(term).sum::<f64>();
    let (pp, pq, qq) = (sum(&|row| row.0 * row.0), sum(&|row| row.0 * row.1), sum(&|row| row.1 * row.1));
    let (p, q) = (sum(&|row| row.0), sum(&|row| row.1));
    let determinant = pp * qq - pq * pq;
    if rows.len() < 2 || determinant <= pp * qq * 1e-12 {
        return Err(Error::setting("table", "a line needs two different bandwidths"));
    }
    let constant_seconds = (p * qq - q * pq) / determinant;
    let bytes = (pp * q - pq * p) / determinant;
    let residuals: Vec<f64> =
        points.iter().map(|(rate, seconds)| (constant_seconds + bytes / rate) / seconds - 1.0).collect();
    let mean_error = residuals.iter().map(|residual| residual.abs()).sum::<f64>() / residuals.len() as f64;
    let worst_error = residuals.iter().fold(0.0, |worst: f64, residual| worst.max(residual.abs()));
    Ok(Line { constant_seconds, bytes, residuals, mean_error, worst_error })
}

/// (bytes a second, seconds) of one row of `KVServe`'s table.
///
/// # Errors
///
/// A name that the table lacks.
pub fn kvserve_points(name: &str) -> Result<Vec<(f64, f64)>> {
    let row = KVSERVE_ROWS.iter().find(|(known, _)| *known == name);
    let (_, times) = row.ok_or_else(|| Error::setting("table", format!("no row is called {name:?}")))?;
    Ok(KVSERVE_GBPS.iter().zip(times).map(|(gbps, ms)| (gbps * 1e9 / 8.0, ms * 1e-3)).collect())
}

/// What the points of a strategy tell beside those without compression.
///
/// # Errors
///
/// As [`line`].
pub fn told(without: &[(f64, f64)], with: &[(f64, f64)]) -> Result<Told> {
    let (plain, packed) = (line(without)?, line(with)?);
    let slower = packed.constant_seconds - plain.constant_seconds;
    let fewer = plain.bytes - packed.bytes;
    let fastest = |points: &[(f64, f64)]| {
        points.iter().copied().max_by(|a, b| a.0.total_cmp(&b.0)).map_or(f64::INFINITY, |point| point.1)
    };
    Ok(Told {
        bytes_ratio: plain.bytes / packed.bytes,
        codec_bytes_per_second: (slower > 0.0).then(|| plain.bytes / slower),
        crossing_bytes_per_second: (slower > 0.0 && fewer > 0.0).then(|| fewer / slower),
        ahead_at_the_fastest: fastest(with) < fastest(without),
    })
}

/// The two static strategies of the table, with what its lines tell of them.
///
/// # Errors
///
/// As [`told`].
pub fn published() -> Result<Vec<Strategy>> {
    [("CacheGen", Method::DeltaCodec), ("KIVI", Method::Quantise)]
        .into_iter()
        .map(|(name, method)| {
            let (without, with) = (kvserve_points("none")?, kvserve_points(name)?);
            let (told, errors) = (told(&without, &with)?, [line(&without)?.mean_error, line(&with)?.mean_error]);
            let speed = told.codec_bytes_per_second;
            let source = format!(
                "fitted to the released table of arXiv 2605.13734 (Qwen2.5-32B), whose lines are {:.0} % and {:.0} % off in the \
                 mean; it tells no accuracy, and no ratio apart from how well the link was used",
                errors[0] * 100.0,
                errors[1] * 100.0
            );
            Ok(Strategy {
                name: name.to_owned(),
                method,
                ratio: told.bytes_ratio,
                codec_bytes_per_second: speed
                    .ok_or_else(|| Error::setting("table", format!("tells no speed of {name}")))?,
                accuracy_loss_points: None,
                source,
            })
        })
        .collect()
}
