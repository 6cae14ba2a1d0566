"""Random numbers of the device: reproducible, of the right distributions, and refused parameters."""

from __future__ import annotations

import copy
import math
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
import hologram_torch  # noqa: E402, F401
from hologram_torch.device.devices import devices  # noqa: E402

N = 40_000


def _made(fill: str, *args: float, dtype: Any = torch.float32) -> Any:
    return getattr(torch.empty(N, device="hologram", dtype=dtype), fill)(*args)


DISTRIBUTIONS: dict[str, tuple[tuple[float, ...], float, float]] = {
    "uniform_": ((-1.0, 3.0), 1.0, 4 / math.sqrt(12)),
    "normal_": ((1.0, 2.0), 1.0, 2.0),
    "exponential_": ((2.0,), 0.5, 0.5),
    "geometric_": ((0.25,), 4.0, math.sqrt(12)),
    "bernoulli_": ((0.3,), 0.3, math.sqrt(0.21)),
    "random_": ((10,), 4.5, math.sqrt(99 / 12)),
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.float64])
@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_mean_and_deviation(name: str, dtype: Any) -> None:
    arguments, mean, deviation = DISTRIBUTIONS[name]
    torch.manual_seed(1)
    found = _made(name, *arguments, dtype=dtype).cpu().double()
    assert found.mean().item() == pytest.approx(mean, abs=6 * deviation / math.sqrt(N) + 0.01)
    assert found.std().item() == pytest.approx(deviation, rel=0.05)


@pytest.mark.parametrize("name", [*DISTRIBUTIONS, "log_normal_", "cauchy_"])
def test_a_seed_starts_the_stream_anew(name: str) -> None:
    arguments = DISTRIBUTIONS.get(name, ((),))[0]
    torch.manual_seed(7)
    first, second = _made(name, *arguments), _made(name, *arguments)
    torch.manual_seed(7)
    assert torch.equal(_made(name, *arguments), first)
    assert not torch.equal(first, second)


def test_other_seeds_draw_other_numbers() -> None:
    drawn = set()
    seeds = (0, 1, -1, 2**32, 2**32 + 1, 2**40 + 1, 5 << 32 | 5, 2**63)
    for seed in seeds:
        torch.manual_seed(seed)
        drawn.add(tuple(_made("uniform_").tolist()[:4]))
    assert len(drawn) == len(seeds)


def _at(generator: Any, offset: int, count: int) -> tuple[float, ...]:
    """Numbers that are drawn from an offset on."""
    return tuple(torch.rand(count, device="hologram", generator=generator.set_offset(offset)).tolist())


def test_two_seeds_never_share_a_stream() -> None:
    one = torch.Generator("hologram")
    for seed, other in ((2**32, 0x514E28B7), (3, 2**64 - 2**32 + 3), (0, 0x9E3779B9)):
        drawn = [_at(one.manual_seed(s), d, 4) for s in (seed, other) for d in (0, 2**32)]
        assert len(set(drawn)) == len(drawn)


def test_the_stream_goes_on_past_the_numbers_of_one_draw() -> None:
    generator = torch.Generator("hologram").manual_seed(5)
    _at(generator, 2**32 - 3, 3)
    assert generator.get_offset() == 2**32
    assert _at(generator, 2**32 - 3, 4) == _at(generator, 2**32, 4) != _at(generator, 0, 4)


FINE: dict[str, Callable[[Any], Any]] = {
    "uniform_": lambda x: x.uniform_(),
    "normal_": lambda x: x.normal_(),
    "exponential_": lambda x: x.exponential_(),
    "cauchy_": lambda x: x.cauchy_(),
    "log_normal_": lambda x: x.log_normal_(),
    "rrelu": lambda x: torch.nn.functional.rrelu(x.fill_(-1.0), training=True),
    "gamma": lambda x: torch._standard_gamma(x.fill_(0.5)),
    "compiled": lambda x: torch.compile(torch.rand_like, backend="hologram")(x),
}


