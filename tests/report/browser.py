"""A browser for tests: Chromium, driven over a pipe by its own protocol, where this machine has one."""

from __future__ import annotations

import contextlib
import json
import os
import select
import shutil
import signal
import subprocess
import time
from typing import Any

#: scripts/lib.sh looks for the same.
NAMES = ("chromium", "chromium-browser", "google-chrome")
CHROMIUM = next(filter(None, map(shutil.which, NAMES)), None)

#: How long the browser may take over anything before it is taken for dead; the machine may be busy with other tests.
PATIENCE_S = 180.0
#: It is a guest on the machine and shows what is on its disk: nothing is looked up, /dev/shm may be small.
OPTIONS = """--headless=new --no-sandbox --disable-gpu --disable-dev-shm-usage --disable-extensions --no-first-run
    --disable-background-networking --disable-component-update --remote-debugging-pipe""".split()


class Browser:
    """One page. `complaints`: console errors, exceptions, violations of its policy; `requests`: all it asked for."""

    def __init__(self, profile: str) -> None:
        assert CHROMIUM is not None
        (ours_in, theirs_out), (theirs_in, ours_out) = os.pipe(), os.pipe()
        command = f'exec "$@" 3<&{theirs_in} 4>&{theirs_out}'
        self.process = subprocess.Popen(
            ["bash", "-c", command, "bash", CHROMIUM, *OPTIONS, f"--user-data-dir={profile}", "about:blank"],
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
        try:
            target = self.call("Target.createTarget", url="about:blank")["targetId"]
            self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
            for domain in ("Page", "Runtime", "Log", "Network"):
                self.call(f"{domain}.enable")
            self.call("Page.bringToFront")  # keys go to the page in front
        except BaseException:
            self.close()
            raise

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

    def until(self, expression: str) -> Any:
        """The first worth of an expression that is true: the page has its own time to follow an event."""
        end = time.monotonic() + PATIENCE_S
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
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)  # its renderers too, which would outlive it for a while
        self.process.wait()
        os.close(self._in)
        os.close(self._out)

    def _next(self) -> Any:
        while b"\0" not in self._left:
            assert select.select([self._in], [], [], PATIENCE_S)[0], "the browser does not answer"
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
