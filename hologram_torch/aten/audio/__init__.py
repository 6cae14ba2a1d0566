"""torchaudio's operators."""

from hologram_torch.kernels.foreign import Foreign

audio = Foreign("torchaudio")
