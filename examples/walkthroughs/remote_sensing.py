"""
Sixteen kinds of land cover, where the mixture changed
======================================================

Pixels of 100 spectral bands, sixteen kinds of cover. The training pixels were collected by hand, equally many of
each kind; in the scene some kinds are everywhere and others rare. How much of the scene is which?

The spectra are generated: smooth curves, some of them close together.
"""

import matplotlib.pyplot as plt
import numpy as np
from scipy.ndimage import gaussian_filter1d
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from smaller import SBMLR, PriorShiftClassifier

rng = np.random.default_rng(0)
spectra = gaussian_filter1d(rng.normal(size=(16, 100)), 6, axis=1) * 2.0
spectra[8:] = spectra[:8] + 0.45 * spectra[8:]  # eight pairs that look alike


def pixels(cover: np.ndarray) -> np.ndarray:
    """Spectra of pixels with the cover given."""
    light = rng.normal(1.0, 0.1, size=(len(cover), 1))
    haze = gaussian_filter1d(rng.normal(size=(len(cover), 100)), 4, axis=1) * 0.8
    return light * spectra[cover] + haze + 0.25 * rng.normal(size=(len(cover), 100))


y = np.repeat(np.arange(16), 60)
X = pixels(y)
share = rng.dirichlet(np.full(16, 0.6))
cover = rng.choice(16, size=8000, p=share)
scene = pixels(cover)

# %%
# Trained on equal shares
# -----------------------
# `SBMLR` finds its strength by itself: one fit.

model = PriorShiftClassifier(make_pipeline(StandardScaler(), SBMLR())).fit(X, y)
inside = model.estimator_[-1]
print(f"{inside.n_active_} of 1600 weights used; {inside.solution_.status.value}")
equal = model.predict(scene)
print(f"right in the scene: {np.mean(equal == cover):.1%}")

# %%
# The scene tells its own mixture
# -------------------------------
# `adapt` sees the spectra of the scene and no labels. It finds the shares under which the probabilities agree with
# themselves, and corrects them. This is valid if each kind still looks as it did in training, and only its share
# changed.

model.adapt(scene)
adapted = model.predict(scene)
print(f"right in the scene: {np.mean(adapted == cover):.1%}")

counted = np.bincount(cover, minlength=16) / len(cover)
by_pixels = np.bincount(equal, minlength=16) / len(cover)
print(
    f"mean error of the shares, pixels counted before adapting: {np.abs(by_pixels - counted).mean():.2%} of the scene"
)
print(f"mean error of the shares, as adapted:                     {np.abs(model.priors_ - counted).mean():.2%}")

figure, ax = plt.subplots(layout="constrained", figsize=(6, 4))
order = np.argsort(-counted)
ax.plot(counted[order], "k_", ms=14, mew=2, label="true")
ax.plot(by_pixels[order], "o", color="#b8bcc2", label="pixels counted before adapting")
ax.plot(model.priors_[order], "o", color="#1f6f8b", label="adapted")
ax.set(xlabel="kind of cover, by its share", ylabel="share of the scene", ylim=(0, None))
ax.legend(frameon=False)

# %%
# Decision
# --------
# Report the adapted shares as the areas, and the adapted labels as the map. Before that, label a few dozen pixels
# of the scene by hand: that the kinds still look as in training cannot be seen in pixels without labels.
