//! The command line: options, servers, and the steps, answers and credentials that they give.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};
use http::{HeaderMap, HeaderName, HeaderValue, Uri};
use mcp_proto::binding::oauth::{Flow, OAuthOptions, RegisteredClient, Secret};
use mcp_proto::{Eras, Keepalive, Options, ProtocolVersion, Reconnect, Request};
use mcp_proto_tokio::Remote;
use serde_json::value::RawValue;

use crate::raw::{self, Members};
use crate::secrets::{self, Given};

const ABOUT: &str = "probe: connects to an MCP server, and reports what it is, what it offers and what it gets wrong\n";

/// What follows the options, and what it means.
const USAGE: [(&str, &str); 6] = [
    ("", "                                the demo server, which probe brings along"),
    (
        "stdio",
        "stdio -- COMMAND [ARG ...]      a server as a child process. What is no subcommand is a\n\
         \u{20}                                                        command: npx -y SERVER",
    ),
    ("http", "http URL                        Streamable HTTP, or a server of the older HTTP+SSE transport"),
    (
        "auth",
        "auth URL                        what a sign-in at a server over HTTP does, and what would fail:\n\
         \u{20}                                                        without a browser or a registration",
    ),
    (
        "config",
        "config FILE [SERVER ...]        servers from a configuration file, side by side:\n\
         \u{20}                                                        all of them, or these\n  \
         mcp-probe [OPTION ...] config --find                   the configuration files of hosts on this machine, and\n\
         \u{20}                                                        what they would start; nothing is started",
    ),
    ("help", "help [SUBCOMMAND]               print this, or what is about one of these"),
];

const OPTIONS_HELP: &str = "
options:
  --json                      one JSON report on standard output, and nothing else there
  --era auto|legacy|modern    which protocol eras to try (auto)
  --timeout SECONDS           bound on the whole run (60, and what --watch takes beside it)
  --call NAME                 after discovery, call this tool
  --read URI                  after discovery, read this resource
  --prompt NAME               after discovery, get this prompt; all three may repeat, and run in the order given,
                              one after the other
  --args JSON                 the arguments of the --call or --prompt before it, a JSON object ({}); those of a
                              prompt are strings
  --answer KEY=JSON           the whole result to give to an elicitation or sampling request, each time it comes;
                              KEY is the key of the input request (modern) or the method (either era), the key
                              before the method; may repeat. Without one, elicitation is declined, and sampling
                              not offered: it is with KEY sampling/createMessage, or with a JSON that has a
                              `model`, as every result of sampling must
  --watch SECONDS             stay connected for so long after the calls: keep alive, connect again when the
                              connection is lost, subscribe to the resources listed, and tell on standard error
                              what happens (0)
  --inherit-env               with `config`, programs get all of this process's environment; else what their entry
                              allows: `env`, and a few variables such as PATH and HOME
  --header 'Name: value'      an HTTP header on every request, a bearer token say; may repeat. No output has its value
                              in it, if that has 8 bytes or more, whoever repeats it
  --journal FILE              write what goes in and out of the library, with its time, as its journal: each message
                              in full, but no value of --header and no password in a URL of 8 bytes or more, no
                              session id, and nothing secret of --oauth
  --replay FILE               with no subcommand: feed a journal back instead of connecting; the same report, and an
                              error where what the library does differs. Only --json goes with it
  --diagram                   print the exchange as a Mermaid sequence diagram, after the report;
                              with --json on standard error
  --help, --version           print this, or the version

sign-in:
  --oauth                     obtain a token where the server demands one: standard error gets a line `open: URL`, and
                              the command in BROWSER is run with the URL; the redirect comes to
                              http://127.0.0.1:PORT/callback, or as a pasted line on standard input. With `config`,
                              the servers with `auth: oauth` need no option
  --oauth-port PORT           the redirect's port (any that is free)
  --client-id ID              a client that was registered in advance
  --client-secret SECRET      its secret; better in the environment, as MCP_CLIENT_SECRET
  --issuer URL                the authorization server, which a client with a secret needs: no other one gets it
  --grant client-credentials  with these, without a user
  --client-metadata URL       the client ID metadata document
  --scope 'A B'               asked for in place of what the server says
  --tokens FILE               credentials are kept there, readable by their owner alone, and shared with other
                              processes (in memory)
  --account NAME              the name under which they are kept, beside the URL (none); `config` uses the entry's
  --sign-out                  at the end give the credentials of the run up: they are removed from that file, and
                              revoked where the authorization server supports it
";

const CONFIG_HELP: &str = "
config:
  FILE is JSON, with comments too, YAML or TOML, with servers under `mcp_servers` or `mcpServers`, or as VS Code,
  Codex, Zed, opencode, goose and Claude Code have them; `${NAME}` in an entry is replaced by the environment's
  variable. No output has the values of `headers` in it, nor those of variables whose names end with KEY, TOKEN,
  SECRET, PASSWORD, PASSWD, PASSPHRASE, PASS, PWD, CREDENTIAL, CREDENTIALS, AUTH, JWT, COOKIE, _PAT or _PEM, nor a
  line of these, if they have 8 bytes or more. A variable's value that is a common word (postgres), or in the name of
  a server, is no secret. Beside the servers it is reported what a model would get of them all. --call takes a tool's
  exposed name; --read, --prompt, --watch and --diagram are for one server. The JSON report has
    servers        by name, for each the report that it would have alone; `disabled` is the outcome of one that is
                   turned off, `configuration` the kind of failure of one whose entry has an error. `exposedName` is
                   the name in the toolset, null for a tool that is left out
    toolset        name, server, tool (its own name), renamed (characters, too-long, taken, configured),
                   description, inputSchema
    leftOut        server, tool, why
    suspicious     server, tool, at, sign, excerpt: texts that try to instruct the model
    calls          server, and what a call's report has
    configuration  errors, warnings: server, key, message
";

const AUTH_HELP: &str = "
auth:
  Each check of a sign-in as the options of `sign-in` have it, and what to do about the first that fails. Nothing is
  registered. The JSON report has `steps` (stage, request, status, finding), `registration` (the ways that would work)
  and `verdict`. The exit status is 0 if a token is not needed, or can be obtained.
