use std::fmt::Write as _;

use clap::Args;
use kvscope_sizing::Ratio;
use kvscope_sizing::claims::{CheckedClaim, check_claims};

use crate::failure::Failure;
use crate::output::{self, Figures};

#[derive(Args, Debug)]
pub(super) struct Arguments {
    /// Print JSON
    #[arg(long, conflicts_with = "csv")]
    json: bool,
    /// Print comma-separated values
    #[arg(long)]
    csv: bool,
}

pub(super) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let rows = check_claims();
    if arguments.json {
        output::json(&rows)?;
    } else if arguments.csv {
        output::figures(&exact_rows(&rows).csv())?;
    } else {
        output::figures(&text(&rows))?;
    }
    let broken: Vec<&str> = rows.iter().filter(|row| !row.holds).map(|row| row.claim.id.as_str()).collect();
    if broken.is_empty() {
        return Ok(());
    }
    Err(Failure::check(format!("claims: verdicts in the data no longer hold: {}", broken.join(", "))))
}

/// A table for each source, the verdicts in plain text behind it.
fn text(rows: &[CheckedClaim]) -> String {
    let mut text = String::new();
    for of_one_source in rows.chunk_by(|a, b| a.claim.source == b.claim.source) {
        let mut table = Figures::new(1, &["claim", "published", "computed", "difference", "unit"]);
        for row in of_one_source {
            table.row([
                row.claim.id.clone(),
                row.claim.published.to_string(),
                shown(row.computed),
                row.difference.map_or_else(|| "–".to_owned(), signed),
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
    let header = ["id", "source", "published", "unit", "computed", "difference", "assumption", "verdict"];
    let mut table = Figures::new(8, &header);
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
        ]);
    }
    table
}

/// At most three decimals; whole numbers without any.
fn shown(figure: Option<Ratio>) -> String {
    let Some(figure) = figure else { return "–".to_owned() };
    if figure.denominator() == 1 {
        return figure.numerator().to_string();
    }
    format!("{:.3}", figure.as_f64())
}

fn signed(figure: Ratio) -> String {
    match figure.signum() {
        0 => "0".to_owned(),
        1 => format!("+{}", shown(Some(figure))),
        _ => format!("−{}", shown(Some(figure.magnitude()))),
    }
}
