#![doc = "Capability gating: what may be sent to a server or accepted from it, by the capabilities that it declared."]
#![doc = ""]
#![doc = include_str!("gate.md")]

use super::{Decision, QuirkKind, alphabet};

alphabet! {
    /// What the decision is for.
    Use {
        /// To request the family's list in discovery.
        Discover,
        /// To use the family's list, which was received.
        Listed,
        /// To request the family's list again, for the embedder.
        Refresh,
        /// To request the family's list as a keepalive.
        Keepalive,
        /// To send a request that needs the capability.
        Call,
        /// To act on `list_changed` of the family.
        ListChanged,
        /// To subscribe to changes of the family's list.
        Listen,
        /// To send the log level on a new connection.
        SetLevel,
    }
}

alphabet! {
    /// What the server's capabilities say.
    Declaration {
        /// The capability is declared.
        Declared,
        /// The capability is not declared.
        Undeclared,
        /// The server did not send its capabilities.
        Unknown,
    }
}

alphabet! {
    /// The embedder's policy for capabilities that are not declared.
    Policy {
        /// Use only declared capabilities.
        Strict,
        /// Use undeclared capabilities, too.
        Lenient,
    }
}

alphabet! {
    /// What is known of the family's list. For a capability with several families: the first of these values that one
    /// of them has.
    Known {
        /// The whole list.
        Listed,
        /// A part of the list.
        Partial,
        /// The list failed.
        Failed,
        /// The server does not have the method.
        Absent,
        /// Nothing: the list was not requested.
        NotRequested,
    }
}

/// Returns the decision for these inputs.
pub const fn decide(purpose: Use, declared: Declaration, policy: Policy, known: Known) -> Decision {
    match purpose {
        Use::Discover => match declared {
            Declaration::Declared | Declaration::Unknown => Decision::Allow,
            Declaration::Undeclared => match policy {
                Policy::Strict => Decision::Withhold,
                Policy::Lenient => Decision::Allow,
            },
        },
        Use::Listed => match declared {
            Declaration::Declared | Declaration::Unknown => Decision::Allow,
            Declaration::Undeclared => Decision::AllowAs(QuirkKind::UndeclaredFamily),
        },
        Use::Refresh => match known {
            Known::Listed | Known::Partial | Known::Failed => Decision::Allow,
            Known::NotRequested | Known::Absent => Decision::Withhold,
        },
        Use::Keepalive => match known {
            Known::Listed => Decision::Allow,
            Known::NotRequested | Known::Partial | Known::Absent | Known::Failed => Decision::Withhold,
        },
        // A family that has a list exists, even if the server does not declare it.
        Use::Call => match declared {
            Declaration::Declared | Declaration::Unknown => Decision::Allow,
            Declaration::Undeclared => match known {
                Known::Listed | Known::Partial => Decision::Allow,
                Known::NotRequested | Known::Absent | Known::Failed => Decision::Withhold,
            },
        },
        Use::ListChanged => match declared {
            Declaration::Declared | Declaration::Unknown => Decision::Allow,
            Declaration::Undeclared => match policy {
                Policy::Strict => Decision::WithholdAs(QuirkKind::UndeclaredListChanged),
                Policy::Lenient => Decision::Allow,
            },
        },
        Use::Listen => match declared {
            Declaration::Declared | Declaration::Unknown => Decision::Allow,
            Declaration::Undeclared => Decision::Withhold,
        },
        Use::SetLevel => match declared {
            Declaration::Declared => Decision::Allow,
            Declaration::Undeclared | Declaration::Unknown => Decision::Withhold,
        },
    }
}

/// [`decide`], recorded with the feature `rows`.
pub(crate) fn take(purpose: Use, declared: Declaration, policy: Policy, known: Known) -> Decision {
    #[cfg(feature = "rows")]
    super::rows::taken("gate", &[&purpose, &declared, &policy, &known]);
    decide(purpose, declared, policy, known)
}
