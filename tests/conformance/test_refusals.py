"""Operators whose malformed arguments were once let pass; `python -m tests.conformance.refusals` runs them all."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")
import hologram_torch  # noqa: E402, F401
from tests.conformance import refusals  # noqa: E402

# Refused by kernels, by adapters of several operations, by decompositions, and without PyTorch's knowing the results.
ENTRIES = (
    "addcdiv",
    "aminmax",
    "argmax",
    "bincount",
    "cross",
    "frac",
    "linalg.lu_solve",
    "lu_unpack",
    "masked_select",
    "median",
    "topk",
)


@pytest.mark.parametrize("name", ENTRIES)
def test_what_pytorch_refuses_is_refused_alike(name: str) -> None:
    found = [
        (case.name, refusals.run(case, "hologram:0"))
        for entry in refusals.op_db
        if entry.name == name
        for case in refusals.malformed(entry)
    ]
    refused = [case for case in found if case[1] is not None]
    assert refused
    assert [case for case in refused if case[1] != (refusals.Verdict.REFUSED, "")] == []


@pytest.mark.parametrize("call", [torch.median, torch.nanmedian, torch.mode])
def test_an_empty_axis_has_no_middle(call) -> None:
    empty, whole = torch.empty(3, 0), torch.empty(3, 0, dtype=torch.int32)
    for x in (empty, whole, empty.to("hologram"), whole.to("hologram")):
        with pytest.raises(IndexError):
            call(x, 1)


def test_outputs_of_wider_dtypes_are_taken_where_pytorch_takes_them() -> None:
    x, out = (
        torch.tensor([1.5, 2.5], device="hologram"),
        torch.empty(2, dtype=torch.float64, device="hologram"),
    )
    assert torch.add(x, 1, out=out).tolist() == [2.5, 3.5]
    with pytest.raises(RuntimeError, match="hologram, amax"):
        torch.amax(x, 0, out=torch.empty((), dtype=torch.float64, device="hologram"))
