//! What a journal has of an authorization: the serialized forms of actions and options, and masks in place of secrets. An
//! authorization that is given the masks decides the same, and its actions have the same form.

#[cfg(feature = "journal")]
use alloc::borrow::Cow;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

#[cfg(feature = "journal")]
use serde::{Deserialize, Deserializer};
use serde::{Serialize, Serializer};

#[cfg(feature = "journal")]
use super::Secret;
#[cfg(all(feature = "journal", feature = "sign"))]
use super::SigningKey;
use super::action::{OAuthAction, OAuthEvent, OAuthExchangeId, OAuthRequest, SignId, SignKey, StoreAction, StoreId};
use super::credentials::{is_token, parse};
use super::place::Reach;
#[cfg(feature = "journal")]
use super::requests::as_form;
use super::requests::{FORM, Form, decode};
use crate::encodings::is_mask;
use crate::form::Bytes;
use crate::jsonrpc::{Json, Object};

/// Stands for what is derived from a secret or a key, and for a secret that has no mask.
pub(super) const REDACTED: &str = "redacted";

/// Stands for a `state` and a `code_verifier`, and is as long. An authorization of a journal draws no other.
pub(super) const DRAWN: &str = "secret0xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx";

/// What is in place of a secret.
pub(crate) type Mask<'a> = &'a mut dyn FnMut(&str) -> String;

/// A mask is one already. Any other secret is not shown at all.
fn masked(secret: &str) -> String {
    if is_mask(secret) { secret.into() } else { REDACTED.into() }
}

/// A URL without the contents of its query.
pub(super) fn url(text: &str) -> String {
    match text.split_once('?') {
        Some((place, query)) if !query.is_empty() => format!("{place}?{REDACTED}"),
        Some(_) | None => text.into(),
    }
}

/// What a parameter or a member has.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Content {
    Plain,
    Url,
    Secret,
    /// A secret that is drawn from entropy.
    Drawn,
    /// What nobody reads, or what is derived from a secret.
    Other,
}

/// What a parameter of a request has: of a form, or of the URL for the browser.
fn parameter(name: &str) -> Content {
    match name {
        "grant_type"
        | "response_type"
        | "client_id"
        | "redirect_uri"
        | "scope"
        | "audience"
        | "code_challenge_method"
        | "requested_token_type"
        | "subject_token_type"
        | "client_assertion_type"
        | "token_type_hint" => Content::Plain,
        "resource" => Content::Url,
        "code" | "refresh_token" | "client_secret" | "assertion" | "subject_token" | "token" => Content::Secret,
        "state" | "code_verifier" => Content::Drawn,
        _ => Content::Other,
    }
}

/// Parameters with masks.
fn parameters(text: &str, mask: Mask<'_>) -> String {
    let mut form = Form::default();
    for pair in text.split('&').filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        let (name, value) = (decode(name).unwrap_or_default(), decode(value).unwrap_or_default());
        match parameter(&name) {
            Content::Plain => form.push(&name, &value),
            Content::Url => form.push(&name, &url(&value)),
            Content::Secret => form.push(&name, &mask(&value)),
            Content::Drawn => form.push(&name, DRAWN),
            Content::Other => form.push(&name, REDACTED),
        }
    }
    form.text().into()
}

/// A stored record with masks; `None` for what is no JSON object. What no record has is left out. `server` masks the URL
/// of its server.
fn record(bytes: &[u8], server: impl Fn(&str) -> String, mask: Mask<'_>) -> Option<Vec<u8>> {
    let json = parse(bytes, usize::MAX)?;
    let mut out = Vec::with_capacity(bytes.len());
    let mut object = Object::begin(&mut out);
    plain(&mut object, json, &["generation", "issuer", "asked", "assumed", "requested", "granted", "bound_to"]);
    plain(&mut object, json, &["expires", "life", "revocation_endpoint"]);
    string(&mut object, json, "server", &server);
    string(&mut object, json, "resource", url);
    if let Some(client) = json.member("client").filter(|client| client.is_object()) {
        object.object("client", |object| {
            plain(
                object,
                client,
                &["id", "auth", "redirect_uri", "asked_redirect", "kind", "secret_expires", "scopes"],
            );
            string(object, client, "secret", &mut *mask);
        });
    }
    string(&mut object, json, "access_token", |text| token(text, mask));
    string(&mut object, json, "refresh_token", mask);
    object.end();
    Some(out)
}

/// Adds members that are no secrets, each as it is read: once, and without what is within an object.
fn plain(object: &mut Object<'_>, json: Json<'_>, names: &[&str]) {
    for name in names {
        let Some(value) = json.member(name) else { continue };
        let mut strings = Vec::new();
        match value.first() {
            b'{' => {}
            b'[' => {
                value.each_element(|it| strings.push(if it.first() == b'"' { it.text() } else { "0" }));
                object.raw(name, &format!("[{}]", strings.join(",")));
            }
            _ => _ = object.raw(name, value.text()),
        }
    }
}

