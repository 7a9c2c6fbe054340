use kvscope_sizing::plan::{Field, Given, PlanKind};

/// The plan that is open, and what was typed for all of them.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct PlansView {
    /// The plan.
    pub plan: PlanKind,
    /// What differs from the usual, by the names of options; plans share those of one name.
    pub given: Given,
}

impl PlansView {
    /// What an option is given: what was typed, else what is usual; empty where that is nothing.
    pub fn value(&self, field: &Field) -> &str {
        self.given.text(field.name).unwrap_or(field.usual)
    }

    /// Takes what was typed; what is usual anyway is not kept.
    pub fn set(&mut self, field: &Field, typed: &str) {
        let typed = typed.trim();
        self.given.set(field.name, if typed == field.usual { "" } else { typed });
    }

    /// What the open plan is asked, its usual values among it.
    pub fn asked(&self) -> Given {
        let fields = self.plan.fields().iter();
        Given::of(fields.map(|field| (field.name, Some(self.value(field).to_owned()))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn field(plan: PlanKind, name: &str) -> &'static Field {
        plan.fields().iter().find(|field| field.name == name).unwrap()
    }

    #[test]
    fn what_is_usual_is_asked_and_not_kept() {
        let mut view = PlansView::default();
        let gpu = field(PlanKind::Capacity, "gpu");
        view.set(gpu, " h200 ");
        assert_eq!(view.given, Given::default());
        view.set(gpu, "b200");
        assert_eq!((view.value(gpu), view.asked().text("gpu")), ("b200", Some("b200")));
        assert_eq!(view.asked().text("mix"), None);
        // A value of another plan stays and is not asked.
        view.set(field(PlanKind::Prefix, "first"), "4Ki");
        assert_eq!(view.asked().text("first"), None);
        view.plan = PlanKind::Prefix;
        assert_eq!((view.asked().text("first"), view.asked().text("shared")), (Some("4Ki"), Some("9K")));
    }
}
