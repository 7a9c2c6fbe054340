//! How many layers of each case are held: whole layers, as many as memory and time allow, and which cases are in memory
//! together.

/// What the choice depends on for one case.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Need {
    /// Bytes of one layer, whole pages.
    pub(crate) layer_bytes: u64,
    /// Layers that the model has.
    pub(crate) layers: u64,
    /// Predicted seconds of one layer in one step.
    pub(crate) layer_seconds: f64,
}

/// What all cases together may use.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    pub(crate) state_bytes: u64,
    /// Seconds that one step of a case may take.
    pub(crate) step_seconds: f64,
}

/// Cases that are in memory together, with their layers.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Wave {
    /// (index of the need, layers held).
    pub(crate) cases: Vec<(usize, u64)>,
}

/// Groups the cases in their order, each group within the limit, and gives every case the layers that fit.
///
/// Every need must fit alone: `layer_bytes ≤ limits.state_bytes`.
pub(crate) fn waves(needs: &[Need], limits: Limits) -> Vec<Wave> {
    let mut groups: Vec<Vec<usize>> = Vec::new();
    let mut held = 0_u64;
    for (index, need) in needs.iter().enumerate() {
        match groups.last_mut() {
            Some(group) if held + need.layer_bytes <= limits.state_bytes => {
                group.push(index);
                held += need.layer_bytes;
            }
            _ => {
                groups.push(vec![index]);
                held = need.layer_bytes;
            }
        }
    }
    groups
        .into_iter()
        .map(|group| {
            let cap = largest_cap(&group, needs, limits);
            Wave {
                cases: group
                    .into_iter()
                    .map(|index| (index, layers_under(&needs[index], cap, limits)))
                    .collect(),
            }
        })
        .collect()
}

/// Layers of a case that holds at most `cap` bytes; at least 1.
fn layers_under(need: &Need, cap: u64, limits: Limits) -> u64 {
    let by_time = limits.step_seconds / need.layer_seconds.max(f64::MIN_POSITIVE);
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "positive; `as` saturates")]
    let by_time = by_time as u64;
    (cap / need.layer_bytes).min(by_time).min(need.layers).max(1)
}

/// The largest cap a case under which the whole group stays within the limit.
fn largest_cap(group: &[usize], needs: &[Need], limits: Limits) -> u64 {
    let total = |cap: u64| -> u64 {
        group.iter().map(|index| layers_under(&needs[*index], cap, limits) * needs[*index].layer_bytes).sum()
    };
    let (mut fits, mut too_large) = (0, limits.state_bytes + 1);
    while too_large - fits > 1 {
        let middle = fits + (too_large - fits) / 2;
        if total(middle) <= limits.state_bytes {
            fits = middle;
        } else {
            too_large = middle;
        }
    }
    fits
}

#[cfg(test)]
mod tests {
    use super::*;

    const MANY: f64 = 1e9;

    fn need(layer_bytes: u64, layers: u64) -> Need {
        Need { layer_bytes, layers, layer_seconds: 0.01 }
    }

    #[test]
    fn everything_is_kept_where_it_fits() {
        let limits = Limits { state_bytes: 1000, step_seconds: MANY };
        assert_eq!(waves(&[need(10, 20), need(100, 5)], limits), [Wave { cases: vec![(0, 20), (1, 5)] }]);
    }

    #[test]
    fn whole_layers_share_what_there_is() {
        // A cap of 500 each: 20 × 10 = 200 for the first leaves 800 for the second: 8 layers of 100.
        let limits = Limits { state_bytes: 1000, step_seconds: MANY };
        assert_eq!(waves(&[need(10, 20), need(100, 50)], limits), [Wave { cases: vec![(0, 20), (1, 8)] }]);
    }

    #[test]
    fn what_does_not_fit_together_goes_one_after_the_other() {
        let limits = Limits { state_bytes: 1000, step_seconds: MANY };
        let right = [Wave { cases: vec![(0, 1)] }, Wave { cases: vec![(1, 1), (2, 4)] }];
        assert_eq!(waves(&[need(900, 9), need(600, 9), need(100, 9)], limits), right);
    }

    #[test]
    fn time_bounds_the_layers_too_but_one_is_always_kept() {
        let limits = Limits { state_bytes: 1000, step_seconds: 0.035 };
        assert_eq!(waves(&[need(10, 20)], limits), [Wave { cases: vec![(0, 3)] }]);
        let limits = Limits { state_bytes: 1000, step_seconds: 0.001 };
        assert_eq!(waves(&[need(10, 20)], limits), [Wave { cases: vec![(0, 1)] }]);
    }
}