";

const STATUS_HELP: &str = "
exit status:
  0  the session became ready, and every call, read and prompt was answered with a result; of a file's servers, every
     one that is chosen and not disabled
  1  not so
  2  wrong usage, or a configuration file that cannot be read
";

/// The help, or what of it is about a subcommand.
pub(crate) fn help(topic: Option<&str>) -> String {
    let is_about = |name: &str| topic.is_none_or(|topic| topic == name);
    let usage = USAGE.iter().filter(|(name, _)| is_about(name));
    let usage: String = usage.map(|(_, text)| format!("  mcp-probe [OPTION ...] {text}\n")).collect();
    let part = |name, text| if is_about(name) { text } else { "" };
    let (config, auth) = (part("config", CONFIG_HELP), part("auth", AUTH_HELP));
    format!("{ABOUT}\nusage:\n{usage}{OPTIONS_HELP}{config}{auth}{STATUS_HELP}")
}

/// The parsed command line.
pub(crate) enum Invocation {
    /// Print the help or the version.
    Print(String),
    /// Be the demo server on standard input and output. When it is watched, the number of starts, from 1.
    DemoServer {
        watched: Option<u32>,
    },
    Do(Box<Settings>, Task),
}

pub(crate) enum Task {
    Run(Target),
    /// Replay a journal.
    Replay(PathBuf),
    /// Report what a sign-in at this URL would do.
    Auth(String),
    /// The named servers of a file; all if none is named.
    RunAll(PathBuf, Vec<String>),
    /// Report the files of hosts on this machine.
    Find,
}

pub(crate) struct Settings {
    pub(crate) json: bool,
    pub(crate) diagram: bool,
    /// The programs of a file get all of this process's environment.
    pub(crate) inherits_env: bool,
    pub(crate) eras: Eras,
    pub(crate) timeout: Duration,
    pub(crate) steps: Vec<Step>,
    pub(crate) answers: Answers,
    /// How long to stay connected after the steps.
    pub(crate) watch: Option<Duration>,
    /// Headers of every HTTP request.
    pub(crate) headers: HeaderMap,
    /// Where the journal is written.
    pub(crate) journal: Option<PathBuf>,
    pub(crate) oauth: Option<OAuthSettings>,
}

impl Settings {
    /// The secrets for a server, also those in these texts, which no output has from now on.
    pub(crate) fn given<'a>(&self, texts: impl IntoIterator<Item = &'a str>) -> Vec<Given> {
        let given = secrets::given(&self.headers, texts);
        // The library keeps it out of journals.
        let client = self.oauth.as_ref().and_then(|oauth| oauth.client.as_ref());
        client.and_then(|client| client.secret.as_ref()).into_iter().for_each(|secret| secrets::keep(secret.expose()));
        given
    }

    /// The options of a run's sessions.
    pub(crate) fn options(&self) -> Options {
        let mut options = Options::new("mcp-proto-probe", env!("CARGO_PKG_VERSION"));
        options.capabilities.elicitation = true;
        options.capabilities.elicitation_url = self.answers.offer_urls();
        options.capabilities.tasks = true;
        options.capabilities.sampling = self.answers.offer_sampling();
        options.eras = self.eras;
        // A list without an answer leaves time for the other era.
        let half = self.timeout.checked_div(2).unwrap_or(self.timeout);
        options.timeouts.request = options.timeouts.request.min(half);
        // A server that does not answer is told before the time of the run is over.
        let rest = half.saturating_sub(options.timeouts.discover);
        if rest > options.timeouts.discover {
            options.timeouts.handshake = options.timeouts.handshake.min(rest);
        }
        options.reconnect = None;
        if self.watch.is_some() {
            let mut keepalive = Keepalive::default();
            keepalive.interval = Duration::from_secs(5);
            keepalive.timeout = Duration::from_secs(3);
            keepalive.threshold = 2;
            keepalive.discover = true;
            options.keepalive = Some(keepalive);
            let mut reconnect = Reconnect::default();
            reconnect.initial_backoff = Duration::from_millis(250);
            options.reconnect = Some(reconnect);
        }
        options
    }
}

pub(crate) enum Target {
    Demo,
    Stdio {
        program: OsString,
        args: Vec<OsString>,
    },
    /// A server over HTTP; `place` is its host, with the port.
    Http {
        url: String,
        remote: Box<Remote>,
        place: String,
    },
}

impl Target {
    /// What may be a URL with secrets.
    pub(crate) fn texts(&self) -> Vec<&str> {
        match self {
            Self::Demo => Vec::new(),
            Self::Stdio { args, .. } => args.iter().filter_map(|arg| arg.to_str()).collect(),
            Self::Http { url, .. } => vec![url],
        }
    }

    /// The server's name in messages and exposed names.
    pub(crate) fn name(&self) -> String {
        match self {
            Self::Demo => "demo".into(),
            Self::Stdio { program, .. } => {
                Path::new(program).file_name().unwrap_or(program).to_string_lossy().into_owned()
            }
            Self::Http { place, .. } => place.clone(),
        }
    }
}

/// The argument that makes probe the demo server. When watched, the number of starts follows it.
pub(crate) const DEMO_SERVER: &str = "demo-server";

const TIMEOUT: Duration = Duration::from_secs(60);
const STDIO: &str = "stdio needs `--` and then a command: stdio -- COMMAND [ARG ...]";
const URL: &str = "usage: http URL, or auth URL";
/// It is not repeated: it may have a password in it.
const URL_ALONE: &str = "a URL comes after a subcommand: `http URL`";

/// The flag of `config` for the environment of programs.
const INHERIT_ENV: &str = "inherit-env";
/// The flag of `config` that looks for files.
const FIND: &str = "find";

/// The options with a value, except for steps and their options, which run in the order given.
const WITH_VALUE: [&str; 6] = ["era", "timeout", "watch", "header", "journal", "replay"];
const STEPS: [&str; 5] = ["call", "read", "prompt", "args", "answer"];

