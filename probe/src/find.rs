//! `config --find`: the configuration files of hosts on this machine, and what they would start. Nothing is started.

use std::env;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use http::HeaderMap;
use mcp_proto::host::config::{Configuration, Endpoint, Entry};
use serde::Serialize;

use crate::args::Settings;
use crate::file::{self, Trouble};
use crate::secrets::hidden;
use crate::text::{colours, one_line, pad, print, print_json, status, width};
use crate::text_report::{Page, Style};

/// Where a path begins.
#[derive(Clone, Copy)]
enum Base {
    Home,
    /// Where programs keep their configuration: `~/.config`, `%APPDATA%`, `~/Library/Application Support`.
    Programs,
    /// `~/.config` on macOS too.
    Config,
    /// The current folder, of a project.
    Here,
}

/// The files of hosts. Of one host, those of a project come last.
const FILES: [(&str, Base, &str); 22] = [
    ("Claude Desktop", Base::Programs, "Claude/claude_desktop_config.json"),
    ("Claude Code", Base::Home, ".claude.json"),
    ("Claude Code", Base::Here, ".mcp.json"),
    ("Cursor", Base::Home, ".cursor/mcp.json"),
    ("Cursor", Base::Here, ".cursor/mcp.json"),
    ("VS Code", Base::Programs, "Code/User/mcp.json"),
    ("VS Code", Base::Here, ".vscode/mcp.json"),
    ("Codex", Base::Home, ".codex/config.toml"),
    ("Codex", Base::Here, ".codex/config.toml"),
    ("Zed", Base::Config, "zed/settings.json"),
    ("Zed", Base::Programs, "Zed/settings.json"),
    ("Zed", Base::Here, ".zed/settings.json"),
    ("Gemini CLI", Base::Home, ".gemini/settings.json"),
    ("Gemini CLI", Base::Here, ".gemini/settings.json"),
    ("opencode", Base::Config, "opencode/opencode.json"),
    ("opencode", Base::Config, "opencode/opencode.jsonc"),
    ("opencode", Base::Here, "opencode.json"),
    ("opencode", Base::Here, "opencode.jsonc"),
    ("goose", Base::Config, "goose/config.yaml"),
    ("goose", Base::Programs, "Block/goose/config/config.yaml"),
    ("Windsurf", Base::Home, ".codeium/windsurf/mcp_config.json"),
    ("Windsurf", Base::Programs, "Windsurf/User/mcp.json"),
];

/// Columns of a server's name, and lines of an error or a warning.
const NAMES: usize = 24;
const TROUBLE: usize = 4;

#[derive(Serialize)]
pub(crate) struct Found {
    files: Vec<FoundFile>,
}

#[derive(Serialize)]
struct FoundFile {
    host: &'static str,
    path: PathBuf,
    servers: Vec<FoundServer>,
    /// Why the file cannot be used.
    error: Option<String>,
    errors: Vec<Trouble>,
    warnings: Vec<Trouble>,
}

#[derive(Serialize)]
struct FoundServer {
    name: Box<str>,
    enabled: bool,
    /// The program and its arguments.
    command: Option<Vec<Box<str>>>,
    url: Option<Box<str>>,
    /// The names of the variables that the program gets.
    env: Vec<Box<str>>,
}

/// Finds the files of hosts, and reads them.
pub(crate) fn found() -> Found {
    let mut files: Vec<FoundFile> = Vec::new();
    for (host, base, path) in FILES {
        let Some(path) = base.folder().map(|base| base.join(path)).filter(|path| path.is_file()) else { continue };
        // The project may be the home folder.
        let place = |path: &Path| path.canonicalize().ok();
        if !files.iter().any(|file| place(&file.path) == place(&path)) {
            files.push(FoundFile::new(host, path));
        }
    }
    Found { files }
}

impl Base {
    fn folder(self) -> Option<PathBuf> {
        let of = |name: &str| env::var_os(name).filter(|folder| !folder.is_empty()).map(PathBuf::from);
        let home = || of(if cfg!(windows) { "USERPROFILE" } else { "HOME" });
        let config = || of("XDG_CONFIG_HOME").or_else(|| Some(home()?.join(".config")));
        match self {
            Self::Home => home(),
            Self::Config => config(),
            Self::Programs if cfg!(windows) => of("APPDATA"),
            Self::Programs if cfg!(target_os = "macos") => Some(home()?.join("Library/Application Support")),
            Self::Programs => config(),
            Self::Here => Some(PathBuf::new()),
        }
    }
}

