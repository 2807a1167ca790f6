//! What a user chooses: from the environment, by `tests/e2e/conformance-client`.

use std::env::var;
use std::error::Error;

/// The grant that the client obtains its token with.
pub(crate) enum Grant {
    /// A user authorizes it.
    User,
    ClientCredentials,
    /// The identity of a workload.
    JwtBearer,
    /// The identity provider of an enterprise.
    Enterprise,
}

/// An argument of a tool whose value is the input schema of another tool.
pub(crate) struct SchemaArgument {
    pub(crate) tool: String,
    pub(crate) argument: String,
    pub(crate) schema_of: String,
}

pub(crate) struct Settings {
    pub(crate) grant: Grant,
    /// Whether each skill of the list is loaded.
    pub(crate) loads_skills: bool,
    pub(crate) schema: Option<SchemaArgument>,
}

impl Settings {
    /// `GRANT` is `user`, `client-credentials`, `jwt-bearer` or `enterprise`; `SKILLS` is `load` or `list`;
    /// `SCHEMA_ARGUMENT` is `TOOL ARGUMENT OTHER-TOOL`. Unset: the first of each, and no such argument.
    pub(crate) fn from_environment() -> Result<Self, Box<dyn Error>> {
        let grant = match var("GRANT").as_deref() {
            Err(_) | Ok("user") => Grant::User,
            Ok("client-credentials") => Grant::ClientCredentials,
            Ok("jwt-bearer") => Grant::JwtBearer,
            Ok("enterprise") => Grant::Enterprise,
            Ok(other) => return Err(format!("GRANT={other}").into()),
        };
        let loads_skills = match var("SKILLS").as_deref() {
            Err(_) | Ok("load") => true,
            Ok("list") => false,
            Ok(other) => return Err(format!("SKILLS={other}").into()),
        };
        let words = var("SCHEMA_ARGUMENT").unwrap_or_default();
        let mut words = words.split_whitespace().map(str::to_owned);
        let schema = match (words.next(), words.next(), words.next()) {
            (Some(tool), Some(argument), Some(schema_of)) => Some(SchemaArgument { tool, argument, schema_of }),
            (None, ..) => None,
            _ => return Err("SCHEMA_ARGUMENT needs three words".into()),
        };
        Ok(Self { grant, loads_skills, schema })
    }
}
