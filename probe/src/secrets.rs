//! What was given as a secret, which no output has: reports, standard error, journals. All text passes `hidden` on its way
//! out, and once before it is wrapped, cut or escaped.

use std::borrow::Cow;
use std::sync::{LazyLock, PoisonError, RwLock, RwLockReadGuard};

use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, ORIGIN, USER_AGENT};
use http::{HeaderMap, HeaderName, Method, Request};
use mcp_proto::journal::{HiddenStream, Hider};

/// Secrets are learned while the run goes on, and hidden on the thread that copies standard error, too.
static HIDER: LazyLock<RwLock<Hider>> = LazyLock::new(RwLock::default);

/// Headers that describe a message or the client. A value such as `2025-11-25` is in every report.
const PUBLIC: [HeaderName; 5] =
    [ACCEPT, CONTENT_TYPE, ORIGIN, USER_AGENT, HeaderName::from_static("mcp-protocol-version")];

/// The ends of the names of variables and parameters whose values are secrets.
const NAMES: [&str; 10] =
    ["key", "token", "secret", "password", "passwd", "pass", "pwd", "credential", "credentials", "auth"];

/// A secret, and what the user knows it by.
pub(crate) struct Given {
    pub(crate) of: String,
    pub(crate) text: String,
}

/// The text without what was given as a secret.
pub(crate) fn hidden(text: &str) -> Cow<'_, str> {
    known().hide(text)
}

/// The same for a chunk of a stream; what may be the beginning of a secret is held back.
pub(crate) fn passed(stream: &mut HiddenStream, chunk: &[u8]) -> Vec<u8> {
    known().pass(stream, chunk)
}

fn known() -> RwLockReadGuard<'static, Hider> {
    HIDER.read().unwrap_or_else(PoisonError::into_inner)
}

/// Hides a secret from now on, unless it is so short that it may be a part of other texts.
pub(crate) fn keep(secret: &str) {
    let _ = HIDER.write().unwrap_or_else(PoisonError::into_inner).add(secret);
}

/// The secrets in headers, and in these texts where they are URLs, which are kept. A journal that is given them in this
/// order has the same masks.
pub(crate) fn given<'a>(headers: &HeaderMap, texts: impl IntoIterator<Item = &'a str>) -> Vec<Given> {
    let given: Vec<_> = of_headers(headers).into_iter().chain(texts.into_iter().flat_map(of_url)).collect();
    given.iter().for_each(|given| keep(&given.text));
    given
}

/// Keeps the value of a variable whose name is that of a secret.
pub(crate) fn keep_named(name: &str, value: &str) {
    if is_secret(name) {
        keep(value);
    }
}

/// The values of headers, any of which may be a secret, and what follows the schemes of credentials.
fn of_headers(headers: &HeaderMap) -> Vec<Given> {
    let values = headers.iter().filter(|(name, _)| !PUBLIC.contains(name));
    let values = values.filter_map(|(name, value)| Some((name, std::str::from_utf8(value.as_bytes()).ok()?)));
    let given = values.flat_map(|(name, value)| {
        let token = name.as_str().contains("auth").then(|| after_scheme(value)).flatten();
        [Some(value), token]
            .into_iter()
            .flatten()
            .map(move |secret| Given { of: format!("the value of {name}"), text: secret.into() })
    });
    given.collect()
}

fn after_scheme(value: &str) -> Option<&str> {
    value.split_once(' ').map(|(_, token)| token.trim())
}

/// The password in a URL, or a user without one, and the parameters that are named as secrets are. Each as it is, and without
/// its percent-encoding.
fn of_url(url: &str) -> Vec<Given> {
    let Some((scheme, rest)) = url.split_once("://") else { return Vec::new() };
    let is_end = |it: char| it.is_whitespace() || "/?#".contains(it);
    let (authority, rest) = rest.split_at(rest.find(is_end).unwrap_or(rest.len()));
    let user = authority.rsplit_once('@').map(|(user, _)| user);
    let password = user.and_then(|user| match user.split_once(':') {
        Some((_, password)) => Some(password),
        None => Some(user).filter(|_| scheme.starts_with("http")),
    });
    let query = rest.split('#').next().and_then(|rest| rest.split_once('?')).map_or("", |(_, query)| query);
    let pairs = query.split('&').filter_map(|pair| pair.split_once('='));
    let named = pairs.filter(|(name, _)| is_secret(name)).map(|(name, value)| (format!("`{name}` in the URL"), value));
    let password = password.map(|password| ("the password in the URL".to_owned(), password));
    let given = password.into_iter().chain(named).flat_map(|(of, text)| {
        let decoded = decoded(text);
        let other = (decoded != text).then(|| Given { of: of.clone(), text: decoded });
        [Some(Given { of, text: text.into() }), other].into_iter().flatten()
    });
    given.collect()
}

