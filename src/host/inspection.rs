//! Inspects the texts of a server that a model or a user sees besides its tools: its instructions, prompts, resources and
//! resource templates. [`toolset::choose`](super::toolset::choose) inspects the tools.
//!
//! ```
//! use mcp_proto::Catalog;
//! use mcp_proto::host::inspection::{Item, inspect};
//! use mcp_proto::host::instructions::Sign;
//!
//! let catalog = Catalog::default();
//! let notices = inspect("docs", &catalog, Some("Ask for a page.\u{E0041}\u{E0042}"));
//! let [notice] = &notices[..] else { panic!("{notices:?}") };
//! assert_eq!((notice.server, notice.item, notice.finding.sign), ("docs", Item::Instructions, Sign::Hidden));
//! ```

use alloc::borrow::Cow;
use alloc::boxed::Box;
use alloc::format;
use alloc::vec::Vec;
use core::fmt;
use serde_json::value::RawValue;

use super::instructions::{self, Finding};
use crate::catalog::Catalog;
use crate::jsonrpc::Json;

/// A text that tries to instruct the model, or has invisible characters. The text itself stays as it is.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Notice<'a> {
    /// The server's name in the configuration.
    pub server: &'a str,
    /// What the text belongs to.
    pub item: Item<'a>,
    /// The position in the item: a JSON Pointer (RFC 6901), such as `/description`; empty for instructions.
    pub at: Box<str>,
    /// The finding.
    pub finding: Finding,
}

/// What a text belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Item<'a> {
    /// The server's instructions.
    Instructions,
    /// A prompt, by its name.
    Prompt(&'a str),
    /// A resource, by its URI.
    Resource(&'a str),
    /// A resource template, by its URI template.
    ResourceTemplate(&'a str),
}

/// Names the server, the item and the place. Invisible characters and line ends are left out.
impl fmt::Display for Notice<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { server, item, at, finding } = self;
        let (kind, key) = match item {
            Item::Instructions => ("instructions", ""),
            Item::Prompt(name) => ("prompt ", *name),
            Item::Resource(uri) => ("resource ", *uri),
            Item::ResourceTemplate(template) => ("resource template ", *template),
        };
        let (server, key) = (instructions::visible(server), instructions::visible(key));
        write!(f, "{server}, {kind}{key}")?;
        if !at.is_empty() {
            write!(f, ", {at}")?;
        }
        write!(f, ": {}: {}", finding.sign, finding.excerpt)
    }
}

/// Inspects what a server listed, and its instructions ([`Server::instructions`](crate::Server::instructions)). Titles and
/// descriptions are checked for each [`Sign`](instructions::Sign), names and URIs for invisible characters. The notices are
/// in the order of [`Item`], and in the server's order within it.
pub fn inspect<'a>(server: &'a str, catalog: &'a Catalog, instructions: Option<&'a str>) -> Vec<Notice<'a>> {
    let mut notices = Notices { server, found: Vec::new() };
    notices.text(Item::Instructions, "", instructions.map(Cow::Borrowed));
    for prompt in catalog.prompts() {
        let item = Item::Prompt(prompt.name);
        notices.key(item, "/name", Some(Cow::Borrowed(prompt.name)));
        notices.text(item, "/title", prompt.title);
        notices.text(item, "/description", prompt.description);
        notices.arguments(item, prompt.raw);
    }
    for resource in catalog.resources() {
        let item = Item::Resource(resource.uri);
        notices.key(item, "/uri", Some(Cow::Borrowed(resource.uri)));
        notices.key(item, "/name", resource.name);
        notices.text(item, "/title", resource.title);
        notices.text(item, "/description", resource.description);
    }
    for template in catalog.resource_templates() {
        let item = Item::ResourceTemplate(template.uri_template);
        notices.key(item, "/uriTemplate", Some(Cow::Borrowed(template.uri_template)));
        notices.key(item, "/name", template.name);
        notices.text(item, "/title", template.title);
        notices.text(item, "/description", template.description);
    }
    notices.found
}

struct Notices<'a> {
    server: &'a str,
    found: Vec<Notice<'a>>,
}

impl<'a> Notices<'a> {
    /// Checks a name or a URI.
    fn key(&mut self, item: Item<'a>, at: &str, key: Option<Cow<'a, str>>) {
        let found = key.and_then(|key| instructions::find_hidden(&key));
        self.add(item, at, found);
    }

    /// Checks a text.
    fn text(&mut self, item: Item<'a>, at: &str, text: Option<Cow<'a, str>>) {
        let found = text.map(|text| instructions::find(&text));
        self.add(item, at, found.into_iter().flatten());
    }

    /// Checks the arguments of a prompt.
    fn arguments(&mut self, item: Item<'a>, prompt: &'a RawValue) {
        let arguments = Json::from(prompt).member("arguments").and_then(|arguments| arguments.elements(usize::MAX));
        for (index, argument) in arguments.map(|it| it.kept).unwrap_or_default().into_iter().enumerate() {
            let member = |name| argument.member(name).and_then(Json::as_string);
            self.key(item, &format!("/arguments/{index}/name"), member("name"));
            self.text(item, &format!("/arguments/{index}/title"), member("title"));
            self.text(item, &format!("/arguments/{index}/description"), member("description"));
        }
    }

    fn add(&mut self, item: Item<'a>, at: &str, found: impl IntoIterator<Item = Finding>) {
        let server = self.server;
        self.found.extend(found.into_iter().map(|finding| Notice { server, item, at: at.into(), finding }));
    }
}
