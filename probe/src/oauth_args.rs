//! The options of `--oauth`.

use std::path::PathBuf;

use mcp_proto::binding::oauth::{Flow, OAuthOptions, RegisteredClient, Secret};

/// What the options say. Its secrets are in no output.
pub(crate) struct OAuthSettings {
    /// The port of the redirect; `None` for any that is free.
    pub(crate) port: Option<u16>,
    client: Option<RegisteredClient>,
    metadata: Option<String>,
    scopes: Option<String>,
    is_direct: bool,
    /// Where credentials are kept.
    pub(crate) tokens: Option<PathBuf>,
    /// The credentials are given up at the end.
    pub(crate) signs_out: bool,
}

/// The flag beside `--oauth`, which needs it.
pub(crate) const SIGN_OUT: &str = "sign-out";

/// The options with a value beside `--oauth`, which need it.
pub(crate) const OPTIONS: [&str; 7] =
    ["oauth-port", "client-id", "client-secret", "client-metadata", "scope", "tokens", "grant"];

impl OAuthSettings {
    /// Reads the options; `value` has the last value of each.
    pub(crate) fn read(
        signs_out: bool,
        mut value: impl FnMut(&str) -> Result<Option<String>, String>,
    ) -> Result<Self, String> {
        let port = value("oauth-port")?.map(|given| {
            let port: Option<u16> = given.parse().ok().filter(|port| *port > 0);
            port.ok_or_else(|| format!("--oauth-port needs a port, not {given:?}"))
        });
        let is_direct = match value("grant")?.as_deref() {
            None => false,
            Some("client-credentials") => true,
            Some(other) => return Err(format!("--grant is client-credentials, not {other:?}")),
        };
        let (id, secret) = (value("client-id")?, value("client-secret")?);
        if secret.is_some() && id.is_none() {
            return Err("--client-secret needs a --client-id".into());
        }
        if is_direct && id.is_none() {
            return Err("--grant client-credentials needs a --client-id".into());
        }
        let client = id.map(|id| {
            let mut client = RegisteredClient::new(id);
            client.secret = secret.map(Secret::new);
            client
        });
        Ok(Self {
            port: port.transpose()?,
            client,
            metadata: value("client-metadata")?,
            scopes: value("scope")?,
            is_direct,
            tokens: value("tokens")?.map(Into::into),
            signs_out,
        })
    }

    /// The options of the library, with the redirect URI of this run.
    pub(crate) fn options(&self, redirect_uri: &str) -> OAuthOptions {
        let mut options = OAuthOptions::new("mcp-probe", redirect_uri);
        options.registered = self.client.iter().cloned().collect();
        options.client_metadata_url = self.metadata.as_deref().map(Into::into);
        options.scopes = self.scopes.as_deref().map(Into::into);
        if self.is_direct {
            options.flow = Flow::ClientCredentials;
        }
        options.stored = self.tokens.is_some();
        options.offline_access = self.tokens.is_some();
        options
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(given: &[(&str, &str)]) -> Result<OAuthSettings, String> {
        OAuthSettings::read(false, |name| {
            Ok(given.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).into()))
        })
    }

    #[test]
    fn the_options_of_the_library_are_those_of_the_command_line() {
        let given = [("client-id", "app"), ("client-secret", "hush"), ("scope", "a b"), ("tokens", "file")];
        let options = read(&given).unwrap().options("http://127.0.0.1:1/callback");
        let client = options.registered.first().unwrap();
        assert_eq!((&*client.id, client.secret.as_ref().map(Secret::expose)), ("app", Some("hush")));
        assert_eq!((options.scopes.as_deref(), options.stored, options.offline_access), (Some("a b"), true, true));
        assert_eq!(options.flow, Flow::User);
        let direct = read(&[("grant", "client-credentials"), ("client-id", "app")]).unwrap();
        assert_eq!(direct.options("").flow, Flow::ClientCredentials);
    }

    #[test]
    fn options_that_contradict_each_other_are_wrong() {
        for (given, words) in [
            (&[("oauth-port", "0")][..], "--oauth-port needs a port"),
            (&[("grant", "password")], "--grant is client-credentials"),
            (&[("grant", "client-credentials")], "needs a --client-id"),
            (&[("client-secret", "hush")], "--client-secret needs a --client-id"),
        ] {
            let wrong = read(given).err().unwrap();
            assert!(wrong.contains(words) && !wrong.contains("hush"), "{wrong}");
        }
    }
}
