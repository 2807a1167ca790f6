//! Decides which client is used, and what follows when the metadata is known.

use alloc::boxed::Box;
use alloc::format;

use super::action::RegistrationKind;
use super::attempt::Attempt;
use super::core::Core;
use super::error::{Stage, excerpt};
use super::metadata::Server;
use super::options::{ClientAuth, Flow, RegisteredClient};
use super::record::ClientRecord;
use super::task::Held;
use crate::machine::authorization::Input;
use crate::machine::authorization_plan::{
    self, Belongs, Client, Code, Configured, Goal, Issuer, Known, Offer, Owner, Proof, Sent, take,
};

impl Attempt {
    /// What follows when the metadata is known.
    pub(super) fn plan(&mut self, core: &Core) -> Input {
        let Some(server) = &self.server else { return Input::Fail };
        let is_own = |client: &&RegisteredClient| self.issuer_of(client).is_none_or(|own| *own == *server.issuer);
        let configured = configured(core, &server.issuer).filter(is_own);
        let class = match configured {
            Some(_) => Configured::Fits,
            None if core.options.registered.is_empty() => Configured::Nothing,
            None => Configured::Elsewhere,
        };
        let choice = take::client(class, self.held_class(core, server), offer(core, server));
        let client = match choice {
            Client::Configured => configured.map(|client| configured_client(core, server, client)),
            Client::Held => self.held.as_ref().map(|held| held.client.clone()),
            Client::Document => core.options.client_metadata_url.as_deref().map(|url| document_client(core, url)),
            Client::Dynamic | Client::Elsewhere | Client::Nothing => None,
        };
        let owner = match &self.held {
            Some(held) if self.goal() == Goal::Refresh => {
                let is_other = client.as_ref().is_some_and(|client| client.id != held.client.id);
                if held.issuer != server.issuer || is_other { Owner::Other } else { Owner::Same }
            }
            Some(_) | None => Owner::Same,
        };
        let has_grant = match (self.goal(), &core.options.flow) {
            (Goal::Direct, Flow::Enterprise(_)) => self.grant.is_some(),
            (Goal::Direct, Flow::User | Flow::ClientCredentials | Flow::JwtBearer(_)) => true,
            (Goal::User | Goal::Refresh, _) => self.code.is_some(),
        };
        let code = if has_grant {
            Code::Held
        } else if core.options.may_ask_user {
            Code::Missing
        } else {
            Code::Withheld
        };
        let proof = match client.as_ref().map(|client| &client.auth) {
            _ if self.is_bound(core) => Proof::Signature,
            Some(ClientAuth::PrivateKeyJwt { .. }) => Proof::Signature,
            Some(ClientAuth::None | ClientAuth::Basic | ClientAuth::Post) | None => Proof::Plain,
        };
        let input = take::plan(self.goal(), choice, owner, code, proof, core.browser);
        let (stage, why) = self.reason(core, server, choice, code);
        let sent = if matches!(input, Input::Request | Input::Sign) { Sent::Now } else { Sent::Later };
        let is_named = self.resource.as_ref().is_some_and(|resource| !resource.issuers.is_empty());
        let known = if is_named { Known::Named } else { Known::Assumed };
        let is_first = configured.is_some_and(|client| client.issuer.is_none());
        let own = if is_first { Issuer::First } else { Issuer::Configured };
        if take::belongs(choice, sent, known, own) == Belongs::Here {
            self.first_issuer = Some(server.issuer.clone());
        }
        self.client = client;
        if input == Input::Fail {
            self.set_why(stage, why);
        }
        input
    }

    fn held_class(&self, core: &Core, server: &Server) -> authorization_plan::Held {
        use authorization_plan::Held;
        match &self.held {
            None => Held::Nothing,
            Some(held) if held.issuer != server.issuer => Held::Elsewhere,
            Some(held) => match held.client.secret_expires {
                Some(at) if at <= core.unix() => Held::Expired,
                Some(_) | None => Held::Valid,
            },
        }
    }

