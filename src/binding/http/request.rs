use alloc::borrow::Cow;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::header::{ACCEPT, ACCEPT_ENCODING, CONTENT_TYPE, USER_AGENT};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Uri};

use crate::binding::coding::ACCEPTED;
use crate::catalog::{Catalog, mirrored};
use crate::client::{Headers, Options, Outgoing, RequestInfo};
use crate::jsonrpc::{Decimal, Json};
use crate::protocol::{Era, Family, ProtocolVersion, method};

pub(super) const SESSION_ID: HeaderName = HeaderName::from_static("mcp-session-id");
const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");
const VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");
const METHOD: HeaderName = HeaderName::from_static("mcp-method");
const NAME: HeaderName = HeaderName::from_static("mcp-name");

/// Headers that a POST has places for: those of the protocol, a token, cookies, and some that repeat arguments.
const HEADERS: usize = 12;

/// Maximum arguments that are examined for headers.
const PARAMS: usize = 256;

/// The headers of requests that follow from the client's options, shared by the clients with the same ones.
#[derive(Clone, Default)]
pub(super) struct Identity(Option<Arc<Headers>>);

/// What is made when it is first needed makes no difference.
impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Identity").field(&self.0.as_deref().and_then(first)).finish()
    }
}

impl Identity {
    pub(super) fn of(options: &Options) -> Self {
        let make = || Arc::new(headers_of(options));
        let shared = options.shared.get_or_make(make);
        // The options may have been changed since another client had them.
        let is_current = first(shared).is_some_and(|headers| {
            headers.get(USER_AGENT).is_some_and(|it| options.client.is_user_agent(it.as_bytes()))
                && headers.contains_key(ACCEPT_ENCODING) != options.decodes_bodies
        });
        Self(Some(if is_current { Arc::clone(shared) } else { make() }))
    }

    /// The headers of a POST, with places for those that its version has.
    fn post(&self, version: Option<ProtocolVersion>) -> HeaderMap {
        let Some(all) = &self.0 else { return HeaderMap::new() };
        let base = first(all);
        let of_version = version.and_then(|version| {
            let at = ProtocolVersion::ALL.iter().position(|it| *it == version)?;
            Some(all.get(at.saturating_add(1))?.get_or_init(|| headers_with(base, version)))
        });
        of_version.or(base).cloned().unwrap_or_default()
    }

    /// Adds what requests of every method have, and removes what they have not.
    pub(super) fn write(&self, headers: &mut HeaderMap) {
        let Some(all) = self.0.as_deref().and_then(first) else { return };
        for name in [USER_AGENT, ACCEPT_ENCODING] {
            let value = all.get(&name).cloned();
            set(headers, name, value);
        }
    }
}

fn first(all: &Headers) -> Option<&HeaderMap> {
    all.first()?.get()
}

fn headers_of(options: &Options) -> Headers {
    let mut headers = HeaderMap::with_capacity(HEADERS);
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(ACCEPT, HeaderValue::from_static("application/json, text/event-stream"));
    // A token is always a header's value.
    headers.extend(HeaderValue::try_from(options.client.user_agent()).ok().map(|agent| (USER_AGENT, agent)));
    if !options.decodes_bodies {
        headers.insert(ACCEPT_ENCODING, ACCEPTED);
    }
    let mut all = Headers::default();
    if let Some(first) = all.first_mut() {
        *first = headers.into();
    }
    all
}

/// A copy of a map has room for no other header, so it has places for those that differ from request to request.
fn headers_with(base: Option<&HeaderMap>, version: ProtocolVersion) -> HeaderMap {
    let mut headers = base.cloned().unwrap_or_default();
    headers.insert(VERSION, HeaderValue::from_static(version.as_str()));
    let places: &[HeaderName] = match version.era() {
        Era::Legacy => &[SESSION_ID],
        Era::Modern => &[METHOD, NAME],
    };
    headers.extend(places.iter().map(|name| (name.clone(), HeaderValue::from_static(""))));
    headers
}

/// Sets the header that a place is for, or removes the place. A look at the few headers takes less than a hash of the name.
fn set(headers: &mut HeaderMap, name: HeaderName, value: Option<HeaderValue>) {
    let Some(value) = value else {
        headers.remove(name);
        return;
    };
    match headers.iter_mut().find(|(known, _)| **known == name) {
        Some((_, place)) => *place = value,
        None => _ = headers.insert(name, value),
    }
}

