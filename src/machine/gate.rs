//! Capability gating: what may be sent to a server or accepted from it, by the capabilities that it declared.

use super::table::{decision_table, values};
use super::{Decision, QuirkKind};

values! {
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

    /// What the server's capabilities say. `Unknown`: the server did not send them.
    Declaration { Declared, Undeclared, Unknown }

    /// What is known of the family's list. For a capability with several families: the first of these values that one
    /// of them has.
    Known { Listed, Partial, Failed, Absent, NotRequested }
}

decision_table! {
    /// What may be sent to a server or accepted from it, by the capabilities that it declared. `lenient`: the embedder
    /// tolerates that they are not declared.
    "gate" decide(purpose: Use, declared: Declaration, lenient: bool, known: Known) -> Decision;
    (Discover)    (Declared|Unknown)   (_)       (_)                              => Allow;
    (Discover)    (Undeclared)         (false)   (_)                              => Withhold;
    (Discover)    (Undeclared)         (true)    (_)                              => Allow;
    (Listed)      (Declared|Unknown)   (_)       (_)                              => Allow;
    (Listed)      (Undeclared)         (_)       (_)                              => AllowAs(QuirkKind::UndeclaredFamily);
    (Refresh)     (_)                  (_)       (Listed|Partial|Failed)          => Allow;
    (Refresh)     (_)                  (_)       (Absent|NotRequested)            => Withhold;
    (Keepalive)   (_)                  (_)       (Listed)                         => Allow;
    (Keepalive)   (_)                  (_)       (Partial|Failed|Absent|NotRequested) => Withhold;
    (Call)        (Declared|Unknown)   (_)       (_)                              => Allow;
    // A family that has a list exists, even if the server does not declare it.
    (Call)        (Undeclared)         (_)       (Listed|Partial)                 => Allow;
    (Call)        (Undeclared)         (_)       (Failed|Absent|NotRequested)     => Withhold;
    (ListChanged) (Declared|Unknown)   (_)       (_)                              => Allow;
    (ListChanged) (Undeclared)         (false)   (_)                              => WithholdAs(QuirkKind::UndeclaredListChanged);
    (ListChanged) (Undeclared)         (true)    (_)                              => Allow;
    (Listen)      (Declared|Unknown)   (_)       (_)                              => Allow;
    (Listen)      (Undeclared)         (_)       (_)                              => Withhold;
    (SetLevel)    (Declared)           (_)       (_)                              => Allow;
    (SetLevel)    (Undeclared|Unknown) (_)       (_)                              => Withhold;
}
