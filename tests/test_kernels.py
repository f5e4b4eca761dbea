"""Kernels: values against scikit-learn, derivatives against differences, one answer for every container."""

from __future__ import annotations

import pickle
import tracemalloc
from functools import partial

import array_api_strict
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from scipy.spatial.distance import cdist
from sklearn.metrics.pairwise import linear_kernel, polynomial_kernel, rbf_kernel

import smaller.kernels.blocks
import smaller.kernels.given
from smaller.kernels import (
    RBF,
    FromCallable,
    Kernel,
    Linear,
    Polynomial,
    Precomputed,
    make_kernel,
    resolve_gamma,
    squared_distances,
)

SCALED_KERNELS = {
    "rbf": RBF(gamma=0.3),
    "poly1": Polynomial(degree=1, gamma=0.4, coef0=0.5),
    "poly2": Polynomial(degree=2, gamma=0.4, coef0=1.0),
    "poly3": Polynomial(degree=3, gamma=0.4, coef0=1.0),
    "linear": Linear(gamma=0.7),
}
scaled = pytest.mark.parametrize("kernel", SCALED_KERNELS.values(), ids=SCALED_KERNELS.keys())
every_container = pytest.mark.parametrize(
    "container", [sparse.csr_array, sparse.csc_array, sparse.csr_matrix, sparse.coo_matrix]
)
build = partial(make_kernel, gamma="scale", degree=3, coef0=1.0, kernel_params=None)


@pytest.fixture
def rng():
    return np.random.default_rng(20050614)


@pytest.fixture(name="X")
def rows(rng):
    return rng.normal(size=(17, 5))


@pytest.fixture(name="C")
def centres(rng):
    return rng.normal(size=(8, 5))


@pytest.fixture
def theta():
    return np.array([0.3, 0.0, 1.2, 0.05, 0.0])


@pytest.fixture
def tiny_blocks(monkeypatch):
    monkeypatch.setattr(smaller.kernels.blocks, "BLOCK_ELEMENTS", 24)
    monkeypatch.setattr(smaller.kernels.blocks, "MINIMUM_ROWS", 1)


def thinned(A):
    """Set about half the entries to zero."""
    return np.where(np.abs(A) > 0.6, A, 0.0)


# --- values ---


@pytest.mark.parametrize(
    ("kernel", "reference"),
    [
        (RBF(gamma=0.3), partial(rbf_kernel, gamma=0.3)),
        (
            Polynomial(degree=3, gamma=0.3, coef0=0.7),
            partial(polynomial_kernel, degree=3, gamma=0.3, coef0=0.7),
        ),
        (Linear(), linear_kernel),
    ],
    ids=["rbf", "poly", "linear"],
)
def test_values_agree_with_scikit_learn(kernel, reference, X, C):
    assert_allclose(kernel(X, C), reference(X, C), rtol=1e-12)


@scaled
def test_rescaling_the_kernel_is_rescaling_the_features(kernel, X, C, theta):
    root = np.sqrt(theta)
    assert_allclose(kernel.rescale(theta)(X, C), kernel.rescale(np.ones(5))(X * root, C * root), rtol=1e-12)


@scaled
def test_one_number_means_equal_scales(kernel, X, C):
    assert_allclose(kernel.rescale(np.full(5, kernel.gamma))(X, C), kernel(X, C), rtol=1e-14)


@scaled
def test_features_of_scale_zero_are_ignored_whatever_they_hold(kernel, X, C, theta):
    wild = X.copy()
    wild[:, theta == 0] = 1e200
    assert_array_equal(kernel.rescale(theta)(wild, C), kernel.rescale(theta)(X, C))


@scaled
def test_all_scales_zero_give_a_constant(kernel, X, C):
    constant = kernel.rescale(np.zeros(5))(X, C)
    expected = 1.0 if isinstance(kernel, RBF) else getattr(kernel, "coef0", 0.0) ** getattr(kernel, "degree", 1)
    assert_array_equal(constant, np.full((17, 8), expected))


@scaled
def test_symmetric_and_diagonal(kernel, X, theta):
    for k in (kernel, kernel.rescale(theta)):
        K = k(X, X)
        assert_allclose(K, K.T, rtol=1e-14, atol=1e-14)
        assert_allclose(k.diagonal(X), np.diag(K), rtol=1e-13)


