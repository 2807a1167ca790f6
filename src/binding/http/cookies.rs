//! The cookies that a server sets, which go back to its origin alone (RFC 6265).

use alloc::boxed::Box;
use alloc::collections::BTreeSet;
use alloc::vec::Vec;
use core::fmt;
use core::time::Duration;

use http::header::{DATE, SET_COOKIE};
use http::{HeaderMap, HeaderValue, Uri};

use crate::Time;
use crate::binding::address::Origin;

/// Maximum cookies of a session. Of more, the oldest are dropped.
pub(super) const COOKIES: usize = 50;

/// Maximum bytes of a cookie, with its attributes. A longer one is ignored.
pub(super) const COOKIE_BYTES: usize = 4 << 10;

/// The first day of the protocol, in seconds since the Unix epoch: what expired before was never meant to be kept.
const FIRST_DAY: i64 = 1_730_764_800;

const DAY: i64 = 24 * 3600;

/// Cookies, in the order in which they were first set. Their `Debug` shows how many there are.
#[derive(Clone, Default)]
#[cfg_attr(feature = "snapshot", derive(serde::Serialize, serde::Deserialize), serde(transparent))]
pub(super) struct Cookies(
    /// Most sessions have none.
    #[expect(clippy::box_collection, reason = "a session without cookies needs little memory")]
    Option<Box<Vec<Cookie>>>,
);

#[derive(Clone)]
#[cfg_attr(feature = "snapshot", derive(serde::Serialize, serde::Deserialize))]
struct Cookie {
    #[cfg_attr(feature = "snapshot", serde(with = "crate::form::bytes"))]
    name: Vec<u8>,
    #[cfg_attr(feature = "snapshot", serde(with = "crate::form::bytes"))]
    value: Vec<u8>,
    #[cfg_attr(feature = "snapshot", serde(with = "crate::form::bytes"))]
    path: Vec<u8>,
    /// When it is dropped, if not with the session.
    expires: Option<Time>,
}

impl fmt::Debug for Cookies {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Cookies").field(&self.len()).finish()
    }
}

impl Cookies {
    pub(super) fn len(&self) -> usize {
        self.0.as_ref().map_or(0, |all| all.len())
    }

    /// Takes the cookies that the response to a request of this URL sets.
    pub(super) fn take(&mut self, now: Time, headers: &HeaderMap, url: &Uri) {
        let date = headers.get(DATE).and_then(|date| seconds_of(date.as_bytes()));
        for line in headers.get_all(SET_COOKIE) {
            if let Some(line) = Line::read(line.as_bytes()) {
                self.set(now, date, &line, url);
            }
        }
    }

    /// Sets or removes a cookie (RFC 6265, section 5.3).
    fn set(&mut self, now: Time, date: Option<i64>, line: &Line<'_>, url: &Uri) {
        let is_of_host = line.domain.is_none_or(|domain| is_in_domain(url.host().unwrap_or_default(), domain));
        if !is_of_host || line.is_secure && !is_protected(url) {
            return;
        }
        let path = line.path.unwrap_or_else(|| default_path(url.path())).as_bytes();
        let known = self.0.iter().flat_map(|all| all.iter());
        let place = known.clone().position(|it| it.name == line.name && it.path == path);
        let life = line.life(date);
        if life == Some(Duration::ZERO) {
            if let (Some(all), Some(place)) = (&mut self.0, place) {
                all.remove(place);
            }
            return;
        }
        let expires = life.map(|life| now + life);
        let cookie = Cookie { name: line.name.to_vec(), value: line.value.to_vec(), path: path.to_vec(), expires };
        let all = self.0.get_or_insert_default();
        match place.and_then(|place| all.get_mut(place)) {
            Some(known) => *known = cookie,
            None => {
                if all.len() >= COOKIES {
                    all.retain(|it| !it.is_expired(now));
                }
                if all.len() >= COOKIES {
                    all.remove(0);
                }
                all.push(cookie);
            }
        }
    }

