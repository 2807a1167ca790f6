//! Selects what a model may call of a server, and describes it for the model.
//!
//! [`choose`] filters a server's tools by the server's entry, using their own names, and adds the utility tools for
//! resources and prompts, if the entry allows them and the server has resources or prompts. The result lists what was
//! left out with the reason. A server with nothing left has no toolset. Titles and descriptions are replaced as the
//! entry's `overrides` say; pass [`ToolPolicy::name_overrides`] to [`Names::set_overrides`], and names are, too.
//!
//! ```
//! # use mcp_proto::{Action, Client, Eras, Messages, Options, Time, Transport};
//! # let mut options = Options::new("my-host", "1.0");
//! # options.eras = Eras::LegacyOnly;
//! # let mut client = Client::new(Messages::new(), options, 0);
//! # client.open(Time::ZERO).unwrap();
//! # client.handle_transport(Time::ZERO, client.connection(), Transport::Opened);
//! # let answers = [
//! #     r#"{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"1"}}"#,
//! #     r#"{"tools":[{"name":"create-issue","description":"Creates an issue.","inputSchema":{"type":"object"}},{"name":"drop"}]}"#,
//! # ];
//! # let mut answers = answers.iter();
//! # while let Some(action) = client.poll() {
//! #     let Action::Send(message) = action else { continue };
//! #     let Some(id) = message.wire_id().map(|id| id.as_u64()) else { continue };
//! #     let answer = format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{}}}"#, answers.next().unwrap());
//! #     client.handle_message(Time::ZERO, client.connection(), answer.as_bytes());
//! # }
//! use mcp_proto::host::config::ToolPolicy;
//! use mcp_proto::host::names::Names;
//! use mcp_proto::host::toolset::{Suspicion, choose};
//!
//! let mut policy = ToolPolicy::default();
//! policy.exclude = vec!["drop*".into()];
//! let choice = choose("github", &policy, &*client, Suspicion::Warn);
//! let toolset = choice.toolset.expect("something is left");
//!
//! let mut names = Names::default();
//! names.update([("github", toolset.targets())]);
//! let functions: Vec<_> = toolset.into_functions(&names).collect();
//! assert_eq!(
//!     serde_json::to_string(&functions).unwrap(),
//!     r#"[{"name":"mcp_github_create_issue","description":"Creates an issue.","input_schema":{"type":"object"}}]"#
//! );
//! assert_eq!(choice.left_out[0].to_string(), "drop: `exclude` names it");
//! ```

use alloc::borrow::Cow;
use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use serde::{Serialize, Serializer};
use serde_json::value::RawValue;

use super::config::{Filter, ToolOverride, ToolPolicy};
use super::instructions::{Finding, Sign};
use super::names::{Names, Renamed, Target};
use super::schema::Profile;
use super::{Utility, glob, instructions, schema};
use crate::catalog::{Catalog, Tool, ToolHints};
use crate::client::{Engine, FamilyStatus};
use crate::jsonrpc::{Json, Object, readable};
use crate::protocol::{Capability, Family};

/// What [`choose`] needs to know of a server's offer.
///
/// Converts from `&Engine`; [`OfferView::new`] takes a saved catalogue, for example.
#[derive(Clone, Copy, Debug)]
pub struct OfferView<'a> {
    catalog: &'a Catalog,
    resources: bool,
    prompts: bool,
    app_tools: bool,
}

impl<'a> OfferView<'a> {
    /// A catalogue and the status of its families. A family counts as available if it was listed, completely or in
    /// part, even if it is empty. Resource templates count as resources.
    pub fn new(catalog: &'a Catalog, status: impl Fn(Family) -> FamilyStatus) -> Self {
        let has = |family| matches!(status(family), FamilyStatus::Listed | FamilyStatus::Partial);
        let resources = has(Family::Resources) || has(Family::ResourceTemplates);
        Self { catalog, resources, prompts: has(Family::Prompts), app_tools: false }
    }

    /// With `app_tools`, tools that are for apps alone ([`Visibility`]) are not left out.
    #[must_use]
    pub fn with_app_tools(self, app_tools: bool) -> Self {
        Self { app_tools, ..self }
    }

    /// Whether the server has resources or prompts.
    pub(super) fn has(&self, capability: Capability) -> bool {
        if capability == Capability::Resources { self.resources } else { self.prompts }
    }
}

