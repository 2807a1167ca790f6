//! What follows when the exchange of a page breaks, and what an error in response to a list request in discovery
//! means: first whether the family is absent, then what a failed list affects.

use super::gate::Declaration;
use super::resend::Resend;
use super::{QuirkKind, alphabet};

alphabet! {
    /// When the exchange of a page broke.
    Phase {
        /// In discovery, before the client is ready.
        Discovery,
        /// Later.
        Ready,
    }
}

alphabet! {
    /// Whether a lost connection is opened again ([`Options::reconnect`]).
    ///
    /// [`Options::reconnect`]: crate::Options::reconnect
    Reconnect {
        /// It is.
        On,
        /// It is not.
        Off,
    }
}

alphabet! {
    /// What follows when the exchange of a page broke.
    Broken {
        /// The page is requested again.
        Again,
        /// The connection is lost: the server did not refuse the list, so another connection may give it.
        Lost,
        /// The list failed.
        Failed,
    }
}

/// What follows when the exchange of a page broke, by what the [`resend`](super::resend) table decides.
pub(crate) const fn broken(resend: Resend, phase: Phase, reconnect: Reconnect) -> Broken {
    match resend {
        Resend::Again => Broken::Again,
        Resend::End => match phase {
            Phase::Discovery => match reconnect {
                Reconnect::On => Broken::Lost,
                Reconnect::Off => Broken::Failed,
            },
            Phase::Ready => Broken::Failed,
        },
    }
}

alphabet! {
    /// What the error says.
    Class {
        /// -32601.
        MethodNotFound,
        /// Another code, with a text such as "method not found".
        SaysNotFound,
        /// Any other error, a timeout or an invalid result.
        Other,
    }
}

alphabet! {
    /// Which list failed.
    List {
        /// The list of tools.
        Tools,
        /// The list of prompts, resources or resource templates.
        Optional,
    }
}

alphabet! {
    /// The embedder's policy for a server that declares tools, but does not have the method
    /// ([`Tolerance::tools_absent`]).
    ///
    /// [`Tolerance::tools_absent`]: crate::Tolerance::tools_absent
    ToolsAbsent {
        /// The list fails.
        Fail,
        /// The family is absent.
        Tolerate,
    }
}

alphabet! {
    /// Whether an error's text may say that the method is absent ([`Tolerance::absent_by_text`]).
    ///
    /// [`Tolerance::absent_by_text`]: crate::Tolerance::absent_by_text
    ByText {
        /// Only the code decides.
        Ignore,
        /// Such a text counts as -32601.
        Believe,
    }
}

/// What an error means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Meaning {
    /// The family is absent, without a deviation of the server.
    Absent,
    /// The family is absent, although the server declared it.
    AbsentAs(QuirkKind),
    /// The list failed; [`cost`] decides.
    Failed,
}

/// Whether the family is absent.
pub(crate) const fn meaning(
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

/// The meaning of an error that does not say "method not found". A family that was not declared is absent.
const fn other(declared: Declaration) -> Meaning {
    match declared {
        Declaration::Undeclared => Meaning::Absent,
        Declaration::Declared | Declaration::Unknown => Meaning::Failed,
    }
}

alphabet! {
    /// The embedder's policy for a failed list ([`Tolerance::list_errors`]).
    ///
    /// [`Tolerance::list_errors`]: crate::Tolerance::list_errors
    Policy {
        /// The connection fails.
        Fail,
        /// Only the family fails.
        Degrade,
    }
}

alphabet! {
    /// What is known of the family's list, and whether the client was ready before.
    Held {
        /// The client was never ready, and has no items.
        FirstNothing,
        /// The client was never ready, and has the pages before the error.
        FirstPages,
        /// The client was ready on an earlier connection, which had no such list.
        LaterNothing,
        /// The client was ready on an earlier connection, which had no such list, and has the pages before the error.
        LaterPages,
        /// The client has the list of an earlier connection.
        Former,
    }
}

alphabet! {
    /// What a failed list affects.
    Cost {
        /// The connection.
        Fatal,
        /// The rest of the list; the received pages are kept.
        Rest,
        /// The whole list.
        List,
        /// Nothing: the list of an earlier connection is kept, and marked stale.
        Nothing,
    }
}

/// What a failed list affects.
pub(crate) const fn cost(policy: Policy, held: Held) -> Cost {
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

/// [`broken`], recorded with the feature `rows`.
pub(crate) fn take_broken(resend: Resend, phase: Phase, reconnect: Reconnect) -> Broken {
    #[cfg(feature = "rows")]
    super::rows::taken("list_error::broken", &[&resend, &phase, &reconnect]);
    broken(resend, phase, reconnect)
}

/// [`meaning`], recorded with the feature `rows`.
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

/// [`cost`], recorded with the feature `rows`.
pub(crate) fn take_cost(policy: Policy, held: Held) -> Cost {
    #[cfg(feature = "rows")]
    super::rows::taken("list_error::cost", &[&policy, &held]);
    cost(policy, held)
}
