"""Requires a test to fail for each row of a table that is replaced: flips.py SUITE TAKEN... [--only TABLE]

SUITE is the test binary, built with the feature `rows`. TAKEN are the rows that its tests took. A row that changes something
is replaced by none, another row by what another state does, a decision by another one. The tests that take the row
run, those that take the fewest rows first. Prints a line for each table, and the rows that no test missed.
"""

import argparse
import collections
import concurrent.futures
import os
import subprocess
import sys

# They take long, and run only if no other test fails.
SLOW = ("laws", "fuzz_bodies", "model", "simulated")
FIRST = 24
# In seconds.
TIMEOUT = 300
MEMORY = 2 << 30


def read(paths):
    tests, taken, skipped = collections.Counter(), collections.defaultdict(set), set()
    for path in paths:
        with open(path, encoding="utf-8") as lines:
            for line in lines:
                test, *row = line.rstrip("\n").split("\t")
                if "::" in test:
                    tests[test] += 1
                    taken[tuple(row)].add(test)
                else:
                    skipped.add(tuple(row))
    print(f"{len(skipped - set(taken))} rows are left out: no other row does something else, or only threads of tests take them")
    return tests, taken


def batches(tests, counts):
    slow = [test for test in tests if any(part in test for part in SLOW)]
    quick = sorted(tests - set(slow), key=lambda test: (counts[test], test))
    return [batch for batch in (quick[:FIRST], quick[FIRST:], slow) if batch]


def fails(suite, row, tests):
    """Whether a test fails. One that does not end, or takes more and more memory, fails too."""
    env = {**os.environ, "MCP_FLIP": "\t".join(row), "PROPTEST_RNG_SEED": "1", "PROPTEST_MAX_SHRINK_ITERS": "0", "PROPTEST_DISABLE_FAILURE_PERSISTENCE": "1"}
    env.pop("MCP_ROWS", None)
    command = ["prlimit", f"--as={MEMORY}", suite, "--exact", "--test-threads", "1", *tests]
    try:
        run = subprocess.run(command, env=env, capture_output=True, timeout=TIMEOUT)
    except subprocess.TimeoutExpired:
        print("does not end:", " × ".join(row), flush=True)
        return True
    if b"test result:" not in run.stdout and run.returncode == 0:
        sys.exit(f"no result of {command}")
    return run.returncode != 0


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("suite")
    parser.add_argument("taken", nargs="+")
    parser.add_argument("--only")
    args = parser.parse_args()
    counts, taken = read(args.taken)
    rows = sorted(row for row in taken if args.only in (None, row[0]))
    if not rows:
        sys.exit("no rows")

    # Without a flip, nothing fails.
    for batch in batches(set(counts), counts):
        if fails(args.suite, ("none",), batch):
            sys.exit("tests fail without a flip")

    def caught(row):
        caught = any(fails(args.suite, row, batch) for batch in batches(taken[row], counts))
        if not caught:
            print("no test fails:", " × ".join(row), flush=True)
        return caught

    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        results = dict(zip(rows, pool.map(caught, rows)))
    for table in sorted({row[0] for row in rows}):
        of = [results[row] for row in rows if row[0] == table]
        print(f"{table}: {sum(of)} of {len(of)} flipped rows fail a test")
    missed = list(results.values()).count(False)
    print(f"{len(rows) - missed} of {len(rows)} flipped rows fail a test")
    sys.exit(missed > 0)


if __name__ == "__main__":
    main()
