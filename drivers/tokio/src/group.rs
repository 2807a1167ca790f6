//! A program and the processes that it starts: a process group, or a job object of Windows, with pipes that take no thread
//! while they are quiet.

use std::io;
use std::process::{Command, ExitStatus};

/// The ends of a program's pipes.
pub(crate) struct Pipes {
    pub(crate) input: Input,
    pub(crate) output: Output,
    pub(crate) errors: Errors,
}

#[cfg(unix)]
mod system {
    use std::process::Stdio;

    use nix::sys::signal::{Signal, killpg};
    use nix::unistd::Pid;
    use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout};

    use super::{Command, ExitStatus, Pipes, io};

    pub(crate) type Input = ChildStdin;
    pub(crate) type Output = ChildStdout;
    pub(crate) type Errors = ChildStderr;

    #[derive(Debug)]
    pub(crate) struct Group {
        child: Child,
        leader: Pid,
        /// No process of it was left: its number may be another group's by now.
        is_gone: bool,
    }

    impl Group {
        pub(crate) fn start(command: Command) -> io::Result<(Self, Pipes)> {
            let mut command = tokio::process::Command::from(command);
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
            let mut child = command.process_group(0).spawn()?;
            let leader = child.id().and_then(|id| i32::try_from(id).ok()).ok_or(io::ErrorKind::NotFound)?;
            let (input, output, errors) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
            let group = Self { child, leader: Pid::from_raw(leader), is_gone: false };
            let pipes = input.zip(output).zip(errors);
            let ((input, output), errors) = pipes.ok_or(io::ErrorKind::BrokenPipe)?;
            Ok((group, Pipes { input, output, errors }))
        }

        pub(crate) const fn id(&self) -> u32 {
            self.leader.as_raw().unsigned_abs()
        }

        /// Waits for the exit of the program. Dropping the future loses nothing.
        pub(crate) async fn wait(&mut self) -> io::Result<ExitStatus> {
            self.child.wait().await
        }

        pub(crate) fn terminate(&mut self) {
            self.signal(Signal::SIGTERM);
        }

        pub(crate) fn kill(&mut self) {
            self.signal(Signal::SIGKILL);
        }

        /// Whether a process of the group is left.
        pub(crate) fn is_left(&mut self) -> bool {
            self.signal(None);
            !self.is_gone
        }

        fn signal(&mut self, signal: impl Into<Option<Signal>>) {
            self.is_gone = self.is_gone || killpg(self.leader, signal).is_err();
        }
    }
}

#[cfg(windows)]
mod system {
    use std::fs::OpenOptions;
    use std::hash::{BuildHasher, RandomState};
    use std::pin::pin;
    use std::process::Stdio;
    use std::task::{Context, Poll, Waker};

    use process_wrap::tokio::{ChildWrapper, CommandWrap, CreationFlags, JobObject};
    use tokio::net::windows::named_pipe::{NamedPipeServer, ServerOptions};

    use super::{Command, ExitStatus, Pipes, io};

    // The pipes of tokio's own processes block a thread each on Windows, named pipes do not.
    pub(crate) type Input = NamedPipeServer;
    pub(crate) type Output = NamedPipeServer;
    pub(crate) type Errors = NamedPipeServer;

    /// `CREATE_NO_WINDOW`.
    const NO_WINDOW: u32 = 0x0800_0000;

    #[derive(Debug)]
    pub(crate) struct Group(Box<dyn ChildWrapper>);

    /// Ctrl-C in the console of this process is not for the program, as in another process group; and a process that has no
    /// console shows no window.
    fn own_console() -> CreationFlags {
        let mut flags = CreationFlags(Default::default());
        flags.0.0 = NO_WINDOW;
        flags
    }

    /// A pipe: the end of this process, and that of the program.
    fn pipe(is_input: bool) -> io::Result<(NamedPipeServer, Stdio)> {
        let random = RandomState::new().hash_one(std::process::id());
        let name = format!(r"\\.\pipe\mcp-proto-{}-{random:016x}", std::process::id());
        let mut options = ServerOptions::new();
        options.first_pipe_instance(true).max_instances(1).access_inbound(!is_input).access_outbound(is_input);
        let own = options.create(&name)?;
        let end = OpenOptions::new().read(is_input).write(!is_input).open(&name)?;
        // It is connected, which its own end learns here, and at once. Without that it never reads.
        let connected = pin!(own.connect()).poll(&mut Context::from_waker(Waker::noop()));
        match connected {
            Poll::Ready(connected) => connected?,
            Poll::Pending => return Err(io::ErrorKind::NotConnected.into()),
        }
        Ok((own, end.into()))
    }

    impl Group {
        pub(crate) fn start(mut command: Command) -> io::Result<(Self, Pipes)> {
            let ((input, stdin), (output, stdout), (errors, stderr)) = (pipe(true)?, pipe(false)?, pipe(false)?);
            command.stdin(stdin).stdout(stdout).stderr(stderr);
            let command = tokio::process::Command::from(command);
            // The ends of the program are closed here with the command.
            let child = CommandWrap::from(command).wrap(JobObject).wrap(own_console()).spawn()?;
            Ok((Self(child), Pipes { input, output, errors }))
        }

        pub(crate) fn id(&self) -> u32 {
            self.0.id().unwrap_or_default()
        }

        pub(crate) async fn wait(&mut self) -> io::Result<ExitStatus> {
            // Of the program alone: waiting for the job blocks a thread.
            self.0.inner_mut().wait().await
        }

        /// There is no signal that asks a process to exit.
        pub(crate) fn terminate(&mut self) {
            self.kill();
        }

        pub(crate) fn kill(&mut self) {
            // An error means that no process is left.
            let _ = self.0.start_kill();
        }

        pub(crate) fn is_left(&mut self) -> bool {
            false
        }
    }
}

pub(crate) use system::{Errors, Group, Input, Output};

impl Drop for Group {
    fn drop(&mut self) {
        self.kill();
    }
}
