//! The only place with colour values: what each [`Ink`] is on light and on dark paper.

use kvscope_sizing::ComponentKind;

use crate::colour::{Colour, Oklch};
use crate::palette::{FAMILY_HUES, SeriesColour};
use crate::scene::Ink;

/// Light or dark paper with its inks.
#[derive(Clone, Debug)]
pub struct Theme {
    mode: Mode,
    components: [Colour; ComponentKind::ALL.len()],
}

/// Which paper.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Mode {
    Light,
    Dark,
}

/// Values of one mode.
struct Values {
    paper: Colour,
    text: Colour,
    muted: Colour,
    grid: Colour,
    cursor: Colour,
    accent: Colour,
    families: [Oklch; FAMILY_HUES as usize],
    /// Darkest and lightest version of a family, bounded by text contrast on the paper and by the paper's own end.
    versions: (f64, f64),
    components: [Oklch; ComponentKind::ALL.len()],
}

const fn rgb(red: u8, green: u8, blue: u8) -> Colour {
    Colour { red, green, blue }
}

static LIGHT: Values = Values {
    paper: rgb(0xfc, 0xfb, 0xf7),
    text: rgb(0x1b, 0x1a, 0x17),
    muted: rgb(0x6a, 0x67, 0x60),
    grid: rgb(0xe6, 0xe3, 0xda),
    cursor: rgb(0x1b, 0x1a, 0x17),
    accent: rgb(0xb3, 0x1b, 0x3f),
    families: [
        Oklch::new(0.485, 0.136, 23.0),
        Oklch::new(0.555, 0.135, 265.0),
        Oklch::new(0.462, 0.135, 286.0),
        Oklch::new(0.540, 0.109, 168.0),
        Oklch::new(0.563, 0.135, 58.0),
        Oklch::new(0.423, 0.135, 140.0),
        Oklch::new(0.437, 0.135, 343.0),
        Oklch::new(0.487, 0.095, 230.0),
    ],
    versions: (0.31, 0.54),
    components: [
        Oklch::new(0.386, 0.109, 253.0),
        Oklch::new(0.534, 0.110, 242.0),
        Oklch::new(0.632, 0.110, 218.0),
        Oklch::new(0.471, 0.110, 287.0),
        Oklch::new(0.531, 0.110, 343.0),
        Oklch::new(0.496, 0.108, 162.0),
        Oklch::new(0.602, 0.110, 156.0),
        Oklch::new(0.613, 0.109, 64.0),
        Oklch::new(0.464, 0.109, 48.0),
        Oklch::new(0.526, 0.109, 99.0),
    ],
};

static DARK: Values = Values {
    paper: rgb(0x15, 0x15, 0x13),
    text: rgb(0xf0, 0xee, 0xe8),
    muted: rgb(0x9c, 0x99, 0x91),
    grid: rgb(0x2e, 0x2d, 0x2a),
    cursor: rgb(0xf0, 0xee, 0xe8),
    accent: rgb(0xff, 0x8a, 0x9c),
    families: [
        Oklch::new(0.659, 0.120, 28.0),
        Oklch::new(0.740, 0.121, 262.0),
        Oklch::new(0.679, 0.119, 306.0),
        Oklch::new(0.832, 0.120, 168.0),
        Oklch::new(0.738, 0.119, 78.0),
        Oklch::new(0.732, 0.120, 150.0),
        Oklch::new(0.739, 0.120, 350.0),
        Oklch::new(0.772, 0.120, 212.0),
    ],
    versions: (0.64, 0.90),
    components: [
        Oklch::new(0.709, 0.105, 268.0),
        Oklch::new(0.513, 0.105, 242.0),
        Oklch::new(0.650, 0.105, 218.0),
        Oklch::new(0.597, 0.105, 285.0),
        Oklch::new(0.646, 0.104, 351.0),
        Oklch::new(0.710, 0.105, 168.0),
        Oklch::new(0.611, 0.106, 153.0),
        Oklch::new(0.615, 0.107, 70.0),
        Oklch::new(0.541, 0.105, 30.0),
        Oklch::new(0.692, 0.105, 109.0),
    ],
};

