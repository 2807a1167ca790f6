//! The report for people, with remedies for failures and citations of the specification.

use std::ffi::OsString;
use std::fmt::Write as _;

use http::header::AUTHORIZATION;
use mcp_proto::host::toolset::Why;
use mcp_proto::{Diagnosis, Engine, Era, Eras, FailureCause, FailureStage, Family, QuirkKind};
use serde_json::value::RawValue;

use crate::peer::{Ended, Peer};
use crate::raw::{self, Members};
use crate::record::{CallRecord, FailureReport, Record};
use crate::report::{AllEnded, FamilyReport, Report, ReportAll, is_renamed};
use crate::text::{cut, one_line, pad, safe, width, wrap};

/// Maximum items shown per family.
const ITEMS: usize = 100;
/// Maximum lines shown of a call's result.
const RESULT_LINES: usize = 20;
/// Maximum lines shown of the server's instructions.
const INSTRUCTION_LINES: usize = 6;
/// Maximum width of the name column.
const NAMES: usize = 36;

pub(crate) fn render(report: &Report<'_>, ended: &Ended, colours: bool) -> String {
    let mut page = Page::new(colours);
    let remedy = Remedy { session: &ended.session, peer: &ended.peer, is_entry: false };
    page.head(report, Some(&remedy));
    if report.server.is_some() {
        page.families(report, &ended.session);
    }
    page.quirks(report, &ended.session);
    let renamed = report.renamed().map(|(name, tool, why)| renamed(&name, tool, "", why));
    section(&mut page, RENAMED, renamed);
    page.calls(&report.calls.iter().collect::<Vec<_>>());
    page.events(report, &ended.peer.record);
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
    fn brief(&mut self, report: &Report<'_>, remedy: &Remedy<'_>) {
        self.head(report, Some(remedy));
        if report.server.is_some() {
            for (family, report) in report.families.iter() {
                let status = self.status(report);
                let label = if family == Family::ResourceTemplates { "templates" } else { family.member() };
                self.line(&format!("{} {status}", pad(label, 13)));
            }
        }
        if !report.quirks.is_empty() {
            self.quirks(report, remedy.session);
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

    /// What was found: the first line says it, and is followed by what to do.
    fn head(&mut self, report: &Report<'_>, remedy: Option<&Remedy<'_>>) {
        let identity = report.server.as_ref().map(|server| {
            let name = server.name.map_or_else(|| "a server without a name".into(), one_line);
            format!("{name} {}", server.version.map(one_line).unwrap_or_default()).trim_end().to_owned()
        });
        match (&report.failure, &identity) {
            (Some(failure), _) => self.failure(&one_line(report.called), failure, remedy),
            (None, Some(identity)) => {
                let tools = match report.families.tools.items {
                    0 => "no tools".into(),
                    1 => "1 tool".into(),
                    tools => format!("{tools} tools"),
                };
                let found = self.style(Style::Bold, &format!("{identity}: ready, {tools}"));
                let called = self.style(Style::Dim, &format!("({})", one_line(report.called)));
                self.line(&format!("{found} {called}"));
            }
            (None, None) => self.line(&one_line(report.called)),
        }
        let Some(identity) = identity else { return };
        if report.failure.is_some() {
            self.line(&format!("server        {identity}"));
        }
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

    /// The cause of a failure, what to do, and the evidence.
    fn failure(&mut self, called: &str, failure: &FailureReport, remedy: Option<&Remedy<'_>>) {
        let diagnosis = remedy.and_then(|remedy| remedy.peer.record.diagnosis.as_ref());
        let found = diagnosis.map_or_else(|| format!("{called}: {}", failure.message), |it| it.finding.to_string());
        let found = self.style(Style::Red, &one_line(&found));
        self.line(&found);
        if let Some(remedy) = remedy.and_then(|remedy| remedy.of(&failure.kind, diagnosis)) {
            self.block(2, &format!("What to do: {remedy}"), usize::MAX, Some(Style::Yellow));
        }
        self.block(2, &format!("{}: {}", failure.kind, failure.message), usize::MAX, None);
        let evidence = diagnosis.map(|it| &*it.evidence).unwrap_or_default().iter();
        for text in evidence.filter(|text| !failure.message.contains(&***text) && !found.contains(&***text)) {
            self.block(2, &one_line(text), usize::MAX, Some(Style::Dim));
        }
        let starts = remedy.map_or(0, |remedy| remedy.peer.record.starts);
        if starts > 1 {
            let starts = format!("It was started {starts} times, since an older server may exit on the first request.");
            self.block(2, &starts, usize::MAX, Some(Style::Dim));
        }
    }

    fn families(&mut self, report: &Report<'_>, session: &Engine) {
        for (family, report) in report.families.iter() {
            self.heading(title(family), &self.status(report));
            let items = session.catalog().list(family).iter().take(ITEMS).map(|(name, item)| {
                let members: Members<'_> = serde_json::from_str(item).unwrap_or_default();
                let what = ["description", "title", "name"].iter().find_map(|member| members.string(member));
                (name, what.filter(|what| what != name))
            });
            let items: Vec<_> = items.collect();
            self.items(&items, report.items, NAMES);
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

    /// Names, and what each is, with names in a column of this width at most.
    fn items(&mut self, items: &[(&str, Option<String>)], total: usize, most: usize) {
        let names: Vec<String> = items.iter().map(|(name, _)| one_line(name)).collect();
        let column = names.iter().map(|name| width(name)).max().unwrap_or(0).min(most);
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
        let told: Vec<_> = record.events.iter().filter(|event| !plain(event.kind)).collect();
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
        "not-advertised" if call.error.is_some() => "not sent: no server has a tool of this name",
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

pub(crate) fn render_all(report: &ReportAll<'_>, all: &AllEnded, colours: bool) -> String {
    let mut page = Page::new(colours);
    let ended = |name: &str| all.servers.iter().find(|ended| ended.peer.name == *name);
    for (at, (name, server)) in report.servers.iter().enumerate() {
        if at > 0 {
            page.line("");
        }
        match (ended(name), &server.failure) {
            (Some(Ended { session, peer }), _) => {
                page.brief(server, &Remedy { session, peer, is_entry: true });
            }
            (None, Some(_)) => page.head(server, None),
            (None, None) => {
                let title = page.style(Style::Bold, &one_line(name));
                let outcome = page.style(Style::Dim, "disabled, and so not opened");
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
    let shown = report.toolset.iter().take(TOOLS).map(|function| (&*function.name, function.description.clone()));
    page.items(&shown.collect::<Vec<_>>(), report.toolset.len(), EXPOSED_NAMES);
    let renamed = report.toolset.iter().filter(|function| is_renamed(&function.name, &function.tool));
    let renamed = renamed.filter_map(|function| {
        let server = format!(" of {}", one_line(&function.server));
        Some(self::renamed(&function.name, &function.tool, &server, function.renamed?))
    });
    section(page, RENAMED, renamed);
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

const RENAMED: &str = "Under another name than its own";

/// A tool that a model knows by another name, and why.
fn renamed(exposed: &str, tool: &str, server: &str, why: &str) -> String {
    let why = match why {
        "characters" => "characters replaced",
        "too-long" => "it would be too long",
        "configured" => "the configuration names it so",
        _ => "another tool has that name, or may get it",
    };
    format!("{exposed}: {}{server}; {why}", one_line(tool))
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

/// What a failure's advice depends on: what the user did already is not advised.
struct Remedy<'a> {
    session: &'a Engine,
    peer: &'a Peer,
    /// The server is an entry of a file.
    is_entry: bool,
}

impl Remedy<'_> {
    /// What the user can do about a failure of this kind, with this cause if it is known.
    fn of(&self, kind: &str, diagnosis: Option<&Diagnosis>) -> Option<String> {
        let late = match kind {
            "timeout" if self.peer.is_authorizing => " --timeout SECONDS gives the sign-in more time.",
            "timeout" | "handshake-timeout" => " --timeout SECONDS gives it more time.",
            _ => "",
        };
        let is_merely_slow =
            |cause| matches!(cause, FailureCause::Silent | FailureCause::Downloading | FailureCause::SignInFailed);
        let Some(diagnosis) = diagnosis else {
            return (!late.is_empty()).then(|| ["Is the server merely slow?", late].concat());
        };
        let has_token = || self.peer.site.as_ref().is_some_and(|site| site.headers.contains_key(AUTHORIZATION));
        let (stage, is_refused) = (diagnosis.stage(), diagnosis.cause == FailureCause::TokenRequired);
        if stage == FailureStage::Authorization && self.peer.record.authorization.is_some() {
            // The message has the advice for the step that failed.
            return None;
        }
        let advice = if is_refused && has_token() {
            "The server does not accept the `Authorization` header that it gets: it may have expired, or be for another \
             server."
        } else if is_refused && self.is_entry {
            "A token that you have goes into the entry's `headers`: `Authorization: Bearer TOKEN`."
        } else if is_refused {
            "A token that you have goes with --header 'Authorization: Bearer TOKEN'."
        } else {
            diagnosis.advice()
        };
        let is_restricted = self.session.options().eras != Eras::Auto;
        let is_proxy = |name: OsString| name.to_string_lossy().to_lowercase().ends_with("_proxy");
        let more = if stage == FailureStage::Handshake && is_restricted {
            " Without --era, both eras are tried."
        } else if stage == FailureStage::Transport && std::env::vars_os().any(|(name, _)| is_proxy(name)) {
            " The proxies in the environment count, too."
        } else {
            ""
        };
        Some([advice, more, if is_merely_slow(diagnosis.cause) { late } else { "" }].concat())
    }
}

/// The part of the specification that describes what the server should do.
fn citation(kind: QuirkKind, family: Option<Family>, era: Option<Era>) -> String {
    let is_modern = era == Some(Era::Modern);
    let page = match family {
        Some(Family::Tools) => "Tools",
        Some(Family::Prompts) => "Prompts",
        Some(Family::Resources | Family::ResourceTemplates) => "Resources",
        None => "Logging",
        Some(family) => family.member(),
    };
    // The pages of the legacy and of the modern revision, `%` for that of the family; empty where there is none.
    let [legacy, modern] = match kind {
        QuirkKind::UndeclaredFamily | QuirkKind::UndeclaredListChanged | QuirkKind::MethodNotFound => {
            ["%, Capabilities"; 2]
        }
        QuirkKind::MethodNotFoundText => ["Overview, Error Responses", "Overview, Error Codes"],
        QuirkKind::CapabilityShape | QuirkKind::CapabilitiesRefused => {
            ["Lifecycle, Capability Negotiation", "Discovery, DiscoverResult"]
        }
        QuirkKind::DuplicateItem if family == Some(Family::Tools) => ["Tools, Tool Names"; 2],
        QuirkKind::InvalidItem | QuirkKind::DuplicateItem => ["%, Data Types"; 2],
        QuirkKind::ListShape => ["Pagination, Response Format"; 2],
        QuirkKind::CursorLoop | QuirkKind::CursorRejected => ["Pagination, Implementation Guidelines"; 2],
        QuirkKind::ListLimit => return "a bound of this client's own; the specification has none".into(),
        QuirkKind::IdType
        | QuirkKind::IdNull
        | QuirkKind::ErrorNull
        | QuirkKind::ResultAndError
        | QuirkKind::ErrorShape => ["Overview, Responses"; 2],
        QuirkKind::ElicitationId => ["Elicitation, URL Mode Elicitation"; 2],
        QuirkKind::UnknownId => ["Overview, Responses"; 2],
        QuirkKind::ModernSilent => ["", "Overview, Responses"],
        QuirkKind::JsonrpcVersion | QuirkKind::LoneSurrogate => ["Overview, Messages"; 2],
        QuirkKind::Batch => return "specification 2025-06-18, Key Changes".into(),
        QuirkKind::Noise | QuirkKind::Repaired => ["Transports, stdio", "stdio"],
        QuirkKind::ServerRequest => ["", "stdio, Receiving Messages"],
        QuirkKind::ProbeClosed | QuirkKind::ProbeSilent | QuirkKind::ProbeLate => ["", "stdio, Backward Compatibility"],
        QuirkKind::VersionUnknown | QuirkKind::VersionRefused => ["Lifecycle, Version Negotiation", ""],
        QuirkKind::InitializeShape => ["Lifecycle, Initialization", "Discovery, DiscoverResult"],
        QuirkKind::NoExit => ["Lifecycle, Shutdown", "stdio, Shutdown"],
        QuirkKind::PingUnsupported | QuirkKind::PingSilent | QuirkKind::PingExits => {
            ["Ping, Behavior Requirements", ""]
        }
        QuirkKind::ListChangedLoop => ["%, List Changed Notification"; 2],
        QuirkKind::EraChanged => ["", "Versioning and Compatibility"],
        QuirkKind::ListenRefused => ["", "Subscriptions, Server Behavior"],
        QuirkKind::Probe5xx => ["", "Streamable HTTP, Backward Compatibility"],
        QuirkKind::ContentType
        | QuirkKind::NotificationStatus
        | QuirkKind::Undelivered
        | QuirkKind::SseUnfinished
        | QuirkKind::SseEventName => {
            ["Transports, Sending Messages to the Server", "Streamable HTTP, Sending Messages"]
        }
        QuirkKind::GetRefused => ["Transports, Listening for Messages from the Server", ""],
        QuirkKind::SessionExpiredStatus
        | QuirkKind::SessionIdShape
        | QuirkKind::SessionLoop
        | QuirkKind::AlreadyInitialized => ["Transports, Session Management", ""],
        _ => return format!("specification {}", if is_modern { "2026-07-28" } else { "2025-11-25" }),
    };
    let (revision, part) = match (legacy, modern) {
        (_, "") => ("2025-11-25", legacy),
        ("", _) => ("2026-07-28", modern),
        _ if is_modern => ("2026-07-28", modern),
        _ => ("2025-11-25", legacy),
    };
    format!("specification {revision}, {}", part.replace('%', page))
}

#[cfg(test)]
mod tests {
    use mcp_proto::{Client, Failure, FailureKind, Http, StderrLines};

    use super::*;
    use crate::args::{Invocation, Target, Task, parse};
    use crate::peer::Site;
    use crate::trace::Trace;

    /// What is advised after this failure, with this command line.
    fn remedy(kind: FailureKind, message: &str, args: &[&str]) -> Option<String> {
        let parsed = parse(args.iter().map(Into::into)).ok().unwrap();
        let Invocation::Do(settings, Task::Run(Target::Http { url, .. })) = parsed else { panic!("no run: {args:?}") };
        let options = settings.options();
        let trace = Trace::new(options.limits.message, false);
        let session = Engine::clone(&Client::new(Http::new(&url).unwrap(), options, 0));
        let peer = Peer::new("s".into(), Some(Site { url, headers: settings.headers.clone() }), trace);
        let diagnosis = Diagnosis::new(Failure::new(kind, message), &session, &StderrLines::default());
        let remedy = Remedy { session: &session, peer: &peer, is_entry: false };
        remedy.of(kind.as_str(), Some(&diagnosis))
    }

    #[test]
    fn what_was_done_already_is_not_advised() {
        let plain = ["http", "http://127.0.0.1/x"];
        let token = ["--header", "Authorization: Bearer x", "http", "http://127.0.0.1/x"];
        let refused = (FailureKind::Unauthorized, "s refused `initialize`: HTTP 401");
        assert!(remedy(refused.0, refused.1, &plain).unwrap().contains("--header"));
        assert!(!remedy(refused.0, refused.1, &token).unwrap().contains("--header"));
        let legacy = ["--era", "legacy", "http", "http://127.0.0.1/x"];
        let rejected = (FailureKind::HandshakeRejected, "s refused `initialize`: no");
        assert!(!remedy(rejected.0, rejected.1, &plain).unwrap().contains("--era"));
        assert!(remedy(rejected.0, rejected.1, &legacy).unwrap().contains("Without --era"));
    }
}
