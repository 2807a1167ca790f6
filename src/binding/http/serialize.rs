//! The serialized form of HTTP requests (feature `serde`).

use alloc::boxed::Box;
use alloc::string::ToString;
use alloc::vec::Vec;

use http::{HeaderName, HeaderValue, Method, Uri};
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::action::{ExchangeId, HttpRequest};
use super::redact;
use crate::client::RequestId;
use crate::form::Bytes;

#[derive(Serialize, Deserialize)]
struct Form {
    exchange: ExchangeId,
    of: Option<RequestId>,
    method: Box<str>,
    uri: Box<str>,
    headers: Vec<(Box<str>, Bytes)>,
    body: Bytes,
}

impl Form {
    fn of(it: &HttpRequest, address: Box<str>, value: impl Fn(&HeaderName, &HeaderValue) -> Vec<u8>) -> Self {
        let HttpRequest { exchange, of, request } = it;
        let headers = request.headers().iter().map(|(name, it)| (name.as_str().into(), Bytes(value(name, it))));
        Self {
            exchange: *exchange,
            of: *of,
            method: request.method().as_str().into(),
            uri: address,
            headers: headers.collect(),
            body: Bytes(request.body().clone()),
        }
    }
}

impl Serialize for HttpRequest {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let address = redact::address(self.request.uri()).into();
        Form::of(self, address, |name, value| redact::request_value(name, value).to_vec()).serialize(serializer)
    }
}

/// A request that is serialized with its secrets, for an HTTP client in another process.
#[derive(Clone, Copy, Debug)]
pub struct WithSecrets<'a>(pub &'a HttpRequest);

impl Serialize for WithSecrets<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let address = self.0.request.uri().to_string().into();
        Form::of(self.0, address, |_, value| value.as_bytes().to_vec()).serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for HttpRequest {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let Form { exchange, of, method, uri, headers, body } = Form::deserialize(deserializer)?;
        let mut request = http::Request::new(body.0);
        *request.method_mut() = Method::from_bytes(method.as_bytes()).map_err(D::Error::custom)?;
        *request.uri_mut() = uri.parse::<Uri>().map_err(D::Error::custom)?;
        for (name, value) in headers {
            let name = HeaderName::from_bytes(name.as_bytes()).map_err(D::Error::custom)?;
            let mut value = HeaderValue::from_bytes(&value.0).map_err(D::Error::custom)?;
            value.set_sensitive(redact::is_secret(&name));
            request.headers_mut().try_append(name, value).map_err(D::Error::custom)?;
        }
        Ok(Self { exchange, of, request })
    }
}