/// Adds a member that is a string, as it is read: once. Another value becomes `0`, which is none either.
fn string(object: &mut Object<'_>, json: Json<'_>, name: &str, shown: impl FnOnce(&str) -> String) {
    match json.member(name).map(Json::as_string) {
        Some(Some(text)) if text.is_empty() => _ = object.string(name, ""),
        Some(Some(text)) => _ = object.string(name, &shown(&text)),
        Some(None) => _ = object.raw(name, "0"),
        None => {}
    }
}

/// The mask of an access token. What cannot be one stays so.
fn token(text: &str, mask: Mask<'_>) -> String {
    if is_token(text) { mask(text) } else { " ".into() }
}

/// The form of an action.
#[derive(Serialize)]
#[serde(tag = "type", content = "value", rename_all = "snake_case")]
enum Action<'a> {
    Request {
        exchange: OAuthExchangeId,
        reach: Reach,
        method: &'a str,
        uri: String,
        headers: Vec<(&'a str, Bytes)>,
        body: String,
    },
    Drop(OAuthExchangeId),
    Browse {
        url: String,
        redirect_uri: &'a str,
    },
    EndBrowse,
    Acquire(StoreId),
    Load(StoreId),
    Save {
        id: StoreId,
        record: Bytes,
        replaces: u64,
    },
    Release,
    Remove,
    Sign {
        id: SignId,
        key: SignKey,
        algorithm: &'a str,
        input: &'a str,
    },
    Event(&'a OAuthEvent),
}

impl<'a> Action<'a> {
    fn of(action: &'a OAuthAction, mask: Mask<'_>) -> Self {
        match action {
            OAuthAction::Request(request) => Self::request(request, mask),
            OAuthAction::Drop(exchange) => Self::Drop(*exchange),
            OAuthAction::Browse(shown) => {
                let (place, query) = shown.url.split_once('?').unwrap_or((&shown.url, ""));
                let url = format!("{place}?{}", parameters(query, mask));
                Self::Browse { url, redirect_uri: &shown.redirect_uri }
            }
            OAuthAction::EndBrowse => Self::EndBrowse,
            OAuthAction::Store(StoreAction::Acquire(id)) => Self::Acquire(*id),
            OAuthAction::Store(StoreAction::Load(id)) => Self::Load(*id),
            OAuthAction::Store(StoreAction::Save { id, record: stored, replaces }) => {
                let record = record(stored.expose(), url, mask).unwrap_or_default();
                Self::Save { id: *id, record: Bytes(record), replaces: *replaces }
            }
            OAuthAction::Store(StoreAction::Release) => Self::Release,
            OAuthAction::Store(StoreAction::Remove) => Self::Remove,
            OAuthAction::Sign(it) => Self::Sign { id: it.id, key: it.key, algorithm: &it.algorithm, input: REDACTED },
            OAuthAction::Event(event) => Self::Event(event),
        }
    }

    fn request(it: &'a OAuthRequest, mask: Mask<'_>) -> Self {
        let request = &it.request;
        let is_open = |name: &http::HeaderName| [http::header::ACCEPT, http::header::CONTENT_TYPE].contains(name);
        let value = |name, value: &'a http::HeaderValue| {
            Bytes(if is_open(name) { value.as_bytes().into() } else { REDACTED.as_bytes().into() })
        };
        let is_form = request.headers().get(http::header::CONTENT_TYPE).is_some_and(|kind| kind == FORM);
        // A registration has no secrets.
        let body = String::from_utf8_lossy(request.body());
        Self::Request {
            exchange: it.exchange,
            reach: it.reach,
            method: request.method().as_str(),
            uri: url(&format!("{}", request.uri())),
            headers: request.headers().iter().map(|(name, it)| (name.as_str(), value(name, it))).collect(),
            body: if is_form { parameters(&body, mask) } else { body.into_owned() },
        }
    }
}

/// A mask stands for each token, code and secret that has one, `redacted` for the others, for proofs and assertions, and
/// for what a key signs.
impl Serialize for OAuthAction {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        Action::of(self, &mut masked).serialize(serializer)
    }
}

/// A URL is serialized without the contents of its query.
pub(super) fn serialize_url<S: Serializer>(text: &str, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&url(text))
}

/// The form of an action, with these masks.
#[cfg(feature = "journal")]
pub(crate) fn action<'a>(action: &'a OAuthAction, mask: Mask<'_>) -> impl Serialize + use<'a> {
    Action::of(action, &mut |secret| masked(&mask(secret)))
}

