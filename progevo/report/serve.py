"""The page live: a server on 127.0.0.1 that answers GET alone, and only to whoever calls it by that name.

Runs are looked up by name in a table made from the folder, so no path of a request ever reaches the file system. A
run is read anew when its journal has grown, and never so often that looking costs the run its processor.
"""

from __future__ import annotations

import socket
import sys
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote, urlsplit

from progevo.errors import ConfigError, RunError
from progevo.journal import FILE
from progevo.report.block import build_block, to_text
from progevo.report.listing import build_listing
from progevo.report.page import build_page, policy, still_policy
from progevo.report.reading import Reading, read, state_of

ADDRESS = "127.0.0.1"
PORT = 7870
#: After reading a run took t seconds, it is not read again for this many times t.
REST = 9.0


@dataclass(kw_only=True)
class Watched:
    """One run, as it was read last."""

    folder: Path
    lock: threading.Lock = field(default_factory=threading.Lock)
    _seen: str = ""
    _reading: Reading | None = None
    _rest_until: float = 0.0

    def look(self) -> tuple[str, Reading]:
        """The run, and a word that changes when it does. Raises `RunError` as `read` does."""
        with self.lock:
            now = time.monotonic()
            mark = self._mark()
            if self._reading is None or (mark != self._seen and now >= self._rest_until):
                self._reading = read(self.folder)
                self._seen = mark
                done = time.monotonic()
                self._rest_until = done + REST * (done - now)
            return self._seen, self._reading

    def _mark(self) -> str:
        """The journal's size and last change, and whether somebody writes it: what news would change."""
        try:
            stat = (self.folder / FILE).stat()
        except OSError as error:
            raise RunError(f"{self.folder} is not a run folder any more: {error.strerror}") from None
        return f"{stat.st_ino}-{stat.st_size}-{stat.st_mtime_ns}-{state_of(self.folder, ended=False)}"


class Viewer(ThreadingHTTPServer):
    """Serves one run, or all runs of a folder; `address` is where."""

    daemon_threads = True
    allow_reuse_address = True

    def __init__(self, path: Path, port: int | None = None) -> None:
        """Raises `ConfigError` for a port that is taken, `RunError` for a path with neither a run nor runs."""
        self.path = path
        self._watched: dict[str, Watched] = {}
        if not self.runs():
            raise RunError(f"{path} holds no run: name a run folder (it has a {FILE}), or a folder with runs in it")
        super().__init__((ADDRESS, _free(port)), Answer)
        self.address = f"http://{ADDRESS}:{self.server_port}/"

    def runs(self) -> Mapping[str, Watched]:
        """The runs by name: looked for anew each time, as new ones may have begun."""
        one = (self.path / FILE).is_file()
        try:
            folders = [self.path] if one else sorted(each for each in self.path.iterdir() if (each / FILE).is_file())
        except OSError as error:
            raise RunError(f"{self.path} cannot be read: {error.strerror}") from None
        for folder in folders:
            self._watched.setdefault(folder.resolve().name, Watched(folder=folder))
        return {folder.resolve().name: self._watched[folder.resolve().name] for folder in folders}

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A browser that went away in the middle of an answer is no error; all else is one."""
        if not isinstance(sys.exc_info()[1], OSError):
            super().handle_error(request, client_address)


class Answer(BaseHTTPRequestHandler):
    """One request."""

    server: Viewer
    server_version = "progevo"
    sys_version = ""
    protocol_version = "HTTP/1.1"
    timeout = 60

    def do_GET(self) -> None:
        hosts = {f"{name}:{self.server.server_port}" for name in (ADDRESS, "localhost")}
        if self.headers.get_all("Host", []) not in [[host] for host in hosts]:
            # Else a page from elsewhere whose name was made to mean this machine could read along (DNS rebinding).
            self._say(403, "text/plain", "this server answers to 127.0.0.1 and localhost only\n")
            return
        try:
            self._answer([unquote(part) for part in urlsplit(self.path).path.split("/")[1:]])
        except RunError as error:
            self._say(500, "text/plain", f"{error}\n")

    def _answer(self, parts: list[str]) -> None:
        runs = self.server.runs()
        match parts:
            case [""]:
                if len(runs) == 1:
                    self._move(f"/runs/{quote(next(iter(runs)), safe='')}/")
                else:
                    self._say(200, "text/html", build_listing(runs_of(runs)), rules=still_policy())
            case ["runs", name, ""] if name in runs:
                _, reading = runs[name].look()
                self._say(200, "text/html", build_page(reading, live=True), rules=policy(live=True))
            case ["runs", name, "block.json"] if name in runs:
                mark, reading = runs[name].look()
                if self.headers.get("If-None-Match") == f'"{mark}"':
                    self._say(304, "application/json", "", mark=mark)
                else:
                    self._say(200, "application/json", to_text(build_block(reading)), mark=mark)
            case _:
                self._say(404, "text/plain", "there is no such page\n")

    def _move(self, to: str) -> None:
        self.send_response(302)
        self.send_header("Location", to)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def _say(self, status: int, kind: str, text: str, *, mark: str = "", rules: str = "default-src 'none'") -> None:
        content = text.encode("utf-8")
        self.send_response(status)
        for name, value in {
            "Content-Type": f"{kind}; charset=utf-8",
            "Content-Security-Policy": f"{rules}; frame-ancestors 'none'",
            "Cache-Control": "no-store",
            "X-Content-Type-Options": "nosniff",
            "Referrer-Policy": "no-referrer",
            "Cross-Origin-Resource-Policy": "same-origin",
            "Cross-Origin-Opener-Policy": "same-origin",
            **({"ETag": f'"{mark}"'} if mark else {}),
            **({} if status == 304 else {"Content-Length": str(len(content))}),
        }.items():
            self.send_header(name, value)
        self.end_headers()
        if status != 304:
            self.wfile.write(content)

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Also for methods other than GET: an answer without a body that repeats what was asked."""
        self.close_connection = True
        refused = code == 501
        self._say(405 if refused else code, "text/plain", "GET only\n" if refused else "not understood\n")

    def log_message(self, format: str, *args: Any) -> None:
        """Nobody reads along."""


def runs_of(watched: Mapping[str, Watched]) -> list[tuple[str, Reading | str]]:
    """Each run by name with what is known of it, or why nothing is."""
    found: list[tuple[str, Reading | str]] = []
    for name, each in watched.items():
        try:
            found.append((name, each.look()[1]))
        except RunError as error:
            found.append((name, str(error)))
    return found


def _free(port: int | None) -> int:
    """The port that was asked for; else the usual one or, where that is taken, any (0)."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((ADDRESS, PORT if port is None else port))
        except (OSError, OverflowError) as error:
            if port is None:
                return 0
            raise ConfigError(
                f"port {port} of {ADDRESS} cannot be had: {error}; leave out --port to get a free one"
            ) from None
    return PORT if port is None else port