impl<'a> From<&'a Engine> for OfferView<'a> {
    fn from(session: &'a Engine) -> Self {
        Self::new(session.catalog(), |family| session.family(family).status)
    }
}

/// Who may see and call a tool: `_meta.ui.visibility` of the extension MCP Apps (specification 2026-01-26, "Resource
/// Discovery").
///
/// A host must not list a tool for its model that is not for it, and must refuse an app's call of a tool that is not for
/// apps, or of another server's. [`choose`] does the first, and the hub with it. A host makes a call for an app with
/// [`HubSession::request`](super::hub::HubSession::request), which needs no name for the model, and whose result is whole.
///
/// ```
/// use mcp_proto::RawValue;
/// use mcp_proto::host::toolset::Visibility;
///
/// let meta = RawValue::from_string(r#"{"ui": {"resourceUri": "ui://board", "visibility": ["app"]}}"#.into()).unwrap();
/// let visibility = Visibility::of(Some(&meta));
/// assert!(visibility.app && !visibility.model);
/// assert_eq!(Visibility::of(None), Visibility::default(), "both");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Visibility {
    /// The model may see and call it.
    pub model: bool,
    /// The apps of its server may call it.
    pub app: bool,
}

/// For the model and for apps, as a tool is that does not say.
impl Default for Visibility {
    fn default() -> Self {
        Self { model: true, app: true }
    }
}

impl Visibility {
    /// Reads a tool's `_meta` ([`Tool::meta`]). Without a list, or with a value of another type, it is the default; a
    /// string counts as a list of one.
    pub fn of(meta: Option<&RawValue>) -> Self {
        let listed = meta.and_then(|meta| Json::from(meta).member("ui")?.member("visibility"));
        let names = |value: Json<'_>, name: &str| value.as_string().as_deref() == Some(name);
        match listed.map(|listed| (listed, listed.first())) {
            Some((listed, b'"')) => Self { model: names(listed, "model"), app: names(listed, "app") },
            Some((listed, b'[')) => {
                let mut found = Self { model: false, app: false };
                listed.each_element(|name| {
                    found.model |= names(name, "model");
                    found.app |= names(name, "app");
                });
                found
            }
            Some(_) | None => Self::default(),
        }
    }
}

/// What to do with a tool whose text tries to instruct the model ([`instructions`]). Checks title and description of
/// the tool and in its argument schema, but not defaults and examples; of its name only whether it has invisible
/// characters. [`inspect`](super::instructions::inspect) checks the server's other texts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(rename_all = "snake_case"))]
#[non_exhaustive]
pub enum Suspicion {
    /// Do not check.
    Ignore,
    /// Report it and keep the tool.
    #[default]
    Warn,
    /// Report it and leave out the tool.
    LeaveOut,
}

/// The result of [`choose`].
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Choice<'a> {
    /// The selected tools; `None` if there are none.
    pub toolset: Option<Toolset<'a>>,
    /// What was left out and why, including utility tools.
    pub left_out: Vec<LeftOut>,
    /// Text that tries to instruct the model, in tools that passed the filters.
    pub suspicious: Vec<Suspicious<'a>>,
    /// Patterns of the effective filter that match no tool: often exposed names instead of the server's own.
    pub unmatched: Vec<&'a str>,
    /// Names in `overrides` that no tool of the server has.
    pub unmatched_overrides: Vec<&'a str>,
}

/// What a model may call of a server; never empty.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Toolset<'a> {
    /// The server's name in the configuration.
    pub server: &'a str,
    /// The tools, in the server's order, with title and description as the entry's `overrides` have them; `raw` is the
    /// server's.
    pub tools: Vec<Tool<'a>>,
    /// The utility tools, which the host answers.
    pub utilities: Vec<Utility>,
}

/// A tool that was left out.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct LeftOut {
    /// The tool.
    pub target: Target,
    /// The reason.
    pub why: Why,
}

impl fmt::Display for LeftOut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.target.name(), self.why)
    }
}