fn grammar() -> Command {
    // Values are checked later, because a value may begin with a single hyphen.
    let value = |name| Arg::new(name).long(name).value_parser(value_parser!(OsString)).allow_hyphen_values(true);
    let flag = |name| Arg::new(name).long(name).action(ArgAction::SetTrue);
    let words = |name| Arg::new(name).value_parser(value_parser!(OsString)).num_args(1..);
    let sub = |name| Command::new(name).disable_help_flag(true).arg(flag("help").short('h'));
    Command::new("mcp-probe")
        .version(env!("CARGO_PKG_VERSION"))
        .disable_help_flag(true)
        .disable_help_subcommand(true)
        .args_override_self(true)
        .arg(flag("help").short('h'))
        .args(["json", "diagram", INHERIT_ENV, "oauth", SIGN_OUT].map(flag))
        .args(WITH_VALUE.into_iter().chain(STEPS).chain(OPTIONS).map(|name| value(name).action(ArgAction::Append)))
        .subcommand(sub("stdio").arg(words("early")).arg(words("command").last(true)))
        .subcommands(["http", "auth"].map(|name| sub(name).arg(words("url").num_args(1))))
        .subcommand(sub("config").arg(words("file")).arg(flag(FIND)))
        .subcommand(
            sub("help").subcommands(USAGE.iter().filter(|(name, _)| !name.is_empty()).map(|(name, _)| sub(name))),
        )
        .subcommand(sub(DEMO_SERVER).hide(true).arg(Arg::new("count").value_parser(value_parser!(u32)).num_args(1)))
}

pub(crate) fn parse(args: impl Iterator<Item = OsString>) -> Result<Invocation, String> {
    // What is no subcommand is a command.
    let grammar = grammar().allow_external_subcommands(true).external_subcommand_value_parser(value_parser!(OsString));
    let matches = match grammar.no_binary_name(true).try_get_matches_from(args) {
        Ok(matches) => matches,
        Err(error) if error.kind() == ErrorKind::DisplayVersion => return Ok(Invocation::Print(error.to_string())),
        Err(error) => return Err(wrong(&error)),
    };
    match matches.subcommand() {
        Some(("help", about)) => return Ok(Invocation::Print(help(about.subcommand_name()))),
        Some((topic, given)) if is_subcommand(topic) && given.get_flag("help") => {
            return Ok(Invocation::Print(help(Some(topic))));
        }
        Some(_) | None if matches.get_flag("help") => return Ok(Invocation::Print(help(None))),
        Some((word, _)) => meant(word)?,
        None => {}
    }
    let mut steps: Vec<Step> = Vec::new();
    let mut answers = Answers::default();
    for (option, value) in in_order(&matches)? {
        match option {
            "args" => steps.last_mut().ok_or("--args needs a --call or a --prompt before it")?.arguments(&value)?,
            "answer" => answers.add(&value)?,
            _ => steps.extend(Step::new(option, value)),
        }
    }
    let mut headers = HeaderMap::new();
    for given in values(&matches, "header")? {
        let (name, value) = header(&given)?;
        headers.append(name, value);
    }
    let last = |option| values(&matches, option).map(|mut values| values.pop());
    let watch = last("watch")?.map_or(Ok(Duration::ZERO), |given| seconds("--watch", &given))?;
    let timeout = last("timeout")?.map(|given| seconds("--timeout", &given)).transpose()?;
    if timeout.is_some_and(|timeout| timeout.is_zero()) {
        return Err("--timeout needs a number of seconds above 0".into());
    }
    let settings = Settings {
        json: matches.get_flag("json"),
        diagram: matches.get_flag("diagram"),
        inherits_env: matches.get_flag(INHERIT_ENV),
        eras: last("era")?.map_or(Ok(Eras::Auto), |given| era(&given))?,
        timeout: timeout.unwrap_or(TIMEOUT.saturating_add(watch)),
        steps,
        answers,
        watch: Some(watch).filter(|watch| !watch.is_zero()),
        headers,
        journal: last("journal")?.map(Into::into),
        oauth: oauth(&matches)?,
    };
    if let Some(file) = last("replay")? {
        for_replay(&matches)?;
        return Ok(Invocation::Do(Box::new(settings), Task::Replay(file.into())));
    }
    let words = |matches: &ArgMatches, name| -> Vec<OsString> {
        matches.get_many(name).into_iter().flatten().cloned().collect()
    };
    let target = match matches.subcommand() {
        None => Target::Demo,
        // A command needs `--` before it.
        Some(("stdio", given)) if given.contains_id("early") => return Err(STDIO.into()),
        Some(("stdio", given)) => command(words(given, "command"))?,
        Some(("http", given)) => url(&words(given, "url"))?,
        Some(("auth", given)) => {
            for_auth(&matches)?;
            let Target::Http { url, .. } = url(&words(given, "url"))? else { return Err(URL.into()) };
            return Ok(Invocation::Do(Box::new(settings), Task::Auth(url)));
        }
        Some(("config", given)) if given.get_flag(FIND) => {
            if words(given, "file").is_empty() {
                return Ok(Invocation::Do(Box::new(settings), Task::Find));
            }
            return Err("`config --find` takes no file".into());
        }
        Some(("config", given)) => {
            let (file, servers) = config(words(given, "file"))?;
            for_all(&settings)?;
            return Ok(Invocation::Do(Box::new(settings), Task::RunAll(file, servers)));
        }
        Some((DEMO_SERVER, given)) => {
            return Ok(Invocation::DemoServer { watched: given.get_one("count").copied() });
        }
        Some((program, given)) => command([program.into()].into_iter().chain(words(given, "")).collect())?,
    };
    if settings.inherits_env {
        return Err("--inherit-env is for `config`: one command always gets this process's environment".into());
    }
    if !settings.headers.is_empty() && !matches!(target, Target::Http { .. }) {
        return Err("--header needs a server over HTTP".into());
    }
    if settings.oauth.is_some() && !matches!(target, Target::Http { .. }) {
        return Err("--oauth needs a server over HTTP".into());
    }
    Ok(Invocation::Do(Box::new(settings), Task::Run(target)))
}

/// A text that clap adds to an error.
fn context(error: &clap::Error, kind: ContextKind) -> Option<&str> {
    match error.get(kind) {
        Some(ContextValue::String(text)) => Some(text),
        // The best suggestion is the last one.
        Some(ContextValue::Strings(texts)) => texts.last().map(String::as_str),
        Some(_) | None => None,
    }
}

