"""A browser without a screen: visits a URL, signs in, and consents or refuses: browser.py [--refuse] URL.

It follows redirects and submits the forms of `oidc-provider`, with cookies, as a user's browser would.
"""

import html.parser
import http.cookiejar
import sys
import urllib.error
import urllib.parse
import urllib.request


class Form(html.parser.HTMLParser):
    """The first form of a page, and the link that refuses."""

    def __init__(self, page):
        super().__init__()
        self.action, self.fields, self.refusal = None, {}, None
        self.feed(page)

    def handle_starttag(self, tag, attributes):
        attributes = dict(attributes)
        if tag == "form" and self.action is None:
            self.action = attributes.get("action")
        if tag == "input" and attributes.get("name"):
            self.fields[attributes["name"]] = attributes.get("value") or ""
        if tag == "a" and "abort" in (attributes.get("href") or ""):
            self.refusal = attributes["href"]


def main(url, refuses):
    jar = urllib.request.HTTPCookieProcessor(http.cookiejar.CookieJar())
    # The redirect to the probe is a redirect like any other.
    browser = urllib.request.build_opener(jar)
    for _ in range(6):
        with browser.open(url, timeout=20) if isinstance(url, str) else browser.open(*url, timeout=20) as answer:
            page, at = answer.read().decode(), answer.geturl()
        form = Form(page)
        if form.action is None:
            return
        if refuses and form.refusal:
            url = urllib.parse.urljoin(at, form.refusal)
            continue
        fields = {**form.fields, **{name: "ada" for name in ("login", "password") if name in form.fields}}
        url = (urllib.parse.urljoin(at, form.action), urllib.parse.urlencode(fields).encode())
    sys.exit("the sign-in does not end")


if __name__ == "__main__":
    main(sys.argv[-1], "--refuse" in sys.argv)
