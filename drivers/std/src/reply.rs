//! How calls end.

use std::borrow::Cow;
use std::fmt;

use mcp_proto::protocol::content::{Block, ToolResult};
use mcp_proto::{CommandError, Diagnosis, Outcome, RawValue, TimeBound};
use serde::de::DeserializeOwned;
use serde::ser::Error as _;
use serde::{Deserialize, Serialize};

/// The result of a request, as the server wrote it.
///
/// [`mcp_proto::protocol::content`] has typed views for each method: `ToolResult::read(reply.raw())`.
#[derive(Clone, Debug)]
pub struct Reply(Box<RawValue>);

impl Reply {
    /// The reply with this result.
    pub const fn new(result: Box<RawValue>) -> Self {
        Self(result)
    }

    /// The result, byte for byte.
    pub fn raw(&self) -> &RawValue {
        &self.0
    }

    /// The result.
    pub fn into_raw(self) -> Box<RawValue> {
        self.0
    }

    /// The texts of a tool's result, a line each. It is read each time; one text without escapes is not copied.
    ///
    /// ```
    /// # use mcp_proto::RawValue;
    /// # use mcp_proto_std::Reply;
    /// let result = r#"{"content": [{"type": "text", "text": "42"}], "structuredContent": {"sum": 42}}"#;
    /// let reply = Reply::new(RawValue::from_string(result.into())?);
    /// assert_eq!(reply.text(), "42");
    /// # Ok::<(), serde_json::Error>(())
    /// ```
    pub fn text(&self) -> Cow<'_, str> {
        ToolResult::text_of(&self.0)
    }

    /// As [`text`](Self::text), of a reply that is not kept.
    pub fn into_text(self) -> String {
        self.text().into_owned()
    }

    /// The blocks of a tool's result: texts, images, resources.
    pub fn blocks(&self) -> Vec<Block<'_>> {
        ToolResult::read(&self.0).content
    }

    /// Whether it is the result of a tool that failed. Its text says how, for the model.
    pub fn is_error(&self) -> bool {
        ToolResult::read(&self.0).is_error
    }

    /// The result as a value: of a tool the structured result if there is one, otherwise the whole result. A tool without a
    /// structured result may write JSON as its text: `serde_json::from_str(&reply.text())`.
    ///
    /// # Errors
    /// [`ReplyError::Tool`] if the tool failed; [`ReplyError::Unstructured`] if the tool has no structured result, and
    /// [`ReplyError::Invalid`] otherwise, if the result is not of this type.
    ///
    /// ```
    /// # use mcp_proto::RawValue;
    /// # use mcp_proto_std::Reply;
    /// #[derive(serde::Deserialize)]
    /// struct Sum {
    ///     sum: u32,
    /// }
    ///
    /// # let result = r#"{"content": [{"type": "text", "text": "42"}], "structuredContent": {"sum": 42}}"#;
    /// # let reply = Reply::new(RawValue::from_string(result.into()).unwrap());
    /// let Sum { sum } = reply.to()?;
    /// assert_eq!(sum, 42);
    /// # Ok::<(), mcp_proto_std::ReplyError>(())
    /// ```
    pub fn to<T: DeserializeOwned>(&self) -> Result<T, ReplyError> {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Parts<'a> {
            #[serde(borrow)]
            structured_content: Option<&'a RawValue>,
            /// Only results of tools have it.
            #[serde(borrow)]
            content: Option<&'a RawValue>,
            #[serde(default)]
            is_error: bool,
        }
        let parts: Parts<'_> = match serde_json::from_str(self.0.get()) {
            Ok(parts) => parts,
            // These members have another meaning, or none.
            Err(_) => Parts { structured_content: None, content: None, is_error: false },
        };
        if parts.is_error {
            return Err(ReplyError::Tool(self.text().into()));
        }
        serde_json::from_str(parts.structured_content.unwrap_or(&self.0).get()).map_err(|error| {
            let is_unstructured = parts.structured_content.is_none() && parts.content.is_some();
            if is_unstructured { ReplyError::Unstructured(error) } else { ReplyError::Invalid(error) }
        })
    }
}

/// Why a reply is not the value that was expected.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReplyError {
    /// The tool failed, and says why.
    #[error("the tool failed: {0}")]
    Tool(Box<str>),
    /// The result is not of the type.
    #[error("the result is not of the expected type: {0}")]
    Invalid(serde_json::Error),
    /// The tool has no structured result, and its whole result is not of the type.
    #[error("the tool has no structured result, only content (`text`, `raw`), which is not of the expected type: {0}")]
    Unstructured(serde_json::Error),
}

