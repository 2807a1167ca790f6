//! The authorization of the session: the clients that the suite names, and a user who authorizes at once.

use std::error::Error;
use std::future::ready;
use std::io;

use http::header::LOCATION;
use http::{HeaderMap, Request, Uri};
use mcp_proto::binding::oauth::{
    AuthorizationUrl, ClientAuth, Flow, IdentityProvider, OAuthInput, OAuthOptions, RegisteredClient, Secret,
    SigningKey,
};
use mcp_proto_tokio::{HttpClient, HttpPiece, OAuth, Session, entropy};
use serde::Deserialize;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

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
        let mut options = OAuthOptions::new("mcp-proto-conformance", "");
        options.client_metadata_url = Some("https://conformance-test.local/client-metadata.json".into());
        options.offline_access = true;
        // Tokens are bound to it where the servers support that.
        let key = SigningKey::from_bytes(&entropy()?)?;
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

/// How the session signs in, and the URLs that it opens in the browser.
pub(crate) async fn sign_in(
    url: &str,
    client: &Client,
    grant: &Grant,
    http: &HttpClient,
) -> Result<(OAuth, UnboundedReceiver<String>), Box<dyn Error>> {
    let issuer = match &client.issuer {
        Some(issuer) => Some(issuer.clone()),
        None if client.client_secret.is_some() || !matches!(grant, Grant::User) => issuer(http, url).await,
        None => None,
    };
    let (sender, urls) = unbounded_channel();
    let open = move |_: &str, url: &AuthorizationUrl| sender.send(url.as_str().to_owned()).map_err(io::Error::other);
    Ok((OAuth::new(client.options(grant, issuer)?, open), urls))
}

/// The authorization server of a client, which the suite does not always name. Who registered the client knows it; the
/// suite has no other than the one that the server names.
async fn issuer(http: &HttpClient, url: &str) -> Option<String> {
    let url: Uri = url.parse().ok()?;
    let (scheme, authority, path) = (url.scheme_str()?, url.authority()?, url.path());
    let (_, body) =
        get(http, &format!("{scheme}://{authority}/.well-known/oauth-protected-resource{path}")).await.ok()?;
    let document: serde_json::Value = serde_json::from_slice(&body).ok()?;
    document.get("authorization_servers")?.get(0)?.as_str().map(Into::into)
}

/// The browser of a user who authorizes at once.
pub(crate) async fn browse(session: Session, http: HttpClient, mut urls: UnboundedReceiver<String>) {
    while let Some(url) = urls.recv().await {
        if let Err(why) = follow(&http, &url).await {
            session.handle_oauth(OAuthInput::NotShown(&why));
        }
    }
}

/// Follows the redirect of the authorization server, to the listener of the session.
async fn follow(http: &HttpClient, url: &str) -> Result<(), String> {
    let (headers, _) = get(http, url).await?;
    let redirect = headers.get(LOCATION).and_then(|redirect| redirect.to_str().ok());
    get(http, redirect.ok_or("the authorization server does not redirect")?).await.map(drop)
}

/// The headers and the body at a URL.
async fn get(http: &HttpClient, url: &str) -> Result<(HeaderMap, Vec<u8>), String> {
    let (mut head, mut body, mut end) = (HeaderMap::new(), Vec::new(), Ok(()));
    let request = Request::get(url).body(Vec::new()).map_err(|error| error.to_string())?;
    let take = |piece| {
        match piece {
            HttpPiece::Head(_, headers) => head = headers,
            HttpPiece::Body(chunk) => body.extend(chunk),
            HttpPiece::End => {}
            HttpPiece::Failure(_, why) => end = Err(why),
        }
        ready(())
    };
    http.run(request, take).await;
    end.map(|()| (head, body))
}
