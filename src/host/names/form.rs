//! The serialized form of names (feature `serde`).

use alloc::borrow::Cow;
use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::{Names, Style, Target};

#[derive(Serialize, Deserialize)]
struct StyleForm {
    form: Prefix,
    #[serde(default)]
    hyphens: bool,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Prefix {
    Mcp,
    McpDouble,
    Server,
}

impl Serialize for Style {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let of = |style: Style| *self == style || *self == style.with_hyphens();
        let form = if of(Self::MCP) {
            Prefix::Mcp
        } else if of(Self::MCP_DOUBLE) {
            Prefix::McpDouble
        } else {
            Prefix::Server
        };
        StyleForm { form, hyphens: *self == self.with_hyphens() }.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Style {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let StyleForm { form, hyphens } = StyleForm::deserialize(deserializer)?;
        let style = match form {
            Prefix::Mcp => Self::MCP,
            Prefix::McpDouble => Self::MCP_DOUBLE,
            Prefix::Server => Self::SERVER,
        };
        Ok(if hyphens { style.with_hyphens() } else { style })
    }
}

/// The names are those of [`Names::iter`], and are validated as [`Names::restore`] does.
#[derive(Serialize, Deserialize)]
struct Form<Text> {
    style: Style,
    names: Vec<(Text, Text, Target)>,
    #[serde(default = "Vec::new", skip_serializing_if = "Vec::is_empty")]
    reserved: Vec<Text>,
    /// See [`Names::overrides`].
    #[serde(default = "Vec::new", skip_serializing_if = "Vec::is_empty")]
    overrides: Vec<(Text, Text, Text)>,
}

impl Serialize for Names {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let names = self.iter().map(|(name, it)| (name, Cow::Borrowed(it.server), it.target.clone()));
        let reserved = self.reserved().map(Cow::Borrowed).collect();
        let borrowed = |(server, tool, name)| (Cow::Borrowed(server), Cow::Borrowed(tool), Cow::Borrowed(name));
        let overrides = self.overrides().map(borrowed).collect();
        Form { style: self.style(), names: names.collect(), reserved, overrides }.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Names {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let Form::<String> { style, names: known, reserved, overrides } = Form::deserialize(deserializer)?;
        let mut names = Self::new(style);
        names.reserve(reserved);
        let mut by_server = BTreeMap::<_, Vec<_>>::new();
        for (server, tool, name) in &overrides {
            by_server.entry(&**server).or_default().push((&**tool, &**name));
        }
        by_server.into_iter().for_each(|(server, of_server)| names.set_overrides(server, of_server));
        names.restore(known.iter().map(|(name, server, target)| (&**name, &**server, target.clone())));
        Ok(names)
    }
}
