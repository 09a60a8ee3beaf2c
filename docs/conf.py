"""How Sphinx builds these pages: `scripts/test` does it, warnings being errors."""

from importlib.metadata import version as installed

project = "progevo"
author = "The progevo developers"
project_copyright = "The progevo developers, MIT licence"
release = version = installed("progevo")

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
autodoc_typehints = "signature"
myst_enable_extensions = ["deflist", "dollarmath"]
myst_heading_anchors = 3  # page.md#a-heading may be linked to
exclude_patterns = ["_build"]

html_theme = "furo"
html_title = "progevo"
