//! What is started: a server's command.

use std::borrow::Cow;
#[cfg(any(windows, test))]
use std::ffi::OsStr;
use std::ffi::OsString;
use std::fmt;
use std::io;
#[cfg(any(windows, test))]
use std::path::Path;
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;

use mcp_proto::host::config::Stdio;

/// What gets each piece of a server's standard error.
pub type Sink = Arc<dyn Fn(&[u8]) + Send + Sync>;

type Prepare = Arc<dyn Fn(&mut Command) + Send + Sync>;

/// A server's command: a program, its arguments, its environment. It can be started many times.
///
/// On Unix it leads a process group, and the end of its session is the end of that group. A descendant that leaves the group,
/// with `setsid` or as a daemon, is not ended, and not waited for, even if it holds the program's pipes. On Windows all
/// descendants are in the program's job object, and end with it; and it has a console of its own, without a window: Ctrl-C in
/// that of this process is not for the program.
///
/// On Windows a name without an extension is looked up as a shell does, with the extensions of `PATHEXT`, so that `npx`
/// finds `npx.cmd`. Its `Debug` shows neither the arguments nor the values of variables.
///
/// ```
/// use mcp_proto_std::Program;
///
/// let program = Program::new("npx").args(["-y", "@modelcontextprotocol/server-everything"]).env("LOG_LEVEL", "debug");
/// ```
#[derive(Clone)]
pub struct Program {
    name: OsString,
    args: Vec<OsString>,
    env: Vec<(OsString, OsString)>,
    is_env_cleared: bool,
    folder: Option<PathBuf>,
    prepare: Option<Prepare>,
    sink: Option<Sink>,
}

impl Program {
    /// A program by its path, or by its name in `PATH`, without arguments. It inherits the environment and the working
    /// directory.
    pub fn new(program: impl Into<OsString>) -> Self {
        Self {
            name: program.into(),
            args: Vec::new(),
            env: Vec::new(),
            is_env_cleared: false,
            folder: None,
            prepare: None,
            sink: None,
        }
    }

    /// The name of the program's file, for messages.
    pub fn file_name(&self) -> Cow<'_, str> {
        std::path::Path::new(&self.name).file_name().unwrap_or(&self.name).to_string_lossy()
    }

    /// Adds an argument.
    #[must_use]
    pub fn arg(mut self, arg: impl Into<OsString>) -> Self {
        self.args.push(arg.into());
        self
    }

    /// Adds arguments.
    #[must_use]
    pub fn args<A: Into<OsString>>(mut self, args: impl IntoIterator<Item = A>) -> Self {
        self.args.extend(args.into_iter().map(Into::into));
        self
    }

    /// Sets a variable of its environment.
    #[must_use]
    pub fn env(mut self, name: impl Into<OsString>, value: impl Into<OsString>) -> Self {
        self.env.push((name.into(), value.into()));
        self
    }

    /// Has it inherit no variable of this process. Those that [`env`](Self::env) sets stay.
    #[must_use]
    pub const fn env_clear(mut self) -> Self {
        self.is_env_cleared = true;
        self
    }

    /// Has it inherit all variables of this process, as without [`env_clear`](Self::env_clear). Those that
    /// [`env`](Self::env) sets stay.
    #[must_use]
    pub const fn env_inherit(mut self) -> Self {
        self.is_env_cleared = false;
        self
    }

    /// Has a function change the command before each start: an argument that differs each time, or what only
    /// [`Command`] can set. Pipes, the process group and, on Windows, creation flags are the driver's. It has to return soon,
    /// and calls nothing of the session.
    ///
    /// ```
    /// use std::sync::atomic::{AtomicU32, Ordering};
    ///
    /// use mcp_proto_std::Program;
    ///
    /// let starts = AtomicU32::new(0);
    /// let program = Program::new("server").prepare(move |command| {
    ///     command.env("ATTEMPT", starts.fetch_add(1, Ordering::Relaxed).to_string());
    /// });
    /// ```
    #[must_use]
    pub fn prepare(mut self, prepare: impl Fn(&mut Command) + Send + Sync + 'static) -> Self {
        self.prepare = Some(Arc::new(prepare));
        self
    }

    /// Sets its working directory.
    #[must_use]
    pub fn current_dir(mut self, folder: impl Into<PathBuf>) -> Self {
        self.folder = Some(folder.into());
        self
    }

    /// Passes its standard error on, piece by piece, to a function that must not block. Without one, only the end is
    /// kept, for the messages of failures.
    #[must_use]
    pub fn stderr(mut self, sink: impl Fn(&[u8]) + Send + Sync + 'static) -> Self {
        self.sink = Some(Arc::new(sink));
        self
    }

    /// The command, with the program that the name stands for.
    pub fn command(&self) -> Command {
        #[cfg(windows)]
        let program = {
            let variable = |name: &str| {
                let own = self.env.iter().rfind(|(known, _)| known.eq_ignore_ascii_case(name));
                let inherited = || if self.is_env_cleared { None } else { std::env::var_os(name) };
                own.map(|(_, value)| value.clone()).or_else(inherited).unwrap_or_default()
            };
            let (folders, endings) = (variable("PATH"), variable("PATHEXT"));
            let folders = std::env::split_paths(&folders);
            resolve(&self.name, folders, &endings.to_string_lossy(), Path::is_file)
        };
        #[cfg(not(windows))]
        let program = &self.name;
        let mut command = Command::new(program);
        if self.is_env_cleared {
            command.env_clear();
        }
        command.args(&self.args).envs(self.env.iter().map(|(name, value)| (name, value)));
        if let Some(folder) = &self.folder {
            command.current_dir(folder);
        }
        if let Some(prepare) = &self.prepare {
            prepare(&mut command);
        }
        command
    }

    /// What its standard error is passed on to.
    pub const fn sink(&self) -> Option<&Sink> {
        self.sink.as_ref()
    }

    /// The error of the system, with what could not be started.
    pub fn not_started(&self, error: &io::Error) -> io::Error {
        let why = match &self.folder {
            Some(folder) if !folder.is_dir() => format!("there is no folder `{}` to start it in", folder.display()),
            Some(_) | None => format!("`{}`: {error}", self.name.display()),
        };
        io::Error::new(error.kind(), why)
    }
}

