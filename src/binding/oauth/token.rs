//! Responses of token and registration endpoints.

use alloc::boxed::Box;
use alloc::format;
use alloc::string::ToString;

use http::StatusCode;

use super::Secret;
use super::error::excerpt;
use super::form;
use super::options::ClientAuth;
use super::place::Place;
use super::record::{ClientRecord, is_token, parse, strings, text};
use crate::binding::oauth::RegistrationKind;
use crate::jsonrpc::Json;
use crate::machine::authorization_plan::Failure;

/// The longest life of a token that is believed, in seconds: ten years.
const LONGEST_LIFE: u64 = 10 * 365 * 24 * 3600;

/// A token that was issued.
#[derive(Clone, Debug)]
pub(super) struct Issued {
    pub(super) access_token: Secret,
    /// Its life in seconds, if it is known.
    pub(super) life: Option<u64>,
    pub(super) refresh_token: Option<Secret>,
    pub(super) scopes: Option<Box<str>>,
}

/// Why no token came.
#[derive(Debug)]
pub(super) struct NotIssued {
    pub(super) failure: Failure,
    pub(super) why: Box<str>,
}

/// The members of a response, in JSON or as a form.
enum Answer<'a> {
    Json(Json<'a>),
    Form(&'a str),
}

impl Answer<'_> {
    fn text(&self, name: &str) -> Option<Box<str>> {
        match self {
            Self::Json(json) => text(*json, name),
            Self::Form(form) => form::param(form, name).ok()?.map(|value| value.as_str().into()),
        }
    }

    /// The life that `expires_in` says, as a number or a string.
    fn life(&self) -> Option<u64> {
        let written = match self {
            Self::Json(json) => {
                let value = json.member("expires_in")?;
                value.as_string().unwrap_or_else(|| value.text().into())
            }
            Self::Form(_) => self.text("expires_in")?.into_string().into(),
        };
        let seconds: f64 = written.trim().parse().ok().filter(|it: &f64| !it.is_nan())?;
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the cast saturates")]
        Some((seconds.max(0.0) as u64).min(LONGEST_LIFE))
    }
}

/// What a response of the token endpoint says.
///
/// `kind` is the type of token that was asked for.
pub(super) fn issued(status: StatusCode, body: &[u8], limit: usize, kind: &str) -> Result<Issued, NotIssued> {
    let answer = match (parse(body, limit), core::str::from_utf8(body)) {
        (Some(json), _) => Answer::Json(json),
        (None, Ok(form)) if form.contains('=') && !form.trim_start().starts_with(['<', '{', '[']) => Answer::Form(form),
        (None, _) => return Err(no_answer(status)),
    };
    if let Some(error) = answer.text("error").filter(|error| !error.is_empty()) {
        return Err(refused(status, &error, answer.text("error_description").as_deref()));
    }
    if !status.is_success() {
        return Err(no_answer(status));
    }
    let other = |why: &str| NotIssued { failure: Failure::Other, why: why.into() };
    let token = answer.text("access_token").ok_or_else(|| other("the response has no `access_token`"))?;
    if !is_token(&token) {
        return Err(other("the `access_token` is empty, too long, or has characters that no header may have"));
    }
    if let Some(other_kind) = answer.text("token_type").filter(|named| !named.eq_ignore_ascii_case(kind)) {
        return Err(other(&format!("the `token_type` is `{}`, not `{kind}`", excerpt(&other_kind))));
    }
    Ok(Issued {
        access_token: Secret::new(token.into_string()),
        life: answer.life(),
        refresh_token: answer.text("refresh_token").filter(|it| !it.is_empty()).map(|it| Secret::new(it.into_string())),
        scopes: answer.text("scope"),
    })
}

fn no_answer(status: StatusCode) -> NotIssued {
    let transient = status.is_success() || status.is_server_error() || status == StatusCode::TOO_MANY_REQUESTS;
    let failure = if transient { Failure::Transient } else { Failure::Other };
    NotIssued { failure, why: format!("the token endpoint answered HTTP {} without a token", status.as_u16()).into() }
}

pub(super) fn refused(status: StatusCode, error: &str, description: Option<&str>) -> NotIssued {
    let failure = match error {
        "invalid_grant" => Failure::InvalidGrant,
        "invalid_client" => Failure::InvalidClient,
        "use_dpop_nonce" => Failure::Nonce,
        "temporarily_unavailable" | "server_error" => Failure::Transient,
        _ if status.is_server_error() || status == StatusCode::TOO_MANY_REQUESTS => Failure::Transient,
        _ => Failure::Other,
    };
    NotIssued { failure, why: format!("the authorization server answered {}", words(error, description)).into() }
}

/// An error of an authorization server in its own words.
pub(super) fn words(error: &str, description: Option<&str>) -> Box<str> {
    match description.map(excerpt).filter(|words| !words.is_empty()) {
        Some(description) => format!("`{}`: {description}", excerpt(error)).into(),
        None => format!("`{}`", excerpt(error)).into(),
    }
}

/// What was asked for in a registration.
pub(super) struct Asked<'a> {
    pub(super) redirect_uri: &'a str,
    pub(super) auth: &'a ClientAuth,
}

/// What a response of the registration endpoint says.
pub(super) fn registered(
    status: StatusCode,
    body: &[u8],
    limit: usize,
    asked: &Asked<'_>,
) -> Result<ClientRecord, Box<str>> {
    let json = parse(body, limit);
    let error = json
        .and_then(|json| text(json, "error").map(|error| words(&error, text(json, "error_description").as_deref())));
    let (Some(json), None, true) = (json, &error, status.is_success()) else {
        let said = error.unwrap_or_else(|| "no registration".into());
        return Err(format!("the authorization server answered HTTP {}: {said}", status.as_u16()).into());
    };
    let id = text(json, "client_id").filter(|id| !id.is_empty());
    let id = id.ok_or("the authorization server's registration has no `client_id`")?;
    let secret = text(json, "client_secret").filter(|secret| !secret.is_empty());
    let named = text(json, "token_endpoint_auth_method");
    let auth = match named.as_deref().map(ClientAuth::named) {
        Some(Some(auth)) => auth,
        Some(None) => {
            let method = excerpt(&named.unwrap_or_default());
            return Err(format!("the client is registered for `{method}`, which is not supported").into());
        }
        None if secret.is_none() => ClientAuth::None,
        None if *asked.auth == ClientAuth::Post => ClientAuth::Post,
        None => ClientAuth::Basic,
    };
    let redirects = strings(json, "redirect_uris", 64).unwrap_or_default();
    let kept = redirects.is_empty() || redirects.iter().any(|uri| **uri == *asked.redirect_uri);
    let redirect_uri = match redirects.into_iter().next() {
        Some(first) if !kept => {
            // The code goes there.
            if Place::parse(&first).is_some_and(|place| place.check(super::place::Zone::Loopback).is_err()) {
                return Err("the client is registered with a redirect URI that is not https".into());
            }
            first
        }
        Some(_) | None => asked.redirect_uri.into(),
    };
    let expires = json.member("client_secret_expires_at").and_then(|at| at.text().to_string().parse::<f64>().ok());
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the cast saturates")]
    let secret_expires = expires.filter(|at| *at > 0.0).map(|at| at as u64);
    Ok(ClientRecord {
        id,
        secret: secret.map(|it| Secret::new(it.into_string())),
        secret_expires,
        auth,
        redirect_uri,
        scopes: text(json, "scope").filter(|scopes| !scopes.trim().is_empty()),
        kind: RegistrationKind::Dynamic,
    })
}
