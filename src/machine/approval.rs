#![doc = "Whether a user should approve a call of a tool before it is sent."]
#![doc = ""]
#![doc = "\"Clients MUST consider tool annotations to be untrusted unless they come from trusted servers\" (specification"]
#![doc = "2026-07-28, \"Tools\")."]
#![doc = ""]
#![doc = include_str!("approval.md")]

use super::alphabet;

alphabet! {
    /// Whether the embedder trusts the server's annotations.
    Trust {
        /// It does.
        Trusted,
        /// It does not.
        Untrusted,
    }
}

alphabet! {
    /// What the server says about the tool.
    Hint {
        /// The tool modifies nothing (`readOnlyHint`).
        ReadOnly,
        /// The tool may modify something, or nothing is said.
        Other,
    }
}

alphabet! {
    /// Whether a call should be approved.
    Approval {
        /// The call may be made without the user.
        NotNeeded,
        /// The user should approve the call.
        Needed,
    }
}

/// Returns the decision for these inputs.
pub const fn decide(trust: Trust, hint: Hint) -> Approval {
    match trust {
        Trust::Trusted => match hint {
            Hint::ReadOnly => Approval::NotNeeded,
            Hint::Other => Approval::Needed,
        },
        Trust::Untrusted => match hint {
            Hint::ReadOnly | Hint::Other => Approval::Needed,
        },
    }
}

/// [`decide`], recorded with the feature `rows`.
pub(crate) fn take(trust: Trust, hint: Hint) -> Approval {
    #[cfg(feature = "rows")]
    super::rows::taken("approval", &[&trust, &hint]);
    decide(trust, hint)
}
