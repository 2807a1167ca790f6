"""Counts what of src/ no test reached, in a report of llvm-cov: coverage.py NAME REPORT CEILING LIST

Places are those of the text: one that is compiled for several types, or into several test binaries, counts once, and is
covered if it ran in one of them. Not counted are unit tests, and the folders `guide`, which is documentation, and `testkit`,
which is for tests.
"""

import collections
import json
import pathlib
import re
import sys

SRC = pathlib.Path(__file__).resolve().parents[2] / "src"
LEFT_OUT = [SRC / it for it in ("guide", "testkit", "machine/rows.rs", "machine/tests.rs")]
UNIT_TESTS = re.compile(r"^#\[cfg\(test\)\]\nmod tests \{", re.MULTILINE)
CODE = 0


def lines_that_count(path):
    if SRC not in path.parents or any(it == path or it in path.parents for it in LEFT_OUT):
        return 0
    text = path.read_text(encoding="utf-8")
    tests = UNIT_TESTS.search(text)
    return text.count("\n", 0, tests.start() if tests else None)


def read(report, kind):
    """How often each place of each file was reached."""
    counts, lines = collections.Counter(), {}
    for function in json.loads(pathlib.Path(report).read_bytes())["data"][0]["functions"]:
        files = [pathlib.Path(it) for it in function["filenames"]]
        for path in files:
            if path not in lines:
                lines[path] = lines_that_count(path)
        for entry in function[kind]:
            # A branch has two counts, of the condition when true and when false.
            line, column, end_line, end_column, *reached, file, _expanded, type_ = entry
            if kind == "regions" and type_ != CODE or line > lines[files[file]]:
                continue
            for side, count in zip(("true", "false") if kind == "branches" else ("",), reached):
                counts[files[file], line, column, end_line, end_column, side] += count
    return counts


def main(name, report, ceiling, listed):
    counts = read(report, name.split()[0])
    missed = sorted(place for place, count in counts.items() if not count)
    with open(listed, "w", encoding="utf-8") as out:
        for path, line, column, end_line, end_column, side in missed:
            print(f"{path.relative_to(SRC.parent)}:{line}:{column} to {end_line}:{end_column} {side}", file=out)
    if not any(counts.values()):
        sys.exit(f"{name}: no data")
    lets = sum(
        side == "false" and path.read_text(encoding="utf-8").splitlines()[line - 1][: column - 1].endswith("let ")
        for path, line, column, _, _, side in missed
    )
    if name.startswith("branches"):
        # Many are the lookup of an entry that is there whenever the code runs: the crate has no `unwrap`.
        print(f"{name}: {lets} of those that are not reached are a `let` whose pattern does not match")
    covered = 100 * (len(counts) - len(missed)) / len(counts)
    print(f"{name} not reached: {len(missed)} of {len(counts)} ({covered:.2f} % reached), at most {ceiling}")
    sys.exit(len(missed) > int(ceiling))


if __name__ == "__main__":
    main(*sys.argv[1:])
