//! Sessions over HTTP, with a server that is a function call.

use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use mcp_proto::binding::http::{ExchangeId, HttpAction, HttpRequest};
use mcp_proto::{Client, Http, Options, Time};

use crate::peer::{CAPABILITIES, EMPTY};

pub const URL: &str = "https://example.com/mcp";

pub fn headers(kind: &str) -> HeaderMap {
    with(&[("content-type", kind)])
}

pub fn with(members: &[(&str, &str)]) -> HeaderMap {
    let member = |(name, value): &(&str, &str)| {
        (HeaderName::from_bytes(name.as_bytes()).unwrap(), HeaderValue::from_str(value).unwrap())
    };
    members.iter().map(member).collect()
}

/// The id of the posted request.
pub fn id_of(request: &HttpRequest) -> Option<u64> {
    let body = std::str::from_utf8(request.request.body()).ok()?;
    let (_, rest) = body.split_once(r#""id":"#)?;
    rest.split([',', '}']).next()?.parse().ok()
}

/// The method of the posted message.
pub fn method_of(request: &HttpRequest) -> Option<&str> {
    let body = std::str::from_utf8(request.request.body()).ok()?;
    body.split_once(r#""method":""#)?.1.split('"').next()
}

/// A session over HTTP, with its clock.
pub struct Web {
    pub session: Client<Http>,
    pub now: Time,
    /// The GET stream, if there is one.
    pub stream: Option<ExchangeId>,
}

impl Web {
    pub fn open(options: Options) -> Self {
        let session = Client::new(Http::new(URL).unwrap(), options, 0);
        let mut web = Self { session, now: Time::ZERO, stream: None };
        web.session.open(web.now).unwrap();
        web
    }

    /// A ready session with these tools, as JSON.
    pub fn ready(options: Options, tools: &str) -> Self {
        let mut web = Self::open(options);
        web.serve(tools);
        assert!(web.session.is_ready());
        web
    }

    /// Responds to all requests like a server with these tools, until there is nothing left to do.
    pub fn serve(&mut self, tools: &str) {
        while let Some(action) = self.session.poll() {
            if let HttpAction::Request(request) = action {
                self.answer(&request, tools);
            }
        }
    }

    fn answer(&mut self, request: &HttpRequest, tools: &str) {
        if request.request.method() == Method::GET {
            self.stream = Some(request.exchange);
            return self.session.handle_head(self.now, request.exchange, StatusCode::OK, &headers("text/event-stream"));
        }
        let Some(id) = id_of(request) else { return self.status(request.exchange, 202) };
        let result = match method_of(request) {
            Some("initialize") => format!(
                r#"{{"protocolVersion":"2025-11-25","capabilities":{CAPABILITIES},"serverInfo":{{"name":"s","version":"1"}}}}"#
            ),
            Some("server/discover") => format!(
                r#"{{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{{"tools":{{}}}}}}"#
            ),
            Some("tools/list") if !tools.is_empty() => format!(r#"{{"resultType":"complete","tools":[{tools}]}}"#),
            _ => EMPTY.into(),
        };
        let mut headers = headers("application/json");
        if method_of(request) == Some("initialize") {
            headers.insert("mcp-session-id", HeaderValue::from_static("session-1"));
        }
        self.session.handle_head(self.now, request.exchange, StatusCode::OK, &headers);
        self.json(request.exchange, id, &result);
    }

    fn json(&mut self, exchange: ExchangeId, id: u64, result: &str) {
        let body = format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#);
        self.session.handle_body(self.now, exchange, body.as_bytes());
        self.session.handle_end(self.now, exchange);
    }

    /// Responds with a result, as JSON.
    pub fn result(&mut self, exchange: ExchangeId, id: u64, result: &str) {
        self.head(exchange, 200, &headers("application/json"));
        self.json(exchange, id, result);
    }

    /// Responds with a status and an empty body.
    pub fn status(&mut self, exchange: ExchangeId, status: u16) {
        self.head(exchange, status, &HeaderMap::new());
        self.session.handle_end(self.now, exchange);
    }

    pub fn head(&mut self, exchange: ExchangeId, status: u16, headers: &HeaderMap) {
        self.session.handle_head(self.now, exchange, StatusCode::from_u16(status).unwrap(), headers);
    }

    /// Receives this text on the GET stream.
    pub fn told(&mut self, text: &str) {
        let stream = self.stream.unwrap();
        self.session.handle_body(self.now, stream, text.as_bytes());
    }

    /// Begins a response that is an event stream.
    pub fn events(&mut self, exchange: ExchangeId) {
        self.head(exchange, 200, &with(&[(CONTENT_TYPE.as_str(), "text/event-stream")]));
    }

    /// Polls everything, and returns the requests.
    pub fn requests(&mut self) -> Vec<HttpRequest> {
        let mut requests = Vec::new();
        while let Some(action) = self.session.poll() {
            if let HttpAction::Request(request) = action {
                requests.push(request);
            }
        }
        requests
    }

    pub fn drain(&mut self) -> usize {
        std::iter::from_fn(|| self.session.poll()).count()
    }
}

/// A message as an event of a stream.
pub fn event(message: &str) -> String {
    format!("event: message\ndata: {}\n\n", message.trim_end())
}