/// Why a tool was left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(tag = "type", content = "value", rename_all = "snake_case")
)]
#[non_exhaustive]
pub enum Why {
    /// `include` is set and does not match the tool.
    NotIncluded,
    /// `exclude` matches the tool.
    Excluded,
    /// It is for apps alone ([`Visibility`]).
    NotForModel,
    /// The tool's text tries to instruct the model.
    Instructs(Sign),
    /// `resources` or `prompts` is off in the entry.
    TurnedOff,
    /// The server has no resources or no prompts.
    NotOffered,
    /// No exposed name is free ([`names`](super::names)).
    Unnamed,
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotIncluded => f.write_str("`include` does not name it"),
            Self::Excluded => f.write_str("`exclude` names it"),
            Self::NotForModel => f.write_str("its `_meta.ui.visibility` does not name `model`"),
            Self::Instructs(sign) => write!(f, "it tries to instruct the model ({sign})"),
            Self::TurnedOff => f.write_str("the configuration turns it off"),
            Self::NotOffered => f.write_str("the server has nothing for it"),
            Self::Unnamed => f.write_str("every name that it could have is taken"),
        }
    }
}

/// Text that tries to instruct the model.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Suspicious<'a> {
    /// The tool.
    pub tool: &'a str,
    /// The position in the tool: a JSON Pointer (RFC 6901); long parts are replaced by `…`.
    pub at: Box<str>,
    /// The finding.
    pub finding: Finding,
}

/// A function for the model. Serialized as `name`, `description` and `input_schema`.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct Function<'a> {
    /// Exposed name.
    pub name: Cow<'a, str>,
    /// Description.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<Cow<'a, str>>,
    /// The JSON Schema of its arguments, byte for byte as the server wrote it. [`schema`] adapts it for providers that
    /// support a subset. Serialized with U+FFFD in the place of half of a surrogate pair, which no provider reads.
    #[serde(serialize_with = "write_readable")]
    pub input_schema: &'a RawValue,
    /// The server's claims about the tool's behaviour.
    #[serde(skip)]
    pub hints: ToolHints,
    /// Why the exposed name differs from the tool's own.
    #[serde(skip)]
    pub renamed: Option<Renamed>,
}

/// The interface of a provider for which a function is written, with or without `strict`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(rename_all = "kebab-case"))]
#[non_exhaustive]
pub enum Api {
    /// An element of `tools` of OpenAI's chat completions
    /// (<https://platform.openai.com/docs/api-reference/chat/create>).
    #[cfg_attr(feature = "serde", serde(rename = "openai-chat"))]
    OpenAiChat,
    /// The same with `strict`: the model keeps to the schema, which is that of [`Profile::OpenAiStrict`].
    #[cfg_attr(feature = "serde", serde(rename = "openai-chat-strict"))]
    OpenAiChatStrict,
    /// An element of `tools` of OpenAI's responses
    /// (<https://platform.openai.com/docs/api-reference/responses/create>).
    #[cfg_attr(feature = "serde", serde(rename = "openai-responses"))]
    OpenAiResponses,
    /// The same with `strict`, which is that interface's default.
    #[cfg_attr(feature = "serde", serde(rename = "openai-responses-strict"))]
    OpenAiResponsesStrict,
    /// An element of `tools` of Anthropic's messages (<https://docs.anthropic.com/en/api/messages>).
    Anthropic,
    /// An element of `functionDeclarations` of Gemini (<https://ai.google.dev/api/caching#FunctionDeclaration>).
    Gemini,
}

impl Api {
    /// Every interface.
    pub const ALL: &'static [Self] = &[
        Self::OpenAiChat,
        Self::OpenAiChatStrict,
        Self::OpenAiResponses,
        Self::OpenAiResponsesStrict,
        Self::Anthropic,
        Self::Gemini,
    ];

    /// What it takes as a schema.
    pub const fn profile(self) -> Profile {
        match self {
            Self::OpenAiChat | Self::OpenAiResponses => Profile::OpenAi,
            Self::OpenAiChatStrict | Self::OpenAiResponsesStrict => Profile::OpenAiStrict,
            Self::Anthropic => Profile::Anthropic,
            Self::Gemini => Profile::Gemini,
        }
    }
}

