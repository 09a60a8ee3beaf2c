"""The page in a real browser, where this machine has one: from disk and live, used as people use it."""

from __future__ import annotations

import shutil
import threading

import pytest

from progevo.journal import read_run
from progevo.report import write_page
from progevo.report.serve import Viewer
from tests.report.browser import CHROMIUM, Browser
from tests.report.test_page import hostile  # noqa: F401  (a fixture)

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on this machine: the page cannot be looked at")

HEADLINE = "document.querySelector('.headline').textContent"


@pytest.fixture
def browser(tmp_path):
    made = Browser(str(tmp_path / "profile"))
    yield made
    made.close()


def test_a_run_is_looked_at_from_disk(browser, wandered):
    folder = wandered()
    record = read_run(folder)
    address = write_page(folder).as_uri()
    browser.open(address)
    best = record.best_node()
    assert "the best" in browser.evaluate(HEADLINE)
    browser.key("s")
    browser.until(f"{HEADLINE}.endsWith('node 0, the seed')")
    # The best is clicked where the plot shows it: its mark says who it is.
    spot = browser.until(
        """(() => {
          const canvas = document.querySelector("#plot canvas");
          canvas.scrollIntoView();
          const box = canvas.getBoundingClientRect();
          for (let y = 10; y < box.height - 60; y += 6) for (let x = 60; x < box.width; x += 6) {
            canvas.dispatchEvent(new PointerEvent("pointermove", { clientX: box.x + x, clientY: box.y + y }));
            const tip = document.querySelector("#plot .tip");
            if (!tip.hidden && tip.textContent.startsWith("node BEST ")) return [box.x + x, box.y + y];
          }
        })()""".replace("BEST", str(best.index))
    )
    browser.click(*spot)
    browser.until(f"location.hash === '#node={best.index}'")
    browser.until(f"{HEADLINE}.includes('node {best.index}')")
    new = browser.evaluate("[...document.querySelectorAll('#code .line.new code')].map((each) => each.textContent)")
    assert [line for line in new if line] != []
    assert set(new) <= set(best.candidate.program.source.split("\n"))
    failed = sum(not node.outcome.ok for node in record.nodes)
    browser.evaluate("(() => { const kind = document.querySelector('#rows select'); kind.value = 'failed';"
                     " kind.dispatchEvent(new Event('change')); })()")  # fmt: skip
    browser.until(f"document.querySelector('#rows .bar .quiet').textContent === '{failed} of 81'")
    browser.evaluate("location.hash = '#node=7'")
    browser.until(f"{HEADLINE}.includes('node 7')")
    browser.evaluate("history.back()")
    browser.until(f"{HEADLINE}.includes('node {best.index}')")
    ground = "getComputedStyle(document.body).backgroundColor"
    before = browser.evaluate(ground)
    browser.key("t")
    browser.until(f"{ground} !== '{before}'")
    assert browser.complaints == []
    assert browser.requests == [address]


def test_islands_are_looked_at(browser, wandered):
    browser.open(write_page(wandered("openevolve")).as_uri())
    assert browser.evaluate("document.querySelectorAll('figure.island').length") == 3
    node = browser.evaluate(
        "(() => { const cell = document.querySelector('.cell'); cell.click(); return cell.title; })()"
    )
    browser.until(f"location.hash === '#node={node.split()[1]}'")
    browser.until("document.querySelector('.cell').className.includes('selected')")
    assert browser.complaints == []


def test_nothing_hostile_acts(browser, hostile):  # noqa: F811
    address = write_page(hostile).as_uri()
    browser.open(address)
    for node in range(len(read_run(hostile).nodes)):
        browser.evaluate(f"location.hash = '#node={node}'")
        browser.until(f"{HEADLINE}.includes('node {node}')")
        browser.evaluate("document.querySelectorAll('#code-what button').forEach((button) => button.click())")
    assert browser.evaluate("document.querySelectorAll('img, iframe, object, embed').length") == 0
    assert browser.evaluate("document.scripts.length") == 2
    assert browser.complaints == []
    assert browser.requests == [address]
    stopped = browser.evaluate(
        "(() => { try { document.body.innerHTML = '<b>'; } catch (error) { return error.name; } })()"
    )
    assert stopped == "TypeError"


def test_the_live_page_grows_with_its_run(browser, wandered, tmp_path):
    folder = tmp_path / "run"
    shutil.copytree(wandered(), folder)
    whole = (folder / "journal.jsonl").read_text().splitlines(keepends=True)
    (folder / "journal.jsonl").write_text("".join(whole[:40]))
    with Viewer(folder, 0) as viewer:
        thread = threading.Thread(target=viewer.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            browser.open(viewer.address)
            count = "document.querySelector('#rows .bar .quiet').textContent"
            first = browser.evaluate(count)
            browser.evaluate("location.hash = '#node=3'")
            with open(folder / "journal.jsonl", "a") as file:
                file.write("".join(whole[40:]))
            browser.until(f"{count} === '81 of 81'")
            assert first != "81 of 81"
            assert "node 3" in browser.evaluate(HEADLINE)
            browser.until("document.querySelector('#cards dd').firstChild.textContent === 'ended: iterations'")
        finally:
            viewer.shutdown()
            thread.join()
    assert browser.complaints == []
    assert {address.split("/")[2] for address in browser.requests} == {f"127.0.0.1:{viewer.server_port}"}
