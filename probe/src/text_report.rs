//! The report for people, with remedies for failures and citations of the specification.

use std::fmt::Write as _;

use mcp_proto::binding::oauth::Stage;
use mcp_proto::host::toolset::Why;
use mcp_proto::protocol::PerFamily;
use mcp_proto::{Engine, Era, Eras, Family, QuirkKind};
use serde_json::value::RawValue;

use crate::peer::Peer;
use crate::raw::{self, Members};
use crate::report::{CallRecord, FailureReport, FamilyReport, Record, Report, ReportAll};
use crate::run::AllEnded;
use crate::text::{cut, one_line, pad, safe, width, wrap};

/// Maximum items shown per family.
const ITEMS: usize = 100;
/// Maximum lines shown of a call's result.
const RESULT_LINES: usize = 20;
/// Maximum lines shown of the server's instructions.
const INSTRUCTION_LINES: usize = 6;
/// Maximum width of the name column.
const NAMES: usize = 36;

pub(crate) fn render(report: &Report<'_>, session: &Engine, peer: &Peer, colours: bool) -> String {
    let mut page = Page::new(colours);
    page.head(report);
    if let Some(failure) = &report.failure {
        page.failure(failure, session, peer.is_web());
    }
    if report.server.is_some() {
        page.families(report, session);
    }
    page.quirks(report, session);
    page.calls(&report.calls.iter().collect::<Vec<_>>());
    page.events(report, &peer.record);
    page.out
}

pub(crate) struct Page {
    pub(crate) out: String,
    pub(crate) columns: usize,
    colours: bool,
}

#[derive(Clone, Copy)]
pub(crate) enum Style {
    Bold,
    Dim,
    Red,
    Green,
    Yellow,
}

impl Page {
    pub(crate) fn new(colours: bool) -> Self {
        let columns = std::env::var("COLUMNS").ok().and_then(|columns| columns.parse().ok()).unwrap_or(100);
        Self { out: String::new(), columns: columns.clamp(40, 200), colours }
    }

    /// One of several servers: its identity and number of items.
    pub(crate) fn brief(&mut self, report: &Report<'_>, session: &Engine, peer: &Peer) {
        self.head(report);
        if let Some(failure) = &report.failure {
            self.failure(failure, session, peer.is_web());
        }
        if report.server.is_some() {
            for (family, report) in report.families.iter() {
                let status = self.status(report);
                let label = if family == Family::ResourceTemplates { "templates" } else { family.member() };
                self.line(&format!("{} {status}", pad(label, 13)));
            }
        }
        if !report.quirks.is_empty() {
            self.quirks(report, session);
        }
    }

    pub(crate) fn style(&self, style: Style, text: &str) -> String {
        let code = match style {
            Style::Bold => "1",
            Style::Dim => "2",
            Style::Red => "31",
            Style::Green => "32",
            Style::Yellow => "33",
        };
        if self.colours { format!("\u{1b}[{code}m{text}\u{1b}[0m") } else { text.into() }
    }

    pub(crate) fn line(&mut self, text: &str) {
        self.out.push_str(text);
        self.out.push('\n');
    }

    /// A heading after a blank line.
    pub(crate) fn heading(&mut self, title: &str, rest: &str) {
        let title = self.style(Style::Bold, title);
        let space = if rest.is_empty() { "" } else { "  " };
        self.line(&format!("\n{title}{space}{rest}"));
    }

    /// A text wrapped at the page's width, indented.
    pub(crate) fn block(&mut self, indent: usize, text: &str, limit: usize, style: Option<Style>) {
        let lines = wrap(&safe(text), self.columns.saturating_sub(indent));
        let more = lines.len().saturating_sub(limit);
        let margin = " ".repeat(indent);
        for line in lines.iter().take(limit) {
            let line = style.map_or_else(|| line.clone(), |style| self.style(style, line));
            self.line(format!("{margin}{line}").trim_end());
        }
        if more > 0 {
            let note = self.style(Style::Dim, &format!("… {more} more lines; --json has them"));
            self.line(&format!("{margin}{note}"));
        }
    }

