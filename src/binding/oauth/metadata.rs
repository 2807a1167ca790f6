//! Metadata documents and their checks (RFC 9728, RFC 8414).

use alloc::boxed::Box;
use alloc::format;
use alloc::vec::Vec;

use super::action::excerpt;
use super::credentials::{LONGEST_SCOPES, parse, strings, text};
use super::options::{Flow, OAuthOptions, is_same_issuer};
use super::place::{Place, Zone};
use super::proof;
use super::requests::names_in;
use crate::jsonrpc::Json;

/// The parameters of an authorization request (RFC 6749, RFC 7636, RFC 8707, RFC 9101).
const PARAMETERS: [&str; 11] = [
    "response_type",
    "response_mode",
    "client_id",
    "redirect_uri",
    "code_challenge",
    "code_challenge_method",
    "state",
    "resource",
    "scope",
    "request",
    "request_uri",
];

/// Scopes, methods and authorization servers that are read of a document.
const NAMES: usize = 256;

/// The metadata of the resource and of its authorization server.
#[derive(Clone, Debug)]
pub(super) struct Metadata {
    pub(super) resource: Resource,
    pub(super) server: Server,
    /// The resource has none, so that the authorization server is the one that 2025-03-26 assumes, with metadata or without.
    pub(super) is_conventional: bool,
}

/// Why a document is not used.
pub(super) enum Unfit {
    /// It is no metadata: another place may have some.
    NoMetadata(Box<str>),
    /// It fails a check, which ends the attempt.
    Refused(Box<str>),
}

/// Protected-resource metadata.
#[derive(Clone, Debug)]
pub(super) struct Resource {
    /// The resource to request tokens for.
    pub(super) resource: Box<str>,
    /// The authorization servers, which were not checked.
    pub(super) issuers: Vec<Box<str>>,
    pub(super) scopes: Option<Box<str>>,
    /// It takes tokens only that are bound to a key.
    pub(super) requires_proofs: bool,
}

impl Resource {
    pub(super) fn read(body: &[u8], server: &Place, options: &OAuthOptions) -> Result<Self, Unfit> {
        let none = |why: &str| Unfit::NoMetadata(why.into());
        let json = parse(body, options.limits.bytes).ok_or_else(|| none("the body is not a JSON object"))?;
        let limit = if options.tolerance.issuer.is_some() { usize::MAX } else { NAMES };
        let named = strings(json, "authorization_servers", limit).filter(|named| !named.is_empty());
        let named = named.ok_or_else(|| none("it names no `authorization_servers`"))?;
        let is_exact = options.tolerance.exact_resource;
        let fits = |resource: &str| match Place::parse(resource) {
            Some(place) if is_exact => place.text() == server.text(),
            Some(place) => place.covers(server),
            None => false,
        };
        let resource = match json.member("resource").filter(|value| value.text() != "null").map(Json::as_string) {
            None if is_exact => return Err(Unfit::Refused("it has no `resource`".into())),
            None => server.text().into(),
            Some(Some(resource)) if fits(&resource) => resource.split('#').next().unwrap_or_default().into(),
            Some(resource) => {
                let resource =
                    resource.map_or_else(|| "of another type".into(), |it| excerpt(&crate::text::shown(&it)));
                let relation = if is_exact { "is not" } else { "does not cover" };
                let why = format!("its `resource` is `{resource}`, which {relation} the server `{server}`");
                return Err(Unfit::Refused(why.into()));
            }
        };
        let chosen = match &options.tolerance.issuer {
            None => named,
            Some(issuer) => match named.iter().find(|named| is_same_issuer(named, issuer)) {
                Some(named) => alloc::vec![named.clone()],
                None => {
                    let (all, issuer) = (excerpt(&named.join("`, `")), excerpt(issuer));
                    let why = format!("it names the authorization servers `{all}`, and `{issuer}` is configured");
                    return Err(Unfit::Refused(why.into()));
                }
            },
        };
        let scopes = strings(json, "scopes_supported", NAMES).map(|scopes| bounded(&scopes));
        let requires_proofs = is_true(json, "dpop_bound_access_tokens_required");
        Ok(Self { resource, issuers: chosen, scopes, requires_proofs })
    }

    /// What is assumed of a server without metadata.
    pub(super) const fn assumed(resource: Box<str>) -> Self {
        Self { resource, issuers: Vec::new(), scopes: None, requires_proofs: false }
    }
}

/// The metadata of an authorization server.
#[derive(Clone, Debug)]
pub(super) struct Server {
    /// The issuer that metadata was asked for: what belongs to it goes to this server.
    pub(super) asked: Box<str>,
    /// The issuer that the metadata says, which `iss` and audiences are.
    pub(super) issuer: Box<str>,
    pub(super) authorization_endpoint: Option<Place>,
    pub(super) token_endpoint: Place,
    pub(super) registration_endpoint: Option<Place>,
    pub(super) revocation_endpoint: Option<Place>,
    /// `None` if it does not say.
    pub(super) auth_methods: Option<Vec<Box<str>>>,
    pub(super) has_offline_access: bool,
    pub(super) has_client_documents: bool,
    pub(super) sends_iss: bool,
    /// It issues tokens that are bound to a key (RFC 9449, section 5.1).
    pub(super) takes_proofs: bool,
    /// It has no metadata: its endpoints are those of the conventions of 2025-03-26.
    pub(super) is_assumed: bool,
}