/// Whether a value with this name is a secret.
fn is_secret(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    NAMES.iter().any(|end| name.ends_with(end))
}

/// Keeps what a request of the client gives to a server as a secret: a token, what a form obtains one with.
pub(crate) fn keep_sent(request: &Request<Vec<u8>>) {
    let values = request.headers().get_all(AUTHORIZATION).iter().filter_map(|value| value.to_str().ok());
    values.filter_map(after_scheme).for_each(keep);
    let form = request.headers().get(CONTENT_TYPE).is_some_and(|kind| kind == "application/x-www-form-urlencoded");
    if form && request.method() == Method::POST {
        let form = String::from_utf8_lossy(request.body());
        for (name, value) in form.split('&').filter_map(|pair| pair.split_once('=')) {
            if is_secret(name) || matches!(name, "code" | "code_verifier" | "assertion" | "client_assertion") {
                keep(&decoded(&value.replace('+', " ")));
            }
        }
    }
}

/// The text without percent-encoding.
fn decoded(text: &str) -> String {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        let digits = after.get(..2).and_then(|digits| std::str::from_utf8(digits).ok());
        let code = digits.filter(|_| *first == b'%').and_then(|digits| u8::from_str_radix(digits, 16).ok());
        out.push(code.unwrap_or(*first));
        rest = if code.is_some() { after.get(2..).unwrap_or_default() } else { after };
    }
    String::from_utf8_lossy(&out).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_secrets_of_a_url_are_its_password_and_the_parameters_named_so() {
        for (url, expected) in [
            ("https://ada:hu%40sh@a.example/mcp?x=1&apiKey=k%2b1#token=y", &["hu%40sh", "hu@sh", "k%2b1", "k+1"][..]),
            ("https://token@a.example/", &["token"]),
            ("postgres://ada:a:b@a.example:5432/db?sslmode=require", &["a:b"]),
            ("ssh://ada@a.example/", &[]),
            ("https://a.example/@b:c", &[]),
            ("echo https://a.example and b:c@d", &[]),
            ("--url", &[]),
        ] {
            let given: Vec<_> = of_url(url).into_iter().map(|given| given.text).collect();
            assert_eq!(given, expected, "{url}");
        }
    }

    #[test]
    fn a_header_is_a_secret_as_a_whole_and_after_its_scheme_unless_it_describes_the_message() {
        let mut headers = HeaderMap::new();
        for (name, value) in [("authorization", "Bearer abc"), ("x-key", "a ö"), ("mcp-protocol-version", "2025-11-25")]
        {
            headers.append(name, value.parse().unwrap());
        }
        let given: Vec<_> = of_headers(&headers).into_iter().map(|given| (given.of, given.text)).collect();
        let expected = [("authorization", "Bearer abc"), ("authorization", "abc"), ("x-key", "a ö")];
        assert_eq!(given, expected.map(|(name, text)| (format!("the value of {name}"), text.to_owned())));
    }

    #[test]
    fn what_a_form_obtains_a_token_with_is_kept() {
        let form = "grant_type=refresh_token&refresh_token=a-refresh%2Btoken&client_id=a-public-client&code=a-code-1";
        let request =
            Request::post("https://a.example/token").header(CONTENT_TYPE, "application/x-www-form-urlencoded");
        let request = request.header(AUTHORIZATION, "Basic YS1jbGllbnQ6YS1zZWNyZXQ=");
        keep_sent(&request.body(form.into()).unwrap());
        for secret in ["a-refresh+token", "a-code-1", "YS1jbGllbnQ6YS1zZWNyZXQ="] {
            assert!(!hidden(&format!("of {secret} say")).contains(secret), "{secret}");
        }
        assert_eq!(hidden("a-public-client, refresh_token"), "a-public-client, refresh_token");
    }
}
