"""PyTorch is here, and recent enough: said in words before anything asks it for what it lacks."""

import warnings

try:
    from torch.torch_version import TorchVersion, __version__
except ModuleNotFoundError as error:
    if error.name != "torch":
        raise
    raise ModuleNotFoundError(  # as extras.install says, which may not be imported yet
        "hologram_torch needs PyTorch: pip install 'hologram[torch]' (in a checkout '.[torch]')", name="torch"
    ) from None

LEAST = "2.10"  # the first with devices written in Python
TESTED = "2.15"  # the newest that the tests ran on

if TorchVersion(__version__) < LEAST:
    raise ImportError(
        f"hologram_torch needs PyTorch {LEAST} or newer, this is {__version__}: pip install --upgrade torch",
        name="torch",
    )


def warn_beyond() -> None:
    """Warns where PyTorch is newer than any that the tests ran on."""
    if _numbers(__version__) > _numbers(TESTED):
        warnings.warn(
            f"hologram_torch was tested with PyTorch {LEAST} to {TESTED}, this is {__version__}: "
            "`hologram doctor --torch` says whether it fits",
            RuntimeWarning,
            stacklevel=2,
        )


def unfit(error: Exception) -> ImportError:
    """The error for a PyTorch without the parts that a device written in Python needs."""
    return ImportError(
        f"hologram cannot be a device of PyTorch {__version__}, it is tested with {LEAST} to {TESTED}: {error}; "
        f"pip install 'torch=={TESTED}.*'",
        name="torch",
    )


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")[:2]))
