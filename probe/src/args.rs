//! The command line.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::time::Duration;

use http::Uri;
use mcp_proto::{Eras, ProtocolVersion};
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};

use crate::answers::Answers;
use crate::step::Step;

pub(crate) const HELP: &str = "\
probe: connects to an MCP server, and reports what it is, what it offers and what it gets wrong

usage:
  probe [OPTION ...]                                 the demo server, which probe brings along
  probe [OPTION ...] stdio -- COMMAND [ARG ...]      a server as a child process
  probe [OPTION ...] http URL                        Streamable HTTP, or a server of the older HTTP+SSE transport
  probe [OPTION ...] config FILE [SERVER ...]        servers from a configuration file, side by side: all of them, or
                                                     these

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
  --header 'Name: value'      an HTTP header on every request, a bearer token say; may repeat
  --diagram                   print the exchange as a Mermaid sequence diagram, after the report;
                              with --json on standard error
  --help                      print this

config:
  FILE is JSON or YAML, with servers under `mcp_servers` or `mcpServers`; `${NAME}` in an entry is replaced by the
  environment's variable. Beside the servers it is reported what a model would get of them all. --call takes a tool's
  exposed name; --read, --prompt, --watch and --diagram are for one server. The JSON report has
    servers        by name, for each the report that it would have alone; `disabled` is the outcome of one that is
                   turned off, `configuration` the kind of failure of one whose entry is of no use
    toolset        name, server, tool (its own name), renamed (characters, too-long, taken), description, inputSchema
    leftOut        server, tool, why
    suspicious     server, tool, at, sign, excerpt: texts that try to instruct the model
    calls          server, and what a call's report has
    configuration  errors, warnings: server, key, message

exit status:
  0  the session became ready, and every call, read and prompt was answered with a result; of a file's servers, every
     one that is chosen and not disabled
  1  not so
  2  wrong usage, or a configuration file that cannot be read
";

/// What a command line asks for.
pub(crate) enum Invocation {
    Help,
    /// Be the demo server, on standard input and output; while it is watched, this one of those that were started,
    /// counted from 1.
    DemoServer {
        watched: Option<u32>,
    },
    Run {
        settings: Box<Settings>,
        target: Target,
    },
    /// These servers of a file, or all of them where none is named.
    RunAll {
        settings: Box<Settings>,
        file: PathBuf,
        servers: Vec<String>,
    },
}

pub(crate) struct Settings {
    pub(crate) json: bool,
    pub(crate) diagram: bool,
    pub(crate) eras: Eras,
    pub(crate) timeout: Duration,
    pub(crate) steps: Vec<Step>,
    pub(crate) answers: Answers,
    /// How long to stay connected after the steps.
    pub(crate) watch: Option<Duration>,
    /// What goes with every HTTP request.
    pub(crate) headers: HeaderMap,
}

pub(crate) enum Target {
    Demo,
    Stdio { program: OsString, args: Vec<OsString> },
    Http { url: Uri },
}

impl Target {
    /// The server's name in messages and exposed names.
    pub(crate) fn name(&self) -> String {
        match self {
            Self::Demo => "demo".into(),
            Self::Stdio { program, .. } => {
                Path::new(program).file_name().unwrap_or(program).to_string_lossy().into_owned()
            }
            Self::Http { url } => {
                // What stands before an `@` is a secret.
                let authority = url.authority().map_or("", |authority| authority.as_str());
                authority.rsplit('@').next().unwrap_or_default().into()
            }
        }
    }
}

/// The argument that makes probe the demo server; the count of starts follows where it is watched.
pub(crate) const DEMO_SERVER: &str = "demo-server";

const TIMEOUT: Duration = Duration::from_secs(60);
const OPTIONS_TO_COME: [&str; 2] = ["--journal", "--replay"];

pub(crate) fn parse(args: impl Iterator<Item = OsString>) -> Result<Invocation, String> {
    let mut args = args.peekable();
    let (mut timeout, mut watch) = (None, Duration::ZERO);
    let mut settings = Settings {
        json: false,
        diagram: false,
        eras: Eras::Auto,
        timeout: TIMEOUT,
        steps: Vec::new(),
        answers: Answers::default(),
        watch: None,
        headers: HeaderMap::new(),
    };
    let (mut target, mut all) = (Target::Demo, None);
    if args.peek().is_some_and(|first| first == DEMO_SERVER) {
        args.next();
        return demo_server(args);
    }
    while let Some(arg) = args.next() {
        match arg.to_str() {
            Some("--help" | "-h") => return Ok(Invocation::Help),
            Some("--json") => settings.json = true,
            Some("--diagram") => settings.diagram = true,
            Some("--era") => settings.eras = era(&value("--era", &mut args)?)?,
            Some("--timeout") => {
                let given = seconds("--timeout", &value("--timeout", &mut args)?)?;
                timeout = Some(given).filter(|given| !given.is_zero());
                timeout.ok_or("--timeout needs a number of seconds above 0")?;
            }
            Some("--watch") => watch = seconds("--watch", &value("--watch", &mut args)?)?,
            Some("--call") => settings.steps.push(Step::call(value("--call", &mut args)?)),
            Some("--read") => settings.steps.push(Step::read(value("--read", &mut args)?)),
            Some("--prompt") => settings.steps.push(Step::prompt(value("--prompt", &mut args)?)),
            Some("--args") => {
                let json = value("--args", &mut args)?;
                let step = settings.steps.last_mut().ok_or("--args needs a --call or a --prompt before it")?;
                step.arguments(&json)?;
            }
            Some("--answer") => settings.answers.add(&value("--answer", &mut args)?)?,
            Some("--header") => {
                let (name, value) = header(&value("--header", &mut args)?)?;
                settings.headers.append(name, value);
            }
            Some("stdio") => {
                target = command(args)?;
                break;
            }
            Some("http") => {
                target = url(args)?;
                break;
            }
            Some("config") => {
                all = Some(config(args)?);
                break;
            }
            Some(later) if OPTIONS_TO_COME.contains(&later) => {
                return Err(format!("this version of probe does not have {later} yet"));
            }
            Some(option) if option.starts_with('-') => return Err(format!("unknown option {}", shown(&arg))),
            Some(_) | None => return Err(format!("unknown subcommand {}", shown(&arg))),
        }
    }
    settings.timeout = timeout.unwrap_or(TIMEOUT.saturating_add(watch));
    settings.watch = Some(watch).filter(|watch| !watch.is_zero());
    if let Some((file, servers)) = all {
        for_all(&settings)?;
        return Ok(Invocation::RunAll { settings: Box::new(settings), file, servers });
    }
    if !settings.headers.is_empty() && !matches!(target, Target::Http { .. }) {
        return Err("--header needs a server over HTTP".into());
    }
    Ok(Invocation::Run { settings: Box::new(settings), target })
}

