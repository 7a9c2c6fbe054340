//! Two palettes that never mix: a hue per model family for lines and names, a hue per state component for bars. The
//! base colours were searched for: at least 0.06 apart in `OKLab` for full colour vision, protanopia and deuteranopia, with
//! text contrast on the paper (families) or line contrast (components). The tests hold them to that.

use crate::colour::Oklch;

/// Hues that families can have before two share one.
pub const FAMILY_HUES: u8 = 8;

/// The colour of a model: its family's hue, its version's lightness, and a marker where several models share a hue. Dashes
/// belong to provenance alone. Made by [`assign_colours`].
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
pub struct SeriesColour {
    /// Which hue, below [`FAMILY_HUES`].
    pub hue: u8,
    /// How many models of other families had this hue before.
    pub before: u8,
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
/// from one end to the other, families that would share a hue take a free one, and from the ninth on a marker.
///
/// ```
/// # use kvscope_charts::palette::assign_colours;
/// let colours = assign_colours(&["GLM", "Qwen", "GLM"]);
/// assert_eq!(colours[0].hue, colours[2].hue);
/// assert_ne!(colours[0].version, colours[2].version);
/// assert_ne!(colours[0].hue, colours[1].hue);
/// ```
pub fn assign_colours(families: &[&str]) -> Vec<SeriesColour> {
    let count = |list: &[&str], family: &str| {
        u8::try_from(list.iter().filter(|other| **other == family).count()).unwrap_or(u8::MAX)
    };
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
        let of = |hue: u8| seats.iter().filter(move |(_, seat, _)| *seat == hue);
        let hue = home_hue(family)
            .unwrap_or_else(|| (0..FAMILY_HUES).min_by_key(|&hue| of(hue).count()).expect("there are hues"));
        let before = of(hue).fold(0_u8, |sum, (other, ..)| sum.saturating_add(count(families, other)));
        seats.push((family, hue, before));
    }
    families
        .iter()
        .enumerate()
        .map(|(index, family)| {
            let (_, hue, before) =
                *seats.iter().find(|(seat, ..)| seat == family).expect("every family has a seat");
            SeriesColour {
                hue,
                before,
                version: count(&families[..index], family),
                versions: count(families, family),
            }
        })
        .collect()
}

fn home_hue(family: &str) -> Option<u8> {
    HOME_HUES.iter().find(|(name, _)| name.eq_ignore_ascii_case(family)).map(|(_, hue)| *hue)
}

/// The shape that tells models of one hue apart where lightness does not.
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
    /// Every marker, in the order in which models of one hue get them.
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
    /// What marks its lines: nothing on the first model of a hue, then a shape a model. From the seventh on they come round
    /// again; within a family, lightness is then five steps away.
    pub fn marker(self) -> Option<Marker> {
        Marker::ALL.get(self.place().checked_sub(1)?).copied()
    }

    /// Its place among the looks that models of one hue have.
    pub(crate) fn place(self) -> usize {
        (usize::from(self.before) + usize::from(self.version)) % (Marker::ALL.len() + 1)
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
        let families: Vec<String> = (0..48).map(|index| format!("family {index}")).collect();
        let names: Vec<&str> = families.iter().map(String::as_str).collect();
        let mut looks: Vec<_> =
            assign_colours(&names).iter().map(|c| (c.hue, format!("{:?}", c.marker()))).collect();
        looks.sort();
        looks.dedup();
        assert_eq!(looks.len(), 48, "8 hues, each plain and with 5 markers");
    }

    /// Two versions of GLM take the hue's first two looks, the family that comes to the same hue the third.
    #[test]
    fn families_of_one_hue_have_no_marker_in_common() {
        let mut families = vec!["GLM", "GLM"];
        let others: Vec<String> = (0..8).map(|index| format!("family {index}")).collect();
        families.extend(["MiniMax", "DeepSeek", "Kimi", "Qwen", "Gemma", "Llama", "Mistral"]);
        families.extend(others.iter().map(String::as_str));
        let colours = assign_colours(&families);
        let of_hue = colours.iter().filter(|colour| colour.hue == colours[0].hue);
        let markers: Vec<_> = of_hue.map(|colour| colour.marker()).collect();
        assert_eq!(markers, [None, Some(Marker::Triangle), Some(Marker::Square)]);
    }
}
