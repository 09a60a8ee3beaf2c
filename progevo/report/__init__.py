"""The result page: one self-contained `report.html` per run, and the same page live while the run goes on.

    journal -> Reading (what is known) -> JSON block, header, plain table -> one file, or a loopback server

Everything that came from candidates, models and logs is data here: it stands in one JSON block or is escaped, is shown
by `textContent` alone, and the page's own policy lets nothing run and nothing load but what was built into it.
"""

from progevo.report.page import FILE, write_page

__all__ = ["FILE", "write_page"]
