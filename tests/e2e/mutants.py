"""Requires a test to fail for each mutant of a part: mutants.py PART CARGO OWN LISTED FOLDER TOOL [DIFF]

A part is a package, or half of its mutants (`PARTS`). CARGO is what `cargo mutants --list --json` prints, and OWN what `TOOL list`
does, which is `tests/mutants`: with DIFF, only those of the lines that it changes. FOLDER gets a copy of the repository that has
all of them at once, each behind a condition, because to build each by itself takes days: TOOL writes it. Left out are those
that do not compile, and those that cannot be switched: in what is evaluated at compile time, or is not compiled here. Then each
test runs alone once, to learn which mutants it reaches, in whichever of its processes, and for each mutant the tests that reach
it, the quickest first, until one fails, or those so far take `PATIENCE` seconds. The tests are those of the package; those of
the probe also the cases of scripts that need nothing from elsewhere. What is caught is kept in FOLDER: another run of the same
sources and tests goes on from there. A part of the core's lines is compiled as the tests are, with the same dependencies. In a
whole run a listed mutant has a fiftieth of `PATIENCE`, because nearly all of the time would pass with them.

LISTED has the mutants for which no test fails, `mutant -- why`: under `# Equivalent` if no result is different, under `# Tested
elsewhere` if another step fails, else under `# Without a test`. `…` stands for any text. Fails if a mutant that is not listed
survives, or a line lists none. A listed one may be caught: the laws find some of them by chance.
"""

import collections
import dataclasses
import hashlib
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys

from changed import Binary, Script, learn, processors, survives

# The laws, fuzz bodies and other tests that take longer reach nearly all mutants. All of them would take days.
PATIENCE = float(os.environ.get("MCP_PATIENCE", 200))
WITHOUT = os.environ.get("MCP_WITHOUT")
SWITCH = re.compile(r"crate::mutated::is\((\d+)\)")
WHOLE = {"RUSTFLAGS": "--cap-lints allow", "CARGO_PROFILE_TEST_OPT_LEVEL": "1", "CARGO_PROFILE_DEV_OPT_LEVEL": "1"}
PART = {"CARGO_TARGET_DIR": os.environ.get("CARGO_TARGET_DIR", os.path.abspath("target"))}
SHIPPED = {"RUSTFLAGS": "--cap-lints allow"}
SCRIPTS = ("auth_findings", "behaviours", "config", "diagnoses", "proxies", "secrets")


@dataclasses.dataclass(frozen=True)
class Part:
    """A package: where its sources are, and what else is compiled with it; how it is checked, and its tests are built."""

    package: str
    sources: str
    root: str
    read: tuple
    check: tuple
    tests: tuple
    # Which mutants: what `cargo mutants` finds, and those of `tests/mutants/own.rs`.
    is_found: bool = True
    is_own: bool = True
    # Of the drivers' tests, most wait most of the time.
    workers: int = 8
    settings: dict = dataclasses.field(default_factory=lambda: SHIPPED)
    scripts: tuple = ()

    @property
    def folder(self):
        return os.path.dirname(self.sources) or "."

    def builds(self):
        # The errors of the library are found in half a minute.
        common = ["--all-features", "--message-format=json"]
        return [["cargo", "check", *self.check, *common], ["cargo", "test", *self.tests, "--no-run", *common]]


SUITES = ("--test", "suite", "--test", "host_schema", "--test", "messages", "--test", "utility_tools")
CORE = Part(
    "mcp-proto",
    "src",
    "src/lib.rs",
    ("tests", "fuzz/bodies"),
    ("-p", "mcp-proto", "--lib"),
    ("-p", "mcp-proto", "-p", "mcp-proto-schema-tests", "--lib", *SUITES),
    is_own=False,
    workers=1,
    settings=WHOLE,
)


def crate(package, folder, root, kind, **more):
    check, tests = ("-p", package, kind), ("-p", package, kind, "--tests")
    sources = f"{folder}/src"
    return Part(package, sources, f"{sources}/{root}", (f"{folder}/tests",), check, tests, **more)


