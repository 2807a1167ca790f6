"""Finds out whether a test fails when the product is changed in one place.

A test is a test binary and a name. The changes of a binary are switched by an environment variable, so it is built once.
"""

import collections
import concurrent.futures
import itertools
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import threading
import time

# The tests of a batch run in one process. Each ends where the tests so far take so many seconds, each alone.
BATCHES = (0.3, 3, 20)
MEMORY = 2 << 30
ENV = {"PROPTEST_RNG_SEED": "1", "PROPTEST_MAX_SHRINK_ITERS": "0", "PROPTEST_DISABLE_FAILURE_PERSISTENCE": "1"}


def fails(tests, timeout=None, **env):
    """Whether a test fails. One that does not end, or takes more and more memory, fails too."""
    for binary, of_binary in itertools.groupby(sorted(tests), lambda test: test[0]):
        names = [name for _, name in of_binary]
        command = ["prlimit", f"--as={MEMORY}", binary, "--exact", "--test-threads", "1", *names]
        with subprocess.Popen(
            command, env={**os.environ, **ENV, **env}, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        ) as run:
            timer = threading.Timer(timeout or 600, run.kill)
            timer.start()
            passed = 0
            for line in run.stdout:
                passed += line.endswith("... ok\n")
                if line.endswith("FAILED\n"):
                    run.kill()
            timer.cancel()
        if run.returncode == 0 and passed != len(names):
            sys.exit(f"{passed} of {len(names)} tests ran: {names}")
        if run.returncode != 0:
            return True
    return False


def learn(binaries, pool, variable, read, without=None):
    """How long each test takes, and which tests reach a change: what `read` finds in a line of the files that a test writes to
    the folder that the variable names. Tests with a name that has the pattern `without` are left out."""
    tests = []
    for binary in binaries:
        listed = subprocess.run([binary, "--list", "--format", "terse"], capture_output=True, text=True, check=True).stdout
        names = re.findall(r"^(.*): test$", listed, re.M)
        tests += [(binary, name) for name in names if not (without and re.search(without, name))]

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


def survives(tests, seconds, patience, **env):
    """Whether no test fails, the quickest first, of those that take so many seconds together."""
    tests = sorted(tests, key=seconds.get)
    ends = list(itertools.accumulate(map(seconds.get, tests)))
    start = 0
    for limit in (*(it for it in BATCHES if it < patience), patience):
        batch = [test for test, end in zip(tests[start:], ends[start:]) if end <= limit]
        start += len(batch)
        if batch and fails(batch, 15 + 20 * sum(map(seconds.get, batch)), **env):
            return False
    return True


def processors():
    return concurrent.futures.ThreadPoolExecutor(os.cpu_count())
