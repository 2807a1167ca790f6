//! What a fake server is and has, and what it counted.

use std::boxed::Box;
use std::string::String;
use std::vec::Vec;

use serde_json::{Value, json};

use super::parts::{FakeServer, State};
#[cfg(feature = "journal")]
use super::playback::Playback;
use crate::testkit::content::{Content, FakeTool, object, text_of};
use crate::testkit::script::{On, Reply, Scripts};
use crate::{Era, ProtocolVersion, ShutdownStep};

impl FakeServer {
    /// A server that speaks these versions, without content. It answers what it has not with -32601.
    pub fn new(versions: impl IntoIterator<Item = ProtocolVersion>) -> Self {
        Self {
            info: json!({"name": "fake", "version": "1.0.0"}),
            instructions: None,
            versions: versions.into_iter().collect(),
            capabilities: None,
            content: Content::default(),
            page_size: 0,
            handlers: Vec::new(),
            scripts: Scripts::default(),
            with_sessions: true,
            with_stream: true,
            answers_by_stream: false,
            resumes: false,
            exits_at: ShutdownStep::CloseInput,
            #[cfg(feature = "journal")]
            playback: Playback::default(),
            state: State::default(),
        }
    }

    /// A server that speaks every version of the legacy era.
    pub fn legacy() -> Self {
        Self::new(ProtocolVersion::ALL.iter().copied().filter(|version| version.era() == Era::Legacy))
    }

    /// A server that speaks every version of the modern era.
    pub fn modern() -> Self {
        Self::new(ProtocolVersion::ALL.iter().copied().filter(|version| version.era() == Era::Modern))
    }

    /// Sets the server's name and version.
    #[must_use]
    pub fn named(mut self, name: &str, version: &str) -> Self {
        self.info = json!({"name": name, "version": version});
        self
    }

    /// Sets the server's instructions.
    #[must_use]
    pub fn instructions(mut self, text: &str) -> Self {
        self.instructions = Some(text.into());
        self
    }

    /// Sets the capabilities, in place of those that the content implies.
    #[must_use]
    pub fn capabilities(mut self, capabilities: Value) -> Self {
        self.capabilities = Some(capabilities);
        self
    }

    /// Adds a tool.
    #[must_use]
    pub fn tool(mut self, tool: FakeTool) -> Self {
        self.content.tools.get_or_insert_default().push(tool);
        self
    }

    /// Adds a prompt of this name. Its result is one message with the name.
    #[must_use]
    pub fn prompt(mut self, name: &str) -> Self {
        self.content.prompts.get_or_insert_default().push(object(json!({"name": name})));
        self
    }

    /// Adds a resource with this URI, which is also its name. Its content is the URI as text.
    #[must_use]
    pub fn resource(mut self, uri: &str) -> Self {
        self.content.resources.get_or_insert_default().push(object(json!({"uri": uri, "name": uri})));
        self
    }

    /// Adds a resource template, whose name is the template.
    #[must_use]
    pub fn template(mut self, template: &str) -> Self {
        self.content.templates.get_or_insert_default().push(object(json!({"uriTemplate": template, "name": template})));
        self
    }

    /// Splits lists into pages of this many items; 0 for one page, the default.
    #[must_use]
    pub const fn page_size(mut self, items: usize) -> Self {
        self.page_size = items;
        self
    }

    /// Answers a method with a function, in place of the content: the parameters in, the result or the error object
    /// out. A function that is added later comes first. Such a request runs unless the function returns an error.
    #[must_use]
    pub fn on(mut self, method: &str, handler: impl FnMut(&Value) -> Result<Value, Value> + 'static) -> Self {
        self.handlers.insert(0, (method.into(), Box::new(handler)));
        self
    }

    /// Answers a method always with this result.
    #[must_use]
    pub fn result(self, method: &str, result: Value) -> Self {
        self.on(method, move |_| Ok(result.clone()))
    }

    /// Answers a method always with this error.
    #[must_use]
    pub fn error(self, method: &str, code: i64, message: &str) -> Self {
        let error = json!({"code": code, "message": message});
        self.on(method, move |_| Err(error.clone()))
    }

    /// Scripts the next requests of a kind: one reply each, then the server answers as it should. Scripts are used up
    /// in the order in which they were added.
    #[must_use]
    pub fn script(mut self, on: On, replies: impl IntoIterator<Item = Reply>) -> Self {
        self.add_script(on, replies);
        self
    }

