use mcp_proto::binding::oauth::{ClientAuth, Flow, OAuthConfigError};
use mcp_proto::host::config::{Configuration, Entry};

use super::*;

/// A rig after a 401 with these parameters, and what followed.
fn discover(params: &[(&str, &str)], change: impl FnOnce(&mut Site)) -> Rig {
    let mut rig = Rig::registered();
    change(&mut rig.site);
    rig.refuse(params).unwrap();
    rig.run();
    rig
}

#[test]
fn the_metadata_that_the_challenge_names_comes_first_and_alone() {
    let named = "https://other.example/prm";
    let rig = discover(&[("resource_metadata", named)], |site| {
        site.json(named, json!({"resource": SERVER, "authorization_servers": [ISSUER]}));
    });
    assert_eq!(rig.log, [format!("GET {named}"), format!("GET {METADATA}")]);
    assert!(rig.browse.is_some());
}

#[test]
fn a_refused_document_that_the_challenge_names_ends_the_attempt() {
    let named = "https://mcp.example/prm";
    let rig = discover(&[("resource_metadata", named)], |site| {
        site.json(named, json!({"resource": "https://evil.example/", "authorization_servers": [ISSUER]}));
    });
    assert_eq!(rig.log, [format!("GET {named}")]);
    rig.assert_failed(Stage::ResourceMetadata, "https://evil.example/");
}

#[test]
fn what_is_no_metadata_leads_to_the_well_known_places() {
    let named = "https://mcp.example/prm";
    let root = "https://mcp.example/.well-known/oauth-protected-resource";
    for (status, body) in [(200, "<html>"), (200, "{"), (200, "[]"), (404, "{}"), (410, ""), (503, "{}"), (200, "{}")] {
        let rig = discover(&[("resource_metadata", named)], |site| {
            site.put(named, status, body);
            site.put(RESOURCE, status, body);
            site.json(root, json!({"resource": SERVER, "authorization_servers": [ISSUER]}));
        });
        let all = [named, RESOURCE, root, METADATA].map(|url| format!("GET {url}"));
        assert_eq!(rig.log, all, "{status} {body}");
        assert!(rig.browse.is_some());
    }
}

