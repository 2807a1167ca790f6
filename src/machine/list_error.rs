#![doc = "What an error in the answer to a list in discovery means: first whether the family is absent, then what a"]
#![doc = "failed list costs."]
#![doc = ""]
#![doc = include_str!("list_error.md")]

use super::gate::Declaration;
use super::{QuirkKind, alphabet};

alphabet! {
    /// What the error says.
    Class {
        /// -32601.
        MethodNotFound,
        /// Another code of the server's, with a text such as "method not found".
        SaysNotFound,
        /// Any other error, a time-out and a result that makes no sense included.
        Other,
    }
}

alphabet! {
    /// Which list failed.
    List {
        /// The tools, which a client is usually there for.
        Tools,
        /// Prompts, resources or resource templates.
        Optional,
    }
}

alphabet! {
    /// What the embedder wants where a server that declares tools has none ([`Tolerance::tools_absent`]).
    ///
    /// [`Tolerance::tools_absent`]: crate::Tolerance::tools_absent
    ToolsAbsent {
        /// The list has failed.
        Fail,
        /// The family is absent.
        Tolerate,
    }
}

alphabet! {
    /// Whether an error's text counts ([`Tolerance::absent_by_text`]).
    ///
    /// [`Tolerance::absent_by_text`]: crate::Tolerance::absent_by_text
    ByText {
        /// Only the code counts.
        Ignore,
        /// The text counts as -32601.
        Believe,
    }
}

/// What an error means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Meaning {
    /// The family is absent, and the server did nothing wrong.
    Absent,
    /// The family is absent, though the server declared it.
    AbsentAs(QuirkKind),
    /// The list failed; [`cost`] decides.
    Failed,
}

/// Whether the family is absent.
pub const fn meaning(
    class: Class,
    declared: Declaration,
    list: List,
    tools_absent: ToolsAbsent,
    by_text: ByText,
) -> Meaning {
    let quirk = match class {
        Class::MethodNotFound => QuirkKind::MethodNotFound,
        Class::SaysNotFound => match by_text {
            ByText::Believe => QuirkKind::MethodNotFoundText,
            ByText::Ignore => return other(declared),
        },
        Class::Other => return other(declared),
    };
    match declared {
        Declaration::Undeclared => Meaning::Absent,
        Declaration::Declared => match list {
            List::Optional => Meaning::AbsentAs(quirk),
            List::Tools => match tools_absent {
                ToolsAbsent::Tolerate => Meaning::AbsentAs(quirk),
                ToolsAbsent::Fail => Meaning::Failed,
            },
        },
        Declaration::Unknown => match list {
            List::Optional => Meaning::Absent,
            List::Tools => match tools_absent {
                ToolsAbsent::Tolerate => Meaning::Absent,
                ToolsAbsent::Fail => Meaning::Failed,
            },
        },
    }
}

/// Of an error that does not say that the method is unknown. A family that was not declared costs nothing.
const fn other(declared: Declaration) -> Meaning {
    match declared {
        Declaration::Undeclared => Meaning::Absent,
        Declaration::Declared | Declaration::Unknown => Meaning::Failed,
    }
}

alphabet! {
    /// What the embedder wants where a list fails ([`Tolerance::list_errors`]).
    ///
    /// [`Tolerance::list_errors`]: crate::Tolerance::list_errors
    Policy {
        /// The connection fails.
        Fail,
        /// The family fails alone.
        Degrade,
    }
}

alphabet! {
    /// What is held of the family's list, and whether the client was ready before.
    Held {
        /// It was never ready, and holds nothing.
        FirstNothing,
        /// It was never ready, and holds the pages that came before the error.
        FirstPages,
        /// It was ready on an earlier connection, which had no such list.
        LaterNothing,
        /// It was ready on an earlier connection, which had no such list, and holds the pages that came before the error.
        LaterPages,
        /// It holds the list of an earlier connection.
        Former,
    }
}

alphabet! {
    /// What a failed list costs.
    Cost {
        /// The connection.
        Fatal,
        /// The rest of the list; the pages that came are kept.
        Rest,
        /// The whole list.
        List,
        /// Nothing for now: the list of an earlier connection stays, marked stale.
        Nothing,
    }
}

/// What a failed list costs.
pub const fn cost(policy: Policy, held: Held) -> Cost {
    match held {
        Held::FirstNothing => match policy {
            Policy::Fail => Cost::Fatal,
            Policy::Degrade => Cost::List,
        },
        Held::FirstPages => match policy {
            Policy::Fail => Cost::Fatal,
            Policy::Degrade => Cost::Rest,
        },
        Held::LaterNothing => Cost::List,
        Held::LaterPages => Cost::Rest,
        Held::Former => Cost::Nothing,
    }
}

/// [`meaning`], recorded where rows are counted.
pub(crate) fn take_meaning(
    class: Class,
    declared: Declaration,
    list: List,
    tools_absent: ToolsAbsent,
    by_text: ByText,
) -> Meaning {
    #[cfg(feature = "rows")]
    super::rows::taken("list_error::meaning", &[&class, &declared, &list, &tools_absent, &by_text]);
    meaning(class, declared, list, tools_absent, by_text)
}

/// [`cost`], recorded where rows are counted.
pub(crate) fn take_cost(policy: Policy, held: Held) -> Cost {
    #[cfg(feature = "rows")]
    super::rows::taken("list_error::cost", &[&policy, &held]);
    cost(policy, held)
}
