//! What the server may ask of the client, by a request or by a result that requires input: roots, sampling within the
//! policy, and forms.

use alloc::borrow::{Cow, ToOwned};
use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::String;
use alloc::vec::Vec;
use alloc::{format, vec};
use serde_json::value::RawValue;

use super::core::Core;
use super::{CommandError, SamplingPolicy, ServerMethod};
use crate::jsonrpc::{Decimal, ErrorObject, Json, Object};
use crate::machine::QuirkKind;
use crate::machine::server::request::{self, Answer, Asked, Declared, Method};
use crate::protocol::{ClientCapabilities, Defaults, error_code, method, write_roots};
use crate::text::excerpt;

/// The code with which sampling is refused by the user or the policy (specification 2025-11-25, "Sampling").
pub(super) const REJECTED: i64 = -1;

/// The decision on a server request, or on an input that the server requires.
pub(super) enum Reaction {
    /// Respond with this result.
    Result(Vec<u8>),
    /// Respond with this error.
    Refuse(ErrorObject),
    /// Report it to the embedder, with these parameters.
    Embedder(ServerMethod, Option<Box<RawValue>>),
    /// Give no input.
    Decline,
    /// Do not respond, and record the deviation.
    Ignore(QuirkKind),
    /// End the connection: the server sends requests without end.
    EndConnection,
}

/// How the server asks for something of the client.
#[derive(Clone, Copy)]
pub(super) enum Asking {
    /// By a request. `overrun`: a limit on output that waits is reached; `full`: no request for the embedder has room.
    Request { overrun: bool, full: bool },
    /// By a result that requires input; so many requests of the method were allowed before in the same result.
    Input { uncounted: usize },
}

/// Decides on what the server asks for.
pub(super) fn judge(core: &Core, asking: Asking, method: &str, params: Option<&RawValue>) -> Reaction {
    let (asked, overrun, full, uncounted) = match asking {
        Asking::Request { overrun, full } => {
            let modern = core.agreed.is_some() && core.is_modern() || core.options.eras.pinned().is_some();
            (if modern { Asked::Modern } else { Asked::Legacy }, overrun, full, 0)
        }
        // The inputs of one result are bounded together, where they are read.
        Asking::Input { uncounted } => (Asked::Input, false, false, uncounted),
    };
    // If the server refused the client's capabilities, none were declared to it.
    let none = ClientCapabilities::default();
    let options = &core.options;
    let offers = if core.is_bare { &none } else { &options.capabilities };
    let is_sampling = method == method::SAMPLING;
    let flaw = if is_sampling { tool_flaw(params) } else { None };
    let denied = if is_sampling { denied(&options.sampling, params) } else { None };
    let denied = denied.or_else(|| core.over_rate(ServerMethod::of(method)?, uncounted));
    let (class, declared) = classify(offers, method, params, flaw.is_some(), denied.is_some());
    match request::decide(asked, overrun, class, declared, full) {
        Answer::Empty => Reaction::Result(b"{}".to_vec()),
        Answer::Roots => Reaction::Result(roots_result(core)),
        Answer::Embedder => {
            let adjusted = if is_sampling { adjust(&options.sampling, params) } else { None };
            let params = adjusted.or_else(|| params.map(ToOwned::to_owned));
            ServerMethod::of(method).map_or(Reaction::Decline, |method| Reaction::Embedder(method, params))
        }
        Answer::RefuseMethod => {
            let why = format!("the client does not offer {}", excerpt(method));
            Reaction::Refuse(ErrorObject::new(error_code::METHOD_NOT_FOUND, why))
        }
        Answer::RefuseMode => {
            let why = match class {
                Method::Sampling | Method::SamplingInvalid | Method::Denied => {
                    "the client does not offer sampling with tools".into()
                }
                Method::Ping | Method::Roots | Method::Form | Method::Url | Method::OtherMode | Method::Other => {
                    let mode = mode(params);
                    let mode = mode.as_deref().map_or("form".into(), excerpt);
                    format!("the client does not offer elicitation in mode {mode}")
                }
            };
            Reaction::Refuse(ErrorObject::new(error_code::INVALID_PARAMS, why))
        }
        Answer::RefuseParams => {
            Reaction::Refuse(ErrorObject::new(error_code::INVALID_PARAMS, flaw.unwrap_or_default()))
        }
        Answer::RefusePolicy => {
            let why = format!("refused by the client's policy: {}", denied.unwrap_or_default());
            // A form or a URL has no code for a refusal.
            let code = if is_sampling { REJECTED } else { error_code::INTERNAL_ERROR };
            Reaction::Refuse(ErrorObject::new(code, why))
        }
        Answer::RefuseFull => {
            let why = "too many requests of the server are open";
            Reaction::Refuse(ErrorObject::new(error_code::INTERNAL_ERROR, why))
        }
        Answer::Ignore(kind) => Reaction::Ignore(kind),
        Answer::Decline => Reaction::Decline,
        Answer::EndConnection => Reaction::EndConnection,
    }
}