/// The error as one line, with what was probably meant.
fn wrong(error: &clap::Error) -> String {
    let text = |kind| context(error, kind);
    if let (ErrorKind::UnknownArgument, Some(given)) = (error.kind(), text(ContextKind::InvalidArg)) {
        let option = given.split(['=', ' ']).next().unwrap_or_default();
        if grammar().get_arguments().any(|arg| arg.get_long() == option.strip_prefix("--")) {
            return format!("options come before the subcommand: {option:?}");
        }
    }
    let given = text(ContextKind::InvalidSubcommand).or(text(ContextKind::InvalidArg)).unwrap_or_default();
    if given.contains("://") {
        return URL_ALONE.into();
    }
    let message = error.to_string();
    let line = message.lines().next().unwrap_or_default();
    let line = line.strip_prefix("error: ").unwrap_or(line);
    match text(ContextKind::SuggestedSubcommand).or(text(ContextKind::SuggestedArg)) {
        Some(meant) => format!("{line}; was `{meant}` meant?"),
        None => line.into(),
    }
}

fn is_subcommand(word: &str) -> bool {
    word == DEMO_SERVER || !word.is_empty() && USAGE.iter().any(|(name, _)| *name == word)
}

/// What stands in the place of a subcommand is one, or a command, and not a subcommand that is misspelt.
fn meant(word: &str) -> Result<(), String> {
    if is_subcommand(word) {
        return Ok(());
    }
    if word.contains("://") {
        return Err(URL_ALONE.into());
    }
    if word.contains(['/', '\\']) || is_program(word) {
        return Ok(());
    }
    // Without other commands clap says what is similar.
    let error = grammar().no_binary_name(true).try_get_matches_from([word]).err();
    match error.as_ref().and_then(|error| context(error, ContextKind::SuggestedSubcommand)) {
        Some(meant) => Err(format!("there is no subcommand and no program {word:?}; was `{meant}` meant?")),
        None => Ok(()),
    }
}

/// Whether a program of this name is on the PATH.
fn is_program(name: &str) -> bool {
    let endings = std::env::var("PATHEXT").unwrap_or_default();
    let named = |folder: PathBuf| {
        let mut files = endings.split(';').chain([""]).map(|ending| folder.join(format!("{name}{ending}")));
        files.any(|file| file.is_file())
    };
    std::env::var_os("PATH").is_some_and(|path| std::env::split_paths(&path).any(named))
}

/// The values of steps and their options, in the order given.
fn in_order(matches: &ArgMatches) -> Result<Vec<(&'static str, String)>, String> {
    let mut found = BTreeMap::new();
    for option in STEPS {
        let places = matches.indices_of(option).into_iter().flatten();
        found.extend(places.zip(values(matches, option)?).map(|(place, value)| (place, (option, value))));
    }
    Ok(found.into_values().collect())
}

/// The values of an option, in the order given.
fn values(matches: &ArgMatches, option: &str) -> Result<Vec<String>, String> {
    let text = |value: &OsString| {
        let value = value.to_str().ok_or_else(|| format!("--{option}: {} is not UTF-8", shown(value)))?;
        if value.starts_with("--") {
            return Err(format!("--{option} needs a value, and {value} is an option"));
        }
        Ok(value.to_owned())
    };
    matches.get_many(option).into_iter().flatten().map(text).collect()
}

/// Rejects what makes no sense where a journal takes the place of a server.
fn for_replay(matches: &ArgMatches) -> Result<(), String> {
    if let Some(subcommand) = matches.subcommand_name() {
        return Err(format!("--replay FILE takes the place of a server, so `{subcommand}` has no place beside it"));
    }
    let options = WITH_VALUE.into_iter().chain(STEPS).filter(|option| *option != "replay");
    none_of(matches, options.chain(["diagram", INHERIT_ENV, "oauth"]), |option| {
        format!("--replay FILE does what was done when it was recorded; --{option} has no effect")
    })
}

/// What the options of a sign-in say; `None` without one. `config` and `auth` have one of their own.
fn oauth(matches: &ArgMatches) -> Result<Option<OAuthSettings>, String> {
    if !matches.get_flag("oauth") && !matches!(matches.subcommand_name(), Some("auth" | "config")) {
        let options = OPTIONS.into_iter().chain([SIGN_OUT]);
        return none_of(matches, options, |option| format!("--{option} needs --oauth")).map(|()| None);
    }
    let last = |option: &str| values(matches, option).map(|mut values| values.pop());
    let secret = std::env::var("MCP_CLIENT_SECRET").ok().filter(|secret| !secret.is_empty());
    OAuthSettings::read(matches.get_flag(SIGN_OUT), secret, last).map(Some)
}

/// Rejects options that have no effect where nothing is called and no token is obtained.
fn for_auth(matches: &ArgMatches) -> Result<(), String> {
    let options = STEPS.into_iter().chain([
        "watch",
        "journal",
        "diagram",
        INHERIT_ENV,
        "oauth",
        "oauth-port",
        "tokens",
        SIGN_OUT,
    ]);
    none_of(matches, options, |option| {
        format!("--{option} has no effect with `auth`, which calls nothing and obtains no token")
    })
}

fn none_of<'a>(
    matches: &ArgMatches,
    mut options: impl Iterator<Item = &'a str>,
    wrong: impl Fn(&str) -> String,
) -> Result<(), String> {
    options.find(|option| is_given(matches, option)).map_or(Ok(()), |option| Err(wrong(option)))
}

fn is_given(matches: &ArgMatches, option: &str) -> bool {
    matches.value_source(option) == Some(clap::parser::ValueSource::CommandLine)
}

