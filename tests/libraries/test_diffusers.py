"""Pipelines: UNet and transformer denoisers, schedulers, autoencoders; training a UNet."""

from __future__ import annotations

from typing import Any

import pytest
import torch

diffusers: Any = pytest.importorskip("diffusers")
LIBRARY = "diffusers"


def unet() -> Any:
    torch.manual_seed(0)
    return diffusers.UNet2DModel(
        sample_size=16,
        in_channels=3,
        out_channels=3,
        layers_per_block=1,
        block_out_channels=(16, 32),
        norm_num_groups=8,
        down_block_types=("DownBlock2D", "AttnDownBlock2D"),
        up_block_types=("AttnUpBlock2D", "UpBlock2D"),
    )


@pytest.mark.parametrize(
    "scheduler", ["DDPMScheduler", "DDIMScheduler", "EulerDiscreteScheduler", "DPMSolverMultistepScheduler"]
)
def test_an_unconditional_pipeline_draws_the_same_picture(scheduler: str) -> None:
    def drawn(device: str) -> Any:
        made = getattr(diffusers, scheduler)(num_train_timesteps=50)
        kind = diffusers.DDPMPipeline if scheduler != "DDIMScheduler" else diffusers.DDIMPipeline
        pipeline = kind(unet(), made).to(device)
        pipeline.set_progress_bar_config(disable=True)
        assert pipeline.device.type == device
        generator = torch.Generator().manual_seed(3)
        return pipeline(batch_size=2, generator=generator, num_inference_steps=4, output_type="np").images

    assert drawn("hologram") == pytest.approx(drawn("cpu"), abs=2e-3)


def test_a_latent_pipeline_of_a_transformer() -> None:
    """DiT: classes in, latents denoised by a transformer, decoded by an autoencoder."""

    def drawn(device: str) -> Any:
        torch.manual_seed(0)
        denoiser = diffusers.DiTTransformer2DModel(
            num_attention_heads=2,
            attention_head_dim=8,
            in_channels=4,
            out_channels=8,
            num_layers=2,
            norm_num_groups=4,
            sample_size=8,
            num_embeds_ada_norm=1000,
        )
        autoencoder = diffusers.AutoencoderKL(
            block_out_channels=(8, 8),
            down_block_types=("DownEncoderBlock2D",) * 2,
            up_block_types=("UpDecoderBlock2D",) * 2,
            norm_num_groups=4,
            latent_channels=4,
        )
        scheduler = diffusers.DDIMScheduler(num_train_timesteps=50)
        pipeline = diffusers.DiTPipeline(denoiser.eval(), autoencoder.eval(), scheduler).to(device)
        pipeline.set_progress_bar_config(disable=True)
        generator = torch.Generator().manual_seed(3)
        out = pipeline(
            [1, 3], generator=generator, num_inference_steps=3, guidance_scale=4.0, output_type="np"
        )
        return out.images

    assert drawn("hologram") == pytest.approx(drawn("cpu"), abs=2e-3)


def test_training_step_of_the_guide() -> None:
    def trained(device: str) -> list[float]:
        model = unet().to(device)
        schedule = diffusers.DDPMScheduler(num_train_timesteps=100)
        optimiser = torch.optim.AdamW(model.parameters(), lr=1e-3)
        losses = []
        generator = torch.Generator().manual_seed(5)
        clean = torch.randn(4, 3, 16, 16, generator=generator).to(device)
        for _ in range(3):
            noise = torch.randn(4, 3, 16, 16, generator=generator).to(device)
            steps = torch.randint(0, 100, (4,), generator=generator).to(device)
            predicted = model(schedule.add_noise(clean, noise, steps), steps, return_dict=False)[0]
            loss = torch.nn.functional.mse_loss(predicted, noise)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimiser.step()
            optimiser.zero_grad()
            losses.append(loss.item())
        return losses

    assert trained("hologram") == pytest.approx(trained("cpu"), rel=1e-3)


def test_the_device_is_what_diffusers_finds() -> None:
    assert diffusers.utils.torch_utils.get_device() == "hologram"
