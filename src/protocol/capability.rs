use alloc::boxed::Box;
use serde_json::value::RawValue;

use crate::jsonrpc::Json;

/// A capability that a server can declare.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Capability {
    /// `tools/*`
    Tools,
    /// `prompts/*`
    Prompts,
    /// `resources/*`
    Resources,
    /// `logging/setLevel`
    Logging,
    /// `completion/complete`
    Completions,
}

impl Capability {
    const ALL: [Self; 5] = [Self::Tools, Self::Prompts, Self::Resources, Self::Logging, Self::Completions];

    const fn bit(self) -> u8 {
        1 << self as u8
    }

    /// The capability's name on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Tools => "tools",
            Self::Prompts => "prompts",
            Self::Resources => "resources",
            Self::Logging => "logging",
            Self::Completions => "completions",
        }
    }

    /// The capability that a server must declare to have the method; `None` if the method needs none, or is not an MCP
    /// method.
    pub fn needed_for(method: &str) -> Option<Self> {
        const PREFIXES: [(&str, Capability); 5] = [
            ("tools/", Capability::Tools),
            ("resources/", Capability::Resources),
            ("prompts/", Capability::Prompts),
            ("completion/", Capability::Completions),
            ("logging/", Capability::Logging),
        ];
        PREFIXES.iter().find(|(prefix, _)| method.starts_with(prefix)).map(|(_, capability)| *capability)
    }
}

/// The server's declared capabilities: raw JSON with typed accessors.
#[derive(Clone, Debug)]
pub struct ServerCapabilities {
    raw: Box<RawValue>,
    /// One bit per declared capability, because each request checks one.
    declared: u8,
}

impl ServerCapabilities {
    /// Reads the capabilities of a result; `None` if they are not an object.
    pub(crate) fn read(json: Json<'_>) -> Option<Self> {
        let mut declared = 0;
        json.members(|name, value| {
            let named = Capability::ALL.into_iter().find(|capability| capability.as_str() == name);
            let bit = named.map_or(0, Capability::bit);
            declared = if declares(value) { declared | bit } else { declared & !bit };
        });
        json.is_object().then(|| Self { raw: json.to_raw(), declared })
    }

    /// The capabilities as the server wrote them.
    pub fn raw(&self) -> &RawValue {
        &self.raw
    }

    /// Whether the server declares the capability. `null` and `false` do not declare it; any other value does, without
    /// options if it is not an object.
    pub fn has(&self, capability: Capability) -> bool {
        self.declared & capability.bit() != 0
    }

    /// Whether the server announces changes to the capability's lists (`listChanged`).
    pub fn list_changed(&self, capability: Capability) -> bool {
        self.option(capability, "listChanged")
    }

    /// Whether the server supports subscriptions to single resources (`resources.subscribe`).
    pub fn subscribe(&self) -> bool {
        self.option(Capability::Resources, "subscribe")
    }

    /// Calls `each` with the name and value of every capability that is not an object.
    pub(crate) fn odd_shapes(&self, mut each: impl FnMut(&str, &str)) {
        self.json().members(|name, value| {
            if !value.is_object() {
                each(name, value.text());
            }
        });
    }

    fn option(&self, capability: Capability, name: &str) -> bool {
        self.json()
            .member(capability.as_str())
            .and_then(|value| value.member(name))
            .is_some_and(|value| value.text() == "true")
    }

    fn json(&self) -> Json<'_> {
        Json::from(&*self.raw)
    }
}

fn declares(value: Json<'_>) -> bool {
    !matches!(value.text(), "null" | "false")
}
