"""The store of files: whole entries or none, whatever other processes, signals, disks and other users do."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import time
import warnings
from pathlib import Path

import pytest

from hologram.foundation import store
from hologram.foundation.store import CacheStats, Store

LIMIT = 1 << 20
pytestmark = pytest.mark.filterwarnings("ignore:kernels are not kept")
posix = pytest.mark.skipif(not hasattr(os, "geteuid"), reason="owners and modes are those of POSIX")

# Run in a process of its own: the test's may hold threads, which do not survive a fork.
CROWD = """
import os, random, sys
from pathlib import Path
from hologram.foundation.store import Store

root, limit = Path(sys.argv[1]), int(sys.argv[2])
contents = {f"key {n}": bytes([n]) * (1000 + 997 * n) for n in range(20)}

def work(seed, turns):
    own, pick = Store(root, limit), random.Random(seed)
    for _ in range(turns):
        name = pick.choice(list(contents))
        if pick.random() < 0.5:
            own.put("kind", name, contents[name])
        elif own.get("kind", name) not in (None, contents[name]):
            os._exit(3)
    stats = own.stats("kind")
    os._exit(4 if stats.corrupt or own.problem or not stats.hits else 0)
"""
TOGETHER = (
    CROWD
    + """
children = []
for seed in range(8):
    children.append(os.fork())
    if not children[-1]:
        work(seed, 300)
sys.exit(max(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children))
"""
)
KILLED = (
    CROWD
    + """
import signal, time
for turn in range(120):
    child = os.fork()
    if not child:
        work(turn, 1_000_000)
    time.sleep(random.uniform(0, 0.004))
    os.kill(child, signal.SIGKILL)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
after = Store(root, limit)
for name, content in contents.items():
    assert after.get("kind", name) in (None, content), name
