use kvscope_charts::runs::finding;
use kvscope_protocol::run::{Ended, Run};
use kvscope_sizing::prediction::Calibration;
use leptos::prelude::*;

use super::jobs::Jobs;
use crate::erased::on;

/// What the run found, where and under which ceilings.
pub(super) fn summary(jobs: &Jobs, run: &Run) -> AnyView {
    let jobs = *jobs;
    let sentences = run.verdicts.iter().skip(1).map(|verdict| verdict.sentence.clone());
    let rest: Vec<AnyView> =
        sentences.map(|sentence| view! { <p class="verdict">{sentence}</p> }.into_any()).collect();
    let no_ceilings = if run.cases.is_empty() {
        "Ceilings are measured for forms; this run has none."
    } else {
        "No ceilings were measured, so nothing was predicted."
    };
    let missing = run.cases.iter().filter(|case| case.is_missing()).count();
    let name = run.run.clone();
    let resume = (missing > 0 && run.ended != Ended::Running).then(|| {
        let ask = move |_| jobs.start(serde_json::json!({"resume": name, "budget_seconds": 60}));
        let words = format!("Measure what is missing: {missing} of {}", run.cases.len());
        view! { <p class="job"><button type="button" data-action="resume" on:click=on(ask)>{words}</button></p> }
            .into_any()
    });
    let notes: Vec<AnyView> =
        run.notes.iter().map(|note| view! { <p class="quiet">{note.clone()}</p> }.into_any()).collect();
    let ceilings = run.calibration.as_ref().map_or_else(|| no_ceilings.to_owned(), ceilings);
    view! {
        <h1>{finding(run)}</h1>
        {rest}
        <p class="quiet">{where_it_ran(run)}</p>
        <p class="quiet">{ceilings}</p>
        {notes}
        {resume}
    }
    .into_any()
}

fn where_it_ran(run: &Run) -> String {
    let machine = &run.machine;
    let mut words: Vec<String> = vec![machine.cpu.clone().unwrap_or_else(|| "unknown processor".to_owned())];
    words.extend(
        machine.cores.map(|cores| if cores == 1 { "1 core".to_owned() } else { format!("{cores} cores") }),
    );
    words.extend(machine.instructions.clone());
    words.extend(machine.system.clone());
    words.push(run.started.clone());
    words.extend(match run.ended {
        Ended::Complete => None,
        Ended::Partial => Some("partial: the time was up".to_owned()),
        Ended::Running => Some("goes on: what is measured so far is shown".to_owned()),
        Ended::Cancelled => Some("cancelled".to_owned()),
        Ended::Interrupted => Some("interrupted: what was measured until then is shown".to_owned()),
    });
    words.join(" · ")
}

/// The measured ceilings that predictions come from.
fn ceilings(calibration: &Calibration) -> String {
    let ceilings = &calibration.ceilings;
    format!(
        "Predicted before measuring, from ceilings of this machine: reads {:.1} GB/s, computes {:.0} GFLOP/s, \
         starts its workers in {}",
        ceilings.read_bytes_per_second / 1e9,
        ceilings.flops_per_second / 1e9,
        kvscope_charts::label::seconds(ceilings.launch_seconds),
    )
}