/// The mode of an elicitation.
fn mode(params: Option<&RawValue>) -> Option<Cow<'_, str>> {
    params.and_then(|params| Json::from(params).member("mode")).and_then(Json::as_string)
}

/// Classifies the method of a server request, and whether the client declared its capability.
fn classify(
    offers: &ClientCapabilities,
    method: &str,
    params: Option<&RawValue>,
    flawed: bool,
    denied: bool,
) -> (Method, Declared) {
    let declared = |declared: bool| if declared { Declared::Declared } else { Declared::Undeclared };
    match method {
        method::PING => (Method::Ping, Declared::Undeclared),
        method::ROOTS_LIST => (Method::Roots, declared(offers.roots.is_some())),
        method::ELICITATION => {
            let (class, offered) = match mode(params).as_deref() {
                None | Some("form") => (Method::Form, offers.elicitation),
                Some("url") => (Method::Url, offers.elicitation_url),
                Some(_) => (Method::OtherMode, false),
            };
            let any = offers.elicitation || offers.elicitation_url;
            let class = if offered && denied { Method::Denied } else { class };
            (class, if any && !offered { Declared::OtherMode } else { declared(offered) })
        }
        method::SAMPLING => {
            let class = match (flawed, denied) {
                (true, _) => Method::SamplingInvalid,
                (false, true) => Method::Denied,
                (false, false) => Method::Sampling,
            };
            let without = offers.sampling && !offers.sampling_tools && has_tools(params);
            (class, if without { Declared::OtherMode } else { declared(offers.sampling) })
        }
        _ => (Method::Other, Declared::Undeclared),
    }
}

/// The result of `roots/list`.
fn roots_result(core: &Core) -> Vec<u8> {
    let declared = core.options.capabilities.roots.as_deref().unwrap_or_default();
    let mut result = Vec::new();
    write_roots(core.roots.as_deref().unwrap_or(declared), &mut result);
    result
}

/// Maximum number of messages that are read.
const MESSAGES: usize = 10_000;

/// Maximum number of model hints that are read, in order of preference: each is compared with each model of the policy.
const HINTS: usize = 100;

/// Why the policy denies a sampling request, if it does.
fn denied(policy: &SamplingPolicy, params: Option<&RawValue>) -> Option<String> {
    let params = params.map(Json::from);
    let member = |name| params.and_then(|params| params.member(name));
    if !policy.models.is_empty() {
        // "Hints are treated as substrings that can match model names flexibly."
        let fits = |name: &str| policy.models.iter().any(|model| model.contains(name));
        let hints = member("modelPreferences").and_then(|preferences| preferences.member("hints"));
        let hints = hints.and_then(|hints| hints.elements(HINTS)).map(|hints| hints.kept).unwrap_or_default();
        let hints = hints.iter().filter_map(|hint| hint.member("name").and_then(Json::as_string));
        let names: Vec<_> = match &policy.model {
            Some(model) => vec![Cow::Borrowed(&**model)],
            None => hints.collect(),
        };
        if let Some(wanted) = names.first().filter(|_| !names.iter().any(|name| fits(name))) {
            return Some(format!("the model {} is not allowed", excerpt(wanted)));
        }
    }
    if let Some(most) = policy.tool_rounds {
        let messages = member("messages").and_then(|messages| messages.elements(MESSAGES));
        let messages = messages.map(|messages| messages.kept).unwrap_or_default();
        let rounds = messages.into_iter().filter(|message| uses_tool(*message)).count();
        if u32::try_from(rounds).is_ok_and(|rounds| rounds > most) || rounds >= MESSAGES {
            return Some(format!("{rounds} rounds with tools, and at most {most} are allowed"));
        }
    }
    None
}

/// The parameters with the policy's model and number of tokens, if they differ from the server's.
fn adjust(policy: &SamplingPolicy, params: Option<&RawValue>) -> Option<Box<RawValue>> {
    let json = params.map(Json::from).filter(|params| params.is_object())?;
    let tokens = policy
        .max_tokens
        .filter(|most| json.member("maxTokens").is_some_and(|tokens| !is_at_most(tokens.text(), *most)));
    if tokens.is_none() && policy.model.is_none() {
        return None;
    }
    let mut out = Vec::new();
    let mut adjusted = Object::begin(&mut out);
    json.raw_members(|name, value| match (name.as_string().as_deref(), tokens, &policy.model) {
        (Some("maxTokens"), Some(most), _) => {
            adjusted.integer("maxTokens", most.into());
        }
        (Some("modelPreferences"), _, Some(_)) => {}
        _ => {
            adjusted.member(name.text(), value.text());
        }
    });
    if let Some(model) = &policy.model {
        adjusted.object("modelPreferences", |preferences| {
            let given = json.member("modelPreferences").filter(|given| given.is_object());
            given.unwrap_or(Json::EMPTY_ARRAY).raw_members(|name, value| {
                if name.as_string().as_deref() != Some("hints") {
                    preferences.member(name.text(), value.text());
                }
            });
            let hints = preferences.value("hints");
            hints.push(b'[');
            let mut hint = Object::begin(hints);
            hint.string("name", model);
            hint.end();
            hints.push(b']');
        });
    }
    adjusted.end();
    RawValue::from_string(String::from_utf8(out).ok()?).ok()
}