    /// The authorization server that a configured client belongs to: the one that is configured, or the first one that
    /// it was used at.
    fn issuer_of<'a>(&'a self, client: &'a RegisteredClient) -> Option<&'a str> {
        let is_same = |held: &&Held| held.client.kind == RegistrationKind::PreRegistered && held.client.id == client.id;
        let held = self.held.as_ref().filter(is_same).map(|held| &*held.issuer);
        client.issuer.as_deref().or(held).or(self.first_issuer.as_deref())
    }

    /// Why nothing can follow.
    fn reason(&self, core: &Core, server: &Server, choice: Client, code: Code) -> (Stage, Box<str>) {
        let issuer = excerpt(&crate::address::shown(&server.issuer));
        if choice == Client::Elsewhere {
            let other = core.options.registered.iter().find_map(|client| self.issuer_of(client)).unwrap_or_default();
            let other = excerpt(&crate::address::shown(other));
            let why = format!(
                "the client is registered at `{other}`, and the server now names `{issuer}`: register one there"
            );
            return (Stage::Registration, why.into());
        }
        if code == Code::Withheld && core.options.flow == Flow::User {
            let why = format!("the server offers OAuth at `{issuer}`, and the user may not be asked");
            return (Stage::Authorization, why.into());
        }
        let why = format!("`{issuer}` offers no registration that can be used: configure a client ID for it");
        (Stage::Registration, why.into())
    }
}

/// The client that was registered in advance for an authorization server.
fn configured<'a>(core: &'a Core, issuer: &str) -> Option<&'a RegisteredClient> {
    let registered = &core.options.registered;
    let exact = registered.iter().find(|client| client.issuer.as_deref() == Some(issuer));
    exact.or_else(|| registered.iter().find(|client| client.issuer.is_none()))
}

fn offer(core: &Core, server: &Server) -> Offer {
    if server.has_client_documents && core.options.client_metadata_url.is_some() {
        Offer::Document
    } else if server.registration_endpoint.is_some() && core.options.flow == Flow::User {
        Offer::Dynamic
    } else {
        Offer::Nothing
    }
}

fn configured_client(core: &Core, server: &Server, client: &RegisteredClient) -> ClientRecord {
    let auth = match (&client.auth, &client.secret) {
        (Some(auth), _) => auth.clone(),
        (None, None) => ClientAuth::None,
        (None, Some(_)) => with_secret(server),
    };
    ClientRecord {
        id: client.id.clone(),
        secret: client.secret.clone(),
        secret_expires: None,
        auth,
        redirect_uri: core.options.redirect_of(client),
        scopes: None,
        kind: RegistrationKind::PreRegistered,
    }
}

fn document_client(core: &Core, url: &str) -> ClientRecord {
    ClientRecord {
        id: url.into(),
        secret: None,
        secret_expires: None,
        auth: ClientAuth::None,
        redirect_uri: core.options.redirect_uri.clone(),
        scopes: None,
        kind: RegistrationKind::MetadataDocument,
    }
}

fn supports(server: &Server, auth: &ClientAuth) -> bool {
    let listed = |methods: &alloc::vec::Vec<Box<str>>| methods.iter().any(|method| **method == *auth.as_str());
    server.auth_methods.as_ref().is_some_and(listed)
}

/// How a client with a secret authenticates (RFC 8414, section 2: `client_secret_basic` unless the metadata says
/// otherwise).
fn with_secret(server: &Server) -> ClientAuth {
    if !supports(server, &ClientAuth::Basic) && supports(server, &ClientAuth::Post) {
        ClientAuth::Post
    } else {
        ClientAuth::Basic
    }
}

/// How a client that registers dynamically asks to authenticate.
pub(super) fn preferred(server: &Server) -> ClientAuth {
    if supports(server, &ClientAuth::None) { ClientAuth::None } else { with_secret(server) }
}
