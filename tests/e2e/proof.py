"""Writes a page on what is proven: proof.py FOLDER PAGE

FOLDER has, for each script in `PROOFS`, what it printed. A script without figures, or with a failure, fails.
"""
import ast, collections, pathlib, re, sys

def runs(out):
    """The commit of each run, and what it printed."""
    parts = re.split(r"^at (\S+)$", out, flags=re.M)[1:]
    return list(zip(parts[::2], parts[1::2]))


def by_commit(commits):
    """How many are of which commit, if there are several."""
    counts = collections.Counter(commits).most_common()
    return f" ({', '.join(f'{count} at {commit}' for commit, count in counts)})" if len(counts) > 1 else ""


HEAD = """What is known of the engine beyond its tests, how far it was looked at, and the command that does it. `.ci/proof` writes this
page from what the commands printed, and fails where one is missing. The commands and the files are in the repository;
its CONTRIBUTING.md tells how long each takes.
"""


def explored(out):
    tables = re.findall(r"^\S+: (\d+) of (\d+) rows taken$", re.split(r"^at \S+$", out, flags=re.M)[-1], re.M)
    taken, rows = map(sum, zip(*(map(int, counts) for counts in tables)))
    # The script may have run several times, for some of the starts. The last run of each counts.
    found = {}
    for commit, run in runs(out):
        for name, counts in re.findall(r"^(.+): \[(\d[\d, ]*)\]$", run, re.M):
            found[name] = commit, list(map(int, counts.split(", ")))
    snapshot = pathlib.Path("tests/suite/snapshots/suite__fuzz_bodies__every_order_of_operations.snap").read_text()
    starts = re.findall(r"^(.+): \[\d[\d, ]*\]$", snapshot, re.M)
    if missing := set(starts) - set(found):
        sys.exit(f"explore: no run from {', '.join(sorted(missing))}")
    commits = by_commit(found[start][0] for start in starts)
    depth = min(len(found[start][1]) for start in starts) - 1
    states = sum(sum(found[start][1]) for start in starts)
    return f"""Every order of {depth} operations (commands, messages, responses, losses, time) is tried from {len(starts)} starts{commits}: each phase, in
both eras, over messages and HTTP, and authorizations, alone and of a client. States of a client that differ in ids and times only
are one. **{states:,} states**, and the laws of the fuzz targets hold in each: a request ends once, no call whose connection or
exchange was lost is sent again, no secret is shown, everything has a bound, the last instant comes to an end, and closing
ends the client. What a client or an authorization does is what the reference models say. In all states but the last of an
order a client is also saved and restored, with the transport and without. Authorizations are not saved, and hubs are not explored.

**{taken:,} of {rows:,} rows** of the tables are taken by the orders of two of these operations or by the corpora of the fuzz
targets, in which the same laws and models hold."""


def flipped(out):
    # The last run of each table counts.
    line = r"^(\S+): (\d+) cells, (\d+) caught, (\d+) equivalent, (\d+) without a test, (\d+) survived$"
    found = [(commit, *table) for commit, run in runs(out) for table in re.findall(line, run, re.M)]
    tables = {table: (commit, list(map(int, counts))) for commit, table, *counts in found if table != "all"}
    of, caught, equivalent, untested, survived = map(sum, zip(*(counts for _, counts in tables.values())))
    commits = by_commit(commit for commit, _ in tables.values())
    if survived or "\nall: " not in out:
        sys.exit(f"flips: {survived} survived, or not all tables were tried")
    return f"""Each cell, which is a state with an input, of {len(tables)} tables{commits} is replaced if a test takes it. Where the input changes something, it
changes nothing then; where it is ignored, it does what it does in another state; a decision becomes another one. For
**{caught:,} of {of:,}** cells a test fails. For {equivalent:,} the effect is the same, and for {untested:,} there is no test:
`tests/e2e/flips.txt` lists them, with reasons."""


