"""A headless Chromium, controlled over a pipe with the DevTools protocol. It needs no other package."""

import base64
import fcntl
import json
import os
import select
import shutil
import subprocess
import tempfile
import time


def find_chromium():
    """Returns the path of a Chromium, or None."""
    for name in ("chromium", "chromium-browser", "google-chrome"):
        path = shutil.which(name)
        if path:
            return path
    return None


class Browser:
    """A process of Chromium with one page. `errors` and `requests` collect what the page reports."""

    def __init__(self, path, limit=300):
        self.limit = limit
        self.directory = tempfile.TemporaryDirectory(prefix="tandem-report-", ignore_cleanup_errors=True)
        to_read, self.out = os.pipe()
        self.into, to_write = os.pipe()
        # The browser uses descriptors 3 and 4.
        to_read, to_write = (fcntl.fcntl(fd, fcntl.F_DUPFD, 10) for fd in (to_read, to_write))

        def set_descriptors():
            os.dup2(to_read, 3)
            os.dup2(to_write, 4)

        self.process = subprocess.Popen(
            [path, "--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--no-first-run",
             "--disable-background-networking", "--disable-component-update", "--disable-dev-shm-usage",
             f"--user-data-dir={self.directory.name}", "--remote-debugging-pipe", "about:blank"],
            preexec_fn=set_descriptors, pass_fds=(3, 4), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(to_read)
        os.close(to_write)
        self.buffer = b""
        self.number = 0
        self.session = None
        self.errors = []
        self.requests = []
        target = self.ask("Target.createTarget", {"url": "about:blank"})["targetId"]
        self.session = self.ask("Target.attachToTarget", {"targetId": target, "flatten": True})["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.ask(domain + ".enable")

    def close(self):
        self.process.terminate()
        self.process.wait(timeout=30)
        self.directory.cleanup()

    # --- The protocol ---------------------------------------------------------------------------

    def ask(self, method, params=None):
        """Calls a method of the protocol and returns its result."""
        self.number += 1
        number = self.number
        message = {"id": number, "method": method, "params": params or {}}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.out, json.dumps(message).encode() + b"\0")
        while True:
            answer = self.read_message()
            if answer.get("id") == number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']}")
                return answer["result"]

    def read_message(self):
        """Returns the next message of the browser."""
        until = time.monotonic() + self.limit
        while b"\0" not in self.buffer:
            ready, _, _ = select.select([self.into], [], [], max(0, until - time.monotonic()))
            if not ready:
                raise TimeoutError("the browser does not answer")
            piece = os.read(self.into, 1 << 20)
            if not piece:
                raise RuntimeError("the browser is gone")
            self.buffer += piece
        text, self.buffer = self.buffer.split(b"\0", 1)
        message = json.loads(text)
        self.record_event(message.get("method"), message.get("params", {}))
        return message

    def record_event(self, method, params):
        """Records errors, warnings and requests of the page."""
        if method == "Runtime.exceptionThrown":
            details = params["exceptionDetails"]
            self.errors.append(details.get("exception", {}).get("description") or details["text"])
        elif method == "Runtime.consoleAPICalled" and params["type"] in ("error", "warning", "assert"):
            self.errors.append(" ".join(str(a.get("value", a.get("description"))) for a in params["args"]))
        elif method == "Log.entryAdded" and params["entry"]["level"] in ("error", "warning"):
            self.errors.append(params["entry"]["text"])
        elif method == "Network.requestWillBeSent":
            self.requests.append(params["request"]["url"])

    # --- Actions of a user ----------------------------------------------------------------------

    def set_size(self, width, height, phone=False, scale=1):
        self.ask("Emulation.setDeviceMetricsOverride",
                 {"width": width, "height": height, "deviceScaleFactor": scale, "mobile": phone})
        self.ask("Emulation.setTouchEmulationEnabled", {"enabled": phone})

    def set_scheme(self, name):
        self.ask("Emulation.setEmulatedMedia", {"features": [
            {"name": "prefers-color-scheme", "value": name}, {"name": "prefers-reduced-motion", "value": "reduce"}]})

    def open(self, path):
        self.ask("Page.navigate", {"url": "file://" + os.path.abspath(path)})
        until = time.monotonic() + self.limit
        while not self.eval("document.readyState === 'complete' && typeof reading !== 'undefined'"):
            if time.monotonic() > until or self.errors:
                break
            time.sleep(0.05)
        self.wait_for_frames()

    def eval(self, text):
        """Returns the value of a JavaScript expression."""
        result = self.ask("Runtime.evaluate", {"expression": text, "returnByValue": True, "awaitPromise": True})
        if "exceptionDetails" in result:
            details = result["exceptionDetails"]
            raise RuntimeError(details.get("exception", {}).get("description") or details["text"])
        return result["result"].get("value")

    def wait_for_frames(self, count=3):
        """Waits until `count` frames are drawn."""
        self.eval("new Promise(done => { let n = %d; "
                    "const next = () => n-- > 0 ? requestAnimationFrame(next) : done(); next(); })" % count)

    def click(self, x, y):
        for kind in ("mouseMoved", "mousePressed", "mouseReleased"):
            self.ask("Input.dispatchMouseEvent",
                     {"type": kind, "x": x, "y": y, "button": "none" if kind == "mouseMoved" else "left", "clickCount": 1})
        self.wait_for_frames()

    def move_mouse(self, x, y):
        self.ask("Input.dispatchMouseEvent", {"type": "mouseMoved", "x": x, "y": y})
        self.wait_for_frames()

    def press_key(self, key, text=None):
        codes = {"Enter": 13, "Escape": 27, "ArrowDown": 40, "ArrowUp": 38, "ArrowLeft": 37, "ArrowRight": 39, "Tab": 9}
        params = {"key": key, "windowsVirtualKeyCode": codes.get(key, ord(key[0].upper()))}
        if len(key) == 1:
            params["text"] = text or key
        self.ask("Input.dispatchKeyEvent", {"type": "keyDown", **params})
        self.ask("Input.dispatchKeyEvent", {"type": "keyUp", **{k: v for k, v in params.items() if k != "text"}})
        self.wait_for_frames()

    def type_text(self, text):
        self.ask("Input.insertText", {"text": text})
        self.wait_for_frames()

    def save_screenshot(self, path, whole=False):
        """Writes a PNG file of the visible part of the page, or of the whole page."""
        params = {"format": "png"}
        if whole:
            box = self.eval("({width: document.documentElement.clientWidth, "
                            "height: document.documentElement.scrollHeight})")
            params.update(captureBeyondViewport=True, clip={"x": 0, "y": 0, **box, "scale": 1})
        with open(path, "wb") as file:
            file.write(base64.b64decode(self.ask("Page.captureScreenshot", params)["data"]))
