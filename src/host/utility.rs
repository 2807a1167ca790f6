//! Utility tools, which the host provides for a server's resources and prompts.

use core::fmt;
use serde_json::value::RawValue;

use crate::catalog::ToolHints;
use crate::jsonrpc::Json;
use crate::protocol::Capability;

/// A tool that the host provides for a server's resources or prompts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(rename_all = "snake_case"))]
#[non_exhaustive]
pub enum Utility {
    /// Lists the server's resources and resource templates.
    ListResources,
    /// Reads a resource.
    ReadResource,
    /// Lists the server's prompts.
    ListPrompts,
    /// Gets a prompt with its arguments filled in.
    GetPrompt,
}

impl Utility {
    /// All utility tools.
    pub const ALL: &'static [Self] = &[Self::ListResources, Self::ReadResource, Self::ListPrompts, Self::GetPrompt];

    /// Its own name: `list_resources`, `read_resource`, `list_prompts`, `get_prompt`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::ListResources => "list_resources",
            Self::ReadResource => "read_resource",
            Self::ListPrompts => "list_prompts",
            Self::GetPrompt => "get_prompt",
        }
    }

    /// The capability that the server needs.
    pub const fn capability(self) -> Capability {
        match self {
            Self::ListResources | Self::ReadResource => Capability::Resources,
            Self::ListPrompts | Self::GetPrompt => Capability::Prompts,
        }
    }

    /// Description for the model.
    pub const fn description(self) -> &'static str {
        match self {
            Self::ListResources => "List the resources of this MCP server: their URIs, names and descriptions.",
            Self::ReadResource => "Read a resource of this MCP server by its URI.",
            Self::ListPrompts => "List the prompts of this MCP server: their names, descriptions and arguments.",
            Self::GetPrompt => "Get a prompt of this MCP server by its name, with its arguments filled in.",
        }
    }

    /// Its behaviour: it does not modify anything.
    pub fn hints(self) -> ToolHints {
        ToolHints { read_only: Some(true), ..ToolHints::default() }
    }

    /// The JSON Schema of its arguments.
    pub fn input_schema(self) -> &'static RawValue {
        let schema = match self {
            Self::ListResources | Self::ListPrompts => r#"{"type":"object","properties":{}}"#,
            Self::ReadResource => {
                r#"{"type":"object","properties":{"uri":{"type":"string","description":"The URI of the resource."}},"required":["uri"]}"#
            }
            Self::GetPrompt => {
                r#"{"type":"object","properties":{"name":{"type":"string","description":"The name of the prompt."},"arguments":{"type":"object","description":"The arguments of the prompt by their names.","additionalProperties":{"type":"string"}}},"required":["name"]}"#
            }
        };
        Json::trusted(schema).raw()
    }
}

impl fmt::Display for Utility {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
