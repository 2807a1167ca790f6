//! WebAssembly: a client over HTTP, for `client.mjs`, which has the clock, the timers and `fetch`. A text goes in through a
//! buffer that the host asks for first, and comes out at `output`.

use http::{HeaderName, HeaderValue, StatusCode};
use mcp_proto::binding::http::{Broken, ExchangeId, HttpAction};
use mcp_proto::{Cause, Client, Event, Http, Options, Time};
use serde_json::to_vec;
use std::cell::RefCell;

#[derive(Default)]
struct State {
    client: Option<Client<Http>>,
    input: Vec<u8>,
    output: Vec<u8>,
}

thread_local! {
    static STATE: RefCell<State> = RefCell::default();
}

fn with<T: Default>(run: impl FnOnce(&mut Client<Http>, &[u8]) -> T) -> T {
    STATE.with_borrow_mut(|state| state.client.as_mut().map(|client| run(client, &state.input)).unwrap_or_default())
}

/// A buffer of this length for the next text.
#[unsafe(no_mangle)]
extern "C" fn input(length: usize) -> *mut u8 {
    STATE.with_borrow_mut(|state| {
        state.input = vec![0; length];
        state.input.as_mut_ptr()
    })
}

/// Opens a client of the server at the URL in the buffer. Returns whether that is one.
#[unsafe(no_mangle)]
extern "C" fn open(now: u64, seed: u64) -> bool {
    STATE.with_borrow_mut(|state| {
        let http = std::str::from_utf8(&state.input).ok().and_then(|url| Http::new(url).ok());
        let mut options = Options::new("embed-wasm", "1.0");
        // The browser does both.
        (options.keeps_cookies, options.decodes_bodies) = (true, true);
        options.reconnect = None;
        state.client = http.map(|http| Client::new(http, options, seed));
        state.client.as_mut().is_some_and(|client| client.open(Time::from_millis(now)).is_ok())
    })
}

/// The length of the next action, a JSON array at `output`, its name first; 0 if there is none.
#[unsafe(no_mangle)]
extern "C" fn poll(now: u64) -> usize {
    STATE.with_borrow_mut(|State { client, output, .. }| {
        let Some(client) = client else { return 0 };
        let Some(action) = client.poll() else { return 0 };
        let action = match action {
            HttpAction::Request(it) => {
                let (head, body) = it.request.into_parts();
                // The browser has its own, and some ask whether another origin allows this one.
                let headers = head.headers.iter().filter(|(name, _)| **name != http::header::USER_AGENT);
                let headers: Vec<_> =
                    headers.map(|(name, it)| [name.as_str(), it.to_str().unwrap_or_default()]).collect();
                let (url, body) = (head.uri.to_string(), String::from_utf8_lossy(&body));
                to_vec(&("request", it.exchange.as_u64(), head.method.as_str(), url, headers, body))
            }
            HttpAction::Drop(exchange) => to_vec(&("drop", exchange.as_u64())),
            HttpAction::Event(Event::Ready) => {
                let tools: Vec<_> = client.catalog().tools().map(|tool| tool.name.to_string()).collect();
                let _ = client.close(Time::from_millis(now));
                to_vec(&("tools", tools))
            }
            HttpAction::Event(Event::Closed { cause: Cause::Failed(why) }) => to_vec(&("failed", why.to_string())),
            _ => to_vec(&["other"]),
        };
        *output = action.unwrap_or_default();
        output.len()
    })
}

#[unsafe(no_mangle)]
extern "C" fn output() -> *const u8 {
    STATE.with_borrow(|state| state.output.as_ptr())
}

/// When `timeout` is to be called; -1 for never.
#[unsafe(no_mangle)]
extern "C" fn deadline() -> i64 {
    let due = with(|client, _| client.deadline());
    due.and_then(|due| i64::try_from(due.since(Time::ZERO).as_millis()).ok()).map_or(-1, |due| due.saturating_add(1))
}

#[unsafe(no_mangle)]
extern "C" fn timeout(now: u64) {
    with(|client, _| client.handle_timeout(Time::from_millis(now)));
}

/// The head of a response came, with the headers in the buffer, each on a line.
#[unsafe(no_mangle)]
extern "C" fn head(now: u64, exchange: u64, status: u16) {
    with(|client, headers| {
        let headers = headers.split(|byte| *byte == b'\n').filter_map(|line| {
            let (name, value) = line.split_at_checked(line.iter().position(|byte| *byte == b':')?)?;
            Some((HeaderName::try_from(name).ok()?, HeaderValue::try_from(value.get(1..)?.trim_ascii()).ok()?))
        });
        let (status, headers) = (StatusCode::from_u16(status).unwrap_or_default(), headers.collect());
        client.handle_head(Time::from_millis(now), ExchangeId::from_u64(exchange), status, &headers);
    });
}

/// A part of the body came.
#[unsafe(no_mangle)]
extern "C" fn body(now: u64, exchange: u64) {
    with(|client, chunk| client.handle_body(Time::from_millis(now), ExchangeId::from_u64(exchange), chunk));
}

/// A response ended, or failed for the reason in the buffer.
#[unsafe(no_mangle)]
extern "C" fn end(now: u64, exchange: u64, failed: bool) {
    let (now, exchange) = (Time::from_millis(now), ExchangeId::from_u64(exchange));
    with(|client, why| match failed {
        true => client.handle_failure(now, exchange, Broken::Midway, &String::from_utf8_lossy(why)),
        false => client.handle_end(now, exchange),
    });
}
