//! The names of the methods, as they are written on the wire.

/// Opens a session in the legacy era.
pub const INITIALIZE: &str = "initialize";
/// Tells the server that the client saw its answer to `initialize`.
pub const INITIALIZED: &str = "notifications/initialized";
/// Asks for versions and capabilities, in the modern era.
pub const DISCOVER: &str = "server/discover";
/// Asks whether the peer is there, in the legacy era.
pub const PING: &str = "ping";
/// Lists tools.
pub const TOOLS_LIST: &str = "tools/list";
/// Calls a tool.
pub const TOOLS_CALL: &str = "tools/call";
/// Lists prompts.
pub const PROMPTS_LIST: &str = "prompts/list";
/// Gets a prompt.
pub const PROMPTS_GET: &str = "prompts/get";
/// Lists resources.
pub const RESOURCES_LIST: &str = "resources/list";
/// Lists resource templates.
pub const RESOURCE_TEMPLATES_LIST: &str = "resources/templates/list";
/// Reads a resource.
pub const RESOURCES_READ: &str = "resources/read";
/// Completes what was typed of an argument.
pub const COMPLETE: &str = "completion/complete";
/// Tells how far a request got.
pub const PROGRESS: &str = "notifications/progress";
/// Sets the level of `notifications/message`, in the legacy era.
pub const SET_LEVEL: &str = "logging/setLevel";
/// Wants to be told of a resource's changes, in the legacy era.
pub const SUBSCRIBE: &str = "resources/subscribe";
/// Ends that, in the legacy era.
pub const UNSUBSCRIBE: &str = "resources/unsubscribe";
/// Wants to be told of changes, in the modern era.
pub const LISTEN: &str = "subscriptions/listen";
/// Tells what of it the server agreed to.
pub const ACKNOWLEDGED: &str = "notifications/subscriptions/acknowledged";
/// Tells that a resource changed.
pub const RESOURCE_UPDATED: &str = "notifications/resources/updated";
/// A log message.
pub const MESSAGE: &str = "notifications/message";
/// Tells that a request's answer is not wanted any more.
pub const CANCELLED: &str = "notifications/cancelled";
/// Tells that the list of tools is another now.
pub const TOOLS_LIST_CHANGED: &str = "notifications/tools/list_changed";
/// Tells that the list of prompts is another now.
pub const PROMPTS_LIST_CHANGED: &str = "notifications/prompts/list_changed";
/// Tells that the list of resources (and of templates) is another now.
pub const RESOURCES_LIST_CHANGED: &str = "notifications/resources/list_changed";
/// What a legacy server asks: the roots that the client offers.
pub const ROOTS_LIST: &str = "roots/list";
/// What a legacy server asks: a completion by the client's model.
pub const SAMPLING: &str = "sampling/createMessage";
/// What a legacy server asks: input from the user.
pub const ELICITATION: &str = "elicitation/create";

/// Whether a request of this method only reads, so that it may run twice.
pub(crate) fn only_reads(method: &str) -> bool {
    matches!(
        method,
        RESOURCES_READ | PROMPTS_GET | COMPLETE | TOOLS_LIST | PROMPTS_LIST | RESOURCES_LIST | RESOURCE_TEMPLATES_LIST
    )
}

/// Whether a request of this method is the engine's own to make, since the session remembers what it was for.
pub(crate) fn is_engines(method: &str) -> bool {
    matches!(method, INITIALIZE | DISCOVER | SET_LEVEL | SUBSCRIBE | UNSUBSCRIBE | LISTEN)
}
