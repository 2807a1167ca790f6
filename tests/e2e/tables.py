"""Compares the page of the guide that shows the tables with the tables, or writes it.

usage: tables.py FOLDER PAGE [--write]

FOLDER has, for each name in `names`, its Markdown and perhaps a diagram in Graphviz's language. A comparison leaves the
pictures out, and needs no Graphviz.
"""
import pathlib, re, subprocess, sys

# The diagrams of other tables have too many edges, or too few states, to be worth a picture.
DRAWN = {"discovery", "refresh", "keepalive", "link", "request", "breaker"}
HEAD = """The decisions of a client and of a hub, as they are written in `src/machine/`. A state table has a row for each input and
a column for each state: the effects in order, then `→` and the next state. `stays` means no effect, `–` is an input that arrives and is ignored,
*misuse* is a command that returns an error, and an empty cell is what cannot occur; an input without an effect in all states
of a matrix is left out. A state of several parts is written as `part/part`. In a decision table, `any` stands for every value.
"""


def draw(diagram):
    svg = subprocess.run(["dot", "-Tsvg"], input=diagram, capture_output=True, text=True, check=True).stdout
    svg = svg[svg.index("<svg"):]
    svg = re.sub(r'<svg width="(\S+)" height="\S+"', r'<svg width="\1" style="max-width:100%;height:auto"', svg)
    svg = svg.replace('"black"', '"currentColor"').replace("<text ", '<text fill="currentColor" ')
    svg = re.sub(r"<!--.*?-->", "", svg, flags=re.S)
    # A blank line would end the HTML in the Markdown.
    return "".join(f"{line}\n" for line in svg.splitlines() if line.strip())


def page(folder, picture):
    out = HEAD
    for name in (folder / "names").read_text().split():
        out += f"\n# `{name}`\n\n" + (folder / f"{name}.md").read_text()
        if name in DRAWN:
            out += f"\n<div>\n{picture((folder / f'{name}.dot').read_text())}</div>\n"
    return out


def main(folder, path, write=None):
    folder, path = pathlib.Path(folder), pathlib.Path(path)
    if write:
        path.write_text(page(folder, draw))
    elif re.sub(r"<svg.*?</svg>\n", "", path.read_text(), flags=re.S) != page(folder, lambda _: ""):
        sys.exit(f"{path} does not show the tables; .ci/tables writes it")


main(*sys.argv[1:])
