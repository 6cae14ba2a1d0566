"""What the site needs beside the pages of this folder: the repository's own pages, with links that hold from there."""

from __future__ import annotations

import re
from pathlib import Path, PurePosixPath
from posixpath import normpath, relpath
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parent.parent
PAGES = {"README.md": "index.md", "CONTRIBUTING.md": "contributing.md", "CHANGELOG.md": "changes.md"}
LINK = re.compile(r"\[([^\[\]]*)\]\((?!https?://|#|mailto:)([^)#\s]+)(#[^)]*)?\)")


def linked(text: str, source: str, page: str) -> str:
    """The text of a file of the repository, with links as they are from a page of the site.

    What the site does not have (code, tests, the license) keeps its name and loses its link.
    """

    def replaced(found: re.Match[str]) -> str:
        name, target, place = found[1], normpath(str(PurePosixPath(source).parent / found[2])), found[3] or ""
        target = "README.md" if target == "docs/README.md" else target
        if target not in PAGES and not target.startswith("docs/"):
            return name
        to = PAGES.get(target) or target.removeprefix("docs/")
        return f"[{name}]({relpath(to, str(PurePosixPath(page).parent))}{place})"

    return LINK.sub(replaced, text)


def on_files(files: Files, *, config: MkDocsConfig) -> Files:
    """Adds the repository's own pages."""
    for source, page in PAGES.items():
        text = linked((ROOT / source).read_text(encoding="utf-8"), source, page)
        files.append(File.generated(config, page, content=text))
    return files


def on_page_markdown(markdown: str, *, page: Any, config: MkDocsConfig, files: Files) -> str:
    """Mends links that leave the folder."""
    path = page.file.src_uri
    return markdown if path in PAGES.values() else linked(markdown, f"docs/{path}", path)
