//! What the server sends: requests, notifications, and results by their type.

/// How the engine responds to a request of the server, or to a requirement of input (specification 2025-11-25, "Roots",
/// "Sampling", "Elicitation"; 2026-07-28, "Multi Round-Trip Requests").
pub(crate) mod request {
    use crate::machine::QuirkKind;
    use crate::machine::table::{decision_table, values};

    values! {
        /// How the server asks: by a request in the legacy era or before the era is known, by a request in the modern
        /// era, which has none, or by an `input_required` result.
        Asked { Legacy, Modern, Input }

        Method {
            Ping,
            Roots,
            /// `elicitation/create`, by a form.
            Form,
            /// `elicitation/create`, at a URL.
            Url,
            /// `elicitation/create`, in an unknown mode.
            OtherMode,
            Sampling,
            /// `sampling/createMessage` whose tool results do not fit its tool uses.
            SamplingInvalid,
            /// `sampling/createMessage` or `elicitation/create` that violates the embedder's policy.
            Denied,
            Other,
        }

        /// Whether the client declared the capability on this connection. `OtherMode`: elicitation, but not this mode;
        /// or sampling, but not with tools.
        Declared { Declared, OtherMode, Undeclared }
    }

    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(crate) enum Answer {
        /// Respond with an empty result.
        Empty,
        /// Respond with the roots.
        Roots,
        /// Report the request to the embedder.
        Embedder,
        /// Refuse the method: -32601.
        RefuseMethod,
        /// Refuse the mode, or tools: -32602.
        RefuseMode,
        /// Refuse the parameters: -32602.
        RefuseParams,
        /// Refuse by policy: -1, or -32603 for an elicitation.
        RefusePolicy,
        /// Refuse, because too many are open: -32603.
        RefuseFull,
        /// Do not respond, and record the deviation.
        Ignore(QuirkKind),
        /// Give no input: the call ends with the server's requirement.
        Decline,
        /// End the connection of a server that sends requests without end while no responses are taken.
        EndConnection,
    }

    decision_table! {
        /// How the engine responds to a request of the server, or to a requirement of input. `overrun`: a limit on output
        /// that waits is reached; `full`: no request for the embedder has room.
        "server_request" decide(asked: Asked, overrun: bool, method: Method, declared: Declared, full: bool) -> Answer;
        (Modern)       (_)     (_)                 (_)                    (_)     => Ignore(QuirkKind::ServerRequest);
        (Legacy)       (true)  (_)                 (_)                    (_)     => EndConnection;
        else (Legacy|Input) (_)     (Ping)         (_)                    (_)     => Empty;
        else (Legacy|Input) (_)     (Other)        (_)                    (_)     => RefuseMethod;
        else (Legacy|Input) (_)     (Roots)        (Declared)             (_)     => Roots;
        else (Legacy)  (_)     (Roots)             (OtherMode|Undeclared) (_)     => RefuseMethod;
        (Input)        (_)     (Roots)             (OtherMode|Undeclared) (_)     => Decline;
        (Input)        (_)     (Form|Url|Sampling) (Declared)             (_)     => Embedder;
        else (Legacy)  (_)     (Form|Url|Sampling) (Declared)             (false) => Embedder;
        else (Legacy)  (_)     (Form|Url|Sampling) (Declared)             (true)  => RefuseFull;
        else (Legacy|Input) (_)     (OtherMode)    (Declared)             (_)     => RefuseMode;
        else (Legacy|Input) (_)     (SamplingInvalid)   (Declared)        (_)     => RefuseParams;
        else (Legacy|Input) (_)     (Denied)       (Declared)             (_)     => RefusePolicy;
        else (Legacy|Input) (_)     (Form|Url|OtherMode|Sampling|SamplingInvalid|Denied) (OtherMode)  (_) => RefuseMode;
        else (Legacy)  (_)     (Form|Url|OtherMode|Sampling|SamplingInvalid|Denied) (Undeclared) (_) => RefuseMethod;
        (Input)        (_)     (Form|Url|OtherMode|Sampling|SamplingInvalid|Denied) (Undeclared) (_) => Decline;
    }
}

/// What follows from a notification of the server.
pub(crate) mod notification {
    use crate::machine::table::{decision_table, values};