/// Whether these have a meaning for several servers.
fn for_all(settings: &Settings) -> Result<(), String> {
    for (given, option) in [(settings.watch.is_some(), "--watch"), (settings.diagram, "--diagram")] {
        if given {
            return Err(format!("{option} is for one server, and not for `config`"));
        }
    }
    if settings.steps.iter().all(Step::is_call) {
        return Ok(());
    }
    Err("with `config`, --call takes a tool's exposed name, and there is no --read and no --prompt: call \
         mcp_SERVER_read_resource or mcp_SERVER_get_prompt"
        .into())
}

fn demo_server(mut args: impl Iterator<Item = OsString>) -> Result<Invocation, String> {
    let watched = match args.next() {
        None => None,
        Some(count) => {
            let start = count.to_str().and_then(|count| count.parse().ok());
            Some(start.ok_or_else(|| format!("unexpected argument {}", shown(&count)))?)
        }
    };
    match args.next() {
        None => Ok(Invocation::DemoServer { watched }),
        Some(more) => Err(format!("unexpected argument {}", shown(&more))),
    }
}

fn command(mut args: impl Iterator<Item = OsString>) -> Result<Target, String> {
    match args.next() {
        Some(dashes) if dashes == "--" => {}
        Some(option) if option.to_string_lossy().starts_with('-') => {
            return Err(format!("options come before the subcommand: {}", shown(&option)));
        }
        Some(_) | None => return Err("usage: stdio -- COMMAND [ARG ...]".into()),
    }
    let program = args.next().filter(|program| !program.is_empty());
    let program = program.ok_or("stdio needs a command after `--`")?;
    Ok(Target::Stdio { program, args: args.collect() })
}

fn url(mut args: impl Iterator<Item = OsString>) -> Result<Target, String> {
    let given = args.next().ok_or("usage: http URL")?;
    if given.to_string_lossy().starts_with('-') {
        return Err(format!("options come before the subcommand: {}", shown(&given)));
    }
    if let Some(more) = args.next() {
        return Err(format!("unexpected argument {}; options come before the subcommand", shown(&more)));
    }
    let url: Option<Uri> = given.to_str().and_then(|url| url.parse().ok());
    let url = url.filter(|url| matches!(url.scheme_str(), Some("http" | "https")));
    url.map(|url| Target::Http { url }).ok_or_else(|| format!("{} is no http or https URL", shown(&given)))
}

fn config(mut args: impl Iterator<Item = OsString>) -> Result<(PathBuf, Vec<String>), String> {
    let file = args.next().filter(|file| !file.is_empty()).ok_or("usage: config FILE [SERVER ...]")?;
    if file.to_string_lossy().starts_with('-') {
        return Err(format!("options come before the subcommand: {}", shown(&file)));
    }
    let server = |server: OsString| server.into_string().map_err(|server| format!("{} is not UTF-8", shown(&server)));
    Ok((file.into(), args.map(server).collect::<Result<_, _>>()?))
}

fn header(text: &str) -> Result<(HeaderName, HeaderValue), String> {
    // The value may be a secret, so it is not repeated.
    let (name, value) = text.split_once(':').ok_or("--header is 'Name: value', and has no colon here")?;
    let name = HeaderName::try_from(name.trim()).map_err(|_| format!("--header: {name:?} is no header's name"))?;
    let mut value = HeaderValue::try_from(value.trim())
        .map_err(|_| format!("--header: the value of {name} has characters that no header can have"))?;
    value.set_sensitive(true);
    Ok((name, value))
}

fn value(option: &str, args: &mut impl Iterator<Item = OsString>) -> Result<String, String> {
    let value = args.next().ok_or_else(|| format!("{option} needs a value"))?;
    let value = value.into_string().map_err(|value| format!("{option}: {} is not UTF-8", shown(&value)))?;
    if value.starts_with("--") {
        return Err(format!("{option} needs a value, and {value} is an option"));
    }
    Ok(value)
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
