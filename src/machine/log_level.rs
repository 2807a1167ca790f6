//! What it means that a server refuses `logging/setLevel`, although it declares `logging`. The level is not set.

use super::list_error::{ByText, Class};
use super::{Decision, QuirkKind};

/// Returns the decision for these inputs: the level is not set, and whether that is a deviation.
pub(crate) const fn decide(class: Class, by_text: ByText) -> Decision {
    match class {
        Class::MethodNotFound => Decision::WithholdAs(QuirkKind::MethodNotFound),
        Class::SaysNotFound => match by_text {
            ByText::Believe => Decision::WithholdAs(QuirkKind::MethodNotFoundText),
            ByText::Ignore => Decision::Withhold,
        },
        Class::Other => Decision::Withhold,
    }
}

/// [`decide`], recorded with the feature `rows`.
pub(crate) fn take(class: Class, by_text: ByText) -> Decision {
    #[cfg(feature = "rows")]
    super::rows::taken("log_level", &[&class, &by_text]);
    decide(class, by_text)
}
