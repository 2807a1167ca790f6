//! The command line.

use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::time::Duration;

use mcp_proto::{Eras, ProtocolVersion};
use serde_json::value::RawValue;

pub(crate) const HELP: &str = "\
probe: connects to an MCP server, and reports what it is, what it offers and what it gets wrong

usage:
  probe [OPTION ...]                                 the demo server, which probe brings along
  probe [OPTION ...] stdio -- COMMAND [ARG ...]      a server as a child process

options:
  --json                      one JSON report on standard output, and nothing else there
  --era auto|legacy|modern    which protocol eras to try (auto)
  --timeout SECONDS           bound on the whole run (60)
  --call NAME                 after discovery, call this tool; may repeat
  --args JSON                 the arguments of the --call before it, a JSON object ({})
  --diagram                   print the exchange as a Mermaid sequence diagram, after the report;
                              with --json on standard error
  --help                      print this

exit status:
  0  the session became ready, and every call was answered with a result
  1  not so
  2  wrong usage
";

/// What a command line asks for.
pub(crate) enum Invocation {
    Help,
    /// Be the demo server, on standard input and output.
    DemoServer,
    Run(Settings),
}

pub(crate) struct Settings {
    pub(crate) json: bool,
    pub(crate) diagram: bool,
    pub(crate) eras: Eras,
    pub(crate) timeout: Duration,
    pub(crate) calls: Vec<Call>,
    pub(crate) target: Target,
}

/// A tool to call.
pub(crate) struct Call {
    pub(crate) name: String,
    pub(crate) arguments: Option<Box<RawValue>>,
}

pub(crate) enum Target {
    Demo,
    Stdio { program: OsString, args: Vec<OsString> },
}

impl Target {
    /// The server's name in messages and exposed names.
    pub(crate) fn name(&self) -> String {
        match self {
            Self::Demo => "demo".into(),
            Self::Stdio { program, .. } => {
                Path::new(program).file_name().unwrap_or(program).to_string_lossy().into_owned()
            }
        }
    }
}

/// The argument that makes probe the demo server.
pub(crate) const DEMO_SERVER: &str = "demo-server";

const SUBCOMMANDS_TO_COME: [&str; 2] = ["http", "config"];
const OPTIONS_TO_COME: [&str; 7] = ["--read", "--prompt", "--answer", "--watch", "--header", "--journal", "--replay"];

pub(crate) fn parse(args: impl Iterator<Item = OsString>) -> Result<Invocation, String> {
    let mut args = args.peekable();
    let mut settings = Settings {
        json: false,
        diagram: false,
        eras: Eras::Auto,
        timeout: Duration::from_secs(60),
        calls: Vec::new(),
        target: Target::Demo,
    };
    if args.peek().is_some_and(|first| first == DEMO_SERVER) {
        args.next();
        return match args.next() {
            None => Ok(Invocation::DemoServer),
            Some(more) => Err(format!("unexpected argument {}", shown(&more))),
        };
    }
    while let Some(arg) = args.next() {
        match arg.to_str() {
            Some("--help" | "-h") => return Ok(Invocation::Help),
            Some("--json") => settings.json = true,
            Some("--diagram") => settings.diagram = true,
            Some("--era") => settings.eras = era(&value("--era", &mut args)?)?,
            Some("--timeout") => settings.timeout = seconds(&value("--timeout", &mut args)?)?,
            Some("--call") => {
                let name = value("--call", &mut args)?;
                settings.calls.push(Call { name, arguments: None });
            }
            Some("--args") => {
                let json = value("--args", &mut args)?;
                let call = settings.calls.last_mut().ok_or("--args needs a --call before it")?;
                if call.arguments.is_some() {
                    return Err(format!("--args came twice for --call {}", call.name));
                }
                call.arguments = Some(object(&json)?);
            }
            Some("stdio") => {
                settings.target = command(args)?;
                return Ok(Invocation::Run(settings));
            }
            Some(later) if SUBCOMMANDS_TO_COME.contains(&later) => {
                return Err(format!("this version of probe does not have the subcommand `{later}` yet"));
            }
            Some(later) if OPTIONS_TO_COME.contains(&later) => {
                return Err(format!("this version of probe does not have {later} yet"));
            }
            Some(option) if option.starts_with('-') => return Err(format!("unknown option {}", shown(&arg))),
            Some(_) | None => return Err(format!("unknown subcommand {}", shown(&arg))),
        }
    }
    Ok(Invocation::Run(settings))
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

fn seconds(text: &str) -> Result<Duration, String> {
    let seconds = text.parse().ok().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    let seconds = seconds.filter(|seconds| !seconds.is_zero());
    seconds.ok_or_else(|| format!("--timeout needs a number of seconds above 0, not {text:?}"))
}

fn object(json: &str) -> Result<Box<RawValue>, String> {
    let raw: Box<RawValue> = serde_json::from_str(json).map_err(|error| format!("--args is not JSON: {error}"))?;
    if !raw.get().starts_with('{') {
        return Err("--args must be a JSON object".into());
    }
    Ok(raw)
}

fn shown(arg: &OsStr) -> String {
    format!("{:?}", arg.to_string_lossy())
}
