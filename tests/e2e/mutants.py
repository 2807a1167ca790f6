"""Requires a test to fail for each mutant of src/ that cargo-mutants finds: mutants.py ALL TRIED LISTED FOLDER TOOL

ALL and TRIED are what `cargo mutants --list --json` prints: of everything, and of what is tried. FOLDER gets a copy of the
repository that has all mutants at once, each behind a condition, because to build each by itself takes days: TOOL writes it,
which is `tests/mutants`. Left out are those that do not compile, and those that cannot be switched: in what is evaluated at
compile time. Then each test runs alone once, to learn which mutants it reaches, and for each mutant the tests that reach it,
the quickest first, until one fails.

LISTED has the mutants for which no test fails, `mutant -- why`, under `# Equivalent` if nothing that a user sees is
different, else under `# Without a test`. Fails if a mutant that is not listed survives, or a listed one does not.
"""

import collections
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys

from changed import learn, listed, processors, survives

SWITCH = re.compile(r"crate::mutated::is\((\d+)\)")
ENV = {"RUSTFLAGS": "--cap-lints allow", "CARGO_PROFILE_TEST_OPT_LEVEL": "1", "CARGO_PROFILE_DEV_OPT_LEVEL": "1"}
CRATE = ["-p", "mcp-proto", "-p", "mcp-proto-schema-tests", "--all-features", "--message-format=json"]
TESTS = ["--test", "suite", "--test", "host_schema", "--test", "messages", "--test", "utility_tools"]
# The errors of the library are found in half a minute.
BUILDS = [["cargo", "check", "--lib", *CRATE], ["cargo", "test", "--lib", *TESTS, "--no-run", *CRATE]]


def copy(folder):
    """The files of the repository; the sources without mutants."""
    files = subprocess.run(["git", "ls-files", "-co", "--exclude-standard"], capture_output=True, text=True, check=True).stdout
    shutil.rmtree(folder / "src", ignore_errors=True)
    for name in files.splitlines():
        source, target = pathlib.Path(name), folder / name
        if source.is_file() and not (target.is_file() and target.stat().st_mtime == source.stat().st_mtime):
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, target)


def closed(text, start):
    """Where the brace that is open before `start` closes."""
    depth = 1
    for at in range(start, len(text)):
        depth += {"{": 1, "}": -1}.get(text[at], 0)
        if not depth:
            return at
    return len(text)


def causes(error, folder):
    """The mutants that cause an error of the compiler: those whose text it is about, else those of the place before it. Also the
    function that has to stay `const`."""
    if error["code"] and error["code"]["code"] == "E0015":
        names = set(re.findall(r"(\w+)` in const", error["message"])) - {"is"}
        if names:
            return names
    found, before = set(), set()
    for span in error["spans"]:
        path = folder / span["file_name"]
        if not span["file_name"].startswith("src/"):
            continue
        data = path.read_bytes()
        text = data.decode()
        start, end = (len(data[: span[key]].decode()) for key in ("byte_start", "byte_end"))
        if error["code"] and error["code"]["code"] == "E0004":
            # A deleted arm is missed.
            first = text.index("{", end) + 1
            found |= set(re.findall(r"!crate::mutated::is\((\d+)\)", text[first : closed(text, first)]))
            continue
        sites = [it for it in SWITCH.finditer(text, max(0, start - 20_000), end + 12) if it.start() < end]
        for site in sites:
            within = text.startswith(" {", site.end()) and closed(text, site.end() + 2) >= end
            if within or (span["is_primary"] and site.start() >= start):
                found.add(site[1])
        if sites and span["is_primary"]:
            before.add(sites[-1][1])
    return found or before


def build(folder, instrument):
    """The test binaries, and the mutants that they do not have: those that do not compile, and those without a place."""
    left_out, builds = set(), list(BUILDS)
    while True:
        copy(folder)
        without = folder / "left-out"
        without.write_text("\n".join(sorted(left_out)))
        unplaced = subprocess.run([*instrument, without, folder], capture_output=True, text=True, check=True).stdout.split()
        run = subprocess.run(builds[0], cwd=folder, env={**os.environ, **ENV}, capture_output=True, text=True)
        messages = [json.loads(line) for line in run.stdout.splitlines()]
        if run.returncode == 0:
            del builds[0]
            if not builds:
                return [it["executable"] for it in messages if it.get("executable")], left_out, set(unplaced)
            continue
        errors = [it["message"] for it in messages if it["reason"] == "compiler-message" and it["message"]["level"] == "error"]
        new = set().union(*(causes(error, folder) for error in errors)) - left_out
        if not new:
            sys.exit("".join(error["rendered"] for error in errors) or run.stderr)
        print(f"{len(errors)} errors, {len(new)} mutants less", flush=True)
        left_out |= new


def names_of(mutants):
    """The mutants without their places, which change with each line, numbered where they are the same."""
    counts, names = collections.Counter(), []
    for mutant in mutants:
        name = re.sub(r"^(\S+?):\d+:\d+: ", r"\1: ", mutant["name"])
        counts[name] += 1
        names.append(name if counts[name] == 1 else f"{name} #{counts[name]}")
    return names


def main(all_path, tried_path, known_path, folder, tool):
    mutants = json.loads(pathlib.Path(all_path).read_text())
    tried = {mutant["name"] for mutant in json.loads(pathlib.Path(tried_path).read_text())}
    known = listed(known_path, lambda line: [line.split(" -- ", 1)[0]])
    folder = pathlib.Path(folder).absolute()
    binaries, left_out, unplaced = build(folder, [pathlib.Path(tool).absolute(), pathlib.Path(all_path).absolute()])
    without = {int(it) for it in left_out | unplaced if it.isdigit()}
    names = {at: name for at, name in enumerate(names_of(mutants)) if at not in without and mutants[at]["name"] in tried}
    print(f"{len(tried)} mutants, of which {len(names)} can be switched", flush=True)
    os.chdir(folder)
    with processors() as pool:
        seconds, reached = learn(binaries, pool, "MCP_MUTANTS", int)
        print(f"{len(seconds)} tests reach {len(reached)} mutants", flush=True)

        def result(index):
            name = names[index]
            survived = survives(reached[index], seconds, MCP_MUTANT=str(index))
            if survived != (name in known):
                print("no test fails:" if survived else "listed, but a test fails:", name, flush=True)
            return known.get(name, "survived") if survived else "caught"

        results = dict(zip(names, pool.map(result, names)))
    of = collections.Counter(results.values())
    counts = ", ".join(f"{of[it]} {it}" for it in ("caught", "equivalent", "without a test", "survived"))
    print(f"{of.total()} mutants: {counts}")
    stale = {names[index] for index, it in results.items() if it == "caught"} & set(known)
    if len(tried) == len(mutants):
        gone = set(known) - set(names.values())
        print(*(f"listed, but gone: {name}" for name in sorted(gone)), sep="\n")
        stale |= gone
    sys.exit(not results or bool(of["survived"] or stale))


if __name__ == "__main__":
    main(*sys.argv[1:])