impl FoundFile {
    fn new(host: &'static str, path: PathBuf) -> Self {
        let mut file = Self { host, path, servers: Vec::new(), error: None, errors: Vec::new(), warnings: Vec::new() };
        // The settings of an editor need not have servers.
        let is_empty = |it: &Configuration| it.servers.is_empty() && it.errors.is_empty();
        let plan = file::read(&file.path).and_then(|configuration| match is_empty(&configuration) {
            true => Ok(None),
            false => file::plan(&file.path, configuration, &[], &HeaderMap::new()).map(Some),
        });
        match plan {
            Err(wrong) => file.error = Some(wrong),
            Ok(None) => {}
            Ok(Some(plan)) => {
                plan.keep_secrets();
                file.servers = plan.configuration.servers.into_iter().map(FoundServer::new).collect();
                (file.errors, file.warnings) = (plan.errors, plan.warnings);
            }
        }
        file
    }
}

impl FoundServer {
    fn new((name, entry): (Box<str>, Entry)) -> Self {
        let mut server = Self { name, enabled: entry.enabled, command: None, url: None, env: Vec::new() };
        match entry.endpoint {
            Endpoint::Stdio(stdio) => {
                server.env = stdio.env.keys().cloned().collect();
                server.command = Some([stdio.command].into_iter().chain(stdio.args).collect());
            }
            Endpoint::Http(http) => server.url = Some(http.url),
            _ => {}
        }
        server
    }

    /// What is started or asked.
    fn target(&self) -> String {
        // A secret is not recognized any more where it is quoted.
        let words =
            self.command.iter().flatten().map(|word| match word.contains(char::is_whitespace) || word.is_empty() {
                true => format!("{:?}", hidden(word)),
                false => word.to_string(),
            });
        self.url.as_deref().map_or_else(|| words.collect::<Vec<_>>().join(" "), str::to_owned)
    }
}

impl Found {
    /// Prints what was found. The exit status is 0 if there is a file, and each can be used.
    pub(crate) fn print(&self, settings: &Settings) -> ExitCode {
        let is_good = |file: &FoundFile| file.error.is_none() && file.errors.is_empty();
        let is_good = !self.files.is_empty() && self.files.iter().all(is_good);
        status(if settings.json { print_json(self) } else { print(&self.text(Page::new(colours()))) }, is_good)
    }

    fn text(&self, mut page: Page) -> String {
        let (files, servers) = (self.files.len(), self.files.iter().map(|file| file.servers.len()).sum::<usize>());
        let found = match files {
            0 => "no configuration file of a host was found".into(),
            _ => format!("{servers} servers in {files} configuration files; nothing was started"),
        };
        let found = page.style(Style::Bold, &found);
        page.line(&found);
        for file in &self.files {
            page.heading(file.host, &one_line(&file.path.display().to_string()));
            let width = file.servers.iter().map(|server| width(&server.name)).max().unwrap_or_default().min(NAMES);
            for server in &file.servers {
                let off = if server.enabled { "" } else { " (disabled)" };
                let env = if server.env.is_empty() {
                    String::new()
                } else {
                    format!("  with {}", one_line(&server.env.join(", ")))
                };
                let line =
                    format!("  {}  {}{env}{off}", pad(&one_line(&server.name), width), one_line(&server.target()));
                page.line(&line);
            }
            if file.servers.is_empty() && file.errors.is_empty() && file.error.is_none() {
                page.line("  no servers");
            }
            let troubles = file.errors.iter().chain(&file.warnings).map(|trouble| &trouble.message);
            for trouble in file.error.iter().chain(troubles) {
                page.block(2, trouble, TROUBLE, Some(Style::Yellow));
            }
        }
        if servers > 0 {
            page.line("\nTo connect to them: mcp-probe config FILE [SERVER ...]");
        }
        page.out
    }
}
