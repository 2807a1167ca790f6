//! The pipes of a program. A descendant that left the program's group may hold them for as long as it runs: on Unix what waits
//! for them ends with the process, and on Windows there is no such descendant.

#[cfg(unix)]
mod system {
    use std::io::{self, PipeReader, PipeWriter, Read, Write};
    use std::os::fd::AsFd;
    use std::process::ChildStdin;
    use std::sync::Arc;

    use nix::fcntl::{FcntlArg, OFlag, fcntl};
    use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

    /// The right to wait for pipes, which ends when it is dropped.
    pub(crate) struct Pipes {
        end: Arc<PipeReader>,
        #[expect(dead_code, reason = "`end` is ready when it is dropped")]
        waiting: PipeWriter,
    }

    /// A pipe.
    pub(crate) struct Pipe<P> {
        pipe: P,
        end: Arc<PipeReader>,
    }

    /// The program's input.
    pub(crate) struct Input(Pipe<ChildStdin>);

    impl Pipes {
        pub(crate) fn new() -> io::Result<Self> {
            let (end, waiting) = io::pipe()?;
            Ok(Self { end: Arc::new(end), waiting })
        }

        /// The program's input.
        pub(crate) fn input(&self, pipe: ChildStdin) -> io::Result<Input> {
            // It takes what there is room for, and does not wait by itself.
            fcntl(&pipe, FcntlArg::F_SETFL(OFlag::O_NONBLOCK))?;
            Ok(Input(Pipe { pipe, end: Arc::clone(&self.end) }))
        }

        /// The program's output, or its standard error.
        pub(crate) fn output<P: AsFd>(&self, pipe: P) -> Pipe<P> {
            Pipe { pipe, end: Arc::clone(&self.end) }
        }
    }

    impl<P: AsFd> Pipe<P> {
        /// Waits until it is ready; false if it is not waited for any more.
        fn wait(&self, ready: PollFlags) -> io::Result<bool> {
            let mut both = [PollFd::new(self.pipe.as_fd(), ready), PollFd::new(self.end.as_fd(), PollFlags::POLLIN)];
            poll(&mut both, PollTimeout::NONE)?;
            let [_, end] = both;
            Ok(end.any() == Some(false))
        }
    }

    impl<P: Read + AsFd> Read for Pipe<P> {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            if self.wait(PollFlags::POLLIN)? { self.pipe.read(buffer) } else { Ok(0) }
        }
    }

    impl Input {
        /// Writes what there is room for; an error of the kind `WouldBlock` if there is none.
        pub(crate) fn try_write(&self, bytes: &[u8]) -> io::Result<usize> {
            (&self.0.pipe).write(bytes)
        }

        /// Writes what there is room for, and waits until there is some.
        pub(crate) fn write(&self, bytes: &[u8]) -> io::Result<usize> {
            loop {
                match self.try_write(bytes) {
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                        if !self.0.wait(PollFlags::POLLOUT)? {
                            return Err(io::ErrorKind::BrokenPipe.into());
                        }
                    }
                    written => return written,
                }
            }
        }
    }
}

#[cfg(windows)]
mod system {
    use std::io::{self, Write};
    use std::process::ChildStdin;

    pub(crate) struct Pipes;

    /// The program's input.
    pub(crate) struct Input(ChildStdin);

    impl Pipes {
        pub(crate) const fn new() -> io::Result<Self> {
            Ok(Self)
        }

        pub(crate) const fn input(&self, pipe: ChildStdin) -> io::Result<Input> {
            Ok(Input(pipe))
        }

        pub(crate) const fn output<P>(&self, pipe: P) -> P {
            pipe
        }
    }

    impl Input {
        /// A pipe of Windows waits until all is written.
        pub(crate) fn try_write(&self, _: &[u8]) -> io::Result<usize> {
            Err(io::ErrorKind::WouldBlock.into())
        }

        pub(crate) fn write(&self, bytes: &[u8]) -> io::Result<usize> {
            (&self.0).write(bytes)
        }
    }
}

pub(crate) use system::{Input, Pipes};
