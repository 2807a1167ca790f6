//! The life of a request: one that may have run is not sent again without permission, and each ends once. Whose response
//! an id names, whether a request may run twice, and how it is cancelled.

use super::table::{decision_table, state_table, values};
use super::{QuirkKind, Wire};
use crate::protocol::Era;

values! {
    State {
        Queued,
        /// It is encoded, and not polled.
        Written,
        /// It was polled, and waits for its response.
        Sent,
        /// It waits for input that the server requires.
        Waiting,
        /// The server refused it unprocessed: it waits for authorization or headers.
        Blocked,
        /// It runs as a task, and nothing of it is in flight.
        Running,
        Ended,
    }

    Input {
        Write,
        /// The embedder polled it.
        Hand,
        Answered,
        /// Its response is invalid.
        Invalid,
        InputRequired,
        /// The server requires only that it is sent again.
        RetryRequired,
        InputGiven,
        /// The engine declines the input that is required.
        InputDeclined,
        /// The embedder declines what it waits for.
        Declined,
        Refused,
        /// What it was blocked for is available.
        Admitted,
        /// What it was blocked for is not available.
        Denied,
        /// It is sent again at once: with another id, or where it was redirected.
        Restarted,
        /// It did not reach the server.
        NotRun,
        /// It did not run, because the session expired.
        Expired,
        /// It did not run, because the server refused its version or era; a new handshake follows.
        VersionRefused,
        /// The session expired, and it may run twice.
        ExpiredReplayable,
        Cancelled,
        /// The engine does not need its response.
        Withdrawn,
        TimedOut,
        NotAdvertised,
        /// Its connection or exchange broke, and it may not run twice.
        Lost,
        /// As `Lost`, and it may run twice.
        LostReplayable,
        /// The connection broke while a request about its task was in flight.
        LostTask,
        TaskRuns,
        /// A request about its task is to be sent.
        TaskSends,
        /// The client closes.
        Closed,
    }

    Effect {
        Requeue,
        /// Requeue it with a new id on the wire.
        RequeueAnew,
        CountLoss,
        CountExpiry,
        AwaitInput,
        Block,
        AwaitTask,
        /// Withdraw it from the outputs.
        Retract,
        /// Cancel it at the server.
        Cancel,
        /// Drop its exchange.
        Drop,
        EndAnswered,
        EndInvalid,
        EndInputRequired,
        EndRefused,
        EndCancelled,
        EndTimedOut,
        EndNotAdvertised,
        EndUnsent,
        EndUnknown,
    }
}