@scaled
def test_known_mercer_kernels_have_no_negative_eigenvalue(kernel, X):
    assert kernel.mercer
    eigenvalues = np.linalg.eigvalsh(kernel(X, X))
    assert eigenvalues[0] >= -1e-13 * eigenvalues[-1]


def test_mercer_is_claimed_only_where_known():
    assert not Polynomial(degree=2, coef0=-1.0).mercer
    assert not Precomputed().mercer
    assert not FromCallable(linear_kernel).mercer


@scaled
def test_blocks_of_rows_do_not_change_the_answer(kernel, X, C, theta, rng, request):
    cotangent = rng.normal(size=(17, 8))
    k = kernel.rescale(theta)
    K, gradient = k(X, C), k.pullback(X, C, cotangent)
    request.getfixturevalue("tiny_blocks")
    assert_allclose(k(X, C), K, rtol=1e-13)
    assert_allclose(k.pullback(X, C, cotangent), gradient, rtol=1e-12)


@scaled
def test_no_rows_or_no_centres(kernel, X, C):
    assert kernel(X[:0], C).shape == (0, 8)
    assert kernel(X, C[:0]).shape == (17, 0)
    assert_array_equal(kernel.pullback(X, C[:0], np.ones((17, 0))), np.zeros(5))


@scaled
def test_kernels_are_frozen_picklable_and_follow_the_protocol(kernel, X, C):
    assert isinstance(kernel, Kernel)
    assert_array_equal(pickle.loads(pickle.dumps(kernel))(X, C), kernel(X, C))
    with pytest.raises(AttributeError):
        kernel.gamma = 2.0


# --- distances ---


@given(
    seed=st.integers(0, 2**32 - 1),
    shape=st.tuples(st.integers(1, 12), st.integers(1, 9), st.integers(1, 40)),
    offset=st.sampled_from([0.0, 1.0, -1e3, 1e8]),
    log_scale=st.integers(-12, 12),
)
@settings(max_examples=80, deadline=None)
def test_distances_are_accurate_and_zero_exactly_for_equal_rows(seed, shape, offset, log_scale):
    n, m, p = shape
    rng = np.random.default_rng(seed)
    X = offset + 10.0**log_scale * rng.normal(size=(n, p))
    C = np.concatenate([X[rng.integers(n, size=m)], offset + 10.0**log_scale * rng.normal(size=(2, p))])
    gamma = rng.uniform(0.1, 2.0, size=p)
    D = squared_distances(X, C, gamma)
    exact = cdist(X, C, "sqeuclidean", w=gamma)
    assert np.all(D >= 0)
    assert_array_equal(D[exact == 0], 0.0)
    assert_allclose(D, exact, rtol=1e-11, atol=1e-13 * p * exact.max())


def test_offsets_far_from_zero_cost_no_accuracy(rng):
    X = np.round(rng.normal(size=(30, 4)), 2) + 2.0**40  # differences are then exact multiples of the spacing
    assert_allclose(squared_distances(X, X), cdist(X, X, "sqeuclidean"), rtol=1e-11, atol=1e-13)


def test_equal_rows_are_at_distance_zero_in_sparse_matrices(rng):
    X = sparse.random_array((40, 300), density=0.1, rng=rng, format="csr")
    assert_array_equal(np.diag(squared_distances(X, X)), 0.0)
    assert_array_equal(np.diag(squared_distances(X, X.toarray())), 0.0)


def test_a_row_does_not_depend_on_the_rows_beside_it(X, C):
    crowd = np.concatenate([X[:1], 1e6 + X])
    assert_allclose(RBF(0.3)(crowd, C)[0], RBF(0.3)(X[:1], C)[0], rtol=1e-13)


@pytest.mark.parametrize("value", [np.nan, 1e200])
def test_values_that_are_not_finite_are_an_error(X, C, value):
    X[3, 1] = value
    for kernel in (RBF(0.3), Linear(), Polynomial(degree=2), squared_distances):
        with pytest.raises(ValueError, match="values that are not finite: scale the features"):
            kernel(X, X)


