//! The keys under `oauth` of a server's entry.

use std::borrow::Cow;

use mcp_proto::host::config::{Changes, Configuration, Endpoint, Http, OAuth, OAuthGrant};
use serde_json::{Value, json};

fn read(oauth: Value) -> Configuration {
    let entry = json!({"url": "https://example.com/mcp", "auth": "oauth", "oauth": oauth});
    serde_json::from_value(json!({"s": entry})).unwrap()
}

fn http(configuration: &Configuration) -> &Http {
    match &configuration.servers["s"].endpoint {
        Endpoint::Http(http) => http,
        Endpoint::Stdio(_) => panic!("a program"),
        _ => panic!("an unknown endpoint"),
    }
}

fn oauth(configuration: &Configuration) -> &OAuth {
    http(configuration).oauth.as_ref().expect("keys under `oauth`")
}

fn warnings(configuration: &Configuration) -> Vec<String> {
    configuration.warnings.iter().map(ToString::to_string).collect()
}

fn full() -> Configuration {
    read(json!({
        "client_id": "app",
        "client_secret": "${SECRET}",
        "client_metadata_url": "https://app.example/client.json",
        "issuer": "https://as.example",
        "scopes": ["a", "b"],
        "redirect_uri": "http://localhost:{port}/back",
        "redirect_port": 9000,
        "grant": "client_credentials",
    }))
}

#[test]
fn each_key_under_oauth_is_read_and_written() {
    let read = full();
    assert!(read.errors.is_empty() && read.warnings.is_empty(), "{:?} {:?}", read.errors, read.warnings);
    let oauth = oauth(&read);
    assert_eq!(oauth.client_id.as_deref(), Some("app"));
    assert_eq!(oauth.client_metadata_url.as_deref(), Some("https://app.example/client.json"));
    assert_eq!(oauth.issuer.as_deref(), Some("https://as.example"));
    assert_eq!(oauth.scopes, Some(vec!["a".into(), "b".into()]));
    assert_eq!(
        (oauth.redirect_uri.as_deref(), oauth.redirect_port),
        (Some("http://localhost:{port}/back"), Some(9000))
    );
    assert_eq!(oauth.grant, OAuthGrant::ClientCredentials);
    let text = serde_json::to_string(&read).unwrap();
    assert_eq!(serde_json::from_str::<Configuration>(&text).unwrap().servers, read.servers);
}

#[test]
fn scopes_are_a_text_or_a_list() {
    assert_eq!(oauth(&read(json!({"scopes": "a b"}))).scopes, Some(vec!["a b".into()]));
    assert_eq!(oauth(&read(json!({}))).scopes, None);
}

#[test]
fn the_secret_of_a_client_comes_from_a_variable_and_is_not_shown() {
    let expanded = full().expand(|name| (name == "SECRET").then_some(Cow::Borrowed("hush-hush")));
    assert_eq!(oauth(&expanded).client_secret.as_deref(), Some("hush-hush"));
    let shown = format!("{expanded:?}");
    assert!(!shown.contains("hush") && shown.contains("https://as.example"), "{shown}");
    let missing = full().expand(|_| None);
    assert!(missing.errors[0].to_string().starts_with("server `s`, `oauth.client_secret`: there is no `SECRET`"));
}

#[test]
fn mistakes_under_oauth_are_reported() {
    for (oauth, warning) in [
        (
            json!({"client_secret": "x"}),
            "`oauth.client_secret`: it has no effect on a server without `oauth.client_id`",
        ),
        (json!({"scops": "a"}), "`oauth.scops`: nobody knows this key; was `scopes` meant?"),
        (json!({"clientIds": "a"}), "`oauth.clientIds`: nobody knows this key; was `client_id` meant?"),
        (json!({"grant": "password"}), "`oauth.grant`: nobody knows `password`"),
    ] {
        assert_eq!(warnings(&read(oauth)), [format!("server `s`, {warning}")]);
    }
    let errors = read(json!({"redirect_port": 70_000})).errors;
    assert_eq!(
        errors[0].to_string(),
        "server `s`, `oauth.redirect_port`: `70000` is not a count; write a whole number, 0 or more"
    );
    for (key, mut oauth) in
        [("client_secret", json!({"client_secret": "x"})), ("grant", json!({"grant": "client_credentials"}))]
    {
        oauth["client_id"] = json!("app");
        let errors = read(oauth.clone()).errors;
        let expected = "the client belongs to one authorization server; name it in `oauth.issuer`";
        assert_eq!(errors[0].to_string(), format!("server `s`, `oauth.{key}`: {expected}"));
        oauth["issuer"] = json!("https://as.example");
        assert!(read(oauth).errors.is_empty());
    }
    let entry = json!({"url": "https://example.com/mcp", "oauth": {}});
    let read: Configuration = serde_json::from_value(json!({"s": entry})).unwrap();
    assert_eq!(warnings(&read), ["server `s`, `oauth`: it has no effect on a server without `auth: oauth`"]);
    let read: Configuration = serde_json::from_value(json!({"s": {"command": "x", "oauth": {}}})).unwrap();
    assert_eq!(warnings(&read), ["server `s`, `oauth`: it has no effect on a server without `url`"]);
}