impl Server {
    pub(super) fn read(body: &[u8], asked: &Place, zone: Zone, options: &OAuthOptions) -> Result<Self, Unfit> {
        let json = parse(body, options.limits.bytes);
        let json = json.ok_or_else(|| Unfit::NoMetadata("the body is not a JSON object".into()))?;
        let issuer = issuer(json, asked, options).map_err(Unfit::Refused)?;
        let server = Self::read_checked(json, issuer, zone, options).map_err(Unfit::Refused)?;
        Ok(Self { asked: asked.text().into(), ..server })
    }

    fn read_checked(json: Json<'_>, issuer: Box<str>, zone: Zone, options: &OAuthOptions) -> Result<Self, Box<str>> {
        let endpoint = |name: &str| text(json, name).map(|url| checked(name, &url, zone)).transpose();
        let authorization_endpoint = endpoint("authorization_endpoint")?;
        if options.flow == Flow::User {
            let endpoint = authorization_endpoint.as_ref().ok_or("it has no `authorization_endpoint`")?;
            if !endpoint.has_plain_host() {
                return Err("the host of its `authorization_endpoint` has characters that no host name has".into());
            }
            let is_taken = |parameter: &&str| names_in(endpoint.query()).any(|name| *name == **parameter);
            if let Some(parameter) = PARAMETERS.into_iter().find(is_taken) {
                return Err(format!("its `authorization_endpoint` has a `{parameter}` already").into());
            }
            let methods = strings(json, "code_challenge_methods_supported", NAMES).unwrap_or_default();
            if !methods.iter().any(|method| **method == *"S256") {
                return Err("`code_challenge_methods_supported` does not contain `S256`, so PKCE cannot be used".into());
            }
        }
        let scopes = strings(json, "scopes_supported", NAMES).unwrap_or_default();
        Ok(Self {
            asked: issuer.clone(),
            issuer,
            authorization_endpoint,
            token_endpoint: endpoint("token_endpoint")?.ok_or("it has no `token_endpoint`")?,
            registration_endpoint: endpoint("registration_endpoint")?,
            revocation_endpoint: endpoint("revocation_endpoint")?,
            auth_methods: strings(json, "token_endpoint_auth_methods_supported", NAMES),
            has_offline_access: scopes.iter().any(|scope| **scope == *"offline_access"),
            has_client_documents: is_true(json, "client_id_metadata_document_supported"),
            takes_proofs: strings(json, "dpop_signing_alg_values_supported", NAMES)
                .is_some_and(|names| names.iter().any(|name| **name == *proof::ALGORITHM)),
            sends_iss: is_true(json, "authorization_response_iss_parameter_supported"),
            is_assumed: false,
        })
    }

    /// The endpoints of a server of 2025-03-26 without metadata (specification 2025-03-26, "Authorization", Fallbacks).
    pub(super) fn assumed(origin: &str, zone: Zone) -> Result<Self, Box<str>> {
        let endpoint = |name: &str| checked("the assumed endpoint", &format!("{origin}/{name}"), zone);
        Ok(Self {
            asked: origin.into(),
            issuer: origin.into(),
            authorization_endpoint: Some(endpoint("authorize")?),
            token_endpoint: endpoint("token")?,
            registration_endpoint: Some(endpoint("register")?),
            revocation_endpoint: None,
            auth_methods: None,
            has_offline_access: false,
            has_client_documents: false,
            sends_iss: false,
            takes_proofs: false,
            is_assumed: true,
        })
    }
}

/// The first scopes that are not too long together.
fn bounded(scopes: &[Box<str>]) -> Box<str> {
    let mut room = LONGEST_SCOPES;
    let fits = |scope: &&str| {
        room = room.saturating_sub(scope.len().saturating_add(1));
        room > 0
    };
    scopes.iter().map(|scope| &**scope).take_while(fits).collect::<Vec<_>>().join(" ").into()
}

fn is_true(json: Json<'_>, name: &str) -> bool {
    json.member(name).is_some_and(|value| value.text() == "true")
}

/// The issuer that metadata names, which is the one that it was requested for, byte for byte but for the final slash of an
/// origin.
fn issuer(json: Json<'_>, asked: &Place, options: &OAuthOptions) -> Result<Box<str>, Box<str>> {
    let tolerance = &options.tolerance;
    match text(json, "issuer") {
        Some(issuer) if tolerance.is_issuer(asked.text(), &issuer) => Ok(issuer),
        Some(issuer) => {
            let shown = excerpt(&crate::text::shown(&issuer));
            Err(format!("its `issuer` is `{shown}`, not `{asked}`").into())
        }
        None if tolerance.missing_issuer => Ok(asked.text().into()),
        None => Err(format!("it has no `issuer`, where `{asked}` is expected").into()),
    }
}

/// A URL that this name stands for, if it may be requested.
pub(super) fn checked(name: &str, url: &str, zone: Zone) -> Result<Place, Box<str>> {
    let shown = || excerpt(&crate::text::shown(url));
    let place = Place::parse(url)
        .ok_or_else(|| format!("`{name}` has `{}`, which is not an http(s) URL, or is too long", shown()))?;
    place.check(zone).map_err(|why| format!("`{name}` has `{}`, which {why}", shown()))?;
    Ok(place)
}