@pytest.mark.parametrize("offset", [0.0, 1e6])
def test_a_filled_sparse_matrix_loses_no_digits_to_an_offset(X, C, offset):
    X = np.round(8 * X) / 8  # an offset is exact
    moved = sparse.csr_array(X + offset)
    assert_allclose(RBF(0.3)(moved, moved), RBF(0.3)(X, X), rtol=1e-12)


# --- derivatives ---


def central_differences(function, theta, step):
    directions = step * np.eye(theta.size)
    return np.array([(function(theta + d) - function(theta - d)) / (2 * step) for d in directions])


@scaled
@pytest.mark.parametrize("blocks", ["one block", "many blocks"])
def test_pullback_by_central_differences(kernel, blocks, X, C, rng, request):
    if blocks == "many blocks":
        request.getfixturevalue("tiny_blocks")
    theta = rng.uniform(0.1, 1.0, size=5)
    cotangent = rng.normal(size=(17, 8))
    numeric = central_differences(lambda t: np.sum(cotangent * kernel.rescale(t)(X, C)), theta, 1e-5)
    k = kernel.rescale(theta)
    assert_allclose(k.pullback(X, C, cotangent), numeric, rtol=1e-7, atol=1e-8)
    assert_allclose(k.pullback(X, C, cotangent, K=k(X, C)), numeric, rtol=1e-7, atol=1e-8)


@scaled
def test_pullback_reaches_features_of_scale_zero(kernel, X, C, theta, rng):
    # At the bound theta_k = 0 only the one-sided derivative exists: (-3 f(0) + 4 f(h) - f(2h)) / 2h.
    cotangent, h = rng.normal(size=(17, 8)), 1e-5

    def f(t):
        return np.sum(cotangent * kernel.rescale(t)(X, C))

    numeric = [(-3 * f(theta) + 4 * f(theta + h * e) - f(theta + 2 * h * e)) / (2 * h) for e in np.eye(5)]
    gradient = kernel.rescale(theta).pullback(X, C, cotangent)
    assert np.all(gradient[theta == 0] != 0)
    assert_allclose(gradient, numeric, rtol=1e-6, atol=1e-7)


def test_rbf_pullback_does_not_see_a_common_shift(X, C, theta, rng):
    cotangent, kernel = rng.normal(size=(17, 8)), RBF(theta)
    X, C = np.round(X, 3), np.round(C, 3)
    assert_allclose(
        kernel.pullback(X + 1e6, C + 1e6, cotangent), kernel.pullback(X, C, cotangent), rtol=1e-7, atol=1e-8
    )


@scaled
def test_pullback_needs_no_array_of_all_triples(kernel, rng):
    n, m, p = 500, 300, 200
    X, C, cotangent = rng.normal(size=(n, p)), rng.normal(size=(m, p)), rng.normal(size=(n, m))
    kernel = kernel.rescale(np.full(p, 1 / p))
    tracemalloc.start()
    kernel.pullback(X, C, cotangent)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < n * m * p * 8 / 20


# --- containers and precisions ---


@scaled
@every_container
def test_sparse_equals_dense(kernel, container, X, C, theta, rng):
    X, C, cotangent = thinned(X), thinned(C), rng.normal(size=(17, 8))
    for k in (kernel, kernel.rescale(theta), kernel.rescale(np.zeros(5))):
        expected, gradient = k(X, C), k.pullback(X, C, cotangent)
        for A, B in [(container(X), container(C)), (container(X), C), (X, container(C))]:
            K = k(A, B)
            assert type(K) is np.ndarray
            assert_allclose(K, expected, rtol=1e-12, atol=1e-13)
            assert_allclose(k.pullback(A, B, cotangent), gradient, rtol=1e-10, atol=1e-12)
            assert_allclose(k.pullback(A, B, cotangent, K=K), gradient, rtol=1e-10, atol=1e-12)
        assert_allclose(k.diagonal(container(X)), k.diagonal(X), rtol=1e-13)