@pytest.mark.parametrize("name", FINE)
def test_f64_is_drawn_of_53_bits(name: str) -> None:
    torch.manual_seed(1)
    drawn = FINE[name](torch.empty(1 << 15, dtype=torch.float64, device="hologram")).cpu()
    assert drawn.dtype == torch.float64
    assert len(drawn.unique()) >= len(drawn) - 3  # of 24 bits 32 are drawn twice


def test_rand_of_f64_fills_the_dtype() -> None:
    drawn = torch.rand(4096, dtype=torch.float64, device="hologram").cpu() * 2.0**53
    assert torch.equal(drawn, drawn.floor())
    assert not torch.equal(drawn, (drawn / 2.0**29).floor() * 2.0**29)


def test_integers_reach_their_whole_range() -> None:
    torch.manual_seed(2)
    assert set(torch.randint(-2, 3, (1000,), device="hologram").tolist()) == {-2, -1, 0, 1, 2}
    wide = torch.randint(-(2**62), 2**62, (1000,), device="hologram")
    assert wide.min() < -(2**61)
    assert wide.max() > 2**61
    assert set(_made("random_", dtype=torch.bool).tolist()) == {False, True}
    assert _made("random_", dtype=torch.uint8).max().item() == 255


# Bounds, and the dtype whose numbers are drawn; None is the end of what the dtype has.
WIDE = {
    "almost all of i64": (-(2**63), 2**63 - 1, torch.int64),
    "all of i64": (-(2**63), None, torch.int64),
    "three quarters": (-(2**63), 2**62, torch.int64),
    "more than half": (-(2**63), 1, torch.int64),
    "other three quarters": (-(2**62), 2**63 - 1, torch.int64),
    "half": (0, 2**63 - 1, torch.int64),
    "three eighths": (2**61, 2**63 - 1, torch.int64),
    "33 bits": (-5, 2**33, torch.int64),
    "all of u64": (0, None, torch.uint64),
    "all of u32": (0, None, torch.uint32),
    "as f64": (-(2**63), None, torch.float64),
    "as f32": (-(2**63), 2**63 - 1, torch.float32),
    "as bf16": (-(2**63), None, torch.bfloat16),
}


@pytest.mark.parametrize("name", WIDE)
def test_integers_of_wide_ranges_are_uniform(name: str) -> None:
    low, high, dtype = WIDE[name]
    torch.manual_seed(3)
    drawn = torch.empty(30_000, dtype=dtype, device="hologram").random_(low, high).cpu()
    end = high if high is not None else 2 ** (32 if dtype == torch.uint32 else 63 + (not low))
    numbers = [int(x) for x in drawn.tolist()]
    assert min(numbers) >= low
    for quarter in (1, 2, 3):
        below = sum((x - low) * 4 < (end - low) * quarter for x in numbers) / len(numbers)
        assert below == pytest.approx(quarter / 4, abs=0.015)
    if dtype in (torch.int64, torch.uint64):  # the lowest digits too, whatever the range
        for divisor in (2, 3, 5):
            share = sum(x % divisor == 1 for x in numbers) / len(numbers)
            assert share == pytest.approx(1 / divisor, abs=0.015)


FULL = {torch.bool: 1, torch.int8: 127, torch.uint8: 255, torch.uint16: 2**16 - 1, torch.float16: 2**11}


@pytest.mark.parametrize("dtype", FULL)
def test_integers_reach_the_ends_of_their_dtype(dtype: Any) -> None:
    for drawn in (_many(dtype).random_(), _many(dtype).random_(0, None)):
        numbers = drawn.cpu().double()
        assert (numbers.min().item(), numbers.max().item()) == (0, FULL[dtype])
    with pytest.raises(RuntimeError, match="out of bounds"):
        _many(dtype).random_(-(2**20), 3)


def _many(dtype: Any) -> Any:
    torch.manual_seed(4)
    return torch.empty(1_000_000, dtype=dtype, device="hologram")


def test_integers_as_floats_are_not_rounded_to_the_bound() -> None:
    torch.manual_seed(5)
    drawn = torch.empty(20_000, dtype=torch.bfloat16, device="hologram").random_(-301, 300)
    assert (drawn.min().item(), drawn.max().item()) == (-300, 298)
    with pytest.raises(RuntimeError, match="holds no number"):
        drawn.random_(257, 258)