impl Function<'_> {
    /// The function as JSON for a provider, with the schema as it takes it ([`Api::profile`]). All of these providers take
    /// names with hyphens ([`Style::with_hyphens`](super::names::Style::with_hyphens)). What the model calls an
    /// [`OpenAiChatStrict`](Api::OpenAiChatStrict) or [`OpenAiResponsesStrict`](Api::OpenAiResponsesStrict) function with has
    /// nulls that the server may refuse: [`schema::without_nulls`] removes them.
    ///
    /// To adapt a schema takes longer than to write it: keep the text as long as the functions do not change.
    ///
    /// ```
    /// # use mcp_proto::host::names::{Names, Target};
    /// # use mcp_proto::host::toolset::{Api, Toolset};
    /// # use mcp_proto::host::Utility;
    /// # use mcp_proto::host::toolset::{OfferView, Suspicion, choose};
    /// # use mcp_proto::{FamilyStatus, catalog::Catalog, host::config::ToolPolicy};
    /// # let (catalog, policy) = (Catalog::default(), ToolPolicy::default());
    /// # let toolset = choose("s", &policy, OfferView::new(&catalog, |_| FamilyStatus::Listed), Suspicion::Warn).toolset.unwrap();
    /// # let mut names = Names::default();
    /// # names.update([("s", toolset.targets())]);
    /// let function = toolset.into_functions(&names).next().unwrap();
    /// let json = function.json(Api::Anthropic);
    /// assert!(json.get().starts_with(r#"{"name":"mcp_s_list_resources","description":"List"#));
    /// assert!(json.get().ends_with(r#""input_schema":{"type":"object","properties":{}}}"#));
    /// ```
    pub fn json(&self, api: Api) -> Box<RawValue> {
        let adapted = schema::adapt(self.input_schema, api.profile().passes()).schema;
        let mut out = Vec::new();
        // The name of the schema, whether it is a function in a tool, one that is a tool, or neither, and `strict`.
        let (parameters, is_inner, is_tool, strict): (_, _, _, Option<&[u8]>) = match api {
            Api::OpenAiChat => ("parameters", true, false, None),
            Api::OpenAiChatStrict => ("parameters", true, false, Some(b"true")),
            Api::OpenAiResponses => ("parameters", false, true, Some(b"false")),
            Api::OpenAiResponsesStrict => ("parameters", false, true, Some(b"true")),
            Api::Anthropic => ("input_schema", false, false, None),
            Api::Gemini => ("parameters", false, false, None),
        };
        if is_inner {
            out.extend_from_slice(br#"{"type":"function","function":"#);
        }
        let mut function = Object::begin(&mut out);
        if is_tool {
            function.string("type", "function");
        }
        function.string("name", &self.name);
        if let Some(description) = &self.description {
            function.string("description", description);
        }
        // Gemini takes no object without properties: a function without arguments has no schema.
        let has_properties = || Json::from(&*adapted).member("properties").is_some_and(|it| it.text() != "{}");
        if api != Api::Gemini || has_properties() {
            function.value(parameters).extend_from_slice(adapted.get().as_bytes());
        }
        if let Some(strict) = strict {
            function.value("strict").extend_from_slice(strict);
        }
        function.end();
        if is_inner {
            out.push(b'}');
        }
        Json::trusted(&String::from_utf8(out).unwrap_or_default()).to_raw()
    }
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn write_readable<S: Serializer>(raw: &&RawValue, serializer: S) -> Result<S::Ok, S::Error> {
    readable(raw).serialize(serializer)
}

/// Selects what a model may call of a server: the tools that pass the filters and are for models ([`Visibility`]).
pub fn choose<'a>(
    server: &'a str,
    policy: &'a ToolPolicy,
    offer: impl Into<OfferView<'a>>,
    suspicion: Suspicion,
) -> Choice<'a> {
    let offer = offer.into();
    let (mut tools, mut left_out, mut suspicious) = (Vec::new(), Vec::new(), Vec::new());
    let list = offer.catalog.list(Family::Tools);
    let filter = Filter::new(policy);
    for (name, raw) in list.iter() {
        let mut leave_out = |why| left_out.push(LeftOut { target: Target::tool(name), why });
        if !filter.admits(name) {
            leave_out(if policy.include.is_some() { Why::NotIncluded } else { Why::Excluded });
            continue;
        }
        let mut tool = Tool::read(name, raw);
        if !offer.app_tools && !Visibility::of(tool.meta).model {
            leave_out(Why::NotForModel);
            continue;
        }
        let own = policy.overrides.get(name);
        let before = suspicious.len();
        if suspicion != Suspicion::Ignore {
            let named = instructions::find_hidden(name).filter(|_| own.is_none_or(|own| own.name.is_none()));
            suspicious.extend(named.map(|finding| Suspicious { tool: name, at: "/name".into(), finding }));
            texts(&tool, own, |at, text| {
                let found = instructions::find(text).into_iter();
                suspicious.extend(found.map(|finding| Suspicious { tool: name, at: at.into(), finding }));
            });
        }
        if let Some(own) = own {
            own.apply(&mut tool);
        }
        match suspicious.get(before) {
            Some(first) if suspicion == Suspicion::LeaveOut => leave_out(Why::Instructs(first.finding.sign)),
            _ => tools.push(tool),
        }
    }
    let mut utilities = Vec::new();
    for &utility in Utility::ALL {
        let resources = utility.capability() == Capability::Resources;
        let allowed = if resources { policy.resources } else { policy.prompts };
        match (allowed, offer.has(utility.capability())) {
            (true, true) => utilities.push(utility),
            (false, _) => left_out.push(LeftOut { target: utility.into(), why: Why::TurnedOff }),
            (true, false) => left_out.push(LeftOut { target: utility.into(), why: Why::NotOffered }),
        }
    }
    let unmatched = policy.include.as_ref().unwrap_or(&policy.exclude).iter().map(|pattern| &**pattern);
    let has = |pattern: &str| match glob::is_glob(pattern) {
        true => list.iter().any(|(name, _)| glob::matches(pattern, name)),
        false => list.find(pattern).is_some(),
    };
    let unmatched = unmatched.filter(|pattern| !has(pattern));
    let overrides = policy.overrides.keys().map(|tool| &**tool);
    Choice {
        unmatched: unmatched.collect(),
        unmatched_overrides: overrides.filter(|tool| list.find(tool).is_none()).collect(),
        toolset: (!tools.is_empty() || !utilities.is_empty()).then_some(Toolset { server, tools, utilities }),
        left_out,
        suspicious,
    }
}

