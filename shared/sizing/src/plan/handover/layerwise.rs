//! How long a decode worker waits where each layer is sent as soon as it is computed.

use super::Subject;
use crate::settings::Settings;
use crate::{Bytes, Result, Tokens};

/// For each layer what it and all behind it are of the payload.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct LayerShares(Vec<f64>);

impl LayerShares {
    /// Those of a prompt of `n` tokens; a layer that uses another's cache sends nothing.
    ///
    /// # Errors
    ///
    /// Formats that do not fit the model, or an overflow.
    pub(super) fn of(subject: &Subject<'_>, settings: &Settings, n: Tokens) -> Result<Self> {
        let architecture = subject.architecture;
        let formats = architecture.formats(settings);
        let mut of_layer = vec![0.0; architecture.layer_count()];
        for class in architecture.classes().iter().filter(|class| class.borrows.is_none()) {
            let mut bytes = Bytes::ZERO;
            for mixer in &class.mixers {
                for component in mixer.components(&formats)? {
                    bytes = bytes.plus(component.transfer_bytes(n)?)?;
                }
            }
            for layer in &class.layers {
                of_layer[*layer] = bytes.get() as f64;
            }
        }
        Ok(Self::of_bytes(of_layer))
    }

    fn of_bytes(mut of_layer: Vec<f64>) -> Self {
        let all: f64 = of_layer.iter().sum();
        let mut behind = 0.0;
        for share in of_layer.iter_mut().rev() {
            behind += *share;
            *share = if all > 0.0 { behind / all } else { 0.0 };
        }
        Self(of_layer)
    }

    /// Seconds after a prefill of `prefill_seconds`, whose layers take equal parts of it, where all takes `seconds` to send: a layer
    /// waits for those before it, and the last can only be sent when it is there.
    pub(super) fn seconds_after(&self, seconds: f64, prefill_seconds: f64) -> f64 {
        let layers = self.0.len() as f64;
        let waits = self.0.iter().enumerate().map(|(layer, behind)| {
            let computing = layers - 1.0 - layer as f64;
            seconds * behind - prefill_seconds * computing / layers
        });
        waits.fold(0.0, f64::max)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Three layers of a second each, of which the last has half of the bytes: sent in 2 s, it is there 1 s after the prefill; sent in
    /// 12 s the link is never idle from the first layer's end on, which leaves 12 − 2.
    #[test]
    fn the_last_layer_waits_for_itself_and_for_those_before_it() {
        let shares = LayerShares::of_bytes(vec![1.0, 1.0, 2.0]);
        assert!((shares.seconds_after(2.0, 3.0) - 1.0).abs() < 1e-12);
        assert!((shares.seconds_after(12.0, 3.0) - 10.0).abs() < 1e-12);
        // The last layer sends nothing, and the one before it is gone when that is computed.
        let shares = LayerShares::of_bytes(vec![1.0, 1.0, 0.0]);
        assert!(shares.seconds_after(0.5, 3.0).abs() < 1e-12);
    }
}