    fn head(&mut self, report: &Report<'_>) {
        let called = one_line(report.called);
        let Some(server) = &report.server else {
            let title = self.style(Style::Bold, &called);
            return self.line(&title);
        };
        let name = server.name.map_or_else(|| "a server without a name".into(), one_line);
        let version = server.version.map(one_line).unwrap_or_default();
        let title = self.style(Style::Bold, &format!("{name} {version}"));
        let called = self.style(Style::Dim, &format!("({called})"));
        self.line(&format!("{} {called}", title.trim_end()));
        let era = match report.era {
            Some(Era::Modern) => "modern era, metadata on every request",
            Some(Era::Legacy) | None => "legacy era, opened by `initialize`",
        };
        self.line(&format!("protocol      {} ({era})", report.protocol_version.unwrap_or_default()));
        let mut label = "capabilities  ";
        for line in wrap(&capabilities(report.capabilities), self.columns.saturating_sub(label.len())) {
            self.line(&format!("{label}{line}"));
            label = "              ";
        }
        let ms = |ms: Option<u64>| ms.map_or_else(|| "not done".into(), |ms| format!("{ms} ms"));
        let (handshake, discovery) = (ms(report.timings.handshake_ms), ms(report.timings.discovery_ms));
        self.line(&format!("timings       handshake {handshake}, discovery {discovery}"));
        if report.connects > 1 {
            self.line(&format!("connects      {}", report.connects));
        }
        if let Some(instructions) = report.instructions {
            self.line("instructions");
            self.block(2, instructions.trim(), INSTRUCTION_LINES, None);
        }
    }

    fn failure(&mut self, failure: &FailureReport, session: &Engine, over_http: bool) {
        let title = self.style(Style::Red, &format!("Failed: {}", failure.kind));
        self.line(&format!("\n{title}"));
        self.block(2, &failure.message, usize::MAX, None);
        let mut remedy = remedy(&failure.kind, over_http).to_owned();
        let auto = session.options().eras == Eras::Auto && !over_http;
        if failure.kind == "handshake-rejected" && auto {
            "The server refused to open a session. Its own words say what it wants, credentials in its environment \
             for instance."
                .clone_into(&mut remedy);
        }
        self.block(2, &format!("What to do: {remedy}"), usize::MAX, Some(Style::Yellow));
    }

    fn families(&mut self, report: &Report<'_>, session: &Engine) {
        let catalog = session.catalog();
        let mut items: PerFamily<Vec<(String, Option<String>)>> = PerFamily::default();
        *items.get_mut(Family::Tools) = catalog
            .tools()
            .take(ITEMS)
            .map(|tool| (tool.name.into(), tool.description.or(tool.title).map(Into::into)))
            .collect();
        *items.get_mut(Family::Prompts) = catalog
            .prompts()
            .take(ITEMS)
            .map(|prompt| (prompt.name.into(), prompt.description.or(prompt.title).map(Into::into)))
            .collect();
        *items.get_mut(Family::Resources) = catalog
            .resources()
            .take(ITEMS)
            .map(|resource| {
                let what = resource.description.or(resource.title).or(resource.name);
                (resource.uri.into(), what.map(Into::into))
            })
            .collect();
        *items.get_mut(Family::ResourceTemplates) = catalog
            .resource_templates()
            .take(ITEMS)
            .map(|template| {
                let what = template.description.or(template.title).or(template.name);
                (template.uri_template.into(), what.map(Into::into))
            })
            .collect();
        for ((family, report), (_, items)) in report.families.iter().zip(items.iter()) {
            self.heading(title(family), &self.status(report));
            self.items(items, report.items);
        }
    }

