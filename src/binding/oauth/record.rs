//! The credentials as they are kept and stored.

use alloc::borrow::ToOwned;
use alloc::boxed::Box;
use alloc::vec::Vec;

use zeroize::Zeroizing;

use super::action::{GrantKind, RegistrationKind, StoredRecord, TokenId};
use super::options::ClientAuth;
use super::{Grant, Secret};
use crate::jsonrpc::{Json, Object};

/// Nested brackets in what is read.
pub(super) const DEPTH: usize = 32;

/// A registered client.
#[derive(Clone, Debug)]
pub(super) struct ClientRecord {
    pub(super) id: Box<str>,
    pub(super) secret: Option<Secret>,
    /// When the secret expires, in seconds since the Unix epoch.
    pub(super) secret_expires: Option<u64>,
    pub(super) auth: ClientAuth,
    pub(super) redirect_uri: Box<str>,
    /// The scopes that the registration allows, if it narrows them.
    pub(super) scopes: Option<Box<str>>,
    pub(super) kind: RegistrationKind,
}

/// Credentials: what is kept for a server and a user.
#[derive(Clone, Debug)]
pub(super) struct Record {
    pub(super) generation: u64,
    /// The URL of the MCP server.
    pub(super) server: Box<str>,
    pub(super) issuer: Box<str>,
    pub(super) resource: Box<str>,
    pub(super) client: ClientRecord,
    pub(super) requested: Box<str>,
    pub(super) granted: Box<str>,
    /// The thumbprint of the key that the tokens are bound to (RFC 9449).
    pub(super) bound_to: Option<Box<str>>,
    pub(super) access_token: Secret,
    /// When the token expires, in seconds since the Unix epoch, and its whole life in seconds.
    pub(super) expires: Option<(u64, u64)>,
    pub(super) refresh_token: Option<Secret>,
    pub(super) revocation_endpoint: Option<Box<str>>,
}

impl Record {
    pub(super) fn grant(&self, token: TokenId, kind: GrantKind) -> Grant {
        Grant {
            token,
            kind,
            issuer: self.issuer.clone(),
            resource: self.resource.clone(),
            registration: self.client.kind,
            scopes: self.granted.clone(),
        }
    }

    pub(super) fn is_expired(&self, unix: u64) -> bool {
        self.expires.is_some_and(|(at, _)| at <= unix)
    }

    pub(super) fn write(&self) -> StoredRecord {
        let mut out = Zeroizing::new(Vec::with_capacity(2048));
        let mut object = Object::begin(&mut out);
        object.integer("generation", self.generation.into());
        object.string("server", &self.server).string("issuer", &self.issuer).string("resource", &self.resource);
        object.object("client", |object| {
            let client = &self.client;
            object.string("id", &client.id).string("auth", client.auth.as_str());
            object.string("redirect_uri", &client.redirect_uri).string("kind", client.kind.as_str());
            if let Some(secret) = &client.secret {
                object.string("secret", secret.expose());
            }
            if let Some(expires) = client.secret_expires {
                object.integer("secret_expires", expires.into());
            }
            if let Some(scopes) = &client.scopes {
                object.string("scopes", scopes);
            }
        });
        object.string("requested", &self.requested).string("granted", &self.granted);
        if let Some(key) = &self.bound_to {
            object.string("bound_to", key);
        }
        object.string("access_token", self.access_token.expose());
        if let Some((at, life)) = self.expires {
            object.integer("expires", at.into()).integer("life", life.into());
        }
        if let Some(token) = &self.refresh_token {
            object.string("refresh_token", token.expose());
        }
        if let Some(endpoint) = &self.revocation_endpoint {
            object.string("revocation_endpoint", endpoint);
        }
        object.end();
        StoredRecord(out)
    }

