"""Where the pages of the estimators are, for the "?" in the pictures that notebooks show of them."""

from __future__ import annotations

__all__ = ["SITE", "DocumentationLink"]

SITE = ""  # address of the site that `make docs` builds; as long as it has none there is no "?"


class DocumentationLink:
    """Mixin: the estimator's page in the API reference, by scikit-learn's protocol."""

    def _get_doc_link(self) -> str:
        return f"{SITE}/api/generated/smaller.{type(self).__name__}.html" if SITE else ""
