//! Remedies for failures, and citations of the specification.

use mcp_proto::binding::oauth::Stage;
use mcp_proto::{Era, Family, QuirkKind};

/// What the user can do about a failure of this kind, over HTTP or not.
pub(crate) fn remedy(kind: &str, over_http: bool) -> &'static str {
    match kind {
        "connect" => {
            "Is the server running, and is the URL right: http or https, host, port? The environment's HTTP_PROXY, \
             HTTPS_PROXY and NO_PROXY count, too."
        }
        "unauthorized" => "The server wants a token: --oauth obtains one, or --header 'Authorization: Bearer TOKEN'.",
        "forbidden" => {
            "The server knows who asks, and refuses; or it refuses by where it is asked: some answer only to \
             `localhost` in the URL, others only to a name that they were told."
        }
        "handshake-timeout" if over_http => {
            "Something is there, and does not answer. Is this the URL of its MCP endpoint, often `/mcp` or `/sse`? Is \
             there a proxy in between that keeps the answer back?"
        }
        "handshake-rejected" if over_http => {
            "The server refused to open a session. Is this the URL of its MCP endpoint, often `/mcp` or `/sse`? With \
             --era, try the default, `auto`; or else its own words say what it wants."
        }
        "protocol" if over_http => {
            "The server's answer is no MCP. Is this the URL of its MCP endpoint, often `/mcp` or `/sse`, or that of a \
             page for people?"
        }
        "closed" if over_http => {
            "The server, or a proxy in between, ended the connection or forgot the session. Its log may say why."
        }
        "spawn" => "Is the command installed, spelt right, executable and on the PATH? Try it in a shell.",
        "handshake-timeout" => {
            "The process runs, and says nothing. Does it speak MCP over stdio at all? Some servers need an argument \
             for that (`stdio`, `mcp`, `serve`), some wait for a login or a download; its standard error may tell."
        }
        "handshake-rejected" => {
            "The server refused to open a session. With --era, try the default, `auto`; or else its own words say \
             what it wants, credentials in its environment for instance."
        }
        "unsupported-version" => "Try a newer or an older version of the server, or another --era.",
        "protocol" => {
            "The server's answer is no MCP. Is this command an MCP server, and does anything else write to its \
             standard output?"
        }
        "list-failed" => {
            "The server declares the family and cannot list it. Its own words are above; often it lacks a setting \
             or credentials. It should not declare what it does not have."
        }
        "closed" => {
            "The process ended on its own. Its standard error and exit status say why: a missing argument, a missing \
             environment variable, a crash."
        }
        "timeout" => "Is the server merely slow? --timeout SECONDS gives it more time.",
        _ => "Run it again with --diagram to see the exchange.",
    }
}

/// What the user can do about an authorization that failed at this stage.
pub(crate) fn authorization(stage: Stage) -> &'static str {
    match stage {
        Stage::ResourceMetadata => {
            "The server's operator has to correct its metadata; `probe auth URL` shows each step."
        }
        Stage::ServerMetadata => {
            "The operator of the authorization server has to correct its metadata; `probe auth URL` shows each step."
        }
        Stage::Registration => "Register a client there, and give its ID with --client-id.",
        Stage::Authorization => "Run it again and authorize in the browser, or ask who administers the account.",
        Stage::Token => "Run it again; if that fails, check --client-id, --client-secret and --scope.",
        Stage::Refresh => "Run it again and authorize anew.",
        Stage::StepUp => "Ask who administers the account for the scopes that are named, or give others with --scope.",
        _ => "Run it again with --diagram to see the exchange.",
    }
}

