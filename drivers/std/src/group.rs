//! A program and the processes that it starts: a process group, or a job object of Windows. Shells and package runners do
//! not pass signals on.

use std::io;
use std::process::{Command, ExitStatus};

#[cfg(unix)]
mod system {
    use std::os::unix::process::CommandExt;
    use std::process::Child;

    use nix::sys::signal::{Signal, killpg};
    use nix::unistd::Pid;

    use super::{Command, ExitStatus, io};

    #[derive(Debug)]
    pub(crate) struct Group {
        child: Child,
        leader: Pid,
        /// No process of it was left: its number may be another group's by now.
        is_gone: bool,
    }

    impl Group {
        pub(crate) fn start(command: &mut Command) -> io::Result<Self> {
            let child = command.process_group(0).spawn()?;
            let leader = i32::try_from(child.id()).map_err(io::Error::other)?;
            Ok(Self { child, leader: Pid::from_raw(leader), is_gone: false })
        }

        pub(crate) const fn child(&mut self) -> &mut Child {
            &mut self.child
        }

        pub(crate) const fn id(&self) -> u32 {
            self.leader.as_raw().unsigned_abs()
        }

        pub(crate) fn try_wait(&mut self) -> io::Result<Option<ExitStatus>> {
            self.child.try_wait()
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
    use process_wrap::std::{ChildWrapper, CommandWrap, CreationFlags, JobObject};

    use super::{Command, ExitStatus, io};

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

    impl Group {
        pub(crate) fn start(command: &mut Command) -> io::Result<Self> {
            let command = std::mem::replace(command, Command::new(""));
            CommandWrap::from(command).wrap(JobObject).wrap(own_console()).spawn().map(Self)
        }

        pub(crate) fn child(&mut self) -> &mut dyn ChildWrapper {
            &mut *self.0
        }

        pub(crate) fn id(&self) -> u32 {
            self.0.id()
        }

        pub(crate) fn try_wait(&mut self) -> io::Result<Option<ExitStatus>> {
            self.0.try_wait()
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

pub(crate) use system::Group;