@scaled
@pytest.mark.parametrize("container", [np.asarray, sparse.csr_array])
def test_float32_stays_float32_but_is_summed_in_float64(kernel, container, X, C, rng):
    X, C = X.astype(np.float32), C.astype(np.float32)
    cotangent = rng.normal(size=(17, 8)).astype(np.float32)
    X64, C64 = X.astype(np.float64), C.astype(np.float64)
    K, diagonal = kernel(container(X), container(C)), kernel.diagonal(container(X))
    assert K.dtype == diagonal.dtype == np.float32
    assert kernel(container(X), C64).dtype == np.float64
    assert_array_equal(diagonal, kernel.diagonal(X64).astype(np.float32))
    assert_allclose(K, kernel(X64, C64), rtol=1e-7)
    gradient = kernel.pullback(container(X), container(C), cotangent)
    assert gradient.dtype == np.float64
    assert_allclose(gradient, kernel.pullback(X64, C64, cotangent), rtol=1e-5, atol=1e-5)


def test_float32_far_from_zero_keeps_its_distances(rng):
    X = (rng.normal(size=(20, 3)) + 3000).astype(np.float32)
    exact = cdist(X.astype(np.float64), X.astype(np.float64), "sqeuclidean")
    assert_allclose(squared_distances(X, X), exact, rtol=2e-7)


def test_integers_are_admitted():
    X = np.arange(6).reshape(3, 2)
    assert_allclose(RBF(0.1)(X, X), rbf_kernel(X, gamma=0.1), rtol=1e-13)


@scaled
@pytest.mark.parametrize("where", ["CPU_DEVICE", "device1"])
def test_array_api_round_trip(kernel, where, X, C, theta, rng):
    cotangent, on = rng.normal(size=(17, 8)), array_api_strict.Device(where)
    to_strict = partial(array_api_strict.asarray, device=on)
    for scales in (theta, np.ones(5)):
        k = kernel.rescale(scales)
        results = {
            "K": (k(to_strict(X), to_strict(C)), k(X, C)),
            "diagonal": (k.diagonal(to_strict(X)), k.diagonal(X)),
            "pullback": (k.pullback(*map(to_strict, (X, C, cotangent))), k.pullback(X, C, cotangent)),
        }
        for strict, expected in results.values():
            assert strict.device == on
            host = strict.to_device(array_api_strict.Device("CPU_DEVICE"))
            assert_allclose(np.asarray(host), expected, rtol=1e-12)


# --- kernels without features ---


def test_precomputed_picks_columns_and_diagonal(X, C):
    K = rbf_kernel(X)
    kernel = Precomputed()
    assert kernel(K, None) is K
    assert_array_equal(kernel(K[:4], np.array([5, 0])), K[:4][:, [5, 0]])
    assert_array_equal(kernel.diagonal(K), np.diag(K))
    with pytest.raises(ValueError, match="square"):
        kernel.diagonal(K[:4])
    with pytest.raises(TypeError, match="toarray"):
        kernel(sparse.csr_array(K), None)


def test_callable_receives_its_parameters(X, C):
    kernel = FromCallable(rbf_kernel, {"gamma": 0.3})
    assert_array_equal(kernel(X, C), rbf_kernel(X, C, gamma=0.3))
    assert_array_equal(kernel(sparse.csr_array(X), C), rbf_kernel(sparse.csr_array(X), C, gamma=0.3))


@pytest.mark.parametrize("container", [np.asarray, sparse.csc_array])
def test_diagonal_of_a_callable(container, rng):
    X = rng.normal(size=(2 * smaller.kernels.given.DIAGONAL_ROWS + 3, 4))
    diagonal = FromCallable(polynomial_kernel, {"degree": 2}).diagonal(container(X))
    assert_allclose(diagonal, np.diag(polynomial_kernel(X, degree=2)), rtol=1e-13)


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda X, C: X @ X.T, "shape"),
        (lambda x, c: float(np.sum(x)), "shape"),
        (lambda X, C: np.full((len(X), len(C)), np.nan), "NaN"),
        (lambda X, C: np.full((len(X), len(C)), np.inf), "infinity"),
    ],
)
def test_answers_of_a_callable_are_checked(function, message, X, C):
    with pytest.raises(ValueError, match=message):
        FromCallable(function)(X, C)