/// The part of the specification that describes what the server should do.
pub(crate) fn citation(kind: QuirkKind, family: Option<Family>, era: Option<Era>) -> String {
    let modern = era == Some(Era::Modern);
    let revision = if modern { "2026-07-28" } else { "2025-11-25" };
    let page = match family {
        Some(Family::Tools) => "Tools",
        Some(Family::Prompts) => "Prompts",
        Some(Family::Resources | Family::ResourceTemplates) => "Resources",
        None => "Logging",
        Some(family) => family.member(),
    };
    let by_era = |legacy, in_modern| format!("specification {revision}, {}", if modern { in_modern } else { legacy });
    match kind {
        QuirkKind::UndeclaredFamily | QuirkKind::UndeclaredListChanged | QuirkKind::MethodNotFound => {
            format!("specification {revision}, {page}, Capabilities")
        }
        QuirkKind::MethodNotFoundText => by_era("Overview, Error Responses", "Overview, Error Codes"),
        QuirkKind::CapabilityShape | QuirkKind::CapabilitiesRefused => {
            by_era("Lifecycle, Capability Negotiation", "Discovery, DiscoverResult")
        }
        QuirkKind::InvalidItem => format!("specification {revision}, {page}, Data Types"),
        QuirkKind::DuplicateItem if family == Some(Family::Tools) => by_era("Tools, Tool Names", "Tools, Tool Names"),
        QuirkKind::DuplicateItem => format!("specification {revision}, {page}, Data Types"),
        QuirkKind::ListShape => by_era("Pagination, Response Format", "Pagination, Response Format"),
        QuirkKind::CursorLoop | QuirkKind::CursorRejected => {
            by_era("Pagination, Implementation Guidelines", "Pagination, Implementation Guidelines")
        }
        QuirkKind::ListLimit => "a bound of this client's own; the specification has none".into(),
        QuirkKind::IdType
        | QuirkKind::IdNull
        | QuirkKind::ErrorNull
        | QuirkKind::ResultAndError
        | QuirkKind::UnknownId => by_era("Overview, Responses", "Overview, Responses"),
        QuirkKind::JsonrpcVersion => by_era("Overview, Messages", "Overview, Messages"),
        QuirkKind::Batch => "specification 2025-06-18, Key Changes".into(),
        QuirkKind::Noise => by_era("Transports, stdio", "stdio"),
        QuirkKind::ServerRequest => "specification 2026-07-28, stdio, Receiving Messages".into(),
        QuirkKind::ProbeClosed | QuirkKind::ProbeSilent | QuirkKind::ProbeLate => {
            "specification 2026-07-28, stdio, Backward Compatibility".into()
        }
        QuirkKind::VersionUnknown | QuirkKind::VersionRefused => {
            "specification 2025-11-25, Lifecycle, Version Negotiation".into()
        }
        QuirkKind::InitializeShape => by_era("Lifecycle, Initialization", "Discovery, DiscoverResult"),
        QuirkKind::NoExit => by_era("Lifecycle, Shutdown", "stdio, Shutdown"),
        QuirkKind::PingUnsupported | QuirkKind::PingSilent => {
            "specification 2025-11-25, Ping, Behavior Requirements".into()
        }
        QuirkKind::ListChangedLoop => format!("specification {revision}, {page}, List Changed Notification"),
        QuirkKind::EraChanged => "specification 2026-07-28, Versioning and Compatibility".into(),
        QuirkKind::ListenRefused => "specification 2026-07-28, Subscriptions, Server Behavior".into(),
        QuirkKind::Probe5xx => "specification 2026-07-28, Streamable HTTP, Backward Compatibility".into(),
        QuirkKind::ContentType | QuirkKind::NotificationStatus | QuirkKind::Undelivered => {
            by_era("Transports, Sending Messages to the Server", "Streamable HTTP, Sending Messages")
        }
        QuirkKind::GetRefused => "specification 2025-11-25, Transports, Listening for Messages from the Server".into(),
        QuirkKind::SessionExpiredStatus | QuirkKind::SessionLoop | QuirkKind::AlreadyInitialized => {
            "specification 2025-11-25, Transports, Session Management".into()
        }
        _ => format!("specification {revision}"),
    }
}