def mutated(out):
    begins = r"^(\S+): (\d+) mutants in all, (\d+) do not compile, (\d+) cannot be switched$"
    ends = r"^(\S+): (\d+) mutants: (\d+) caught, (\d+) equivalent, (\d+) tested elsewhere, (\d+) without a test, (\d+) survived$"
    # The last run of each part.
    begun, ended = ({part: list(map(int, counts)) for part, *counts in re.findall(it, out, re.M)} for it in (begins, ends))
    rows = []
    for part, (of, caught, equivalent, elsewhere, untested, survived) in ended.items():
        found, left_out, unplaced = begun[part]
        if (survived and part == "src") or of + left_out + unplaced != found:
            sys.exit(f"mutants of {part}: {survived} survived, or not all were tried")
        share = f"{caught:,} ({100 * caught / of:.1f} %)"
        rows.append(f"| `{part}` | {found:,} | {of:,} | {share} | {equivalent:,} | {elsewhere:,} | {untested:,} | {survived:,} |")
    table = "\n".join(rows)
    return f"""What `cargo-mutants` changes in `src/`, in the drivers and in the probe; in the drivers and the probe also each statement that is
dropped, each bound that is, each two arguments of a call that change places, and each constant or number that is another one.
Viable are those that compile here and can be switched on. Each is tried with the tests that reach it, the quickest first, up to
200 seconds of them, or four if it is listed, until one fails: then it is caught. `tests/e2e/mutants.txt` lists others, with
reasons: no result is different, another step fails, or there is no test. Open are those that nobody has looked at. All of a part
are compiled at once, each behind a condition, because to compile each by itself takes days.

| Part | Found | Viable | Caught | No difference | Another step | No test | Open |
| --- | --- | --- | --- | --- | --- | --- | --- |
{table}"""


def simulated(out):
    seeds, counts = re.findall(r"^(\d+) seeds: (\{.*?^\})", out, re.M | re.S)[-1]
    if int(seeds) < 100_000:
        sys.exit(f"simulate: {seeds} seeds are not 100,000")
    rows = "\n".join(f"| {name} | {count:,} |" for name, count in sorted(ast.literal_eval(counts).items()))
    driver = re.findall(r"^(\d+) seeds of the driver on tokio: (\{.*?^\})", out, re.M | re.S)
    driven = "".join(f"""

**{int(seeds):,} seeds** of sessions of `mcp-proto-tokio`, over streams and HTTP, on paused time, with the same faults and
restores: {ast.literal_eval(counts)["call"]:,} calls. What the client in a session took and wanted sent is what the link carried, byte for byte, the
host was told what the client reported, and what was closed left no task.""" for seeds, counts in driver[-1:])
    return f"""**{int(seeds):,} seeds** of clients over messages, lines and HTTP, with and without a sign-in, and of hubs, with servers of both
eras, the faults of this table, and restores from snapshots. `twice` is an answer that is sent twice, `torn` one that breaks off,
`noise` a line that is no message; a server dies `before` a tool runs or `after` it. No call ran twice, each ended once, and
once faults stopped every client was ready, or closed for a reason. `examples/simulator/build` writes a page,
`target/simulator.html`, that draws the run of a seed: the messages, the faults, and how each call ended. A browser opens it
as a file.

| What happened | How often |
|---|--:|
{rows}{driven}"""


def covered(out):
    *_, (missed, of, part) = re.findall(r"^branches by the tests not reached: (\d+) of (\d+) \((.*) % reached\)", out, re.M)
    *_, lets = re.findall(r"^branches by the tests: (\d+) of those that are not reached are a `let` whose pattern does not match$", out, re.M)
    return f"""**{part} %** of the branches in `src/`, without the test kit, are reached by the tests: all but {int(missed):,} of {int(of):,}. {lets}
of those are the other side of a `let` pattern, such as the lookup of an entry: where there is no such entry the crate does
nothing; it does not panic."""


def replayed(out):
    *_, (missed, of, part) = re.findall(r"^regions by the corpora not reached: (\d+) of (\d+) \((.*) % reached\)", out, re.M)
    inputs, targets = re.findall(r"^(\d+) inputs of (\d+) targets$", out, re.M)[-1]
    return f"""The corpora of the {targets} fuzz targets alone reach **{part} %** of the regions in `src/`, without the test kit: all but {int(missed):,}
of {int(of):,}. `.ci/run` replays them, and runs {int(inputs):,} inputs in all."""


