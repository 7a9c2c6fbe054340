//! PNG, PDF and outlines, made from the SVG by the libraries of resvg and krilla with the embedded font alone, so that
//! every machine makes the same.

use krilla::page::PageSettings;
use krilla_svg::{SurfaceExt, SvgSettings};
use resvg::tiny_skia::{Pixmap, Transform};
use resvg::usvg::{self, Options, Tree, WriteOptions};

use super::Export;
use crate::font::{FAMILY, FONT_FILES};
use crate::paint::svg;
use crate::{Theme, text};

/// Pixels for each CSS pixel.
const PIXELS: f32 = 2.0;
/// More pixels on a side than any report needs, and few enough for any machine.
const LARGEST_SIDE: f32 = 20_000.0;

/// Why a picture could not be made.
#[derive(Debug, thiserror::Error)]
pub enum FilesError {
    /// The drawing is larger than a picture may be.
    #[error(
        "a picture of {width} by {height} pixels is too large; ask for a narrower figure or fewer models"
    )]
    TooLarge {
        /// Pixels across.
        width: f32,
        /// Pixels down.
        height: f32,
    },
    /// A library refused the drawing.
    #[error("the drawing could not be converted: {0}")]
    Library(String),
}

impl Export {
    /// As a drawing whose text is outlines, which looks the same wherever it is put.
    pub fn outlines(&self, theme: &Theme) -> Result<String, FilesError> {
        let options = WriteOptions { preserve_text: false, ..WriteOptions::default() };
        Ok(self.tree(theme)?.to_string(&options))
    }

    /// As a picture of two pixels for each CSS pixel.
    pub fn png(&self, theme: &Theme) -> Result<Vec<u8>, FilesError> {
        let tree = self.tree(theme)?;
        let size = tree.size();
        let (width, height) = ((size.width() * PIXELS).ceil(), (size.height() * PIXELS).ceil());
        let whole = |side: f32| {
            let is_possible = (1.0..=LARGEST_SIDE).contains(&side);
            is_possible.then(|| u32::try_from(crate::label::nearest_u64(f64::from(side))).ok()).flatten()
        };
        let mut pixmap = whole(width)
            .zip(whole(height))
            .and_then(|(width, height)| Pixmap::new(width, height))
            .ok_or(FilesError::TooLarge { width, height })?;
        resvg::render(&tree, Transform::from_scale(PIXELS, PIXELS), &mut pixmap.as_mut());
        pixmap.encode_png().map_err(|error| FilesError::Library(error.to_string()))
    }

    /// As a page of the drawing's size, with the glyphs that it uses.
    pub fn pdf(&self, theme: &Theme) -> Result<Vec<u8>, FilesError> {
        let refused = |why: &str| FilesError::Library(why.to_owned());
        let tree = self.tree(theme)?;
        let size = tree.size();
        let mut document = krilla::Document::new();
        let settings = PageSettings::from_wh(size.width(), size.height())
            .ok_or_else(|| refused("the page has no size"))?;
        let mut page = document.start_page_with(settings);
        let mut surface = page.surface();
        let page_size = krilla::geom::Size::from_wh(size.width(), size.height())
            .ok_or_else(|| refused("the page has no size"))?;
        surface
            .draw_svg(&tree, page_size, SvgSettings::default())
            .ok_or_else(|| refused("krilla does not draw it"))?;
        surface.finish();
        page.finish();
        document.finish().map_err(|error| FilesError::Library(format!("{error:?}")))
    }

    /// Characters of titles and names that the embedded font lacks: pictures, pages and outlines leave them out.
    pub fn missing_characters(&self) -> Vec<char> {
        let scene = self.whole_scene();
        let mut missing: Vec<char> = scene
            .texts()
            .iter()
            .flat_map(|text| text.text.chars())
            .filter(|c| !text::is_covered(*c))
            .collect();
        missing.sort_unstable();
        missing.dedup();
        missing
    }

    fn tree(&self, theme: &Theme) -> Result<Tree, FilesError> {
        let extras = svg::Extras::default();
        let drawing = svg::document(&self.whole_scene(), theme, "", &extras);
        let mut options = Options { font_family: FAMILY.to_owned(), ..Options::default() };
        for file in FONT_FILES {
            options.fontdb_mut().load_font_data(file.ttf.to_vec());
        }
        Tree::from_str(&drawing, &options)
            .map_err(|error: usvg::Error| FilesError::Library(error.to_string()))
    }
}