    /// The value of `Cookie` for a request of this URL (RFC 6265, section 5.4): of longer paths first.
    pub(super) fn header(&self, now: Time, url: &Uri) -> Option<HeaderValue> {
        let all = self.0.as_ref()?;
        let path = url.path().as_bytes();
        let mut sent: Vec<_> = all.iter().filter(|it| !it.is_expired(now) && is_below(path, &it.path)).collect();
        sent.sort_by_key(|it| core::cmp::Reverse(it.path.len()));
        let mut text = Vec::new();
        for cookie in sent {
            if !text.is_empty() {
                text.extend_from_slice(b"; ");
            }
            text.extend_from_slice(&cookie.name);
            text.push(b'=');
            text.extend_from_slice(&cookie.value);
        }
        let mut value = HeaderValue::try_from(text).ok().filter(|value| !value.is_empty())?;
        value.set_sensitive(true);
        Some(value)
    }
}

impl Cookie {
    fn is_expired(&self, now: Time) -> bool {
        self.expires.is_some_and(|at| at <= now)
    }
}

/// The cookies of the embedder with those of a server that have other names.
pub(super) fn joined<'a>(
    own: impl IntoIterator<Item = &'a HeaderValue>,
    kept: Option<&HeaderValue>,
) -> Option<HeaderValue> {
    fn cookies(value: &HeaderValue) -> impl Iterator<Item = &[u8]> {
        value.as_bytes().split(|byte| *byte == b';').map(<[u8]>::trim_ascii).filter(|cookie| !cookie.is_empty())
    }
    let mut all: Vec<&[u8]> = own.into_iter().flat_map(cookies).collect();
    let names: BTreeSet<_> = all.iter().filter_map(|cookie| Some(pair(cookie)?.0)).collect();
    let is_other = |cookie: &&[u8]| pair(cookie).is_none_or(|(name, _)| !names.contains(name));
    all.extend(kept.into_iter().flat_map(cookies).filter(is_other));
    let mut value = HeaderValue::try_from(all.join(&b"; "[..])).ok()?;
    value.set_sensitive(true);
    Some(value)
}

/// Whether nobody on the way can read what is sent, or there is no way.
fn is_protected(url: &Uri) -> bool {
    Origin::of(url).is_some_and(|origin| origin.is_https || origin.is_loopback())
}

/// A `Set-Cookie` header (RFC 6265, section 5.2).
#[derive(Debug)]
struct Line<'a> {
    name: &'a [u8],
    value: &'a [u8],
    path: Option<&'a str>,
    domain: Option<&'a str>,
    is_secure: bool,
    /// Seconds from now, 0 if there are none.
    max_age: Option<u64>,
    /// Seconds since the Unix epoch.
    expires: Option<i64>,
}

impl<'a> Line<'a> {
    /// `None` for one that is ignored.
    fn read(line: &'a [u8]) -> Option<Self> {
        if line.len() > COOKIE_BYTES {
            return None;
        }
        let mut parts = line.split(|byte| *byte == b';');
        let (name, value) = pair(parts.next()?)?;
        if name.is_empty() {
            return None;
        }
        let mut it = Self { name, value, path: None, domain: None, is_secure: false, max_age: None, expires: None };
        for part in parts {
            let (name, value) = pair(part).unwrap_or((part.trim_ascii(), b""));
            let text = core::str::from_utf8(value).unwrap_or_default();
            let is = |known: &str| name.eq_ignore_ascii_case(known.as_bytes());
            if is("path") {
                it.path = Some(text).filter(|path| path.starts_with('/'));
            } else if is("domain") && !value.is_empty() {
                it.domain = Some(text.strip_prefix('.').unwrap_or(text));
            } else if is("secure") {
                it.is_secure = true;
            } else if is("max-age") {
                it.max_age = max_age(value).or(it.max_age);
            } else if is("expires") {
                it.expires = seconds_of(value).or(it.expires);
            }
        }
        Some(it)
    }

