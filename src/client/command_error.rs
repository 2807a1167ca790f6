use alloc::borrow::Cow;
use alloc::boxed::Box;

/// Why a command of [`Client`](crate::Client) was refused. Beyond the handling of deadlines that were due, the command
/// changed nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(tag = "type", content = "value", rename_all = "snake_case")
)]
#[non_exhaustive]
pub enum CommandError {
    /// The client is open already.
    #[error("the client is open already")]
    AlreadyOpen,
    /// The client is closed or closing.
    #[error("the client is closed")]
    Closed,
    /// The client is not ready.
    #[error("the client is not ready")]
    NotReady,
    /// The server did not declare the capability that the method needs.
    #[error("{server} does not declare `{capability}`, which `{method}` needs")]
    NotAdvertised {
        /// The server's name in [`Options`](crate::Options).
        server: Box<str>,
        /// The method.
        method: Box<str>,
        /// The capability.
        capability: Cow<'static, str>,
    },
    /// The client does not declare the capability that the command needs.
    #[error("the client does not declare `{capability}` in its options")]
    NotDeclared {
        /// The capability.
        capability: Cow<'static, str>,
    },
    /// The engine sends this request or notification itself.
    #[error("`{method}` is sent by the client itself")]
    Reserved {
        /// The method.
        method: Box<str>,
    },
    /// The parameters are not a JSON object.
    #[error("the parameters must be a JSON object")]
    ParamsNotObject,
    /// The result of a server request or of a required input is not a JSON object.
    #[error("the result must be a JSON object")]
    ResultNotObject,
    /// The limit of queued requests or of undelivered output is reached.
    #[error("the limit of {limit} waiting requests or messages is reached")]
    TooManyRequests {
        /// The limit that was reached: [`Limits::queued`](crate::Limits::queued) or
        /// [`Limits::output`](crate::Limits::output).
        limit: usize,
    },
    /// The limit of subscriptions is reached.
    #[error("{limit} resources are subscribed to already")]
    TooManySubscriptions {
        /// The limit: [`Limits::subscriptions`](crate::Limits::subscriptions).
        limit: usize,
    },
    /// There is no subscription to the resource.
    #[error("the resource is not subscribed to")]
    UnknownSubscription,
    /// No such request is open.
    #[error("no such request is open")]
    UnknownRequest,
    /// The server did not require an input with this key.
    #[error("the server did not require an input with the key `{key}`")]
    UnknownInput {
        /// The key.
        key: Box<str>,
    },
    /// The response to a required input is missing.
    #[error("there is no response to the required input with the key `{key}`")]
    MissingInput {
        /// The key.
        key: Box<str>,
    },
    /// Two responses have the same key.
    #[error("there are two responses with the key `{key}`")]
    DuplicateInput {
        /// The key.
        key: Box<str>,
    },
    /// No such server request is open.
    #[error("no such server request is open")]
    UnknownServerRequest,
}
