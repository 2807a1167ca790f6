//! The codings of bodies (RFC 9110, section 8.4): nobody decodes them, so the client asks for none.

use alloc::format;
use alloc::string::String;

use http::header::CONTENT_ENCODING;
use http::{HeaderMap, HeaderValue};

/// What `Accept-Encoding` asks for.
pub(super) const ACCEPTED: HeaderValue = HeaderValue::from_static("identity");

/// The coding of a body that has to be decoded, as the server names it. Some servers write `none` or a character set there,
/// which changes nothing.
pub(super) fn coding_of(headers: &HeaderMap) -> Option<&str> {
    const CODINGS: [&str; 7] = ["gzip", "x-gzip", "deflate", "compress", "x-compress", "br", "zstd"];
    let values = headers.get_all(CONTENT_ENCODING).iter().filter_map(|value| value.to_str().ok());
    let mut codings = values.flat_map(|value| value.split(',')).map(str::trim);
    codings.find(|coding| CODINGS.iter().any(|known| known.eq_ignore_ascii_case(coding)))
}

/// What a body is that is in this coding.
pub(super) fn encoded_detail(coding: &str) -> String {
    format!("the body is encoded as `{coding}`, which the client did not ask for and does not decode")
}
