//! Method names as they are sent.

/// Opens a session in the legacy era.
pub const INITIALIZE: &str = "initialize";
/// Confirms that the client received the `initialize` response.
pub const INITIALIZED: &str = "notifications/initialized";
/// Requests versions and capabilities, in the modern era.
pub const DISCOVER: &str = "server/discover";
/// Checks that the peer responds, in the legacy era.
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
/// Completes the value of an argument.
pub const COMPLETE: &str = "completion/complete";
/// Reports a request's progress.
pub const PROGRESS: &str = "notifications/progress";
/// Sets the minimum level of log messages, in the legacy era.
pub const SET_LEVEL: &str = "logging/setLevel";
/// Subscribes to a resource, in the legacy era.
pub const SUBSCRIBE: &str = "resources/subscribe";
/// Ends the subscription to a resource, in the legacy era.
pub const UNSUBSCRIBE: &str = "resources/unsubscribe";
/// Subscribes to changes, in the modern era.
pub const LISTEN: &str = "subscriptions/listen";
/// Lists the subscriptions that the server accepted.
pub const ACKNOWLEDGED: &str = "notifications/subscriptions/acknowledged";
/// Reports that a resource changed.
pub const RESOURCE_UPDATED: &str = "notifications/resources/updated";
/// A log message.
pub const MESSAGE: &str = "notifications/message";
/// Cancels a request.
pub const CANCELLED: &str = "notifications/cancelled";
/// Reports that the list of tools changed.
pub const TOOLS_LIST_CHANGED: &str = "notifications/tools/list_changed";
/// Reports that the list of prompts changed.
pub const PROMPTS_LIST_CHANGED: &str = "notifications/prompts/list_changed";
/// Reports that the list of resources or resource templates changed.
pub const RESOURCES_LIST_CHANGED: &str = "notifications/resources/list_changed";
/// Reports that an elicitation at a URL is complete, in the legacy era.
pub const ELICITATION_COMPLETE: &str = "notifications/elicitation/complete";
/// Reads the status of a task.
pub const TASKS_GET: &str = "tasks/get";
/// Gives a task input, in the modern era.
pub const TASKS_UPDATE: &str = "tasks/update";
/// Requests the result of a task, in the legacy era.
pub const TASKS_RESULT: &str = "tasks/result";
/// Cancels a task.
pub const TASKS_CANCEL: &str = "tasks/cancel";
/// Reports the status of a task, in the modern era.
pub const TASKS: &str = "notifications/tasks";
/// Reports that the client's roots changed, in the legacy era.
pub const ROOTS_LIST_CHANGED: &str = "notifications/roots/list_changed";
/// Lists skills (extension `io.modelcontextprotocol/skills`).
pub const SKILLS_LIST: &str = "skills/list";
/// Gets the entry of a skill (extension `io.modelcontextprotocol/skills`).
pub const SKILLS_GET: &str = "skills/get";
/// Lists the resources in a folder (extension `io.modelcontextprotocol/skills`).
pub const DIRECTORY_READ: &str = "resources/directory/read";
/// Server request in the legacy era: lists the client's roots.
pub const ROOTS_LIST: &str = "roots/list";
/// Server request in the legacy era: a completion by the client's model.
pub const SAMPLING: &str = "sampling/createMessage";
/// Server request in the legacy era: input from the user.
pub const ELICITATION: &str = "elicitation/create";

/// Whether requests of this method only read, so that sending one twice is safe.
pub(crate) fn only_reads(method: &str) -> bool {
    matches!(
        method,
        RESOURCES_READ
            | PROMPTS_GET
            | COMPLETE
            | TOOLS_LIST
            | PROMPTS_LIST
            | RESOURCES_LIST
            | RESOURCE_TEMPLATES_LIST
            | SKILLS_LIST
            | SKILLS_GET
            | DIRECTORY_READ
    )
}

/// Whether only the engine may send requests of this method, because the session tracks their effect.
pub(crate) fn is_engines(method: &str) -> bool {
    matches!(method, INITIALIZE | DISCOVER | SET_LEVEL | SUBSCRIBE | UNSUBSCRIBE | LISTEN)
}

#[cfg(feature = "snapshot")]
pub(crate) fn deserialize_keepalive<'de, D: serde::Deserializer<'de>>(
    deserializer: D,
) -> Result<&'static str, D::Error> {
    use serde::{Deserialize, de};

    let name = alloc::string::String::deserialize(deserializer)?;
    let known = [PING, DISCOVER, TOOLS_LIST, PROMPTS_LIST, RESOURCES_LIST, RESOURCE_TEMPLATES_LIST];
    let unknown = || de::Error::custom("a keepalive request with another method");
    known.into_iter().find(|known| **known == *name).ok_or_else(unknown)
}
