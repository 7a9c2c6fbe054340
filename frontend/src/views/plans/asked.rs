//! From the view to an answer: the same functions of `kvscope_sizing::plan` that the command line asks.

use kvscope_charts::figures::sample_contexts;
use kvscope_protocol::{PlansView, ViewState};
use kvscope_sizing::engine::{Engine, EngineKind};
use kvscope_sizing::plan::prefix::{reuse, reuse_curve};
use kvscope_sizing::plan::simulation::Compare;
use kvscope_sizing::plan::{
    FieldKind, Given, LabelPlan, Lines, Measured, Moving, NamedTrace, Offloading, PlanKind, Sheet,
    capacity_of, compression_of, cost_curve_of, cost_of, datasheet_tier, handover_curve_of, handover_of,
    label_of, network_links, prefix_question, simulation_of, typed_block, typed_links, typed_mix,
    typed_prefix, typed_tiers, typed_trace, vllm_of,
};
use kvscope_sizing::{Error, Settings, Tokens, UnitSystem, Warning};

use leptos::prelude::*;

use super::Answered;
use crate::state::{Chosen, Model, Page, Shared, find_model};

/// An answer with what is drawn of it.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) sheet: Sheet,
    pub(super) lines: Option<Lines>,
    pub(super) warnings: Vec<Warning>,
    /// What it is an answer to, and what was drawn for it at every context.
    kept: Option<(Question, Option<Lines>)>,
}

/// All that an answer follows from but the context.
#[derive(Clone, Debug, PartialEq)]
struct Question {
    view: ViewState,
    moving: Moving,
    trace: Option<Shared<NamedTrace>>,
    measured: Measured,
}

/// Why there is none.
#[derive(Debug)]
pub(super) struct Refusal {
    /// The option that it is about, by its name.
    pub(super) place: Option<String>,
    pub(super) sentence: String,
}

/// What the open plan answers to these options for the version that is selected, or for all that are chosen; of the answer
/// before, what does not follow from the context is taken over. Tracked.
pub(super) fn answer(page: Page, plans: &PlansView, moving: Moving, before: Option<&Answered>) -> Answered {
    let (trace, measured) = page.opened.with(|opened| (opened.trace.clone(), opened.measured.clone()));
    let view =
        page.view(|view| ViewState { context: Tokens::default(), plans: plans.clone(), ..view.clone() });
    let question = Question { view, moving, trace, measured };
    let known = before.and_then(|before| before.as_ref().ok()?.kept.as_ref());
    let known = known.filter(|(known, _)| *known == question);
    match (before, known) {
        (Some(before), Some(_)) if !has_context(plans.plan) => return before.clone(),
        _ => {}
    }
    Shared::new(answer_anew(page, question, known.and_then(|(_, lines)| lines.as_ref())))
}

/// Whether a plan is asked at the context of the page.
pub(super) fn has_context(plan: PlanKind) -> bool {
    !matches!(plan, PlanKind::Prefix | PlanKind::Simulate)
}

/// A question of a link apart from the page: what the speed table times.
#[derive(Debug)]
pub(crate) struct Trial {
    question: Question,
    models: Vec<Shared<Model>>,
    context: Tokens,
    drawn: Option<Lines>,
}

impl Trial {
    /// The plan of a link, asked about all its versions.
    pub(crate) fn of(query: &str) -> Option<Self> {
        let (view, _) = ViewState::from_query(query);
        let models = view.models.iter().map(|id| find_model(id, &[]).ok()).collect::<Option<_>>()?;
        let context = view.context;
        let measured = Measured::default();
        let question = Question { view, moving: Moving::Nothing, trace: None, measured };
        Some(Self { question, models, context, drawn: None })
    }

    /// The answer with all that is drawn of it; false where it is refused.
    pub(crate) fn answers(&mut self, moving: Moving) -> bool {
        self.question.moving = moving;
        let models: Vec<&Model> = self.models.iter().map(|model| &**model).collect();
        let asked = Asked::of(&self.question, self.context);
        let answer = asked.and_then(|asked| asked.answer(&models, self.drawn.as_ref()));
        let Ok((_, drawn)) = answer else { return false };
        self.drawn = drawn;
        true
    }