/// The response to a request with secrets, with masks: a token response, a registration. It has the members that are read;
/// one that cannot be read has nothing. And the byte that prolongs it and changes nothing.
#[cfg(feature = "journal")]
pub(crate) fn response(body: &[u8], mask: Mask<'_>) -> (Vec<u8>, u8) {
    if let Some(json) = parse(body, usize::MAX) {
        let mut out = Vec::with_capacity(body.len());
        let mut object = Object::begin(&mut out);
        plain(&mut object, json, &PLAIN);
        string(&mut object, json, "access_token", |text| token(text, mask));
        string(&mut object, json, "refresh_token", &mut *mask);
        string(&mut object, json, "client_secret", mask);
        object.end();
        (out, b' ')
    } else if let Some(form) = as_form(body) {
        let mut out = String::with_capacity(form.len());
        PLAIN.iter().for_each(|name| param(&mut out, form, name, None));
        param(&mut out, form, "access_token", Some(&mut |text| token(text, mask)));
        param(&mut out, form, "refresh_token", Some(mask));
        if out.is_empty() {
            out.push('=');
        }
        (out.into_bytes(), b'&')
    } else {
        (Vec::new(), b'x')
    }
}

/// The members of a response that are read and are no secrets.
#[cfg(feature = "journal")]
const PLAIN: [&str; 10] = [
    "error",
    "error_description",
    "token_type",
    "issued_token_type",
    "expires_in",
    "scope",
    "client_id",
    "client_secret_expires_at",
    "token_endpoint_auth_method",
    "redirect_uris",
];

/// Adds a parameter of a form as it is read: once. One that is there more than once, or is not text, is not read, and
/// becomes one that is not text. `mask` is for a secret.
#[cfg(feature = "journal")]
fn param(out: &mut String, form: &str, name: &str, mask: Option<Mask<'_>>) {
    let values = form.split('&').filter_map(|pair| {
        let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
        decode(key).is_some_and(|key| *key == name).then_some(value)
    });
    let mut values = values.fuse();
    let Some(value) = values.next() else { return };
    let shown: Cow<'_, str> = match (decode(value).filter(|_| values.next().is_none()), mask) {
        (None, _) => "%".into(),
        (Some(text), Some(mask)) if !text.is_empty() => mask(&text).replace(' ', "+").into(),
        (Some(_), _) => value.into(),
    };
    if !out.is_empty() {
        out.push('&');
    }
    out.extend([name, "=", &shown]);
}

/// What came from the store, with masks, for the server with this URL. It is as long.
#[cfg(feature = "journal")]
pub(super) fn loaded(bytes: &[u8], server: &str, mask: Mask<'_>) -> Vec<u8> {
    let (own, other) = (url(server), |text: &str| url(text) == url(server) && text != server);
    // The record of a server with another query stays that of another server.
    let shown = |text: &str| {
        if other(text) {
            REDACTED.into()
        } else if text == server {
            own.clone()
        } else {
            url(text)
        }
    };
    let mut out = record(bytes, shown, mask).unwrap_or_else(|| alloc::vec![b'x'; bytes.len()]);
    out.resize(out.len().max(bytes.len()), b' ');
    out
}

/// The answer to the URL that was shown, with masks.
#[cfg(feature = "journal")]
pub(super) fn redirect(query: &str, mask: Mask<'_>) -> String {
    let mut out = String::new();
    param(&mut out, query, "code", Some(mask));
    param(&mut out, query, "state", Some(&mut |_| DRAWN.into()));
    ["iss", "error", "error_description"].iter().for_each(|name| param(&mut out, query, name, None));
    out.insert(0, '?');
    out
}

/// A secret of a journal is a mask.
#[cfg(feature = "journal")]
impl Serialize for Secret {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&masked(self.expose()))
    }
}

#[cfg(feature = "journal")]
impl<'de> Deserialize<'de> for Secret {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer).map(Self::new)
    }
}

/// A private key is in no journal. Another one signs in its place, and the signatures are not in the journal either.
#[cfg(all(feature = "journal", feature = "sign"))]
impl Serialize for SigningKey {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(REDACTED)
    }
}

#[cfg(all(feature = "journal", feature = "sign"))]
impl<'de> Deserialize<'de> for SigningKey {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        <&str>::deserialize(deserializer)?;
        Self::from_bytes(&[1; 32]).map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_shows_nothing_of_its_query() {
        for (text, shown) in [
            ("https://a.example/b?c=d", "https://a.example/b?redacted"),
            ("https://a.example/b?", "https://a.example/b?"),
            ("https://a.example/b", "https://a.example/b"),
        ] {
            assert_eq!(url(text), shown);
        }
    }
}
