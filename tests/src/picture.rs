//! Pictures of the page, made small and compared with kept ones.

use std::fs::{self, File};
use std::io::{BufReader, BufWriter, Cursor};
use std::path::Path;

/// A picture in red, green and blue, row by row.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Picture {
    width: usize,
    height: usize,
    values: Vec<u8>,
}

/// How far two pictures of one size are apart.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Distance {
    /// Mean difference of a value, of 255.
    pub mean: f64,
    /// Percent of the points that differ by more than an eighth of all light in some colour.
    pub changed_percent: f64,
}

/// A difference that anti-aliasing alone does not make.
const CHANGED: u8 = 32;

impl Picture {
    /// Reads what a browser gives.
    pub fn of_png(bytes: &[u8]) -> Self {
        Self::decoded(png::Decoder::new(Cursor::new(bytes)))
    }

    /// Reads a kept picture; none where there is none.
    pub fn kept(path: &Path) -> Option<Self> {
        Some(Self::decoded(png::Decoder::new(BufReader::new(File::open(path).ok()?))))
    }

    fn decoded<R: std::io::BufRead + std::io::Seek>(mut decoder: png::Decoder<R>) -> Self {
        decoder.set_transformations(png::Transformations::normalize_to_color8());
        let mut reader = decoder.read_info().expect("a PNG");
        let mut values = vec![0; reader.output_buffer_size().expect("a picture of a size")];
        let info = reader.next_frame(&mut values).expect("a whole PNG");
        let values = match info.color_type {
            png::ColorType::Rgb => values,
            png::ColorType::Rgba => {
                values.as_chunks::<4>().0.iter().flat_map(|[r, g, b, _]| [*r, *g, *b]).collect()
            }
            other => panic!("a picture in {other:?}"),
        };
        Self { width: info.width as usize, height: info.height as usize, values }
    }

    /// Each square of `side` points as one, with the mean of their colours.
    #[must_use]
    pub fn smaller(&self, side: usize) -> Self {
        let (width, height) = (self.width / side, self.height / side);
        let mut values = Vec::with_capacity(width * height * 3);
        for place in 0..width * height {
            let (left, top) = (place % width * side, place / width * side);
            for colour in 0..3 {
                let row = |y: usize| (left..left + side).map(move |x| (y * self.width + x) * 3 + colour);
                let sum: usize = (top..top + side).flat_map(row).map(|at| usize::from(self.values[at])).sum();
                values.push(u8::try_from(sum / (side * side)).expect("a mean is no larger than the largest"));
            }
        }
        Self { width, height, values }
    }

    /// The same with everything so many lines further down, as where something above it has grown.
    #[must_use]
    pub fn lower_by(&self, lines: usize) -> Self {
        let mut values = self.values.clone();
        values.rotate_right(lines * self.width * 3);
        Self { values, ..self.clone() }
    }

    /// Keeps it as a file.
    pub fn keep(&self, path: &Path) {
        fs::create_dir_all(path.parent().expect("a file in a folder")).expect("the folder can be made");
        let file = BufWriter::new(File::create(path).expect("the file can be made"));
        let side = |length: usize| u32::try_from(length).expect("a picture of a screen");
        let mut encoder = png::Encoder::new(file, side(self.width), side(self.height));
        encoder.set_color(png::ColorType::Rgb);
        encoder.set_compression(png::Compression::High);
        let mut writer = encoder.write_header().expect("the file takes a header");
        writer.write_image_data(&self.values).expect("the file takes the picture");
    }

    /// How far another is from it; none where it has another size.
    pub fn distance(&self, other: &Self) -> Option<Distance> {
        if (self.width, self.height) != (other.width, other.height) {
            return None;
        }
        let differences: Vec<u8> =
            self.values.iter().zip(&other.values).map(|(one, other)| one.abs_diff(*other)).collect();
        let sum: u64 = differences.iter().map(|one| u64::from(*one)).sum();
        let points = differences.as_chunks::<3>().0;
        let changed = points.iter().filter(|point| point.iter().any(|one| *one > CHANGED)).count();
        Some(Distance {
            mean: sum as f64 / differences.len().max(1) as f64,
            changed_percent: changed as f64 * 100.0 / points.len().max(1) as f64,
        })
    }
}

impl Distance {
    /// Whether it is what another build of the browser may make of the same page.
    pub fn is_of_the_same_page(self) -> bool {
        self.mean <= 1.0 && self.changed_percent <= 0.5
    }
}
