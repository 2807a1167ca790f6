//! A server's entry as options of its authorization (feature `oauth`).

use super::{Auth, Endpoint, Entry, OAuthGrant};
use crate::binding::oauth::{Flow, OAuthOptions, RegisteredClient, Secret, port_of, with_port};

impl Entry {
    /// The options of the authorization of this server: `options`, which describe the host, with this entry's settings
    /// applied. `None` unless the entry has `auth: oauth` (feature `oauth`).
    ///
    /// ```
    /// use mcp_proto::binding::oauth::OAuthOptions;
    /// use mcp_proto::host::config::{Configuration, Entry};
    ///
    /// let json = r#"{"docs": {"url": "https://example.com/mcp", "auth": "oauth", "oauth": {"redirect_port": 9000}}}"#;
    /// let configuration: Configuration = serde_json::from_str(json).unwrap();
    /// let host = OAuthOptions::new("my-host", "http://127.0.0.1:8765/callback");
    /// let options = configuration.servers["docs"].oauth(host).unwrap();
    /// assert_eq!(&*options.redirect_uri, "http://127.0.0.1:9000/callback");
    /// ```
    pub fn oauth(&self, mut options: OAuthOptions) -> Option<OAuthOptions> {
        let Endpoint::Http(http) = &self.endpoint else { return None };
        match &http.auth {
            Some(Auth::OAuth) => {}
            Some(Auth::Other(_)) | None => return None,
        }
        let Some(oauth) = &http.oauth else { return Some(options) };
        if let Some(uri) = oauth.redirect_port.and_then(|port| with_port(&options.redirect_uri, port)) {
            options.redirect_uri = uri.into();
        }
        if let Some(uri) = &oauth.redirect_uri {
            let port = port_of(&options.redirect_uri).unwrap_or_default();
            options.redirect_uri = uri.replace("{port}", &port).into();
        }
        if let Some(id) = &oauth.client_id {
            let mut client = RegisteredClient::new(id.clone());
            client.secret = oauth.client_secret.as_deref().map(Secret::new);
            client.issuer.clone_from(&oauth.issuer);
            options.registered = [client].into();
        }
        options.client_metadata_url = oauth.client_metadata_url.clone().or(options.client_metadata_url);
        options.tolerance.issuer = oauth.issuer.clone().or(options.tolerance.issuer);
        options.scopes = oauth.scopes.as_ref().map(|scopes| scopes.join(" ").into()).or(options.scopes);
        match oauth.grant {
            OAuthGrant::AuthorizationCode => {}
            OAuthGrant::ClientCredentials => options.flow = Flow::ClientCredentials,
        }
        Some(options)
    }
}
