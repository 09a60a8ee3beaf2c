"""The live viewer: on this machine alone, by its own name alone, GET alone, and never a path into the file system."""

from __future__ import annotations

import http.client
import json
import shutil
import socket
import threading

import pytest

from progevo.errors import ConfigError, RunError
from progevo.report.serve import ADDRESS, Viewer
from tests.report.conftest import parse


@pytest.fixture(scope="module")
def viewer(wandered, tmp_path_factory):
    folder = tmp_path_factory.mktemp("several")
    shutil.copytree(wandered(), folder / "one")
    shutil.copytree(wandered("openevolve"), folder / "two & <b>")
    (folder / "broken").mkdir()
    (folder / "broken" / "journal.jsonl").write_text('{"event": "nonsense"}\n')
    (folder / "secret.txt").write_text("secret")
    yield from serving(folder)


def serving(path):
    with Viewer(path, 0) as made:
        thread = threading.Thread(target=made.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        yield made
        made.shutdown()
        thread.join()


def ask(viewer, path, *, method="GET", host=None, **headers):
    """Status, headers, text."""
    connection = http.client.HTTPConnection(ADDRESS, viewer.server_port, timeout=180)
    connection.putrequest(method, path, skip_host=True, skip_accept_encoding=True)
    for name in [f"{ADDRESS}:{viewer.server_port}"] if host is None else host:
        connection.putheader("Host", name)
    for name, value in headers.items():
        connection.putheader(name.replace("_", "-"), value)
    connection.endheaders()
    answer = connection.getresponse()
    content = answer.read().decode()
    connection.close()
    return answer.status, answer.headers, content


def test_it_listens_on_the_loopback_address_alone(viewer):
    assert viewer.socket.getsockname() == (ADDRESS, viewer.server_port)
    assert viewer.address == f"http://127.0.0.1:{viewer.server_port}/"


def test_the_first_page_lists_the_runs_with_their_state(viewer):
    status, headers, content = ask(viewer, "/")
    assert status == 200
    assert "script-src" not in headers["Content-Security-Policy"]
    assert headers["Content-Security-Policy"].startswith("default-src 'none'")
    parsed = parse(content)
    assert [each["href"] for each in parsed.of("a")] == [
        "/runs/broken/",
        "/runs/one/",
        "/runs/two%20%26%20%3Cb%3E/",
    ]
    assert parsed.text("td").count("ended: iterations") == 2
    assert "does not know" in parsed.text("td") or "has the schema" in parsed.text("td")
    assert parsed.of("script") == []


@pytest.mark.parametrize("name", ["one", "two%20%26%20%3Cb%3E"])
def test_a_run_has_its_page_and_its_news(viewer, name):
    status, headers, content = ask(viewer, f"/runs/{name}/")
    assert status == 200
    assert "connect-src 'self'" in headers["Content-Security-Policy"]
    block = parse(content).block
    status, headers, content = ask(viewer, f"/runs/{name}/block.json")
    assert (status, json.loads(content)) == (200, block)
    assert ask(viewer, f"/runs/{name}/block.json", If_None_Match=headers["ETag"])[0] == 304
    assert ask(viewer, f"/runs/{name}/block.json", If_None_Match='"other"')[0] == 200


def test_every_answer_is_kept_from_others(viewer):
    for path in ("/", "/runs/one/", "/runs/one/block.json", "/nowhere"):
        headers = ask(viewer, path)[1]
        assert headers["Cross-Origin-Resource-Policy"] == "same-origin"
        assert headers["X-Content-Type-Options"] == "nosniff"
        assert headers["Cache-Control"] == "no-store"
        assert "frame-ancestors 'none'" in headers["Content-Security-Policy"]
        assert "Access-Control-Allow-Origin" not in headers


def test_another_name_for_this_machine_gets_nothing(viewer):
    port = viewer.server_port
    for host in (
        ["evil.example"],
        [f"evil.example:{port}"],
        [ADDRESS],
        [f"{ADDRESS}:1"],
        [],
        [f"{ADDRESS}:{port}"] * 2,
    ):
        status, _, content = ask(viewer, "/runs/one/", host=host)
        assert (status, "127.0.0.1 and localhost only" in content) == (403, True), host
    assert ask(viewer, "/", host=[f"localhost:{port}"])[0] == 200


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "HEAD", "OPTIONS", "PATCH", "<b>"])
def test_only_get_is_answered(viewer, method):
    status, _, content = ask(viewer, "/", method=method)
    assert status == 405
    assert "<b>" not in content


@pytest.mark.parametrize(
    "path",
    [
        "/secret.txt",
        "/runs/../secret.txt",
        "/runs/one/../../secret.txt",
        "/runs/%2e%2e/",
        "/runs/one%2f..%2f../secret.txt",
        "/runs/one/journal.jsonl",
        "/runs/./",
        "/runs//",
        "/runs/one",
        "//etc/passwd",
        "/runs/<b>/",
    ],
)
def test_no_path_leads_anywhere_else(viewer, path):
    status, _, content = ask(viewer, path)
    assert (status, content) == (404, "there is no such page\n")


def test_a_damaged_journal_is_told_and_ends_nothing(viewer):
    status, _, content = ask(viewer, "/runs/broken/")
    assert status == 500
    assert "journal.jsonl" in content
    assert ask(viewer, "/runs/one/")[0] == 200


def test_one_run_is_shown_at_once(wandered):
    for made in serving(wandered()):
        status, headers, _ = ask(made, "/")
        assert (status, headers["Location"]) == (302, "/runs/era/")


def test_a_folder_without_runs_is_refused(tmp_path):
    with pytest.raises(RunError, match="holds no run"):
        Viewer(tmp_path)
    with pytest.raises(RunError, match="cannot be read"):
        Viewer(tmp_path / "absent")


def test_a_port_that_is_taken_is_refused_and_without_one_another_is_found(wandered):
    with socket.socket() as holder:
        holder.bind((ADDRESS, 0))
        holder.listen()
        taken = holder.getsockname()[1]
        with pytest.raises(ConfigError, match=f"port {taken} .* cannot be had"):
            Viewer(wandered(), taken)
    with Viewer(wandered()) as one, Viewer(wandered()) as other:
        assert one.server_port != other.server_port
