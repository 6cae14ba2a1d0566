"""`hologram doctor --torch`: whether the installed PyTorch and hologram's device fit together.

hologram does not know PyTorch, and what is tried may end a process: so hologram_torch.doctor runs in one of its own.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from typing import Any

from rich.markup import escape

from hologram.cli.display import errors, grid, output
from hologram.foundation.display import duration, table

DOCTOR = (sys.executable, "-m", "hologram_torch.doctor")
SECONDS = 600  # that it may take: the first compiled step on a slow adapter takes minutes


def examine() -> dict[str, Any]:
    """What hologram_torch.doctor found; `problem` says why there is nothing else."""
    with errors.status("trying PyTorch on the device"):
        try:
            done = subprocess.run(DOCTOR, capture_output=True, text=True, timeout=SECONDS, check=False)
        except subprocess.TimeoutExpired:
            return {"problem": f"it was not done after {SECONDS} seconds"}
    lines = done.stdout.splitlines()
    if done.returncode or not lines:
        said = done.stderr.strip().splitlines()
        died = f"it died of {signal.Signals(-done.returncode).name}" if done.returncode < 0 else "it failed"
        return {"problem": said[-1] if said else died}
    return json.loads(lines[-1])


def fits(found: dict[str, Any]) -> bool:
    """Whether everything that was tried works."""
    return not found.get("problem") and not any(trial["problem"] for trial in found["trials"])


def show(found: dict[str, Any]) -> None:
    """Prints what was found: trials, then each private part of PyTorch's that is used, or what is done without it."""
    if "trials" not in found:
        output.print(f"\n[bold red]PyTorch[/] {escape(found['problem'])}", highlight=False)
        return
    tested = " to ".join(found["tested"])
    output.print(f"\n[bold]PyTorch {found['version']} on {escape(found['device'])}[/], tested with {tested}")
    trials = table("tried", "time", "", numbers=("time",))
    for trial in found["trials"]:
        works = "[bold red]failed[/]" if trial["problem"] else "[bold green]works[/]"
        trials.add_row(trial["name"], duration(trial["seconds"]), works)
    output.print(trials)
    parts = grid()
    for trial in found["trials"]:
        if trial["problem"]:
            parts.add_row("PyTorch", "failed", escape(f"{trial['name']}: {trial['problem']}"))
    for each in found["reaches"]:
        if each["problem"]:
            told = f"{each['part']} ({each['name']}): {each['problem']}; so {each['otherwise']}"
            parts.add_row("PyTorch", "without", escape(told))
        else:
            parts.add_row("PyTorch", "uses", escape(f"{each['part']} ({each['name']})"))
    if found["lacking"]:
        parts.add_row("PyTorch", "lacks", f"operators of other versions: {', '.join(found['lacking'])}")
    output.print(parts)