state_table! {
    /// The life of a request: one that may have run is not sent again without permission, and each ends once.
    "request" step: State, Input, Effect;
    (Queued)  (Write)                                         => (Written);
    (Queued)  (NotAdvertised)                                 => (Ended)   [EndNotAdvertised];
    (Queued)  (Cancelled)                                     => (Ended)   [EndCancelled];
    (Queued)  (TimedOut)                                      => (Ended)   [EndTimedOut];
    (Queued)  (Closed)                                        => (Ended)   [EndUnsent];
    (Queued)  (Lost)                                          => stay      [Requeue];
    (Queued)  (Hand|Denied|Withdrawn)                         => never;

    (Written) (Hand)                                          => (Sent);
    (Written) (Cancelled|Withdrawn)                           => (Ended)   [Retract EndCancelled];
    (Written) (TimedOut)                                      => (Ended)   [Retract EndTimedOut];
    (Written) (Closed|Denied)                                 => (Ended)   [Retract EndUnsent];
    (Written) (Lost)                                          => (Queued)  [Retract Requeue];
    (Written) (Write|NotAdvertised)                           => never;

    (Sent)    (Answered)                                      => (Ended)   [EndAnswered];
    (Sent)    (Invalid)                                       => (Ended)   [EndInvalid];
    (Sent)    (InputRequired)                                 => (Waiting) [AwaitInput];
    (Sent)    (RetryRequired|NotRun)                          => (Queued)  [RequeueAnew];
    (Sent)    (Restarted)                                     => (Written);
    (Sent)    (Expired|VersionRefused)                        => (Queued)  [CountExpiry RequeueAnew];
    // It is sent again together with the others in flight that may run twice.
    (Sent)    (ExpiredReplayable)                             => stay      [CountExpiry];
    (Sent)    (Refused)                                       => (Blocked) [Block];
    (Sent)    (Cancelled)                                     => (Ended)   [Cancel EndCancelled];
    (Sent)    (Withdrawn)                                     => (Ended)   [Drop EndCancelled];
    (Sent)    (TimedOut)                                      => (Ended)   [Cancel EndTimedOut];
    (Sent)    (Lost|Closed)                                   => (Ended)   [EndUnknown];
    (Sent)    (LostReplayable)                                => (Queued)  [CountLoss RequeueAnew];
    (Sent)    (LostTask|TaskSends)                            => (Queued)  [RequeueAnew];
    (Sent)    (TaskRuns)                                      => (Running) [AwaitTask];
    (Sent)    (Write|Hand|NotAdvertised|InputDeclined|Admitted|Denied) => never;

    (Waiting) (InputGiven)                                    => (Queued)  [RequeueAnew];
    (Waiting) (InputDeclined|Declined|TimedOut|Closed)        => (Ended)   [EndInputRequired];
    (Waiting) (Cancelled)                                     => (Ended)   [EndCancelled];
    // Its task ended without the input.
    (Waiting) (Answered)                                      => (Ended)   [EndAnswered];
    (Waiting) (Invalid)                                       => (Ended)   [EndInvalid];
    // Its task goes on.
    (Waiting) (TaskRuns)                                      => stay;
    // Required input does not depend on the connection: its state is part of the retry.
    (Waiting) (Lost)                                          => stay;
    (Waiting) (Admitted|Denied)                               => never;

    (Blocked) (Admitted)                                      => (Queued)  [RequeueAnew];
    (Blocked) (Denied|Declined|TimedOut|Closed)               => (Ended)   [EndRefused];
    (Blocked) (Cancelled)                                     => (Ended)   [EndCancelled];
    // It did not run, so it can be sent on the next connection.
    (Blocked) (Lost)                                          => stay;
    (Blocked) (InputDeclined)                                 => never;

    (Running) (TaskRuns|Lost)                                 => stay;
    (Running) (TaskSends)                                     => (Queued)  [RequeueAnew];
    (Running) (InputRequired)                                 => (Waiting) [AwaitInput];
    (Running) (Answered)                                      => (Ended)   [EndAnswered];
    (Running) (Invalid)                                       => (Ended)   [EndInvalid];
    (Running) (Cancelled)                                     => (Ended)   [EndCancelled];
    (Running) (TimedOut)                                      => (Ended)   [EndTimedOut];
    (Running) (Closed)                                        => (Ended)   [EndUnknown];
    (Running) (InputDeclined|Admitted|Denied)                 => never;

    (Queued|Written|Sent|Running) (InputGiven|Declined)       => misuse;
    (Blocked) (InputGiven)                                    => misuse;
    (Queued|Written) (Answered|Invalid|InputRequired|RetryRequired|InputDeclined|Refused|Admitted|Restarted|NotRun|Expired|VersionRefused|ExpiredReplayable|LostReplayable|LostTask|TaskRuns|TaskSends) => never;
    (Waiting) (InputRequired|TaskSends)                       => never;
    (Blocked) (Answered|Invalid|InputRequired|TaskRuns|TaskSends) => never;
    (Waiting|Blocked|Running) (Write|Hand|RetryRequired|Refused|Restarted|NotRun|Expired|VersionRefused|ExpiredReplayable|Withdrawn|NotAdvertised|LostReplayable|LostTask) => never;
    (Ended) (Write|Hand|Answered|Invalid|InputRequired|RetryRequired|InputGiven|InputDeclined|Declined|Refused|Admitted|Denied|Restarted|NotRun|Expired|VersionRefused|ExpiredReplayable|Cancelled|Withdrawn|TimedOut|NotAdvertised|Lost|LostReplayable|LostTask|TaskRuns|TaskSends|Closed) => never;
}

