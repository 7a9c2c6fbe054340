//! From the view to an answer: the same functions of `kvscope_sizing::plan` that the command line asks.

use kvscope_charts::figures::sample_contexts;
use kvscope_protocol::{PlansView, ViewState};
use kvscope_sizing::engine::EngineKind;
use kvscope_sizing::plan::{
    FieldKind, Given, LabelPlan, Lines, Offloading, PlanKind, Sheet, Subject, capacity_of, compression_of,
    cost_of, datasheet_tier, handover_of, label_of, network_links, prefix_of, typed_links, typed_mix,
    typed_prefix, typed_tiers,
};
use kvscope_sizing::{Error, Settings, Tokens, UnitSystem, Warning};

use crate::state::{Chosen, Model, Page};

/// An answer with what is drawn of it.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) sheet: Sheet,
    pub(super) lines: Option<Lines>,
    pub(super) warnings: Vec<Warning>,
}

/// Why there is none.
#[derive(Debug)]
pub(super) struct Refusal {
    /// The option that it is about, by its name.
    pub(super) place: Option<String>,
    pub(super) sentence: String,
}

type Answered = Result<Answer, Refusal>;

/// What the open plan answers to these options for the version that is selected, or for all that are chosen. Tracked.
pub(super) fn answer(page: Page, plans: &PlansView) -> Answered {
    let chosen = page.chosen();
    let selected: Vec<Chosen> = match plans.plan {
        PlanKind::Label => chosen.list.iter().filter(|chosen| chosen.state.is_ok()).cloned().collect(),
        _ => page.selected().into_iter().collect(),
    };
    let models: Vec<&Model> = selected.iter().filter_map(|chosen| chosen.model.as_deref()).collect();
    if models.is_empty() {
        let why = chosen.list.iter().find_map(|chosen| chosen.state.as_ref().err());
        let sentence = why.cloned().unwrap_or_else(|| "No model is chosen.".to_owned());
        return Err(Refusal { place: None, sentence });
    }
    let asked = page.view(|view| Asked::of(view, plans));
    let answer = asked.and_then(|asked| asked.answer(&models));
    answer.map_err(|error| refusal(plans, &error))
}

/// An error in the words of the form.
fn refusal(plans: &PlansView, error: &Error) -> Refusal {
    let named = |name: &str| name == error.place().unwrap_or_default().replace('-', "_");
    let field = plans.plan.fields().iter().find(|field| named(field.name));
    let sentence = match field {
        Some(field) => format!("{}: {}", field.label, error.what()),
        None => error.to_string(),
    };
    Refusal { place: field.map(|field| field.name.to_owned()), sentence }
}

/// What is asked, apart from the model.
struct Asked {
    plan: PlanKind,
    given: Given,
    settings: Settings,
    view: ViewState,
    units: UnitSystem,
}

impl Asked {
    fn of(view: &ViewState, plans: &PlansView) -> Result<Self, Error> {
        let (plan, mut given) = (plans.plan, plans.asked());
        // Only these two plans account as an engine does; the others show logical bytes.
        let of_engine = match plan {
            PlanKind::Capacity => view.engine_settings(),
            PlanKind::Prefix if view.engine.kind() == EngineKind::Vllm => view.engine_settings(),
            _ => None,
        };
        let mut settings = of_engine.unwrap_or_else(|| view.settings());
        for field in plan.fields().iter().filter(|field| field.kind == FieldKind::Setting) {
            if let Some(text) = given.text(field.name).map(str::to_owned) {
                settings.set(field.name, &text)?;
                given.set(field.name, "");
            }
        }
        Ok(Self { plan, given, settings, view: view.clone(), units: view.units })
    }

    fn answer(&self, models: &[&Model]) -> Result<Answer, Error> {
        let (n, given, settings) = (self.view.context, &self.given, &self.settings);
        let contexts = [n];
        let subject = models[0].subject();
        Ok(match self.plan {
            PlanKind::Capacity => {
                let mix = given.text("mix").map(typed_mix).transpose()?;
                let mix = mix.map(|mix| mix.ok_or_else(no_file)).transpose()?;
                let engine = self.view.engine.clone();
                let plan = capacity_of(&subject, engine, settings, &contexts, mix, given)?;
                let lines = plan.memory.does_not_fit.is_none().then(|| plan.lines());
                Answer { sheet: plan.sheet(self.units), lines, warnings: plan.warnings }
            }
            PlanKind::Prefix => {
                let engine = match self.view.engine.kind() {
                    EngineKind::Vllm => self.view.engine.clone(),
                    _ => kvscope_sizing::engine::Engine::newest(EngineKind::Vllm),
                };
                let plan = prefix_of(&subject, engine, settings, typed_prefix(given)?, given)?;
                Answer { sheet: plan.sheet(self.units), lines: None, warnings: plan.warnings }
            }
            PlanKind::Handover => {
                let mut links = typed_links(given)?;
                if links.is_empty() {
                    links.extend(network_links());
                }
                let plan = handover_of(&subject, settings, &contexts, &links, given)?;
                // Given seconds are of one length.
                let drawn = match given.text("prefill_seconds") {
                    Some(_) => None,
                    None => Some(handover_of(&subject, settings, &self.samples(&subject), &links, given)?),
                };
                let lines = drawn.map(|plan| plan.lines());
                Answer { sheet: plan.sheet(self.units), lines, warnings: plan.warnings }
            }
            PlanKind::Offload => {
                let mut tiers = typed_tiers(&given.list("tier", ';'))?;
                if tiers.is_empty() {
                    tiers.extend(datasheet_tier(given)?);
                }
                if tiers.is_empty() {
                    return Err(Error::setting(
                        "tier",
                        "this GPU's memory is the host's; give one, such as nvme=26GB/s",
                    ));
                }
                let offloading = Offloading::of(subject, settings, given)?;
                let answer = offloading.at(n, &tiers)?;
                let curves = offloading.curves(&self.samples(&subject), &tiers)?;
                let sheet = answer.sheet(self.units);
                Answer { sheet, lines: Some(curves.lines()), warnings: answer.plan.warnings }
            }
            PlanKind::Label => {
                let plan = |model: &&Model| label_of(&model.subject(), settings, &contexts, given);
                let plans: Vec<LabelPlan> = models.iter().map(plan).collect::<Result<_, _>>()?;
                let sheet = LabelPlan::sheet(&plans, self.units);
                let warnings = plans.into_iter().flat_map(|plan| plan.warnings).collect();
                Answer { sheet, lines: None, warnings }
            }
            PlanKind::Cost => {
                let plan = cost_of(&subject, settings, n, self.view.batch, given)?;
                Answer { sheet: plan.sheet(self.units), lines: None, warnings: plan.warnings }
            }
            PlanKind::Compress => {
                let strategies = given.list("strategy", ';');
                let answer = compression_of(&subject, settings, n, &strategies, given)?;
                Answer { sheet: answer.sheet(self.units), lines: None, warnings: answer.warnings }
            }
        })
    }

    /// Lengths that a figure is drawn at, up to what the config allows, and the one that is set.
    fn samples(&self, subject: &Subject<'_>) -> Vec<Tokens> {
        let set = self.view.context;
        let limit = subject.architecture.max_context().map_or(1 << 20, kvscope_sizing::Fact::get);
        let domain = (Tokens::new(1024).min(set), Tokens::new(limit).max(set));
        sample_contexts(domain, 30, &[set])
    }
}

fn no_file() -> Error {
    Error::setting("mix", "write lengths with commas (4Ki,32Ki) or lognormal:MU,SIGMA,FROM,TO")
}