#[test]
fn a_challenge_that_names_no_metadata_leads_to_the_place_of_the_path_and_then_to_that_of_the_origin() {
    let root = "https://mcp.example/.well-known/oauth-protected-resource";
    let named = json!({"resource": SERVER, "authorization_servers": [ISSUER]});
    let rig = discover(&[], |site| site.json(RESOURCE, named.clone()));
    assert_eq!(rig.log, [RESOURCE, METADATA].map(|url| format!("GET {url}")));
    for (status, body) in [(404, ""), (410, ""), (200, "<html>"), (200, r#"{"resource":"https://mcp.example/mcp"}"#)] {
        let rig = discover(&[("error", "invalid_token")], |site| {
            site.put(RESOURCE, status, body);
            site.json(root, named.clone());
        });
        assert_eq!(rig.log, [RESOURCE, root, METADATA].map(|url| format!("GET {url}")), "{status} {body}");
        assert!(rig.browse.is_some());
    }
}

/// What leaves it open whether there is metadata; 0 for no answer.
const OUTAGES: [u16; 9] = [0, 401, 403, 408, 429, 500, 502, 503, 599];

/// Everything of the site is answered, and waits end, until the attempt ends or the user is asked. At this place there is
/// an outage so often.
fn run_through(rig: &mut Rig, place: &str, outage: u16, mut times: u32) {
    for _ in 0..60 {
        match rig.sent.front() {
            Some(sent) if sent.url == place && times > 0 => {
                times -= 1;
                if outage == 0 { rig.break_off() } else { rig.answer(outage, "{}") }
            }
            Some(sent) => {
                let page = rig.site.page(sent);
                rig.answer_page(&page);
            }
            None if rig.browse.is_some() || !rig.events.is_empty() => return,
            None => {
                let deadline = rig.auth.deadline().expect("a wait");
                rig.wait(deadline.since(rig.now).as_secs() + 1);
            }
        }
    }
    panic!("it does not end: {:?}", rig.log);
}

#[test]
fn a_place_with_an_outage_leads_to_the_next_one() {
    let root = "https://mcp.example/.well-known/oauth-protected-resource";
    for outage in OUTAGES {
        let mut rig = Rig::registered();
        rig.site.json(root, json!({"resource": SERVER, "authorization_servers": [ISSUER]}));
        rig.refuse(&[]).unwrap();
        run_through(&mut rig, RESOURCE, outage, 1);
        assert_eq!(rig.log, [RESOURCE, root, METADATA].map(|url| format!("GET {url}")), "{outage}");
        assert!(rig.browse.is_some());
    }
}

#[test]
fn metadata_with_an_outage_is_not_absent_and_is_requested_again_with_backoff() {
    for (place, stage) in [
        (RESOURCE, Stage::ResourceMetadata),
        ("https://mcp.example/.well-known/oauth-protected-resource", Stage::ResourceMetadata),
        ("https://mcp.example/.well-known/oauth-authorization-server", Stage::ServerMetadata),
        ("https://mcp.example/.well-known/openid-configuration", Stage::ServerMetadata),
    ] {
        for outage in OUTAGES {
            let mut rig = Rig::registered();
            rig.site.remove(RESOURCE);
            rig.refuse(&[]).unwrap();
            let begin = rig.now;
            run_through(&mut rig, place, outage, 9);
            rig.assert_failed(stage, "whether there is metadata is not known");
            assert_eq!(rig.log.iter().filter(|line| line.ends_with(place)).count(), 3, "{outage} {:?}", rig.log);
            let waited = rig.now.since(begin).as_secs();
            assert!((6..12).contains(&waited), "{waited} s");
            // The conventions of 2025-03-26 did not follow.
            assert!(!rig.log.iter().any(|line| line.starts_with("POST")), "{:?}", rig.log);
            // It is there again.
            let mut rig = Rig::registered();
            rig.refuse(&[]).unwrap();
            run_through(&mut rig, place, outage, 2);
            assert!(rig.browse.as_ref().unwrap().starts_with("https://as.example/authorize?"));
        }
    }
}

#[test]
fn a_challenge_that_cannot_be_followed_is_reported_once_however_often_metadata_is_requested() {
    let mut rig = Rig::registered();
    rig.refuse(&[("resource_metadata", "ftp://mcp.example/prm")]).unwrap();
    let told = std::mem::take(&mut rig.events);
    assert!(matches!(&*told, [OAuthEvent::ChallengeIgnored(_)]), "{told:?}");
    run_through(&mut rig, RESOURCE, 503, 1);
    assert_eq!(rig.log.iter().filter(|line| line.ends_with(RESOURCE)).count(), 2, "{:?}", rig.log);
    assert!(rig.browse.is_some() && rig.events.is_empty(), "{:?}", rig.events);
}

#[test]
fn an_authorization_server_with_an_outage_is_asked_again_and_another_one_may_serve() {
    let openid = "https://as.example/.well-known/openid-configuration";
    let other = "https://as2.example";
    for outage in OUTAGES {
        let mut rig = Rig::registered();
        rig.refuse(&[]).unwrap();
        run_through(&mut rig, METADATA, outage, 9);
        rig.assert_failed(Stage::ServerMetadata, "whether there is metadata is not known");
        assert_eq!(rig.log.iter().filter(|line| line.ends_with(openid)).count(), 3);

        let mut rig = Rig::registered();
        rig.site.json(RESOURCE, json!({"resource": SERVER, "authorization_servers": [ISSUER, other]}));
        let endpoint = json!({"issuer": other, "authorization_endpoint": "https://as2.example/authorize"});
        rig.site.json(&format!("{other}/.well-known/oauth-authorization-server"), metadata_with(endpoint));
        rig.refuse(&[]).unwrap();
        run_through(&mut rig, METADATA, outage, 9);
        assert!(rig.browse.as_ref().unwrap().starts_with("https://as2.example/authorize?"), "{outage}");
    }
}

/// A rig with a token that is refused.
fn refused() -> Rig {
    let mut rig = Rig::new();
    rig.authorize();
    rig.wait(100);
    rig.refuse(&[]).unwrap();
    rig
}

#[test]
fn an_outage_of_metadata_gives_up_no_record() {
    for (place, stage) in [(RESOURCE, Stage::ResourceMetadata), (METADATA, Stage::ServerMetadata)] {
        for outage in OUTAGES {
            let mut rig = refused();
            run_through(&mut rig, place, outage, 9);
            if stage == Stage::ServerMetadata {
                rig.assert_failed(stage, "whether there is metadata is not known");
                rig.wait(100);
                rig.events.clear();
                rig.refuse(&[]).unwrap();
                rig.run();
            }
            // The authorization server of the record is known, whoever names it.
            rig.assert_authorized();
            assert_eq!(rig.bearer().unwrap(), "at2-hush");
            assert!(rig.browse.is_none());
        }
    }
}

#[test]
fn in_an_outage_no_other_authorization_server_takes_the_place_of_the_one_that_issued_the_record() {
    let other = "https://as2.example";
    let of_other = format!("{other}/.well-known/oauth-authorization-server");
    let root = "https://mcp.example/.well-known/oauth-protected-resource";
    for outage in OUTAGES {
        for place in [RESOURCE, METADATA] {
            let mut rig = refused();
            rig.site.json(&of_other, metadata_with(json!({"issuer": other})));
            if place == RESOURCE {
                // What the metadata with the outage would say is not known.
                rig.site.json(root, json!({"resource": SERVER, "authorization_servers": [other]}));
            } else {
                rig.site.json(RESOURCE, json!({"resource": SERVER, "authorization_servers": [other, ISSUER]}));
            }
            run_through(&mut rig, place, outage, 9);
            assert!(!rig.log.iter().any(|line| line.contains("as2.example")), "{:?}", rig.log);
            assert!(rig.browse.is_none());
        }
    }
}

#[test]
fn where_the_authorization_server_is_known_it_is_the_one_that_is_meant_without_metadata() {
    // It is configured.
    for is_modern in [false, true] {
        let mut rig = Rig::with(|options| options.tolerance.issuer = Some(ISSUER.into()));
        rig.site.remove(RESOURCE);
        rig.auth.set_modern(is_modern);
        rig.refuse(&[]).unwrap();
        rig.run();
        assert!(rig.browse.as_ref().unwrap().starts_with("https://as.example/authorize?"));
        assert_eq!(rig.shown("resource"), SERVER);
    }
    // It issued the record.
    let mut rig = Rig::new();
    rig.authorize();
    rig.wait(100);
    rig.site.remove(RESOURCE);
    rig.refuse(&[]).unwrap();
    rig.run();
    rig.assert_authorized();
    assert!(rig.browse.is_none() && rig.log.contains(&"POST https://as.example/token".into()));
    // Where it has no metadata either, nothing follows.
    let mut rig = Rig::with(|options| options.tolerance.issuer = Some(ISSUER.into()));
    rig.site.remove(RESOURCE);
    rig.site.remove(METADATA);
    rig.refuse(&[]).unwrap();
    rig.run();
    rig.assert_failed(Stage::ServerMetadata, "there is no metadata");
}

#[test]
fn credentials_of_an_assumed_authorization_server_are_refreshed_there() {
    let mut rig = Rig::new();
    rig.site = Site::default();
    rig.site.put("https://mcp.example/register", 201, r#"{"client_id":"c"}"#);
    rig.authorize();
    rig.wait(100);
    rig.refuse(&[]).unwrap();
    rig.run();
    rig.assert_authorized();
    assert_eq!(rig.log.last().unwrap(), "POST https://mcp.example/token");
    assert_eq!(rig.bearer().unwrap(), "at2-hush");
}

#[test]
fn the_bearer_challenge_counts_among_several_and_in_any_case() {
    let mut rig = Rig::registered();
    let named = |scheme: &str, url: &str| Challenge::new(scheme, vec![("Resource_Metadata".into(), url.into())]);
    let challenges = [named("Basic", "https://mcp.example/basic"), named("bEARER", "https://mcp.example/prm")];
    rig.auth.handle_unauthorized(rig.now, None, false, &challenges).unwrap();
    rig.pump();
    assert_eq!(rig.log, ["GET https://mcp.example/prm"]);
}

#[test]
fn a_resource_that_is_not_the_server_is_refused_and_no_fall_back_follows() {
    for resource in [
        "https://mcp.example/a/mc",
        "https://mcp.example/a/mcp/x",
        "https://mcp.example/b",
        "https://mcp.example:8443/a/mcp",
        "http://mcp.example/a/mcp",
        "https://evil.example/a/mcp",
        "mcp",
    ] {
        let rig = discover(&[], |site| {
            site.json(RESOURCE, json!({"resource": resource, "authorization_servers": [ISSUER]}));
        });
        assert_eq!(rig.log, [format!("GET {RESOURCE}")], "{resource}");
        rig.assert_failed(Stage::ResourceMetadata, "does not cover the server");
    }
}

#[test]
fn a_resource_may_be_missing_a_prefix_or_differ_by_a_slash_and_counts_byte_for_byte() {
    for (resource, sent) in [
        (Value::Null, SERVER),
        (json!("https://mcp.example/a/mcp/"), "https://mcp.example/a/mcp/"),
        (json!("https://MCP.example/a"), "https://MCP.example/a"),
        (json!("https://mcp.example"), "https://mcp.example"),
        (json!("https://mcp.example/a/mcp?x=1"), "https://mcp.example/a/mcp?x=1"),
    ] {
        let rig = discover(&[], |site| {
            site.json(RESOURCE, json!({"resource": resource, "authorization_servers": [ISSUER]}));
        });
        assert_eq!(rig.shown("resource"), sent);
    }
}

#[test]
fn a_policy_requires_the_exact_resource() {
    for (resource, fits) in [
        (json!(SERVER), true),
        (json!("https://mcp.example/a/mcp#x"), true),
        (json!("https://mcp.example/a/mcp/"), false),
        (json!("https://MCP.example/a/mcp"), false),
        (json!("https://mcp.example/a"), false),
        (Value::Null, false),
    ] {
        let mut rig = Rig::with(|options| options.tolerance.exact_resource = true);
        rig.site.json(RESOURCE, json!({"resource": resource, "authorization_servers": [ISSUER]}));
        rig.refuse(&[]).unwrap();
        rig.run();
        match fits {
            true => assert_eq!(rig.shown("resource"), SERVER),
            false => rig.assert_failed(Stage::ResourceMetadata, "resource"),
        }
    }
}

#[test]
fn a_resource_that_is_no_string_is_refused() {
    for resource in [json!(7), json!(true), json!([SERVER]), json!({"url": SERVER})] {
        let rig = discover(&[], |site| {
            site.json(RESOURCE, json!({"resource": resource, "authorization_servers": [ISSUER]}));
        });
        rig.assert_failed(Stage::ResourceMetadata, "of another type");
        assert_eq!(rig.log.len(), 1);
    }
}

#[test]
fn metadata_on_another_origin_is_read_without_a_credential() {
    let rig = discover(&[("resource_metadata", "https://other.example/prm")], |site| {
        site.json("https://other.example/prm", json!({"resource": SERVER, "authorization_servers": [ISSUER]}));
    });
    assert!(rig.auth.header(&"https://other.example/prm".parse().unwrap()).is_none());
    assert!(rig.browse.is_some());

    let mut rig = Rig::new();
    rig.authorize();
    rig.wait(100);
    rig.refuse(&[("resource_metadata", "https://other.example/prm")]).unwrap();
    rig.run_to("other.example/prm");
    let carried = rig.sent[0].carried();
    assert!(rig.sent[0].headers.get("authorization").is_none() && secrets(&carried).next().is_none(), "{carried}");
}

#[test]
fn urls_that_are_not_https_or_are_private_are_refused() {
    for url in [
        "http://mcp.example/prm",
        "https://10.0.0.1/prm",
        "https://127.0.0.1/prm",
        "http://localhost/prm",
        "https://169.254.169.254/latest",
        "https://[::1]/prm",
        "https://2130706433/prm",
        "file:///etc/passwd",
        "javascript:alert(1)",
        "prm",
    ] {
        let rig = discover(&[("resource_metadata", url)], |_| {});
        // It counts as none, and is told of.
        assert_eq!(rig.log, [RESOURCE, METADATA].map(|url| format!("GET {url}")), "{url}");
        assert!(matches!(&*rig.events, [OAuthEvent::ChallengeIgnored(why)] if why.contains("resource_metadata")));
        assert!(rig.browse.is_some());
        let rig = discover(&[], |site| {
            site.json(RESOURCE, json!({"resource": SERVER, "authorization_servers": [url]}));
        });
        assert_eq!(rig.log, [format!("GET {RESOURCE}")], "{url}");
        rig.assert_failed(Stage::ResourceMetadata, "authorization_servers");
    }
}

#[test]
fn a_private_server_may_have_a_private_authorization_server() {
    let mut rig = Rig::at("http://127.0.0.1:9/mcp", |_| {});
    rig.refuse(&[("resource_metadata", "http://localhost:9/prm")]).unwrap();
    assert_eq!(rig.sent[0].reach, Reach::Any);
    let mut rig = Rig::at(SERVER, |options| options.private_network = true);
    rig.refuse(&[("resource_metadata", "https://10.0.0.1/prm")]).unwrap();
    assert_eq!(rig.sent[0].reach, Reach::Any);
}

#[test]
fn each_request_bears_the_addresses_that_it_may_reach() {
    let mut rig = Rig::registered();
    rig.refuse(&[]).unwrap();
    assert_eq!(rig.sent[0].reach, Reach::Server);
    rig.run_to("oauth-authorization-server");
    assert_eq!(rig.sent[0].reach, Reach::Public);
}

#[test]
fn a_redirect_is_followed_three_times_within_the_origin_and_never_to_another() {
    let rig = discover(&[], |site| {
        site.redirect(RESOURCE, "/1");
        site.redirect("https://mcp.example/1", "https://mcp.example/2");
        site.redirect("https://mcp.example/2", "3");
        site.json("https://mcp.example/3", json!({"resource": SERVER, "authorization_servers": [ISSUER]}));
    });
    assert!(rig.browse.is_some());
    for location in ["https://evil.example/1", "//evil.example/1", "http://mcp.example/1", ""] {
        let rig = discover(&[], |site| site.redirect(RESOURCE, location));
        if location.is_empty() {
            assert_eq!(rig.log.len(), 4, "a reference to itself is a redirect, too");
        }
        rig.assert_failed(Stage::ResourceMetadata, "redirects");
    }
    let rig = discover(&[], |site| site.redirect(METADATA, "https://evil.example/"));
    rig.assert_failed(Stage::ServerMetadata, &format!("`{METADATA}` redirects"));
    let rig = discover(&[], |site| {
        site.redirect(METADATA, "/moved");
        site.json("https://as.example/moved", metadata());
    });
    assert!(rig.browse.is_some());
}

#[test]
fn without_metadata_the_conventions_of_2025_03_26_apply() {
    let origin = "https://mcp.example/.well-known/oauth-authorization-server";
    for issuer in ["https://mcp.example", "https://mcp.example/"] {
        let rig = discover(&[], |site| {
            site.remove(RESOURCE);
            site.json(origin, metadata_with(json!({"issuer": issuer})));
        });
        assert!(rig.log.contains(&format!("GET {origin}")));
        assert_eq!(rig.shown("resource"), SERVER);
    }
    let mut rig = Rig::new();
    rig.site = Site::default();
    rig.site.put("https://mcp.example/register", 201, r#"{"client_id":"c"}"#);
    rig.refuse(&[]).unwrap();
    rig.run();
    assert!(rig.browse.as_ref().unwrap().starts_with("https://mcp.example/authorize?"));
    assert_eq!(rig.shown("code_challenge_method"), "S256");
    rig.consent();
    assert_eq!(rig.sent[0].url, "https://mcp.example/token");
}

#[test]
fn the_metadata_of_an_assumed_authorization_server_is_read_and_checked_as_any_other() {
    let origin = "https://mcp.example/.well-known/oauth-authorization-server";
    let rig = discover(&[], |site| {
        site.remove(RESOURCE);
        site.redirect(origin, "/moved");
        site.json("https://mcp.example/moved", metadata_with(json!({"issuer": "https://mcp.example"})));
    });
    assert!(rig.browse.is_some());
    let rig = discover(&[], |site| {
        site.remove(RESOURCE);
        site.json(origin, metadata());
    });
    rig.assert_failed(Stage::ServerMetadata, "issuer");
}

#[test]
fn a_modern_server_without_metadata_ends_the_attempt() {
    let mut rig = Rig::registered();
    rig.site.remove(RESOURCE);
    rig.auth.set_modern(true);
    rig.refuse(&[]).unwrap();
    rig.run();
    rig.assert_failed(Stage::ResourceMetadata, "HTTP 404");
}

const ORIGIN_METADATA: &str = "https://mcp.example/.well-known/oauth-authorization-server";

/// A server of 2025-03-26, with the metadata of an authorization server at its origin, or with none at all.
fn older(has_metadata: bool) -> Rig {
    let mut rig = Rig::new();
    rig.site = Site::default();
    rig.site.put("https://mcp.example/register", 201, r#"{"client_id":"c"}"#);
    if has_metadata {
        let (authorize, token) = ("https://mcp.example/as/authorize", "https://mcp.example/as/token");
        let metadata = json!({
            "issuer": "https://mcp.example",
            "authorization_endpoint": authorize,
            "token_endpoint": token,
            "registration_endpoint": "https://mcp.example/register",
        });
        rig.site.json(ORIGIN_METADATA, metadata_with(metadata));
    }
    rig
}

/// The server turns out to be modern: what goes by the conventions ends at once.
#[track_caller]
fn turns_out_to_be_modern(rig: &mut Rig) {
    rig.log.clear();
    rig.auth.set_modern(true);
    rig.pump();
    rig.assert_failed(Stage::ResourceMetadata, "the conventions of 2025-03-26 do not apply");
    assert!(rig.log.is_empty() && rig.signs.is_empty(), "{:?}", rig.log);
    // The next attempt looks for the metadata of the resource, and for nothing else.
    rig.wait(1000);
    let _ = rig.refuse(&[]);
    rig.run();
    rig.assert_failed(Stage::ResourceMetadata, "HTTP 404");
    assert!(rig.log.iter().all(|line| line.contains("oauth-protected-resource")), "{:?}", rig.log);
    rig.site.json(RESOURCE, json!({"resource": SERVER, "authorization_servers": [ISSUER]}));
    rig.site.json(METADATA, metadata());
    rig.site.put("https://as.example/register", 201, r#"{"client_id":"dyn"}"#);
    rig.wait(1000);
    rig.refuse(&[]).unwrap();
    rig.run();
    assert!(rig.browse.as_ref().unwrap().starts_with("https://as.example/authorize?"));
}

#[test]
fn a_server_that_turns_out_to_be_modern_in_mid_search_gets_no_conventions() {
    for place in ["/.well-known/oauth-authorization-server", "/.well-known/openid-configuration"] {
        let mut rig = older(false);
        rig.refuse(&[]).unwrap();
        rig.run_to(place);
        turns_out_to_be_modern(&mut rig);
    }
    // Before that, it is the end of the search for the metadata of the resource that ends the attempt.
    let mut rig = older(true);
    rig.refuse(&[]).unwrap();
    rig.run_to("/.well-known/oauth-protected-resource");
    rig.auth.set_modern(true);
    rig.run();
    rig.assert_failed(Stage::ResourceMetadata, "HTTP 404");
    // After an outage the search begins anew.
    let mut rig = older(true);
    rig.site.put(ORIGIN_METADATA, 503, "");
    rig.refuse(&[]).unwrap();
    rig.run();
    rig.auth.set_modern(true);
    rig.log.clear();
    rig.wait(10);
    rig.run();
    rig.assert_failed(Stage::ResourceMetadata, "HTTP 404");
    assert!(!rig.log.contains(&format!("GET {ORIGIN_METADATA}")), "{:?}", rig.log);
}

#[test]
fn a_server_that_turns_out_to_be_modern_after_the_search_gets_no_conventions() {
    for has_metadata in [false, true] {
        let mut rig = older(has_metadata);
        rig.refuse(&[]).unwrap();
        rig.run_to("/register");
        turns_out_to_be_modern(&mut rig);

        let mut rig = older(has_metadata);
        rig.refuse(&[]).unwrap();
        rig.run();
        let redirect = format!("{REDIRECT}?code=code-hush&state={}", rig.shown("state"));
        turns_out_to_be_modern(&mut rig);
        assert!(!rig.redirect(&redirect), "the code of an attempt that ended");

        let mut rig = older(has_metadata);
        rig.refuse(&[]).unwrap();
        rig.run();
        rig.consent();
        assert!(rig.sent[0].url.ends_with("/token"));
        turns_out_to_be_modern(&mut rig);
    }
}

#[test]
fn a_server_that_turns_out_to_be_modern_before_a_token_is_requested_gets_no_conventions() {
    let mut client = RegisteredClient::new("app");
    client.auth = Some(ClientAuth::PrivateKeyJwt { algorithm: "ES256".into(), key_id: None });
    client.issuer = Some("https://mcp.example".into());
    let mut rig = older(true);
    let site = rig.site;
    rig = Rig::with(|options| options.registered.push(client));
    rig.site = site;
    rig.refuse(&[]).unwrap();
    rig.run();
    rig.consent();
    let signed = rig.signs.pop_front().expect("the client signs").id;
    rig.log.clear();
    rig.auth.set_modern(true);
    rig.auth.handle_signature(rig.now, signed, b"signature");
    rig.pump();
    rig.assert_failed(Stage::ResourceMetadata, "the conventions of 2025-03-26 do not apply");
    assert_eq!(rig.log, [""; 0]);
}

#[test]
fn a_refresh_at_an_assumed_authorization_server_ends_when_the_server_turns_out_to_be_modern() {
    let refresh = || {
        let mut rig = older(false);
        rig.authorize();
        rig.wait(100);
        rig.refuse(&[]).unwrap();
        rig.run_to("/token");
        rig
    };
    turns_out_to_be_modern(&mut refresh());
    // In the wait before it is tried again.
    let mut rig = refresh();
    rig.answer(503, "");
    assert!(rig.sent.is_empty() && rig.auth.deadline().is_some());
    turns_out_to_be_modern(&mut rig);
    // Before it begins, with what an earlier attempt assumed.
    let mut rig = older(false);
    rig.authorize();
    rig.auth.set_modern(true);
    rig.wait(3_590);
    rig.run();
    assert!(!rig.log.is_empty());
    assert!(rig.log.iter().all(|line| line.contains("oauth-protected-resource")), "{:?}", rig.log);
}

/// Metadata at the server's origin names the issuer of the record, which is the one that is meant from then on.
#[test]
fn a_record_of_an_authorization_server_with_metadata_is_refreshed_there_when_the_server_is_modern() {
    let mut rig = older(true);
    rig.authorize();
    rig.auth.set_modern(true);
    rig.wait(100);
    rig.refuse(&[]).unwrap();
    rig.run();
    rig.assert_authorized();
    assert_eq!(rig.log.last().unwrap(), "POST https://mcp.example/as/token");
}

#[test]
fn a_search_goes_on_at_a_modern_server_where_the_authorization_server_is_named() {
    let mut rig = Rig::new();
    rig.refuse(&[]).unwrap();
    for step in ["/.well-known/oauth-authorization-server", "/register"] {
        rig.run_to(step);
        rig.auth.set_modern(true);
    }
    rig.run();
    rig.auth.set_modern(true);
    rig.consent();
    rig.auth.set_modern(true);
    rig.run();
    rig.assert_authorized();
}

/// A sign-out forgets what a challenge named, so that its place is not one of the next search.
#[test]
fn a_challenge_before_a_sign_out_says_nothing_of_the_metadata_after_it() {
    let mut rig = older(false);
    rig.refuse(&[("resource_metadata", "https://evil.example/prm")]).unwrap();
    rig.auth.sign_out(rig.now);
    rig.pump();
    rig.log.clear();
    rig.refuse(&[]).unwrap();
    rig.run();
    assert!(rig.browse.as_ref().unwrap().starts_with("https://mcp.example/authorize?"));
    assert!(!rig.log.iter().any(|line| line.contains("evil.example")), "{:?}", rig.log);
}

#[test]
fn an_issuer_has_its_well_known_places_in_order() {
    let rig = discover(&[], |site| {
        let named = json!({"resource": SERVER, "authorization_servers": ["https://as.example/t"]});
        site.json(RESOURCE, named);
        site.put("https://as.example/.well-known/oauth-authorization-server/t", 200, "<html>");
        site.put("https://as.example/.well-known/openid-configuration/t", 500, "");
        let own = metadata_with(json!({"issuer": "https://as.example/t"}));
        site.json("https://as.example/t/.well-known/openid-configuration", own);
    });
    assert_eq!(
        rig.log[1..],
        [
            "GET https://as.example/.well-known/oauth-authorization-server/t",
            "GET https://as.example/.well-known/openid-configuration/t",
            "GET https://as.example/t/.well-known/openid-configuration"
        ]
    );
    assert!(rig.browse.is_some());
}

#[test]
fn another_issuer_than_the_one_asked_for_is_final() {
    for issuer in
        [json!("https://as.example//"), json!("https://as.example/t"), json!("https://evil.example"), Value::Null]
    {
        let rig = discover(&[], |site| {
            let servers = [ISSUER, "https://other.example"];
            site.json(RESOURCE, json!({"resource": SERVER, "authorization_servers": servers}));
            site.json(METADATA, metadata_with(json!({"issuer": issuer})));
        });
        rig.assert_failed(Stage::ServerMetadata, "issuer");
        assert_eq!(rig.log.len(), 2);
    }
}

/// opencode #50036, hermes #95508
#[test]
fn an_issuer_without_a_path_may_differ_by_its_final_slash() {
    const SLASHED: &str = "https://as.example/";
    for (asked, said) in [(ISSUER, SLASHED), (SLASHED, ISSUER)] {
        for configured in [None, Some(ISSUER), Some(SLASHED)] {
            let mut rig = Rig::with(|options| {
                options.tolerance.issuer = configured.map(Into::into);
                let mut client = RegisteredClient::new("app");
                client.issuer = configured.map(Into::into);
                options.registered.push(client);
            });
            rig.site.json(RESOURCE, json!({"resource": SERVER, "authorization_servers": [asked]}));
            rig.site.json(METADATA, metadata_with(json!({"issuer": said})));
            rig.refuse(&[]).unwrap();
            rig.run();
            rig.consent();
            rig.run();
            rig.assert_authorized();
            let granted = rig.events.iter().find_map(|event| match event {
                OAuthEvent::Authorized(grant) => Some(&*grant.issuer),
                _ => None,
            });
            assert_eq!(granted, Some(said), "{asked} {configured:?}");
        }
    }
    // With a path, the slash may be another tenant's.
    let rig = discover(&[], |site| {
        site.json(RESOURCE, json!({"resource": SERVER, "authorization_servers": ["https://as.example/t"]}));
        let metadata = metadata_with(json!({"issuer": "https://as.example/t/"}));
        site.json("https://as.example/.well-known/oauth-authorization-server/t", metadata);
    });
    rig.assert_failed(Stage::ServerMetadata, "issuer");
}

#[test]
fn a_policy_trusts_an_issuer_or_accepts_a_missing_one() {
    let mut rig = Rig::with(|options| {
        options.tolerance.trusted_issuers.push((ISSUER.into(), "https://real.example".into()));
        options.tolerance.missing_issuer = true;
        options.registered.push(RegisteredClient::new("app"));
    });
    rig.site.json(METADATA, metadata_with(json!({"issuer": "https://real.example"})));
    rig.refuse(&[]).unwrap();
    rig.run();
    assert!(rig.browse.is_some());
    rig.auth.sign_out(rig.now);
    rig.site.json(METADATA, metadata_with(json!({"issuer": null})));
    rig.refuse(&[]).unwrap();
    rig.run();
    assert!(rig.browse.is_some());
}

#[test]
fn a_trusted_issuer_may_be_named_by_the_metadata_of_one_authorization_server_alone() {
    let asked = "https://alias.example";
    for (other, is_trusted) in [(asked, true), ("https://evil.example", false), ("https://alias.example/", false)] {
        for has_secret in [false, true] {
            let mut rig = Rig::with(|options| {
                options.tolerance.trusted_issuers.push((asked.into(), ISSUER.into()));
                options.registered.push(if has_secret { client_with("s-hush") } else { client() });
            });
            rig.site.json(RESOURCE, json!({"resource": SERVER, "authorization_servers": [other]}));
            let own = json!({"token_endpoint": format!("{}/token", other.trim_end_matches('/'))});
            rig.site.json(
                &format!("{}/.well-known/oauth-authorization-server", other.trim_end_matches('/')),
                metadata_with(own),
            );
            rig.refuse(&[]).unwrap();
            rig.run();
            if is_trusted {
                rig.consent();
                rig.run();
                rig.assert_authorized();
            } else {
                rig.assert_failed(Stage::ServerMetadata, "its `issuer` is `https://as.example`");
            }
        }
    }
}

#[test]
fn assumed_endpoints_pass_the_same_checks_as_named_ones() {
    let mut rig = Rig::at("http://intranet.example/mcp", |options| options.private_network = true);
    rig.site = Site::default();
    rig.refuse(&[]).unwrap();
    rig.run();
    rig.assert_failed(Stage::ServerMetadata, "`http://intranet.example`, which is not https");
    assert!(rig.log.iter().all(|line| line.contains("oauth-protected-resource")), "{:?}", rig.log);
}

#[test]
fn of_several_authorization_servers_the_first_with_metadata_counts_or_the_named_one() {
    let servers = ["https://dead.example", ISSUER, "https://third.example"];
    let named = json!({"resource": SERVER, "authorization_servers": servers});
    let rig = discover(&[], |site| site.json(RESOURCE, named.clone()));
    assert!(rig.browse.as_ref().unwrap().starts_with("https://as.example/authorize?"));
    for (issuer, url) in [(ISSUER, METADATA), ("https://none.example", "")] {
        let mut rig = Rig::with(|options| options.tolerance.issuer = Some(issuer.into()));
        rig.site.json(RESOURCE, named.clone());
        rig.refuse(&[]).unwrap();
        rig.run();
        match url {
            "" => rig.assert_failed(Stage::ResourceMetadata, "https://none.example"),
            url => assert_eq!(rig.log[1], format!("GET {url}")),
        }
    }
}

/// Four authorization servers have three places each. Each place takes almost as long as a request may take.
#[test]
fn the_search_for_metadata_ends_in_time_however_long_each_place_takes() {
    let issuers: Vec<_> = (0..4).map(|at| format!("https://as{at}.example/tenant")).collect();
    for (is_named, stage) in [(true, Stage::ServerMetadata), (false, Stage::ResourceMetadata)] {
        for status in [503, 404] {
            let mut rig = Rig::new();
            rig.site.json(RESOURCE, json!({"resource": SERVER, "authorization_servers": issuers}));
            rig.refuse(&[]).unwrap();
            if is_named {
                rig.run_to("/.well-known/oauth-authorization-server/tenant");
            }
            let start = rig.now;
            while rig.events.is_empty() {
                let due = rig.auth.deadline().expect("an attempt ends").since(rig.now).as_secs();
                rig.wait(due.clamp(1, 29));
                if !rig.sent.is_empty() {
                    rig.answer(if is_named { status } else { 503 }, "");
                }
            }
            assert_eq!(rig.now.since(start).as_secs(), 120, "{:?}", rig.log);
            rig.assert_failed(stage, "the metadata was not found within 120 s");
        }
    }
}

#[test]
fn the_time_of_the_user_does_not_count_for_the_search() {
    let mut rig = Rig::new();
    rig.refuse(&[]).unwrap();
    rig.run();
    rig.wait(500);
    rig.consent();
    rig.run();
    rig.assert_authorized();
}

#[test]
fn an_authorization_server_without_metadata_ends_the_attempt() {
    let rig = discover(&[], |site| site.remove(METADATA));
    rig.assert_failed(Stage::ServerMetadata, "HTTP 404");
    assert_eq!(rig.log.len(), 3);
}

#[test]
fn a_server_without_s256_is_refused() {
    for methods in [Value::Null, json!(["plain"]), json!("S256"), json!([])] {
        let rig = discover(&[], |site| {
            site.json(METADATA, metadata_with(json!({"code_challenge_methods_supported": methods})));
        });
        rig.assert_failed(Stage::ServerMetadata, "S256");
    }
}

#[test]
fn endpoints_that_are_missing_or_not_https_are_refused() {
    for name in ["authorization_endpoint", "token_endpoint"] {
        for url in [Value::Null, json!("http://as.example/x"), json!("javascript:alert(1)"), json!("data:x"), json!(7)]
        {
            let rig = discover(&[], |site| site.json(METADATA, metadata_with(json!({name: url}))));
            rig.assert_failed(Stage::ServerMetadata, name);
        }
    }
    let rig = discover(&[], |site| {
        site.json(METADATA, metadata_with(json!({"registration_endpoint": "http://10.0.0.1/"})));
    });
    rig.assert_failed(Stage::ServerMetadata, "registration_endpoint");
}

/// The MCP server knows the token, and would have it sent elsewhere and shown as the issuer of the next one.
#[test]
fn metadata_that_repeats_a_token_is_refused() {
    for (repeated, why) in [
        (json!({"authorization_servers": [ISSUER, "https://as.example/at1-hush"]}), "`authorization_servers`"),
        (json!({"authorization_servers": ["https://at1-hush.example"]}), "`authorization_servers`"),
        (json!({"authorization_servers": ["https://as.example/YXQxLWh1c2g"]}), "`authorization_servers`"),
        (json!({"resource": format!("{SERVER}?at1-hush")}), "`resource`"),
    ] {
        for place in [RESOURCE, "https://mcp.example/prm"] {
            let mut rig = Rig::new();
            rig.authorize();
            let mut resource = json!({"resource": SERVER, "authorization_servers": [ISSUER]});
            resource.as_object_mut().unwrap().extend(repeated.as_object().unwrap().clone());
            rig.site.json(place, resource);
            // No refresh token is left, so that the user is asked again.
            rig.site.tokens.push_back((400, r#"{"error":"invalid_grant"}"#.into()));
            rig.refuse(&[("resource_metadata", place)]).unwrap();
            rig.run();
            assert!(rig.browse.is_none() && rig.log.iter().all(|sent| !sent.contains("hush")), "{:?}", rig.log);
            rig.assert_failed(Stage::ResourceMetadata, &format!("its {why} repeat"));
        }
    }
}

#[test]
fn an_issuer_that_the_embedder_named_may_look_like_its_secret() {
    let mut rig = Rig::with(|options| options.registered.push(client_with("as.example")));
    rig.authorize();
    let mut rig = Rig::with(|options| {
        options.tolerance.issuer = Some(ISSUER.into());
        let mut client = RegisteredClient::new("app");
        client.secret = Some(Secret::new("as.example"));
        options.registered.push(client);
    });
    rig.authorize();
}

const SAID: &str = "https://said.example";
const SAID_METADATA: &str = "https://said.example/.well-known/oauth-authorization-server";

/// The metadata of an authorization server at `SAID`.
fn said_metadata() -> Value {
    metadata_with(json!({
        "issuer": SAID,
        "authorization_endpoint": "https://said.example/authorize",
        "token_endpoint": "https://said.example/token",
        "registration_endpoint": null,
    }))
}

impl Rig {
    /// The MCP server names `SAID`.
    fn name_said(&mut self) {
        self.site.json(RESOURCE, json!({"resource": SERVER, "authorization_servers": [SAID]}));
        self.site.json(SAID_METADATA, said_metadata());
    }

    /// The user is not asked, and no token is requested.
    #[track_caller]
    fn assert_nothing_sent(&self) {
        let tokens = self.log.iter().filter(|sent| sent.ends_with("/token")).count();
        assert!(self.browse.is_none() && tokens == 0, "{:?} {:?}", self.browse, self.log);
    }
}

/// The entry of a server with these keys under `oauth`.
fn entry(oauth: Value) -> Entry {
    let configuration = json!({"s": {"url": SERVER, "auth": "oauth", "oauth": oauth}});
    let mut configuration: Configuration = serde_json::from_value(configuration).unwrap();
    configuration.servers.remove("s").unwrap()
}

#[test]
fn an_entry_that_names_an_issuer_does_not_get_what_the_host_has_for_another_one() {
    for auth in [None, Some(ClientAuth::PrivateKeyJwt { algorithm: "ES256".into(), key_id: None })] {
        let mut rig = Rig::with(|options| {
            let mut own = RegisteredClient::new("app");
            own.secret = auth.is_none().then(|| Secret::new("s-hush"));
            own.auth = auth;
            options.registered.push(own);
            options.tolerance.issuer = Some(ISSUER.into());
            *options = entry(json!({"issuer": SAID})).oauth(options.clone()).unwrap();
        });
        rig.name_said();
        rig.refuse(&[]).unwrap();
        rig.run();
        rig.assert_nothing_sent();
        rig.assert_failed(Stage::Registration, "the client is registered at `https://as.example`");
    }
}

#[test]
fn an_entry_does_not_move_the_assertion_of_the_host() {
    let host = |own: Option<RegisteredClient>, issuer: Option<&str>| {
        let mut options = OAuthOptions::new("suite", REDIRECT);
        options.flow = Flow::JwtBearer(Secret::new("assertion-hush"));
        options.registered.extend(own);
        options.tolerance.issuer = issuer.map(Into::into);
        options
    };
    let hosts = [
        host(Some(client()), None),
        host(Some(RegisteredClient::new("app")), Some(ISSUER)),
        host(Some(client()), Some(SAID)),
        host(None, Some(ISSUER)),
    ];
    let new = |options| Authorization::new(SERVER, options, [1; 32], Time::ZERO, Duration::ZERO);
    let issuer = json!({"issuer": SAID});
    for (oauth, refused) in [
        (json!({"issuer": SAID, "client_id": "x"}), [true; 4]),
        (json!({"client_id": "x"}), [true, false, true, false]),
        // The client, and the assertion with it, stays where it is registered.
        (issuer, [false, false, false, true]),
        (json!({"issuer": ISSUER, "client_id": "x"}), [false; 4]),
        (json!({"issuer": SAID, "client_id": "x", "grant": "client_credentials"}), [false; 4]),
    ] {
        for (host, refused) in hosts.iter().zip(refused) {
            let mut options = entry(oauth.clone()).oauth(host.clone()).unwrap();
            options.client_metadata_url = Some("https://app.example/client.json".into());
            let made = new(options.clone());
            assert_eq!(made.err(), refused.then_some(OAuthConfigError::Issuer), "{oauth} {host:?}");
            if refused || options.flow == Flow::ClientCredentials {
                continue;
            }
            let mut rig = Rig::with(|own| *own = options);
            rig.name_said();
            rig.refuse(&[]).unwrap();
            rig.run();
            assert!(!rig.log.iter().any(|sent| sent.ends_with("/token")), "{oauth} {:?}", rig.log);
        }
    }
}

/// A rig whose authorization server may call itself `SAID`, which is another one.
fn rig_with_pair() -> Rig {
    Rig::with(|options| {
        options.tolerance.trusted_issuers.push((ISSUER.into(), SAID.into()));
        options.registered.push(client_with("s-hush"));
        options.stored = true;
    })
}

#[test]
fn an_issuer_that_another_one_may_name_does_not_get_what_belongs_to_that_one() {
    // The client's secret.
    let mut rig = rig_with_pair();
    rig.name_said();
    rig.refuse(&[]).unwrap();
    rig.run();
    rig.assert_nothing_sent();
    rig.assert_failed(Stage::Registration, "the server now names `https://said.example`");
    // The refresh token.
    let mut rig = rig_with_pair();
    rig.site.json(METADATA, metadata_with(json!({"issuer": SAID})));
    rig.authorize();
    rig.name_said();
    rig.wait(10);
    rig.refuse(&[("error", "invalid_token")]).unwrap();
    rig.run();
    rig.assert_nothing_sent();
}

#[test]
fn a_record_keeps_the_issuer_that_was_asked_for_apart_from_the_one_that_metadata_said() {
    let mut rig = rig_with_pair();
    rig.site.json(METADATA, metadata_with(json!({"issuer": SAID})));
    rig.authorize();
    let record: Value = serde_json::from_slice(rig.store.record.as_ref().unwrap()).unwrap();
    assert_eq!((&record["asked"], &record["issuer"]), (&json!(ISSUER), &json!(SAID)));
    for (is_named, is_old) in [(true, false), (false, false), (true, true)] {
        let mut next = rig_with_pair();
        next.site.json(METADATA, metadata_with(json!({"issuer": SAID})));
        if !is_named {
            // Where the server names none, the record does.
            next.site.remove(RESOURCE);
        }
        let mut record = record.clone();
        record["expires"] = json!(1);
        if is_old {
            // A record that says nothing is one of the issuer.
            record.as_object_mut().unwrap().remove("asked");
        }
        next.store.record = Some(record.to_string().into_bytes());
        next.refuse(&[]).unwrap();
        next.run();
        let log = next.log.join(" ");
        assert!(!log.contains(SAID), "{log}");
        assert_eq!(log.ends_with("POST https://as.example/token"), !is_old, "{log}");
    }
}

#[test]
fn a_challenge_that_repeats_a_token_is_not_shown_and_not_followed() {
    let mut rig = Rig::registered();
    rig.authorize();
    let bearer = rig.bearer().unwrap();
    for metadata in ["http://evil.example/", "https://evil.example/"] {
        let url = format!("{metadata}{bearer}");
        rig.refuse(&[("error", "invalid_token"), ("resource_metadata", &url)]).unwrap();
        assert_eq!(rig.log, [format!("GET {RESOURCE}")]);
        assert!(rig.events.is_empty(), "{:?}", rig.events);
        rig.run();
        rig.assert_authorized();
        rig.accept();
        rig.events.clear();
        rig.log.clear();
        rig.wait(60);
    }
    // One that was used earlier, as a scope.
    rig.forbid(&format!("read {bearer}")).unwrap();
    rig.run();
    assert_eq!(rig.shown_if("scope"), None);
    rig.consent();
    rig.run();
    rig.assert_authorized();
}

#[test]
fn no_failure_and_no_grant_shows_a_token_that_was_used_earlier() {
    for signs_out in [true, false] {
        let mut rig = Rig::registered();
        rig.authorize();
        let first = rig.bearer().unwrap();
        if signs_out {
            rig.auth.sign_out(rig.now);
            rig.pump();
            rig.run();
        } else {
            rig.refuse(&[]).unwrap();
            rig.run();
            rig.accept();
            rig.wait(60);
        }
        let prm = json!({"resource": SERVER, "authorization_servers": [ISSUER], "scopes_supported": ["read", first]});
        rig.site.json(RESOURCE, prm);
        rig.auth.authorize(rig.now);
        rig.pump();
        rig.run();
        assert!(!rig.browse.as_ref().unwrap().contains("at1"), "{:?}", rig.browse);
        rig.site.tokens.push_back((200, json!({"access_token": "new-hush", "scope": "new-hush"}).to_string()));
        rig.consent();
        rig.run();
        rig.assert_authorized();
        rig.accept();
        rig.wait(60);
        let other = format!("https://other.example/{first}");
        rig.site.json(RESOURCE, json!({"resource": other, "authorization_servers": [ISSUER]}));
        rig.refuse(&[("error", "invalid_token")]).unwrap();
        rig.run();
        rig.assert_failed(Stage::ResourceMetadata, "https://other.example/[hidden]");
    }
}

/// What is the last place of a server's metadata: nothing else follows it, the conventions would, or the authorization
/// server is known.
fn last_places() -> [Rig; 3] {
    let mut modern = Rig::registered();
    modern.auth.set_modern(true);
    let known = Rig::with(|options| {
        options.registered.push(client());
        options.tolerance.issuer = Some(ISSUER.into());
    });
    [modern, Rig::registered(), known]
}

/// Runs to the request for the last place of metadata in the last of so many walks, which are apart by the wait after an
/// outage.
fn run_to_the_last_walk(rig: &mut Rig, place: &str, walks: usize) {
    for _ in 1..walks {
        rig.run_to(place);
        rig.answer(404, "");
        let deadline = rig.auth.deadline().expect("a wait");
        rig.wait(deadline.since(rig.now).as_secs() + 1);
    }
    rig.run_to(place);
}

#[test]
fn the_last_place_of_metadata_counts_as_any_other_whatever_came_of_those_before() {
    const ROOT: &str = "https://mcp.example/.well-known/oauth-protected-resource";
    let evil = Page { status: 302, location: Some("https://evil.example/".into()), body: String::new() };
    let there = Page { status: 302, location: Some("/there".into()), body: String::new() };
    let refused = json!({"resource": "https://evil.example/", "authorization_servers": [ISSUER]}).to_string();
    let refused = Page { status: 200, location: None, body: refused };
    let found = json!({"resource": SERVER, "authorization_servers": [ISSUER]});
    let accepted = Page { status: 200, location: None, body: found.to_string() };
    // The place before has none, or an outage; the third one in a row is the last.
    for (before, walks) in [(404, 1), (503, 1), (503, 3)] {
        for (page, fault) in [(&evil, "redirects"), (&refused, "refused"), (&there, ""), (&accepted, "")] {
            for mut rig in last_places() {
                rig.site.put(RESOURCE, before, "");
                rig.site.json("https://mcp.example/there", found.clone());
                rig.refuse(&[]).unwrap();
                run_to_the_last_walk(&mut rig, ROOT, walks);
                rig.log.clear();
                rig.answer_page(page);
                rig.run();
                if fault.is_empty() {
                    let there = page.location.as_ref().map(|_| "GET https://mcp.example/there");
                    let log: Vec<_> =
                        there.into_iter().chain([&*format!("GET {METADATA}")]).map(str::to_owned).collect();
                    assert_eq!(rig.log, log);
                    assert!(rig.browse.is_some());
                } else {
                    rig.assert_failed(Stage::ResourceMetadata, fault);
                    assert_eq!(rig.log, [""; 0]);
                }
            }
        }
    }
}

/// Of the server's metadata, and of the assumed one's, whose place the conventions take.
#[test]
fn the_last_place_of_an_authorization_server_counts_as_any_other_whatever_came_of_those_before() {
    let there = Page { status: 302, location: Some("/there".into()), body: String::new() };
    let refused = metadata_with(json!({"issuer": "https://evil.example"})).to_string();
    let refused = Page { status: 200, location: None, body: refused };
    for issuer in [ISSUER, "https://mcp.example"] {
        for (before, walks) in [(404, 1), (503, 1), (503, 3)] {
            for page in [&there, &refused] {
                let mut rig = Rig::registered();
                if issuer != ISSUER {
                    rig.site.remove(RESOURCE);
                }
                rig.site.put(&format!("{issuer}/.well-known/oauth-authorization-server"), before, "");
                rig.site.json(&format!("{issuer}/there"), metadata_with(json!({"issuer": issuer})));
                rig.refuse(&[]).unwrap();
                run_to_the_last_walk(&mut rig, &format!("{issuer}/.well-known/openid-configuration"), walks);
                rig.answer_page(page);
                rig.run();
                if page.location.is_some() {
                    assert!(rig.browse.is_some(), "{issuer} {before} {walks} {:?}", rig.log);
                } else {
                    rig.assert_failed(Stage::ServerMetadata, "refused");
                }
            }
        }
    }
}

/// A name and a password in the URL are for the server, and no part of what it is: RFC 9110, section 4.2.4, forbids to send
/// them in a URL, and RFC 8707 names the resource by its URL.
#[test]
fn the_resource_is_the_servers_url_without_a_name_and_a_password() {
    for url in ["https://ada:p%40ss@mcp.example/a/mcp", "https://ada@mcp.example/a/mcp", "https://@mcp.example/a/mcp"] {
        let mut rig = Rig::at(url, |options| options.registered.push(RegisteredClient::new("app")));
        rig.refuse(&[]).unwrap();
        rig.run();
        assert_eq!(rig.log, [RESOURCE, METADATA].map(|url| format!("GET {url}")));
        assert_eq!(rig.shown("resource"), SERVER);
        rig.consent();
        rig.run_to("/token");
        assert_eq!(rig.sent[0].form("resource").as_deref(), Some(SERVER));
        rig.run();
        rig.assert_authorized();
        assert!(!format!("{:?} {:?} {:?}", rig.log, rig.events, rig.auth).contains("ada"));
    }
}

/// What the binding requests is encoded as browsers encode it, and so is the resource.
#[test]
fn the_resource_of_a_url_with_letters_outside_ascii_is_encoded() {
    let mut rig =
        Rig::at("https://mcp.example/m\u{fc}ll/mcp", |options| options.registered.push(RegisteredClient::new("app")));
    rig.refuse(&[]).unwrap();
    assert_eq!(rig.log, ["GET https://mcp.example/.well-known/oauth-protected-resource/m%C3%BCll/mcp"]);
}
