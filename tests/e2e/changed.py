"""Finds out whether a test fails when the product is changed in one place.

A test is a program of tests and a name: a test binary, or a script that runs the probe. The changes of what is tested are
switched by an environment variable, so it is built once.
"""

import collections
import concurrent.futures
import dataclasses
import functools
import itertools
import os
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile
import threading
import time

# The tests of a batch run in one process. Each ends where the tests so far take so many seconds, each alone.
BATCHES = (0.3, 3, 20)
MEMORY = 2 << 30
ENV = {"PROPTEST_RNG_SEED": "1", "PROPTEST_MAX_SHRINK_ITERS": "0", "PROPTEST_DISABLE_FAILURE_PERSISTENCE": "1"}
ALONE = ["unshare", "--pid", "--fork", "--mount-proc", "--kill-child"]


@functools.cache
def alone():
    """What a command begins with so that the processes that it leaves end with it: a namespace, where the system allows one. Its
    first process waits for what others leave."""
    allowed = subprocess.run([*ALONE, "true"], stderr=subprocess.DEVNULL, check=False).returncode == 0
    return [*ALONE, "sh", "-c", '"$@"; exit $?', "sh"] if allowed else []


@dataclasses.dataclass(frozen=True, order=True)
class Binary:
    """A test binary, and the folder of the package, which is its working directory."""

    path: str
    folder: str = "."

    def names(self):
        listed = subprocess.run([self.path, "--list", "--format", "terse"], capture_output=True, text=True, check=True).stdout
        return re.findall(r"^(.*): test$", listed, re.M)

    def command(self, names, _folder, _variables):
        return [self.path, "--exact", "--test-threads", "1", *names]

    def passes(self, line):
        return line.endswith("... ok\n")


@dataclasses.dataclass(frozen=True, order=True)
class Script:
    """A script whose cases run a program."""

    path: str
    program: str
    folder: str = "."

    def names(self):
        command = [sys.executable, self.path, self.program, "--list"]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()

    def command(self, names, folder, variables):
        # Some cases run the program with no variable of their own.
        program = pathlib.Path(folder) / "program"
        exports = "".join(f"export {name}={shlex.quote(value)}\n" for name, value in variables.items())
        program.write_text(f'#!/bin/sh\n{exports}exec {shlex.quote(self.program)} "$@"\n')
        program.chmod(0o755)
        return [sys.executable, self.path, program, *names]

    def passes(self, line):
        return line.startswith("ok ")


def fails(tests, timeout=None, **variables):
    """Whether a test fails. One that does not end, or takes more and more memory, fails too."""
    for program, of_program in itertools.groupby(sorted(tests, key=str), lambda test: test[0]):
        names = [name for _, name in of_program]
        with tempfile.TemporaryDirectory() as folder:
            # In the namespace all have the same number, and some name their own folders by it.
            own = pathlib.Path(folder) / "tmp"
            own.mkdir()
            command = ["prlimit", f"--as={MEMORY}", *alone(), *program.command(names, folder, variables)]
            with subprocess.Popen(
                command,
                cwd=program.folder,
                env={**os.environ, **ENV, "CARGO_MANIFEST_DIR": os.path.abspath(program.folder), "TMPDIR": str(own), **variables},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
                errors="replace",
            ) as run:
                timer = threading.Timer(timeout or 600, run.kill)
                timer.start()
                passed = 0
                for line in run.stdout:
                    passed += program.passes(line)
                    if line.endswith("FAILED\n"):
                        run.kill()
                timer.cancel()
        if run.returncode == 0 and passed < len(names):
            sys.exit(f"{passed} of {len(names)} tests ran: {names}")
        if run.returncode != 0:
            return True
    return False


def learn(programs, pool, variable, read, without=None):
    """How long each test takes, and which tests reach a change: what `read` finds in a line of the files that a test writes to
    the folder that the variable names. Tests with a name that has the pattern `without` are left out."""
    tests = [(it, name) for it in programs for name in it.names() if not (without and re.search(without, name))]

    def run(test):
        with tempfile.TemporaryDirectory() as folder:
            start = time.monotonic()
            if fails([test], **{variable: folder}):
                sys.exit(f"{test[1]} fails without a change")
            seconds = time.monotonic() - start
            lines = [line for path in pathlib.Path(folder).iterdir() for line in path.read_text().splitlines()]
        return seconds, {change for line in lines if (change := read(line)) is not None}

    seconds, reached = {}, collections.defaultdict(set)
    for test, (took, changes) in zip(tests, pool.map(run, tests)):
        seconds[test] = took
        for change in changes:
            reached[change].add(test)
    return seconds, reached


def survives(tests, seconds, patience, **variables):
    """Whether no test fails, the quickest first, of those that take so many seconds together."""
    tests = sorted(tests, key=seconds.get)
    ends = list(itertools.accumulate(map(seconds.get, tests)))
    start = 0
    for limit in (*(it for it in BATCHES if it < patience), patience):
        batch = [test for test, end in zip(tests[start:], ends[start:]) if end <= limit]
        start += len(batch)
        if batch and fails(batch, 15 + 20 * sum(map(seconds.get, batch)), **variables):
            return False
    return True


def processors(times=1):
    return concurrent.futures.ThreadPoolExecutor(os.cpu_count() * times)
