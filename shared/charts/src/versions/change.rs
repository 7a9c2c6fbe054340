use kvscope_sizing::{Bytes, Comparison, Ratio, Settings, Step, Warning, group_digits};

use super::{set, words};
use crate::export::Origin;
use crate::figures::{FigureError, WaterfallEnd, WaterfallInput, WaterfallStep};
use crate::palette::SeriesColour;
use crate::{Export, Waterfall};

/// Whose change is shown cause by cause.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum ChangeOf {
    /// What one more token adds.
    Slope,
    /// What does not grow.
    Fixed,
    /// What one request keeps at the context.
    Resident,
}

/// What lies between two versions, as a figure.
#[derive(Clone, Copy, Debug)]
pub struct Change<'a> {
    /// Both versions and the steps between them.
    pub comparison: &'a Comparison,
    /// Their names.
    pub names: [&'a str; 2],
    /// Their colours.
    pub colours: [SeriesColour; 2],
    /// Whose change.
    pub of: ChangeOf,
}

impl Change<'_> {
    /// The steps as a waterfall of this width.
    ///
    /// # Errors
    ///
    /// No room.
    pub fn waterfall(&self, width: f64) -> Result<Waterfall, FigureError> {
        let [from, to] = self.ends();
        let end = |place: usize, value: Ratio| WaterfallEnd {
            name: self.names[place],
            colour: self.colours[place],
            value,
        };
        let change = |step: &Step| match self.of {
            ChangeOf::Slope => step.slope,
            ChangeOf::Fixed => step.fixed,
            ChangeOf::Resident => step.resident,
        };
        let steps: Vec<WaterfallStep<'_>> = self
            .comparison
            .steps
            .iter()
            .map(|step| WaterfallStep { text: &step.text, change: change(step) })
            .filter(|step| step.change != Ratio::ZERO)
            .collect();
        Waterfall::layout(&WaterfallInput {
            title: "Change by cause",
            unit: if self.of == ChangeOf::Slope { "B/token" } else { "B" },
            from: end(0, from),
            to: end(1, to),
            steps: &steps,
            width,
        })
    }

    /// The figure as it is exported.
    ///
    /// # Errors
    ///
    /// No room.
    pub fn export(
        &self,
        settings: &Settings,
        width: f64,
        assumed: &[(&str, Vec<Warning>); 2],
        origin: Origin,
    ) -> Result<Export, FigureError> {
        let waterfall = self.waterfall(width)?;
        Ok(Export {
            scene: waterfall.scene().clone(),
            title: self.comparison.sentence.clone(),
            note: format!("{} · logical bytes of one request · computed", self.words()),
            assumptions: words(assumed),
            inputs: inputs(self.comparison, settings),
            data: waterfall.data().clone(),
            table: waterfall.table().clone(),
            origin,
        })
    }

    /// `What one more token adds, cause by cause`
    pub fn words(&self) -> String {
        let what = match self.of {
            ChangeOf::Slope => "What one more token adds".to_owned(),
            ChangeOf::Fixed => "What does not grow".to_owned(),
            ChangeOf::Resident => format!("What one request keeps at {} tokens", self.comparison.context),
        };
        format!("{what}, cause by cause")
    }

    fn ends(&self) -> [Ratio; 2] {
        let bytes = |both: [Bytes; 2]| both.map(Ratio::from);
        match self.of {
            ChangeOf::Slope => self.comparison.slope_bytes_per_token.map(Ratio::from),
            ChangeOf::Fixed => bytes(self.comparison.fixed_bytes),
            ChangeOf::Resident => bytes(self.comparison.resident_bytes),
        }
    }
}

/// What was asked of two versions, by name.
pub fn inputs(comparison: &Comparison, settings: &Settings) -> Vec<(String, String)> {
    let Comparison { from, to, context, .. } = comparison;
    let mut inputs = vec![
        ("from".to_owned(), from.clone()),
        ("to".to_owned(), to.clone()),
        ("context".to_owned(), group_digits(context.get())),
    ];
    inputs.extend(set(settings));
    inputs
}
