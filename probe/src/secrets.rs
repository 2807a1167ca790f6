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

/// The ends of the names of variables and parameters whose values are secrets. Of `_pat` and `_pem`, which other words end
/// with, it is a whole word.
const NAMES: [&str; 15] = [
    "key",
    "token",
    "secret",
    "password",
    "passwd",
    "passphrase",
    "pass",
    "pwd",
    "credential",
    "credentials",
    "auth",
    "jwt",
    "cookie",
    "_pat",
    "_pem",
];

/// Settings and defaults, which variables with such names have, too, and which are in all kinds of texts.
const WORDS: [&str; 16] = [
    "anonymous",
    "authorization_code",
    "automatic",
    "client_credentials",
    "configuration",
    "database",
    "development",
    "disabled",
    "interactive",
    "localhost",
    "optional",
    "password",
    "postgres",
    "production",
    "required",
    "username",
];

/// The bounds of the library on what is looked for, in bytes.
const SHORTEST: usize = 8;
const LONGEST: usize = 16 << 10;

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
    parts(secret).iter().for_each(|part| look_for(part));
}

fn look_for(part: &str) {
    // An error means that it is too short.
    let _ = HIDER.write().unwrap_or_else(PoisonError::into_inner).add(part);
}

/// What is looked for of a secret: all of it, all of it on one line, and each of its lines. A program may show one alone.
fn parts(secret: &str) -> Vec<Cow<'_, str>> {
    let joined = secret.split_whitespace().collect::<Vec<_>>().join(" ");
    let lines = secret.split(['\n', '\r']);
    // In a variable a line often ends with the escape sequence of a line break.
    let lines = lines.flat_map(|line| line.split("\\n")).flat_map(|line| line.split("\\r")).map(str::trim);
    let others = pieces(&joined).into_iter().map(|piece| Cow::Owned(piece.to_owned()));
    let others = others.chain(lines.flat_map(pieces).map(Cow::Borrowed));
    let others = others.filter(|part| part.len() >= SHORTEST && **part != *secret);
    pieces(secret).into_iter().map(Cow::Borrowed).chain(others).collect()
}

/// The text in pieces that are not too long to be looked for, and, if there are several, not too short.
fn pieces(text: &str) -> Vec<&str> {
    let (mut pieces, mut rest) = (Vec::new(), text);
    while rest.len() > LONGEST {
        let end = LONGEST.min(rest.len().saturating_sub(SHORTEST));
        let end = (0..=end).rev().find(|at| rest.is_char_boundary(*at)).unwrap_or_default();
        let (piece, after) = rest.split_at(end);
        pieces.push(piece);
        rest = after;
    }
    pieces.push(rest);
    pieces
}

/// The secrets in headers, and in these texts where they are URLs, which are kept. A journal that is given them in this
/// order has the same masks.
pub(crate) fn given<'a>(headers: &HeaderMap, texts: impl IntoIterator<Item = &'a str>) -> Vec<Given> {
    let given = of_headers(headers).into_iter().chain(texts.into_iter().flat_map(of_urls));
    let given = given.flat_map(|Given { of, text }| {
        let parts: Vec<_> = parts(&text).into_iter().map(Cow::into_owned).collect();
        parts.into_iter().map(move |text| Given { of: of.clone(), text })
    });
    let given: Vec<_> = given.collect();
    given.iter().for_each(|given| look_for(&given.text));
    given
}

