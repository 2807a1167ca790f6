"""Requires a test to fail for each mutant of src/ that cargo-mutants finds: mutants.py MUTANTS all|part LISTED FOLDER TOOL

MUTANTS is what `cargo mutants --list --json` prints: of everything, or of a part. FOLDER gets a copy of the repository that has
all of them at once, each behind a condition, because to build each by itself takes days: TOOL writes it, which is
`tests/mutants`. Left out are those that do not compile, and those that cannot be switched: in what is evaluated at
compile time. Then each test runs alone once, to learn which mutants it reaches, and for each mutant the tests that reach it,
the quickest first, until one fails, or those so far take `PATIENCE` seconds. What is caught is kept in FOLDER: another run of
the same sources and tests goes on from there. A part is compiled as the tests are, with the same dependencies. In a whole run
a listed mutant has a fiftieth of `PATIENCE`, because nearly all of the time would pass with them.

LISTED has the mutants for which no test fails, `mutant -- why`: under `# Equivalent` if no result is different, under `# Tested
elsewhere` if another step fails, else under `# Without a test`. `…` stands for any text. Fails if a mutant that is not listed
survives, or a line lists none. A listed one may be caught: the laws find some of them by chance.
"""

import collections
import hashlib
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys

from changed import learn, processors, survives

# The laws, fuzz bodies and other tests that take longer reach nearly all mutants. All of them would take days.
PATIENCE = float(os.environ.get("MCP_PATIENCE", 200))
WITHOUT = os.environ.get("MCP_WITHOUT")
SWITCH = re.compile(r"crate::mutated::is\((\d+)\)")
WHOLE = {"RUSTFLAGS": "--cap-lints allow", "CARGO_PROFILE_TEST_OPT_LEVEL": "1", "CARGO_PROFILE_DEV_OPT_LEVEL": "1"}
PART = {"CARGO_TARGET_DIR": os.environ.get("CARGO_TARGET_DIR", os.path.abspath("target"))}
CRATE = ["-p", "mcp-proto", "-p", "mcp-proto-schema-tests", "--all-features", "--message-format=json"]
TESTS = ["--test", "suite", "--test", "host_schema", "--test", "messages", "--test", "utility_tools"]
# The errors of the library are found in half a minute.
BUILDS = [["cargo", "check", "--lib", *CRATE], ["cargo", "test", "--lib", *TESTS, "--no-run", *CRATE]]


CHANGING = ("src", "tests", "fuzz")


def copy(folder):
    """Copies the files of the repository; the sources without mutants. Returns a digest of the sources and tests."""
    digest = hashlib.sha256()
    files = subprocess.run(["git", "ls-files", "-co", "--exclude-standard"], capture_output=True, text=True, check=True).stdout
    for gone in CHANGING:
        shutil.rmtree(folder / gone, ignore_errors=True)
    for name in files.splitlines():
        source, target = pathlib.Path(name), folder / name
        if source.is_file() and source.parts[0] in CHANGING:
            digest.update(name.encode() + source.read_bytes())
        if source.is_file() and not (target.is_file() and target.stat().st_mtime == source.stat().st_mtime):
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, target)
    # Cargo takes packages at the same place in two workspaces for one: in a shared target folder, later builds of the repository
    # would run what is built here.
    manifest = folder / "Cargo.toml"
    manifest.write_text(re.sub(r'^version = "([^"+]*)"', r'version = "\1+mutated"', manifest.read_text(), count=1, flags=re.M))
    return digest.hexdigest()[:16]


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