    /// Reads a stored record; `None` for one that cannot be read.
    pub(super) fn read(record: &[u8], limit: usize) -> Option<Self> {
        let json = parse(record, limit)?;
        let client = json.member("client")?;
        let kinds = [RegistrationKind::PreRegistered, RegistrationKind::MetadataDocument, RegistrationKind::Dynamic];
        let kind = text(client, "kind")?;
        let auth = text(client, "auth")?;
        Some(Self {
            generation: number(json, "generation")?,
            server: text(json, "server")?,
            issuer: text(json, "issuer")?,
            resource: text(json, "resource")?,
            client: ClientRecord {
                id: text(client, "id")?,
                secret: text(client, "secret").map(|it| Secret::new(it.into_string())),
                secret_expires: number(client, "secret_expires"),
                // How an assertion is signed is in the options.
                auth: ClientAuth::named(&auth).unwrap_or(ClientAuth::None),
                redirect_uri: text(client, "redirect_uri")?,
                scopes: text(client, "scopes"),
                kind: kinds.into_iter().find(|known| known.as_str() == &*kind)?,
            },
            requested: text(json, "requested")?,
            granted: text(json, "granted")?,
            bound_to: text(json, "bound_to"),
            access_token: Secret::new(text(json, "access_token").filter(|it| is_token(it))?.into_string()),
            expires: number(json, "expires").zip(number(json, "life")),
            refresh_token: text(json, "refresh_token").map(|it| Secret::new(it.into_string())),
            revocation_endpoint: text(json, "revocation_endpoint"),
        })
    }
}

/// The generation of a stored record; 0 for none and for one that cannot be read. Stores compare it with
/// [`StoreAction::Save`](super::StoreAction::Save).
pub fn stored_generation(record: &[u8]) -> u64 {
    parse(record, usize::MAX).and_then(|json| number(json, "generation")).unwrap_or(0)
}

/// A JSON object.
pub(super) fn parse(body: &[u8], limit: usize) -> Option<Json<'_>> {
    let text = core::str::from_utf8(body).ok().filter(|text| text.len() <= limit)?;
    let text = text.strip_prefix('\u{feff}').unwrap_or(text).trim_matches([' ', '\t', '\r', '\n']);
    Json::checked(text, DEPTH).filter(|json| json.is_object())
}

pub(super) fn text(json: Json<'_>, name: &str) -> Option<Box<str>> {
    json.member(name)?.as_string().map(|text| text.into_owned().into())
}

fn number(json: Json<'_>, name: &str) -> Option<u64> {
    json.member(name)?.text().parse().ok()
}

/// The strings of an array, the first ones; also of a string that holds them separated by spaces.
pub(super) fn strings(json: Json<'_>, name: &str, limit: usize) -> Option<Vec<Box<str>>> {
    let value = json.member(name)?;
    let elements = value.elements(limit)?.kept;
    Some(elements.into_iter().filter_map(Json::as_string).map(|it| it.into_owned().into()).collect())
}

/// Whether a token can be in an `Authorization` header (RFC 6750, section 2.1), and is not longer than one can be.
pub(super) fn is_token(token: &str) -> bool {
    !token.is_empty() && token.len() <= 64 << 10 && token.bytes().all(|byte| byte.is_ascii_graphic())
}

/// Scopes without repetitions, in order.
pub(super) fn union(scopes: &[&str]) -> Box<str> {
    let mut all: Vec<&str> = Vec::new();
    let mut seen = alloc::collections::BTreeSet::new();
    for scope in scopes.iter().flat_map(|scopes| scopes.split_ascii_whitespace()) {
        if seen.insert(scope) {
            all.push(scope);
        }
    }
    all.join(" ").into()
}

/// The scopes of one list that are in the other too; all of them if none is.
pub(super) fn narrowed(scopes: &str, allowed: &str) -> Box<str> {
    let known: alloc::collections::BTreeSet<_> = allowed.split_ascii_whitespace().collect();
    let kept: Vec<_> = scopes.split_ascii_whitespace().filter(|scope| known.contains(scope)).collect();
    if kept.is_empty() { scopes.to_owned().into() } else { kept.join(" ").into() }
}