    /// Asks at another context, with what was drawn at every context kept as the page keeps it.
    pub(crate) fn next(&mut self) {
        self.context = Tokens::new(self.context.get() - self.context.get() / 8);
    }
}

fn answer_anew(page: Page, question: Question, drawn: Option<&Lines>) -> Result<Answer, Refusal> {
    let plans = &question.view.plans;
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
    let context = page.context();
    let answer = Asked::of(&question, context).and_then(|asked| asked.answer(&models, drawn));
    match answer {
        Ok((answer, drawn)) => Ok(Answer { kept: Some((question, drawn)), ..answer }),
        Err(error) => Err(refusal(plans, &error)),
    }
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
struct Asked<'a> {
    question: &'a Question,
    context: Tokens,
    given: Given,
    settings: Settings,
    units: UnitSystem,
}

/// An answer, and the lines of it that do not follow from the context.
type Drawn = (Answer, Option<Lines>);

impl<'a> Asked<'a> {
    fn of(question: &'a Question, context: Tokens) -> Result<Self, Error> {
        let view = &question.view;
        let (plan, mut given) = (view.plans.plan, view.plans.asked());
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
        Ok(Self { question, context, given, settings, units: view.units })
    }

    fn answer(&self, models: &[&Model], drawn: Option<&Lines>) -> Result<Drawn, Error> {
        let contexts = [self.context];
        let (given, settings, moving) = (&self.given, &self.settings, self.question.moving);
        let view = &self.question.view;
        let subject = models[0].subject();
        // Lines over context are made once, and what is asked is put among them.
        let lines = |made: &dyn Fn() -> Result<Lines, Error>| drawn.cloned().map_or_else(made, Ok);
        Ok(match view.plans.plan {
            PlanKind::Capacity => {
                let mix = given.text("mix").map(typed_mix).transpose()?;
                let mix = mix.map(|mix| mix.ok_or_else(no_file)).transpose()?;
                let engine = view.engine.clone();
                let plan = capacity_of(&subject, engine, settings, &contexts, mix, given, moving)?;
                let lines = plan.memory.does_not_fit.is_none().then(|| plan.lines());
                (told(plan.sheet(self.units), lines, plan.warnings), None)
            }
            PlanKind::Prefix => {
                let engine = match view.engine.kind() {
                    EngineKind::Vllm => view.engine.clone(),
                    _ => vllm_of(Engine::newest(EngineKind::Logical)),
                };
                let prefix = typed_prefix(given)?;
                let asked = prefix_question(&subject, &engine, settings, prefix, given, moving)?;
                let plan = reuse(&asked)?;
                let lines = reuse_curve(&asked)?.lines(prefix.shared_tokens);
                (told(plan.sheet(self.units), Some(lines), plan.warnings), None)
            }
            PlanKind::Handover => {
                let mut links = typed_links(given)?;
                let mut warnings = Vec::new();
                if links.is_empty() {
                    links.extend(self.question.measured.links());
                    links.extend(network_links());
                    warnings.clone_from(&self.question.measured.warnings);
                }
                let plan = handover_of(&subject, settings, &contexts, &links, given, moving)?;
                warnings.extend(plan.warnings.iter().cloned());
                // Given seconds are of one length.
                let base = match given.text("prefill_seconds") {
                    Some(_) => None,
                    None => Some(lines(&|| {
                        let samples = samples(models);
                        Ok(handover_curve_of(&subject, settings, &samples, &links, given)?.lines())
                    })?),
                };
                let at = |name: &str| plan.at.first()?.drawn(name);
                let lines = base.clone().map(|lines| lines.asked_at(self.context, at));
                (told(plan.sheet(self.units), lines, warnings), base)
            }
            PlanKind::Offload => {
                let mut tiers = typed_tiers(&given.list("tier", ';'))?;
                let mut warnings = Vec::new();
                if tiers.is_empty() {
                    tiers.extend(self.question.measured.tiers());
                    warnings.clone_from(&self.question.measured.warnings);
                }
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
                let answer = offloading.at(self.context, &tiers)?;
                let base = lines(&|| Ok(offloading.curves(&samples(models), &tiers)?.lines()))?;
                let lines = base.clone().asked_at(self.context, |name| answer.drawn(name));
                warnings.extend(answer.plan.warnings.iter().cloned());
                (told(answer.sheet(self.units), Some(lines), warnings), Some(base))
            }
            PlanKind::Label => {
                let plan = |model: &&Model| label_of(&model.subject(), settings, &contexts, given, moving);
                let plans: Vec<LabelPlan> = models.iter().map(plan).collect::<Result<_, _>>()?;
                let base = lines(&|| {
                    let samples = samples(models);
                    let plan = |model: &&Model| {
                        let allowed = allowed(model);
                        let samples: Vec<Tokens> =
                            samples.iter().copied().filter(|n| *n <= allowed).collect();
                        label_of(&model.subject(), settings, &samples, &Given::default(), Moving::Nothing)
                    };
                    Ok(LabelPlan::lines(&models.iter().map(plan).collect::<Result<Vec<_>, _>>()?))
                })?;
                let lines = base.clone().asked_at(self.context, |name| LabelPlan::drawn(&plans, name));
                let sheet = LabelPlan::sheet(&plans, self.units);
                let warnings = plans.into_iter().flat_map(|plan| plan.warnings).collect();
                (told(sheet, Some(lines), warnings), Some(base))
            }
            PlanKind::Cost => {
                let plan = cost_of(&subject, settings, self.context, view.batch, given, moving)?;
                let base = lines(&|| {
                    Ok(cost_curve_of(&subject, settings, &samples(models), view.batch, given)?.lines())
                })?;
                let lines = base.clone().asked_at(self.context, |name| plan.drawn(name));
                (told(plan.sheet(self.units), Some(lines), plan.warnings), Some(base))
            }
            PlanKind::Compress => {
                let strategies = given.list("strategy", ';');
                let answer = compression_of(&subject, settings, self.context, &strategies, given)?;
                let lines = Some(answer.lines());
                (told(answer.sheet(self.units), lines, answer.warnings), None)
            }
            PlanKind::Simulate => {
                let opened = self.question.trace.as_ref();
                let opened = opened.map(|named| in_blocks(named, typed_block(given)?)).transpose()?;
                let named = match opened {
                    Some(named) => named,
                    None => typed_trace(given, MOST_MADE_REQUESTS)?
                        .ok_or_else(|| Error::setting("synthetic", "give a number, or drop a trace"))?,
                };
                let tiers = given.list("tiers", ';');
                let optimum = Compare::WithOptimum;
                let answer = simulation_of(&subject, settings, &named, &tiers, given, optimum, moving)?;
                (told(answer.sheet(self.units), answer.lines(), answer.warnings), None)
            }
        })
    }
}