def build(folder, instrument, settings):
    """The test binaries, the mutants that they do not have (those that do not compile, and those without a place), and what the
    binaries are made of."""
    left_out, builds = set(), list(BUILDS)
    env = {**os.environ, **settings}
    while True:
        digest = copy(folder)
        without = folder / "left-out"
        without.write_text("\n".join(sorted(left_out)))
        unplaced = subprocess.run([*instrument, without, folder], capture_output=True, text=True, check=True).stdout.split()
        run = subprocess.run(builds[0], cwd=folder, env=env, capture_output=True, text=True)
        messages = [json.loads(line) for line in run.stdout.splitlines()]
        if run.returncode == 0:
            del builds[0]
            if not builds:
                binaries = [it["executable"] for it in messages if it.get("executable")]
                # The others are names of functions.
                return binaries, {int(it) for it in left_out if it.isdigit()}, set(map(int, unplaced)), digest
            continue
        errors = [it["message"] for it in messages if it["reason"] == "compiler-message" and it["message"]["level"] == "error"]
        new = set().union(*(causes(error, folder) for error in errors)) - left_out
        if not new:
            sys.exit("".join(error["rendered"] for error in errors) or run.stderr)
        print(f"{len(errors)} errors, {len(new)} mutants less", flush=True)
        left_out |= new


class Listed:
    """The lines of the list, and how often each stands for a mutant."""

    def __init__(self, path):
        self.headings, self.used, heading = {}, collections.Counter(), None
        for line in pathlib.Path(path).read_text(encoding="utf-8").splitlines():
            if line.startswith("# "):
                heading = line[2:].lower()
            elif line:
                text = line.split(" -- ", 1)[0]
                self.headings[text] = re.compile(".*".join(map(re.escape, text.split("…")))), heading

    def heading(self, name):
        found = [(text, heading) for text, (pattern, heading) in self.headings.items() if pattern.fullmatch(name)]
        self.used.update(text for text, _ in found)
        return found[0][1] if found else "survived"


def main(path, extent, known_path, folder, tool):
    # Nothing is printed for lines without a mutant.
    mutants = json.loads(pathlib.Path(path).read_text() or "[]")
    if extent == "part" and not mutants:
        sys.exit(print("no mutant in these lines"))
    known = Listed(known_path)
    folder = pathlib.Path(folder).absolute()
    instrument = [pathlib.Path(tool).absolute(), pathlib.Path(path).absolute()]
    binaries, left_out, unplaced, digest = build(folder, instrument, PART if extent == "part" else WHOLE)
    without = left_out | unplaced
    # Without their places, which change with each line.
    names = {
        at: re.sub(r"^(\S+?):\d+:\d+: ", r"\1: ", mutant["name"])
        for at, mutant in enumerate(mutants)
        if at not in without
    }
    print(f"{len(mutants)} mutants in {'all' if extent == 'all' else 'a part'}, {len(left_out)} do not compile, {len(unplaced)} cannot be switched", flush=True)
    kept = folder / f"caught-{digest}"
    caught = set(kept.read_text().splitlines()) if kept.is_file() else set()
    os.chdir(folder)
    with processors() as pool, kept.open("a") as keep:
        seconds, reached = learn(binaries, pool, "MCP_MUTANTS", int, WITHOUT)
        print(f"{len(seconds)} tests reach {len(reached)} mutants", flush=True)

        def result(index):
            heading, name = known.heading(names[index]), mutants[index]["name"]
            if name in caught:
                return "caught"
            patience = PATIENCE / 50 if extent == "all" and heading != "survived" else PATIENCE
            if not survives(reached[index], seconds, patience, MCP_MUTANT=str(index)):
                print(f"{name}\n", end="", file=keep, flush=True)
                return "caught"
            if heading == "survived":
                print(f"no test fails: {name}\n", end="", flush=True)
            return heading

        results = collections.Counter(pool.map(result, names))
    headings = ("caught", "equivalent", "tested elsewhere", "without a test", "survived")
    counts = ", ".join(f"{results[it]} {it}" for it in headings)
    print(f"{results.total()} mutants{' of a part' if extent == 'part' else ''}: {counts}")
    unused = [] if extent == "part" else sorted(set(known.headings) - set(known.used))
    for text in unused:
        print(f"listed, but there is no such mutant: {text}")
    for text, count in known.used.items():
        if "…" in text:
            print(f"{count} listed as: {text}")
    sys.exit(not mutants or bool(results["survived"] or unused))


if __name__ == "__main__":
    main(*sys.argv[1:])
