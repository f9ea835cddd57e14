"""A report in a real browser: its text, its charts drawn, zoom, no error on the console, no request.

    apt-get install chromium chromium-driver
    python3 tests/report/browser.py --oomph target/release/oomph [--pictures DIR] [RECORDING...]

Without recordings it takes those of tests/replay, and a made-up one with a traced step (traced.py). It speaks WebDriver to chromedriver by itself and needs nothing else; it is
not part of `cargo test`, which must not depend on a browser.
"""

import argparse
import base64
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request

import traced

HERE = os.path.dirname(os.path.abspath(__file__))
REPLAY = os.path.join(HERE, "..", "replay")
ARGUMENTS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
]


class Browser:
    """One headless Chromium with a profile of its own."""

    def __init__(self, width=1200, height=900, dark=False, phone=False):
        self.profile = tempfile.mkdtemp()
        self.driver = subprocess.Popen(
            ["chromedriver", "--port=0"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        self.port = None
        for line in self.driver.stdout:
            if "started successfully on port" in line:
                self.port = int(line.split("port")[-1].strip(" .\n"))
                break
        if self.port is None:
            raise SystemExit("chromedriver did not start")
        options = {"args": ARGUMENTS + ["--user-data-dir=" + self.profile, "--window-size=%d,%d" % (width, height)]}
        if dark:
            options["args"].append("--blink-settings=preferredColorScheme=0")
        if phone:
            options["mobileEmulation"] = {"deviceMetrics": {"width": width, "height": height, "pixelRatio": 2.0}}
        wanted = {
            "browserName": "chrome",
            "goog:chromeOptions": options,
            "goog:loggingPrefs": {"browser": "ALL", "performance": "ALL"},
        }
        answer = self.call("POST", "/session", {"capabilities": {"alwaysMatch": wanted}})
        self.session = "/session/" + answer["sessionId"]
        self.phone = phone
        # What the browser's own first page asks for is not ours.
        self.call("POST", self.session + "/url", {"url": "about:blank"})
        self.log("performance")

    def call(self, method, path, body=None):
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(
            "http://127.0.0.1:%d%s" % (self.port, path), data, {"Content-Type": "application/json"}, method=method
        )
        try:
            with urllib.request.urlopen(request, timeout=120) as answer:
                return json.load(answer)["value"]
        except urllib.error.HTTPError as error:
            raise SystemExit("%s %s: %s" % (method, path, error.read().decode()[:600])) from None

    def open(self, path):
        began = time.monotonic()
        self.call("POST", self.session + "/url", {"url": "file://" + os.path.abspath(path)})
        return time.monotonic() - began

    def run(self, script, *arguments):
        return self.call("POST", self.session + "/execute/sync", {"script": script, "args": list(arguments)})

    def log(self, kind):
        return self.call("POST", self.session + "/se/log", {"type": kind})

    def picture(self, path):
        height = self.run("return document.documentElement.scrollHeight")
        width = self.run("return innerWidth")
        shot = self.call(
            "POST",
            self.session + "/goog/cdp/execute",
            {
                "cmd": "Page.captureScreenshot",
                "params": {
                    "captureBeyondViewport": True,
                    "clip": {"x": 0, "y": 0, "width": width, "height": height, "scale": 1},
                },
            },
        )
        with open(path, "wb") as file:
            file.write(base64.b64decode(shot["data"]))

    def printed(self, path):
        with open(path, "wb") as file:
            file.write(base64.b64decode(self.call("POST", self.session + "/print", {"background": True})))

    def drag(self, element, from_share, to_share):
        """Presses, moves and lets go over an element, in shares of its width."""
        box = self.run(
            "const b = arguments[0].getBoundingClientRect(); return [b.left, b.top, b.width, b.height]", element
        )
        at = lambda share: [round(box[0] + box[2] * share), round(box[1] + box[3] / 2)]
        (x, y), (to_x, _) = at(from_share), at(to_share)
        moves = [
            {"type": "pointerMove", "x": x, "y": y, "duration": 0},
            {"type": "pointerDown", "button": 0},
            {"type": "pointerMove", "x": to_x, "y": y, "duration": 50},
            {"type": "pointerUp", "button": 0},
        ]
        mouse = {"type": "pointer", "id": "mouse", "parameters": {"pointerType": "mouse"}, "actions": moves}
        self.call("POST", self.session + "/actions", {"actions": [mouse]})

    def close(self):
        self.call("DELETE", self.session)
        self.driver.terminate()
        self.driver.wait()
        shutil.rmtree(self.profile, ignore_errors=True)


INK = """
// How many pixels of a chart are not as its corner is.
const canvas = arguments[0].querySelector('canvas');
const all = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data;
let ink = 0;
for (let i = 3; i < all.length; i += 4) if (all[i] > 0) ink++;
return ink;
"""


def check(condition, words):
    if not condition:
        raise AssertionError(words)


def the_page_works(browser, page, recording):
    browser.log("performance")
    took = browser.open(page)
    check(took < 1.0 or os.environ.get("SLOW"), "opened in %.2f s" % took)
    text = browser.run("return document.body.innerText")
    check("Memory" in text and "Environment" in text, text[:400])
    plots = browser.run("return [...document.querySelectorAll('.plot')]")
    check(plots, "no chart")
    check(int(browser.run("return document.documentElement.dataset.charts")) == len(plots), "not all charts were drawn")
    for plot in plots:
        ink = browser.run(INK, plot)
        check(ink > 3000, "a chart with %d pixels" % ink)
    memory = browser.run("return document.querySelector('[data-device]')")
    if memory:
        whole = browser.run("return arguments[0].dataset.range", memory)
        browser.run("arguments[0].scrollIntoView({block: 'center'})", memory)
        over = browser.run("return arguments[0].querySelector('.u-over')", memory)
        if not browser.phone:
            # A finger scrolls the page; on a phone the buttons zoom.
            browser.drag(over, 0.3, 0.6)
            zoomed = browser.run("return arguments[0].dataset.range", memory)
            check(zoomed and zoomed != whole, "a drag does not zoom: %s" % zoomed)
            low, high = map(float, zoomed.split())
            check(high > low, zoomed)
        buttons = browser.run("return [...document.querySelectorAll('#ranges button')]")
        if buttons:
            browser.run("arguments[0].click()", buttons[-1])
            near = browser.run("return arguments[0].dataset.range", memory)
            browser.run("arguments[0].click()", buttons[0])
            again = browser.run("return arguments[0].dataset.range", memory)
            check(near != again and again == whole, "the buttons do not zoom: %s, %s, %s" % (whole, near, again))
    if recording == TRACED:
        the_step_is_drawn(browser, text)
    wide = browser.run("return document.documentElement.scrollWidth - innerWidth")
    check(wide <= 0, "the page is %d pixels wider than the window" % wide)
    errors = [entry for entry in browser.log("browser") if entry["level"] in ("SEVERE", "WARNING")]
    check(not errors, str(errors)[:600])
    requests = []
    for entry in browser.log("performance"):
        message = json.loads(entry["message"])["message"]
        if message["method"] == "Network.requestWillBeSent":
            requests.append(message["params"]["request"]["url"])
    others = [url for url in requests if not url.startswith(("file://", "data:"))]
    check(not others and len(requests) <= 1, [url[:80] for url in requests])
    return took


TRACED = "traced"


def the_step_is_drawn(browser, text):
    count = lambda what: browser.run("return document.querySelectorAll(arguments[0]).length", what)
    check(count("[data-step] canvas") == 1, "no chart of the step")
    check("Lines at its peak" in text and "Modules at its peak" in text, "no lines or modules")
    check("transformer.h.0–11.mlp, 12 of them" in text, "repeated blocks are not one row")
    check(count(".treemap div") >= 4 and count(".flame div") >= 6, "%d tiles, %d flames" % (count(".treemap div"), count(".flame div")))
    # What the names hold is text, and no element came of it.
    check("</script><b id=broken>" in text and count("#broken") == 0, "a name has become markup")
    if not browser.phone:
        # A box lies within the one above it.
        outside = browser.run(BOXES)
        check(not outside, "boxes of the flame graph outside of others: %s" % outside)


BOXES = """
const boxes = [...document.querySelectorAll('.flame div')].map(e => e.getBoundingClientRect());
return boxes.filter(b => b.top > Math.min(...boxes.map(o => o.top)) + 1
  && !boxes.some(o => Math.abs(o.bottom - b.top) < 2 && o.left <= b.left + 1 && o.right >= b.right - 1)).length;
"""


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--oomph", required=True)
    parser.add_argument("--pictures")
    parser.add_argument("recordings", nargs="*")
    options = parser.parse_args()
    recordings = options.recordings or [
        os.path.join(REPLAY, name) for name in sorted(os.listdir(REPLAY)) if name.endswith(".jsonl")
    ]
    pages = tempfile.mkdtemp()
    if not options.recordings:
        recordings.append(os.path.join(pages, TRACED + ".jsonl"))
        traced.write(recordings[-1])
    if options.pictures:
        os.makedirs(options.pictures, exist_ok=True)
    failed = 0
    looks = [
        ("desktop", {}),
        ("dark", {"dark": True}),
        ("phone", {"width": 390, "height": 844, "phone": True}),
    ]
    for look, settings in looks:
        browser = Browser(**settings)
        try:
            for recording in recordings:
                name = os.path.splitext(os.path.basename(recording))[0]
                page = os.path.join(pages, name + ".html")
                if not os.path.exists(page):
                    subprocess.run([options.oomph, "report", recording, "-o", page], check=True, stdout=subprocess.DEVNULL)
                try:
                    took = the_page_works(browser, page, name)
                    print("ok    %-8s %-12s opened in %.2f s" % (look, name, took))
                except AssertionError as error:
                    failed += 1
                    print("FAIL  %-8s %-12s %s" % (look, name, error))
                if options.pictures:
                    browser.picture(os.path.join(options.pictures, "%s-%s.png" % (name, look)))
                    if look == "desktop":
                        browser.printed(os.path.join(options.pictures, name + ".pdf"))
        finally:
            browser.close()
    shutil.rmtree(pages, ignore_errors=True)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
