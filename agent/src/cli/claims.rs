use std::fmt::Write as _;

use clap::Args;
use kvscope_sizing::Ratio;
use kvscope_sizing::claims::{CheckedClaim, Origin, Working, check_claims};

use crate::failure::Failure;
use crate::output::{self, Figures};

#[derive(Args, Debug)]
pub(super) struct Arguments {
    /// One claim alone; its table shows how the figure is computed
    #[arg(value_name = "CLAIM")]
    claim: Option<String>,
    /// Print JSON
    #[arg(long, conflicts_with = "csv")]
    json: bool,
    /// Print comma-separated values
    #[arg(long)]
    csv: bool,
}

pub(super) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let mut rows = check_claims();
    if let Some(id) = &arguments.claim {
        rows.retain(|row| row.claim.id == *id);
        if rows.is_empty() {
            return Err(Failure::input(format!("claim: no claim is called {id:?}; see `kvscope claims`")));
        }
    }
    if arguments.json {
        output::json(&rows)?;
    } else if arguments.csv {
        output::figures(&exact_rows(&rows).csv())?;
    } else if let (Some(id), [row]) = (&arguments.claim, rows.as_slice()) {
        let steps = row.working().map_err(|error| Failure::input(format!("{id}: {error}")))?;
        output::figures(&whole(row, &steps))?;
    } else {
        output::figures(&text(&rows))?;
    }
    let broken: Vec<&str> = rows.iter().filter(|row| !row.holds).map(|row| row.claim.id.as_str()).collect();
    if broken.is_empty() {
        return Ok(());
    }
    Err(Failure::check(format!("claims: verdicts in the data no longer hold: {}", broken.join(", "))))
}

/// One claim with the steps of its figure, each below what it is a part of.
fn whole(row: &CheckedClaim, steps: &[Working]) -> String {
    let mut text = format!("{}\n{}\n{}\n", row.claim.statement, row.claim.source, row.verdict);
    add_steps(&mut text, steps, 0);
    text
}

fn add_steps(text: &mut String, steps: &[Working], depth: usize) {
    for step in steps {
        let _ = writeln!(text, "{:1$}{2}: {3}", "", depth * 2, step.what, step.worked);
        add_steps(text, &step.parts, depth + 1);
    }
}

/// A table for each source, the verdicts in plain text behind it.
fn text(rows: &[CheckedClaim]) -> String {
    let mut text = String::new();
    for of_one_source in rows.chunk_by(|a, b| a.claim.source == b.claim.source) {
        let stated = match of_one_source[0].claim.origin {
            Origin::Published => "published",
            Origin::ByHand => "by hand",
        };
        let mut table = Figures::new(1, &["claim", stated, "computed", "difference", "unit"]);
        for row in of_one_source {
            table.row([
                row.claim.id.clone(),
                row.claim.published_words(),
                row.computed_words(),
                row.difference_words(),
                row.claim.unit.name().to_owned(),
            ]);
        }
        let rendered = table.render();
        let width = rendered.lines().map(|line| line.chars().count()).max().unwrap_or(0);
        let verdicts = std::iter::once("verdict").chain(of_one_source.iter().map(|row| row.verdict.as_str()));
        if !text.is_empty() {
            text.push('\n');
        }
        text.push_str(&of_one_source[0].claim.source);
        text.push('\n');
        for (line, verdict) in rendered.lines().zip(verdicts) {
            let _ = writeln!(text, "{line:width$}  {verdict}");
        }
    }
    text
}

fn exact_rows(rows: &[CheckedClaim]) -> Figures {
    let header =
        ["id", "source", "published", "unit", "computed", "difference", "assumption", "verdict", "origin"];
    let mut table = Figures::new(9, &header);
    let number = |figure: Option<Ratio>| figure.map_or(String::new(), |figure| figure.as_f64().to_string());
    for row in rows {
        table.row([
            row.claim.id.clone(),
            row.claim.source.clone(),
            row.claim.published.to_string(),
            row.claim.unit.name().to_owned(),
            number(row.computed),
            number(row.difference),
            row.claim.assumption.clone().unwrap_or_default(),
            row.verdict.clone(),
            row.claim.origin.name().to_owned(),
        ]);
    }
    table
}
