//! Which cases a command asks for: forms, their formats, their models, contexts and caches.

use std::str::FromStr;

use kvscope_protocol::run::{Cache, Case};
use kvscope_sizing::{Settings, Tokens};

use super::{Backend, CacheChoice, RunArguments};
use crate::bench::{self, BenchError, CaseRequest, Form, Subject};
use crate::cli::request::warn;
use crate::failure::Failure;
use crate::model::Model;

/// A form and the format of its state: `gqa@fp8`.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct FormChoice {
    pub(super) form: Form,
    format: Option<String>,
}

impl FromStr for FormChoice {
    type Err = BenchError;

    fn from_str(text: &str) -> Result<Self, BenchError> {
        let (form, format) = match text.split_once('@') {
            Some((form, format)) => (form, Some(format.to_owned())),
            None => (text, None),
        };
        Ok(Self { form: form.parse()?, format })
    }
}

impl FormChoice {
    /// The name in run files and tables.
    fn label(&self) -> String {
        match &self.format {
            Some(format) => format!("{}@{format}", self.form.name()),
            None => self.form.name().to_owned(),
        }
    }

    fn settings(&self) -> Result<Settings, Failure> {
        let Some(format) = &self.format else { return Ok(Settings::default()) };
        Ok(if self.form.is_recurrent() {
            Settings { state_dtype: Some(format.parse()?), ..Settings::default() }
        } else {
            Settings { kv_dtype: Some(format.parse()?), ..Settings::default() }
        })
    }
}

/// The forms that are measured on a processor where neither forms nor tiers are named; a GPU has time for all.
const USUAL_FORMS: [Form; 2] = [Form::Gqa, Form::Mla];
/// The contexts of a GPU where none is named.
const GPU_CONTEXTS: [Tokens; 3] = [Tokens::new(4 << 10), Tokens::new(32 << 10), Tokens::new(128 << 10)];

/// The forms that the arguments ask for.
fn choices(arguments: &RunArguments) -> Vec<FormChoice> {
    if arguments.forms.is_empty() && arguments.tiers.is_empty() {
        let forms: Vec<Form> = match arguments.backend {
            Backend::Cpu => USUAL_FORMS.into(),
            // K/V heads behind an indexer have no kernels yet.
            Backend::Cuda => Form::all().filter(|form| *form != Form::IndexedGqa).collect(),
        };
        return forms.into_iter().map(|form| FormChoice { form, format: None }).collect();
    }
    distinct(arguments.forms.iter().cloned())
}

/// Every case that the arguments ask for, form by form.
pub(super) fn cases(arguments: &RunArguments) -> Result<Vec<CaseRequest>, Failure> {
    let contexts: Vec<Tokens> = match arguments.lengths.as_slice() {
        [] if arguments.backend == Backend::Cuda => GPU_CONTEXTS.to_vec(),
        [] => bench::DEFAULT_CONTEXTS.to_vec(),
        lengths => {
            let read = lengths.iter().map(|text| Ok(text.parse()?)).collect::<Result<Vec<_>, Failure>>()?;
            distinct(read)
        }
    };
    let caches: &[Cache] = match arguments.cache {
        CacheChoice::Cold => &[Cache::Cold],
        CacheChoice::Hot => &[Cache::Hot],
        CacheChoice::Both => &[Cache::Cold, Cache::Hot],
    };
    let choices = choices(arguments);
    let models = chosen_models(arguments, &choices)?;
    let mut cases = Vec::new();
    for (choice, id) in choices.iter().zip(models) {
        let model = Model::load(&id)?;
        warn(model.architecture.warnings().iter().map(|warning| (model.label.as_str(), warning)));
        let subject = Subject::find(&model.architecture, choice.form, &choice.settings()?)
            .map_err(|error| Failure::input(format!("{}: {error}", model.label)))?;
        for (context, cache) in
            contexts.iter().flat_map(|context| caches.iter().map(move |cache| (context, cache)))
        {
            cases.push(CaseRequest {
                form: choice.label(),
                shape: subject.shape,
                layers: subject.layers,
                model: model.label.clone(),
                context: *context,
                batch: arguments.batch,
                cache: *cache,
                sizing: subject.sizing.clone(),
            });
        }
    }
    Ok(cases)
}