    /// As [`script`](Self::script), while the server runs.
    pub fn add_script(&mut self, on: On, replies: impl IntoIterator<Item = Reply>) {
        self.scripts.add(on, replies);
    }

    /// Scripts every request of a kind, after the scripts that were added before.
    #[must_use]
    pub fn always(mut self, on: On, reply: Reply) -> Self {
        self.scripts.always(on, reply);
        self
    }

    /// Sets whether the server has sessions over HTTP in the legacy era, with ids; `true` by default.
    #[must_use]
    pub const fn sessions(mut self, has: bool) -> Self {
        self.with_sessions = has;
        self
    }

    /// Sets whether the server has a GET stream over HTTP in the legacy era; `true` by default. Without one, it cannot
    /// announce changes, and answers 405.
    #[must_use]
    pub const fn get_stream(mut self, has: bool) -> Self {
        self.with_stream = has;
        self
    }

    /// Sets whether the server answers requests over HTTP by an event stream where JSON would do; `false` by default.
    #[must_use]
    pub const fn streams(mut self, does: bool) -> Self {
        self.answers_by_stream = does;
        self
    }

    /// Sets whether the events of streams over HTTP have ids in the legacy era, and a stream whose connection broke
    /// continues where a client resumes it with `Last-Event-ID`; `false` by default. Responses come by stream then.
    #[must_use]
    pub const fn resumes(mut self, does: bool) -> Self {
        self.resumes = does;
        self
    }

    /// Sets the step of a shutdown at which its processes exit; [`ShutdownStep::CloseInput`] by default.
    #[must_use]
    pub const fn exits_at(mut self, step: ShutdownStep) -> Self {
        self.exits_at = step;
        self
    }

    /// How often a tool ran.
    pub fn tool_runs(&self, name: &str) -> usize {
        self.runs("tools/call", name)
    }

    /// How often a resource was read.
    pub fn resource_reads(&self, uri: &str) -> usize {
        self.runs("resources/read", uri)
    }

    /// How often a prompt was delivered.
    pub fn prompt_gets(&self, name: &str) -> usize {
        self.runs("prompts/get", name)
    }

    fn runs(&self, method: &str, subject: &str) -> usize {
        self.state.runs.get(&(method.into(), subject.into())).copied().unwrap_or_default()
    }

    /// The names of the tools that ran, with how often each did.
    pub fn all_tool_runs(&self) -> impl Iterator<Item = (&str, usize)> {
        self.all_runs("tools/call")
    }

    /// The URIs of the resources that were read, with how often each was.
    pub fn all_resource_reads(&self) -> impl Iterator<Item = (&str, usize)> {
        self.all_runs("resources/read")
    }

    /// The names of the prompts that were delivered, with how often each was.
    pub fn all_prompt_gets(&self) -> impl Iterator<Item = (&str, usize)> {
        self.all_runs("prompts/get")
    }

    fn all_runs(&self, method: &'static str) -> impl Iterator<Item = (&str, usize)> {
        let runs = self.state.runs.iter().filter(move |((known, _), _)| known == method);
        runs.map(|((_, subject), count)| (subject.as_str(), *count))
    }

    /// How many requests and notifications of this method came, answered or not.
    pub fn received(&self, method: &str) -> usize {
        self.state.methods.get(method).copied().unwrap_or_default()
    }

    /// The requests and notifications that came, in order: the last 65,536.
    pub fn messages(&self) -> impl DoubleEndedIterator<Item = &Value> {
        self.state.log.iter()
    }

    /// The client's responses to server requests, in order: the first 65,536.
    pub fn answers(&self) -> &[Value] {
        &self.state.answers
    }

    /// What the client did against the protocol, in words: the first 256.
    pub fn violations(&self) -> &[String] {
        &self.state.violations
    }

    /// The names of the tools.
    pub fn tool_names(&self) -> impl Iterator<Item = &str> {
        self.content.tools.iter().flatten().map(FakeTool::name)
    }

    /// The tool of this name.
    pub fn find_tool(&self, name: &str) -> Option<&FakeTool> {
        self.content.tool(name)
    }

    /// The URIs of the resources.
    pub fn resource_uris(&self) -> impl Iterator<Item = &str> {
        self.content.resources.iter().flatten().map(|resource| text_of(resource, "uri"))
    }

    /// The names of the prompts.
    pub fn prompt_names(&self) -> impl Iterator<Item = &str> {
        self.content.prompts.iter().flatten().map(|prompt| text_of(prompt, "name"))
    }
}
