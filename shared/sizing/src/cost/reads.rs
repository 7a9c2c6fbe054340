use crate::architecture::Architecture;
use crate::settings::Settings;
use crate::state::StateComponent;
use crate::{Bytes, Result, Tokens};

/// What a decode step reads of all layers, also where an earlier layer keeps it: worked out once, asked at any length.
#[derive(Clone, Debug)]
pub(crate) struct StepReads(Vec<(StateComponent, u64)>);

impl StepReads {
    /// The components that each class of layers reads.
    ///
    /// # Errors
    ///
    /// A format that does not fit the shape.
    pub(crate) fn of(architecture: &Architecture, settings: &Settings) -> Result<Self> {
        let formats = architecture.formats(settings);
        let mut all = Vec::new();
        for class in architecture.classes() {
            for mixer in &class.mixers {
                let layers = class.layers.len() as u64;
                all.extend(mixer.read(&formats)?.into_iter().map(|component| (component, layers)));
            }
        }
        Ok(Self(all))
    }

    /// Bytes of one request of `n` tokens.
    ///
    /// # Errors
    ///
    /// A figure beyond 64 bits.
    pub(crate) fn bytes(&self, n: Tokens) -> Result<Bytes> {
        self.0.iter().try_fold(Bytes::ZERO, |total, (component, layers)| {
            total.plus(component.read_bytes(n)?.times(*layers)?)
        })
    }
}
