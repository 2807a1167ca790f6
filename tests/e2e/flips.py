"""Requires a test to fail for each cell of a table that is replaced: flips.py SUITE LISTED [TABLE]

SUITE is the test binary, built with the feature `rows`. Each of its tests runs alone once, to learn which cells it takes. Then
each cell is replaced in turn: one that changes something by none, another by what another state does, a decision by another
one. The tests that take it run, the quickest first, until one fails.

LISTED has the cells for which no test fails, `table × state × input: why`, under `# Equivalent` if the other row has the same
effect, else under `# Without a test`. A part may be several values, `a|b`. Fails if a cell that is not listed survives, or a
listed one does not.
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

# The tests of a batch run in one process, for so many seconds without a flip.
BATCHES = (0.3, 3, float("inf"))
MEMORY = 2 << 30
ENV = {"PROPTEST_RNG_SEED": "1", "PROPTEST_MAX_SHRINK_ITERS": "0", "PROPTEST_DISABLE_FAILURE_PERSISTENCE": "1"}


def fails(suite, tests, timeout=None, **env):
    """Whether a test fails. One that does not end, or takes more and more memory, fails too."""
    command = ["prlimit", f"--as={MEMORY}", suite, "--exact", "--test-threads", "1", *tests]
    env = {**os.environ, **ENV, **env}
    with subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as run:
        timer = threading.Timer(timeout or 600, run.kill)
        timer.start()
        passed = 0
        for line in run.stdout:
            passed += line.endswith("... ok\n")
            if line.endswith("FAILED\n"):
                run.kill()
        timer.cancel()
    if run.returncode == 0 and passed != len(tests):
        sys.exit(f"{passed} of {len(tests)} tests ran: {tests}")
    return run.returncode != 0


def learn(suite, pool):
    """How long each test takes, and which tests take a cell."""
    listed = subprocess.run([suite, "--list", "--format", "terse"], capture_output=True, text=True, check=True).stdout
    tests = re.findall(r"^(.*): test$", listed, re.M)

    def run(test):
        with tempfile.TemporaryDirectory() as folder:
            start = time.monotonic()
            if fails(suite, [test], MCP_ROWS=folder):
                sys.exit(f"{test} fails without a flip")
            seconds = time.monotonic() - start
            lines = [line for path in pathlib.Path(folder).iterdir() for line in path.read_text().splitlines()]
        return seconds, [tuple(line.split("\t")[1:]) for line in lines if line.startswith("+")]

    seconds, takers = {}, collections.defaultdict(set)
    for test, (took, cells) in zip(tests, pool.map(run, tests)):
        seconds[test] = took
        for cell in cells:
            takers[cell].add(test)
    return seconds, takers


def survives(suite, cell, tests, seconds):
    tests = sorted(tests, key=seconds.get)
    ends = list(itertools.accumulate(map(seconds.get, tests)))
    start = 0
    for limit in BATCHES:
        batch = [test for test, end in zip(tests[start:], ends[start:]) if end <= limit]
        start += len(batch)
        if batch and fails(suite, batch, 15 + 20 * sum(map(seconds.get, batch)), MCP_FLIP="\t".join(cell)):
            return False
    return True


def read(path):
    """The listed cells, each with its heading."""
    heading, cells = None, {}
    for line in pathlib.Path(path).read_text(encoding="utf-8").splitlines():
        if line.startswith("# "):
            heading = line[2:].lower()
        elif line:
            pattern, _why = line.split(": ", 1)
            cells |= dict.fromkeys(itertools.product(*(part.split("|") for part in pattern.split(" × "))), heading)
    return cells


def main(suite, path, only=None):
    listed = {cell: heading for cell, heading in read(path).items() if only in (None, cell[0])}
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        seconds, takers = learn(suite, pool)
        cells = sorted(cell for cell in takers if only in (None, cell[0]))
        print(f"{len(seconds)} tests take {len(cells)} cells", flush=True)

        def result(cell):
            survived = survives(suite, cell, takers[cell], seconds)
            if survived != (cell in listed):
                print("no test fails:" if survived else "listed, but a test fails:", " × ".join(cell), flush=True)
            return listed.get(cell, "survived") if survived else "caught"

        results = dict(zip(cells, pool.map(result, cells)))
    for cell in sorted(set(listed) - set(cells)):
        print("listed, but no test takes it:", " × ".join(cell))
    for table in [*sorted({cell[0] for cell in cells}), "all"]:
        of = collections.Counter(result for cell, result in results.items() if table in ("all", cell[0]))
        counts = ", ".join(f"{of[it]} {it}" for it in ("caught", "equivalent", "without a test", "survived"))
        print(f"{table}: {of.total()} cells, {counts}")
    sys.exit(not cells or set(listed) != {cell for cell in cells if results[cell] != "caught"})


if __name__ == "__main__":
    main(*sys.argv[1:])
