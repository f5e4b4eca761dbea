"""How the site is made of the pages: `make docs`. Nothing is fetched, neither here nor by a reader's browser."""

from __future__ import annotations

import os
import sys
from importlib.metadata import version as installed_version
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent))
os.environ.setdefault("OMP_NUM_THREADS", "1")

from docs.site import mathml, reference, sections  # noqa: E402

project = "smaller"
author = "The smaller developers"
project_copyright = author
version = release = installed_version(project)

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "numpydoc",
    "sphinx_gallery.gen_gallery",
]
exclude_patterns = ["sg_execution_times*", "**/sg_execution_times*", "figures", "site", "templates"]
templates_path = ["templates"]
myst_heading_anchors = 3
html_math_renderer = "mathml"
numpydoc_show_class_members = False
numpydoc_xref_param_type = False
autodoc_typehints = "none"
autosummary_generate = True
autosummary_imported_members = True
autosummary_ignore_module_all = False
smartquotes = False
highlight_language = "text"

sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "gallery",
    "filename_pattern": r"\.py$",
    "ignore_pattern": r"(demo|gene_selection|__init__)\.py$",
    "within_subsection_order": "FileNameSortKey",
    "subsection_order": ["../examples/walkthroughs", "../examples/displays"],
    "abort_on_example_error": True,
    "capture_repr": (),
    "matplotlib_animations": False,
    "download_all_examples": False,
    "show_memory": False,
    "show_signature": False,
    "min_reported_time": 1e9,
}

html_theme = "pydata_sphinx_theme"
html_title = "smaller"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_show_sourcelink = False
html_copy_source = False
html_sidebars = {"index": []}
html_theme_options = {
    "logo": {"text": "smaller"},
    "navbar_end": ["theme-switcher"],
    "navbar_persistent": ["search-button"],
    "header_links_before_dropdown": 6,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": [],
    "show_prev_next": True,
    "navigation_with_keys": False,
    "pygments_light_style": "tango",
    "pygments_dark_style": "github-dark",
}


def write_reference(app: Any, config: Any) -> None:
    """Before the pages are looked for: one list a module, from which autosummary makes a page a name."""
    reference.write(HERE / "api")


def grow_tree(app: Any, name: str, source: list[str]) -> None:
    """Append the tree of a section to its page: the pages it links to, and in the guide those no section names."""
    source[0] = sections.for_the_site(source[0]) + sections.tree(HERE, name)


def skip_foreign(app: Any, kind: str, name: str, member: Any, skip: bool, options: Any) -> bool | None:
    """Leave out what scikit-learn documents: get_params, score, metadata routing."""
    module = getattr(getattr(member, "fget", member), "__module__", None) or ""
    return True if module.startswith("sklearn") else None


def setup(app: Any) -> None:
    """Register the steps above, and formulas without scripts."""
    mathml.setup(app)
    app.connect("config-inited", write_reference)
    app.connect("source-read", grow_tree)
    app.connect("autodoc-skip-member", skip_foreign)
