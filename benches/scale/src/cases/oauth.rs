//! An authorization: what its server, its authorization server and a user's browser can make large.

use std::time::Duration;

use http::{HeaderMap, StatusCode};
use mcp_proto::binding::oauth::{Authorization, OAuthAction, OAuthExchangeId, OAuthOptions};
use mcp_proto::{Challenge, Time};

use super::Case;
use crate::meter::{Cost, measure};

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
    ]
}

fn new() -> Authorization {
    let options = OAuthOptions::new("scale", "http://127.0.0.1:1/");
    Authorization::new(SERVER, options, [0; 32], Time::ZERO, Duration::ZERO).unwrap()
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