/// The common headers of a session's requests.
#[derive(Clone, Copy, Debug)]
pub(super) struct Common<'a> {
    pub(super) identity: &'a Identity,
    pub(super) session: Option<&'a HeaderValue>,
    pub(super) version: Option<ProtocolVersion>,
}

impl Common<'_> {
    fn write(self, headers: &mut HeaderMap) {
        if let Some(session) = self.session {
            headers.insert(SESSION_ID, session.clone());
        }
        if let Some(version) = self.version {
            headers.insert(VERSION, HeaderValue::from_static(version.as_str()));
        }
    }
}

/// The POST of a message.
pub(super) fn post(
    url: &Uri,
    message: &mut Outgoing,
    common: Common<'_>,
    about: RequestInfo<'_>,
    catalog: &Catalog,
) -> http::Request<Vec<u8>> {
    // A request is encoded again if it has to be sent again; anything else is copied for that.
    let task = about.params.is_none().then(|| task_of(message)).flatten();
    let about = RequestInfo { task: about.task.or(task.as_deref()), ..about };
    let body = if message.id().is_some() { message.take_bytes() } else { message.bytes().to_vec() };
    let mut request = http::Request::new(body);
    *request.method_mut() = Method::POST;
    *request.uri_mut() = url.clone();
    *request.headers_mut() = common.identity.post(common.version);
    let headers = request.headers_mut();
    if common.version.is_some_and(|version| version.era() == Era::Modern) {
        mirror(headers, message.method(), about, catalog);
    } else if common.version.is_some() || common.session.is_some() {
        set(headers, SESSION_ID, common.session.cloned());
    }
    request
}

/// A GET of a stream, resumed after the last event id if known.
pub(super) fn get(url: &Uri, common: Common<'_>, last_id: Option<&[u8]>) -> http::Request<Vec<u8>> {
    let mut request = http::Request::new(Vec::new());
    *request.uri_mut() = url.clone();
    let headers = request.headers_mut();
    headers.insert(ACCEPT, HeaderValue::from_static("text/event-stream"));
    common.identity.write(headers);
    common.write(headers);
    if let Some(id) = last_id.and_then(|id| HeaderValue::from_bytes(id).ok()) {
        headers.insert(LAST_EVENT_ID, id);
    }
    request
}

/// The DELETE of a session.
pub(super) fn delete(url: &Uri, common: Common<'_>) -> http::Request<Vec<u8>> {
    let mut request = http::Request::new(Vec::new());
    *request.method_mut() = Method::DELETE;
    *request.uri_mut() = url.clone();
    let headers = request.headers_mut();
    common.identity.write(headers);
    common.write(headers);
    request
}

/// The task that a message cancels.
fn task_of(message: &Outgoing) -> Option<String> {
    let text = core::str::from_utf8(message.bytes()).ok().filter(|_| message.method() == Some(method::TASKS_CANCEL))?;
    Json::trusted(text).member("params")?.member("taskId")?.as_string().map(Cow::into_owned)
}

/// Repeats parts of the body (specification 2026-07-28, "Streamable HTTP", Request Metadata).
fn mirror(headers: &mut HeaderMap, method: Option<&str>, about: RequestInfo<'_>, catalog: &Catalog) {
    let value = match method {
        Some(method::TOOLS_CALL) => Some(HeaderValue::from_static(method::TOOLS_CALL)),
        method => method.and_then(|method| HeaderValue::from_str(method).ok()),
    };
    set(headers, METHOD, value);
    let member = match method {
        Some(method::TOOLS_CALL | method::PROMPTS_GET) => Some("name"),
        Some(method::RESOURCES_READ) => Some("uri"),
        Some(method::TASKS_GET | method::TASKS_UPDATE | method::TASKS_CANCEL) if about.task.is_none() => Some("taskId"),
        _ => None,
    };
    let params = about.params.map(Json::from);
    let name = match member {
        Some(member) => params.and_then(|params| params.member(member)).and_then(Json::as_string),
        None => about.task.filter(|_| method.is_some()).map(Cow::Borrowed),
    };
    set(headers, NAME, name.as_deref().map(encode));
    let (Some(method::TOOLS_CALL), Some(params), Some(name)) = (method, params, name) else { return };
    if !catalog.list(Family::Tools).is_mirrored(&name) {
        return;
    }
    let (Some(tool), Some(arguments)) = (catalog.tool(&name), params.member("arguments")) else { return };
    let Ok(mirrored) = mirrored(Json::from(tool.input_schema)) else { return };
    for (name, value) in mirrored.values(arguments).take(PARAMS) {
        let Some(value) = value.and_then(text_of) else { continue };
        if let Ok(name) = HeaderName::from_bytes(alloc::format!("mcp-param-{name}").as_bytes()) {
            headers.insert(name, encode(&value));
        }
    }
}

