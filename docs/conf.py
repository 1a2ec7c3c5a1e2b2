"""Sphinx settings of the documentation site, which `make docs` builds into site/."""

import re
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
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx_copybutton"]
myst_heading_anchors = 3
# A single backtick means code, as in the Markdown pages.
default_role = "code"
# Options of commands keep their two hyphens.
smartquotes = False
add_module_names = False
python_use_unqualified_type_names = True
python_maximum_signature_line_length = 100
autodoc_member_order = "bysource"
autodoc_preserve_defaults = True
autodoc_default_options = {"members": True, "inherited-members": "object,list,dict,tuple,BaseException"}
autodoc_typehints = "both"
autodoc_typehints_description_target = "all"
# Only code is copied, not what it prints.
copybutton_selector = "div:not(.highlight-text) > div.highlight > pre"
html_theme = "furo"
html_title = f"lance-spark {release}"
html_static_path = ["static"]
html_css_files = ["wide.css"]
html_show_sourcelink = False
html_copy_source = False
html_theme_options = {"navigation_with_keys": True}

_RAISES = re.compile(r"(?:^|(?<=\. ))(?:It )?[Rr]aises (`?\w+Error`?[^.]*(?:\.\w[^.]*)*)\.?(?= |$)")


def _with_raises(app, what, name, obj, options, lines):
    """Sentences of a docstring such as "Raises X if .." become fields, which the page lists under "Raises"."""
    linked = re.sub(r"\bdocs/([\w/-]+)\.md", r":doc:`\1`", "\n".join(lines))
    paragraphs, fields = linked.split("\n\n"), []
    for i, paragraph in enumerate(paragraphs):
        text = " ".join(paragraph.split())
        found = [] if paragraph.startswith((" ", ".", ":", "-", ">")) else _RAISES.findall(text)
        if found:
            fields += [f":raises {sentence.split()[0].strip('`,')}: {sentence.partition(' ')[2]}" for sentence in found]
            paragraphs[i] = _RAISES.sub("", text).strip()
    if what not in ("function", "method") or not fields:
        lines[:] = linked.split("\n")
    else:
        at = next((i for i, paragraph in enumerate(paragraphs) if paragraph.startswith("Examples:")), len(paragraphs))
        lines[:] = "\n\n".join([*filter(None, paragraphs[:at]), "\n".join(fields), *paragraphs[at:], ""]).split("\n")


def setup(app):
    """Connect the hook."""
    app.connect("autodoc-process-docstring", _with_raises)
