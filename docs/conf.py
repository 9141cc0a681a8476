"""How Sphinx builds the guides and the reference (ADR-0015)."""

from __future__ import annotations

import sys
from inspect import isclass, ismodule, isroutine
from textwrap import indent
from typing import TYPE_CHECKING, Any, is_typeddict

from sphinx.addnodes import pending_xref
from sphinx.pycode import ModuleAnalyzer

if TYPE_CHECKING:
    from docutils.nodes import document
    from sphinx.application import Sphinx

project = "dsh-session"
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
html_theme = "furo"
exclude_patterns = ["_build"]

default_role = "py:obj"  # a name between single backticks in a docstring
myst_heading_anchors = 2
napoleon_numpy_docstring = False
napoleon_use_rtype = False
autodoc_member_order = "bysource"
autodoc_typehints_format = "short"
add_module_names = False

# Every name that a docstring cites must have its place in the reference. The types in signatures need not.
nitpicky = True
nitpick_ignore_regex = [("py:class", ".*"), ("py:exc", ".*")]


def add_what_autodoc_leaves_out(_: Sphinx, what: str, name: str, obj: Any, __: Any, lines: list[str]) -> None:
    """Give a package's page its constants and aliases, which are made in its rooms, and a TypedDict its keys."""
    if what == "module":
        found = documented_constants(name)
        for public in getattr(obj, "__all__", ()):
            value = getattr(obj, public)
            if not (isclass(value) or isroutine(value) or ismodule(value)):
                lines += [
                    "",
                    f".. py:data:: {public}",
                    "",
                    *indent("\n".join(found.get(public, [])), "   ").splitlines(),
                ]
    elif is_typeddict(obj):
        keys = {key: getattr(kind, "__forward_arg__", kind) for key, kind in obj.__annotations__.items()}
        lines += ["", *(f"- ``{key}``: ``{kind}``" for key, kind in keys.items())]


def documented_constants(package: str) -> dict[str, list[str]]:
    """Return the docstrings of the constants in a package's rooms, by name."""
    rooms = [room for room in sys.modules if room.startswith(f"{package}.")]
    found = [ModuleAnalyzer.for_module(room).find_attr_docs() for room in rooms]
    return {name: lines for docs in found for (owner, name), lines in docs.items() if not owner}


def look_in_every_package(_: Sphinx, page: document) -> None:
    """Let a docstring cite what another package exports by its bare name, as the code does that imports it."""
    for reference in page.findall(pending_xref):
        if reference["reftype"] == "obj":
            reference["refspecific"] = True


def setup(app: Sphinx) -> None:
    """Connect what is said above."""
    app.connect("autodoc-process-docstring", add_what_autodoc_leaves_out)
    app.connect("doctree-read", look_in_every_package)
