//! The keys under `oauth`.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::fmt;
use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};

use super::written::Written;

/// How a token for a server is obtained: the keys under `oauth`. Each overrides an option of the host. Its `Debug` does
/// not show the secret.
#[derive(Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct OAuth {
    /// The ID of a client that was registered in advance.
    pub client_id: Option<Box<str>>,
    /// Its secret.
    pub client_secret: Option<Box<str>>,
    /// The URL of the client ID metadata document.
    pub client_metadata_url: Option<Box<str>>,
    /// The authorization server to use, of those that the server names. It knows the client in `client_id`.
    pub issuer: Option<Box<str>>,
    /// The scopes to request, instead of those that the server names.
    pub scopes: Option<Vec<Box<str>>>,
    /// Where the user's browser is redirected; `{port}` stands for the port of the host's redirect URI.
    pub redirect_uri: Option<Box<str>>,
    /// The port of the host's redirect URI.
    pub redirect_port: Option<u16>,
    /// How the token is obtained.
    pub grant: OAuthGrant,
}

/// How a token is obtained.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum OAuthGrant {
    /// `authorization_code`: a user authorizes in a browser.
    #[default]
    AuthorizationCode,
    /// `client_credentials`: the client acts on its own behalf, without a user.
    ClientCredentials,
}

impl OAuthGrant {
    /// The value in the configuration.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::AuthorizationCode => "authorization_code",
            Self::ClientCredentials => "client_credentials",
        }
    }
}

impl fmt::Debug for OAuth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { client_id, client_metadata_url, issuer, scopes, redirect_uri, redirect_port, grant, .. } = self;
        f.debug_struct("OAuth")
            .field("client_id", client_id)
            .field("client_metadata_url", client_metadata_url)
            .field("issuer", issuer)
            .field("scopes", scopes)
            .field("redirect_uri", redirect_uri)
            .field("redirect_port", redirect_port)
            .field("grant", grant)
            .finish_non_exhaustive()
    }
}

/// Without default values.
impl Serialize for OAuth {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self { client_id, client_secret, client_metadata_url, issuer, .. } = self;
        let mut map = Written(serializer.serialize_map(None)?);
        map.unless(client_id.is_none(), "client_id", client_id)?;
        map.unless(client_secret.is_none(), "client_secret", client_secret)?;
        map.unless(client_metadata_url.is_none(), "client_metadata_url", client_metadata_url)?;
        map.unless(issuer.is_none(), "issuer", issuer)?;
        map.unless(self.scopes.is_none(), "scopes", &self.scopes)?;
        map.unless(self.redirect_uri.is_none(), "redirect_uri", &self.redirect_uri)?;
        map.unless(self.redirect_port.is_none(), "redirect_port", &self.redirect_port)?;
        map.unless(self.grant == OAuthGrant::default(), "grant", &self.grant.as_str())?;
        map.0.end()
    }
}