    /// For how long it is kept; `None`: as long as the session. A client has no calendar, so a date counts from the
    /// response's own.
    fn life(&self, date: Option<i64>) -> Option<Duration> {
        if let Some(seconds) = self.max_age {
            return Some(Duration::from_secs(seconds));
        }
        let expires = self.expires?;
        match date {
            Some(date) => Some(Duration::from_secs(expires.saturating_sub(date).try_into().unwrap_or_default())),
            None => (expires < FIRST_DAY).then_some(Duration::ZERO),
        }
    }
}

/// What stands before and after the first `=`.
fn pair(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let at = text.iter().position(|byte| *byte == b'=')?;
    let (name, value) = text.split_at_checked(at)?;
    Some((name.trim_ascii(), value.get(1..)?.trim_ascii()))
}

/// The seconds of `Max-Age`, 0 if it is negative (RFC 6265, section 5.2.2).
fn max_age(value: &[u8]) -> Option<u64> {
    let digits = value.strip_prefix(b"-").unwrap_or(value);
    if value.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let is_negative = digits.len() < value.len();
    // An overflow is beyond any session.
    let seconds = core::str::from_utf8(digits).ok()?.parse().unwrap_or(u64::MAX);
    Some(if is_negative { 0 } else { seconds })
}

/// Whether a host is the domain or below it (RFC 6265, section 5.1.3). An address is not below any.
fn is_in_domain(host: &str, domain: &str) -> bool {
    let Some(at) = host.len().checked_sub(domain.len()) else { return false };
    let Some((before, end)) = host.split_at_checked(at) else { return false };
    let is_address = host.starts_with('[') || host.parse::<core::net::IpAddr>().is_ok();
    end.eq_ignore_ascii_case(domain) && (before.is_empty() || before.ends_with('.') && !is_address)
}

/// The path of a cookie that names none (RFC 6265, section 5.1.4).
fn default_path(path: &str) -> &str {
    match path.rfind('/') {
        Some(0) | None => "/",
        Some(at) => path.get(..at).unwrap_or("/"),
    }
}

/// Whether a cookie of this path goes to a request (RFC 6265, section 5.1.4).
fn is_below(path: &[u8], cookie: &[u8]) -> bool {
    path.strip_prefix(cookie).is_some_and(|rest| rest.is_empty() || rest.starts_with(b"/") || cookie.ends_with(b"/"))
}

/// The seconds since the Unix epoch of a date in any of the forms that servers write (RFC 6265, section 5.1.1).
fn seconds_of(text: &[u8]) -> Option<i64> {
    const MONTHS: &[u8] = b"janfebmaraprmayjunjulaugsepoctnovdec";
    let is_delimiter = |byte: &u8| matches!(byte, b'\t' | b' '..=b'/' | b';'..=b'@' | b'['..=b'`' | b'{'..=b'~');
    let (mut time, mut day, mut month, mut year) = (None, None, None, None);
    for token in text.split(is_delimiter).filter(|token| !token.is_empty()) {
        let is_month = |known: &[u8]| token.get(..3).is_some_and(|begin| begin.eq_ignore_ascii_case(known));
        if time.is_none()
            && let Some(seconds) = time_of_day(token)
        {
            time = Some(seconds);
        } else if day.is_none()
            && let Some(number) = number(token, 1, 2)
        {
            day = Some(number);
        } else if month.is_none()
            && let Some(at) = MONTHS.chunks(3).position(is_month)
        {
            month = Some(i64::try_from(at).ok()?.saturating_add(1));
        } else if year.is_none()
            && let Some(number) = number(token, 2, 4)
        {
            year = Some(number);
        }
    }
    let (time, day, month) = (time?, day?, month?);
    let year = match year? {
        year @ 70..=99 => year.saturating_add(1900),
        year @ 0..=69 => year.saturating_add(2000),
        year => year,
    };
    let is_valid = year >= 1601 && (1..=days_in(year, month)).contains(&day);
    is_valid.then(|| {
        days_before(year, month).saturating_add(day).saturating_sub(1).saturating_mul(DAY).saturating_add(time)
    })
}

