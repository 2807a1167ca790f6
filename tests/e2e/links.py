"""Checks the links of the Markdown files and of the generated documentation: links.py DOC MARKDOWN...

DOC is the folder that `cargo doc` writes. Relative links must lead to existing files and anchors. Links to this crate on
docs.rs are resolved in DOC. Other URLs are checked for their form only, without network access.
"""
import html.parser
import os
import re
import sys
import urllib.parse

OWN = "https://docs.rs/mcp-proto/latest/"
HOST = re.compile(r"[a-z0-9-]+(\.[a-z0-9-]+)+(:\d+)?")
FENCE = re.compile(r"^ *(`{3,}|~{3,}).*?^ *\1 *$", re.MULTILINE | re.DOTALL)
CODE = re.compile(r"(`+)(?:(?!\1)[^\n]|\n(?!\n))+?\1")
INLINE = re.compile(r"\]\(\s*<?([^\s()<>]*(?:\([^\s()<>]*\)[^\s()<>]*)*)>?(?:\s+\"[^\"]*\")?\s*\)")
DEFINITION = re.compile(r"^ {0,3}\[[^\]]+\]:\s*<?(\S+?)>?\s*$", re.MULTILINE)
AUTOLINK = re.compile(r"<(https?:[^\s<>]+)>")


class Page(html.parser.HTMLParser):
    """The links and anchors of an HTML page."""

    def __init__(self, text):
        super().__init__()
        self.links, self.anchors = [], set()
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        attrs = dict(attrs)
        self.anchors |= {attrs[name] for name in ("id", "name") if attrs.get(name)}
        if attrs.get("href") and tag == "a":
            self.links.append(attrs["href"])


def heading_anchors(text):
    """The anchors that GitHub gives to the headings of a Markdown text."""
    anchors, count = set(), {}
    for heading in re.findall(r"^#{1,6} +(.+?) *#* *$", text, re.MULTILINE):
        heading = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading)
        anchor = re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
        number = count[anchor] = count.get(anchor, -1) + 1
        anchors.add(f"{anchor}-{number}" if number else anchor)
    return anchors


class Links:
    def __init__(self, doc):
        self.doc, self.pages, self.count, self.wrong = os.path.abspath(doc), {}, 0, []

    def page(self, path):
        """The links and anchors of a file."""
        if path not in self.pages:
            with open(path, encoding="utf-8") as file:
                text = file.read()
            if path.endswith(".md"):
                prose = FENCE.sub("", text)
                bare = CODE.sub("", prose)
                links = [link for pattern in (INLINE, DEFINITION, AUTOLINK) for link in pattern.findall(bare)]
                self.pages[path] = links, heading_anchors(prose)
            elif path.endswith(".html"):
                page = Page(text)
                self.pages[path] = page.links, page.anchors
            else:
                self.pages[path] = [], set()
        return self.pages[path]

    def check(self, path):
        for link in self.page(path)[0]:
            self.count += 1
            problem = self.problem(path, link)
            if problem:
                self.wrong.append(f"{os.path.relpath(path)}: {link}: {problem}")

    def problem(self, path, link):
        """What is wrong with a link in a file, if anything."""
        if "::" in link:
            return None  # an intra-doc link, which rustdoc checks
        base = os.path.dirname(path)
        if link.startswith(OWN):
            base, link = self.doc, link.removeprefix(OWN)
        url = urllib.parse.urlsplit(link)
        if url.scheme in ("http", "https"):
            return None if HOST.fullmatch(url.netloc) else "not a valid URL"
        if url.scheme or url.netloc:
            return f"unexpected scheme {url.scheme!r}"
        target = os.path.normpath(os.path.join(base, urllib.parse.unquote(url.path))) if url.path else path
        if os.path.isdir(target) and target.startswith(self.doc):
            target = os.path.join(target, "index.html")
        if not os.path.exists(target) and path == os.path.join(self.doc, "mcp_proto", "index.html"):
            # The page contains README, whose links are relative to the repository.
            target = os.path.abspath(urllib.parse.unquote(url.path))
        if not os.path.exists(target):
            return "no such file"
        # The anchors of rustdoc contain percent-encoded characters.
        fragments = {url.fragment, urllib.parse.unquote(url.fragment)}
        is_page = target.endswith((".md", ".html")) and not target.startswith(os.path.join(self.doc, "src"))
        if url.fragment and is_page and not fragments & self.page(target)[1]:
            return "no such anchor"
        return None


def main(doc, *files):
    links = Links(doc)
    crate = os.path.join(links.doc, "mcp_proto")
    if not os.path.isdir(crate):
        sys.exit(f"no documentation in {crate}")
    for file in files:
        links.check(os.path.abspath(file))
    for folder, _, names in os.walk(crate):
        for name in sorted(names):
            if name.endswith(".html"):
                links.check(os.path.join(folder, name))
    print(f"{links.count} links in {len(files)} Markdown files and the documentation")
    for line in links.wrong:
        print("wrong:", line)
    sys.exit(bool(links.wrong))


if __name__ == "__main__":
    main(*sys.argv[1:])