/// Whether the parameters have tools (specification 2025-11-25, "Sampling", Tools in Sampling).
fn has_tools(params: Option<&RawValue>) -> bool {
    let member = |name| params.map(Json::from).and_then(|params| params.member(name));
    ["tools", "toolChoice"].into_iter().any(|name| member(name).is_some_and(|value| !value.is_null()))
}

/// Why the tool results in the messages do not fit the tool uses, if they do not (specification 2025-11-25, "Sampling",
/// Message Content Constraints).
fn tool_flaw(params: Option<&RawValue>) -> Option<&'static str> {
    const MISSING: Option<&str> = Some("Tool result missing in request");
    let messages = params.map(Json::from)?.member("messages")?.elements(MESSAGES)?;
    let mut uses = BTreeSet::new();
    for message in messages.kept {
        let (mut results, mut others, mut next) = (false, false, BTreeSet::new());
        each_content(message, |content| {
            let id = |name| content.member(name).and_then(Json::as_string);
            match content.member("type").and_then(Json::as_string).as_deref() {
                Some("tool_result") => {
                    results = true;
                    if let Some(id) = id("toolUseId") {
                        uses.remove(&id);
                    }
                }
                Some("tool_use") => {
                    others = true;
                    next.extend(id("id"));
                }
                Some(_) | None => others = true,
            }
        });
        if results && others {
            return Some("Tool results mixed with other content");
        }
        if !uses.is_empty() {
            return MISSING;
        }
        uses = next;
    }
    if uses.is_empty() { None } else { MISSING }
}

/// Whether the text is a number that is not above the limit.
fn is_at_most(number: &str, most: u64) -> bool {
    Decimal::read(number).is_some_and(|Decimal { is_negative, whole, has_fraction }| {
        is_negative || whole.is_some_and(|whole| whole < most || whole == most && !has_fraction)
    })
}

/// Whether the model uses a tool in a message.
fn uses_tool(message: Json<'_>) -> bool {
    let mut uses = false;
    each_content(message, |content| {
        uses |= content.member("type").and_then(Json::as_string).as_deref() == Some("tool_use");
    });
    uses
}

/// Calls `each` with each content block of a message, which has one or a list of them.
fn each_content<'a>(message: Json<'a>, each: impl FnMut(Json<'a>)) {
    let Some(content) = message.member("content") else { return };
    match content.elements(MESSAGES) {
        Some(contents) => contents.kept.into_iter().for_each(each),
        None => core::iter::once(content).for_each(each),
    }
}

/// The responses to the inputs that a result requires and the engine does not know, with the defaults of their forms if
/// `fill` is set.
pub(super) fn fill_required<'a>(
    result: &RawValue,
    known: &[(Box<str>, Box<str>)],
    given: &BTreeMap<&'a str, &'a RawValue>,
    fill: bool,
) -> Result<Vec<(&'a str, Cow<'a, str>)>, CommandError> {
    let known: BTreeSet<&str> = known.iter().map(|(key, _)| &**key).collect();
    let (mut filled, mut missing) = (Vec::new(), None);
    // One pass over the required inputs, however many responses there are.
    let required = Json::from(result).member("inputRequests");
    required.unwrap_or(Json::EMPTY_ARRAY).members(|key, wanted| match given.get_key_value(key) {
        Some((key, response)) => {
            let method = wanted.member("method").and_then(Json::as_string);
            let is_form = fill && method.as_deref() == Some(method::ELICITATION);
            let params = wanted.member("params").filter(|_| is_form).map(Json::raw);
            filled.push((*key, Defaults::read(params).fill(response)));
        }
        None if known.contains(key) => {}
        None => missing = missing.take().or_else(|| Some(Box::from(key))),
    });
    if let Some(key) = missing {
        return Err(CommandError::MissingInput { key });
    }
    let required: BTreeSet<&str> = filled.iter().map(|(key, _)| *key).collect();
    match given.keys().find(|key| !required.contains(**key) || known.contains(**key)) {
        Some(key) => Err(CommandError::UnknownInput { key: (*key).into() }),
        None => Ok(filled),
    }
}
