"""dm_pix: filters, colours and measures of images."""

import jax
import jax.numpy as jnp
import pytest

from tests.real.jax.compare import compare

pytestmark = pytest.mark.real
pix = pytest.importorskip("dm_pix")

IMAGE = jax.random.uniform(jax.random.key(0), (12, 12, 3))
LOSSES = {
    "blur": lambda x: jnp.sum(pix.gaussian_blur(x, 1.0, 3) ** 2),
    "ssim": lambda x: pix.ssim(x, x[::-1]),
    "psnr": lambda x: pix.psnr(x, 0.9 * x + 0.01),
    "hue": lambda x: jnp.sum(pix.adjust_hue(x, 0.1) ** 2),
    "hsv": lambda x: jnp.sum(pix.rgb_to_hsv(x) ** 2),
}


@pytest.mark.parametrize("name", LOSSES)
def test_a_loss_of_an_image(name):
    compare(lambda lib: lib.value_and_grad(LOSSES[name])(IMAGE))
