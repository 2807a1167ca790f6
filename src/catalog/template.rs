//! Resource templates, expanded (RFC 6570; feature `template`).

use alloc::boxed::Box;
use alloc::string::{String, ToString};
use core::fmt::{self, Write};

use iri_string::spec::UriSpec;
use iri_string::template::UriTemplateStr;
use iri_string::template::simple_context::{SimpleContext, Value};

use super::ResourceTemplate;

/// Maximum bytes of a template, and of a URI.
const LONGEST: usize = 64 << 10;

/// The value of a variable in a URI template (RFC 6570, section 2.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Variable<'a> {
    /// A text.
    Text(&'a str),
    /// A list.
    List(&'a [&'a str]),
    /// Pairs of names and values.
    Map(&'a [(&'a str, &'a str)]),
}

/// Why a URI template is not expanded.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(tag = "type", content = "value", rename_all = "snake_case")
)]
#[non_exhaustive]
pub enum TemplateError {
    /// It is longer than 64 KiB.
    #[error("the URI template has {bytes} bytes, more than {LONGEST}")]
    TooLong {
        /// Its length in bytes.
        bytes: usize,
    },
    /// It is not a URI template.
    #[error("not a URI template: {0}")]
    Syntax(Box<str>),
    /// A variable has a value that its expression does not take, such as a list with a prefix length.
    #[error("a variable has a value that its expression does not take: {0}")]
    Value(Box<str>),
    /// The URI would be longer than 64 KiB.
    #[error("the expanded URI template has more than {LONGEST} bytes")]
    UriTooLong,
}

/// A text of bounded length.
struct Bounded {
    text: String,
    full: bool,
}

impl Write for Bounded {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        if self.text.len().saturating_add(text.len()) > LONGEST {
            self.full = true;
            return Err(fmt::Error);
        }
        self.text.push_str(text);
        Ok(())
    }
}

impl ResourceTemplate<'_> {
    /// The names of the variables, in the order of the template. One that occurs twice comes twice.
    ///
    /// # Errors
    /// [`TemplateError::TooLong`], [`TemplateError::Syntax`].
    pub fn variables(&self) -> Result<impl Iterator<Item = &str>, TemplateError> {
        Ok(self.template()?.variables().map(|variable| variable.as_str()))
    }

    /// The URI with these values of the variables (specification 2026-07-28, "Resources", Resource Templates). A variable
    /// without a value is left out, as RFC 6570 says. The values come from users or models, and are encoded; whether the
    /// URI is one that may be read is for the embedder to check.
    ///
    /// # Errors
    /// [`TemplateError`].
    pub fn expand<'v>(
        &self,
        values: impl IntoIterator<Item = (&'v str, Variable<'v>)>,
    ) -> Result<String, TemplateError> {
        let template = self.template()?;
        let mut context = SimpleContext::new();
        for (name, value) in values {
            let value = match value {
                Variable::Text(text) => Value::String(text.into()),
                Variable::List(list) => Value::List(list.iter().map(|text| (*text).into()).collect()),
                Variable::Map(map) => {
                    Value::Assoc(map.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect())
                }
            };
            context.insert(name, value);
        }
        let expanded = template.expand::<UriSpec, _>(&context);
        let expanded = expanded.map_err(|error| TemplateError::Value(error.to_string().into()))?;
        let mut uri = Bounded { text: String::new(), full: false };
        match write!(uri, "{expanded}") {
            Ok(()) => Ok(uri.text),
            Err(_) if uri.full => Err(TemplateError::UriTooLong),
            Err(error) => Err(TemplateError::Value(error.to_string().into())),
        }
    }

    fn template(&self) -> Result<&UriTemplateStr, TemplateError> {
        let bytes = self.uri_template.len();
        if bytes > LONGEST {
            return Err(TemplateError::TooLong { bytes });
        }
        UriTemplateStr::new(self.uri_template).map_err(|error| TemplateError::Syntax(error.to_string().into()))
    }
}
