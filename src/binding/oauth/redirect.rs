//! The user's browser: the URL that it is given, and the redirect that it comes back with.

use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;

use super::Secret;
use super::action::{AuthorizationUrl, OAuthAction};
use super::attempt::Attempt;
use super::core::Core;
use super::entropy::challenge_of;
use super::error::Stage;
use super::form::{Form, param};
use super::record::{narrowed, union};
use super::token::words;
use crate::machine::authorization::Input;
use crate::machine::authorization_plan::{Advertised, Goal, Iss, Redirect, take};
use crate::machine::credential_need;

impl Attempt {
    /// Gives the user the URL.
    pub(super) fn browse(&mut self, core: &mut Core) -> Option<Input> {
        self.requested = self.scopes(core);
        let (word, verifier) = (core.entropy.word(), core.entropy.word());
        let mut query = Form::default();
        let endpoint = self.server.as_ref().and_then(|server| server.authorization_endpoint.as_ref());
        let (Some(endpoint), Some(client)) = (endpoint, &self.client) else {
            self.set_why(Stage::ServerMetadata, "the authorization server has no `authorization_endpoint`");
            return Some(Input::Fail);
        };
        query.push("response_type", "code");
        query.push("client_id", &client.id);
        query.push("redirect_uri", &client.redirect_uri);
        query.push("code_challenge", &challenge_of(&verifier));
        query.push("code_challenge_method", "S256");
        query.push("state", word.expose());
        query.push_some("resource", self.resource_param(core));
        query.push_some("scope", Some(&*self.requested).filter(|scopes| !scopes.is_empty()));
        let (url, redirect_uri) = (endpoint.with_query(query.text()).into(), client.redirect_uri.clone());
        let url = AuthorizationUrl { url, redirect_uri };
        (self.state_word, self.verifier) = (Some(word), Some(verifier));
        core.outbox.push_back(OAuthAction::Browse(url));
        self.deadline = Some(core.now + core.options.timeouts.user);
        None
    }

    /// The scopes to request (specification 2026-07-28, "Authorization", Scope Selection Strategy).
    fn scopes(&self, core: &Core) -> Box<str> {
        let Some(task) = &self.task else { return "".into() };
        let named = task.hint.scopes.as_deref();
        let supported = self.resource.as_ref().and_then(|resource| resource.scopes.as_deref());
        let own = core.options.scopes.as_deref();
        let further = named.filter(|_| task.need == credential_need::State::StepUp).unwrap_or_default();
        let base = own.or(named).or(supported).unwrap_or_default();
        // Another authorization server may not have the scopes of the one before.
        let issuer = self.server.as_ref().map(|server| &server.issuer);
        let before = task.former.as_ref().filter(|former| Some(&former.issuer) == issuer).map(|_| &*task.scopes);
        let all = union(&[before.unwrap_or_default(), base, further]);
        let all = match self.client.as_ref().and_then(|client| client.scopes.as_deref()) {
            Some(allowed) => narrowed(&all, allowed),
            None => all,
        };
        let has_offline = self.server.as_ref().is_some_and(|server| server.has_offline_access);
        let is_user = task.goal == Goal::User;
        if core.options.offline_access && has_offline && is_user { union(&[&all, "offline_access"]) } else { all }
    }

    /// The user's browser was redirected. Returns what follows, if the redirect belongs to this attempt.
    pub(super) fn redirected(&mut self, redirect: &str) -> Option<Input> {
        let query = query_of(redirect);
        let is_ours = match (&self.state_word, param(query, "state")) {
            (Some(word), Ok(Some(state))) => word.is(&state),
            _ => false,
        };
        let server = self.server.as_ref().filter(|_| is_ours)?;
        let iss = match param(query, "iss") {
            Ok(None) => Iss::Missing,
            Ok(Some(iss)) if **iss == *server.issuer => Iss::Same,
            Ok(Some(_)) | Err(()) => Iss::Other,
        };
        let advertised = if server.sends_iss { Advertised::Yes } else { Advertised::No };
        let text = |name| param(query, name).ok().flatten().filter(|value| !value.is_empty());
        let (error, code) = (text("error"), text("code"));
        let has = if code.is_some() && error.is_none() { Redirect::Code } else { Redirect::Error };
        let input = take::redirect(advertised, iss, has);
        if input == Input::Code {
            self.code = code.map(|code| Secret::new(String::from(code.as_str())));
        } else {
            let is_trusted = iss == Iss::Same || iss == Iss::Missing && advertised == Advertised::No;
            let why = match (is_trusted, error) {
                (false, _) => "the response to the authorization request names no or another issuer: it is discarded, \
                               because it may be from another authorization server"
                    .into(),
                (true, Some(error)) => {
                    let said = words(&error, text("error_description").as_ref().map(|words| words.as_str()));
                    format!("the authorization server answered {said}")
                }
                (true, None) => "the response to the authorization request has no code".into(),
            };
            self.set_why(Stage::Authorization, why);
        }
        Some(input)
    }
}

/// The query of a URL or of a path; otherwise the text itself is a query.
fn query_of(redirect: &str) -> &str {
    let redirect = redirect.trim();
    let redirect = redirect.split('#').next().unwrap_or_default();
    redirect.split_once('?').map_or(redirect, |(_, query)| query)
}