impl Theme {
    /// Near-black on warm off-white. Exports use it unless told otherwise.
    pub fn light() -> Self {
        Self::of(Mode::Light)
    }

    /// Off-white on near-black.
    pub fn dark() -> Self {
        Self::of(Mode::Dark)
    }

    /// The value of `ink`.
    pub fn resolve(&self, ink: Ink) -> Colour {
        let values = self.mode.values();
        match ink {
            Ink::Paper => values.paper,
            Ink::Text => values.text,
            Ink::Muted => values.muted,
            Ink::Grid => values.grid,
            Ink::Cursor => values.cursor,
            Ink::Accent => values.accent,
            Ink::Series(series) => self.series(series),
            Ink::Component(kind) => self.components[kind as usize],
        }
    }

    fn of(mode: Mode) -> Self {
        Self { mode, components: mode.values().components.map(Oklch::colour) }
    }

    fn series(&self, series: SeriesColour) -> Colour {
        let values = self.mode.values();
        series.on(&values.families, values.versions).colour()
    }
}

impl Mode {
    fn values(self) -> &'static Values {
        match self {
            Self::Light => &LIGHT,
            Self::Dark => &DARK,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::colour::vision::{Vision, distance};

    /// About three times the step that careful readers just see (0.02 in `OKLab`).
    const APART: f64 = 0.06;

    fn themes() -> [(&'static str, Theme); 2] {
        [("light", Theme::light()), ("dark", Theme::dark())]
    }

    fn every_series() -> impl Iterator<Item = SeriesColour> {
        (0..FAMILY_HUES).flat_map(|hue| {
            (1..=14).flat_map(move |versions| {
                (0..versions).map(move |version| SeriesColour { hue, before: 0, version, versions })
            })
        })
    }

    #[test]
    fn text_and_names_have_contrast_aa() {
        for (name, theme) in themes() {
            let paper = theme.resolve(Ink::Paper);
            for ink in [Ink::Text, Ink::Muted, Ink::Cursor, Ink::Accent]
                .into_iter()
                .chain(every_series().map(Ink::Series))
            {
                let contrast = theme.resolve(ink).contrast(paper);
                assert!(contrast >= 4.5, "{name} {ink:?}: {contrast:.2}");
            }
        }
    }

    #[test]
    fn bars_have_contrast_for_graphics() {
        for (name, theme) in themes() {
            for kind in ComponentKind::ALL {
                let contrast = theme.resolve(Ink::Component(kind)).contrast(theme.resolve(Ink::Paper));
                assert!(contrast >= 3.0, "{name} {kind:?}: {contrast:.2}");
            }
        }
    }

    #[test]
    fn each_palette_is_told_apart_by_colour_blind_readers() {
        for (name, theme) in themes() {
            let families: Vec<Ink> = (0..FAMILY_HUES)
                .map(|hue| Ink::Series(SeriesColour { hue, before: 0, version: 0, versions: 1 }))
                .collect();
            let components: Vec<Ink> = ComponentKind::ALL.into_iter().map(Ink::Component).collect();
            for inks in [families, components] {
                for (index, first) in inks.iter().enumerate() {
                    for second in &inks[..index] {
                        for vision in [Vision::Full, Vision::Protanopia, Vision::Deuteranopia] {
                            let apart = distance(vision, theme.resolve(*first), theme.resolve(*second));
                            assert!(apart >= APART, "{name} {vision:?} {first:?} {second:?}: {apart:.3}");
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn versions_of_a_family_differ_in_lightness() {
        for (name, theme) in themes() {
            for hue in 0..FAMILY_HUES {
                for versions in 2..=4 {
                    let colours: Vec<Colour> = (0..versions)
                        .map(|version| {
                            theme.resolve(Ink::Series(SeriesColour { hue, before: 0, version, versions }))
                        })
                        .collect();
                    for pair in colours.windows(2) {
                        let apart = distance(Vision::Deuteranopia, pair[0], pair[1]);
                        assert!(apart >= 0.05, "{name} hue {hue}, {versions} versions: {apart:.3}");
                    }
                }
            }
        }
    }
}
