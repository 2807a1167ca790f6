"""Signs in and consents with a real Chromium, without a screen: chromium.py URL. Requires `chromium` and `chromedriver`."""

import json
import re
import subprocess
import sys
import time
import urllib.error
import urllib.request

# The key of an element in WebDriver's JSON.
ELEMENT = "element-6066-11e4-a52e-4f735466cecf"
ARGUMENTS = ["--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu"]


class Driver:
    """A session of WebDriver (https://www.w3.org/TR/webdriver2/)."""

    def __init__(self):
        self.process = subprocess.Popen(["chromedriver", "--port=0"], stdout=subprocess.PIPE, text=True)
        port = next(found[1] for line in self.process.stdout if (found := re.search(r"successfully on port (\d+)", line)))
        self.root = f"http://127.0.0.1:{port}/session"
        capabilities = {"goog:chromeOptions": {"args": ARGUMENTS}, "timeouts": {"implicit": 0, "pageLoad": 20_000}}
        session = self.send("", {"capabilities": {"alwaysMatch": capabilities}})
        self.root += "/" + session["sessionId"]

    def send(self, path, body=None, method=None):
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.root + path, data, {"content-type": "application/json"}, method=method)
        with urllib.request.urlopen(request, timeout=40) as answer:
            return json.load(answer)["value"]

    def find(self, selector):
        found = self.send("/elements", {"using": "css selector", "value": selector})
        return [f"/element/{element[ELEMENT]}" for element in found]

    def wait_for_another_page(self, before):
        """Waits until a page other than this one is loaded: a click does not wait for redirects."""
        for _ in range(200):
            is_other = self.send("/url") != before
            if is_other and self.send("/execute/sync", {"script": "return document.readyState", "args": []}) == "complete":
                return
            time.sleep(0.1)
        sys.exit(f"no page follows {before}")

    def close(self):
        try:
            self.send("", method="DELETE")
        finally:
            self.process.terminate()
            self.process.wait(timeout=20)


def main(url):
    driver = Driver()
    try:
        driver.send("/url", {"url": url})
        # The page to sign in, the page to consent, the page of the probe.
        for _ in range(4):
            submit = driver.find("form button[type=submit], form [autofocus][type=submit]")
            if not submit:
                return
            for field in driver.find("input[name=login], input[name=password]"):
                driver.send(f"{field}/value", {"text": "ada"})
            page = driver.send("/url")
            driver.send(f"{submit[0]}/click", {})
            driver.wait_for_another_page(page)
        sys.exit("the sign-in does not end")
    finally:
        driver.close()


if __name__ == "__main__":
    main(sys.argv[-1])
