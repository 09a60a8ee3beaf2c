"""progevo.dataset: where a file is kept, and every way in which fetching it can end."""

from __future__ import annotations

import hashlib
import os
import socket
import stat
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from progevo import dataset
from progevo.dataset import Dataset
from progevo.errors import DataError

HEADER = "a,b"
GOOD = (HEADER + "\n" + "".join(f"{n},{n * n}\n" for n in range(50_000))).encode()
SHA = hashlib.sha256(GOOD).hexdigest()


class Site(BaseHTTPRequestHandler):
    """A loopback site with one good page and several bad ones."""

    def do_GET(self) -> None:
        match self.path:
            case "/good":
                self._send(GOOD)
            case "/wrong":
                self._send(b"<html>sign in first</html>")
            case "/truncated":
                self._send(GOOD[:1000], claimed=len(GOOD))
            case "/unsized":
                self.wfile.write(b"HTTP/1.0 200 OK\r\n\r\n" + GOOD)
            case "/chunks-cut":
                self.wfile.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nffff\r\nshort")
            case "/silent":
                self.server.patience.wait(10)  # type: ignore[attr-defined]
            case "/hangs-up":
                self.connection.shutdown(socket.SHUT_RDWR)
            case "/nonsense":
                self.wfile.write(b"220 this is not HTTP\r\n")
            case "/moved":
                self._redirect("/good")
            case "/to-file":
                self._redirect("file:///etc/hostname")
            case "/to-ftp":
                self._redirect("ftp://127.0.0.1/x")
            case "/loop":
                self._redirect("/loop")
            case _:
                self.send_error(404)

    def _send(self, body: bytes, claimed: int | None = None) -> None:
        self.send_response(200)
        self.send_header("Content-Length", str(len(body) if claimed is None else claimed))
        self.end_headers()
        self.wfile.write(body)

    def _redirect(self, where: str) -> None:
        self.send_response(302)
        self.send_header("Location", where)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture(scope="module")
def site() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Site)
    server.patience = threading.Event()  # type: ignore[attr-defined]
    server.handle_error = lambda request, client_address: None  # type: ignore[method-assign]
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.patience.set()  # type: ignore[attr-defined]
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PROGEVO_DATA", str(tmp_path / "data"))
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path / "data"


@pytest.fixture
def squares(site: str) -> Dataset:
    return Dataset(
        name="squares",
        url=f"{site}/good",
        sha256=SHA,
        file_name="table.csv",
        header=HEADER,
        rows=50_000,
        about="numbers and their squares",
    )


def left_in(home: Path) -> list[Path]:
    """Every file and folder of the dataset; the root itself may stay."""
    return list(home.rglob("*"))