/// An argument as text; `None` if it is null, not a single value, or an integer outside the range that every peer can
/// compare.
fn text_of(value: Json<'_>) -> Option<Cow<'_, str>> {
    match value.first() {
        b'"' => value.as_string(),
        b't' | b'f' => Some(Cow::Borrowed(value.text())),
        b'-' | b'0'..=b'9' => decimal(value.text()),
        _ => None,
    }
}

/// A number in decimal notation; `None` for an integer beyond 2^53 - 1 (specification 2026-07-28, "Tools", Header
/// Parameters). A number with a fraction stays as it is, for the server to refuse: only integers are repeated.
fn decimal(number: &str) -> Option<Cow<'_, str>> {
    const SAFE: u64 = 9_007_199_254_740_991;
    let Decimal { is_negative, whole, has_fraction } = Decimal::read(number)?;
    let whole = whole.filter(|whole| has_fraction || *whole <= SAFE)?;
    Some(match has_fraction {
        true => Cow::Borrowed(number),
        false => Cow::Owned(format!("{}{whole}", if is_negative && whole != 0 { "-" } else { "" })),
    })
}

/// A value as a valid header value (specification 2026-07-28, "Streamable HTTP", Value Encoding).
fn encode(value: &str) -> HeaderValue {
    let plain = value.bytes().all(|byte| matches!(byte, b' '..=b'~'))
        && value.trim_matches(' ').len() == value.len()
        && (!value.starts_with("=?base64?") || !value.ends_with("?="));
    let encoded = || {
        let mut encoded = String::from("=?base64?");
        STANDARD.encode_string(value, &mut encoded);
        encoded.push_str("?=");
        encoded
    };
    let text = if plain { Cow::Borrowed(value) } else { Cow::Owned(encoded()) };
    HeaderValue::from_str(&text).unwrap_or(HeaderValue::from_static(""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_encoded_as_the_specification_shows() {
        for (value, header) in [
            ("us-west1", "us-west1"),
            ("us west 1", "us west 1"),
            ("", ""),
            ("Hello, \u{4e16}\u{754c}", "=?base64?SGVsbG8sIOS4lueVjA==?="),
            (" padded ", "=?base64?IHBhZGRlZCA=?="),
            ("us-west1 ", "=?base64?dXMtd2VzdDEg?="),
            ("line1\nline2", "=?base64?bGluZTEKbGluZTI=?="),
            ("line1\r\nline2", "=?base64?bGluZTENCmxpbmUy?="),
            ("\tindented", "=?base64?CWluZGVudGVk?="),
            ("a\tb", "=?base64?YQli?="),
            ("=?base64?literal?=", "=?base64?PT9iYXNlNjQ/bGl0ZXJhbD89?="),
            ("=?base64?no end", "=?base64?no end"),
            ("no start?=", "no start?="),
        ] {
            assert_eq!(encode(value), header, "{value:?}");
        }
    }
    #[test]
    fn integers_are_decimal_and_within_the_range_of_every_peer() {
        for (number, header) in [
            ("42", Some("42")),
            ("-7", Some("-7")),
            ("0", Some("0")),
            ("42.0", Some("42")),
            ("1e3", Some("1000")),
            ("-1E+2", Some("-100")),
            ("-0", Some("0")),
            ("-0.0", Some("0")),
            ("9007199254740991", Some("9007199254740991")),
            ("-9007199254740991", Some("-9007199254740991")),
            ("9007199254740992", None),
            ("-9007199254740993", None),
            ("1e400", None),
            ("1.5", Some("1.5")),
            ("1e-400", Some("1e-400")),
            ("9007199254740993.5", Some("9007199254740993.5")),
            ("18446744073709551616.5", None),
        ] {
            assert_eq!(text_of(Json::trusted(number)).as_deref(), header, "{number}");
        }
    }
}
