//! The lists of a server: discovery on a connection, refresh after it, the pages of one list, and errors of lists.

/// Discovery of one family on one connection (specification 2026-07-28, "Pagination").
pub(crate) mod discovery {
    use crate::machine::table::{state_table, values};

    values! {
        /// What is known of the family's list.
        #[derive(Default)]
        State {
            #[default]
            NotRequested,
            NotAdvertised,
            Listing,
            /// As `Listing`, and the list changed meanwhile.
            ListingStale,
            /// The list is being received for the second time, because it changed during the first.
            Relisting,
            RelistingStale,
            Listed,
            /// The server declared the capability, but does not have the method.
            Absent,
            /// A limit or an error ended the list; the pages before it are kept.
            Partial,
            Failed,
        }

        /// What happens to the list.
        Input {
            Advertised,
            NotAdvertised,
            /// The whole list was received.
            Whole,
            /// A limit ended the list; its beginning was received.
            Part,
            /// The server does not have the method, which is tolerated.
            Absent,
            /// The list failed, and the connection fails with it.
            ErrorFatal,
            /// The list failed; the pages that were received are kept.
            ErrorPartial,
            /// The list failed, and no items are kept.
            ErrorList,
            /// The list failed; the list of an earlier connection is kept.
            ErrorStale,
            ListChanged,
            /// The list may have changed unnoticed.
            Outdated,
            /// The embedder or the engine needs the list again.
            Wanted,
        }

        Effect {
            Request,
            /// Make the received pages the family's list.
            Commit,
            /// Drop the received pages.
            Drop,
            /// Remove all items of the family.
            Clear,
            /// Fail the connection.
            Fail,
            /// Tell the refresh that the list changed.
            Refresh,
            /// Tell the refresh that the list may have changed.
            Recheck,
            /// Tell the refresh that the list is needed.
            Renew,
            /// Report that there is no list.
            Deny,
        }
    }

    state_table! {
        /// Discovery of one family on one connection.
        "discovery" step: State, Input, Effect;
        (NotRequested)   (Advertised)               => (Listing)       [Request];
        (NotRequested)   (NotAdvertised)            => (NotAdvertised) [Clear];
        (NotRequested)   (Whole|Part|Absent|ErrorFatal|ErrorPartial|ErrorList|ErrorStale|ListChanged|Outdated|Wanted) => never;
        (NotAdvertised)  (ListChanged)              => (Listing)       [Request];
        // The server declares the family by now.
        (NotAdvertised)  (Outdated)                 => ignore;
        (NotAdvertised)  (Wanted)                   => stay            [Deny];
        (NotAdvertised)  (Advertised|NotAdvertised|Whole|Part|Absent|ErrorFatal|ErrorPartial|ErrorList|ErrorStale) => never;
        (Listing)        (Whole)                    => (Listed)        [Commit];
        (Listing)        (Part|ErrorPartial)        => (Partial)       [Commit];
        (Listing)        (ErrorFatal)               => (Failed)        [Drop Fail];
        (Listing)        (ErrorList)                => (Failed)        [Drop];
        (Listing)        (ListChanged|Outdated)     => (ListingStale);
        (ListingStale)   (Whole|Part)               => (Relisting)     [Commit Request];
        (ListingStale)   (ErrorPartial)             => (Partial)       [Commit Refresh];
        (ListingStale)   (ErrorFatal)               => (Failed)        [Drop Fail];
        (ListingStale)   (ErrorList)                => (Failed)        [Drop Refresh];
        (ListingStale)   (ListChanged|Outdated)     => ignore;
        // The first list was taken already, so an error of the second one is tolerated.
        (Relisting)      (Whole)                    => (Listed)        [Commit];
        (Relisting)      (Part)                     => (Partial)       [Commit];
        (Relisting)      (ErrorFatal|ErrorPartial|ErrorList) => (Listed) [Drop Refresh];
        (Relisting)      (ListChanged|Outdated)     => (RelistingStale);
        // There is no third list: a client of a server that changes its list all the time would never be ready.
        (RelistingStale) (Whole)                    => (Listed)        [Commit Refresh];
        (RelistingStale) (Part)                     => (Partial)       [Commit Refresh];
        (RelistingStale) (ErrorFatal|ErrorPartial|ErrorList) => (Listed) [Drop Refresh];
        (RelistingStale) (ListChanged|Outdated)     => ignore;
        (Listing|ListingStale|Relisting|RelistingStale) (Absent)     => (Absent) [Drop Clear];
        (Listing|ListingStale|Relisting|RelistingStale) (ErrorStale) => (Listed) [Drop Refresh];
        // A family that was not declared at first is listed while calls are made.
        (Listing|ListingStale|Relisting|RelistingStale) (Wanted)     => stay     [Deny];
        (Listing|ListingStale|Relisting|RelistingStale) (Advertised|NotAdvertised) => never;
        (Listed|Partial|Failed) (ListChanged)       => stay            [Refresh];
        (Listed|Partial|Failed) (Outdated)          => stay            [Recheck];
        (Listed|Partial|Failed) (Wanted)            => stay            [Renew];
        (Listed|Partial|Failed) (Advertised|NotAdvertised|Whole|Part|Absent|ErrorFatal|ErrorPartial|ErrorList|ErrorStale) => never;
        // The method does not exist, so the list is not requested again.
        (Absent)         (Wanted)                   => stay            [Deny];
        (Absent)         (ListChanged|Outdated) => ignore;
        (Absent)         (Advertised|NotAdvertised|Whole|Part|Absent|ErrorFatal|ErrorPartial|ErrorList|ErrorStale) => never;
    }
}