@pytest.mark.parametrize("scale", [1e-38, 1.0, 1e38])
@pytest.mark.parametrize("replacement", [False, True])
def test_choices_by_tiny_and_huge_weights(scale: float, replacement: bool) -> None:
    torch.manual_seed(6)
    weights = torch.tensor([0.4, 0.8, 2.0], device="hologram") * scale
    drawn = torch.multinomial(weights.expand(20_000, 3), 1, replacement)
    for k, wanted in enumerate((0.125, 0.25, 0.625)):
        assert (drawn == k).float().mean().item() == pytest.approx(wanted, abs=0.02)


def test_permutations_and_choices() -> None:
    assert sorted(torch.randperm(1000, device="hologram").tolist()) == list(range(1000))
    weights = torch.tensor([[0.0, 1.0, 3.0], [2.0, 0.0, 0.0]], device="hologram")
    drawn = torch.multinomial(weights, 4000, replacement=True)
    assert (drawn[0] == 2).float().mean().item() == pytest.approx(0.75, abs=0.04)
    assert drawn[1].unique().tolist() == [0]
    assert sorted(torch.multinomial(weights[0], 2).tolist()) == [1, 2]


WRONG: dict[str, Callable[[Any], object]] = {
    "uniform": lambda x: x.uniform_(3, 1),
    "normal": lambda x: x.normal_(0, -1),
    "exponential": lambda x: x.exponential_(-1.0),
    "geometric": lambda x: x.geometric_(0),
    "bernoulli": lambda x: x.bernoulli_(1.5),
    "random": lambda x: x.random_(3, 3),
    "bernoulli above": lambda x: torch.bernoulli(x * 1.5),
    "bernoulli NaN": lambda x: torch.empty_like(x).bernoulli_(x * math.nan),
    "bernoulli of integers": lambda x: torch.bernoulli(x.long()),
    "poisson": lambda x: torch.poisson(-x),
    "gamma of integers": lambda x: torch._standard_gamma(x.long()),
    "binomial of two dtypes": lambda x: torch.binomial(x, x.double()),
    "multinomial": lambda x: torch.multinomial(x - 2, 1),
    "multinomial of nothing": lambda x: torch.multinomial(x[:0], 1, replacement=True),
    "random past i8": lambda x: x.to(torch.int8).random_(0, 129),
    "random below u8": lambda x: x.to(torch.uint8).random_(-1, 3),
    "random of f16": lambda x: x.half().random_(0, 2**17),
    "randperm": lambda x: torch.randperm(-1, device=x.device),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_parameters_are_refused(name: str) -> None:
    with pytest.raises(RuntimeError, match="hologram"):
        WRONG[name](torch.ones(3, device="hologram"))
    with pytest.raises(RuntimeError):
        WRONG[name](torch.ones(3))


# Generators.

DRAWS: dict[str, Callable[..., Any]] = {
    "rand": lambda **g: torch.rand(5, device="hologram", **g),
    "randn": lambda **g: torch.randn(5, device="hologram", **g),
    "randint": lambda **g: torch.randint(1 << 40, (5,), device="hologram", **g),
    "randperm": lambda **g: torch.randperm(9, device="hologram", **g),
    "normal": lambda **g: torch.normal(torch.zeros(5, device="hologram"), 1.0, **g),
    "bernoulli": lambda **g: torch.bernoulli(torch.full((64,), 0.5, device="hologram"), **g),
    "poisson": lambda **g: torch.poisson(torch.full((64,), 20.0, device="hologram"), **g),
    "binomial": lambda **g: torch.binomial(
        *torch.tensor([[9.0], [0.5]], device="hologram").expand(2, 64), **g
    ),
    "gamma": lambda **g: torch._standard_gamma(torch.full((64,), 0.5, device="hologram"), **g),
    "multinomial": lambda **g: torch.multinomial(torch.ones(9, device="hologram"), 5, **g),
    "kaiming_uniform_": lambda **g: torch.nn.init.kaiming_uniform_(torch.ones(3, 3, device="hologram"), **g),
    "trunc_normal_": lambda **g: torch.nn.init.trunc_normal_(torch.ones(3, 3, device="hologram"), **g),
    "orthogonal_": lambda **g: torch.nn.init.orthogonal_(torch.ones(3, 3, device="hologram"), **g),
}


@pytest.mark.parametrize("seed", [7, -1, 2**63])
@pytest.mark.parametrize("name", DRAWS)
def test_a_generator_draws_what_the_device_does(name: str, seed: int) -> None:
    draw = DRAWS[name]
    torch.manual_seed(seed)
    wanted = [draw(), draw()]
    state = torch.hologram.get_rng_state()
    generator = torch.Generator(device="hologram").manual_seed(seed)
    before = generator.get_state()
    assert generator.device == torch.device("hologram:0")
    assert generator.initial_seed() == torch.hologram.initial_seed() == seed % 2**64
    assert all(torch.equal(draw(generator=generator), each) for each in wanted)
    assert torch.equal(generator.get_state(), state)
    assert torch.equal(torch.hologram.get_rng_state(), state)  # the device's own stream stays where it was
    assert torch.equal(draw(generator=generator.set_state(before)), wanted[0])


def test_generators_are_copied_and_refused_like_pytorch_s() -> None:
    generator = torch.Generator("hologram")
    assert isinstance(generator, torch.Generator)
    assert isinstance(torch.default_generator, torch.Generator)
    assert type(torch.Generator()) is torch._C.Generator
    assert generator.seed() != generator.seed()
    for other in (copy.deepcopy(generator), pickle.loads(pickle.dumps(generator)), generator.clone_state()):
        state = generator.get_state()
        assert torch.equal(DRAWS["rand"](generator=other), DRAWS["rand"](generator=generator))
        generator.set_state(state)
    last = len(devices.places) - 1
    if last:
        with pytest.raises(RuntimeError, match=f"a generator of hologram:{last} was expected"):
            torch.rand(1, device=f"hologram:{last}", generator=generator)
    with pytest.raises(TypeError, match="16 bytes"):
        generator.set_state(torch.zeros(5, dtype=torch.uint8))
    with pytest.raises(RuntimeError, match="a seed is an integer within"):
        generator.manual_seed(2**64)


@pytest.mark.parametrize("name", DRAWS)
def test_a_generator_of_the_host_is_refused(name: str) -> None:
    with pytest.raises(RuntimeError, match="Expected a 'hologram' device type for generator but found 'cpu'"):
        DRAWS[name](generator=torch.Generator())


def test_every_device_has_a_generator() -> None:
    assert len(torch.hologram.default_generators) == torch.hologram.device_count()
    torch.manual_seed(3)
    states = torch.hologram.get_rng_state_all()
    first = DRAWS["rand"]()
    torch.hologram.set_rng_state_all(states)
    assert torch.equal(DRAWS["rand"](generator=torch.hologram.default_generators[0]), first)
    with torch.random.fork_rng(devices=[0], device_type="hologram"):
        torch.hologram.manual_seed(1)
    torch.hologram.set_rng_state_all(states)
    assert torch.equal(DRAWS["rand"](), first)


def test_what_is_no_seed_device_or_range_is_refused_at_once() -> None:
    for refused in (
        lambda: torch.Generator("hologram:99"),
        lambda: torch.Stream("hologram:99"),
        lambda: torch.Event("hologram:99"),
        lambda: torch.Generator("hologram").manual_seed(1.5),
        lambda: torch.hologram.manual_seed_all(2**70),
        lambda: torch.Generator("hologram").set_offset(-5),
        lambda: torch.hologram.set_rng_state_all([]),
        lambda: torch.randint(3, 3, (2,), device="hologram"),
    ):
        with pytest.raises(RuntimeError, match="hologram"):
            refused()
    with pytest.raises(TypeError, match="recorded in a stream, got int"):
        torch.Event("hologram").record(3)
    seeded = torch.Generator("hologram").manual_seed(np.int64(4))
    assert seeded.initial_seed() == 4
    torch.rand(1, device="hologram")  # the refused seed is nobody's
