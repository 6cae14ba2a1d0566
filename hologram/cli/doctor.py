"""`hologram doctor`: whether each backend is here, why not if not, and whether it computes what NumPy computes."""

from __future__ import annotations

import platform
import time
from collections.abc import Sequence
from dataclasses import asdict
from typing import Annotated

import numpy as np
import typer
from rich.markup import escape
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

import hologram as hg
from hologram.backends import registry
from hologram.cli import packages, pytorch
from hologram.cli.display import errors, grid, output, print_json
from hologram.cli.info import add_findings, cache, configuration, describe, versions
from hologram.foundation.conduct import CONDUCT
from hologram.foundation.display import duration, table
from hologram.foundation.frozen import frozen
from hologram.machine.backend_module import Probe
from hologram.machine.device import DeviceInfo
from hologram.runtime import selector

SIZE = 512  # of the matrices in the check
TOLERANCE = 1e-5  # relative
NUMBERS = ("open", "first run", "again", "error")


@frozen
class Check:
    """What trying a device gave: times in seconds, the largest error, or what was raised."""

    device: str
    name: str
    open_s: float = 0.0
    first_s: float = 0.0  # with compiling
    again_s: float = 0.0
    error: float = 0.0
    problem: str = ""
    shortfalls: tuple[str, ...] = ()  # words of CONDUCT


def doctor(
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    torch: Annotated[bool, typer.Option("--torch", help="Try PyTorch on the device, too.")] = False,
) -> None:
    """Check every backend: is it here, why not, and does it compute right. Exit status 1 if one that is here fails."""
    cache()  # before the checks compile: what is wrong with it is said once, below
    probes = registry.probes()
    devices = [device for probe in probes for device in probe.devices]
    checks = []
    with Progress(
        SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn(), console=errors, transient=True
    ) as progress:
        task = progress.add_task("checking", total=len(devices))
        for device in devices:
            progress.update(task, description=f"checking {device.backend}:{device.index} {device.name}")
            checks.append(check(device))
            progress.advance(task)
    failed, wrong = [c for c in checks if c.problem], [*configuration()]
    found = pytorch.examine() if torch else None
    healthy = not failed and not wrong and (found is None or pytorch.fits(found))
    if as_json:
        print_json(
            {
                "versions": versions(),
                "platform": platform.platform(),
                "backends": [describe(probe) for probe in probes],
                "selection": selector.explain_selection(),
                "cache": cache(),
                "configuration": wrong,
                "checks": [asdict(c) for c in checks],
                "packages": [*packages.findings()],
                "torch": found,
                "healthy": healthy,
            }
        )
    else:
        show(probes, checks)
        if found is not None:
            pytorch.show(found)
    raise typer.Exit(0 if healthy else 1)


def check(device: DeviceInfo) -> Check:
    """Opens the device and compares the softmax of a matrix product with NumPy's in double precision, twice."""
    name = f"{device.backend}:{device.index}"
    random = np.random.default_rng(0)
    a, b = (random.standard_normal((SIZE, SIZE)).astype(np.float32) for _ in range(2))
    expected = softmax(a.astype(np.float64) @ b.astype(np.float64) / SIZE)
    start = time.perf_counter()
    try:
        with hg.Executor(backend=device.backend, device=device.index) as executor:
            opened = time.perf_counter()
            x, y = executor.tensor(a), executor.tensor(b)
            first = hg.softmax(hg.matmul(x, y) / SIZE, dim=-1).to_numpy()
            computed = time.perf_counter()
            again = hg.softmax(hg.matmul(x, y) / SIZE, dim=-1).to_numpy()
            end = time.perf_counter()
            shortfalls = executor.limits.shortfalls
    except Exception as error:  # noqa: BLE001  whatever a device does, the doctor reports it and goes on
        return Check(name, device.name, problem=f"{type(error).__name__}: {error}")
    error = max(float(np.abs(result / expected - 1).max()) for result in (first, again))
    problem = "" if error <= TOLERANCE else f"results are wrong by {error:.1e}, allowed is {TOLERANCE:.0e}"
    times = opened - start, computed - opened, end - computed
    return Check(name, device.name, *times, error, problem, shortfalls)


def softmax(x: np.ndarray) -> np.ndarray:
    """The reference, in NumPy."""
    powers = np.exp(x - x.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True)


def show(probes: Sequence[Probe], checks: Sequence[Check]) -> None:
    """Prints the findings: what was tried, what is missing and what to do, and what `auto` would open."""
    tried = table("device", "name", "open", "first run", "again", "error", "", numbers=NUMBERS)
    for c in checks:
        if c.problem:
            tried.add_row(c.device, c.name, "", "", "", "", "[bold red]failed[/]")
            continue
        times = map(duration, (c.open_s, c.first_s, c.again_s))
        tried.add_row(c.device, c.name, *times, f"{c.error:.0e}", "[bold green]works[/]")
    output.print(f"[bold]Softmax of a {SIZE} x {SIZE} matrix product, against NumPy in double precision[/]")
    output.print(tried)
    for c in checks:
        if c.problem:
            output.print(f"\n[bold red]{c.device} failed[/] {escape(c.problem)}", highlight=False)
    output.print()
    findings = grid()
    for c in checks:
        for word in c.shortfalls:
            findings.add_row(c.device, "driver", escape(f"{word}: {CONDUCT[word].otherwise}"))
    add_findings(findings, probes, cache())
    for finding in packages.findings():
        findings.add_row("Python", "note", escape(finding))
    output.print(findings)
