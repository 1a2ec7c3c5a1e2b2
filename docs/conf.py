"""Sphinx settings of the documentation site, which `make docs` builds into site/."""

import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "scripts")]

from layers import layers  # noqa: E402
from returned_values import returned_values  # noqa: E402

import lance_spark  # noqa: E402

(ROOT / "docs" / "layers.svg").write_text(layers())
_classes = returned_values(lance_spark.LanceTable, lance_spark.Dataset)
_lines = [f".. autoclass:: {c.__module__}.{c.__qualname__}()" for c in _classes]
(ROOT / "docs" / "returned.inc").write_text("\n".join(["```{eval-rst}", *_lines, "```", ""]))

project = "lance-spark"
author = copyright = "lance-spark contributors"
release = version = lance_spark.__version__
extensions = ["myst_parser", "sphinx.ext.autodoc"]
myst_heading_anchors = 3
# A single backtick means code, as in the Markdown pages.
default_role = "code"
# Options of commands keep their two hyphens.
smartquotes = False
add_module_names = False
python_use_unqualified_type_names = True
python_maximum_signature_line_length = 120
autodoc_member_order = "bysource"
autodoc_preserve_defaults = True
autodoc_default_options = {"members": True}
html_theme = "furo"
html_title = f"lance-spark {release}"
html_static_path = ["static"]
html_css_files = ["wide.css"]
html_show_sourcelink = False
html_copy_source = False
html_theme_options = {"navigation_with_keys": True}
