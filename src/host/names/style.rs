use alloc::string::String;

/// How an exposed name is formed from a server's name and a tool's.
///
/// The user names servers, so the name shows the model which server a tool belongs to. Some providers require that a
/// name begins with a letter or `_`; with [`SERVER`](Self::SERVER) that depends on the server's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Style {
    pub(super) prefix: &'static str,
    pub(super) between: &'static str,
    hyphens: bool,
}

impl Default for Style {
    fn default() -> Self {
        Self::MCP
    }
}

impl Style {
    /// `mcp_<server>_<tool>`, the default.
    pub const MCP: Self = Self { prefix: "mcp_", between: "_", hyphens: false };
    /// `mcp__<server>__<tool>`.
    pub const MCP_DOUBLE: Self = Self { prefix: "mcp__", between: "__", hyphens: false };
    /// `<server>_<tool>`.
    pub const SERVER: Self = Self { prefix: "", between: "_", hyphens: false };

    /// The style with `-` allowed.
    #[must_use]
    pub const fn with_hyphens(self) -> Self {
        Self { hyphens: true, ..self }
    }

    /// The plain name in this style: characters replaced, not shortened, without regard to other names.
    ///
    /// ```
    /// use mcp_proto::host::names::Style;
    ///
    /// assert_eq!(Style::MCP.plain("my-api", "größe"), "mcp_my_api_gr__e");
    /// assert_eq!(Style::MCP_DOUBLE.with_hyphens().plain("my-api", "get.it"), "mcp__my-api__get_it");
    /// ```
    pub fn plain(self, server: &str, tool: &str) -> String {
        let Self { prefix, between, .. } = self;
        let length = [prefix, server, between, tool].iter().map(|part| part.len()).sum();
        let mut name = String::with_capacity(length);
        name.push_str(prefix);
        self.push(&mut name, server);
        name.push_str(between);
        self.push(&mut name, tool);
        name
    }

    /// A name with each character replaced that is not allowed.
    pub(super) fn replaced(self, name: &str) -> String {
        let mut replaced = String::with_capacity(name.len());
        self.push(&mut replaced, name);
        replaced
    }

    fn push(self, name: &mut String, part: &str) {
        if self.allows(part) {
            name.push_str(part);
        } else {
            name.extend(part.chars().map(|char| self.allowed(char)));
        }
    }

    /// Whether no character of a name has to be replaced.
    pub(super) fn allows(self, name: &str) -> bool {
        name.bytes().all(|byte| self.allows_byte(byte))
    }

    const fn allows_byte(self, byte: u8) -> bool {
        byte.is_ascii_alphanumeric() || byte == b'_' || self.hyphens && byte == b'-'
    }

    const fn allowed(self, char: char) -> char {
        if char.is_ascii() && self.allows_byte(char as u8) { char } else { '_' }
    }
}
