//! Resource templates, expanded (RFC 6570; feature `template`).

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;

use super::ResourceTemplate;
use crate::text::excerpt;

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

impl ResourceTemplate<'_> {
    /// The names of the variables, in the order of the template. One that occurs twice comes twice.
    ///
    /// # Errors
    /// [`TemplateError::TooLong`], [`TemplateError::Syntax`].
    pub fn variables(&self) -> Result<impl Iterator<Item = &str>, TemplateError> {
        let names = |part| match part {
            Part::Literal(_) => None,
            Part::Expression(_, specs) => Some(specs.split(',').flat_map(Spec::read).map(|spec| spec.name)),
        };
        for part in self.parts()? {
            if let Part::Expression(_, specs) = part? {
                specs.split(',').try_for_each(|spec| Spec::read(spec).map(drop))?;
            }
        }
        Ok(self.parts()?.flatten().filter_map(names).flatten())
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
        let values: BTreeMap<&str, Variable<'_>> = values.into_iter().collect();
        let mut uri = Uri(String::new());
        for part in self.parts()? {
            match part? {
                Part::Literal(text) => uri.encode(text, true, usize::MAX)?,
                Part::Expression(style, specs) => uri.expand(&style, specs, &values)?,
            }
        }
        Ok(uri.0)
    }

    fn parts(&self) -> Result<Parts<'_>, TemplateError> {
        let bytes = self.uri_template.len();
        if bytes > LONGEST { Err(TemplateError::TooLong { bytes }) } else { Ok(Parts(self.uri_template)) }
    }
}

/// What the operator of an expression means (RFC 6570, appendix A).
struct Style {
    /// What comes before the first variable.
    first: &'static str,
    separator: &'static str,
    /// Whether values have the names of their variables; then what follows the name of an empty one.
    named: Option<&'static str>,
    /// Whether reserved characters and percent-encoded bytes of a value stay.
    reserved: bool,
}

enum Part<'a> {
    Literal(&'a str),
    /// An expression: its operator, and its variables with their modifiers.
    Expression(Style, &'a str),
}

/// The parts of a template.
struct Parts<'a>(&'a str);

/// A variable in an expression.
struct Spec<'a> {
    name: &'a str,
    modifier: Modifier,
}

enum Modifier {
    None,
    Explode,
    /// The number of characters.
    Prefix(usize),
}

fn syntax<T>(why: &str, text: &str) -> Result<T, TemplateError> {
    Err(TemplateError::Syntax(format!("{why}: `{}`", excerpt(text)).into()))
}

impl<'a> Iterator for Parts<'a> {
    type Item = Result<Part<'a>, TemplateError>;

    fn next(&mut self) -> Option<Self::Item> {
        let text = core::mem::take(&mut self.0);
        if text.is_empty() {
            return None;
        }
        let Some(expression) = text.strip_prefix('{') else {
            let (literal, rest) = text.find('{').and_then(|at| text.split_at_checked(at)).unwrap_or((text, ""));
            self.0 = rest;
            return Some(read_literal(literal));
        };
        let Some((expression, rest)) = expression.split_once('}') else {
            return Some(syntax("an expression is not closed", text));
        };
        self.0 = rest;
        let (style, specs) = Style::of(expression);
        Some(Ok(Part::Expression(style, specs)))
    }
}

impl Style {
    /// The style of an expression, and its variables.
    fn of(expression: &str) -> (Self, &str) {
        let style = |first, separator, named, reserved| Self { first, separator, named, reserved };
        let style = match expression.as_bytes().first() {
            Some(b'+') => style("", ",", None, true),
            Some(b'#') => style("#", ",", None, true),
            Some(b'.') => style(".", ".", None, false),
            Some(b'/') => style("/", "/", None, false),
            Some(b';') => style(";", ";", Some(""), false),
            Some(b'?') => style("?", "&", Some("="), false),
            Some(b'&') => style("&", "&", Some("="), false),
            // The names of variables begin with none of the reserved operators.
            _ => return (style("", ",", None, false), expression),
        };
        (style, expression.get(1..).unwrap_or_default())
    }
}

impl<'a> Spec<'a> {
    fn read(text: &'a str) -> Result<Self, TemplateError> {
        let (name, modifier) = match (text.strip_suffix('*'), text.split_once(':')) {
            (Some(name), _) => (name, Modifier::Explode),
            (None, None) => (text, Modifier::None),
            (None, Some((name, length))) => {
                let is_length = (1..=4).contains(&length.len())
                    && length.bytes().all(|byte| byte.is_ascii_digit())
                    && !length.starts_with('0');
                match length.parse() {
                    Ok(length) if is_length => (name, Modifier::Prefix(length)),
                    _ => return syntax("not a length of a prefix", text),
                }
            }
        };
        if name.split('.').all(is_name) { Ok(Self { name, modifier }) } else { syntax("not a variable", text) }
    }
}

/// Whether the text is a part of a variable's name.
fn is_name(text: &str) -> bool {
    !text.is_empty() && is_made_of(text, |character| character.is_ascii_alphanumeric() || character == '_')
}

fn read_literal(text: &str) -> Result<Part<'_>, TemplateError> {
    let is_allowed = |character: char| match character {
        '"' | '%' | '<' | '>' | '\\' | '^' | '`' | '|' | '}' => false,
        '!'..='~' | '\u{a0}'.. => true,
        _ => false,
    };
    if is_made_of(text, is_allowed) { Ok(Part::Literal(text)) } else { syntax("it has an invalid character", text) }
}

