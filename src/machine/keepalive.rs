//! The keepalive: detects a server that does not respond, and does not mistake one without `ping` for it.

use super::table::{decision_table, state_table, values};

values! {
    #[derive(Default)]
    State {
        /// Nothing is sent on this connection.
        #[default]
        Off,
        PingDue,
        Pinging,
        /// Several pings had no response: a list shows whether the server is alive.
        Confirming,
        ListDue,
        Listing,
        DiscoverDue,
        Discovering,
        /// The server has neither `ping` nor a list that worked.
        Passive,
    }

    Input {
        StartPing,
        StartList,
        StartDiscover,
        /// The server does not answer `ping`, and no list worked.
        StartPassive,
        /// The interval passed without a message, and nothing is in flight.
        Quiet,
        /// As `Quiet`, and no list worked.
        QuietWithoutList,
        /// The interval passed, with messages or requests in flight.
        Busy,
        Answered,
        /// The server does not know the method; a list may replace it.
        UnknownThenList,
        /// The server does not know the method, and nothing replaces it.
        UnknownThenPassive,
        /// No response in time, fewer times in a row than the threshold.
        Missed,
        /// No response, but another message came in the meantime; a list may replace the method.
        PassedOverThenList,
        /// No response, but another message came in the meantime; nothing replaces the method.
        PassedOverThenPassive,
        /// No message as often as the threshold says; a list may confirm that.
        SilentThenList,
        /// No message as often as the threshold says.
        Silent,
        /// As `Silent`, and the server never responded to `ping`.
        SilentAlways,
        /// The clock jumped, as after a suspend: the time without a response says nothing.
        Jumped,
    }

    Effect {
        StartInterval,
        Ping,
        List,
        Discover,
        /// Start the deadline of the response.
        Await,
        /// Count a timeout.
        Count,
        /// Forget the timeouts.
        Clear,
        /// `ping` was answered, also for the next connections.
        KnowAnswered,
        /// `ping` is not answered: it is not sent on the next connections.
        KnowSilent,
        /// End the request in flight.
        GiveUp,
        Disarm,
        /// The connection is lost.
        Dead,
    }

    /// What is known of responses to `ping`.
    #[derive(Default)]
    Pings {
        #[default]
        Unknown,
        Answered,
        Silent,
    }

    /// What was requested.
    Asked { PingThenList, Ping, Confirmation, Last }
}

state_table! {
    /// Keepalive: detects a server that does not respond, and does not mistake one without `ping` for it.
    "keepalive" step: State, Input, Effect;
    (Off)         (StartPing)              => (PingDue)     [StartInterval];
    (Off)         (StartList)              => (ListDue)     [StartInterval];
    (Off)         (StartDiscover)          => (DiscoverDue) [StartInterval];
    (Off)         (StartPassive)           => (Passive);

    (PingDue)     (Quiet|QuietWithoutList) => (Pinging)     [Ping Await];
    (ListDue)     (Quiet)                  => (Listing)     [List Await];
    (ListDue)     (QuietWithoutList)       => (Passive)     [Disarm];
    (DiscoverDue) (Quiet|QuietWithoutList) => (Discovering) [Discover Await];
    (PingDue|ListDue|DiscoverDue) (Busy)   => stay          [StartInterval];

    (Pinging)     (Answered)               => (PingDue)     [KnowAnswered Clear StartInterval];
    (Pinging)     (Missed)                 => (PingDue)     [Count GiveUp StartInterval];
    (Pinging)     (UnknownThenList)        => (ListDue)     [Clear StartInterval]             ! PingUnsupported;
    (Pinging)     (UnknownThenPassive)     => (Passive)     [Disarm]                          ! PingUnsupported;
    (Pinging)     (PassedOverThenList)     => (ListDue)     [KnowSilent GiveUp StartInterval] ! PingSilent;
    (Pinging)     (PassedOverThenPassive)  => (Passive)     [KnowSilent GiveUp Disarm]        ! PingSilent;
    (Pinging)     (SilentThenList)         => (Confirming)  [GiveUp List Await];
    (Pinging)     (SilentAlways)           => (Off)         [KnowSilent GiveUp Disarm Dead]   ! PingSilent;

    (Confirming)  (Answered)               => (ListDue)     [KnowSilent Clear StartInterval]  ! PingSilent;
    (Confirming)  (UnknownThenPassive)     => (Passive)     [KnowSilent Disarm]               ! PingSilent;
    (Confirming)  (PassedOverThenPassive)  => (Passive)     [KnowSilent GiveUp Disarm]        ! PingSilent;
    (Confirming)  (Missed)                 => never;

    (Listing)     (Answered)               => (ListDue)     [Clear StartInterval];
    (Listing)     (Missed)                 => (ListDue)     [Count GiveUp StartInterval];
    (Discovering) (Answered)               => (DiscoverDue) [Clear StartInterval];
    (Discovering) (Missed)                 => (DiscoverDue) [Count GiveUp StartInterval];
    (Listing|Discovering) (UnknownThenPassive)    => (Passive) [Disarm];
    (Listing|Discovering) (PassedOverThenPassive) => (Passive) [GiveUp Disarm];

    (Confirming|Listing|Discovering) (UnknownThenList|PassedOverThenList|SilentThenList|SilentAlways) => never;
    (Pinging|Confirming|Listing|Discovering) (Silent) => (Off) [GiveUp Disarm Dead];
    (Pinging|Confirming|Listing|Discovering) (Jumped) => stay  [Await];
    (Pinging|Confirming|Listing|Discovering) (Quiet|QuietWithoutList|Busy) => never;
    (PingDue|ListDue|DiscoverDue) (Answered|UnknownThenList|UnknownThenPassive|Missed|PassedOverThenList|PassedOverThenPassive|SilentThenList|Silent|SilentAlways|Jumped) => never;
    (PingDue|Pinging|Confirming|ListDue|Listing|DiscoverDue|Discovering|Passive) (StartPing|StartList|StartDiscover|StartPassive) => never;
    (Off|Passive) (Quiet|QuietWithoutList|Busy|Answered|UnknownThenList|UnknownThenPassive|Missed|PassedOverThenList|PassedOverThenPassive|SilentThenList|Silent|SilentAlways|Jumped) => never;
}

decision_table! {
    /// What a timeout of a keepalive request means. `jumped`: it came much later than it was due, as after a jump of the
    /// clock. `heard`: a message came since the request was sent. `many`: with this one, as many in a row as the threshold.
    "keepalive_timeout" judge(jumped: bool, heard: bool, asked: Asked, many: bool, pings: Pings) -> Input;
    (true)  (_)     (_)                      (_)     (_)               => Jumped;
    (false) (true)  (PingThenList)           (_)     (_)               => PassedOverThenList;
    (false) (true)  (Ping|Confirmation|Last) (_)     (_)               => PassedOverThenPassive;
    (false) (false) (PingThenList)           (false) (_)               => Missed;
    (false) (false) (PingThenList)           (true)  (_)               => SilentThenList;
    (false) (false) (Ping)                   (false) (_)               => Missed;
    (false) (false) (Ping)                   (true)  (Unknown)         => SilentAlways;
    (false) (false) (Ping)                   (true)  (Answered|Silent) => Silent;
    (false) (false) (Confirmation)           (_)     (_)               => Silent;
    (false) (false) (Last)                   (false) (_)               => Missed;
    (false) (false) (Last)                   (true)  (_)               => Silent;
}