/// Rejects options that make no sense for several servers.
fn for_all(settings: &Settings) -> Result<(), String> {
    let journal = settings.journal.is_some();
    let oauth = settings.oauth.as_ref();
    for (given, option) in [
        (settings.watch.is_some(), "--watch"),
        (settings.diagram, "--diagram"),
        (journal, "--journal"),
        (oauth.is_some_and(|oauth| oauth.signs_out), "--sign-out"),
        (oauth.is_some_and(|oauth| oauth.account.is_some()), "--account"),
    ] {
        if given {
            return Err(format!("{option} is for one server, and not for `config`"));
        }
    }
    if oauth.is_some_and(OAuthSettings::lacks_issuer) {
        return Err("a --client-secret needs the --issuer that it belongs to".into());
    }
    if settings.steps.iter().all(Step::is_call) {
        return Ok(());
    }
    Err("with `config`, --call takes a tool's exposed name, and there is no --read and no --prompt: call \
         mcp_SERVER_read_resource or mcp_SERVER_get_prompt"
        .into())
}

fn command(words: Vec<OsString>) -> Result<Target, String> {
    let mut words = words.into_iter();
    let program = words.next().ok_or(STDIO)?;
    if program.is_empty() {
        return Err("stdio needs a command after `--`".into());
    }
    Ok(Target::Stdio { program, args: words.collect() })
}

fn url(words: &[OsString]) -> Result<Target, String> {
    let given = words.first().ok_or(URL)?;
    let url = given.to_str().ok_or("the URL is not UTF-8")?;
    let remote = Remote::new(url).map_err(|why| {
        // What is before an `@` may be a secret, whatever else is wrong.
        let shown = if url.contains('@') { "the URL, which has user information," } else { &*shown(given) };
        format!("{shown} is not an http or https URL: {why}")
    })?;
    let uri: Option<Uri> = url.parse().ok();
    let authority = uri.as_ref().and_then(Uri::authority).map_or("", |authority| authority.as_str());
    // Text before an `@` is a secret.
    let place = authority.rsplit('@').next().unwrap_or_default().into();
    Ok(Target::Http { url: url.into(), remote: Box::new(remote), place })
}

fn config(words: Vec<OsString>) -> Result<(PathBuf, Vec<String>), String> {
    let mut words = words.into_iter();
    let file =
        words.next().filter(|file| !file.is_empty()).ok_or("usage: config FILE [SERVER ...], or config --find")?;
    let server = |server: OsString| server.into_string().map_err(|server| format!("{} is not UTF-8", shown(&server)));
    Ok((file.into(), words.map(server).collect::<Result<_, _>>()?))
}

fn header(text: &str) -> Result<(HeaderName, HeaderValue), String> {
    let (name, value) = text.split_once(':').ok_or("--header is 'Name: value', and has no colon here")?;
    field(name, value).map_err(|wrong| format!("--header {:?}: {wrong}", name.trim()))
}

/// A header whose value may be a secret: the message omits it.
pub(crate) fn field(name: &str, value: &str) -> Result<(HeaderName, HeaderValue), &'static str> {
    let name = HeaderName::try_from(name.trim()).map_err(|_| "no header can have this name")?;
    let value = HeaderValue::try_from(value.trim());
    let mut value = value.map_err(|_| "the value has characters that no header can have; remove them")?;
    value.set_sensitive(true);
    Ok((name, value))
}

fn era(text: &str) -> Result<Eras, String> {
    match text {
        "auto" => Ok(Eras::Auto),
        "legacy" => Ok(Eras::LegacyOnly),
        "modern" => Ok(Eras::ModernOnly(ProtocolVersion::V2026_07_28)),
        _ => Err(format!("--era is auto, legacy or modern, not {text:?}")),
    }
}

fn seconds(option: &str, text: &str) -> Result<Duration, String> {
    let seconds = text.parse().ok().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    seconds.ok_or_else(|| format!("{option} needs a number of seconds, not {text:?}"))
}

fn shown(arg: &OsStr) -> String {
    format!("{:?}", arg.to_string_lossy())
}

/// What the options say. Its secrets are in no output.
#[derive(Default)]
pub(crate) struct OAuthSettings {
    /// The port of the redirect; `None` for any that is free.
    pub(crate) port: Option<u16>,
    pub(crate) client: Option<RegisteredClient>,
    issuer: Option<String>,
    metadata: Option<String>,
    pub(crate) scopes: Option<String>,
    is_direct: bool,
    /// Where credentials are kept.
    pub(crate) tokens: Option<PathBuf>,
    /// The name under which they are kept, beside the URL.
    pub(crate) account: Option<String>,
    /// The credentials are given up at the end.
    pub(crate) signs_out: bool,
}

/// The flag beside `--oauth`, which needs it.
pub(crate) const SIGN_OUT: &str = "sign-out";

/// The options with a value beside `--oauth`, which need it.
pub(crate) const OPTIONS: [&str; 9] =
    ["oauth-port", "client-id", "client-secret", "issuer", "client-metadata", "scope", "tokens", "account", "grant"];

impl OAuthSettings {
    /// Reads the options; `value` has the last value of each, and `secret` that of the environment.
    pub(crate) fn read(
        signs_out: bool,
        secret: Option<String>,
        mut value: impl FnMut(&str) -> Result<Option<String>, String>,
    ) -> Result<Self, String> {
        let port = value("oauth-port")?.map(|given| {
            let port: Option<u16> = given.parse().ok().filter(|port| *port > 0);
            port.ok_or_else(|| format!("--oauth-port needs a port, not {given:?}"))
        });
        let is_direct = match value("grant")?.as_deref() {
            None => false,
            Some("client-credentials") => true,
            Some(other) => return Err(format!("--grant is client-credentials, not {other:?}")),
        };
        let (id, own, issuer) = (value("client-id")?, value("client-secret")?, value("issuer")?);
        if own.is_some() && id.is_none() {
            return Err("--client-secret needs a --client-id".into());
        }
        if is_direct && id.is_none() {
            return Err("--grant client-credentials needs a --client-id".into());
        }
        let client = id.map(|id| {
            let mut client = RegisteredClient::new(id);
            client.secret = own.or(secret).map(Secret::new);
            client.issuer = issuer.as_deref().map(Into::into);
            client
        });
        Ok(Self {
            port: port.transpose()?,
            client,
            issuer,
            metadata: value("client-metadata")?,
            scopes: value("scope")?,
            is_direct,
            tokens: value("tokens")?.map(Into::into),
            account: value("account")?,
            signs_out,
        })
    }