/// Made requests of one replay, which holds the page up for as long as it takes.
const MOST_MADE_REQUESTS: u64 = 100_000;

/// A trace that was opened, in blocks of so many tokens.
fn in_blocks(named: &NamedTrace, block: Tokens) -> Result<NamedTrace, Error> {
    let label = named.label.clone();
    Ok(NamedTrace { label, trace: named.trace.clone().in_blocks_of(block)? })
}

fn told(sheet: Sheet, lines: Option<Lines>, warnings: Vec<Warning>) -> Answer {
    Answer { sheet, lines, warnings, kept: None }
}

/// Lengths that a figure is drawn at, up to what the longest of the configs allows.
fn samples(models: &[&Model]) -> Vec<Tokens> {
    let most = models.iter().map(|model| allowed(model)).max().unwrap_or_default();
    let least = Tokens::new((most.get() / 128).clamp(1, 1024));
    sample_contexts((least, most), 30, &[])
}

/// The longest request that a config allows.
fn allowed(model: &Model) -> Tokens {
    Tokens::new(model.architecture.max_context().map_or(1 << 20, kvscope_sizing::Fact::get))
}

fn no_file() -> Error {
    Error::setting("mix", "write lengths with commas (4Ki,32Ki) or lognormal:MU,SIGMA,FROM,TO")
}
