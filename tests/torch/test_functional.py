"""functional, nn and utils: PyTorch's results, gradients through them, and no copies where none is needed."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest

import hologram as hg

torch: Any = pytest.importorskip("torch")
from hologram_torch import functional, nn, utils  # noqa: E402
from hologram_torch.device.devices import devices  # noqa: E402
from hologram_torch.tensors.memory import hologram_tensor  # noqa: E402
from tests.needs import needs  # noqa: E402

SHAPES: dict[str, tuple[tuple[int, ...], ...]] = {
    "add": ((3, 4), (3, 4)),
    "sub": ((3, 4), (4,)),
    "mul": ((3, 4), (3, 1)),
    "div": ((3, 4), (3, 4)),
    "relu": ((3, 4),),
    "sigmoid": ((3, 4),),
    "tanh": ((3, 4),),
    "gelu": ((3, 4),),
    "linear": ((3, 4), (5, 4), (5,)),
    "mse_loss": ((3, 4), (3, 4)),
    "matmul": ((2, 3, 4), (4, 5)),
}


def operands(name: str, requires_grad: bool = False) -> list[Any]:
    torch.manual_seed(0)
    shapes = SHAPES[name]
    return [(torch.rand(shape, dtype=torch.float64) + 0.5).requires_grad_(requires_grad) for shape in shapes]


@pytest.mark.parametrize("name", SHAPES)
def test_functions_are_torchs(name: str, executor: hg.Executor) -> None:
    needs(executor, hg.f64)
    theirs = getattr(torch.nn.functional, name, None) or getattr(torch, name)
    given = operands(name)
    got = getattr(functional, name)(executor, *given)
    assert got.device == given[0].device
    torch.testing.assert_close(got, theirs(*given))
    there = [x.to(functional.device_of(executor)) for x in given]
    assert getattr(functional, name)(executor, *there).device == there[0].device
    given = operands(name, requires_grad=True)
    assert torch.autograd.gradcheck(lambda *xs: getattr(functional, name)(executor, *xs), given)


def test_softmax_and_relu_in_place(executor: hg.Executor) -> None:
    x = torch.randn(3, 5)
    torch.testing.assert_close(functional.softmax(executor, x, dim=1), torch.softmax(x, 1))
    there = x.to(functional.device_of(executor))
    assert functional.relu(executor, there, inplace=True) is there
    torch.testing.assert_close(there.cpu(), x.relu())


def test_names_that_do_not_exist() -> None:
    with pytest.raises(AttributeError, match="no_such"):
        functional.no_such  # noqa: B018
    with pytest.raises(AttributeError, match="no_such"):
        nn.no_such  # noqa: B018
    with pytest.raises(TypeError, match="Executor"):
        functional.relu(torch.ones(2))


def test_modules_are_torchs(executor: hg.Executor) -> None:
    torch.manual_seed(0)
    plain = torch.nn.Sequential(
        torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 3), torch.nn.Softmax(dim=1)
    )
    ours = torch.nn.Sequential(
        nn.Linear(executor, 4, 8), nn.ReLU(executor), nn.Linear(executor, 8, 3), nn.Softmax(executor, dim=1)
    )
    ours.load_state_dict(plain.state_dict())
    assert isinstance(ours[0], torch.nn.Linear)
    x = torch.randn(5, 4)
    torch.testing.assert_close(ours(x), plain(x))
    assert ours(x).device == x.device
    loss = nn.MSELoss(executor)
    loss(ours(x), torch.zeros(5, 3)).backward()
    torch.nn.MSELoss()(plain(x), torch.zeros(5, 3)).backward()
    torch.testing.assert_close(ours[0].weight.grad.cpu(), plain[0].weight.grad)


def test_modules_copy_and_pickle() -> None:
    made = nn.Linear(2, 3)
    for other in (copy.deepcopy(made), pickle.loads(pickle.dumps(made))):
        assert type(other) is type(made)
        assert torch.equal(other.weight.cpu(), made.weight.cpu())


def test_conversions_copy_nothing_on_the_host() -> None:
    executor = devices.executor(cpu_index())
    x = torch.arange(64.0)
    buffer = utils.tensor_to_buffer(executor, x)
    x[3] = 99
    assert buffer.to_numpy()[3] == 99
    back = utils.buffer_to_tensor(buffer, "cpu")
    back[4] = 98
    assert x[4] == 98
    device = utils.buffer_to_tensor(buffer)
    assert hologram_tensor(device).buffer is buffer


def cpu_index() -> int:
    return [place.backend for place in devices.places].index("cpu")


def test_conversions_keep_the_elements(executor: hg.Executor) -> None:
    for dtype in (torch.float32, torch.bfloat16, torch.int64, torch.bool, torch.uint8):
        x = (torch.arange(24).reshape(4, 6) % 3).to(dtype)
        for given in (x, x.t(), x[1:, ::2], x[:0], x[1, 2]):
            buffer = utils.tensor_to_buffer(executor, given)
            assert buffer.shape == given.shape
            torch.testing.assert_close(utils.buffer_to_tensor(buffer, "cpu"), given)


def test_what_cannot_be_converted(executor: hg.Executor) -> None:
    for bad, error in (
        (np.ones(3), TypeError),
        (torch.ones(2, dtype=torch.complex32), TypeError),
        (torch.eye(3).to_sparse(), ValueError),
    ):
        with pytest.raises(error, match="hologram"):
            utils.tensor_to_buffer(executor, bad)  # pyright: ignore[reportArgumentType]


def test_executors_are_shared() -> None:
    x = torch.ones(2, device="hologram")
    assert utils.create_executor_for_tensor(x) is utils.create_executor_for_tensor(torch.ones(3))
    assert utils.match_device(torch.ones(2), x).device == x.device