PARTS = {
    "src": CORE,
    "src-own": dataclasses.replace(CORE, is_found=False, is_own=True),
    "drivers/std": crate("mcp-proto-std", "drivers/std", "lib.rs", "--lib"),
    "drivers/tokio": crate("mcp-proto-tokio", "drivers/tokio", "lib.rs", "--lib"),
    "probe": crate("mcp-probe", "probe", "main.rs", "--bins", scripts=SCRIPTS),
}
CHANGING = ("src", "tests", "fuzz", "drivers", "probe")
# A list of mutants is no test.
LISTS = "tests/e2e/mutants.txt"


def copy(folder):
    """Copies the files of the repository; the sources without mutants. Returns a digest of the sources and tests."""
    digest = hashlib.sha256()
    files = subprocess.run(["git", "ls-files", "-co", "--exclude-standard"], capture_output=True, text=True, check=True).stdout
    for gone in CHANGING:
        shutil.rmtree(folder / gone, ignore_errors=True)
    for name in files.splitlines():
        source, target = pathlib.Path(name), folder / name
        if source.is_file() and source.parts[0] in CHANGING and name != LISTS:
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


def causes(error, folder, sources):
    """The mutants that cause an error of the compiler: those whose text it is about, else those of the place before it. Also the
    function that has to stay `const`."""
    if error["code"] and error["code"]["code"] == "E0015":
        names = set(re.findall(r"(\w+)` in const", error["message"])) - {"is"}
        if names:
            return names
    found, before = set(), set()
    for span in error["spans"]:
        path = folder / span["file_name"]
        if not span["file_name"].startswith(f"{sources}/"):
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
            # The condition of a statement that is missed.
            condition = site.start() >= start and end - start < 60
            if within or condition or (span["is_primary"] and site.start() >= start):
                found.add(site[1])
        if sites and span["is_primary"]:
            before.add(sites[-1][1])
    return found or before


def build(part, folder, mutants, tool, settings):
    """The programs of tests, the mutants that they do not have (those that do not compile, and those without a place), and what
    they are made of."""
    left_out, builds = set(), part.builds()
    env = {**os.environ, **settings}
    while True:
        digest = copy(folder)
        without = folder / "left-out"
        without.write_text("\n".join(sorted(left_out)))
        instrument = [tool, "switch", mutants, without, folder, part.sources, part.root, *part.read]
        unplaced = subprocess.run(instrument, capture_output=True, text=True, check=True).stdout.split()
        run = subprocess.run(builds[0], cwd=folder, env=env, capture_output=True, text=True)
        messages = [json.loads(line) for line in run.stdout.splitlines()]
        if run.returncode == 0:
            del builds[0]
            if not builds:
                made = [it for it in messages if it.get("executable")]
                programs = [Binary(it["executable"], part.folder) for it in made if it["profile"]["test"]]
                probes = [it["executable"] for it in made if not it["profile"]["test"]]
                programs += [Script(str(folder / f"tests/e2e/{name}.py"), *probes) for name in part.scripts]
                # The others are names of functions.
                return programs, {int(it) for it in left_out if it.isdigit()}, set(map(int, unplaced)), digest
            continue
        errors = [it["message"] for it in messages if it["reason"] == "compiler-message" and it["message"]["level"] == "error"]
        new = set().union(*(causes(error, folder, part.sources) for error in errors)) - left_out
        if not new:
            sys.exit("".join(error["rendered"] for error in errors) or run.stderr)
        print(f"{len(errors)} errors, {len(new)} mutants less", flush=True)
        left_out |= new


class Listed:
    """The lines of the list that are about a part, and how often each stands for a mutant."""

    def __init__(self, path, part):
        self.headings, self.used, heading = {}, collections.Counter(), None
        for line in pathlib.Path(path).read_text(encoding="utf-8").splitlines():
            if line.startswith("# "):
                heading = line[2:].lower()
            elif line:
                text = line.split(" -- ", 1)[0]
                is_own = text.split(": ", 1)[-1].split(" ")[0] in ("drop", "swap", "change")
                is_of_part = text.startswith(part.sources + "/") and (part.is_own if is_own else part.is_found)
                if is_of_part or text.startswith("…"):
                    self.headings[text] = re.compile(".*".join(map(re.escape, text.split("…")))), heading

    def heading(self, name):
        found = [(text, heading) for text, (pattern, heading) in self.headings.items() if pattern.fullmatch(name)]
        self.used.update(text for text, _ in found)
        return found[0][1] if found else "survived"


