//! A connection over HTTP: its phase, the transport that the server has, the GET stream, and when a message is sent.

/// The phase of a connection.
pub(crate) mod phase {
    use super::super::table::{state_table, values};

    values! {
        State {
            /// There is no connection.
            Idle,
            /// The connection and the handshake are in progress.
            Opening,
            /// `notifications/initialized` is not accepted yet. Beside it, only responses to server requests are sent.
            Accepting,
            /// Tool calls wait for the GET stream, on which the server may send requests during them.
            AwaitingStream,
            /// Every message may be sent.
            Live,
            /// The client closes: responses to server requests are in flight.
            Ending,
            /// The client closes: the DELETE of the session is in flight.
            Deleting,
        }

        Input {
            /// The engine wants a connection.
            Connect,
            /// The handshake is complete, in the modern era.
            Established,
            /// The handshake is complete, in the legacy era: `notifications/initialized` is sent when it is polled.
            InitializedSent,
            /// The POST of `notifications/initialized` broke before its response, for the first time.
            InitializedBroke,
            /// The POST of `notifications/initialized` broke before its response again.
            InitializedBrokeAgain,
            /// The POST of `notifications/initialized` ended, and the server may have a GET stream.
            Accepted,
            /// The POST of `notifications/initialized` ended, and the server has HTTP+SSE.
            AcceptedSse,
            /// The GET stream is open, is refused or failed, or the wait for it is over.
            StreamDecided,
            /// A lost connection is to be shut down. Another one may follow.
            Retire,
            /// The client closes, and responses to server requests are not delivered yet.
            CloseOwing,
            /// The client closes, and only the session is left to end.
            CloseSession,
            /// The client closes, and nothing is left.
            CloseNothing,
            /// The time for the responses is over, and there is a session to end.
            OverdueSession,
            /// The time for the last step is over.
            Overdue,
            /// The DELETE ended.
            Deleted,
        }

        Effect {
            /// Send `notifications/initialized` again.
            SendInitialized,
            /// Report that the connection broke.
            ReportBroken,
            /// Request the GET stream, and start the wait for it.
            StartStream,
            /// Stop the wait for the GET stream.
            StopWait,
            /// Drop the queued messages, and send the DELETE of the session.
            Delete,
            /// Drop everything, and report that the connection is closed.
            ReportClosed,
        }
    }

    state_table! {
        /// What may be sent, and how the connection ends (specification 2025-11-25, "Streamable HTTP"). After a loss, another
        /// connection begins as `Idle`.
        "http" step: State, Input, Effect;
        (Idle)           (Connect)                => (Opening);
        // At the maximum of `Time` a grace period ends at once: the engine is a step ahead.
        (Idle)           (Retire|CloseNothing|Overdue) => stay [ReportClosed];
        (Idle)           (CloseOwing)             => (Ending);
        (Idle)           (CloseSession|OverdueSession) => (Deleting) [Delete];
        (Opening)        (Established)            => (Live);
        (Opening)        (InitializedSent)        => (Accepting);
        // The notification may arrive twice. A server may refuse every request without it.
        (Accepting)      (InitializedBroke)       => stay [SendInitialized];
        (Accepting)      (InitializedBrokeAgain)  => stay [ReportBroken];
        (Accepting)      (Accepted)               => (AwaitingStream) [StartStream];
        (Accepting)      (AcceptedSse)            => (Live);
        (AwaitingStream) (StreamDecided)          => (Live) [StopWait];
        (Ending)         (CloseSession|OverdueSession) => (Deleting) [Delete];
        (Ending)         (CloseNothing|Overdue)   => (Idle) [ReportClosed];
        (Deleting)       (Deleted|OverdueSession|Overdue) => (Idle) [ReportClosed];

        (Idle)           (Established|InitializedSent|InitializedBroke|InitializedBrokeAgain|Accepted|AcceptedSse|StreamDecided|Deleted) => never;
        (Opening)        (Overdue) => ignore;
        (Opening)
            (Connect|InitializedBroke|InitializedBrokeAgain|Accepted|AcceptedSse|StreamDecided|Retire|CloseOwing|
             CloseSession|CloseNothing|OverdueSession|Deleted) => never;
        (Accepting)      (Overdue) => ignore;
        (Accepting)
            (InitializedSent|Connect|Established|StreamDecided|Retire|CloseOwing|CloseSession|CloseNothing|
             OverdueSession|Deleted) => never;
        (AwaitingStream) (Accepted|Overdue) => ignore;
        (AwaitingStream)
            (Connect|Established|InitializedSent|InitializedBroke|InitializedBrokeAgain|AcceptedSse|Retire|
             CloseOwing|CloseSession|CloseNothing|OverdueSession|Deleted) => never;
        (Live)           (Accepted|AcceptedSse|StreamDecided|Overdue) => ignore;
        (Live)
            (Connect|Established|InitializedSent|InitializedBroke|InitializedBrokeAgain|Retire|CloseOwing|
             CloseSession|CloseNothing|OverdueSession|Deleted) => never;
        (Ending)         (CloseOwing|Connect|Established|InitializedSent|InitializedBroke|InitializedBrokeAgain|Accepted|AcceptedSse|StreamDecided|Retire|Deleted) => never;
        (Deleting)       (Connect|Established|InitializedSent|InitializedBroke|InitializedBrokeAgain|Accepted|AcceptedSse|StreamDecided|Retire|CloseOwing|CloseSession|CloseNothing) => never;
    }