    /// Whether there is a client with a secret or without a user, and no authorization server that it belongs to: nobody
    /// gets the secret.
    pub(crate) fn lacks_issuer(&self) -> bool {
        self.issuer.is_none() && self.client.as_ref().is_some_and(|client| self.is_direct || client.secret.is_some())
    }

    /// The options of the library, with the redirect URI of this run.
    pub(crate) fn options(&self, redirect_uri: &str) -> OAuthOptions {
        let mut options = OAuthOptions::new("mcp-probe", redirect_uri);
        options.registered = self.client.iter().cloned().collect();
        options.tolerance.issuer = self.issuer.as_deref().map(Into::into);
        options.client_metadata_url = self.metadata.as_deref().map(Into::into);
        options.scopes = self.scopes.as_deref().map(Into::into);
        if self.is_direct {
            options.flow = Flow::ClientCredentials;
        }
        options.stored = self.tokens.is_some();
        options.offline_access = self.tokens.is_some();
        options
    }
}

const ELICITATION: &str = "elicitation/create";
const SAMPLING: &str = "sampling/createMessage";

/// Results by key of an input request, or by method.
#[derive(Default)]
pub(crate) struct Answers(Vec<(String, Box<RawValue>)>);

impl Answers {
    /// Adds `KEY=JSON`.
    pub(crate) fn add(&mut self, text: &str) -> Result<(), String> {
        let (key, json) = text.split_once('=').ok_or_else(|| format!("--answer is KEY=JSON, not {text:?}"))?;
        if self.get(key).is_some() {
            return Err(format!("--answer came twice for {key}"));
        }
        let answer = raw::object(json).map_err(|wrong| format!("--answer {key}: the JSON {wrong}"))?;
        self.0.push((key.into(), answer));
        Ok(())
    }

    fn get(&self, key: &str) -> Option<&RawValue> {
        self.0.iter().find(|(own, _)| own == key).map(|(_, answer)| &**answer)
    }

    /// Whether to declare sampling: there is a response for its method, or one with the member of a sampling result.
    pub(crate) fn offer_sampling(&self) -> bool {
        self.have(SAMPLING, ELICITATION, "model")
    }

    /// Whether to declare elicitation by URL: servers offer other tools to a client that can show URLs.
    pub(crate) fn offer_urls(&self) -> bool {
        self.have(ELICITATION, SAMPLING, "action")
    }

    fn have(&self, method: &str, other: &str, member: &str) -> bool {
        let is_one = |(key, answer): &(String, Box<RawValue>)| {
            key == method || key != other && Members::of(answer).get(member).is_some()
        };
        self.0.iter().any(is_one)
    }

    /// The response to a request; `None` for a sampling request without one on the command line.
    pub(crate) fn to(&self, key: Option<&str>, method: &str) -> Option<Box<RawValue>> {
        let given = key.and_then(|key| self.get(key)).or_else(|| self.get(method));
        let decline = || (method == ELICITATION).then(|| raw::of(&serde_json::json!({"action": "decline"})));
        given.map(ToOwned::to_owned).or_else(decline)
    }
}

pub(crate) struct Step {
    kind: StepKind,
    /// A tool's or a prompt's own name, or a resource's URI.
    pub(crate) target: String,
}

enum StepKind {
    Call(Option<Box<RawValue>>),
    Read,
    Prompt(Option<Vec<(String, String)>>),
}

impl Step {
    /// A step by its option.
    pub(crate) fn new(option: &str, target: String) -> Option<Self> {
        let kind = match option {
            "call" => StepKind::Call(None),
            "read" => StepKind::Read,
            "prompt" => StepKind::Prompt(None),
            _ => return None,
        };
        Some(Self { kind, target })
    }

    /// Sets the arguments from a JSON object.
    pub(crate) fn arguments(&mut self, json: &str) -> Result<(), String> {
        let target = &self.target;
        let twice = Err(format!("--args came twice for {target}"));
        let object = raw::object(json).map_err(|wrong| format!("--args for {target} {wrong}"))?;
        match &mut self.kind {
            StepKind::Call(Some(_)) | StepKind::Prompt(Some(_)) => return twice,
            StepKind::Read => return Err("--args needs a --call or a --prompt before it; --read has none".into()),
            StepKind::Call(arguments) => *arguments = Some(object),
            StepKind::Prompt(arguments) => {
                let members = Members::of(&object);
                let string = |(name, _): (&str, _)| {
                    let value = members.string(name);
                    let wrong =
                        || format!("--args for {target}: a prompt's arguments are strings, and `{name}` is not");
                    value.map(|value| (name.to_owned(), value)).ok_or_else(wrong)
                };
                *arguments = Some(members.iter().map(string).collect::<Result<_, _>>()?);
            }
        }
        Ok(())
    }

