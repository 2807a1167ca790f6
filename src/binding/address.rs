use alloc::format;
use alloc::string::String;

/// An address without what may be secret in it: who asks, and the query.
pub(crate) fn shown(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else { return "…".into() };
    let (rest, query) = rest.split_once(['?', '#']).map_or((rest, ""), |(rest, _)| (rest, "?…"));
    // The last one: a password that is written as it is may have any character in it.
    let (user, rest) = rest.rsplit_once('@').map_or(("", rest), |(_, rest)| ("…@", rest));
    format!("{scheme}://{user}{rest}{query}")
}