/// Calls `each` with the JSON Pointer and content of every text of a tool that the model sees, unless the user replaced
/// it.
fn texts(tool: &Tool<'_>, own: Option<&ToolOverride>, mut each: impl FnMut(&str, &str)) {
    if let (Some(title), None) = (&tool.title, own.and_then(|own| own.title.as_ref())) {
        each("/title", title);
    }
    if let (Some(description), None) = (&tool.description, own.and_then(|own| own.description.as_ref())) {
        each("/description", description);
    }
    schema::texts(tool.input_schema, |at, text| each(&format!("/inputSchema{at}"), text));
}

impl Choice<'_> {
    /// Moves tools without an exposed name to `left_out` as [`Why::Unnamed`]. Call [`Names::update`] first.
    #[must_use]
    pub fn named(mut self, names: &Names) -> Self {
        let Some(toolset) = &mut self.toolset else { return self };
        let server = toolset.server;
        let mut unnamed = Vec::new();
        let mut is_named = |target: Target| {
            let named = names.name(server, &target).is_some();
            unnamed.extend((!named).then_some(LeftOut { target, why: Why::Unnamed }));
            named
        };
        toolset.tools.retain(|tool| is_named(Target::tool(tool.name)));
        toolset.utilities.retain(|utility| is_named(Target::from(*utility)));
        let is_empty = toolset.tools.is_empty() && toolset.utilities.is_empty();
        self.toolset.take_if(|_| is_empty);
        self.left_out.extend(unnamed);
        self
    }
}

impl<'a> Toolset<'a> {
    /// The tools and utility tools, for [`Names::update`].
    pub fn targets(&self) -> Vec<Target> {
        let tools = self.tools.iter().map(|tool| Target::tool(tool.name));
        tools.chain(self.utilities.iter().map(|utility| Target::from(*utility))).collect()
    }

    /// The functions for the model: the tools in the server's order, then the utility tools. Those without an exposed
    /// name are left out.
    pub fn into_functions(self, names: &'a Names) -> impl Iterator<Item = Function<'a>> {
        let server = self.server;
        let tools = self.tools.into_iter().filter_map(move |tool| {
            let target = Target::tool(tool.name);
            Some(Function {
                name: names.name(server, &target)?,
                description: tool.description,
                input_schema: tool.input_schema,
                hints: tool.hints,
                renamed: names.renamed(server, &target),
            })
        });
        let utilities = self.utilities.into_iter().filter_map(move |utility| {
            let target = Target::from(utility);
            Some(Function {
                name: names.name(server, &target)?,
                description: Some(utility.description().into()),
                input_schema: utility.input_schema(),
                hints: utility.hints(),
                renamed: names.renamed(server, &target),
            })
        });
        tools.chain(utilities)
    }
}
