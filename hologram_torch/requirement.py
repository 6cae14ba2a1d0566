"""PyTorch is here, and recent enough: said in words before anything asks it for what it lacks."""

try:
    from torch.torch_version import TorchVersion, __version__
except ModuleNotFoundError as error:
    if error.name != "torch":
        raise
    raise ModuleNotFoundError(  # as extras.install says, which may not be imported yet
        "hologram_torch needs PyTorch: pip install 'hologram[torch]' (in a checkout '.[torch]')", name="torch"
    ) from None

LEAST = "2.10"  # the first with devices written in Python

if TorchVersion(__version__) < LEAST:
    raise ImportError(
        f"hologram_torch needs PyTorch {LEAST} or newer, this is {__version__}: pip install --upgrade torch",
        name="torch",
    )
