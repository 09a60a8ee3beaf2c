"""Dataset: a file that progevo does not ship, known by its address and its sha256, and fetching it once."""

from __future__ import annotations

import contextlib
import hashlib
import os
import tempfile
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path
from typing import TypeAlias

from progevo.errors import DataError
from progevo.types import MIB

#: Called with the bytes that have arrived and, where the server said so, the bytes to come in all.
Progress: TypeAlias = Callable[[int, "int | None"], None]

#: No dataset weighs more; what does is not the file that was asked for.
MAX_BYTES = 256 * MIB
TIMEOUT_S = 30.0
_CHUNK = 64 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Dataset:
    """One data file that people fetch for themselves.

    Attributes:
        name: what people type, and the folder it is kept in.
        url: where the bytes can be had.
        sha256: of the whole file, in hex. It decides; everything else here is for people.
        file_name: what the file is called on disk.
        header: its first line, without the line end.
        rows: how many lines follow the header.
        about: one line on what it is.
    """

    name: str
    url: str
    sha256: str
    file_name: str
    header: str
    rows: int
    about: str


def folder(dataset: Dataset) -> Path:
    """The folder of a dataset, in the data folder."""
    return folder_of(dataset.name)


def folder_of(name: str) -> Path:
    """The folder of the data of a name, whether it is there or not."""
    return data_folder() / name


def data_folder() -> Path:
    """`$PROGEVO_DATA`, else `$XDG_DATA_HOME/progevo`, else `~/.local/share/progevo`."""
    if root := os.environ.get("PROGEVO_DATA"):
        return Path(root).expanduser()
    # The XDG specification asks that a relative path be ignored.
    if (root := os.environ.get("XDG_DATA_HOME")) and Path(root).is_absolute():
        return Path(root) / "progevo"
    try:
        return Path.home() / ".local" / "share" / "progevo"
    except RuntimeError as error:
        raise DataError("there is no home folder to keep data in: set PROGEVO_DATA to a folder") from error


def installed(dataset: Dataset) -> Path | None:
    """Where `get` has put the file, or `None`. It may have been damaged since: `read` tells."""
    path = folder(dataset) / dataset.file_name
    return path if os.path.isfile(path) else None


def find_data(sha256: str) -> Path | None:
    """The file of that content below the data folder, whatever its name; `None` where there is none."""
    for path in sorted(data_folder().rglob("*")):
        with contextlib.suppress(OSError):
            if path.is_file() and path.stat().st_size <= MAX_BYTES:
                with open(path, "rb") as file:
                    if hashlib.file_digest(file, "sha256").hexdigest() == sha256:
                        return path
    return None


def read(path: Path, dataset: Dataset) -> bytes:
    """The content of a file that is exactly the dataset's.

    Raises:
        DataError: the file cannot be read, or its header or hash is another.
    """
    raw = b"".join(_file_chunks(path))
    cure = f"`progevo data get {dataset.name}` fetches the right file"
    header = raw[: len(dataset.header) + 200].splitlines()[:1]
    if header != [dataset.header.encode()]:
        got = header[0].decode(errors="replace") if header else ""
        raise DataError(
            f"{path} is not {dataset.name}: its header is {got!r}, expected {dataset.header!r} "
            f"(sha256 {hashlib.sha256(raw).hexdigest()}, expected {dataset.sha256}); {cure}"
        )
    if (got := hashlib.sha256(raw).hexdigest()) != dataset.sha256:
        raise DataError(f"{path} is not {dataset.name}: its sha256 is {got}, expected {dataset.sha256}; {cure}")
    return raw


def verify(path: Path, dataset: Dataset) -> None:
    """Returns if the file is exactly the dataset's; raises `DataError` as `read` does."""
    read(path, dataset)


def get(
    dataset: Dataset,
    *,
    from_file: Path | None = None,
    url: str | None = None,
    progress: Progress | None = None,
    timeout_s: float = TIMEOUT_S,
) -> Path:
    """The dataset's file in its folder: found there, copied from `from_file`, or downloaded.

    A file that is there and right stays as it is; one that is wrong is replaced. The new file appears in one step
    once its hash is known to be right, and a failure leaves nothing behind. `timeout_s` is the longest silence.

    Raises:
        DataError: the file cannot be had, is another file, or cannot be written.
    """
    target = folder(dataset) / dataset.file_name
    if from_file is None:
        source = url or dataset.url
        with contextlib.suppress(DataError):
            verify(target, dataset)
            return target
        _store(dataset, source, _download_chunks(source, progress, timeout_s), target)
    else:
        if os.path.exists(target) and target.samefile(_existing(from_file)):
            verify(target, dataset)
            return target
        _store(dataset, str(from_file), _file_chunks(from_file, progress), target)
    return target