/// Whether a text consists of such characters and of percent-encoded bytes.
fn is_made_of(mut text: &str, is_allowed: impl Fn(char) -> bool) -> bool {
    while let Some((piece, byte)) = first(text) {
        if byte.is_none() && !piece.chars().all(&is_allowed) {
            return false;
        }
        text = text.get(piece.len()..).unwrap_or_default();
    }
    true
}

/// The first character of a text, or its first percent-encoded byte with the value.
fn first(text: &str) -> Option<(&str, Option<u8>)> {
    if let [b'%', high, low, ..] = text.as_bytes()
        && let (Some(high), Some(low)) = (char::from(*high).to_digit(16), char::from(*low).to_digit(16))
    {
        return Some((text.get(..3)?, u8::try_from(high.checked_mul(16)?.checked_add(low)?).ok()));
    }
    Some((text.get(..text.chars().next()?.len_utf8())?, None))
}

/// A URI of bounded length.
struct Uri(String);

impl Uri {
    fn push(&mut self, text: &str) -> Result<(), TemplateError> {
        if self.0.len().saturating_add(text.len()) > LONGEST {
            return Err(TemplateError::UriTooLong);
        }
        self.0.push_str(text);
        Ok(())
    }

    /// Appends the first `most` characters of a text, encoded.
    fn encode(&mut self, mut text: &str, reserved: bool, most: usize) -> Result<(), TemplateError> {
        let mut left = most;
        while let Some((piece, byte)) = first(text) {
            let (piece, byte) = match byte {
                Some(_) if !reserved => ("%", None),
                _ => (piece, byte),
            };
            // The encoded bytes of a character count once.
            if !matches!(byte, Some(0x80..=0xbf)) {
                match left.checked_sub(1) {
                    Some(after) => left = after,
                    None => return Ok(()),
                }
            }
            let stays = |byte: u8| {
                byte.is_ascii_alphanumeric()
                    || b"-._~".contains(&byte)
                    || (reserved && b":/?#[]@!$&'()*+,;=".contains(&byte))
            };
            if byte.is_some() || piece.bytes().all(stays) {
                self.push(piece)?;
            } else {
                piece.bytes().try_for_each(|byte| self.push(&format!("%{byte:02X}")))?;
            }
            text = text.get(piece.len()..).unwrap_or_default();
        }
        Ok(())
    }

    /// Appends an expression.
    fn expand(
        &mut self,
        style: &Style,
        specs: &str,
        values: &BTreeMap<&str, Variable<'_>>,
    ) -> Result<(), TemplateError> {
        let mut before = style.first;
        for spec in specs.split(',') {
            let Spec { name, modifier } = Spec::read(spec)?;
            let value = match values.get(name) {
                None | Some(Variable::List([]) | Variable::Map([])) => continue,
                Some(value) => *value,
            };
            self.push(before)?;
            before = style.separator;
            match (value, modifier) {
                (Variable::Text(text), modifier) => {
                    let most = if let Modifier::Prefix(most) = modifier { most } else { usize::MAX };
                    self.name(style, name, text.is_empty())?;
                    self.encode(text, style.reserved, most)?;
                }
                (Variable::List(list), Modifier::None) => {
                    self.name(style, name, matches!(list, [""]))?;
                    self.join(list, ",", |uri, text| uri.encode(text, style.reserved, usize::MAX))?;
                }
                (Variable::List(list), Modifier::Explode) => {
                    self.join(list, style.separator, |uri, text| {
                        uri.name(style, name, text.is_empty())?;
                        uri.encode(text, style.reserved, usize::MAX)
                    })?;
                }
                (Variable::Map(map), Modifier::None) => {
                    self.name(style, name, false)?;
                    self.join(map, ",", |uri, (key, value)| uri.pair(style, key, ",", value))?;
                }
                (Variable::Map(map), Modifier::Explode) => {
                    self.join(map, style.separator, |uri, (key, value)| {
                        let equals = style.named.filter(|_| value.is_empty()).unwrap_or("=");
                        uri.pair(style, key, equals, value)
                    })?;
                }
                (Variable::List(_) | Variable::Map(_), Modifier::Prefix(_)) => {
                    let why = format!("`{}` is not a text, and only a text has a prefix", excerpt(name));
                    return Err(TemplateError::Value(why.into()));
                }
            }
        }
        Ok(())
    }

    /// Appends the name of a variable and what follows it, if the style has names.
    fn name(&mut self, style: &Style, name: &str, is_empty: bool) -> Result<(), TemplateError> {
        let Some(if_empty) = style.named else { return Ok(()) };
        self.push(name)?;
        self.push(if is_empty { if_empty } else { "=" })
    }

    fn pair(&mut self, style: &Style, key: &str, between: &str, value: &str) -> Result<(), TemplateError> {
        self.encode(key, style.reserved, usize::MAX)?;
        self.push(between)?;
        self.encode(value, style.reserved, usize::MAX)
    }

    fn join<T: Copy>(
        &mut self,
        values: &[T],
        separator: &str,
        mut append: impl FnMut(&mut Self, T) -> Result<(), TemplateError>,
    ) -> Result<(), TemplateError> {
        for (at, value) in values.iter().enumerate() {
            if at > 0 {
                self.push(separator)?;
            }
            append(self, *value)?;
        }
        Ok(())
    }
}
