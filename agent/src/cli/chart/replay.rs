use clap::Args;
use kvscope_charts::figures::{PlanAsked, PlanLines};
use kvscope_charts::versions::set;
use kvscope_protocol::{PlansView, Room, ViewState};
use kvscope_sizing::UnitSystem;
use kvscope_sizing::plan::{Given, PlanKind};

use super::Written;
use crate::cli::plan::ReplayQuestion;
use crate::cli::request::warn_of_all;
use crate::failure::Failure;

#[derive(Args, Debug)]
pub(super) struct Arguments {
    #[command(flatten)]
    question: ReplayQuestion,
    #[command(flatten)]
    written: Written,
}

pub(super) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let Arguments { question, written } = arguments;
    let format = written.format()?;
    let drawn = question.drawn()?;
    let answer = &drawn.answer;
    let lines = answer.lines().ok_or_else(|| Failure::input("trace: one request is no figure; give more"))?;
    let mut inputs = vec![
        ("plan".to_owned(), PlanKind::Simulate.name().to_owned()),
        ("models".to_owned(), answer.model.clone()),
        ("trace".to_owned(), answer.trace.clone()),
    ];
    inputs.extend(drawn.asked.pairs().map(|(name, value)| (name.to_owned(), value.to_owned())));
    inputs.extend(set(&drawn.settings));
    let assumptions = answer.warnings.iter().map(ToString::to_string).collect();
    let asked = PlanAsked { units: UnitSystem::Decimal, inputs, assumptions };
    let sheet = answer.sheet(UnitSystem::Decimal);
    let link = drawn.id.as_ref().map_or_else(String::new, |id| link(id, &drawn.asked, &drawn.settings));
    let export = PlanLines::export(&lines, &sheet, asked, written.width(), written.origin(link)?);
    warn_of_all([(answer.model.as_str(), answer.warnings.as_slice())]);
    written.write(&export.map_err(Failure::input)?, format)
}

/// The page's link to the same replay, from its `?` on; empty where the page would be asked something else.
fn link(id: &str, asked: &Given, settings: &kvscope_sizing::Settings) -> String {
    let mut plans = PlansView { plan: PlanKind::Simulate, ..PlansView::default() };
    for field in PlanKind::Simulate.fields() {
        plans.set(field, asked.text(field.name).unwrap_or_default());
    }
    let view = ViewState {
        room: Room::Plans,
        models: vec![id.to_owned()],
        kv_format: settings.kv_dtype,
        index_format: settings.index_dtype,
        state_format: settings.state_dtype,
        plans,
        ..ViewState::default()
    };
    let query = view.to_query();
    let (opened, notices) = ViewState::from_query(&query);
    if notices.is_empty() && opened.settings() == *settings { format!("?{query}") } else { String::new() }
}
