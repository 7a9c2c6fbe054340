//! Colours as numbers: sRGB, OKLCH, contrast, and how colour-blind readers see them.

/// An opaque sRGB colour.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Colour {
    /// Red, 0 to 255.
    pub red: u8,
    /// Green, 0 to 255.
    pub green: u8,
    /// Blue, 0 to 255.
    pub blue: u8,
}

/// A colour as lightness (0 to 1), chroma and hue (degrees) in OKLCH, where equal steps look equal.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Oklch {
    pub(crate) lightness: f64,
    pub(crate) chroma: f64,
    pub(crate) hue: f64,
}

/// Red, green and blue light, 0 to 1, linear.
type Linear = [f64; 3];

impl Colour {
    /// `#rrggbb` as CSS and SVG write it.
    pub fn hex(self) -> String {
        format!("#{:02x}{:02x}{:02x}", self.red, self.green, self.blue)
    }

    /// Contrast ratio by WCAG 2, 1 to 21.
    pub fn contrast(self, other: Self) -> f64 {
        let (a, b) = (self.luminance(), other.luminance());
        (a.max(b) + 0.05) / (a.min(b) + 0.05)
    }

    fn luminance(self) -> f64 {
        let [red, green, blue] = self.linear();
        0.2126 * red + 0.7152 * green + 0.0722 * blue
    }

    fn linear(self) -> Linear {
        [self.red, self.green, self.blue].map(|channel| {
            let value = f64::from(channel) / 255.0;
            if value <= 0.040_45 { value / 12.92 } else { ((value + 0.055) / 1.055).powf(2.4) }
        })
    }

    fn from_linear(light: Linear) -> Self {
        let [red, green, blue] = light.map(|value| {
            let value = value.clamp(0.0, 1.0);
            let encoded =
                if value <= 0.003_130_8 { 12.92 * value } else { 1.055 * value.powf(1.0 / 2.4) - 0.055 };
            nearest_byte(encoded * 255.0)
        });
        Self { red, green, blue }
    }
}

impl Oklch {
    pub(crate) const fn new(lightness: f64, chroma: f64, hue: f64) -> Self {
        Self { lightness, chroma, hue }
    }

    /// The nearest sRGB colour of the same lightness and hue: chroma gives way where the screen has less.
    pub(crate) fn colour(self) -> Colour {
        let mut chroma = self.chroma;
        loop {
            let light = Self { chroma, ..self }.linear();
            let inside = light.iter().all(|value| (-0.001..=1.001).contains(value));
            if inside || chroma < 0.004 {
                return Colour::from_linear(light);
            }
            chroma -= 0.004;
        }
    }

    fn linear(self) -> Linear {
        let (sin, cos) = self.hue.to_radians().sin_cos();
        let (a, b) = (self.chroma * cos, self.chroma * sin);
        let long = (self.lightness + 0.396_337_777_4 * a + 0.215_803_757_3 * b).powi(3);
        let medium = (self.lightness - 0.105_561_345_8 * a - 0.063_854_172_8 * b).powi(3);
        let short = (self.lightness - 0.089_484_177_5 * a - 1.291_485_548 * b).powi(3);
        [
            4.076_741_662_1 * long - 3.307_711_591_3 * medium + 0.230_969_929_2 * short,
            -1.268_438_004_6 * long + 2.609_757_401_1 * medium - 0.341_319_396_5 * short,
            -0.004_196_086_3 * long - 0.703_418_614_7 * medium + 1.707_614_701 * short,
        ]
    }
}

#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "clamped to 0 to 255 before the cast"
)]
fn nearest_byte(value: f64) -> u8 {
    value.round().clamp(0.0, 255.0) as u8
}

#[cfg(test)]
pub(crate) mod vision {
    //! Distances as readers with and without full colour vision see them.

    use super::{Colour, Linear};

    /// How a reader sees.
    #[derive(Clone, Copy, Debug)]
    pub(crate) enum Vision {
        Full,
        Protanopia,
        Deuteranopia,
    }

    /// Distance in `OKLab` between what a reader sees of two colours.
    pub(crate) fn distance(vision: Vision, a: Colour, b: Colour) -> f64 {
        let (a, b) = (oklab(seen(vision, a.linear())), oklab(seen(vision, b.linear())));
        a.iter().zip(b).map(|(a, b)| (a - b).powi(2)).sum::<f64>().sqrt()
    }

    /// Machado, Oliveira and Fernandes 2009, severity 1.0, on linear light.
    fn seen(vision: Vision, light: Linear) -> Linear {
        let matrix = match vision {
            Vision::Full => return light,
            Vision::Protanopia => [
                [0.152_286, 1.052_583, -0.204_868],
                [0.114_503, 0.786_281, 0.099_216],
                [-0.003_882, -0.048_116, 1.051_998],
            ],
            Vision::Deuteranopia => [
                [0.367_322, 0.860_646, -0.227_968],
                [0.280_085, 0.672_501, 0.047_413],
                [-0.011_820, 0.042_940, 0.968_881],
            ],
        };
        matrix.map(|row| row.iter().zip(light).map(|(m, l)| m * l).sum::<f64>().clamp(0.0, 1.0))
    }

    fn oklab([red, green, blue]: Linear) -> [f64; 3] {
        let long = (0.412_221_470_8 * red + 0.536_332_536_3 * green + 0.051_445_992_9 * blue).cbrt();
        let medium = (0.211_903_498_2 * red + 0.680_699_545_1 * green + 0.107_396_956_6 * blue).cbrt();
        let short = (0.088_302_461_9 * red + 0.281_718_837_6 * green + 0.629_978_700_5 * blue).cbrt();
        [
            0.210_454_255_3 * long + 0.793_617_785 * medium - 0.004_072_046_8 * short,
            1.977_998_495_1 * long - 2.428_592_205 * medium + 0.450_593_709_9 * short,
            0.025_904_037_1 * long + 0.782_771_766_2 * medium - 0.808_675_766 * short,
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn black_on_white_is_twenty_one() {
        let (black, white) =
            (Colour { red: 0, green: 0, blue: 0 }, Colour { red: 255, green: 255, blue: 255 });
        assert!((black.contrast(white) - 21.0).abs() < 1e-9);
    }

    #[test]
    fn oklch_of_pure_red_is_pure_red() {
        // CSS Color 4: red is oklch(0.62796 0.25768 29.23).
        assert_eq!(Oklch::new(0.627_96, 0.257_68, 29.233_9).colour().hex(), "#ff0000");
    }
}
