//! The authorization of the session: the clients that the suite names, and a user who authorizes at once.

use std::error::Error;
use std::time::SystemTime;

use mcp_proto::Time;
use mcp_proto::binding::oauth::{
    Authorization, ClientAuth, Flow, IdentityProvider, OAuthAction, OAuthEvent, OAuthInput, OAuthOptions,
    RegisteredClient, Secret, SigningKey,
};
use reqwest::Client as Browser;
use reqwest::header::LOCATION;
use serde::Deserialize;

use crate::driver::Driver;
use crate::settings::Grant;

/// The client that the suite names.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(crate) struct Client {
    client_id: Option<String>,
    client_secret: Option<String>,
    /// The authorization server at which a user registered the client.
    issuer: Option<String>,
    /// The key that the client is registered with, and its algorithm.
    private_key_pem: Option<String>,
    signing_algorithm: Option<String>,
    /// The identity of a workload.
    valid_jwt: Option<String>,
    /// The identity provider of an enterprise, and the identity of its user.
    idp_client_id: Option<String>,
    idp_id_token: Option<String>,
    idp_token_endpoint: Option<String>,
}

impl Client {
    fn options(&self, grant: &Grant, issuer: Option<String>) -> Result<OAuthOptions, Box<dyn Error>> {
        let mut options = OAuthOptions::new("mcp-proto-conformance", "http://127.0.0.1:3000/callback");
        options.client_metadata_url = Some("https://conformance-test.local/client-metadata.json".into());
        options.offline_access = true;
        // Tokens are bound to it where the servers support that.
        let key = SigningKey::from_bytes(&random()?)?;
        (options.dpop, options.dpop_key) = (Some(key.public()), Some(key));
        let Some(id) = &self.client_id else { return Ok(options) };
        let mut client = RegisteredClient::new(id.as_str());
        client.issuer = issuer.map(Into::into);
        client.secret = self.client_secret.as_deref().map(Secret::new);
        if let (Some(pem), Some(algorithm)) = (&self.private_key_pem, &self.signing_algorithm) {
            client.auth = Some(ClientAuth::PrivateKeyJwt { algorithm: algorithm.as_str().into(), key_id: None });
            options.client_key = Some(SigningKey::from_pem(pem)?);
        }
        options.registered.push(client);
        options.flow = match grant {
            Grant::User => Flow::User,
            Grant::ClientCredentials => Flow::ClientCredentials,
            Grant::JwtBearer => Flow::JwtBearer(Secret::new(self.valid_jwt.as_deref().ok_or("no JWT")?)),
            Grant::Enterprise => {
                let endpoint = self.idp_token_endpoint.as_deref().ok_or("no token endpoint")?;
                let client = self.idp_client_id.as_deref().ok_or("no client of the identity provider")?;
                let token = self.idp_id_token.as_deref().ok_or("no ID token")?;
                Flow::Enterprise(IdentityProvider::new(endpoint, client, Secret::new(token)))
            }
        };
        Ok(options)
    }
}

/// What the session authorizes itself with.
pub(crate) async fn authorization(
    url: &str,
    client: &Client,
    grant: &Grant,
    browser: &Browser,
) -> Result<Authorization, Box<dyn Error>> {
    let issuer = match &client.issuer {
        Some(issuer) => Some(issuer.clone()),
        None if client.client_secret.is_some() || !matches!(grant, Grant::User) => issuer(browser, url).await,
        None => None,
    };
    let unix = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH)?;
    // State and verifiers are made of it.
    Ok(Authorization::new(url, client.options(grant, issuer)?, random()?, Time::ZERO, unix)?)
}

/// The authorization server of a client, which the suite does not always name. Who registered the client knows it; the
/// suite has no other than the one that the server names.
async fn issuer(browser: &Browser, url: &str) -> Option<String> {
    let mut place = reqwest::Url::parse(url).ok()?;
    place.set_path(&format!("/.well-known/oauth-protected-resource{}", place.path()));
    let body = browser.get(place).send().await.ok()?.bytes().await.ok()?;
    let document: serde_json::Value = serde_json::from_slice(&body).ok()?;
    document.get("authorization_servers")?.get(0)?.as_str().map(Into::into)
}

/// Bytes of a random number generator for secrets.
fn random() -> Result<[u8; 32], Box<dyn Error>> {
    let mut bytes = [0; 32];
    let random = rustls::crypto::ring::default_provider().secure_random;
    random.fill(&mut bytes).map_err(|_| "the system has no randomness")?;
    Ok(bytes)
}

/// Does what the session wants done to be authorized.
pub(crate) async fn act(driver: &mut Driver, browser: &Browser, action: OAuthAction) -> Result<(), Box<dyn Error>> {
    match action {
        OAuthAction::Browse(url) => {
            let redirect = browse(browser, url.as_str()).await.unwrap_or_default();
            let now = driver.now();
            driver.session.handle_oauth(now, OAuthInput::Redirect(&redirect));
        }
        // Nobody repairs it, and without a session there is nothing to do.
        OAuthAction::Event(OAuthEvent::Failed(error)) if !driver.session.is_ready() => {
            return Err(error.into());
        }
        OAuthAction::Event(event) => eprintln!("{event:?}"),
        // It has no store, and its keys are in memory.
        OAuthAction::Request(_)
        | OAuthAction::Drop(_)
        | OAuthAction::EndBrowse
        | OAuthAction::Store(_)
        | OAuthAction::Sign(_)
        | _ => {}
    }
    Ok(())
}

/// Where the user's browser is redirected by the authorization server.
async fn browse(browser: &Browser, url: &str) -> Option<String> {
    let response = browser.get(url).send().await.ok()?;
    Some(response.headers().get(LOCATION)?.to_str().ok()?.to_owned())
}