class TestFolder:
    def test_progevo_data_comes_first(self, squares: Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("PROGEVO_DATA", "/here")
        monkeypatch.setenv("XDG_DATA_HOME", "/there")
        assert dataset.folder(squares) == Path("/here/squares")

    def test_then_xdg_then_home(self, squares: Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("PROGEVO_DATA", "")
        monkeypatch.setenv("XDG_DATA_HOME", "/there")
        monkeypatch.setenv("HOME", "/home/me")
        assert dataset.folder(squares) == Path("/there/progevo/squares")
        for ignored in ("", "relative/path"):
            monkeypatch.setenv("XDG_DATA_HOME", ignored)
            assert dataset.folder(squares) == Path("/home/me/.local/share/progevo/squares")


class TestDownload:
    def test_a_good_file(self, squares: Dataset, home: Path) -> None:
        assert dataset.installed(squares) is None
        seen: list[tuple[int, int | None]] = []
        old = os.umask(0o077)
        try:
            path = dataset.get(squares, progress=lambda done, total: seen.append((done, total)))
        finally:
            os.umask(old)
        assert path == home / "squares" / "table.csv" == dataset.installed(squares)
        assert path.read_bytes() == GOOD == dataset.read(path, squares)
        assert stat.S_IMODE(path.stat().st_mode) == 0o644
        assert [p.name for p in path.parent.iterdir()] == ["table.csv"]
        assert seen[-1] == (len(GOOD), len(GOOD))
        assert [done for done, _ in seen] == sorted({done for done, _ in seen})

    @pytest.mark.parametrize("page", ["moved", "unsized"])
    def test_other_good_ways(self, page: str, squares: Dataset, site: str, home: Path) -> None:
        assert dataset.get(squares, url=f"{site}/{page}").read_bytes() == GOOD

    def test_there_and_right_is_not_fetched_again(self, squares: Dataset, site: str, home: Path) -> None:
        path = dataset.get(squares)
        before = path.stat()
        assert dataset.get(squares, url=f"{site}/missing") == path
        assert (path.stat().st_ino, path.stat().st_mtime_ns) == (before.st_ino, before.st_mtime_ns)

    def test_there_and_wrong_is_replaced(self, squares: Dataset, home: Path) -> None:
        path = dataset.get(squares)
        path.write_bytes(b"damaged")
        assert dataset.get(squares).read_bytes() == GOOD

    @pytest.mark.parametrize(
        ("page", "words"),
        [
            ("wrong", SHA),
            ("wrong", hashlib.sha256(b"<html>sign in first</html>").hexdigest()),
            ("wrong", "progevo data get squares --from"),
            ("truncated", f"ended after 1000 of {len(GOOD)} bytes"),
            ("chunks-cut", "cannot be fetched"),
            ("missing", "answered 404 Not Found"),
            ("silent", "timed out"),
            ("hangs-up", "closed connection"),
            ("nonsense", "220 this is not HTTP"),
            ("to-file", "file:///etc/hostname"),
            ("to-ftp", "ftp"),
            ("loop", "redirect"),
        ],
    )
    def test_failures_are_plain_and_leave_nothing(
        self, page: str, words: str, squares: Dataset, site: str, home: Path
    ) -> None:
        with pytest.raises(DataError) as caught:
            dataset.get(squares, url=f"{site}/{page}", timeout_s=0.3 if page == "silent" else 10)
        assert words in str(caught.value)
        assert f"{site}/{page}" in str(caught.value)
        assert left_in(home) == []

    def test_a_failure_leaves_the_old_file_alone(self, squares: Dataset, site: str, home: Path) -> None:
        path = home / "squares" / "table.csv"
        path.parent.mkdir(parents=True)
        path.write_bytes(b"older")
        with pytest.raises(DataError):
            dataset.get(squares, url=f"{site}/wrong")
        assert path.read_bytes() == b"older"
        assert [p.name for p in path.parent.iterdir()] == ["table.csv"]

    def test_nobody_listens(self, squares: Dataset, home: Path) -> None:
        with socket.socket() as unused:
            unused.bind(("127.0.0.1", 0))
            port = unused.getsockname()[1]
            with pytest.raises(DataError, match="refused"):
                dataset.get(squares, url=f"http://127.0.0.1:{port}/x")

    @pytest.mark.parametrize(
        "url", ["file:///etc/hostname", "ftp://x/y", "data:,x", "/etc/hostname", "http://[", "http://a b/"]
    )
    def test_other_addresses(self, url: str, squares: Dataset, home: Path) -> None:
        with pytest.raises(DataError):
            dataset.get(squares, url=url)
        assert left_in(home) == []

    def test_too_large(self, squares: Dataset, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(dataset, "MAX_BYTES", 100_000)
        with pytest.raises(DataError, match="larger than"):
            dataset.get(squares)
        assert left_in(home) == []

    def test_an_interrupt_leaves_nothing(self, squares: Dataset, home: Path) -> None:
        def stop(done: int, total: int | None) -> None:
            raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            dataset.get(squares, progress=stop)
        assert left_in(home) == []

    def test_no_place_to_write(self, squares: Dataset, home: Path) -> None:
        home.write_text("a file where a folder should be")
        with pytest.raises(DataError, match="cannot be written"):
            dataset.get(squares)


class TestFromFile:
    def test_right(self, squares: Dataset, home: Path, tmp_path: Path) -> None:
        mine = tmp_path / "mine.csv"
        mine.write_bytes(GOOD)
        path = dataset.get(squares, from_file=mine)
        assert path.read_bytes() == GOOD
        assert stat.S_IMODE(path.stat().st_mode) == 0o644
        assert dataset.get(squares, from_file=path) == path  # onto itself

    def test_wrong_is_said_even_when_a_good_one_is_there(self, squares: Dataset, home: Path, tmp_path: Path) -> None:
        path = dataset.get(squares)
        mine = tmp_path / "mine.csv"
        mine.write_bytes(GOOD[:-1])
        with pytest.raises(DataError, match=SHA):
            dataset.get(squares, from_file=mine)
        assert path.read_bytes() == GOOD

    @pytest.mark.parametrize(
        ("make", "words"),
        [
            (lambda path: None, "does not exist"),
            (lambda path: path.mkdir(), "not a regular file"),
            (lambda path: os.mkfifo(path), "not a regular file"),
        ],
    )
    def test_no_file(
        self, make: Callable[[Path], None], words: str, squares: Dataset, home: Path, tmp_path: Path
    ) -> None:
        make(tmp_path / "mine")
        with pytest.raises(DataError, match=words):
            dataset.get(squares, from_file=tmp_path / "mine")
        assert left_in(home) == []


class TestVerify:
    def test_another_header_is_named(self, squares: Dataset, tmp_path: Path) -> None:
        path = tmp_path / "x.csv"
        for first in (b"b,a\n1,2\n", b"", b"\xff\xfe,\n", b"a,\n"):
            path.write_bytes(first)
            with pytest.raises(DataError, match=r"its header is .*expected 'a,b'"):
                dataset.verify(path, squares)

    def test_another_hash_is_named(self, squares: Dataset, tmp_path: Path) -> None:
        path = tmp_path / "x.csv"
        path.write_bytes(GOOD.replace(b"\n", b"\r\n"))
        with pytest.raises(DataError) as caught:
            dataset.verify(path, squares)
        assert SHA in str(caught.value)
        assert hashlib.sha256(path.read_bytes()).hexdigest() in str(caught.value)
        assert "progevo data get squares" in str(caught.value)