@pytest.mark.parametrize("kernel", [Precomputed(), FromCallable(linear_kernel)])
def test_kernels_without_features_have_no_scales(kernel, X, C):
    with pytest.raises(TypeError, match="no feature scales"):
        kernel.rescale(np.ones(5))
    with pytest.raises(TypeError, match="no feature scales"):
        kernel.pullback(X, C, np.ones((17, 8)))


# --- arguments ---


def test_make_kernel_builds_what_is_named(X):
    rbf, poly = build("rbf", X=X, gamma=0.2), build("poly", X=X, gamma=0.2, degree=4, coef0=0.5)
    assert isinstance(rbf, RBF)
    assert rbf.gamma == 0.2
    assert isinstance(poly, Polynomial)
    assert (poly.degree, poly.gamma, poly.coef0) == (4, 0.2, 0.5)
    assert isinstance(build("linear", X=X), Linear)
    assert isinstance(build("precomputed", X=X), Precomputed)
    custom = build(rbf_kernel, X=X, kernel_params={"gamma": 0.3})
    assert_array_equal(custom(X, X), rbf_kernel(X, gamma=0.3))


def test_unknown_kernel_lists_the_choices(X):
    with pytest.raises(ValueError, match="'rbf', 'poly', 'linear', 'precomputed' or a callable, got 'sigmoid'"):
        build("sigmoid", X=X)


@pytest.mark.parametrize("container", [np.asarray, sparse.csr_array, sparse.csc_matrix, array_api_strict.asarray])
def test_gamma_scale_uses_the_weighted_variance(container, X, rng):
    X = thinned(X) + 0.0
    assert resolve_gamma("scale", container(X)) == pytest.approx(1 / (5 * X.var()), rel=1e-13)
    counts = rng.integers(0, 4, size=17)
    repeated = np.repeat(X, counts, axis=0)
    assert resolve_gamma("scale", container(X), counts) == pytest.approx(1 / (5 * repeated.var()), rel=1e-13)


def test_gamma_scale_survives_a_large_offset(X):
    assert resolve_gamma("scale", X + 1e7) == pytest.approx(resolve_gamma("scale", X), rel=1e-6)


def test_gamma_words_and_numbers(X):
    assert resolve_gamma("auto", X) == 0.2
    assert resolve_gamma(np.float32(0.5), X) == 0.5
    assert resolve_gamma(2, X) == 2.0
    assert resolve_gamma("scale", np.ones((3, 2))) == 1.0


@pytest.mark.parametrize("gamma", [0, -1.0, np.nan, np.inf, "wide", None, True, np.ones(5)])
def test_bad_gamma_is_refused(gamma, X):
    with pytest.raises(ValueError, match="gamma must be"):
        build("rbf", X=X, gamma=gamma)


@scaled
@pytest.mark.parametrize("theta", [[0.1, -0.1], [0.1, np.nan], [0.1, np.inf], [[0.1, 0.2]]])
def test_bad_scales_are_refused(kernel, theta):
    with pytest.raises(ValueError, match="gamma must be"):
        kernel.rescale(np.array(theta))


@pytest.mark.parametrize("arguments", [{"degree": 0}, {"degree": 1.5}, {"degree": np.inf}, {"coef0": np.nan}])
def test_bad_polynomials_are_refused(arguments):
    with pytest.raises(ValueError, match=next(iter(arguments))):
        Polynomial(**arguments)


@scaled
def test_shapes_must_agree(kernel, X, C):
    with pytest.raises(ValueError, match="5 features but the centres have 4"):
        kernel(X, C[:, :4])
    with pytest.raises(ValueError, match="X must be 2-dimensional"):
        kernel(X[0], C)
    with pytest.raises(ValueError, match="one number or 5"):
        kernel.rescale(np.ones(4))(X, C)


@pytest.mark.parametrize("size", [1e-160, 1e160])
def test_a_width_from_the_scale_of_x_is_a_number_or_a_sentence(X, size):
    assert resolve_gamma("scale", X) == pytest.approx(1 / (X.shape[1] * X.var()))
    for rows in (size * X, sparse.csr_array(size * X)):
        with pytest.raises(ValueError, match=r"gamma='scale' is one over the variance .* Scale the features"):
            resolve_gamma("scale", rows)