/// Why a call has no result. Its text begins with what happened to the connection, if the call was lost with it.
#[derive(Debug)]
pub struct CallError {
    /// The server's name in [`Options`](mcp_proto::Options).
    pub server: Box<str>,
    /// The method, and the tool, prompt or resource.
    pub method: Box<str>,
    /// Why.
    pub kind: CallErrorKind,
    /// Why the connection or the exchange of the call is lost, of a call that ended because of that.
    pub cause: Option<Box<Diagnosis>>,
}

impl CallError {
    /// An error of a call: the method, and what it is called for.
    pub fn new(server: &str, method: &str, target: &str, kind: impl Into<CallErrorKind>) -> Self {
        let method = if target.is_empty() { method.into() } else { format!("{method} {target}") };
        Self { server: server.into(), method: method.into(), kind: kind.into(), cause: None }
    }

    /// The error with this cause.
    #[must_use]
    pub fn because(self, cause: Option<Box<Diagnosis>>) -> Self {
        Self { cause, ..self }
    }
}

impl fmt::Display for CallError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { server, method, kind, cause } = self;
        write!(f, "`{method}` at {server}: ")?;
        let Some(cause) = cause else { return kind.fmt(f) };
        // It names the server, without its address.
        let is_name =
            |name: &&str| server.strip_prefix(*name).is_some_and(|rest| rest.is_empty() || rest.starts_with(" ("));
        let what =
            cause.finding.split_once(": ").filter(|(name, _)| is_name(name)).map_or(&*cause.finding, |(_, what)| what);
        write!(f, "{what}; ")?;
        match kind {
            CallErrorKind::Ended(Outcome::Unknown) => f.write_str("the call was sent, and may have run")?,
            kind => kind.fmt(f)?,
        }
        write!(f, ". {}", cause.advice())
    }
}

impl std::error::Error for CallError {}

/// Why a call has no result.
#[derive(Debug)]
#[non_exhaustive]
pub enum CallErrorKind {
    /// The arguments are not a JSON object, and nothing was sent.
    Arguments(serde_json::Error),
    /// The client refused the call, and nothing was sent.
    Refused(CommandError),
    /// The hub refused the call, and nothing was sent: a
    /// [`CallError`](mcp_proto::host::hub::CallError) or a [`HubCommandError`](mcp_proto::host::hub::HubCommandError).
    Hub(Box<dyn std::error::Error + Send + Sync>),
    /// There is no connection, and the next attempt is not near: nothing was sent.
    Down(Diagnosis),
    /// The call ended without a result: [`Outcome::Result`] is not here.
    Ended(Outcome),
}

impl fmt::Display for CallErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Arguments(error) => write!(f, "the arguments are not a JSON object: {error}"),
            Self::Refused(error) => error.fmt(f),
            Self::Hub(error) => error.fmt(f),
            Self::Down(diagnosis) => write!(f, "not connected, and nothing was sent: {diagnosis}"),
            Self::Ended(Outcome::Error(error)) => error.fmt(f),
            Self::Ended(outcome) => f.write_str(match outcome {
                Outcome::InputRequired(_) => "the server requires input that this client does not provide",
                Outcome::NotAdvertised => "the server does not declare the capability, and nothing was sent",
                Outcome::TimedOut(TimeBound::Total) => {
                    "no result within the maximum time; if it was sent, it may have run"
                }
                Outcome::TimedOut(_) => {
                    "neither a result nor progress within the timeout; if it was sent, it may have run"
                }
                Outcome::Cancelled => "cancelled",
                Outcome::NotSent => "the client closed before it was sent",
                Outcome::Unknown => "the connection was lost after it was sent: it may have run",
                _ => "no result",
            }),
        }
    }
}

impl std::error::Error for CallErrorKind {}

impl From<CommandError> for CallErrorKind {
    fn from(error: CommandError) -> Self {
        Self::Refused(error)
    }
}

impl From<serde_json::Error> for CallErrorKind {
    fn from(error: serde_json::Error) -> Self {
        Self::Arguments(error)
    }
}

/// A request's result, or why it has none.
///
/// # Errors
/// The outcome, if it is none.
pub fn reply(outcome: Outcome) -> Result<Reply, CallErrorKind> {
    match outcome {
        Outcome::Result(result) => Ok(Reply(result)),
        outcome => Err(CallErrorKind::Ended(outcome)),
    }
}

/// Arguments of a tool as JSON.
///
/// # Errors
/// An error of their serialization, or they are not an object.
pub fn arguments(value: &impl Serialize) -> Result<Box<RawValue>, CallErrorKind> {
    let arguments = serde_json::value::to_raw_value(value)?;
    let other = match arguments.get().as_bytes().first() {
        Some(b'{') => return Ok(arguments),
        Some(b'[') => "an array",
        Some(b'"') => "a string",
        Some(b'n') => "`null`; without arguments, give `json!({})`",
        _ => "a number or a boolean",
    };
    Err(serde_json::Error::custom(other).into())
}

