"""Runs the properties of the crate in rounds, each with a new seed, until the time is over or one fails.

Usage: laws.py SECONDS BUILT COMMAND..., where BUILT has the messages of `COMMAND --no-run --message-format=json`.
"""

import collections
import json
import os
import pathlib
import random
import re
import subprocess
import sys
import time

# Cases of a property that does not say how many, as proptest has them.
CASES = 256


def blocks(text, begin):
    """The texts from what matches, at the begin of a line, up to the closing brace of the same indentation."""
    for found in re.finditer(rf"^( *){begin}[^\n]*\n", text, re.M):
        end = re.compile(rf"^{found[1]}}}", re.M).search(text, found.end())
        yield text[found.start() : end.end()]


def number(text):
    """How many cases a configuration says."""
    said = re.search(r"(?:cases: |config\(|with_cases\()([\d_]+)", text)
    if said:
        return int(said[1].replace("_", ""))
    factor = re.search(r"cases\.saturating_mul\((\d+)\)", text)
    return CASES * int(factor[1]) if factor else CASES


def properties(path):
    """The properties of a file, with how many cases each has in a round."""
    text = path.read_text()
    found = {}
    for block in blocks(text, r"proptest! \{"):
        said = re.search(r"#!\[proptest_config\((.*?)\)\]$", block, re.M | re.S)
        said = said[1] if said else ""
        if said == "config()":
            said = next(blocks(text, r"fn config\(\)"))
        # The attribute has to precede a test; what has none is a helper.
        for name in re.findall(r"#\[test\](?:\s*#\[[^\n]*\])*\s*fn (\w+)", block):
            found[name] = number(said)
        if not found:
            sys.exit(f"{path}: a block without a property")
    # Tests that call a function with a runner.
    for runner in blocks(text, r"fn check<S: Strategy>"):
        for test in blocks(text, r"fn \w+\(\) \{$"):
            if "    check(" in test:
                found[re.search(r"fn (\w+)", test)[1]] = number(runner)
    return found


def module(path):
    """The test binary of a file, and the begin of the names of its tests."""
    first, *inner = path.with_suffix("").parts
    if first == "src":
        return "mcp_proto", "".join(f"{it}::" for it in inner)
    folder, *inner = inner
    if folder == "suite":
        return folder, "".join(f"{it}::" for it in inner if it != "mod")
    return inner[0] if inner else folder, ""


def main():
    seconds, built, command = int(sys.argv[1]), sys.argv[2], " ".join(sys.argv[3:])
    binaries = {}
    for line in open(built):
        message = json.loads(line)
        if message.get("executable") and message["profile"]["test"]:
            binaries[message["target"]["name"]] = (message["executable"], pathlib.Path(message["manifest_path"]).parent)
    known = {}
    for name, (binary, folder) in binaries.items():
        listed = subprocess.run([binary, "--list", "--format", "terse"], cwd=folder, capture_output=True, text=True, check=True)
        known[name] = [line.removesuffix(": test") for line in listed.stdout.splitlines() if line.endswith(": test")]

    laws = collections.defaultdict(dict)
    for path in sorted([*pathlib.Path("src").rglob("*.rs"), *pathlib.Path("tests").rglob("*.rs")]):
        text = path.read_text()
        if not re.search(r"proptest! \{|TestRunner::new\(", text):
            continue
        found = properties(path)
        if not found:
            sys.exit(f"{path} has properties that are not found")
        name, prefix = module(path)
        for law, cases in found.items():
            tests = [it for it in known.get(name, []) if it.startswith(prefix) and it.split("::")[-1] == law]
            if not tests:
                sys.exit(f"{path}: {law} is in no test binary")
            laws[name].update(dict.fromkeys(tests, cases))
    print(sum(map(len, laws.values())), "properties in", len(laws), "binaries", flush=True)

    begin, rounds, took = time.monotonic(), 0, collections.Counter()
    while time.monotonic() < begin + seconds:
        seed = random.SystemRandom().getrandbits(64)
        print(f"round {rounds + 1}, {time.monotonic() - begin:.0f} s: PROPTEST_RNG_SEED={seed}", flush=True)
        for name, tests in laws.items():
            binary, folder = binaries[name]
            environment = os.environ | {"PROPTEST_RNG_SEED": str(seed), "PROPTEST_CASES": str(CASES)}
            start = time.monotonic()
            run = subprocess.run(
                [binary, "--exact", *tests], cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
            )
            took[name] += time.monotonic() - start
            passed = re.search(r"^test result: ok\. (\d+) passed; 0 failed; 0 ignored", run.stdout, re.M)
            if run.returncode or not passed or int(passed[1]) != len(tests):
                print(run.stdout)
                failed = re.findall(r"^test (\S+)(?: - .*)? \.\.\. FAILED$", run.stdout, re.M) or list(tests)
                target = "--lib" if name == "mcp_proto" else f"--test {name}"
                print(f"{name}: {len(tests)} properties had to pass; failed: {' '.join(failed)}")
                print("proptest keeps the input in a folder `proptest-regressions`, and tries it first. To have it again:")
                print(f"PROPTEST_RNG_SEED={seed} PROPTEST_CASES={CASES} {command} {target} -- --exact {' '.join(failed)}")
                sys.exit(1)
        rounds += 1
    for name, tests in laws.items():
        print(f"{name}: {took[name]:.0f} s")
        for test, cases in tests.items():
            print(f"    {rounds * cases:>10} cases  {test}")
    print(f"rounds: {rounds}, in {time.monotonic() - begin:.0f} s, without a find")


main()
