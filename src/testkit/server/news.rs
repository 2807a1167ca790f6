//! What a server sends unasked: changes, notifications and server requests.

use std::string::String;
use std::vec::Vec;

use serde_json::{Map, Value, json};

use super::asked::Asked;
use super::meta::SUBSCRIPTION;
use super::parts::FakeServer;
use crate::protocol::{Family, method};
use crate::testkit::channel::ChannelId;
use crate::testkit::content::{Ask, FakeTool, object};

impl FakeServer {
    /// Replaces the tools, and announces it.
    pub fn set_tools(&mut self, tools: impl IntoIterator<Item = FakeTool>) {
        self.content.tools = Some(tools.into_iter().collect());
        self.list_changed(Family::Tools);
    }

    /// Replaces the prompts, and announces it.
    pub fn set_prompts<'a>(&mut self, names: impl IntoIterator<Item = &'a str>) {
        self.content.prompts = Some(names.into_iter().map(|name| object(json!({"name": name}))).collect());
        self.list_changed(Family::Prompts);
    }

    /// Replaces the resources, and announces it.
    pub fn set_resources<'a>(&mut self, uris: impl IntoIterator<Item = &'a str>) {
        self.content.resources = Some(uris.into_iter().map(|uri| object(json!({"uri": uri, "name": uri}))).collect());
        self.list_changed(Family::Resources);
    }

    /// Announces that a list changed to every client that is to be told: in the legacy era all that are initialized and
    /// have a stream, in the modern one those that listen.
    pub fn list_changed(&mut self, family: Family) {
        let (method, wanted) = match family {
            Family::Tools => (method::TOOLS_LIST_CHANGED, "toolsListChanged"),
            Family::Prompts => (method::PROMPTS_LIST_CHANGED, "promptsListChanged"),
            Family::Resources | Family::ResourceTemplates => (method::RESOURCES_LIST_CHANGED, "resourcesListChanged"),
        };
        self.announce(method, &json!({}), |_| true, |filter| filter.get(wanted) == Some(&Value::Bool(true)));
    }

    /// Announces that a resource changed, to the clients that are subscribed to it.
    pub fn resource_updated(&mut self, uri: &str) {
        let listens = |filter: &Value| {
            let uris = filter.get("resourceSubscriptions").and_then(Value::as_array);
            uris.is_some_and(|uris| uris.iter().any(|known| known.as_str() == Some(uri)))
        };
        self.announce(method::RESOURCE_UPDATED, &json!({"uri": uri}), |uris| uris.contains(&uri), listens);
    }

    /// Sends a notification to every client of the legacy era that is initialized and has a stream.
    pub fn notify(&mut self, method: &str, params: &Value) {
        self.announce(method, params, |_| true, |_| false);
    }

    /// Sends a server request to every client of the legacy era that is initialized and has a stream. The responses are
    /// [`answers`](Self::answers).
    pub fn ask(&mut self, ask: &Ask) {
        let streams = self.state.sessions.iter().filter(|(_, session)| session.is_initialized);
        let streams: Vec<_> = streams.filter_map(|(key, session)| Some((*key, session.stream?))).collect();
        for (session, channel) in streams {
            self.ask_on(channel, session, None, ask);
        }
    }

    fn announce(
        &mut self,
        method: &str,
        params: &Value,
        subscribes: impl Fn(&[&str]) -> bool,
        listens: impl Fn(&Value) -> bool,
    ) {
        let mut to: Vec<(ChannelId, Value)> = Vec::new();
        for session in self.state.sessions.values().filter(|session| session.is_initialized) {
            let uris: Vec<_> = session.subscribed.iter().map(String::as_str).collect();
            to.extend(session.stream.filter(|_| subscribes(&uris)).map(|stream| (stream, params.clone())));
        }
        for listen in self.state.listens.iter().filter(|listen| listens(&listen.filter)) {
            let mut params = object(params.clone());
            params.insert("_meta".into(), json!({SUBSCRIPTION: listen.id}));
            to.push((listen.channel, Value::Object(params)));
        }
        for (channel, params) in to {
            self.tell(channel, json!({"jsonrpc": "2.0", "method": method, "params": params}));
        }
    }

    /// Agrees to a stream of `subscriptions/listen`, as far as the capabilities go.
    pub(super) fn agree(&mut self, asked: Asked<'_>) -> Value {
        let wanted = asked.params().get("notifications").and_then(Value::as_object).cloned().unwrap_or_default();
        let declared = self.declared();
        let has = |capability: &str, option: &str| {
            declared.get(capability).and_then(|it| it.get(option)) == Some(&Value::Bool(true))
        };
        let agreed: Map<String, Value> = wanted
            .into_iter()
            .filter(|(name, _)| match &**name {
                "toolsListChanged" => has("tools", "listChanged"),
                "promptsListChanged" => has("prompts", "listChanged"),
                "resourcesListChanged" => has("resources", "listChanged"),
                "resourceSubscriptions" => has("resources", "subscribe"),
                _ => false,
            })
            .collect();
        let meta = json!({SUBSCRIPTION: asked.id()});
        let params = json!({"_meta": meta, "notifications": agreed});
        self.tell(asked.channel, json!({"jsonrpc": "2.0", "method": method::ACKNOWLEDGED, "params": params}));
        Value::Object(agreed)
    }
}