    values! {
        /// What the notification is about.
        Notification {
            /// A request of the server that it cancels.
            Cancelled,
            /// A listen stream that the server ends.
            StreamCancelled,
            /// The progress of an open request that asked for it.
            Progress,
            /// The end of an elicitation at a URL, which the client offers.
            ElicitationComplete,
            /// The acknowledgement of a listen stream.
            Acknowledged,
            ListChanged,
            /// The status of a task that a call runs as, while no request about the task is on its way.
            CallTask,
            /// As `CallTask`, while a request about the task is on its way.
            BusyTask,
            /// The status of another task.
            OtherTask,
            ResourceUpdated,
            Other,
        }

        /// How far the connection is.
        Phase { Handshake, Discovery, Ready }

        /// What follows.
        Route {
            /// The request of the server is withdrawn.
            Cancel,
            EndStream,
            /// The progress is reported, and the request gets more time.
            Progress,
            /// The end of the elicitation is reported, if it is one of this connection's.
            Elicitation,
            /// The table of the listen stream decides.
            Stream,
            /// The tables of discovery and refresh decide.
            Refresh,
            /// The table of the task decides.
            Task,
            Report,
            /// It is held until the client is ready, and then decided again.
            Hold,
            /// It is counted as left out.
            LeaveOut,
            /// Nothing: the response to the request about the task tells the same.
            Nothing,
        }
    }

    decision_table! {
        /// What follows from a notification. `foreign`: it names a listen stream that is not the client's.
        "notification" decide(notification: Notification, foreign: bool, phase: Phase) -> Route;
        (Cancelled)           (_)     (_)                   => Cancel;
        (StreamCancelled)     (_)     (_)                   => EndStream;
        (Progress)            (_)     (_)                   => Progress;
        (ElicitationComplete) (_)     (_)                   => Elicitation;
        (Acknowledged)        (_)     (Handshake)           => Hold;
        (Acknowledged)        (_)     (Discovery|Ready)     => Stream;
        (ListChanged|CallTask|BusyTask|OtherTask|ResourceUpdated) (true) (_) => LeaveOut;
        (ListChanged)         (false) (Handshake)           => Hold;
        (ListChanged)         (false) (Discovery|Ready)     => Refresh;
        (CallTask)            (false) (_)                   => Task;
        (BusyTask)            (false) (_)                   => Nothing;
        (OtherTask|ResourceUpdated) (false) (Handshake|Discovery) => Hold;
        (OtherTask|ResourceUpdated) (false) (Ready)         => Report;
        (Other)               (_)     (Handshake|Discovery) => Hold;
        (Other)               (_)     (Ready)               => Report;
    }
}

/// What a result is, by its type (specification 2026-07-28, "Overview", Result types). A legacy result has no type.
pub(crate) mod result {
    use crate::machine::table::{decision_table, values};
    use crate::protocol::Era;

    values! {
        /// The request that the result answers: of the embedder, for the status of a task, or another one of the engine.
        Request { Call, TaskStatus, Engine }

        /// The value of `resultType`.
        Type {
            Absent,
            Complete,
            InputRequired,
            /// `task`, where the client enables tasks and the request may have one. In 2025-11-25: the result describes a
            /// task.
            Task,
            /// One that an extension defines, which the client declares.
            Extension,
            Unknown,
        }

        /// What the result is.
        Content {
            /// The whole result.
            Complete,
            /// A round of input, which is required first.
            Input,
            /// A task, which the request runs as.
            Task,
            Invalid,
        }
    }

    decision_table! {
        /// What a result is.
        "result_type" decide(era: Era, request: Request, kind: Type) -> Content;
        (Legacy) (Call)              (Task)                      => Task;
        (Legacy) (Call)              (Absent|Complete|InputRequired|Extension|Unknown) => Complete;
        (Legacy) (TaskStatus|Engine) (_)                         => Complete;
        (Modern) (Call)              (Absent|Complete|Extension) => Complete;
        (Modern) (Call)              (InputRequired)             => Input;
        (Modern) (Call)              (Task)                      => Task;
        (Modern) (Call)              (Unknown)                   => Invalid;
        (Modern) (TaskStatus)        (Absent|Complete|Task)      => Complete;
        (Modern) (TaskStatus)        (InputRequired|Extension|Unknown) => Invalid;
        (Modern) (Engine)            (Absent|Complete)           => Complete;
        (Modern) (Engine)            (InputRequired|Task|Extension|Unknown) => Invalid;
    }
}