def changed_lines(diff):
    """The lines of each file that a diff adds."""
    lines, file, at = collections.defaultdict(set), None, 0
    for line in diff.splitlines():
        if line.startswith("+++ "):
            file = line[4:].removeprefix("b/")
        elif line.startswith("@@ "):
            at = int(re.search(r"\+(\d+)", line)[1])
        elif line.startswith("+"):
            lines[file].add(at)
            at += 1
        elif not line.startswith("-"):
            at += 1
    return lines


def chosen(part, found, own, diff):
    """The mutants of a part."""
    mutants = [it for it in found if it["file"].startswith(part.sources + "/")] if part.is_found else []
    if part.is_own:
        changed = changed_lines(diff) if diff is not None else None
        mutants += [it for it in own if changed is None or it["span"]["start"]["line"] in changed[it["file"]]]
    return mutants


def figures(names, results):
    """How many mutants of each file are caught."""
    of = collections.defaultdict(collections.Counter)
    for name, result in zip(names, results):
        of[name.split(": ", 1)[0]][result] += 1
    of["all"] = sum(of.values(), collections.Counter())
    for file, counts in of.items():
        print(f"{file}: {counts.total()} mutants, {counts['caught']} caught, {100 * counts['caught'] / counts.total():.1f} %")


def main(name, found, own, known_path, folder, tool, diff=None):
    part = PARTS[name]
    # Nothing is printed for lines without a mutant.
    found, own = (json.loads(pathlib.Path(path).read_text() or "[]") for path in (found, own))
    mutants = chosen(part, found, own, None if diff is None else pathlib.Path(diff).read_text())
    if not mutants:
        sys.exit(print("no mutant in these lines"))
    known = Listed(known_path, part)
    folder, tool = pathlib.Path(folder).absolute(), pathlib.Path(tool).absolute()
    listed = folder / "mutants.json"
    listed.write_text(json.dumps(mutants))
    settings = PART if diff is not None and part.package == CORE.package else part.settings
    programs, left_out, unplaced, digest = build(part, folder, listed, tool, settings)
    without = left_out | unplaced
    # Without their places, which change with each line.
    names = {
        at: re.sub(r"^(\S+?):\d+:\d+: ", r"\1: ", mutant["name"])
        for at, mutant in enumerate(mutants)
        if at not in without
    }
    extent = "all" if diff is None else "a part"
    print(f"{name}: {len(mutants)} mutants in {extent}, {len(left_out)} do not compile, {len(unplaced)} cannot be switched", flush=True)
    kept = folder / f"caught-{digest}"
    caught = set(kept.read_text().splitlines()) if kept.is_file() else set()
    os.chdir(folder)
    with processors(part.workers) as pool, kept.open("a") as keep:
        seconds, reached = learn(programs, pool, "MCP_MUTANTS", int, WITHOUT)
        print(f"{len(seconds)} tests reach {len(reached)} mutants", flush=True)

        def result(index):
            heading, text = known.heading(names[index]), mutants[index]["name"]
            if text in caught:
                return "caught"
            patience = PATIENCE / 50 if diff is None and heading != "survived" else PATIENCE
            if not survives(reached[index], seconds, patience, MCP_MUTANT=str(index)):
                print(f"{text}\n", end="", file=keep, flush=True)
                return "caught"
            if heading == "survived":
                print(f"no test fails: {text}\n", end="", flush=True)
            return heading

        results = list(pool.map(result, names))
    if diff is None:
        figures(names.values(), results)
    results = collections.Counter(results)
    headings = ("caught", "equivalent", "tested elsewhere", "without a test", "survived")
    counts = ", ".join(f"{results[it]} {it}" for it in headings)
    print(f"{name}: {results.total()} mutants{'' if diff is None else ' of a part'}: {counts}")
    unused = sorted(set(known.headings) - set(known.used)) if diff is None else []
    unused = [text for text in unused if not text.startswith("…")]
    for text in unused:
        print(f"listed, but there is no such mutant: {text}")
    for text, count in known.used.items():
        if "…" in text:
            print(f"{count} listed as: {text}")
    sys.exit(not mutants or bool(results["survived"] or unused))


if __name__ == "__main__":
    main(*sys.argv[1:])