def fuzzed(out):
    # The script may have run several times, for some of the targets.
    inputs = collections.Counter()
    for target, count in re.findall(r"^(\S+): inputs without a finding: (\d+)$", out, re.M):
        inputs[target] += int(count)
    missing = {path.stem for path in pathlib.Path("fuzz/fuzz_targets").glob("*.rs")} - set(inputs)
    if "SUMMARY: libFuzzer" in out:
        sys.exit("fuzz-random: there is a finding")
    if missing:
        sys.exit(f"fuzz-random: no runs of {', '.join(sorted(missing))}")
    rows = "\n".join(f"| {target} | {count:,} |" for target, count in inputs.most_common())
    return f"""**{inputs.total():,} inputs** without a finding. Each earlier finding is in `fuzz/corpus/`.

| Target | Inputs |
|---|--:|
{rows}"""


def interpreted(out):
    count = re.findall(r"^(\d+) tests ran in Miri$", out, re.M)[-1]
    return f"""**{count} tests** of JSON values, texts and bindings, which read the bytes of a server, run in an interpreter that sees
undefined behaviour. The crate has no unsafe code; its dependencies do."""


def lowest(out):
    count = re.findall(r"^(\d+) feature sets compile with the lowest versions$", out, re.M)[-1]
    return f"""**{count} feature sets**: none, each feature alone, each two of which none implies the other, all. Each
compiles with the lowest versions of its dependencies."""


TAIL = """
# Reference models: `fuzz/bodies/model.rs`, `oauth_model.rs`

Two models, written from the specification and from what servers are known to do, without the tables of the crate.

- That of a client sees what it is commanded, receives, sends and reports. It says which message may follow, and which has to:
  when a list is requested, and with which cursor; when a client is ready, with which lists and which states of them; what is not
  requested because it is not declared; which outcome a request may have, after how many attempts, and by when; which request of
  the server has a response at once, and of which the embedder is told.
- That of an authorization sees its inputs and actions. It says which metadata, endpoints and scopes it may use, because
  someone named them and they pass the checks; which redirect means nothing; that a code is sent once, to its issuer, with the
  verifier of the URL that was shown; that a refresh token is exchanged once, one at a time and under the lock; which record may be
  replaced; which token is presented.

Operations are read from bytes, so that the exploration, the fuzz targets `session`, `http` and `oauth`, their corpora, and
proptest, which shrinks what fails, drive the same models. All tests of an authorization run under its model, too. Where the meaning
of a message is not certain, the model of a client forgets the connection, and goes on with the next one. Hubs have laws, and no
model.

# Short inputs: the tests

Lines, events of a stream and JSON are decoded from every text of some pieces up to a length, wherever it is cut, and compared
with a second implementation: `lines::each_chunking_of_each_short_text_gives_the_same_lines`,
`sse::each_short_stream_gives_the_events_of_the_standard_wherever_it_is_cut`,
`jsonrpc::decode::tests::every_short_text_is_judged_as_serde_json_does`. Times are added and compared at every edge:
`values::times_saturate_at_the_first_and_the_last`. This is in place of proofs by `kani`, whose compiler is in no registry of
packages.
"""

PROOFS = [
    ("explore", "Exploration", explored),
    ("flips", "Flipped rows", flipped),
    ("mutants", "Mutants", mutated),
    ("simulate", "Simulation", simulated),
    ("coverage", "Branches", covered),
    ("fuzz", "Corpora", replayed),
    ("fuzz-random", "Fuzzing", fuzzed),
    ("miri", "Miri", interpreted),
    ("minimal", "Lowest versions", lowest),
]


def main(folder, page):
    text = HEAD
    for script, title, describe in PROOFS:
        path = pathlib.Path(folder, script)
        if not path.is_file():
            sys.exit(f"{path} is missing: run .ci/proof {script}")
        try:
            out = path.read_text()
            commit = re.findall(r"^at (\S+)$", out, re.M)[-1]
            text += f"\n# {title}: `.ci/{script}`, at {commit}\n\n{describe(out)}\n"
        except (IndexError, ValueError) as error:
            sys.exit(f"{path} has no figures: {error}")
    pathlib.Path(page).write_text(text + TAIL)


main(*sys.argv[1:])