def _store(dataset: Dataset, source: str, chunks: Iterator[bytes], target: Path) -> None:
    """Writes the chunks beside the target and moves them there once their hash is right."""
    digest = hashlib.sha256()
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(prefix=f".{target.name}.", suffix=".part", dir=target.parent)
        try:
            with open(handle, "wb") as part:
                os.fchmod(part.fileno(), 0o644)
                for chunk in chunks:
                    digest.update(chunk)
                    part.write(chunk)
            if (got := digest.hexdigest()) != dataset.sha256:
                raise DataError(
                    f"{source} is not {dataset.name}: its sha256 is {got}, expected {dataset.sha256}; "
                    f"nothing was installed. Try again, or give a good copy: "
                    f"`progevo data get {dataset.name} --from FILE`"
                )
            os.replace(name, target)
        finally:
            Path(name).unlink(missing_ok=True)
            with contextlib.suppress(OSError):
                target.parent.rmdir()  # goes only if it is empty
    except OSError as error:
        raise DataError(
            f"{target} cannot be written: {error.strerror or error}; make room there, or set PROGEVO_DATA to a folder"
        ) from error


def _existing(path: Path) -> Path:
    if not path.exists():
        raise DataError(f"{path} does not exist; give the path of a file")
    if not path.is_file():  # a pipe or a device would never end
        raise DataError(f"{path} is not a regular file; give the path of a file")
    return path


def _file_chunks(path: Path, progress: Progress | None = None) -> Iterator[bytes]:
    try:
        with open(_existing(path), "rb") as file:
            total = os.fstat(file.fileno()).st_size
            yield from _counted(lambda: file.read(_CHUNK), str(path), total, progress)
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror or error}") from error


def _download_chunks(url: str, progress: Progress | None, timeout_s: float) -> Iterator[bytes]:
    cure = "try again later, or give a copy with --from FILE"
    try:
        if urllib.parse.urlsplit(url).scheme not in ("http", "https"):
            raise DataError(f"{url} is not an http or https address; a file on this machine is given with --from FILE")
        # Bytes as they are: a server that compresses on its way would change nothing but the count.
        request = urllib.request.Request(url, headers={"User-Agent": "progevo", "Accept-Encoding": "identity"})
        with _opener().open(request, timeout=timeout_s) as response:
            length = response.headers.get("Content-Length", "")
            total = int(length) if length.isdecimal() else None
            yield from _counted(lambda: response.read(_CHUNK), url, total, progress)
    except urllib.error.HTTPError as error:
        error.close()
        raise DataError(f"{url} answered {error.code} {error.reason}; {cure}") from error
    except (OSError, HTTPException, ValueError) as error:
        cause = getattr(error, "reason", error)
        cause = getattr(cause, "strerror", None) or cause
        raise DataError(f"{url} cannot be fetched: {cause or type(error).__name__}; {cure}") from error


def _counted(more: Callable[[], bytes], source: str, total: int | None, progress: Progress | None) -> Iterator[bytes]:
    """The chunks of a source up to its end, which is neither before `total` nor beyond `MAX_BYTES`."""
    seen = 0
    while chunk := more():
        seen += len(chunk)
        if seen > MAX_BYTES:
            raise DataError(f"{source} is larger than {MAX_BYTES // MIB} MiB, so it is not the file that was asked for")
        yield chunk
        if progress is not None:
            progress(seen, total)
    # http.client passes a body that ends early for a whole one when it is read in pieces.
    if total is not None and seen < total:
        raise DataError(f"{source} ended after {seen} of {total} bytes: the connection was cut; try again")


def _opener() -> urllib.request.OpenerDirector:
    """An opener for http and https alone, so that no redirect can lead to a local file or to FTP."""
    opener = urllib.request.OpenerDirector()
    for handler in (
        urllib.request.ProxyHandler(),
        urllib.request.HTTPHandler(),
        urllib.request.HTTPSHandler(),
        urllib.request.HTTPRedirectHandler(),
        urllib.request.HTTPDefaultErrorHandler(),
        urllib.request.HTTPErrorProcessor(),
        urllib.request.UnknownHandler(),
    ):
        opener.add_handler(handler)
    return opener