    impl State {
        /// Whether tool calls wait in this phase.
        pub(crate) const fn holds_calls(self) -> bool {
            matches!(self, Self::Accepting | Self::AwaitingStream)
        }

        /// Whether there is a connection, which may be lost.
        pub(crate) const fn is_connected(self) -> bool {
            matches!(self, Self::Opening | Self::Accepting | Self::AwaitingStream | Self::Live)
        }
    }
}

/// Which transport a server has.
pub(crate) mod sse {
    use super::super::table::{state_table, values};

    values! {
        State {
            /// Streamable HTTP is assumed.
            Streamable,
            /// The server refused `initialize` as an HTTP+SSE server does; the GET of such a server's stream is in flight.
            Fallback,
            /// As [`Streamable`](Self::Streamable), and on this connection there was no HTTP+SSE stream.
            Absent,
            /// The GET of the HTTP+SSE stream is in flight, and the stream named no endpoint yet.
            Connecting,
            /// The HTTP+SSE stream named the endpoint for messages.
            Ready,
        }

        Input {
            /// The engine wants a connection, and the server had HTTP+SSE when it was last connected.
            ConnectSse,
            /// `initialize` was refused by 400, 404 or 405 as an HTTP+SSE server does it.
            RefusedAsSse,
            /// The stream names the endpoint for messages.
            Endpoint,
            /// The stream names an endpoint of another origin.
            EndpointElsewhere,
            /// The stream brings a message before it named the endpoint.
            Message,
            /// The GET was refused.
            Refused,
            /// The stream ended.
            Ended,
            /// The exchange of the stream broke.
            Broke,
            /// The GET did not reach the server.
            Unreached,
        }

        Effect {
            /// The server has HTTP+SSE: the next connection begins with it.
            Remember,
            Forget,
            ReportOpened,
            /// Send the GET of the stream.
            Get,
            /// Drop the exchange of the stream.
            Drop,
            /// Send the refused `initialize` again.
            SendAgain,
            /// The refusal of `initialize` is its response.
            Refuse,
            ReportViolation,
            ReportUnreached,
            ReportClosed,
        }
    }

    state_table! {
        /// Streamable HTTP, or the older HTTP+SSE, which has one stream for everything that the server sends, and an
        /// endpoint for messages to it (specification 2025-11-25, "Transports", Backwards Compatibility; 2024-11-05,
        /// "HTTP with SSE").
        "http_sse" step: State, Input, Effect;
        (Streamable) (ConnectSse)        => (Connecting) [Get];
        (Streamable) (RefusedAsSse)      => (Fallback) [Get];
        (Fallback)   (Endpoint)          => (Ready) [Remember SendAgain];
        (Fallback)   (EndpointElsewhere) => (Streamable) [ReportViolation];
        (Fallback)   (Message)           => (Absent) [Drop Refuse];
        (Fallback)   (Refused|Ended)     => (Absent) [Refuse];
        (Fallback)   (Broke)             => (Streamable) [ReportClosed];
        (Fallback)   (Unreached)         => (Streamable) [ReportUnreached];
        (Absent)     (RefusedAsSse)      => stay [Refuse];
        (Connecting) (Endpoint)          => (Ready) [ReportOpened];
        (Connecting) (EndpointElsewhere) => (Streamable) [ReportViolation];
        // The server has another transport now.
        (Connecting) (Message)           => (Streamable) [Forget Drop ReportClosed];
        // `initialize` follows there.
        (Connecting) (Refused)           => (Streamable) [Forget ReportOpened];
        (Connecting) (Ended|Broke)       => (Streamable) [ReportClosed];
        (Connecting) (Unreached)         => (Streamable) [ReportUnreached];
        (Ready)      (RefusedAsSse)      => stay [Refuse];
        // Messages go to the new endpoint from now on.
        (Ready)      (Endpoint)          => stay;
        (Ready)      (EndpointElsewhere) => (Streamable) [ReportViolation];
        (Ready)      (Ended|Broke)       => (Streamable) [ReportClosed];

        (Streamable) (Ended) => ignore;
        (Streamable) (Endpoint|EndpointElsewhere|Message|Refused|Broke|Unreached) => never;
        (Fallback)   (ConnectSse|RefusedAsSse)                                                   => never;
        (Absent)     (ConnectSse|Endpoint|EndpointElsewhere|Message|Refused|Ended|Broke|Unreached) => never;
        (Connecting) (ConnectSse|RefusedAsSse)                                                   => never;
        (Ready)      (ConnectSse|Message|Refused|Unreached)                                              => never;
    }
}

