//! An authorization: what its server, its authorization server and a user's browser can make large.

use std::time::Duration;

use http::{HeaderMap, StatusCode};
use mcp_proto::binding::http::HttpAction;
use mcp_proto::binding::oauth::{Authorization, OAuthAction, OAuthExchangeId, OAuthInput, OAuthOptions, StoreAction};
use mcp_proto::{Challenge, Client, Http, Request, Time};

use super::Case;
use crate::meter::{Cost, measure};
use crate::peer::legacy;
use crate::web::{URL, Web, headers, id_of};

/// Bytes that an authorization may use regardless of the input.
const BASE: usize = 32 << 10;

const SERVER: &str = "https://mcp.example/mcp";

pub fn cases() -> Vec<Case> {
    vec![
        Case::new("oauth-response-length", 20_000, response_length).allow(BASE),
        Case::new("oauth-servers", 1_000, servers).allow(BASE),
        Case::new("oauth-challenge-length", 20_000, challenge_length).allow(BASE),
        Case::new("oauth-refusals", 1_000, refusals).at_most(BASE),
        Case::new("oauth-redirect-length", 10_000, redirect_length).allow(BASE),
        Case::new("oauth-hidden-length", 20_000, hidden_length).allow(BASE),
        Case::new("oauth-hidden-near-length", 20_000, hidden_near_length).allow(BASE),
    ]
}

fn new() -> Authorization {
    let options = OAuthOptions::new("scale", "http://127.0.0.1:1/");
    Authorization::new(SERVER, options, [1; 32], Time::ZERO, Duration::ZERO).unwrap()
}

fn challenge(params: &[(&str, &str)]) -> [Challenge; 1] {
    [Challenge::new("Bearer", params.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect())]
}

/// The exchange that a refusal begins.
fn refuse(auth: &mut Authorization) -> OAuthExchangeId {
    auth.handle_unauthorized(Time::ZERO, None, false, &challenge(&[])).unwrap();
    loop {
        if let OAuthAction::Request(request) = auth.poll().unwrap() {
            return request.exchange;
        }
    }
}

fn drain(auth: &mut Authorization) {
    while auth.poll().is_some() {}
}

fn answer(body: &str) -> Cost {
    let mut auth = new();
    let exchange = refuse(&mut auth);
    measure(body.len(), || {
        auth.handle_head(Time::ZERO, exchange, StatusCode::OK, &HeaderMap::new());
        for chunk in body.as_bytes().chunks(1_024) {
            auth.handle_body(Time::ZERO, exchange, chunk);
        }
        auth.handle_end(Time::ZERO, exchange);
        drain(&mut auth);
        auth
    })
}

fn response_length(n: usize) -> Cost {
    answer(&format!(
        r#"{{"resource":"{SERVER}","x":"{}","authorization_servers":["https://as.example"]}}"#,
        "x".repeat(n)
    ))
}

fn servers(n: usize) -> Cost {
    let all: Vec<_> = (0..n).map(|at| format!(r#""https://as{at}.example""#)).collect();
    answer(&format!(r#"{{"authorization_servers":[{}]}}"#, all.join(",")))
}

fn challenge_length(n: usize) -> Cost {
    let mut auth = new();
    let long = "x ".repeat(n / 2);
    let challenges = challenge(&[("scope", &long), ("error_description", &long)]);
    measure(2 * n, || {
        let _ = auth.handle_unauthorized(Time::ZERO, None, true, &challenges);
        drain(&mut auth);
        auth
    })
}

fn refusals(n: usize) -> Cost {
    let mut auth = new();
    measure(0, || {
        for at in 0..n {
            let scope = format!("s{at}");
            let _ = auth.handle_unauthorized(Time::ZERO, None, at % 2 == 0, &challenge(&[("scope", &scope)]));
            drain(&mut auth);
        }
        auth
    })
}

fn redirect_length(n: usize) -> Cost {
    let mut auth = new();
    let redirect = format!("code={}&state=x&{}", "x".repeat(n), "y=1&".repeat(n / 4));
    measure(redirect.len(), || {
        auth.handle_redirect(Time::ZERO, &redirect);
        auth
    })
}

/// The words of a server's error, from which the token is hidden.
fn hidden(words: &str) -> Cost {
    let mut options = OAuthOptions::new("scale", "http://127.0.0.1:1/");
    options.stored = true;
    let auth = Authorization::new(URL, options, [1; 32], Time::ZERO, Duration::ZERO).unwrap();
    let session = Client::new(Http::new(URL).unwrap().with_oauth(auth), legacy(), 0);
    let mut web = Web { session, now: Time::ZERO, stream: None };
    web.session.open(web.now).unwrap();
    let token = "ab".repeat(500);
    let record = format!(
        r#"{{"generation":1,"server":"{URL}","issuer":"https://as.example","resource":"{URL}","client":{{"id":"c","auth":"none","redirect_uri":"http://127.0.0.1:1/","kind":"dynamic"}},"requested":"","granted":"","access_token":"{token}"}}"#
    );
    while let Some(action) = web.session.poll() {
        if let HttpAction::OAuth(OAuthAction::Store(StoreAction::Load(id))) = action {
            web.session.handle_oauth(web.now, OAuthInput::Loaded { id, record: Ok(Some(record.as_bytes())) });
            break;
        }
    }
    web.serve("");
    web.session.request(web.now, Request::new("x/y")).unwrap();
    let request = web.requests().remove(0);
    let id = id_of(&request).unwrap();
    let body = format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":-1,"message":"{words}"}}}}"#);
    measure(body.len(), || {
        web.head(request.exchange, 200, &headers("application/json"));
        web.session.handle_body(web.now, request.exchange, body.as_bytes());
        web.session.handle_end(web.now, request.exchange);
        assert!(web.drain() > 0);
        web
    })
}

fn hidden_length(n: usize) -> Cost {
    hidden(&"ab".repeat(n / 2))
}

/// Nearly a secret, again and again.
fn hidden_near_length(n: usize) -> Cost {
    hidden(&format!("{}c", "ab".repeat(31)).repeat(n / 63 + 1))
}