assert after.stats("kind").hits and not after.stats("kind").corrupt, after.stats("kind")
"""
)


def run(script: str, root: Path, limit: int) -> None:
    subprocess.run([sys.executable, "-c", script, str(root), str(limit)], check=True, timeout=120)


def files(root: Path) -> list[Path]:
    return sorted(path for path in root.rglob("*") if path.is_file())


def age(path: Path, seconds: float) -> None:
    os.utime(path, (time.time() - seconds, time.time() - seconds))


@pytest.fixture
def kept(tmp_path: Path) -> Store:
    return Store(tmp_path / "cache", LIMIT)


def test_what_was_put_is_there_for_the_next_process(kept: Store) -> None:
    assert kept.get("kind", "a") is None
    kept.put("kind", "a", b"first")
    kept.put("kind", "a", b"second")
    kept.put("other", "a", b"")
    later = Store(kept.root, LIMIT)
    assert (later.get("kind", "a"), later.get("other", "a"), later.get("kind", "b")) == (b"second", b"", None)
    assert later.stats("kind") == CacheStats(hits=1, misses=1)
    assert later.stats("other") == CacheStats(hits=1)
    assert kept.stats("kind") == CacheStats(misses=1, stored=2)
    assert kept.usage().entries == later.usage().entries == 2


def test_a_key_keeps_its_parts_apart() -> None:
    assert (
        len(
            {store.key("a", "b"), store.key("ab"), store.key("a b"), store.key("b", "a"), store.key('a", "b')}
        )
        == 5
    )


def test_what_is_kept_is_made_once(kept: Store) -> None:
    made = []

    def make() -> bytes:
        made.append(len(made))
        return str(len(made)).encode()

    assert [kept.kept("kind", "a", make, int) for _ in range(3)] == [1, 1, 1]
    kept.put("kind", "a", b"no number")
    assert [kept.kept("kind", "a", make, int) for _ in range(2)] == [2, 2]
    assert [kept.kept("kind", None, make, int) for _ in range(2)] == [3, 4]
    assert kept.stats("kind") == CacheStats(hits=4, misses=1, stored=3, corrupt=1, compiled=4)
    with pytest.raises(ValueError, match="invalid literal"):
        kept.kept("kind", "b", lambda: b"no number", int)


def test_any_damage_is_found_and_the_entry_made_anew(kept: Store) -> None:
    content = bytes(range(64))
    kept.put("kind", "a", content)
    (place,) = files(kept.root or Path())
    whole = place.read_bytes()
    damaged = [whole[:n] for n in range(len(whole))] + [whole + b"\0"]
    damaged += [whole[:n] + bytes([whole[n] ^ 0x10]) + whole[n + 1 :] for n in range(len(whole))]
    for data in damaged:
        place.write_bytes(data)
        assert kept.get("kind", "a") is None
        assert not place.exists()
        kept.put("kind", "a", content)
        assert kept.get("kind", "a") == content
    assert kept.stats("kind").corrupt == len(damaged) > 200


def test_an_entry_in_another_ones_place_is_damaged(kept: Store) -> None:
    kept.put("kind", "a", b"of a")
    (a,) = files(kept.root or Path())
    kept.put("kind", "b", b"of b")
    (b,) = set(files(kept.root or Path())) - {a}
    b.write_bytes(a.read_bytes())
    assert (kept.get("kind", "a"), kept.get("kind", "b")) == (b"of a", None)
    assert kept.stats("kind").corrupt == 1


@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are forked")
@pytest.mark.parametrize("limit", [LIMIT, 60_000], ids=["roomy", "evicting"])
def test_eight_processes_at_once_see_whole_entries(tmp_path: Path, limit: int) -> None:
    run(TOGETHER, tmp_path / "cache", limit)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are forked")
def test_a_writer_that_is_killed_leaves_nothing_that_breaks_a_reader(tmp_path: Path) -> None:
    root = tmp_path / "cache"
    run(KILLED, root, LIMIT)
    unfinished = [path for path in files(root) if path.name.startswith("writing-")]
    ours = Store(root, LIMIT)
    ours.tidy()
    assert set(unfinished) <= set(files(root)), "they may still have a writer"
    (root / store.FORMAT / "kind" / "writing-0123456789abcdef").write_bytes(b"half an ent")
    for path in files(root):
        if path.name.startswith("writing-"):
            age(path, 3600)
    ours.tidy()
    assert not [path for path in files(root) if path.name.startswith("writing-")]
    assert ours.usage().entries == len(files(root)) > 0


def test_the_entries_unused_for_longest_go_beyond_the_limit(tmp_path: Path) -> None:
    kept = Store(tmp_path / "cache", 10_000)
    for n in range(9):
        before = set(files(tmp_path))
        kept.put("kind", str(n), bytes(1000))
        (path,) = set(files(tmp_path)) - before
        age(path, 10 * 24 * 3600 - n)
    assert kept.get("kind", "0") == bytes(1000)  # which makes it the one used last
    kept.put("kind", "9", bytes(1000))
    assert kept.usage().nbytes <= 7_500
    found = [n for n in range(10) if kept.get("kind", str(n)) is not None]
    assert found == [0, *range(10 - len(found) + 1, 10)]
    kept.put("kind", "large", bytes(20_000))
    assert kept.get("kind", "large") is None


def test_other_files_in_the_directory_are_left_alone(tmp_path: Path) -> None:
    own = tmp_path / store.FORMAT / "kind" / "thesis.txt"
    own.parent.mkdir(parents=True, mode=0o700)
    own.parent.parent.chmod(0o700)
    own.parent.chmod(0o700)
    tmp_path.chmod(0o700)
    own.write_bytes(bytes(5000))
    kept = Store(tmp_path, 2_000)
    for n in range(5):
        kept.put("kind", str(n), bytes(900))
    assert kept.stats("kind").stored == 5
    assert kept.usage().nbytes <= 2_000
    assert own.exists()


@posix
def test_only_the_owner_can_read_it(kept: Store) -> None:
    old = os.umask(0)
    try:
        kept.put("kind", "a", b"content")
    finally:
        os.umask(old)
    root = kept.root or Path()
    modes = {path: stat.S_IMODE(path.stat().st_mode) for path in (root, *root.rglob("*"))}
    assert {mode for path, mode in modes.items() if path.is_dir()} == {0o700}
    assert {mode for path, mode in modes.items() if path.is_file()} == {0o600}


@posix
@pytest.mark.parametrize("folder", [".", store.FORMAT, f"{store.FORMAT}/kind"])
@pytest.mark.parametrize("mode", [0o777, 0o770, 0o702])
def test_a_directory_that_others_may_write_to_is_refused(kept: Store, folder: str, mode: int) -> None:
    kept.put("kind", "a", b"content")
    root = kept.root or Path()
    (root / folder).chmod(mode)
    later = Store(root, LIMIT)
    assert later.get("kind", "a") is None
    later.put("kind", "b", b"content")
    assert later.stats("kind") == CacheStats(misses=1)
    assert "must be writable by its owner only" in later.problem
    assert later.usage().entries == 1


@posix
def test_entries_that_others_may_write_to_and_links_are_refused(kept: Store, tmp_path: Path) -> None:
    kept.put("kind", "a", b"content")
    (place,) = files(kept.root or Path())
    place.chmod(0o666)
    assert kept.get("kind", "a") is None
    kept.put("kind", "a", b"content")
    assert kept.get("kind", "a") == b"content"
    place.rename(tmp_path / place.name)
    place.symlink_to(tmp_path / place.name)
    assert kept.get("kind", "a") is None


def test_where_nothing_can_be_written_it_goes_without_and_warns_once(tmp_path: Path) -> None:
    in_the_way = tmp_path / "file"
    in_the_way.write_text("no directory")
    kept = Store(in_the_way / "cache", LIMIT)
    with pytest.warns(RuntimeWarning, match="are not kept in .*HOLOGRAM_CACHE_DIR names another"):
        kept.get("kind", "a")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(2):
            kept.put("kind", "a", b"content")
            assert kept.get("kind", "a") is None
    assert kept.stats("kind") == CacheStats(misses=3)


def test_asking_whether_anything_can_be_kept_leaves_nothing_and_warns_of_nothing(
    kept: Store, tmp_path: Path, recwarn: pytest.WarningsRecorder
) -> None:
    assert kept.examine() == ""
    assert kept.usage().entries == 0
    in_the_way = tmp_path / "file"
    in_the_way.write_text("no directory")
    other = Store(in_the_way, LIMIT)
    assert "are not kept in" in other.examine()
    other.put("kind", "a", b"content")
    assert not recwarn.list


def test_a_user_without_a_home_gets_no_folder_where_he_stands(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    kept = Store(Path("~") / ".cache", LIMIT)
    kept.put("kind", "a", b"content")
    assert kept.get("kind", "a") is None
    assert kept.usage().entries == 0
    assert "must be an absolute path" in kept.problem
    assert not list(tmp_path.iterdir())


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="a full disk is emulated by a small one")
def test_a_full_disk_leaves_no_half_entry(kept: Store, monkeypatch) -> None:
    kept.put("kind", "a", b"old")

    def opened(path: str, flags: int, mode: int = 0o777) -> int:
        return real("/dev/full" if flags & os.O_CREAT else path, flags & ~(os.O_CREAT | os.O_EXCL), mode)

    real = os.open
    monkeypatch.setattr(os, "open", opened)
    kept.put("kind", "a", b"new")
    kept.put("kind", "b", bytes(100_000))
    monkeypatch.undo()
    assert "No space left" in kept.problem
    assert (kept.get("kind", "a"), kept.get("kind", "b")) == (b"old", None)
    assert len(files(kept.root or Path())) == 1


def test_switched_off_it_only_counts(monkeypatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOLOGRAM_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("HOLOGRAM_CACHE", "0")
    off = store.shared()
    off.put("off", "a", b"content")
    assert off.get("off", "a") is None
    assert off.kept("off", "a", lambda: b"made", bytes.decode) == "made"
    assert off.stats("off") == CacheStats(misses=2, compiled=1)
    assert not (tmp_path / "cache").exists()
    monkeypatch.setenv("HOLOGRAM_CACHE", "1")
    assert store.shared().root == tmp_path / "cache"