/// The GET stream.
pub(crate) mod get_stream {
    use super::super::table::{state_table, values};

    values! {
        State {
            /// There is no session yet.
            Idle,
            /// The GET is in flight. The stream was never open in this session.
            Asking,
            /// The wait before the next GET. The stream was never open in this session.
            Waiting,
            Open,
            /// The wait before the next GET. The stream was open in this session.
            WaitingAgain,
            /// The GET is in flight. The stream was open in this session.
            AskingAgain,
            /// The server has no stream; it is not requested again in this session.
            Refused,
            /// The server refused the GET for lack of authorization, and the client obtains a token.
            AwaitingToken,
        }

        Input {
            /// There is a session.
            Start,
            /// The GET is answered with a stream.
            Opened,
            /// The GET is answered 405, 401 or 403, and is not sent again with another token.
            NotOffered,
            /// The GET is answered 401, and the client obtains a token.
            Unauthorized,
            /// The GET is answered 404.
            NotFound,
            /// The GET is answered with another status, or with JSON.
            OtherAnswer,
            /// The GET is answered 501 or with a redirect that cannot be followed, or the body is no stream.
            NoStream,
            /// The GET is answered 429 or 5xx, or the exchange ended or broke.
            Broke,
            /// The wait is over.
            Timer,
            /// There is a token.
            Authorized,
        }

        Effect {
            /// Send the GET.
            Get,
            /// Drop its exchange.
            Drop,
            /// Start the wait before the next GET.
            Arm,
            /// Forget the last event and the wait that the server named: the next stream is another one.
            Reset,
            /// Count a refusal for lack of authorization.
            CountRefusal,
            ClearRefusals,
            /// The session expired.
            Expire,
        }
    }

    state_table! {
        /// The GET stream, on which a legacy server sends requests and notifications (specification 2025-11-25,
        /// "Streamable HTTP", Listening for Messages from the Server).
        "get_stream" step: State, Input, Effect;
        (Idle)               (Start)        => (Asking) [Get];
        (Asking|AskingAgain) (Opened)       => (Open) [ClearRefusals];
        (Asking|AskingAgain) (NotOffered)   => (Refused) [Drop];
        (Asking|AskingAgain) (Unauthorized) => (AwaitingToken) [Drop CountRefusal];
        (Asking|AskingAgain|Open) (NoStream) => (Refused) [Drop] ! GetRefused;
        (Asking)             (NotFound|OtherAnswer) => (Refused) [Drop] ! GetRefused;
        (Asking)             (Broke)        => (Waiting) [Drop Arm];
        // The server knew the session when the stream was open.
        (AskingAgain)        (NotFound)     => (Idle) [Drop Reset Expire];
        (AskingAgain)        (OtherAnswer|Broke) => (WaitingAgain) [Drop Arm];
        (Open)               (Broke)        => (WaitingAgain) [Drop Arm];
        (Waiting)            (Timer)        => (Asking) [Get];
        (WaitingAgain)       (Timer)        => (AskingAgain) [Get];
        (AwaitingToken)      (Authorized)   => (Asking) [Reset Get];

        (Idle)                 (Authorized) => ignore;
        (Idle)                 (Opened|NotOffered|Unauthorized|NotFound|OtherAnswer|NoStream|Broke|Timer) => never;
        (Asking|AskingAgain)   (Authorized)             => ignore;
        (Asking|AskingAgain)   (Start|Timer)            => never;
        (Waiting|WaitingAgain) (Authorized) => ignore;
        (Waiting|WaitingAgain) (Start|Opened|NotOffered|Unauthorized|NotFound|OtherAnswer|NoStream|Broke) => never;
        (Open)                 (Authorized) => ignore;
        (Open)                 (Start|Opened|NotOffered|Unauthorized|NotFound|OtherAnswer|Timer) => never;
        (Refused)              (Authorized) => ignore;
        (Refused)              (Start|Opened|NotOffered|Unauthorized|NotFound|OtherAnswer|NoStream|Broke|Timer) => never;
        (AwaitingToken)        (Start|Opened|NotOffered|Unauthorized|NotFound|OtherAnswer|NoStream|Broke|Timer) => never;
    }
}
