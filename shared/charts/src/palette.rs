//! Two palettes that never mix: a hue per model family for lines and names, a hue per state component for bars. The
//! base colours were searched for: at least 0.06 apart in `OKLab` for full colour vision, protanopia and deuteranopia, with
//! text contrast on the paper (families) or line contrast (components). The tests hold them to that.

use crate::colour::Oklch;
use crate::scene::Dash;

/// Hues that families can have before two share one.
pub const FAMILY_HUES: u8 = 8;

/// The colour of a model: its family's hue, its version's lightness, and a dash where families share a hue. Made by
/// [`assign_colours`].
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
pub struct SeriesColour {
    /// Which hue, below [`FAMILY_HUES`].
    pub hue: u8,
    /// How many families before had this hue.
    pub round: u8,
    /// Which version of its family, from 0.
    pub version: u8,
    /// How many versions of its family there are, at least 1.
    pub versions: u8,
}

/// Families with a hue of their own, so that a family keeps its hue whatever is beside it. Others take what is free.
const HOME_HUES: [(&str, u8); 8] = [
    ("minimax", 0),
    ("glm", 1),
    ("deepseek", 2),
    ("kimi", 3),
    ("qwen", 4),
    ("gemma", 5),
    ("llama", 6),
    ("mistral", 7),
];

/// Colours for models given by their family, in display order: versions of a family in order of release get lightness
/// from one end to the other, families that would share a hue take a free one, and from the ninth on a dash.
///
/// ```
/// # use kvscope_charts::palette::assign_colours;
/// let colours = assign_colours(&["GLM", "Qwen", "GLM"]);
/// assert_eq!(colours[0].hue, colours[2].hue);
/// assert_ne!(colours[0].version, colours[2].version);
/// assert_ne!(colours[0].hue, colours[1].hue);
/// ```
pub fn assign_colours(families: &[&str]) -> Vec<SeriesColour> {
    let mut seats: Vec<(&str, u8, u8)> = Vec::new();
    let mut distinct: Vec<&str> = Vec::new();
    for family in families {
        if !distinct.contains(family) {
            distinct.push(family);
        }
    }
    let (at_home, guests): (Vec<&str>, Vec<&str>) =
        distinct.into_iter().partition(|family| home_hue(family).is_some());
    for family in at_home.into_iter().chain(guests) {
        let taken = |hue: u8| seats.iter().filter(|(_, seat, _)| *seat == hue).count();
        let hue = home_hue(family)
            .unwrap_or_else(|| (0..FAMILY_HUES).min_by_key(|&hue| taken(hue)).expect("there are hues"));
        let round = u8::try_from(taken(hue)).unwrap_or(u8::MAX);
        seats.push((family, hue, round));
    }
    let count = |list: &[&str], family: &str| {
        u8::try_from(list.iter().filter(|other| **other == family).count()).unwrap_or(u8::MAX)
    };
    families
        .iter()
        .enumerate()
        .map(|(index, family)| {
            let (_, hue, round) =
                *seats.iter().find(|(seat, ..)| seat == family).expect("every family has a seat");
            SeriesColour {
                hue,
                round,
                version: count(&families[..index], family),
                versions: count(families, family),
            }
        })
        .collect()
}

fn home_hue(family: &str) -> Option<u8> {
    HOME_HUES.iter().find(|(name, _)| name.eq_ignore_ascii_case(family)).map(|(_, hue)| *hue)
}

/// The shape that tells versions of one family apart where lightness does not.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Marker {
    /// Point up.
    Triangle,
    /// Upright.
    Square,
    /// On its point.
    Diamond,
    /// Point down.
    Wedge,
    /// Two bars.
    Cross,
}

impl Marker {
    /// Every marker, in the order in which versions get them.
    pub const ALL: [Self; 5] = [Self::Triangle, Self::Square, Self::Diamond, Self::Wedge, Self::Cross];

    /// Its name, for styles.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Triangle => "triangle",
            Self::Square => "square",
            Self::Diamond => "diamond",
            Self::Wedge => "wedge",
            Self::Cross => "cross",
        }
    }
}

impl SeriesColour {
    /// What marks its lines: nothing on the first version of a family, then a shape a version. From the seventh version on
    /// they come round again; their lightness is then five steps away.
    pub fn marker(self) -> Option<Marker> {
        let place = usize::from(self.version).checked_sub(1)? % (Marker::ALL.len() + 1);
        Marker::ALL.get(place).copied()
    }

    /// The dash of computed lines: solid unless another family has the same hue.
    pub const fn dash(self) -> Dash {
        match self.round {
            0 => Dash::Solid,
            1 => Dash::SecondFamily,
            _ => Dash::ThirdFamily,
        }
    }

    /// On light paper, or on dark.
    pub(crate) fn on(self, bases: &[Oklch; FAMILY_HUES as usize], lightness: (f64, f64)) -> Oklch {
        let base = bases[usize::from(self.hue % FAMILY_HUES)];
        let steps = f64::from(self.versions.max(1) - 1);
        if steps == 0.0 {
            return base;
        }
        let (darkest, lightest) = lightness;
        let step = (0.14_f64).min((lightest - darkest) / steps);
        let first = (base.lightness - step * steps / 2.0).clamp(darkest, lightest - step * steps);
        Oklch { lightness: first + step * f64::from(self.version.min(self.versions - 1)), ..base }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_family_keeps_its_hue_whatever_is_beside_it() {
        let alone = assign_colours(&["Qwen"])[0];
        let crowd = assign_colours(&["gpt-oss", "Step", "Ling", "OLMo", "Phi", "Qwen"]);
        assert_eq!(alone.hue, crowd[5].hue);
    }

    #[test]
    fn versions_of_a_family_have_markers_of_their_own() {
        let colours = assign_colours(&["GLM"; 6]);
        let markers: Vec<_> = colours.iter().map(|colour| colour.marker()).collect();
        assert_eq!(markers[0], None);
        for (index, marker) in markers.iter().enumerate() {
            assert!(!markers[..index].contains(marker), "{index}: {marker:?}");
        }
        assert!(assign_colours(&["GLM", "Qwen", "Kimi"]).iter().all(|colour| colour.marker().is_none()));
    }

    #[test]
    fn no_two_families_look_the_same() {
        let families: Vec<String> = (0..24).map(|index| format!("family {index}")).collect();
        let names: Vec<&str> = families.iter().map(String::as_str).collect();
        let mut looks: Vec<_> =
            assign_colours(&names).iter().map(|c| (c.hue, format!("{:?}", c.dash()))).collect();
        looks.sort();
        looks.dedup();
        assert_eq!(looks.len(), 24, "8 hues × 3 dashes");
    }
}
