"""
Decoding brain images, run by run
=================================

What does a person see? Ten runs in a scanner, 24 images of 900 voxels each, four categories. Images of one run
share its drifts, so they must stay together whenever something is judged: runs are *groups*.

The images are generated: each category raises a small patch of a 30 x 30 slice.
"""

import matplotlib.pyplot as plt
import numpy as np
from scipy.ndimage import gaussian_filter
from scipy.stats import binom
from sklearn import set_config
from sklearn.model_selection import GroupKFold, StratifiedKFold, cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from smaller import SMLRCV

rng = np.random.default_rng(1)
seen = np.array(["face", "house", "cat", "shoe"])
category = np.tile(np.repeat(np.arange(4), 6), 10)
run = np.repeat(np.arange(10), 24)
centres = np.array([[7, 7], [7, 22], [22, 7], [22, 22]])
rows, columns = np.mgrid[:30, :30]
patches = np.exp(-((rows - centres[:, :1, None]) ** 2 + (columns - centres[:, 1:, None]) ** 2) / 8)
images = gaussian_filter(rng.normal(size=(240, 30, 30)), (0, 1, 1)) * 3
images += gaussian_filter(rng.normal(size=(10, 30, 30)), (0, 2, 2))[run] * 12  # what a run shares
slot = run * 4 + category  # blocks of six images in a row, and what each shares
images += gaussian_filter(rng.normal(size=(40, 30, 30)), (0, 1, 1))[slot] * 3
images += 2.0 * patches[category]
X, y = images.reshape(240, 900), seen[category]

# %%
# The wrong way, and the right one
# --------------------------------
# Images of one block are much alike. Folds that tear a block apart let the classifier recognise the block instead
# of the category. With runs as groups it cannot. The same groups go to the inner folds, which choose the strength.

set_config(enable_metadata_routing=True)


def decoder(**options: object) -> object:
    """Few voxels, their strength by cross-validation."""
    return make_pipeline(StandardScaler(), SMLRCV(alphas=20, **options))


by_run = decoder(cv=GroupKFold(5))
by_run[-1].set_fit_request(groups=True)
torn = cross_val_predict(decoder(), X, y, cv=StratifiedKFold(5, shuffle=True, random_state=0))
whole = cross_val_predict(by_run, X, y, cv=GroupKFold(5), params={"groups": run})
print(f"right, blocks torn apart:   {np.mean(torn == y):.1%}")
print(f"right, runs kept together:  {np.mean(whole == y):.1%}   (guessing: 25%)")

# %%
# Is it above chance?
# -------------------
# The images of a block are not independent, so blocks are counted, not images: a block is right if most of its
# images are.

right = np.array([np.mean(whole[slot == s] == y[slot == s]) > 0.5 for s in range(40)])
chance = binom.sf(right.sum() - 1, 40, 0.25)
print(f"{right.sum()} of 40 blocks right; by guessing so many or more with probability {chance:.1g} at most")

# %%
# Where?
# ------

model = by_run.fit(X, y, groups=run)
weights = model[-1].coef_.reshape(4, 30, 30)
print(f"{len(model[-1].active_features_)} of 900 voxels used; {model[-1].solution_.status.value}")
figure, axes = plt.subplots(1, 4, layout="constrained", figsize=(9, 2.6))
limit = np.abs(weights).max()
for ax, name, map_ in zip(axes, model.classes_, weights, strict=True):
    ax.imshow(map_, cmap="RdBu_r", vmin=-limit, vmax=limit)
    ax.set(title=name, xticks=[], yticks=[])

# %%
# Decision
# --------
# Report the second figure with the count of blocks, never the first. The maps show voxels that *help to tell* the
# categories apart; a voxel without a weight may take part all the same, beside neighbours that say the same.

set_config(enable_metadata_routing=False)
