"""Prints the structure of the workspace: of each package the lines of code, files, `cfg`s with a feature and features, the
public items of the libraries, the lines of tests and fuzz bodies, and of each table its rows.

A line of code is one that is neither blank nor a comment alone. Of a table: rows; those that overlap with an earlier one, which
begin with `else`; those that are `ignore` and `never`; and the rows of a state of several parts that have a part in them that
says nothing, `_` or `None`.
"""

import pathlib
import re
import tomllib

CODE = re.compile(r"\s*(?!//)\S")
FEATURE = re.compile(r"cfg(?:_attr|!)?\(.*feature")
HEAD = re.compile(r'"([\w:-]+)" \w+(?:: \w+ *(\{[^}]*\})?, \w+, \w+|\([^)]*\)\s*-> [\w:]+);')
ROW = re.compile(r"^ *(else )?((?:\([^()]*\)\s*)+)=>\s*(\w*)", re.M)


def packages():
    """The packages that are published, by their folder."""
    for manifest in sorted(pathlib.Path().glob("**/Cargo.toml")):
        if "target" in manifest.parts:
            continue
        package = tomllib.loads(manifest.read_text())
        if package.get("package", {}).get("publish", True) is not False and (manifest.parent / "src").is_dir():
            yield manifest.parent, package


def print_table(head, lines):
    widths = [max(len(str(line[at])) for line in [head, *lines]) for at in range(len(head))]
    for line in [head, *lines]:
        cells = (f"{it:,}" if isinstance(it, int) else it for it in line)
        print("  ".join(it.ljust(width) if at == 0 else it.rjust(width + 1) for at, (it, width) in enumerate(zip(cells, widths))))
    print()


def code(files):
    return sum(bool(CODE.match(line)) for file in files for line in file.read_text().splitlines())


def public_items(name):
    """The lines of the listing of the API, without those of implementations."""
    listing = pathlib.Path(f"tests/api/{name}.txt")
    lines = listing.read_text().splitlines() if listing.is_file() else []
    return sum("impl" not in line.split() for line in lines) or "–"


def print_packages():
    lines = []
    for folder, package in packages():
        files = sorted((folder / "src").glob("**/*.rs"))
        features = set(package.get("features", {})) - {"default"}
        cfgs = sum(bool(FEATURE.search(line)) for file in files for line in file.read_text().splitlines())
        name = package["package"]["name"]
        lines.append([f"{folder}/src", code(files), len(files), public_items(name), cfgs, len(features)])
    lines.append(["together", *(sum(it for it in column if isinstance(it, int)) for column in list(zip(*lines))[1:])])
    print_table(["package", "lines of code", "files", "public items", "cfg(feature)", "features"], lines)


def print_tests():
    """All lines, since fixtures and comments are there to be read, too."""
    places = ["tests", "fuzz", *(str(it / "tests") for it, _ in packages() if str(it) != ".")]
    found = {it: [file for file in pathlib.Path(it).glob("**/*.rs") if "target" not in file.parts] for it in places}
    lines = [[it, sum(len(file.read_text().splitlines()) for file in files), len(files)] for it, files in found.items()]
    lines.append(["together", *(sum(column) for column in list(zip(*lines))[1:])])
    print_table(["tests and fuzz bodies", "lines", "files"], lines)


def print_tables():
    lines = []
    for file in sorted(pathlib.Path("src/machine").glob("*.rs")):
        # The example in the file with the macros is no table.
        text = "" if file.name == "table.rs" else re.sub(r"//.*", "", file.read_text())
        heads = list(HEAD.finditer(text))
        for head, after in zip(heads, [*heads[1:], None]):
            rows = ROW.findall(text, head.end(), after.start() if after else len(text))
            parts = (head[2] or "").count(":")
            blank = sum(any(it.strip() in ("_", "None") for it in re.findall(r"\(([^()]*)\)", left)[:parts]) for _, left, _ in rows)
            words = [word for *_, word in rows]
            marked = sum(bool(otherwise) for otherwise, *_ in rows)
            lines.append([head[1], len(rows), marked, words.count("ignore"), words.count("never"), blank])
    lines.append(["together", *(sum(column) for column in list(zip(*lines))[1:])])
    print_table(["table", "rows", "else", "ignore", "never", "says nothing"], lines)


print_packages()
print_tests()
print_tables()