    fn status(&self, family: FamilyReport) -> String {
        let FamilyReport { items, pages, .. } = family;
        let pages = if pages == 1 { String::new() } else { format!(", in {pages} pages") };
        match family.status {
            "listed" if items == 0 => self.style(Style::Dim, "listed, and there are none"),
            "listed" => self.style(Style::Green, &format!("{items}{pages}")),
            "not-advertised" => self.style(Style::Dim, "not advertised, so not asked for"),
            "absent" => self.style(Style::Yellow, "advertised, yet the server has no such method"),
            "partial" => self.style(Style::Yellow, &format!("{items} and maybe more{pages}: the list broke off")),
            "failed" => self.style(Style::Red, "the list failed"),
            "unasked" => self.style(Style::Dim, "the run ended before"),
            other => other.into(),
        }
    }

    fn items(&mut self, items: &[(String, Option<String>)], total: usize) {
        let names: Vec<String> = items.iter().map(|(name, _)| one_line(name)).collect();
        let column = names.iter().map(|name| width(name)).max().unwrap_or(0).min(NAMES);
        for (name, (_, what)) in names.iter().zip(items) {
            let what = what.as_deref().map(one_line).unwrap_or_default();
            let name = pad(name, column);
            let room = self.columns.saturating_sub(width(&name)).saturating_sub(4);
            let what = if room < 10 { String::new() } else { cut(&what, room) };
            let what = self.style(Style::Dim, &what);
            self.line(format!("  {}  {what}", cut(&name, self.columns.saturating_sub(2))).trim_end());
        }
        let more = total.saturating_sub(items.len());
        if more > 0 {
            self.line(&format!("  … and {more} more; --json has them all"));
        }
    }

    fn quirks(&mut self, report: &Report<'_>, session: &Engine) {
        if report.quirks.is_empty() {
            if report.outcome == "ready" {
                let nothing = self.style(Style::Green, "nothing that was noticed");
                self.heading("What the server gets wrong", &nothing);
            }
            return;
        }
        let count = self.style(Style::Yellow, &report.quirks.len().to_string());
        self.heading("What the server gets wrong", &count);
        for quirk in session.quirks() {
            let kind = self.style(Style::Yellow, quirk.kind.as_str());
            let method = quirk.method.as_deref().map(one_line).unwrap_or_default();
            self.line(format!("  {kind}  {method}").trim_end());
            self.block(4, &one_line(&quirk.detail), usize::MAX, None);
            let citation = citation(quirk.kind, quirk.family, report.era);
            self.block(4, &format!("see {citation}"), usize::MAX, Some(Style::Dim));
        }
    }

    pub(crate) fn calls(&mut self, calls: &[&CallRecord]) {
        if calls.is_empty() {
            return;
        }
        self.heading("Calls", "");
        for call in calls {
            let what = match call.method {
                "resources/read" => "read ",
                "prompts/get" => "prompt ",
                _ => "",
            };
            let style = match call.outcome {
                "result" => Style::Green,
                "tool-error" | "input-required" => Style::Yellow,
                _ => Style::Red,
            };
            let outcome = self.style(style, outcome(call));
            let took = call.took.map(|took| format!(" ({} ms)", took.as_millis())).unwrap_or_default();
            self.line(&format!("  {what}{}: {outcome}{took}", one_line(&call.target)));
            if let Some(result) = &call.result {
                self.block(4, &content(result), RESULT_LINES, None);
            }
            if let Some(error) = &call.error {
                let data = error.data.as_ref().map(|data| format!(" {}", data.get())).unwrap_or_default();
                let code = error.code.map(|code| format!(" ({code})")).unwrap_or_default();
                self.block(4, &format!("{}{code}{data}", error.message), RESULT_LINES, None);
            }
        }
    }