/// Keeps the value of a variable whose name is that of a secret, unless it is a common word, or a part of the name of one of
/// these servers, which all output has.
pub(crate) fn keep_named(name: &str, value: &str, servers: &[Box<str>]) {
    let is_word = || WORDS.iter().any(|word| word.eq_ignore_ascii_case(value));
    if is_secret(name) && !is_word() && !servers.iter().any(|server| server.contains(value)) {
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

/// The secrets of each URL in a text: the password, or a user without one, and the parameters that are named as secrets are.
/// Each as it is, and without its percent-encoding.
fn of_urls(text: &str) -> Vec<Given> {
    let (mut given, mut rest) = (Vec::<Given>::new(), text);
    while let Some((before, after)) = rest.split_once("://") {
        let scheme = before.rsplit(|it: char| !it.is_ascii_alphabetic()).next().unwrap_or_default();
        let url = after.split(char::is_whitespace).next().unwrap_or_default();
        for (of, text) in of_url(scheme, url) {
            let decoded = decoded(text);
            for text in [text, &decoded] {
                if !given.iter().any(|known| known.text == text) {
                    given.push(Given { of: of.clone(), text: text.into() });
                }
            }
        }
        rest = after;
    }
    given
}

/// The secrets of a URL, and what each is. `url` follows `://`, and more of the text around it may be at its end.
fn of_url<'t>(scheme: &str, url: &'t str) -> Vec<(String, &'t str)> {
    let (authority, rest) = url.split_at(url.find(['/', '?', '#']).unwrap_or(url.len()));
    // There may be an `@` in a password, or in what follows the URL.
    let users = [authority.rsplit_once('@'), authority.split_once('@')].into_iter().flatten().map(|(user, _)| user);
    let passwords = users.filter_map(|user| match user.split_once(':') {
        // A token in the place of the user, as some servers have it.
        Some((token, "" | "x-oauth-basic")) => Some(token),
        Some((_, password)) => Some(password),
        None => Some(user).filter(|_| scheme.to_ascii_lowercase().starts_with("http")),
    });
    let query = rest.split('#').next().and_then(|rest| rest.split_once('?')).map_or("", |(_, query)| query);
    let pairs = query.split('&').filter_map(|pair| pair.split_once('=')).filter(|(name, _)| is_secret(name));
    let named = pairs.flat_map(|(name, value)| {
        // A quote may be a part of the value, or the end of the URL.
        let quoted = value.split(['"', '\'', '`', '<', '>']).next().unwrap_or_default();
        [value, quoted].map(|value| (format!("`{name}` in the URL"), value))
    });
    let passwords = passwords.map(|password| ("the password in the URL".to_owned(), password));
    passwords.chain(named).filter(|(_, text)| !text.is_empty()).collect()
}

/// Whether a value with this name is a secret.
fn is_secret(name: &str) -> bool {
    let name = name.to_ascii_lowercase().replace('-', "_");
    NAMES.iter().any(|end| name.ends_with(end) || Some(&*name) == end.strip_prefix('_'))
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
            ("x https://a.example/?token=hush-1 --flag=a@b", &["hush-1"]),
            ("{\"u\":\"https://a.example/?token=hush-1\",\"b\":1}", &["hush-1\",\"b\":1}", "hush-1"]),
            ("{\"u\":\"r://a:hush-1@h\",\"b\":\"c@d\"}", &["hush-1@h\",\"b\":\"c", "hush-1"]),
            ("r://a:hush-1@h,r://b:hush-2@h", &["hush-1", "hush-2"]),
            ("https://a.example/?next=https://b.example&key=hush-1", &["hush-1"]),
            ("--url=https://hush-1@h/ HTTPS://hush-2@h", &["hush-1", "hush-2"]),
            ("https://hush-1:@h/,https://hush-2:x-oauth-basic@h", &["hush-1", "hush-2"]),
        ] {
            let given: Vec<_> = of_urls(url).into_iter().map(|given| given.text).collect();
            assert_eq!(given, expected, "{url}");
        }
    }

    #[test]
    fn each_line_of_a_secret_is_looked_for_and_all_of_it_on_one_line() {
        assert_eq!(parts("a-secret"), ["a-secret"]);
        assert_eq!(parts("short\n"), ["short\n"]);
        assert_eq!(
            parts("a-secret  of\r\n two-lines\n1"),
            ["a-secret  of\r\n two-lines\n1", "a-secret of two-lines 1", "a-secret  of", "two-lines"]
        );
        assert_eq!(parts("line-one\\nline-two"), ["line-one\\nline-two", "line-one", "line-two"]);
        assert_eq!(parts("line-one\\r\\n"), ["line-one\\r\\n", "line-one"]);
    }

    #[test]
    fn a_secret_that_is_too_long_is_looked_for_in_pieces_that_are_not() {
        for length in [LONGEST, LONGEST + 1, LONGEST + SHORTEST, 2 * LONGEST, 3 * LONGEST + 5] {
            for secret in ["ab".repeat(length / 2 + 1), "a€".repeat(length / 4)] {
                let pieces = pieces(&secret);
                assert_eq!(pieces.concat(), secret);
                let mut hider = Hider::default();
                pieces.iter().for_each(|piece| hider.add(piece).unwrap());
            }
        }
        let is_kept = |length| Hider::default().add(&"a".repeat(length)).is_ok();
        assert_eq!([SHORTEST - 1, SHORTEST, LONGEST, LONGEST + 1].map(is_kept), [false, true, true, false]);
        let shown = "long-secret ".repeat(4000);
        keep(&shown);
        assert!(!hidden(&shown).contains("long") && !hidden(shown.trim_end()).contains("long"));
    }

    #[test]
    fn the_names_of_secrets_are_known_by_their_ends_which_the_help_has() {
        for name in ["GITHUB_PAT", "pat", "x-pat", "PASSPHRASE", "MY_JWT", "COOKIE", "TLS_PEM", "CREDENTIALS", "apiKey"]
        {
            assert!(is_secret(name), "{name}");
        }
        for name in ["NODE_COMPAT", "PATH", "USER", "PEMBROKE"] {
            assert!(!is_secret(name), "{name}");
        }
        let help = crate::args::help(Some("config"));
        for end in NAMES {
            let end = end.to_ascii_uppercase();
            assert!(help.split([' ', ',', '\n']).any(|word| word == end), "{end}");
        }
    }

    #[test]
    fn a_common_word_and_a_part_of_the_name_of_a_server_are_no_secrets_of_variables() {
        let servers = ["my-warehouse".into()];
        for (name, value) in [("AUTH", "Disabled"), ("DB_PASSWORD", "warehouse"), ("NOTE", "a-plain-value")] {
            keep_named(name, value, &servers);
            assert_eq!(hidden(value), value);
        }
        keep_named("DB_PASSWORD", "warehouse-2", &servers);
        assert!(hidden("of warehouse-2").starts_with("of secret"));
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