#[cfg(test)]
mod tests {
    use mcp_proto::{Failure, FailureKind, StderrLines};

    use super::*;

    fn of(json: &str) -> Reply {
        Reply::new(RawValue::from_string(json.into()).unwrap())
    }

    #[test]
    fn a_value_is_the_structured_result_or_the_whole() {
        let structured = of(r#"{"content":[],"structuredContent":[1,2]}"#);
        assert_eq!(structured.to::<Vec<u8>>().unwrap(), [1, 2]);
        let whole = of(r#"{"contents":[{"uri":"a:b"}],"isError":"no"}"#).to::<serde_json::Value>().unwrap();
        assert_eq!(whole["contents"][0]["uri"], "a:b");
        assert!(matches!(structured.to::<u8>(), Err(ReplyError::Invalid(_))));
        let unstructured = of(r#"{"content":[{"type":"text","text":"[1,2]"}]}"#);
        assert!(unstructured.to::<serde_json::Value>().is_ok());
        let error = unstructured.to::<Vec<u8>>().unwrap_err();
        assert!(error.to_string().starts_with("the tool has no structured result"), "{error}");
        let failed = of(
            r#"{"content":[{"type":"text","text":"a"},{"type":"image"},{"type":"text","text":"b"}],"isError":true}"#,
        );
        assert!(failed.is_error() && !structured.is_error());
        let kinds: Vec<_> = failed.blocks().iter().map(|block| matches!(block, Block::Text(_))).collect();
        assert_eq!(kinds, [true, false, true]);
        assert_eq!(failed.clone().into_text(), "a\nb");
        assert_eq!(failed.to::<serde_json::Value>().unwrap_err().to_string(), "the tool failed: a\nb");
    }

    #[test]
    fn arguments_are_an_object() {
        assert_eq!(arguments(&serde_json::json!({"a": 1})).unwrap().get(), r#"{"a":1}"#);
        let refused = |value: serde_json::Value| arguments(&value).unwrap_err().to_string();
        assert_eq!(refused(serde_json::json!([1])), "the arguments are not a JSON object: an array");
        assert_eq!(refused(serde_json::json!("a")), "the arguments are not a JSON object: a string");
        assert_eq!(refused(serde_json::json!(1)), "the arguments are not a JSON object: a number or a boolean");
        let null = arguments(&()).unwrap_err().to_string();
        assert_eq!(null, "the arguments are not a JSON object: `null`; without arguments, give `json!({})`");
    }

    #[test]
    fn an_error_names_the_server_and_what_was_called() {
        let error = CallError::new("docs", "tools/call", "search", reply(Outcome::Unknown).unwrap_err());
        let text = "`tools/call search` at docs: the connection was lost after it was sent: it may have run";
        assert_eq!(error.to_string(), text);
    }

    #[test]
    fn an_error_begins_with_the_cause_of_a_loss() {
        let of = |server: &str, named: &str| {
            let failure = Failure::new(FailureKind::Closed, format!("{named} closed the connection: connection reset"));
            let cause = Diagnosis::of_server(failure, named, &StderrLines::default());
            let error = CallError::new(server, "tools/call", "search", reply(Outcome::Unknown).unwrap_err());
            error.because(Some(Box::new(cause))).to_string()
        };
        let text = "the connection was reset; the call was sent, and may have run. The server";
        for server in ["docs", "docs (https://example.com/mcp)"] {
            let told = of(server, "docs");
            assert!(told.starts_with(&format!("`tools/call search` at {server}: {text}")), "{told}");
        }
        let other = of("docs", "a gateway");
        assert!(other.starts_with(&format!("`tools/call search` at docs: a gateway: {text}")), "{other}");
    }

    #[test]
    fn an_outcome_without_a_result_says_whether_the_call_may_have_run() {
        let sent = "if it was sent, it may have run";
        for (outcome, text) in [
            (
                Outcome::InputRequired(RawValue::NULL.to_owned()),
                "the server requires input that this client does not provide",
            ),
            (Outcome::NotAdvertised, "the server does not declare the capability, and nothing was sent"),
            (Outcome::TimedOut(TimeBound::Total), &format!("no result within the maximum time; {sent}")),
            (
                Outcome::TimedOut(TimeBound::Timeout),
                &format!("neither a result nor progress within the timeout; {sent}"),
            ),
            (Outcome::Cancelled, "cancelled"),
            (Outcome::NotSent, "the client closed before it was sent"),
            (Outcome::Unknown, "the connection was lost after it was sent: it may have run"),
        ] {
            assert_eq!(reply(outcome).unwrap_err().to_string(), text);
        }
    }
}
