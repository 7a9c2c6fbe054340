/// `int(x)` of a figure that an engine computes in floating point.
#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the engine cuts off here; a negative or huge figure saturates"
)]
pub(crate) fn truncated(figure: f64) -> u64 {
    figure as u64
}