/// How a family's list is kept up to date after discovery: changes are debounced, and refreshes never overlap.
pub(crate) mod refresh {
    use crate::machine::table::{product, state_table, values};

    values! {
        #[derive(Default)]
        Phase {
            #[default]
            Idle,
            /// The list is requested when the timer fires.
            Due,
            Receiving,
        }

        /// Why the list is requested. An announced change counts in loop detection; without one, the embedder or the
        /// engine needs the list, or it may have changed unnoticed.
        #[derive(Default)]
        Why { #[default] Asked, Announced }

        /// Whether the list that is being received is requested again, and why.
        #[derive(Default)]
        Again { #[default] No, Asked, Announced }

        /// What happens to a refresh.
        Input {
            ListChanged,
            /// The list may have changed unnoticed.
            Outdated,
            /// The embedder or the engine needs the list.
            Wanted,
            Timer,
            /// The whole list was received, and differs from the known one.
            Differs,
            /// The whole list was received, and is the same as the known one.
            Same,
            /// As `Same`, after an announced change, for the third time in a row or more.
            SameAgain,
            /// A limit ended the list; its beginning was received.
            Part,
            Failed,
        }

        Effect {
            /// Start the wait for more changes; it also keeps the minimum interval between refreshes.
            Arm,
            /// Start a wait that grows with each failure.
            ArmRetry,
            Request,
            /// Make the received list the family's list.
            Commit,
            /// Make the received pages the family's list, which is partial.
            CommitPart,
            /// Count an announced change that was none.
            Count,
            /// Double the interval between refreshes, because they find no change.
            Slow,
            /// Restore the usual interval, and the count of announced changes that were none.
            Steady,
            /// Drop the received pages, and keep the last list.
            Drop,
        }
    }

    product! {
        #[derive(Default)]
        State { phase: Phase, why: Why, again: Again }
    }

    state_table! {
        /// How a family's list is kept up to date after discovery.
        "refresh" step: State { phase: Phase, why: Why, again: Again }, Input, Effect;
        (Idle)      (_)         (_)         (ListChanged)    => (Due)       (Announced) (No)    [Arm];
        (Idle)      (_)         (_)         (Outdated)       => (Due)       (Asked)     (No)    [Arm];
        (Idle)      (_)         (_)         (Wanted)         => (Receiving) (Asked)     (No)    [Request];
        (Idle)      (_)         (_)         (Timer|Differs|Same|SameAgain|Part|Failed) => never;
        (Due)       (Asked)     (_)         (ListChanged)    => (Due)       (Announced) (No);
        (Due)       (_)         (_)         (Timer|Wanted)   => (Receiving) (_)         (No)    [Request];
        else (Due)  (_)         (_)         (ListChanged|Outdated) => ignore;
        (Due)       (_)         (_)         (Differs|Same|SameAgain|Part|Failed) => never;
        (Receiving) (_)         (No|Asked)  (ListChanged)    => (_)         (_)         (Announced);
        (Receiving) (_)         (No)        (Outdated|Wanted) => (_)        (_)         (Asked);
        (Receiving) (_)         (No)        (Differs)        => (Idle)      (Asked)     (No)    [Commit Steady];
        (Receiving) (_)         (No)        (Part)           => (Idle)      (Asked)     (No)    [CommitPart Steady];
        (Receiving) (Asked)     (No)        (Same)           => (Idle)      (Asked)     (No)    [Commit];
        (Receiving) (Announced) (No)        (Same)           => (Idle)      (Asked)     (No)    [Commit Count];
        (Receiving) (Announced) (No)        (SameAgain)      => (Idle)      (Asked)     (No)    [Commit Count Slow] ! ListChangedLoop;
        (Receiving) (_)         (Asked)     (Differs)        => (Due)       (Asked)     (No)    [Commit Steady Arm];
        (Receiving) (_)         (Announced) (Differs)        => (Due)       (Announced) (No)    [Commit Steady Arm];
        (Receiving) (_)         (Asked)     (Part)           => (Due)       (Asked)     (No)    [CommitPart Steady Arm];
        (Receiving) (_)         (Announced) (Part)           => (Due)       (Announced) (No)    [CommitPart Steady Arm];
        (Receiving) (Asked)     (Asked)     (Same)           => (Due)       (Asked)     (No)    [Commit Arm];
        (Receiving) (Asked)     (Announced) (Same)           => (Due)       (Announced) (No)    [Commit Arm];
        (Receiving) (Announced) (Asked)     (Same)           => (Due)       (Asked)     (No)    [Commit Count Arm];
        (Receiving) (Announced) (Announced) (Same)           => (Due)       (Announced) (No)    [Commit Count Arm];
        (Receiving) (Announced) (Asked)     (SameAgain)      => (Due)       (Asked)     (No)    [Commit Count Slow Arm] ! ListChangedLoop;
        (Receiving) (Announced) (Announced) (SameAgain)      => (Due)       (Announced) (No)    [Commit Count Slow Arm] ! ListChangedLoop;
        (Receiving) (Announced) (_)         (Failed)         => (Due)       (Announced) (No)    [Drop ArmRetry];
        (Receiving) (Asked)     (Announced) (Failed)         => (Due)       (Announced) (No)    [Drop ArmRetry];
        (Receiving) (Asked)     (No|Asked)  (Failed)         => (Due)       (Asked)     (No)    [Drop ArmRetry];
        (Receiving) (Asked)     (_)         (SameAgain)      => never;
        (Receiving) (_)         (Asked|Announced) (Outdated|Wanted) => ignore;
        (Receiving) (_)         (Announced) (ListChanged)    => ignore;
        (Receiving) (_)         (_)         (Timer)          => never;
    }
}

/// What follows from a page of a list (specification 2026-07-28, "Pagination").
pub(crate) mod paging {
    use crate::machine::QuirkKind;
    use crate::machine::table::{decision_table, values};

    values! {
        /// The limit that the list reaches. `Items`: of items or bytes; a part of the page was left out.
        Limit { None, Items, Pages }

        /// The cursor of the next page: none, one that is new in this list, or one again.
        Cursor { None, New, Again }
    }

    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(crate) enum Next {
        Request,
        RequestAs(QuirkKind),
        /// The whole list was received.
        Whole,
        WholeAs(QuirkKind),
        /// The list ends here; its beginning was received.
        PartAs(QuirkKind),
    }

    decision_table! {
        /// What follows from a page of a list. `adds`: it has items that are new in the list.
        "paging" decide(limit: Limit, cursor: Cursor, adds: bool) -> Next;
        (Items)      (_)                (_)     => PartAs(QuirkKind::ListLimit);
        (None|Pages) (None)             (_)     => Whole;
        // Some servers end their lists with an empty cursor.
        (None|Pages) (Again)            (false) => WholeAs(QuirkKind::CursorLoop);
        (Pages)      (New)              (_)     => PartAs(QuirkKind::ListLimit);
        (Pages)      (Again)            (true)  => PartAs(QuirkKind::ListLimit);
        (None)       (New)              (_)     => Request;
        // Cursors are opaque: a repeated one may still lead to new items.
        (None)       (Again)            (true)  => RequestAs(QuirkKind::CursorLoop);
    }
}

/// What an error in response to a list request means in discovery: whether the family is absent, and if not, what the
/// failed list affects.
pub(crate) mod error {
    use super::discovery::Input;
    use crate::machine::QuirkKind;
    use crate::machine::gate::Declaration;
    use crate::machine::table::{decision_table, values};

    values! {
        /// What the error says of the method.
        Class {
            MethodNotFound,
            /// Another code than -32601, with a text that says so, which the embedder lets count.
            SaysNotFound,
            Other,
        }

        /// What the client holds of the list.
        Held {
            /// The client was never ready, and has no items.
            FirstNothing,
            /// The client was never ready, and has the pages before the error.
            FirstPages,
            /// The client was ready on an earlier connection, which had no such list.
            LaterNothing,
            /// As `LaterNothing`, and the client has the pages before the error.
            LaterPages,
            /// The client has the list of an earlier connection.
            Former,
        }
    }

    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(crate) enum Absence {
        Absent,
        /// The family is absent, although the server declared it.
        AbsentAs(QuirkKind),
        Failed,
    }

    decision_table! {
        /// Whether a family is absent whose list failed. `required`: the server has to have the list.
        "list_error::absence" absence(declared: Declaration, class: Class, required: bool) -> Absence;
        (Undeclared)       (_)                           (_)        => Absent;
        (Declared)         (MethodNotFound)              (false)    => AbsentAs(QuirkKind::MethodNotFound);
        (Declared)         (SaysNotFound)                (false)    => AbsentAs(QuirkKind::MethodNotFoundText);
        (Unknown)          (MethodNotFound|SaysNotFound) (false)    => Absent;
        (Declared|Unknown) (MethodNotFound|SaysNotFound) (true)     => Failed;
        (Declared|Unknown) (Other)                       (_)        => Failed;
    }

    decision_table! {
        /// What a failed list affects. `degrade`: only the family, by the embedder's policy.
        "list_error::cost" cost(degrade: bool, held: Held) -> Input;
        (false)   (FirstNothing|FirstPages) => ErrorFatal;
        (true)    (FirstNothing)            => ErrorList;
        (true)    (FirstPages)              => ErrorPartial;
        (_)       (LaterNothing)            => ErrorList;
        (_)       (LaterPages)              => ErrorPartial;
        (_)       (Former)                  => ErrorStale;
    }
}