#[test]
fn a_change_under_oauth_needs_another_session() {
    let changes = Changes::between(&full(), &read(json!({"client_id": "other"})));
    assert_eq!(changes.changed[0].keys, ["oauth"]);
    assert!(changes.changed[0].needs_session());
}

#[cfg(feature = "oauth")]
mod options {
    use std::time::Duration;

    use mcp_proto::Time;
    use mcp_proto::binding::oauth::{Authorization, Flow, OAuthConfigError, OAuthOptions, RegisteredClient, Secret};

    use super::*;

    fn host() -> OAuthOptions {
        let mut host = OAuthOptions::new("my-host", "http://127.0.0.1:8765/callback");
        host.client_metadata_url = Some("https://host.example/client.json".into());
        host.scopes = Some("host".into());
        host
    }

    #[test]
    fn the_keys_override_the_options_of_the_host() {
        let options = full().servers["s"].oauth(host()).unwrap();
        let client = &options.registered[0];
        assert_eq!((&*client.id, client.issuer.as_deref()), ("app", Some("https://as.example")));
        assert_eq!(client.secret.as_ref().map(Secret::expose), Some("${SECRET}"));
        assert_eq!(options.client_metadata_url.as_deref(), Some("https://app.example/client.json"));
        assert_eq!(options.tolerance.issuer.as_deref(), Some("https://as.example"));
        assert_eq!(options.scopes.as_deref(), Some("a b"));
        assert_eq!(&*options.redirect_uri, "http://localhost:9000/back");
        assert_eq!(options.flow, Flow::ClientCredentials);
    }

    #[test]
    fn without_keys_the_options_are_those_of_the_host() {
        for keys in [json!(null), json!({})] {
            let options = read(keys).servers["s"].oauth(host()).unwrap();
            assert_eq!(format!("{options:?}"), format!("{:?}", host()));
        }
    }

    #[test]
    fn a_secret_of_the_host_that_names_no_issuer_is_refused_and_does_not_get_that_of_an_entry() {
        let mut own = host();
        let mut client = RegisteredClient::new("app");
        client.secret = Some(Secret::new("hush-hush"));
        own.registered = [client].into();
        let checked = |keys: Value| {
            let options = read(keys).servers["s"].oauth(own.clone()).unwrap();
            Authorization::new("https://example.com/mcp", options, [1; 32], Time::ZERO, Duration::ZERO).map(drop)
        };
        let issuer = "https://as.example";
        assert_eq!(checked(json!({"issuer": issuer})), Err(OAuthConfigError::Issuer));
        assert_eq!(checked(json!({"issuer": issuer, "client_id": "its-own", "client_secret": "x"})), Ok(()));
        // One without a secret, or of another issuer, is not used for the entry's, and does not hide it.
        let mut other = own.registered[0].clone();
        other.issuer = Some("https://other.example".into());
        for client in [RegisteredClient::new("app"), other] {
            let mut own = host();
            own.registered = [client].into();
            let options = read(json!({"issuer": issuer})).servers["s"].oauth(own).unwrap();
            assert_eq!(options.tolerance.issuer.as_deref(), Some(issuer));
        }
    }

    #[test]
    fn the_redirect_port_replaces_that_of_the_host_and_nothing_else() {
        let options = read(json!({"redirect_port": 9000})).servers["s"].oauth(host()).unwrap();
        assert_eq!(&*options.redirect_uri, "http://127.0.0.1:9000/callback");
        let own = OAuthOptions::new("my-host", "my-app://x@host/a?b");
        let options = read(json!({"redirect_port": 9000})).servers["s"].oauth(own).unwrap();
        assert_eq!(&*options.redirect_uri, "my-app://host:9000/a?b");
    }

    #[test]
    fn an_entry_without_auth_oauth_has_no_options() {
        let json = json!({"a": {"url": "https://example.com"}, "b": {"command": "x"}, "c": {"url": "https://e.com", "auth": "x"}});
        let read: Configuration = serde_json::from_value(json).unwrap();
        assert!(read.servers.values().all(|entry| entry.oauth(host()).is_none()));
    }
}
