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
    for (status, body) in [(200, "<html>"), (200, "{"), (200, "[]"), (404, "{}"), (503, "{}"), (200, "{}")] {
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
fn a_place_that_does_not_answer_leads_to_the_next_one() {
    let mut rig = Rig::registered();
    rig.refuse(&[]).unwrap();
    rig.wait(30);
    assert_eq!(rig.sent.front().unwrap().url, "https://mcp.example/.well-known/oauth-protected-resource");
    rig.site.json(
        "https://mcp.example/.well-known/oauth-protected-resource",
        json!({"resource": SERVER, "authorization_servers": [ISSUER]}),
    );
    rig.run_to(METADATA);
    rig.break_off();
    assert_eq!(rig.sent.front().unwrap().url, format!("{ISSUER}/.well-known/openid-configuration"));
    rig.break_off();
    rig.assert_failed(Stage::ServerMetadata, "whether there is metadata is not known");
}

#[test]
fn a_place_that_does_not_answer_does_not_lead_to_the_conventions_of_2025_03_26() {
    let of_origin = "https://mcp.example/.well-known/oauth-authorization-server";
    for (broken, stage) in [
        (RESOURCE, Stage::ResourceMetadata),
        ("https://mcp.example/.well-known/oauth-protected-resource", Stage::ResourceMetadata),
        (of_origin, Stage::ServerMetadata),
        ("https://mcp.example/.well-known/openid-configuration", Stage::ServerMetadata),
    ] {
        let mut rig = Rig::registered();
        rig.site.remove(RESOURCE);
        rig.refuse(&[]).unwrap();
        rig.run_to(broken);
        rig.break_off();
        rig.run();
        rig.assert_failed(stage, "whether there is metadata is not known");
        assert!(rig.browse.is_none() && !rig.log.iter().any(|line| line.ends_with("/token")));
        // The next attempt reads the metadata again.
        rig.wait(100);
        rig.site.json(RESOURCE, json!({"resource": SERVER, "authorization_servers": [ISSUER]}));
        rig.refuse(&[]).unwrap();
        rig.run();
        assert!(rig.browse.is_some());
    }
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
        assert_eq!(rig.log, [""; 0], "{url}");
        rig.assert_failed(Stage::ResourceMetadata, "resource_metadata");
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
    rig.assert_failed(Stage::ServerMetadata, "redirects");
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
    for issuer in [json!("https://as.example/"), json!("https://evil.example"), Value::Null] {
        let rig = discover(&[], |site| {
            let servers = [ISSUER, "https://other.example"];
            site.json(RESOURCE, json!({"resource": SERVER, "authorization_servers": servers}));
            site.json(METADATA, metadata_with(json!({"issuer": issuer})));
        });
        rig.assert_failed(Stage::ServerMetadata, "issuer");
        assert_eq!(rig.log.len(), 2);
    }
}

#[test]
fn a_policy_trusts_an_issuer_or_accepts_a_missing_one() {
    let mut rig = Rig::with(|options| {
        options.tolerance.trusted_issuers.push("https://real.example".into());
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
