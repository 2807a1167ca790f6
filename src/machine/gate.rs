#![doc = "Capability gating: what may be sent to a server, or taken from it, by what it declared."]
#![doc = ""]
#![doc = include_str!("gate.md")]

use super::{Decision, QuirkKind, alphabet};

alphabet! {
    /// What the decision is for.
    Purpose {
        /// Request the family's list in discovery.
        Discover,
        /// Take the family's list, which came.
        Listed,
        /// Request the family's list again, since the embedder wants it.
        Refresh,
        /// Request the family's list as a sign of life.
        Keepalive,
        /// Send a request that needs the capability.
        Call,
        /// Act on `list_changed` of the family.
        ListChanged,
        /// Ask to be told when the family's list changes.
        Listen,
        /// Tell the server the log level on a new connection.
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
        /// The server sent no capabilities.
        Unknown,
    }
}

alphabet! {
    /// What the embedder wants of capabilities that are not declared.
    Policy {
        /// Keep to what is declared.
        Strict,
        /// Try them.
        Lenient,
    }
}

alphabet! {
    /// What is known of the family's list; of a capability with several, the first of these that holds for one.
    Known {
        /// The whole list.
        Listed,
        /// A part of the list.
        Partial,
        /// The list failed.
        Failed,
        /// The server has no such method.
        Absent,
        /// Nothing: it was not requested.
        Unasked,
    }
}

/// Decides.
pub const fn decide(purpose: Purpose, declared: Declaration, policy: Policy, known: Known) -> Decision {
    match purpose {
        Purpose::Discover => match declared {
            Declaration::Declared | Declaration::Unknown => Decision::Allow,
            Declaration::Undeclared => match policy {
                Policy::Strict => Decision::Withhold,
                Policy::Lenient => Decision::Allow,
            },
        },
        Purpose::Listed => match declared {
            Declaration::Declared | Declaration::Unknown => Decision::Allow,
            Declaration::Undeclared => Decision::AllowAs(QuirkKind::UndeclaredFamily),
        },
        Purpose::Refresh => match known {
            Known::Listed | Known::Partial | Known::Failed => Decision::Allow,
            Known::Unasked | Known::Absent => Decision::Withhold,
        },
        Purpose::Keepalive => match known {
            Known::Listed => Decision::Allow,
            Known::Unasked | Known::Partial | Known::Absent | Known::Failed => Decision::Withhold,
        },
        // A family that was listed all the same is there, whatever the server declares.
        Purpose::Call => match declared {
            Declaration::Declared | Declaration::Unknown => Decision::Allow,
            Declaration::Undeclared => match known {
                Known::Listed | Known::Partial => Decision::Allow,
                Known::Unasked | Known::Absent | Known::Failed => Decision::Withhold,
            },
        },
        Purpose::ListChanged => match declared {
            Declaration::Declared | Declaration::Unknown => Decision::Allow,
            Declaration::Undeclared => match policy {
                Policy::Strict => Decision::WithholdAs(QuirkKind::UndeclaredListChanged),
                Policy::Lenient => Decision::Allow,
            },
        },
        Purpose::Listen => match declared {
            Declaration::Declared | Declaration::Unknown => Decision::Allow,
            Declaration::Undeclared => Decision::Withhold,
        },
        Purpose::SetLevel => match declared {
            Declaration::Declared => Decision::Allow,
            Declaration::Undeclared | Declaration::Unknown => Decision::Withhold,
        },
    }
}

/// [`decide`], recorded where rows are counted.
pub(crate) fn take(purpose: Purpose, declared: Declaration, policy: Policy, known: Known) -> Decision {
    #[cfg(feature = "rows")]
    super::rows::taken("gate", &[&purpose, &declared, &policy, &known]);
    decide(purpose, declared, policy, known)
}
