"""The digest of a code generator's sources."""

from __future__ import annotations

from pathlib import Path

from hologram.compiler.sources import PACKAGE, digest_of_sources, generator_digest


def test_it_changes_with_any_file(tmp_path: Path) -> None:
    folders = [tmp_path / "one", tmp_path / "two"]
    for folder in folders:
        folder.mkdir()
        (folder / "a.py").write_text("x = 1")
        (folder / "b.ll").write_text("x = 2")
    seen = {digest_of_sources(*folders)}
    (folders[1] / "b.ll").write_text("x = 3")
    seen.add(digest_of_sources(*folders))
    (folders[0] / "c.py").write_text("")
    seen.add(digest_of_sources(*folders))
    (folders[0] / "c.py").rename(folders[1] / "c.py")
    seen.add(digest_of_sources(*folders))
    seen.add(digest_of_sources(folders[0], folders[1] / "a.py"))
    assert len(seen) == 5


def test_each_backend_has_a_generator_of_its_own() -> None:
    folders = [PACKAGE / "backends" / name for name in ("cpu", "webgpu", "cuda", "metal")]
    assert len({generator_digest(folder) for folder in folders}) == len(folders)