    /// Unsolicited messages of the server, and connection changes.
    fn events(&mut self, report: &Report<'_>, record: &Record) {
        // The end of the only connection is covered by the failure above.
        let plain = |kind| matches!(kind, "ready" | "closed" | "subscribed") || kind == "down" && report.connects <= 1;
        let told: Vec<_> = record.events().iter().filter(|event| !plain(event.kind)).collect();
        if told.is_empty() {
            return;
        }
        self.heading("What happened meanwhile", "");
        for event in told.iter().take(RESULT_LINES) {
            let detail = if event.detail.get() == "null" { String::new() } else { one_line(event.detail.get()) };
            let line = format!("{:>7} ms  {}  {detail}", event.at_ms, event.kind);
            self.line(&cut(line.trim_end(), self.columns));
        }
        let more = told.len().saturating_sub(RESULT_LINES);
        if more > 0 {
            let _ = writeln!(self.out, "  … and {more} more; --json has them");
        }
    }
}

const fn title(family: Family) -> &'static str {
    match family {
        Family::Tools => "Tools",
        Family::Prompts => "Prompts",
        Family::Resources => "Resources",
        Family::ResourceTemplates => "Resource templates",
        _ => family.member(),
    }
}

fn outcome(call: &CallRecord) -> &'static str {
    match call.outcome {
        "result" => "result",
        "tool-error" => "the tool failed",
        "error" => "the server refused it",
        "not-advertised" => match call.method {
            "resources/read" => "not sent: the server has no resources",
            "prompts/get" => "not sent: the server has no prompts",
            _ => "not sent: the server has no tools",
        },
        "timeout" => "no answer in time",
        "cancelled" => "cancelled",
        "not-sent" => "not sent: the run ended before",
        "unknown" => "no answer: the connection broke, and it may have run",
        "input-required" => "the server wants input, which was declined",
        other => other,
    }
}

/// The capability names, each with its options.
fn capabilities(capabilities: Option<&RawValue>) -> String {
    let Some(capabilities) = capabilities else { return "the server did not say".into() };
    let members = Members::of(capabilities);
    let shown: Vec<String> = members
        .iter()
        .filter(|(_, value)| !matches!(value.get(), "null" | "false"))
        .map(|(name, value)| {
            let options = Members::of(value);
            let options: Vec<&str> =
                options.iter().filter(|(_, on)| on.get() != "false").map(|(name, _)| name).collect();
            let options = if options.is_empty() { String::new() } else { format!(" ({})", options.join(", ")) };
            one_line(&format!("{name}{options}"))
        })
        .collect();
    if shown.is_empty() { "none".into() } else { shown.join(", ") }
}

/// The text of a result: a tool's content, a resource's contents, a prompt's messages.
fn content(result: &RawValue) -> String {
    let members = Members::of(result);
    let list = |name| members.get(name).map(raw::elements).unwrap_or_default();
    let mut parts: Vec<String> = list("content").into_iter().map(block).collect();
    parts.extend(list("contents").into_iter().map(block));
    parts.extend(list("messages").into_iter().map(|message| {
        let message = Members::of(message);
        let role = message.string("role").unwrap_or_default();
        format!("{role}: {}", message.get("content").map(block).unwrap_or_default())
    }));
    if parts.is_empty() {
        return members.get("structuredContent").unwrap_or(result).get().into();
    }
    parts.join("\n")
}

/// A content block: its text, or a description.
fn block(block: &RawValue) -> String {
    let block = Members::of(block);
    let kind = block.string("type").unwrap_or_default();
    match block.string("text") {
        Some(text) if matches!(&*kind, "text" | "") => text,
        Some(_) | None => {
            let about = block.string("mimeType").or_else(|| block.string("uri")).unwrap_or_default();
            format!("[{}]", format!("{kind} {about}").trim())
        }
    }
}

/// Maximum tools shown, and maximum lines per section.
const TOOLS: usize = 200;
const LINES: usize = 40;
/// Maximum width of the name column.
const EXPOSED_NAMES: usize = 48;