    pub(crate) fn method(&self) -> &'static str {
        match self.kind {
            StepKind::Call(_) => "tools/call",
            StepKind::Read => "resources/read",
            StepKind::Prompt(_) => "prompts/get",
        }
    }

    pub(crate) fn is_call(&self) -> bool {
        matches!(self.kind, StepKind::Call(_))
    }

    pub(crate) fn call_arguments(&self) -> Option<&RawValue> {
        match &self.kind {
            StepKind::Call(arguments) => arguments.as_deref(),
            StepKind::Read | StepKind::Prompt(_) => None,
        }
    }

    pub(crate) fn request(&self) -> Request {
        let request = match &self.kind {
            StepKind::Call(arguments) => {
                let none = raw::of(&serde_json::json!({}));
                Request::call_tool(&self.target, Some(arguments.as_deref().unwrap_or(&none)))
            }
            StepKind::Read => Request::read_resource(&self.target),
            StepKind::Prompt(arguments) => {
                let arguments = arguments.iter().flatten().map(|(name, value)| (&**name, &**value));
                Request::get_prompt(&self.target, arguments)
            }
        };
        // Only the run's timeout, which the user set, ends it.
        request.timeout(Duration::MAX).progress(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(args: &[&str]) -> Result<(Settings, Target), String> {
        match parse(args.iter().map(OsString::from))? {
            Invocation::Do(settings, Task::Run(target)) => Ok((*settings, target)),
            Invocation::Do(..) | Invocation::Print(_) | Invocation::DemoServer { .. } => Err("something else".into()),
        }
    }

    fn wrong(args: &[&str]) -> String {
        run(args).err().unwrap()
    }

    #[test]
    fn steps_keep_the_order_in_which_their_options_are_given() {
        let args = ["--read", "a:b", "--call", "c", "--args", "{}", "--json", "--read", "d:e", "--prompt", "f"];
        let (settings, _) = run(&args).unwrap();
        let steps: Vec<_> = settings.steps.iter().map(|step| (step.method(), &*step.target)).collect();
        let expected =
            [("resources/read", "a:b"), ("tools/call", "c"), ("resources/read", "d:e"), ("prompts/get", "f")];
        assert_eq!(steps, expected);
    }

    #[test]
    fn args_belong_to_the_call_before_them() {
        let args = ["--call", "a", "--args", r#"{"x":1}"#, "--call", "b", "--call", "c", "--args", r#"{"y":2}"#];
        let (settings, _) = run(&args).unwrap();
        let given: Vec<_> = settings.steps.iter().map(|step| step.call_arguments().map(|json| json.get())).collect();
        assert_eq!(given, [Some(r#"{"x":1}"#), None, Some(r#"{"y":2}"#)]);
        assert!(wrong(&["--args", "{}", "--call", "a"]).contains("before it"));
        assert!(wrong(&["--read", "a:b", "--args", "{}"]).contains("--read has none"));
        assert!(wrong(&["--call", "a", "--args", "{}", "--args", "{}"]).contains("twice"));
    }

    #[test]
    fn an_option_after_the_subcommand_is_wrong() {
        for args in
            [&["stdio", "--json", "--", "x"][..], &["http", "--json", "http://a/"], &["http", "http://a/", "--json"]]
        {
            assert!(wrong(args).contains("options come before the subcommand"), "{args:?}");
        }
    }

    #[test]
    fn a_command_takes_whatever_follows_the_dashes() {
        let (_, target) = run(&["--json", "stdio", "--", "a", "--json", "--", "-x", ""]).unwrap();
        let Target::Stdio { program, args } = target else { panic!("no command") };
        assert_eq!((program.to_str(), args), (Some("a"), ["--json", "--", "-x", ""].map(OsString::from).to_vec()));
        for args in [&["stdio"][..], &["stdio", "a"], &["stdio", "a", "--", "b"], &["stdio", "--"]] {
            assert!(wrong(args).starts_with("stdio needs `--` and then a command"), "{args:?}");
        }
    }

    #[test]
    fn what_is_no_subcommand_is_a_command_with_all_that_follows() {
        let (settings, target) = run(&["--json", "sh", "-y", "--json", "--", "--help", "stdio"]).unwrap();
        let Target::Stdio { program, args } = target else { panic!("no command") };
        let expected = ["-y", "--json", "--", "--help", "stdio"].map(OsString::from).to_vec();
        assert_eq!((settings.json, program.to_str(), args), (true, Some("sh"), expected));
        for program in ["not-a-program-at-all", "./htp", "folder/http"] {
            assert!(matches!(run(&[program]), Ok((_, Target::Stdio { args, .. })) if args.is_empty()), "{program}");
        }
        assert!(wrong(&[""]).contains("needs a command"));
        assert!(wrong(&["--header", "a: b", "sh"]).contains("--header needs a server over HTTP"));
        assert!(wrong(&["--replay", "x", "sh"]).contains("`sh` has no place beside it"));
    }

    #[test]
    fn the_environment_is_inherited_on_demand_and_by_the_programs_of_a_file() {
        let inherits = |args: &[&str]| match parse(args.iter().map(OsString::from)) {
            Ok(Invocation::Do(settings, Task::RunAll(..))) => settings.inherits_env,
            Ok(_) | Err(_) => panic!("no file: {args:?}"),
        };
        assert!(inherits(&["--inherit-env", "config", "x"]) && !inherits(&["config", "x"]));
        assert!(wrong(&["--inherit-env", "stdio", "--", "x"]).contains("--inherit-env is for `config`"));
        assert!(wrong(&["--inherit-env", "auth", "http://localhost"]).contains("no effect with `auth`"));
    }

    #[test]
    fn an_option_is_no_value_and_one_that_is_unknown_is_wrong() {
        assert!(wrong(&["--call", "--json"]).contains("--json is an option"));
        assert!(wrong(&["--call"]).contains("a value is required"));
        assert!(wrong(&["--bogus"]).contains("--bogus"));
        assert!(wrong(&["--replay", "x", "--watch", "1"]).contains("--watch has no effect"));
        assert!(wrong(&["--replay", "x", "http", "http://localhost"]).contains("takes the place of a server"));
        assert!(wrong(&["--journal", "x", "config", "y"]).contains("--journal is for one server"));
        assert!(wrong(&["--header", "a: b"]).contains("HTTP"));
        assert!(wrong(&["--tokens", "x", "http", "http://localhost"]).contains("--tokens needs --oauth"));
        let account = ["--oauth", "--tokens", "x", "--account", "work"];
        assert!(wrong(&[&account[..], &["config", "y"]].concat()).contains("--account is for one server"));
        let (settings, _) = run(&[&account[..], &["http", "http://localhost"]].concat()).unwrap();
        assert_eq!(settings.oauth.unwrap().account.as_deref(), Some("work"));
        assert!(wrong(&["--account", "x", "http", "http://localhost"]).contains("--account needs --oauth"));
        assert!(wrong(&["--oauth", "--sign-out", "config", "y"]).contains("--sign-out is for one server"));
        assert!(wrong(&["--sign-out", "http", "http://localhost"]).contains("--sign-out needs --oauth"));
        assert!(wrong(&["--oauth"]).contains("--oauth needs a server over HTTP"));
        assert!(wrong(&["--call", "x", "auth", "http://localhost"]).contains("--call has no effect with `auth`"));
        let (settings, _) = run(&["--call", "-x", "--era", "legacy", "--era", "modern"]).unwrap();
        assert_eq!((settings.steps.len(), settings.eras), (1, Eras::ModernOnly(ProtocolVersion::V2026_07_28)));
    }

    #[test]
    fn a_run_has_the_time_that_is_given_or_that_of_its_watch_and_a_request_half_of_it() {
        for (args, run_for, request_for) in [
            (&["--timeout", "8"][..], 8, 4),
            (&["--timeout", "8", "--watch", "20"], 8, 4),
            (&["--watch", "20"], 80, 40),
            (&[], 60, 30),
        ] {
            let (settings, _) = run(args).unwrap();
            let times = (settings.timeout, settings.options().timeouts.request);
            assert_eq!(times, (Duration::from_secs(run_for), Duration::from_secs(request_for)), "{args:?}");
        }
    }

    #[test]
    fn what_was_meant_is_said_and_no_password() {
        for (args, words) in [
            (&["--jsn"][..], "was `--json` meant?"),
            (&["htpp", "http://a/"], "was `http` meant?"),
            (&["htp", "http://a/"], "was `http` meant?"),
            (&["confi", "x"], "there is no subcommand and no program \"confi\"; was `config` meant?"),
            (&["--replay", "x", "http://ada:hush@a/"], "`http URL`"),
            (&["help", "confi"], "was `config` meant?"),
            (&["http://ada:hush@a/"], "`http URL`"),
            (&["http", "http://ada:hu?hush@a/"], "is not an http or https URL"),
            (&["http", "http://ada:hush@[a/"], "is not an http or https URL"),
        ] {
            let wrong = wrong(args);
            assert!(wrong.contains(words) && !wrong.contains("hush") && !wrong.contains("hu?"), "{wrong}");
        }
    }

    #[test]
    fn the_help_is_about_a_subcommand_or_all_of_them() {
        let help = |args: &[&str]| match parse(args.iter().map(OsString::from)) {
            Ok(Invocation::Print(text)) => text,
            Ok(_) | Err(_) => panic!("no help: {args:?}"),
        };
        let all = help(&["help"]);
        assert!(["stdio -- COMMAND", "\nconfig:", "\nauth:", "--json"].iter().all(|part| all.contains(part)), "{all}");
        assert!(all.lines().all(|line| line.chars().count() <= 120), "{all}");
        let columns = |text: &str| all.lines().find_map(|line| line.find(text));
        assert_eq!(columns("without a browser or a registration"), columns("what a sign-in at"));
        assert_eq!(columns("all of them, or these"), columns("servers from a configuration file"));
        assert_eq!(columns("what they would start"), columns("the configuration files of hosts"));
        assert_eq!((help(&["--help"]), help(&["-h"])), (all.clone(), all));
        let http = help(&["help", "http"]);
        assert!(http.contains("http URL") && !http.contains("stdio --") && !http.contains("\nconfig:"), "{http}");
        assert_eq!((help(&["http", "--help"]), help(&["--json", "http", "x", "-h"])), (http.clone(), http));
        assert!(help(&["help", "auth"]).contains("\nauth:") && help(&["config", "--help"]).contains("\nconfig:"));
        assert_eq!(help(&["--version"]), concat!("mcp-probe ", env!("CARGO_PKG_VERSION"), "\n"));
    }

    fn read(given: &[(&str, &str)]) -> Result<OAuthSettings, String> {
        OAuthSettings::read(false, None, |name| {
            Ok(given.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).into()))
        })
    }

    #[test]
    fn the_options_of_the_library_are_those_of_the_command_line() {
        let issuer = ("issuer", "https://as.example");
        let given = [("client-id", "app"), ("client-secret", "hush"), ("scope", "a b"), ("tokens", "file"), issuer];
        let options = read(&given).unwrap().options("http://127.0.0.1:1/callback");
        let client = options.registered.first().unwrap();
        assert_eq!((&*client.id, client.secret.as_ref().map(Secret::expose)), ("app", Some("hush")));
        assert_eq!((options.scopes.as_deref(), options.stored, options.offline_access), (Some("a b"), true, true));
        assert_eq!((options.flow, client.issuer.as_deref()), (Flow::User, Some("https://as.example")));
        assert_eq!(options.tolerance.issuer.as_deref(), Some("https://as.example"));
        assert!(read(&given[..2]).unwrap().lacks_issuer() && !read(&given[..1]).unwrap().lacks_issuer());
        assert!(read(&[("grant", "client-credentials"), ("client-id", "app")]).unwrap().lacks_issuer());
        let direct = read(&[("grant", "client-credentials"), ("client-id", "app"), issuer]).unwrap();
        assert_eq!(direct.options("").flow, Flow::ClientCredentials);
    }

    #[test]
    fn options_that_contradict_each_other_are_wrong() {
        for (given, words) in [
            (&[("oauth-port", "0")][..], "--oauth-port needs a port"),
            (&[("grant", "password")], "--grant is client-credentials"),
            (&[("grant", "client-credentials")], "needs a --client-id"),
            (&[("client-secret", "hush")], "--client-secret needs a --client-id"),
        ] {
            let wrong = read(given).err().unwrap();
            assert!(wrong.contains(words) && !wrong.contains("hush"), "{wrong}");
        }
    }

    fn answers(texts: &[&str]) -> Answers {
        let mut answers = Answers::default();
        texts.iter().for_each(|text| answers.add(text).expect("an answer"));
        answers
    }

    #[test]
    fn urls_are_offered_with_an_answer_to_an_elicitation_alone() {
        for yes in [r#"elicitation/create={"action":"accept"}"#, "elicitation/create={}", r#"key={"action":"decline"}"#]
        {
            assert!(answers(&[yes]).offer_urls(), "{yes}");
        }
        for no in [r#"sampling/createMessage={"action":"accept"}"#, r#"key={"model":"m"}"#, "key={}"] {
            assert!(!answers(&[no]).offer_urls(), "{no}");
        }
        assert!(!answers(&[]).offer_urls());
        assert!(answers(&["key={}", r#"other={"action":"cancel"}"#]).offer_urls());
    }

    #[test]
    fn sampling_is_offered_with_an_answer_to_it_alone() {
        assert!(answers(&["sampling/createMessage={}"]).offer_sampling());
        assert!(answers(&[r#"key={"model":"m"}"#]).offer_sampling());
        assert!(!answers(&[r#"elicitation/create={"model":"m"}"#, "key={}"]).offer_sampling());
    }
}