/// The number that a token begins with, if it has so many digits.
fn number(token: &[u8], least: usize, most: usize) -> Option<i64> {
    let digits = token.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let begin = token.get(..digits).filter(|_| (least..=most).contains(&digits))?;
    core::str::from_utf8(begin).ok()?.parse().ok()
}

/// The seconds of a token such as `15:57:15`.
fn time_of_day(token: &[u8]) -> Option<i64> {
    let mut parts = token.split(|byte| *byte == b':');
    let mut part = |limit| number(parts.next()?, 1, 2).filter(|number| *number < limit);
    let (hours, minutes, seconds) = (part(24)?, part(60)?, part(60)?);
    Some(hours.saturating_mul(3600).saturating_add(minutes.saturating_mul(60)).saturating_add(seconds))
}

const fn is_leap(year: i64) -> bool {
    year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)
}

const fn days_in(year: i64, month: i64) -> i64 {
    match month {
        4 | 6 | 9 | 11 => 30,
        2 if is_leap(year) => 29,
        2 => 28,
        _ => 31,
    }
}

/// The days from the Unix epoch to the first of a month.
fn days_before(year: i64, month: i64) -> i64 {
    let last = year.saturating_sub(1);
    let leaps = (last / 4).saturating_sub(last / 100).saturating_add(last / 400);
    // 1970 begins 719,162 days after the first day of the calendar.
    let years = last.saturating_mul(365).saturating_add(leaps).saturating_sub(719_162);
    (1..month).fold(years, |days, month| days.saturating_add(days_in(year, month)))
}

/// A `Set-Cookie` header without its value, which has the same effect: for journals. `None` for one that has none.
#[cfg(feature = "journal")]
pub(super) fn masked(line: &[u8], mask: &str) -> Option<Vec<u8>> {
    let read = Line::read(line)?;
    let mut text = [read.name, b"=", mask.as_bytes()].concat();
    for part in line.split(|byte| *byte == b';').skip(1) {
        let name = pair(part).map_or(part, |(name, _)| name).trim_ascii();
        let is_read = ["path", "domain", "secure", "max-age", "expires"]
            .iter()
            .any(|known| name.eq_ignore_ascii_case(known.as_bytes()));
        if is_read {
            text.push(b';');
            text.extend_from_slice(part);
        }
    }
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_read_in_the_forms_that_servers_write() {
        for (text, seconds) in [
            ("Thu, 01 Jan 1970 00:00:00 GMT", Some(0)),
            ("Tue, 05 Nov 2024 00:00:00 GMT", Some(FIRST_DAY)),
            ("Thursday, 01-Jan-70 00:00:01 GMT", Some(1)),
            ("Thu Jan  1 00:01:00 1970", Some(60)),
            ("1 jan 70 0:0:1", Some(1)),
            ("29 Feb 2000 12:00:00", Some(951_825_600)),
            ("Mon, 31 Dec 9999 23:59:59 GMT", Some(253_402_300_799)),
            ("01 Jan 1601 00:00:00", Some(-11_644_473_600)),
            ("01 Jan 1600 00:00:00", None),
            ("29 Feb 2100 12:00:00", None),
            ("00 Jan 2000 12:00:00", None),
            ("01 Jan 2000 24:00:00", None),
            ("01 Jan 2000", None),
            ("", None),
        ] {
            assert_eq!(seconds_of(text.as_bytes()), seconds, "{text}");
        }
    }

    #[cfg(feature = "journal")]
    #[test]
    fn a_masked_cookie_has_the_same_effect() {
        for (line, expected) in [
            ("a=hush", Some("a=redacted")),
            ("a=hush; Path=/; Secure; x=hush; Max-Age=3", Some("a=redacted; Path=/; Secure; Max-Age=3")),
            ("hush", None),
        ] {
            assert_eq!(masked(line.as_bytes(), "redacted").as_deref(), expected.map(str::as_bytes), "{line}");
        }
    }
}