values! {
    /// How a request was carried.
    Carrier {
        /// On a pipe, and no other connection follows.
        LastPipe,
        Pipe,
        Http,
    }

    /// What the embedder says of the request.
    ReplayPolicy { Allow, Forbid, Default }

    /// What is known of a request's effects.
    Effects {
        /// The method only reads.
        Reads,
        /// The server says of the tool that it modifies nothing, or that calls may be repeated.
        Harmless,
        Unknown,
    }
}

decision_table! {
    /// Whether a request may run twice: whether it is sent again although its response is lost. `again`: it was not sent
    /// again too often.
    "replay" may_replay(carrier: Carrier, policy: ReplayPolicy, effects: Effects, trusted: bool, again: bool) -> bool;
    (LastPipe)  (_)       (_)        (_)     (_)      => false;
    (Pipe|Http) (Allow)   (_)        (_)     (=again) => {again};
    (Pipe|Http) (Forbid)  (_)        (_)     (_)      => false;
    (Pipe)      (Default) (Reads)    (_)     (_)      => false;
    (Http)      (Default) (Reads)    (_)     (=again) => {again};
    (Pipe|Http) (Default) (Harmless) (true)  (=again) => {again};
    (Pipe|Http) (Default) (Harmless) (false) (_)      => false;
    (Pipe|Http) (Default) (Unknown)  (_)     (_)      => false;
}

values! {
    /// What the id of a response names.
    Id {
        /// A request that waits for its response.
        Waiting,
        /// As `Waiting`, with the id as another type.
        WaitingLoose,
        /// A request that was given up.
        Abandoned,
        /// A request of this connection that ended.
        Ended,
        /// No request of this connection; but it came in the HTTP exchange of one that waits.
        ForeignInExchange,
        /// No request of this connection; exactly one waits.
        ForeignOneWaits,
        /// No request of this connection.
        Foreign,
    }
}

/// The request that a response belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Match {
    /// The one that the id names.
    Named,
    NamedAs(QuirkKind),
    /// The one of the HTTP exchange.
    Exchange,
    /// The only one that waits.
    OnlyAs(QuirkKind),
    Late,
    NoneAs(QuirkKind),
}

decision_table! {
    /// The request that a response belongs to, by the response's id.
    "response" match_response(id: Id, is_error: bool) -> Match;
    (Waiting)           (_)      => Named;
    (WaitingLoose)      (_)      => NamedAs(QuirkKind::IdType);
    (Abandoned)         (_)      => Late;
    (Ended)             (_)      => NoneAs(QuirkKind::UnknownId);
    (ForeignInExchange) (true)   => Exchange;
    (ForeignInExchange) (false)  => NoneAs(QuirkKind::UnknownId);
    (ForeignOneWaits)   (true)   => OnlyAs(QuirkKind::IdNull);
    (ForeignOneWaits)   (false)  => NoneAs(QuirkKind::UnknownId);
    (Foreign)           (true)   => NoneAs(QuirkKind::IdNull);
    (Foreign)           (false)  => NoneAs(QuirkKind::UnknownId);
}

values! {
    /// What a request is whose response is not needed.
    Abandoned {
        Plain,
        CreatesTask,
        AboutTask,
        /// The engine's own, which is replaced.
        Dropped,
    }

    /// How the server learns that a response is not needed.
    CancelMethod {
        Notify,
        /// The exchange is closed, and the server notified.
        CloseAndNotify,
        Close,
        Nothing,
    }
}

decision_table! {
    /// How a server learns that the response to a request is not needed.
    "cancellation" cancel(wire: Wire, request: Abandoned, era: Era) -> CancelMethod;
    (Pipe) (Plain)                         (_)      => Notify;
    (Pipe) (CreatesTask|AboutTask|Dropped) (_)      => Nothing;
    (Http) (Plain)                         (Legacy) => CloseAndNotify;
    (Http) (Plain)                         (Modern) => Close;
    (Http) (CreatesTask|AboutTask|Dropped) (_)      => Close;
}
