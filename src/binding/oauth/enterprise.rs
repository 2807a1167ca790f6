//! The exchange of an identity assertion for an authorization grant at the enterprise's identity provider
//! (Enterprise-Managed Authorization; RFC 8693).

use alloc::boxed::Box;
use alloc::format;

use http::StatusCode;
use zeroize::Zeroizing;

use super::Secret;
use super::attempt::Attempt;
use super::core::{Core, Exchange};
use super::error::excerpt;
use super::form::Form;
use super::options::Flow;
use super::place::Place;
use super::record::{is_token, parse, text};
use super::token::{NotIssued, refused};
use crate::machine::authorization::Input;
use crate::machine::authorization_plan::Failure;

const ID_JAG: &str = "urn:ietf:params:oauth:token-type:id-jag";

impl Attempt {
    /// Sends the token exchange. Its response is a grant for the authorization server of the MCP server.
    pub(super) fn exchange_identity(&mut self, core: &mut Core) -> Option<Input> {
        let Flow::Enterprise(provider) = core.options.flow.clone() else { return Some(Input::Fail) };
        let Some(endpoint) = Place::parse(&provider.token_endpoint) else { return Some(Input::Fail) };
        self.requested = self.direct_scopes(core);
        let mut form = Form::default();
        form.push("grant_type", "urn:ietf:params:oauth:grant-type:token-exchange");
        form.push("requested_token_type", ID_JAG);
        form.push_some("audience", self.server.as_ref().map(|server| &*server.issuer));
        form.push_some("resource", self.resource.as_ref().map(|resource| &*resource.resource));
        form.push_some("scope", Some(&*self.requested).filter(|scopes| !scopes.is_empty()));
        form.push("subject_token", provider.id_token.expose());
        form.push("subject_token_type", "urn:ietf:params:oauth:token-type:id_token");
        form.push("client_id", &provider.client_id);
        form.push_some("client_secret", provider.client_secret.as_ref().map(Secret::expose));
        self.sent = self.sent.saturating_add(1);
        let body = Zeroizing::new(form.text().as_bytes().to_vec());
        self.exchange = core.post(&endpoint, super::requests::FORM, body);
        None
    }

    /// The response to the token exchange ended.
    pub(super) fn exchange_ended(&mut self, core: &Core, exchange: &Exchange) -> Input {
        let status = exchange.status.unwrap_or_default();
        match granted(status, &exchange.body, core.options.limits.bytes) {
            Ok(grant) => {
                self.grant = Some(grant);
                Input::Exchanged
            }
            Err(failed) => self.token_failed(failed),
        }
    }
}

/// The grant that a token exchange was answered with.
fn granted(status: StatusCode, body: &[u8], limit: usize) -> Result<Secret, NotIssued> {
    let json = parse(body, limit).ok_or_else(|| {
        let failure = if status.is_server_error() { Failure::Transient } else { Failure::Other };
        NotIssued { failure, why: format!("the identity provider answered HTTP {}", status.as_u16()).into() }
    })?;
    if let Some(error) = text(json, "error").filter(|error| !error.is_empty()) {
        let NotIssued { failure, why } = refused(status, &error, text(json, "error_description").as_deref());
        // The errors of one server are not those of the other.
        let failure = if failure == Failure::Transient { failure } else { Failure::Other };
        return Err(NotIssued { failure, why: format!("at the identity provider, {why}").into() });
    }
    let other = |why: Box<str>| NotIssued { failure: Failure::Other, why };
    let kind = text(json, "issued_token_type").unwrap_or_default();
    if *kind != *ID_JAG {
        return Err(other(format!("the identity provider issued `{}`, not `{ID_JAG}`", excerpt(&kind)).into()));
    }
    let grant = text(json, "access_token").filter(|grant| is_token(grant));
    let grant = grant.ok_or_else(|| other("the identity provider's response has no token".into()))?;
    Ok(Secret::new(grant.into_string()))
}
