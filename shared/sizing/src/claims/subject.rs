//! Which versions a claim speaks of, so that their growth can be shown beside it.

use serde_json::Value;

use super::{Claim, Recipe};
use crate::Tokens;
use crate::settings::Settings;

/// What a claim is about.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Subject {
    /// Catalogue ids, in the order in which the claim names them, each once.
    pub models: Vec<String>,
    /// The context, where the claim has one.
    pub context: Option<Tokens>,
    /// The settings, where all of its figures share them.
    pub settings: Option<Settings>,
}

impl Claim {
    /// The versions, context and settings of its recipe.
    pub fn subject(&self) -> Subject {
        let mut subject = Subject::default();
        let mut settings: Vec<&Settings> = Vec::new();
        collect(&self.recipe, &mut subject, &mut settings);
        if let Some((first, rest)) = settings.split_first()
            && rest.iter().all(|other| other == first)
        {
            subject.settings = Some((*first).clone());
        }
        subject
    }
}

fn collect<'r>(recipe: &'r Recipe, subject: &mut Subject, settings: &mut Vec<&'r Settings>) {
    let mut add = |model: &String| {
        if !subject.models.contains(model) {
            subject.models.push(model.clone());
        }
    };
    match recipe {
        Recipe::State(state) => {
            state.model.iter().for_each(&mut add);
            subject.context = subject.context.or_else(|| Tokens::context(state.context?).ok());
            settings.push(&state.settings);
        }
        Recipe::Layers(layers) => add(&layers.model),
        Recipe::Pattern { model, .. }
        | Recipe::TokensPerEntry { model, .. }
        | Recipe::MaxContext { model }
        | Recipe::Field { model, .. } => add(model),
        Recipe::Ratio { of, over } => {
            collect(of, subject, settings);
            collect(over, subject, settings);
        }
        Recipe::Spread(parts) => parts.iter().for_each(|part| collect(part, subject, settings)),
        Recipe::Plan(inputs) => {
            inputs.get("model").and_then(Value::as_str).map(str::to_owned).iter().for_each(add);
        }
        Recipe::Quoted { .. } | Recipe::Needs(_) => {}
    }
}
