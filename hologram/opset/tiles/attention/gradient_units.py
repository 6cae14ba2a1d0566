"""The gradient of attention by matrix units, where a device has them for the operands' dtype."""

from __future__ import annotations

from hologram.foundation.dtypes import f32, u32
from hologram.machine.layout import Layout
from hologram.machine.limits import Limits
from hologram.machine.merging import collapse
from hologram.machine.plan import Plan, Step, Tile, reading, told, writing
from hologram.opset.forms.steps import Place, Steps
from hologram.opset.tiles.attention.attended import BEHIND, MASK, Attended, K, Q, V
from hologram.opset.tiles.attention.operands import additive, batch_of
from hologram.opset.tiles.attention.units import AXES, whole

SUBGROUPS = 4  # of a workgroup, of 16 rows each
STEPS = {
    16: 64,
    32: 64,
    64: 64,
    128: 16,
}  # by elements of a row in workgroup memory: rows that are read at a time
OPERANDS = ("q", "k", "v", "mask", "cotangent")
SCALARS = (
    *told(u32, "l", "s", "e", "ev", "heads", "groups", "shared"),
    *told(f32, "scale"),
    *told(u32, *(f"{name}_{axis}" for name in OPERANDS for axis in AXES)),
)


def head_of(e: int, ev: int) -> int:
    """Elements of a row in workgroup memory; 0 where a row is too long."""
    return next((n for n in STEPS if max(e, ev) <= n), 0)


def gradient_plan(found: Attended, cotangent: Layout, shared: int, limits: Limits) -> Plan:
    """dq, and then dk and dv, in f32: of operands that are broadcast, and three contiguous results."""
    steps = Steps(BEHIND + 4)
    masked, look = found.mask is not None, found.look
    given = [found.q, found.k, found.v, found.mask or found.q, cotangent]
    places = [Place(p, i) for p, i in zip((Q, K, V, MASK, BEHIND), given, strict=True)]
    if not masked:
        places[3] = places[0]
    elif given[3].dtype is not f32:
        places[3] = additive(steps, given[3])
    batches = collapse([batch_of(p.layout) for p in places])
    if batches[0].ndim > 3 or min(s for p in places for s in p.layout.strides) < 0:
        places = [steps.converted(p, p.layout.dtype) for p in places]
        batches = collapse([batch_of(p.layout) for p in places])
    outer, heads, groups = (*(1,) * (3 - batches[0].ndim), *batches[0].shape)
    q, k, v, _, given_back = (p.layout for p in places)
    (rows, e), (keys, ev) = q.shape[-2:], v.shape[-2:]
    dtype, head = q.dtype, head_of(e, ev)
    scalars: list[int | float] = [rows, keys, e, ev, heads * groups, groups, shared, look.scale]
    for place, batch in zip(places, batches, strict=True):
        lead = (*(0,) * (3 - batch.ndim), *batch.strides)
        scalars += [place.layout.offset, *lead, *place.layout.strides[-2:]]
    constants = (
        ("STEP", STEPS[head]), ("HEAD", head), ("CAUSAL", look.causal), ("MASKED", masked),
        ("Q_WHOLE", whole(q)), ("K_WHOLE", whole(k)), ("V_WHOLE", whole(v)), ("C_WHOLE", whole(given_back)),
    )  # fmt: skip
    mask = reading(f32 if masked else dtype, "mask")
    read = (*reading(dtype, "q", "k", "v"), *mask, *reading(dtype, "cotangent"))
    # Of each row: its log-sum-exp in two numbers, its mean.
    lines = [steps.place(f32, (*q.shape[:-1], 2)), steps.place(f32, q.shape[:-1])]
    block = 16 * SUBGROUPS
    for name, buffers, results, count, folded in (
        ("queries", ("lse", "mean", "dq"), (*(i.position for i in lines), BEHIND + 1), rows, heads * groups),
        ("keys", ("dk", "dv"), (BEHIND + 2, BEHIND + 3), keys, heads * groups // shared),
    ):
        kept = () if name == "queries" else reading(f32, "lse", "mean")
        tile = Tile(
            stem=f"attention_gradient_{name}_units",
            buffers=(*read, *kept, *writing(f32, *buffers)),
            scalars=SCALARS,
            types=(("T", dtype),),
            constants=constants,
            workgroup=(SUBGROUPS * limits.subgroup, 1, 1),
        )
        positions = (
            [p.position for p in places] + ([i.position for i in lines] if kept else []) + list(results)
        )
        grid = (-(-count // block), folded, outer)
        steps.add(Step(tile, tuple(range(len(positions))), tuple(scalars), grid), positions)
    return steps.plan()
