"""Edits of a program's text: regions that may change, whole rewrites, SEARCH/REPLACE blocks and diffs. Pure.

A seed may mark what a proposer may touch:

    # EVOLVE-BLOCK-START
    ...
    # EVOLVE-BLOCK-END

Everything outside, the marker lines included, stays as it is to the byte. That is not asked of a proposer but made so:
a rewrite's inside is put into the parent's own outside, and an edit is placed inside a region or refused.
"""

from __future__ import annotations

from progevo.edit.patch import Form, apply, recognise
from progevo.edit.regions import Edited, Region, regions, respects, rewrite

__all__ = ["Edited", "Form", "Region", "apply", "recognise", "regions", "respects", "rewrite"]
