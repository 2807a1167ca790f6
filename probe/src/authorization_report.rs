//! What the report says of an authorization.

use mcp_proto::binding::oauth::{Grant, GrantKind, OAuthError, TokenId};
use serde::Serialize;

#[derive(Clone, Default, Serialize)]
pub(crate) struct AuthorizationReport {
    pub(crate) issuer: Option<Box<str>>,
    pub(crate) resource: Option<Box<str>>,
    /// How the client was registered, or `stored` for a token that was in the file.
    pub(crate) registration: Option<&'static str>,
    pub(crate) scopes: Vec<String>,
    /// How each token was obtained, in order.
    pub(crate) grants: Vec<&'static str>,
    pub(crate) error: Option<AuthorizationError>,
    #[serde(skip)]
    last: Option<TokenId>,
}

#[derive(Clone, Serialize)]
pub(crate) struct AuthorizationError {
    pub(crate) stage: &'static str,
    pub(crate) reason: Box<str>,
}

impl AuthorizationReport {
    pub(crate) fn granted(&mut self, grant: Grant) {
        self.error = None;
        // Requests that are sent again with a known token are reported, too.
        if self.last.replace(grant.token) == Some(grant.token) {
            return;
        }
        if grant.kind == GrantKind::Stored {
            self.registration = Some("stored");
        } else {
            self.registration = Some(grant.registration.as_str());
            self.grants.push(grant.kind.as_str());
        }
        self.scopes = grant.scopes.split_ascii_whitespace().map(str::to_owned).collect();
        (self.issuer, self.resource) = (Some(grant.issuer), Some(grant.resource));
    }

    pub(crate) fn failed(&mut self, error: &OAuthError) {
        self.error = Some(AuthorizationError { stage: error.stage.as_str(), reason: error.reason.clone() });
    }
}