/// The program of an entry, with the variables that the entry allows, and none of this process's others
/// ([`Stdio::environment`]).
impl From<&Stdio> for Program {
    fn from(stdio: &Stdio) -> Self {
        let mut program = Self::new(&*stdio.command).args(stdio.args.iter().map(|arg| &**arg)).env_clear();
        let variables = stdio.environment(|name| std::env::var(name).ok().map(Into::into));
        program.env.extend(variables.iter().map(|(name, value)| ((&**name).into(), (&**value).into())));
        program.folder = stdio.cwd.as_deref().map(PathBuf::from);
        program
    }
}

impl fmt::Debug for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, args, env, is_env_cleared, folder, prepare: _, sink: _ } = self;
        f.debug_struct("Program")
            .field("name", name)
            .field("args", &args.len())
            .field("env", &env.iter().map(|(name, _)| name).collect::<Vec<_>>())
            .field("is_env_cleared", is_env_cleared)
            .field("folder", folder)
            .finish_non_exhaustive()
    }
}

/// The file that a name stands for on Windows, where programs have extensions. The system itself adds `.exe` only.
#[cfg(any(windows, test))]
fn resolve(
    name: &OsStr,
    folders: impl Iterator<Item = PathBuf>,
    endings: &str,
    is_file: impl Fn(&Path) -> bool,
) -> OsString {
    const ENDINGS: &str = ".COM;.EXE;.BAT;.CMD";
    let path = Path::new(name);
    let endings = if endings.is_empty() { ENDINGS } else { endings };
    // `python3.11` has none.
    let is_ending = |own: &OsStr| {
        endings.split(';').filter_map(|ending| ending.strip_prefix('.')).any(|ending| own.eq_ignore_ascii_case(ending))
    };
    if path.extension().is_some_and(is_ending) {
        return name.into();
    }
    let has_folder = path.parent().is_some_and(|folder| !folder.as_os_str().is_empty());
    let folders: Vec<PathBuf> = if has_folder { vec![PathBuf::new()] } else { folders.collect() };
    let files = folders.iter().flat_map(|folder| {
        endings.split(';').filter(|ending| !ending.is_empty()).map(move |ending| {
            let mut file = folder.join(name).into_os_string();
            file.push(ending.to_ascii_lowercase());
            file
        })
    });
    files.into_iter().find(|file| is_file(Path::new(file))).unwrap_or_else(|| name.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn on_windows_a_name_is_looked_up_with_the_extensions_of_scripts() {
        let known =
            ["a/npx", "b/npx.cmd", "b/node.exe", "b/tool.cmd", "c/npx.exe", "c/python3.11.exe", "tools/run.bat"];
        // As paths: on Windows either slash separates.
        let is_file = |path: &Path| known.iter().any(|known| path == Path::new(known));
        let folders = || ["a", "b", "c"].into_iter().map(PathBuf::from);
        for (name, endings, found) in [
            ("npx", "", "b/npx.cmd"),
            ("npx", ".EXE;.CMD", "b/npx.cmd"),
            ("npx", ".EXE", "c/npx.exe"),
            ("node", "", "b/node.exe"),
            ("tools/run", "", "tools/run.bat"),
            ("run", "", "run"),
            ("npx.cmd", "", "npx.cmd"),
            ("NPX.Cmd", "", "NPX.Cmd"),
            ("python3.11", "", "c/python3.11.exe"),
            ("server.py", "", "server.py"),
            ("", "", ""),
        ] {
            let resolved = resolve(name.as_ref(), folders(), endings, is_file);
            assert_eq!(Path::new(&resolved), Path::new(found), "{name} {endings}");
        }
    }

    #[test]
    fn debug_shows_no_argument_and_no_value() {
        let program = Program::new("server").arg("hush").env("TOKEN", "hush").env_clear().current_dir("/tmp");
        let shown = format!("{program:?}");
        assert!(shown.contains("server") && shown.contains("TOKEN") && !shown.contains("hush"), "{shown}");
    }
}