/// The missing cases of a stored run, to be asked for again.
pub(super) fn of_stored(missing: &[&Case]) -> Result<Vec<CaseRequest>, Failure> {
    let mut subjects: Vec<(&str, &str, Subject)> = Vec::new();
    let mut cases = Vec::new();
    for case in missing {
        let known = subjects.iter().position(|(form, model, _)| (*form, *model) == (&case.form, &case.model));
        let place = if let Some(place) = known {
            place
        } else {
            let choice: FormChoice = case.form.parse().map_err(Failure::input)?;
            let model = Model::load(&case.model)?;
            let subject = Subject::find(&model.architecture, choice.form, &choice.settings()?)
                .map_err(|error| Failure::input(format!("{}: {error}", model.label)))?;
            subjects.push((&case.form, &case.model, subject));
            subjects.len() - 1
        };
        let subject = &subjects[place].2;
        cases.push(CaseRequest {
            form: case.form.clone(),
            shape: subject.shape,
            layers: subject.layers,
            model: case.model.clone(),
            context: case.context,
            batch: case.batch,
            cache: case.cache,
            sizing: subject.sizing.clone(),
        });
    }
    Ok(cases)
}

/// The model of each form: the one that is named for it, else the usual one.
fn chosen_models(arguments: &RunArguments, choices: &[FormChoice]) -> Result<Vec<String>, Failure> {
    let mut named: Vec<(Form, String)> = Vec::new();
    for text in &arguments.models {
        let (form, model) = text.split_once('=').ok_or_else(|| {
            Failure::input(format!("model: {text:?} is not FORM=MODEL, such as gqa=minimax-m2.7"))
        })?;
        named.push((
            form.parse().map_err(|error| Failure::input(format!("model: {error}")))?,
            model.to_owned(),
        ));
    }
    named.extend(arguments.gqa_model.clone().map(|model| (Form::Gqa, model)));
    named.extend(arguments.mla_model.clone().map(|model| (Form::Mla, model)));
    for (index, (form, _)) in named.iter().enumerate() {
        if named[..index].iter().any(|(earlier, _)| earlier == form) {
            return Err(Failure::input(format!("model: {} is given two models; give one", form.name())));
        }
        if !choices.iter().any(|choice| choice.form == *form) {
            let name = form.name();
            return Err(Failure::input(format!(
                "model: {name} has a model and is not in --forms; add it there"
            )));
        }
    }
    let models: Vec<String> = choices
        .iter()
        .map(|choice| {
            let own = named.iter().find(|(form, _)| *form == choice.form).map(|(_, model)| model.clone());
            own.or_else(|| choice.form.usual_model().map(str::to_owned)).ok_or_else(|| {
                let name = choice.form.name();
                Failure::input(format!(
                    "forms: no catalogue version has {name}; name a model by --model {name}=MODEL"
                ))
            })
        })
        .collect::<Result<_, _>>()?;
    if models.iter().filter(|model| *model == "-").count() > 1 {
        return Err(Failure::input("model: standard input holds one model; name the others by a file or id"));
    }
    Ok(models)
}

/// The same values in the same order, each once.
fn distinct<T: PartialEq>(values: impl IntoIterator<Item = T>) -> Vec<T> {
    let mut kept = Vec::new();
    for value in values {
        if !kept.contains(&value) {
            kept.push(value);
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_form_and_context_is_measured_once() {
        assert_eq!(distinct([Form::Gqa, Form::Mla, Form::Gqa]), [Form::Gqa, Form::Mla]);
    }

    #[test]
    fn a_form_may_have_a_format() {
        let choice: FormChoice = "gqa@fp8".parse().unwrap();
        assert_eq!((choice.label().as_str(), choice.form), ("gqa@fp8", Form::Gqa));
        assert_eq!(choice.settings().unwrap().kv_dtype, Some(kvscope_sizing::KvFormat::Fp8));
        let choice: FormChoice = "mamba2@bf16".parse().unwrap();
        assert_eq!(choice.settings().unwrap().state_dtype, Some(kvscope_sizing::StateFormat::Bf16));
        assert!("gqa@fp7".parse::<FormChoice>().unwrap().settings().is_err());
        assert!("gpa".parse::<FormChoice>().is_err());
    }
}
