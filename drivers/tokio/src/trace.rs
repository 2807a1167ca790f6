//! A span for each call, with the names of OpenTelemetry's conventions for MCP. Without the feature `tracing` there is none.

use std::sync::Arc;

use mcp_proto::{Request, TraceContext};
use mcp_proto_std::{CallErrorKind, Reply};

/// Gets the trace that a call is part of.
pub(crate) type ContextOf = Arc<dyn Fn() -> Option<TraceContext> + Send + Sync>;

/// The request as a part of a trace, if there is one.
pub(crate) fn traced(request: Request, context: Option<TraceContext>) -> Request {
    match context {
        Some(context) => request.trace(context),
        None => request,
    }
}

/// The span of a call.
pub(crate) struct CallSpan {
    #[cfg(feature = "tracing")]
    span: tracing::Span,
}

#[cfg(not(feature = "tracing"))]
impl CallSpan {
    pub(crate) const fn start(_: (&str, &str)) -> Self {
        Self {}
    }

    pub(crate) fn within<T>(&self, run: impl FnOnce() -> T) -> T {
        run()
    }

    pub(crate) const fn end(&self, _: &str, _: Result<&Reply, &CallErrorKind>) {}
}

#[cfg(feature = "tracing")]
impl CallSpan {
    /// A child of the current span: of a call of a method, for a tool, a prompt or a resource.
    pub(crate) fn start((method, target): (&str, &str)) -> Self {
        use tracing::field::Empty;

        // Of a hub.
        let method = if method == "call" { "tools/call" } else { method };
        let span = tracing::info_span!(
            target: "mcp_proto",
            "mcp.client",
            otel.name = Empty,
            otel.kind = "client",
            otel.status_code = Empty,
            mcp.method.name = method,
            mcp.server.name = Empty,
            mcp.resource.uri = Empty,
            gen_ai.tool.name = Empty,
            gen_ai.prompt.name = Empty,
            error.r#type = Empty,
            rpc.response.status_code = Empty,
        );
        if span.is_disabled() {
            return Self { span };
        }
        // A URI in the name would make too many names.
        let has_target = !target.is_empty() && method != "resources/read";
        span.record("otel.name", if has_target { format!("{method} {target}") } else { method.to_owned() });
        match method {
            "tools/call" => span.record("gen_ai.tool.name", target),
            "prompts/get" => span.record("gen_ai.prompt.name", target),
            "resources/read" => span.record("mcp.resource.uri", target),
            _ => &span,
        };
        Self { span }
    }

    pub(crate) fn within<T>(&self, run: impl FnOnce() -> T) -> T {
        self.span.in_scope(run)
    }

    /// Records how the call ended at this server.
    pub(crate) fn end(&self, server: &str, result: Result<&Reply, &CallErrorKind>) {
        use mcp_proto::Outcome;

        if self.span.is_disabled() {
            return;
        }
        self.span.record("mcp.server.name", server);
        let code;
        let kind = match result {
            Ok(reply) if reply.is_error() => "tool_error",
            Ok(_) => return,
            Err(CallErrorKind::Ended(Outcome::Error(error))) => {
                code = error.code().map(|code| code.to_string());
                if let Some(code) = &code {
                    self.span.record("rpc.response.status_code", code);
                }
                code.as_deref().unwrap_or("http_error")
            }
            Err(CallErrorKind::Ended(Outcome::TimedOut(_))) => "timeout",
            Err(CallErrorKind::Ended(Outcome::Cancelled)) => "cancelled",
            Err(CallErrorKind::Ended(Outcome::Unknown)) => "connection_lost",
            Err(CallErrorKind::Ended(_)) => "no_result",
            Err(CallErrorKind::Down(_)) => "not_connected",
            Err(_) => "refused",
        };
        self.span.record("otel.status_code", "ERROR");
        self.span.record("error.type", kind);
    }
}
