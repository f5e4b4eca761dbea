"""SBMLR(blocks=...) as an estimator: how blocks are named, what is kept of them, and what is refused."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import sparse, special
from sklearn.base import clone
from sklearn.datasets import load_wine, make_moons
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import log_loss
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.preprocessing import scale

from smaller import SBMLR, SMLR, coef_interval
from smaller.estimators.blocks import blocks_in_words
from smaller.persistence import load, save

Array = Any
SIZES = (8, 60)
LABELS = np.repeat(["clinical", "genes"], SIZES)


def drawn(seed: int = 0, n: int = 150) -> tuple[Array, Array]:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, sum(SIZES)))
    w = np.zeros(sum(SIZES))
    w[:5], w[8:10] = [1.0, -1.0, 1.0, 1.0, -1.0], [1.0, -1.0]
    return X, (rng.random(n) < special.expit(X @ w)).astype(int)


def test_it_is_smlr_at_the_strengths_found() -> None:
    X, y = drawn()
    model = SBMLR(blocks=LABELS, tol=1e-9).fit(X, y)
    assert np.isfinite(model.alphas_).all()
    factors = model.alphas_[model.blocks_]
    same = SMLR(1.0, penalty_factors=factors, tol=1e-9).fit(X, y)
    assert_allclose(model.predict_proba(X), same.predict_proba(X), atol=1e-4)
    assert model.block_names_.tolist() == ["clinical", "genes"]
    assert model.n_active_ == model.n_active_blocks_.sum() == np.count_nonzero(model.coef_)
    assert np.isnan(model.alpha_)
    assert np.isfinite(model.log_evidence_)


def test_labels_indices_names_and_slices_say_the_same() -> None:
    pd = pytest.importorskip("pandas")
    X, y = drawn()
    names = [f"c{j}" for j in range(68)]
    frame = pd.DataFrame(X, columns=names)
    first = SBMLR(blocks=LABELS).fit(X, y)
    for blocks, rows in [
        (LABELS.tolist(), X),
        (pd.Series(LABELS), X),
        ({"clinical": range(8), "genes": slice(8, None)}, X),
        ({"clinical": names[:8], "genes": names[8:]}, frame),
        (np.repeat([3, 7], SIZES), X),
    ]:
        model = SBMLR(blocks=blocks).fit(rows, y)
        assert (model.coef_ == first.coef_).all()
        assert clone(model).get_params()["tol"] == 1e-6


def test_one_block_of_everything_is_plain_sbmlr() -> None:
    X, y = load_wine(return_X_y=True)
    plain = SBMLR().fit(scale(X), y)
    model = SBMLR(blocks=np.zeros(13, dtype=int)).fit(scale(X), y)
    assert (model.coef_ == plain.coef_).all()
    assert model.alpha_ == model.alphas_[0] == plain.alpha_
    assert model.log_evidence_ == plain.log_evidence_
    plain.set_params(blocks=np.arange(13) % 2).fit(scale(X), y)
    plain.set_params(blocks=None).fit(scale(X), y)
    assert not hasattr(plain, "alphas_")


def test_more_classes_weights_and_class_weights() -> None:
    X, y = load_wine(return_X_y=True)
    X = scale(X)
    labels = np.arange(13) % 2
    c = np.random.default_rng(0).integers(1, 3, len(y))
    weighted = SBMLR(blocks=labels, tol=1e-10).fit(X, y, c)
    often = SBMLR(blocks=labels, tol=1e-10).fit(np.repeat(X, c, axis=0), np.repeat(y, c))
    assert_allclose(weighted.alphas_, often.alphas_, rtol=1e-6)
    assert weighted.coef_.shape == (3, 13)
    balanced = SBMLR(blocks=labels, class_weight="balanced", coding="reference").fit(X, y)
    assert np.isfinite(balanced.alphas_).any()
    assert not balanced.coef_[2].any()


def test_sparse_columns_constant_columns_and_extreme_units() -> None:
    X, y = drawn(1)
    X[np.abs(X) < 0.7] = 0.0
    dense = SBMLR(blocks=LABELS, tol=1e-9).fit(X, y)
    thin = SBMLR(blocks=LABELS, tol=1e-9).fit(sparse.csr_array(X), y)
    assert_allclose(thin.alphas_, dense.alphas_, rtol=1e-6)
    wide = np.column_stack([np.ones(len(X)), X])
    more = SBMLR(blocks=np.r_[["clinical"], LABELS], tol=1e-9).fit(wide, y)
    assert_allclose(more.alphas_, dense.alphas_, rtol=1e-9)
    assert more.coef_[0, 0] == 0.0
    # A block is a matter of units: of a block in other units the strength changes by their factor.
    huge = X * np.where(LABELS == "genes", 1e150, 1.0)
    far = SBMLR(blocks=LABELS, tol=1e-9).fit(huge, y)
    assert_allclose(far.predict_proba(huge), dense.predict_proba(X), atol=1e-5)
    only = SBMLR(blocks=np.r_[["of ones"], LABELS], tol=1e-9).fit(wide, y)
    assert np.isinf(only.alphas_[2])
    assert_allclose(only.alphas_[:2], dense.alphas_, rtol=1e-9)


def test_several_kernels_as_columns() -> None:
    X, y = make_moons(120, noise=0.25, random_state=0)
    columns = np.hstack([rbf_kernel(X, gamma=gamma) for gamma in (0.1, 1.0, 100.0)])
    model = SBMLR(blocks=np.repeat(["wide", "right", "narrow"], 120)).fit(columns, y)
    assert log_loss(y, model.predict_proba(columns)) < 0.3
    assert np.isfinite(model.alphas_).any()
    assert np.isinf(model.alphas_[model.block_names_ == "narrow"])


def test_relaxing_ranges_and_effects_go_on_from_blocks() -> None:
    X, y = drawn(2, 200)
    model = SBMLR(blocks=LABELS, relax=True, posterior=True).fit(X, y)
    a, c = model.relax_
    assert a + c > 0.5
    assert (model.coef_ != 0).tolist() == (model.penalized_coef_ != 0).tolist()
    low, high = model.probability_interval(X[:5])
    P = model.predict_proba(X[:5])
    assert (low <= P).all()
    assert (high >= P).all()
    assert model.reach_ >= 1.0
    assert np.isfinite(coef_interval(model, X, y, columns=[0, 20]).low).all()


def without_signal(seed: int) -> tuple[Array, Array]:
    X, y = drawn(seed)
    X[:, 8:] = np.random.default_rng(100 + seed).normal(size=(150, 60))
    return X, y


def test_reach_takes_a_block_left_out_for_absent() -> None:
    """A block with an infinite strength has no variance left: reach is that of the other block alone."""
    met = 0
    for seed in range(6):
        X, y = without_signal(seed)
        both = SBMLR(blocks=LABELS, posterior=True, tol=1e-10).fit(X, y)
        if np.isinf(both.alphas_[1]):
            met += 1
            alone = SMLR(both.alphas_[0], posterior=True, tol=1e-10).fit(X[:, :8], y)
            assert both.reach_ == pytest.approx(alone.reach_, abs=1e-3)
    assert met


def test_a_model_with_blocks_is_saved(tmp_path: Path) -> None:
    X, y = without_signal(0)
    for blocks in (LABELS, {"a": list(range(8)), "b": list(range(8, 68))}):
        model = SBMLR(blocks=blocks, posterior=True).fit(X, y)
        save(model, tmp_path / "m.smaller")
        same = load(tmp_path / "m.smaller")
        assert same.alphas_.tolist() == model.alphas_.tolist()
        assert same.block_names_.tolist() == model.block_names_.tolist()
        assert (same.predict_proba(X) == model.predict_proba(X)).all()


def test_blocks_in_words() -> None:
    seen = set()
    for seed in range(6):
        X, y = without_signal(seed)
        model = SBMLR(blocks=LABELS).fit(X, y)
        first, second = blocks_in_words(model)
        used = [(model.coef_[0, part] != 0).sum() for part in (slice(8), slice(8, None))]
        assert first == f"block clinical: strength {model.alphas_[0]:.2g}, {used[0]} of 8 features"
        out = bool(np.isinf(model.alphas_[1]))
        says = "left out" if out else f"strength {model.alphas_[1]:.2g}"
        assert second == f"block genes: {says}, {used[1]} of 60 features"
        seen.add(out)
    assert True in seen
    free = SBMLR(blocks=LABELS, penalty_factors=np.r_[np.zeros(8), np.ones(60)])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # of the genes, which say nothing
        free.fit(X, y)
    assert blocks_in_words(free)[0] == "block clinical: not penalised, 8 of 8 features"


def test_noise_is_warned_about() -> None:
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(300, 20)), rng.integers(0, 2, 300)
    with pytest.warns(ConvergenceWarning, match="do not determine alpha"):
        model = SBMLR(blocks=np.arange(20) % 2).fit(X, y)
    assert not model.coef_.any()


@pytest.mark.parametrize(
    ("settings", "match"),
    [
        ({"blocks": [0, 1]}, "one label per feature, 68"),
        ({"blocks": "clinical"}, "one label per feature"),
        ({"blocks": [None] * 68}, "no missing value"),
        ({"blocks": [np.nan] * 68}, "labels, integers or strings"),
        ({"blocks": np.array([1, "a"] * 34, dtype=object)}, "of one kind"),
        ({"blocks": {"a": range(60)}}, "8 are in none"),
        ({"blocks": {"a": range(60), "b": range(59, 68)}}, "must not share columns"),
        ({"blocks": {"a": range(60), "b": range(60, 69)}}, "columns below 68"),
        ({"blocks": {"a": range(68), "b": []}}, "must list columns"),
        ({"blocks": {"a": ["x1"]}}, "X has none"),
        ({"blocks": {"a": [0.5]}}, "indices or names"),
        ({"blocks": {"a": range(60), 1: range(60, 68)}}, "names of one kind"),
        ({"blocks": LABELS, "mode": "greedy"}, "no greedy mode"),
        ({"blocks": LABELS, "kernel": "rbf"}, "give kernel columns as X"),
        ({"blocks": LABELS, "penalize_intercept": True}, "leave it free"),
    ],
)
def test_bad_blocks_are_named(settings: dict[str, Any], match: str) -> None:
    X, y = drawn()
    with pytest.raises(ValueError, match=match):
        SBMLR(**settings).fit(X, y)


def test_unknown_names_are_shown() -> None:
    pd = pytest.importorskip("pandas")
    X, y = drawn()
    frame = pd.DataFrame(X, columns=[f"c{j}" for j in range(68)])
    with pytest.raises(ValueError, match=r"does not have: \['zz'\]"):
        SBMLR(blocks={"a": ["zz"]}).fit(frame, y)
    with pytest.raises(ValueError, match=r"such as \['c1'"):
        SBMLR(blocks={"a": ["c0"]}).fit(frame, y)