pub(crate) fn render_all(report: &ReportAll<'_>, ended: &AllEnded, colours: bool) -> String {
    let mut page = Page::new(colours);
    for (at, (name, server)) in report.servers.iter().enumerate() {
        if at > 0 {
            page.line("");
        }
        match ended.servers.iter().find(|ended| ended.peer.name == **name) {
            Some(ended) => page.brief(server, &ended.session, &ended.peer),
            None => {
                let title = page.style(Style::Bold, &one_line(name));
                let outcome = match &server.failure {
                    Some(failure) => page.style(Style::Red, &format!("of no use: {}", one_line(&failure.message))),
                    None => page.style(Style::Dim, "disabled, and so not opened"),
                };
                page.line(&format!("{title}  {outcome}"));
            }
        }
    }
    toolset(&mut page, report);
    let calls: Vec<_> = report.calls.iter().map(|call| call.call).collect();
    page.calls(&calls);
    page.out
}

fn toolset(page: &mut Page, report: &ReportAll<'_>) {
    let count = match report.toolset.len() {
        0 => page.style(Style::Yellow, "nothing"),
        count => page.style(Style::Green, &count.to_string()),
    };
    page.heading("What a model would get", &count);
    let shown = report.toolset.iter().take(TOOLS);
    let column = shown.clone().map(|function| width(&function.name)).max().unwrap_or(0).min(EXPOSED_NAMES);
    for function in shown {
        let name = pad(&function.name, column);
        let room = page.columns.saturating_sub(width(&name)).saturating_sub(4);
        let what = function.description.as_deref().map(one_line).unwrap_or_default();
        let what = if room < 10 { String::new() } else { cut(&what, room) };
        let what = page.style(Style::Dim, &what);
        page.line(format!("  {name}  {what}").trim_end());
    }
    let more = report.toolset.len().saturating_sub(TOOLS);
    if more > 0 {
        page.line(&format!("  … and {more} more; --json has them all"));
    }

    // If only the server's name was changed, listing each of its tools adds nothing.
    let renamed = report.toolset.iter().filter(|function| !function.name.ends_with(&function.tool));
    let renamed = renamed.filter_map(|function| {
        let why = match function.renamed? {
            "characters" => "characters of it are replaced, as the style of names has it",
            "too-long" => "it would be too long",
            "configured" => "the configuration names it so",
            _ => "another tool has that name",
        };
        Some(format!("{}: {} of {}; {why}", function.name, one_line(&function.tool), one_line(&function.server)))
    });
    section(page, "Under another name than its own", renamed);
    // Utility tools for families that a server lacks are not listed.
    let not_offered = Why::NotOffered.to_string();
    let left_out = report.left_out.iter().filter(|left_out| left_out.why != not_offered);
    let left_out = left_out
        .map(|left_out| format!("{} of {}: {}", one_line(&left_out.tool), one_line(&left_out.server), left_out.why));
    section(page, "Left out", left_out);
    let suspicious = report.suspicious.iter().map(|found| {
        let (tool, server, excerpt) = (one_line(&found.tool), one_line(&found.server), one_line(&found.excerpt));
        format!("{tool} of {server}, {}: {}: {excerpt:?}", one_line(&found.at), found.sign)
    });
    section(page, "Tries to instruct the model", suspicious);
    section(page, "What is odd in the file", report.configuration.warnings.iter().map(|it| one_line(&it.message)));
}

/// A section with these lines; nothing if there are none.
fn section(page: &mut Page, title: &str, lines: impl Iterator<Item = String>) {
    let lines: Vec<String> = lines.collect();
    if lines.is_empty() {
        return;
    }
    let count = page.style(Style::Yellow, &lines.len().to_string());
    page.heading(title, &count);
    for line in lines.iter().take(LINES) {
        page.block(2, line, usize::MAX, None);
    }
    let more = lines.len().saturating_sub(LINES);
    if more > 0 {
        page.line(&format!("  … and {more} more; --json has them all"));
    }
}

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
