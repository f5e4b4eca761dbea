"""The generators of synthetic problems draw what they promise."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.utils import check_random_state

from smaller.datasets import make_irrelevant, make_mixture, make_rings, make_sinc, make_waveform, make_xor

GENERATORS = [make_mixture, make_irrelevant, make_sinc, make_rings, make_xor, make_waveform]


class TestGenerators:
    @pytest.mark.parametrize("make", GENERATORS)
    def test_reproducible_and_float64(self, make):
        first, second, other = make(31, random_state=0), make(31, random_state=0), make(31, random_state=1)
        for a, b in zip(first, second, strict=True):
            np.testing.assert_array_equal(a, b)
        assert not np.array_equal(first[0], other[0])
        assert first[0].dtype == np.float64
        assert first[0].shape[0] == first[1].shape[0] == 31

    @pytest.mark.parametrize("make", GENERATORS)
    def test_global_random_state_is_untouched(self, make):
        before = check_random_state(None).get_state()[1].copy()
        make(10, random_state=0)
        np.testing.assert_array_equal(check_random_state(None).get_state()[1], before)

    @settings(deadline=None, max_examples=25)
    @given(n=st.integers(3, 60))
    def test_classes_are_balanced(self, n):
        for make in (make_mixture, make_irrelevant, make_rings, make_waveform):
            counts = np.bincount(make(n, random_state=0)[1])
            assert counts.sum() == n
            assert counts.max() - counts.min() <= 1

    @pytest.mark.parametrize("make", [make_irrelevant, make_rings, make_xor])
    def test_too_few_features(self, make):
        with pytest.raises(ValueError, match="n_features=1"):
            make(10, n_features=1)

    def test_irrelevant_has_the_papers_bayes_error(self):
        X, y = make_irrelevant(200_000, n_features=3, random_state=0)
        error = np.mean((X[:, 0] + X[:, 1] > 0) != (y == 1))
        assert error == pytest.approx(0.158655, abs=4 * np.sqrt(0.1587 * 0.8413 / 200_000))
        assert abs(X[:, 2][y == 1].mean()) < 4 / np.sqrt(100_000)

    def test_mixture_stays_near_its_centres(self):
        X, y, centers = make_mixture(20_000, random_state=0)
        assert centers.shape == (2, 10, 2)
        for code in (0, 1):
            rows = X[y == code]
            # mean and covariance of the mixture: centres' mean, centres' covariance + I/5
            np.testing.assert_allclose(rows.mean(axis=0), centers[code].mean(axis=0), atol=0.06)
            covariance = np.cov(centers[code].T, bias=True) + np.eye(2) / 5
            np.testing.assert_allclose(np.cov(rows.T), covariance, atol=0.1)

    def test_mixture_centres_are_drawn_around_the_papers_means(self):
        drawn = np.array([make_mixture(2, random_state=seed)[2] for seed in range(400)])
        means = drawn.mean(axis=(0, 2))
        np.testing.assert_allclose(means, [[0, 1], [1, 0]], atol=4 / np.sqrt(4000))

    def test_mixture_centres_can_be_reused(self):
        centers = np.zeros((2, 10, 2))
        centers[1] = 100.0
        X, y, same = make_mixture(50, centers=centers, random_state=0)
        assert same is centers
        np.testing.assert_array_equal(X[:, 0] > 50, y == 1)

    def test_sinc(self):
        X, y = make_sinc(100, noise=0.0, random_state=0)
        np.testing.assert_allclose(y, np.sin(X[:, 0]) / X[:, 0], atol=1e-12)
        noisy = make_sinc(100_000, noise=0.1, random_state=0)
        assert np.std(noisy[1] - np.sinc(noisy[0][:, 0] / np.pi)) == pytest.approx(0.1, rel=0.02)

    def test_xor_noise_is_the_share_of_flipped_labels(self):
        X, y = make_xor(50_000, noise=0.2, random_state=0)
        assert np.mean((X[:, 0] * X[:, 1] > 0) != (y == 1)) == pytest.approx(0.2, abs=0.01)

    def test_waveform_class_means(self):
        X, y = make_waveform(60_000, random_state=0)
        position = np.arange(1, 22)
        h = [np.maximum(6 - np.abs(position - peak), 0) for peak in (11, 15, 7)]
        for code, (a, b) in enumerate([(0, 1), (0, 2), (1, 2)]):
            np.testing.assert_allclose(X[y == code].mean(axis=0), (h[a] + h[b]) / 2, atol=0.06)
