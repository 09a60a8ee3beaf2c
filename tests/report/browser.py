"""A browser for tests: Chromium, driven over a pipe by its own protocol, where this machine has one."""

from __future__ import annotations

import json
import os
import select
import shutil
import subprocess
import time
from typing import Any

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


class Browser:
    """One page. `complaints`: console errors, exceptions, violations of its policy; `requests`: all it asked for."""

    def __init__(self, profile: str) -> None:
        assert CHROMIUM is not None
        (ours_in, theirs_out), (theirs_in, ours_out) = os.pipe(), os.pipe()
        options = f"--headless=new --no-sandbox --disable-gpu --remote-debugging-pipe --user-data-dir='{profile}'"
        command = f"exec {CHROMIUM} {options} about:blank 3<&{theirs_in} 4>&{theirs_out}"
        self.process = subprocess.Popen(
            ["bash", "-c", command],
            pass_fds=(theirs_in, theirs_out),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        os.close(theirs_in)
        os.close(theirs_out)
        self._in, self._out, self._left, self._number = ours_in, ours_out, b"", 0
        self._session: str | None = None
        self.complaints: list[str] = []
        self.requests: list[str] = []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **parameters: Any) -> Any:
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": parameters}
        if self._session is not None:
            message["sessionId"] = self._session
        os.write(self._out, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._next()
            if answer.get("id") == self._number:
                assert "error" not in answer, answer
                return answer["result"]
            self._hear(answer)

    def evaluate(self, expression: str) -> Any:
        """What an expression is worth in the page, promises awaited."""
        found = self.call("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in found, found["exceptionDetails"]
        return found["result"].get("value")

    def until(self, expression: str, seconds: float = 30.0) -> Any:
        """The first worth of an expression that is true."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if found := self.evaluate(expression):
                return found
            time.sleep(0.05)
        raise AssertionError(f"never came true: {expression}")

    def open(self, address: str) -> None:
        """Opens a page of progevo's, and waits until it can be used."""
        self.call("Page.navigate", url=address)
        self.until("!!document.querySelector('#rows tbody tr') && !!document.querySelector('#inspector dl')")

    def key(self, key: str) -> None:
        for kind in ("keyDown", "keyUp"):
            text = {"text": key} if kind == "keyDown" and len(key) == 1 else {}
            self.call("Input.dispatchKeyEvent", type=kind, key=key, **text)

    def click(self, x: float, y: float) -> None:
        for kind in ("mouseMoved", "mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self._in)
        os.close(self._out)

    def _next(self) -> Any:
        while b"\0" not in self._left:
            assert select.select([self._in], [], [], 60)[0], "the browser does not answer"
            part = os.read(self._in, 1 << 16)
            assert part, "the browser ended"
            self._left += part
        message, self._left = self._left.split(b"\0", 1)
        return json.loads(message)

    def _hear(self, event: Any) -> None:
        method, found = event.get("method"), event.get("params", {})
        if method == "Network.requestWillBeSent":
            self.requests.append(found["request"]["url"])
        elif method == "Runtime.exceptionThrown":
            self.complaints.append(str(found["exceptionDetails"]))
        elif method == "Log.entryAdded" and found["entry"]["level"] == "error":
            self.complaints.append(found["entry"]["text"])
        elif method == "Runtime.consoleAPICalled":
            self.complaints.append(str(found["args"]))
