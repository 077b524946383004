"""HTML pages, each one file: a shell with its styles, scripts and data (as JSON) inside.

Scripts draw everything from the data by DOM calls, never by markup made of text, so that no data of
a user can become markup. The content security policy of a page allows exactly its own styles and
scripts, and no connection.

May import: `_system`.
Start reading at `Page`.
"""

import base64
import hashlib
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import Any

from mtlstruct._system.atomic_write import replacing
from mtlstruct._system.digest import finite


@dataclass(frozen=True)
class Page:
    """An HTML page, to be saved or shown in a notebook.

    Attributes
    ----------
    html : str
        The text of the page.
    """

    html: str

    def save(self, path: str | Path) -> None:
        """Write the page to a file, whole or not at all.

        Parameters
        ----------
        path : str or Path
            The file to write.
        """
        with replacing(path) as out:
            out.write(self.html.encode())

    def _repr_html_(self) -> str:
        return f'<iframe srcdoc="{escape(self.html, quote=True)}" width="100%" height="720"></iframe>'


def asset(name: str) -> str:
    """Return the text of a file of the folder assets."""
    return (files(__name__) / "assets" / name).read_text(encoding="utf-8")


def page(
    title: str, data: Any, *, styles: Sequence[str], scripts: Sequence[str], connect: str = "'none'"
) -> Page:
    """Return a page of assets: styles, and scripts that draw the data.

    `connect` is the policy for connections: 'none' or 'self'.
    """
    style = "\n".join(map(asset, styles))
    script = "(() => {\n'use strict';\n" + "\n".join(map(asset, scripts)) + "\n})();\n"
    policy = (
        f"default-src 'none'; style-src {_hash(style)}; script-src {_hash(script)}; img-src data:; "
        f"connect-src {connect}; base-uri 'none'; form-action 'none'"
    )
    parts = {"title": escape(title), "policy": escape(policy, quote=True), "data": embedded(data)}
    parts |= {"style": style, "script": script}
    return Page(re.sub(r"\{\{(\w+)\}\}", lambda match: parts[match[1]], asset("shell.html")))


def embedded(data: Any) -> str:
    """Return JSON for a script element; numbers that are not finite become null.

    It has no `<`, so that neither `</script` nor `<!--` can occur.
    """
    text = json.dumps(finite(data), ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")


def _hash(content: str) -> str:
    """Return how a policy names a style or script: by the digest of its text."""
    digest = hashlib.sha256(content.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"
