//! The contexts that a slider stops at: sixteen to an octave from 1Ki to 1Mi, all whole.

use kvscope_charts::figures::USUAL_CONTEXTS;
use kvscope_sizing::Tokens;

/// First and last context of the slider and of a usual figure.
pub(crate) const FIRST: Tokens = USUAL_CONTEXTS.0;
pub(crate) const LAST: Tokens = USUAL_CONTEXTS.1;

const PER_OCTAVE: u64 = 16;

/// The last step.
pub(crate) const STEPS: u64 = 10 * PER_OCTAVE;

/// The context at a step; steps beyond the last are the last.
pub(crate) fn at(step: u64) -> Tokens {
    let step = step.min(STEPS);
    let (octave, sixteenths) = (step / PER_OCTAVE, step % PER_OCTAVE);
    Tokens::new((FIRST.get() / PER_OCTAVE * (PER_OCTAVE + sixteenths)) << octave)
}

/// The step nearest to a context.
pub(crate) fn nearest(context: Tokens) -> u64 {
    let tokens = context.get().clamp(FIRST.get(), LAST.get());
    let octave = u64::from((tokens / FIRST.get()).ilog2());
    let sixteenth = (FIRST.get() / PER_OCTAVE) << octave;
    octave * PER_OCTAVE + (tokens + sixteenth / 2) / sixteenth - PER_OCTAVE
}

/// The power of two above or below, whether or not `context` is one; held within the slider's ends.
pub(crate) fn next_tick(context: Tokens, direction: Direction) -> Tokens {
    let tokens = context.get().clamp(1, 1 << 40);
    let next = match direction {
        Direction::Down => {
            let below = 1 << tokens.ilog2();
            if below == tokens { below / 2 } else { below }
        }
        Direction::Up => 2 << tokens.ilog2(),
    };
    Tokens::new(next.clamp(FIRST.get(), LAST.get()))
}

/// Which way a key moves.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Direction {
    Up,
    Down,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_rise_from_1ki_to_1mi_and_find_themselves() {
        assert_eq!((at(0), at(STEPS), at(STEPS + 1)), (FIRST, LAST, LAST));
        assert_eq!(at(16 + 8).get(), 3072);
        for step in 0..=STEPS {
            assert_eq!(nearest(at(step)), step);
            assert!(step == 0 || at(step) > at(step - 1));
        }
        assert_eq!(at(nearest(Tokens::new(100_000))).get(), 98_304);
        assert_eq!((nearest(Tokens::new(1)), nearest(Tokens::new(1 << 30))), (0, STEPS));
    }

    #[test]
    fn ticks_are_powers_of_two() {
        let moved = |tokens, direction| next_tick(Tokens::new(tokens), direction).get();
        assert_eq!((moved(100_000, Direction::Up), moved(100_000, Direction::Down)), (131_072, 65_536));
        assert_eq!((moved(65_536, Direction::Up), moved(65_536, Direction::Down)), (131_072, 32_768));
        assert_eq!((moved(1 << 20, Direction::Up), moved(1024, Direction::Down)), (1 << 20, 1024));
    }
}
