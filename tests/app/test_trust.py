"""What may be claimed: rows that belong together, intervals, shuffled labels, and the first sentence."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse, stats

from app.noise import claims, data_of, noise_table
from smaller.app.report import render, report_json
from smaller.app.study import Procedure, Question, prepare, run_study
from smaller.app.study.honest import make_plan
from smaller.app.study.intervals import binomial_interval, mean_interval, share_interval
from smaller.app.study.ridge import fit_ridge
from smaller.app.study.splits import GroupFolds, PastFolds
from smaller.app.study.stability import PathTo
from smaller.app.study.units import Units, chance_pairs, copies_of, shuffled_labels
from smaller.app.tables import Table, TableError
from smaller.estimators.stability import StabilitySelection


def text(values: Any) -> Any:
    return np.array([str(value) for value in values], dtype=object)


# ---- units ----------------------------------------------------------------------------------------------------------


@given(st.lists(st.tuples(st.sampled_from([0.0, -0.0, 1.5, np.nan]), st.integers(0, 1)), min_size=1, max_size=30))
def test_copies_are_the_rows_that_are_equal(rows: list[tuple[float, int]]) -> None:
    X, y = np.array([[a, 2.0 * a] for a, _ in rows]), np.array([b for _, b in rows])
    seen: dict[str, int] = {}
    expected = [seen.setdefault(f"{a + 0.0} {b}", i) for i, (a, b) in enumerate(rows)]
    assert copies_of(X, y).tolist() == expected
    if not np.isnan(X).any():
        assert copies_of(sparse.csr_array(X), y).tolist() == expected


def test_a_shared_hash_does_not_make_a_copy(monkeypatch: pytest.MonkeyPatch) -> None:
    from smaller.app.study import units

    monkeypatch.setattr(units, "_mixed", lambda a, b: np.zeros_like(a))
    X = np.arange(6.0).reshape(6, 1)
    assert units.copies_of(X, np.zeros(6)).tolist() == list(range(6))


def test_coincidences_in_columns_of_few_values_are_no_copies() -> None:
    rng = np.random.default_rng(0)
    X, y = rng.integers(0, 2, size=(200, 3)).astype(float), np.tile([0, 1], 100)
    assert chance_pairs(X, y) == pytest.approx(200 * 199 / 2 / 16, rel=0.05)
    table = Table({f"x{j}": X[:, j] for j in range(3)} | {"y": text(y)})
    assert prepare(table, Question("y")).units == Units()


@given(st.integers(0, 10_000), st.integers(1, 5))
def test_labels_are_shuffled_between_units_never_within(seed: int, classes: int) -> None:
    rng = np.random.default_rng(seed)
    units = rng.integers(0, 12, size=60)
    y = rng.integers(0, classes, size=12)[units]
    shuffled = shuffled_labels(y, units, rng)
    for unit in np.unique(units):
        assert len(np.unique(shuffled[units == unit])) == 1
    mixed = rng.integers(0, classes, size=60)
    equal = np.repeat(np.arange(12), 5)
    blocks = {tuple(row) for row in mixed.reshape(12, 5)}
    assert {tuple(row) for row in shuffled_labels(mixed, equal, rng).reshape(12, 5)} == blocks
    assert sorted(shuffled_labels(mixed, None, rng)) == sorted(mixed)


@given(st.integers(0, 10_000))
def test_folds_keep_groups_whole_and_use_every_row_once(seed: int) -> None:
    rng = np.random.default_rng(seed)
    groups, y = rng.integers(0, 15, size=120), rng.integers(0, 2, size=120)
    splits = list(GroupFolds(5, seed).split(None, y, groups))
    assert np.array_equal(np.sort(np.concatenate([test for _, test in splits])), np.arange(120))
    for train, test in splits:
        assert not set(groups[train]) & set(groups[test])
        assert len(train) + len(test) == 120


def test_single_rows_are_dealt_out_with_the_classes_in_proportion() -> None:
    y = np.repeat([0, 1], [90, 10])
    for _, test in GroupFolds(5, 0).split(None, y, np.arange(100)):
        assert np.bincount(y[test]).tolist() == [18, 2]


def test_the_past_never_learns_from_the_future_or_from_the_same_day() -> None:
    day, y = np.repeat(np.arange(30), 4), np.tile([0, 1], 60)
    splits = list(PastFolds(5).split(None, y, day))
    assert len(splits) == 5
    for train, test in splits:
        assert day[train].max() < day[test].min()
    assert day[splits[-1][1]].max() == 29


def test_halves_of_stability_selection_keep_groups_whole() -> None:
    rng = np.random.default_rng(0)
    groups = np.repeat(np.arange(20), 10)
    X = rng.normal(size=(20, 8))[groups]
    y = rng.integers(0, 2, size=20)[groups]
    torn = StabilitySelection(n_features=2, n_pairs=10, random_state=0).fit(X, y)
    whole = StabilitySelection(n_features=2, n_pairs=10, random_state=0).fit(X, y, groups=groups)
    assert torn.frequencies_.max() > whole.frequencies_.max()
    with pytest.raises(ValueError, match="one for each row"):
        StabilitySelection().fit(X, y, groups=groups[1:])


# ---- intervals ------------------------------------------------------------------------------------------------------


def test_without_groups_the_interval_is_the_exact_one() -> None:
    hits = np.repeat([1.0, 0.0], [7, 43])[None]
    test = stats.binomtest(7, 50).proportion_ci(0.95, method="exact")
    assert share_interval(hits) == pytest.approx((test.low, test.high))


def test_whole_groups_count_as_often_as_there_are_groups() -> None:
    right = np.repeat(np.arange(20) % 4 == 0, 10).astype(float)[None]
    low, high = share_interval(right, np.repeat(np.arange(20), 10))
    alone = binomial_interval(5, 20)
    assert high - low == pytest.approx(alone[1] - alone[0], abs=0.05)
    assert binomial_interval(50, 200)[1] - binomial_interval(50, 200)[0] < 0.5 * (high - low)
    assert share_interval(np.zeros((1, 200)), np.repeat(np.arange(20), 10)) == pytest.approx(binomial_interval(0, 20))


@pytest.mark.parametrize("clustered", [False, True])
def test_intervals_hold_the_truth_as_often_as_they_say(clustered: bool) -> None:
    rng = np.random.default_rng(0)
    groups = np.repeat(np.arange(40), 5) if clustered else None
    held = {"share": 0, "mean": 0}
    for _ in range(400):
        rate = rng.beta(2, 6, size=40).repeat(5) if clustered else 0.25
        hits = (rng.random(200) < rate).astype(float)[None]
        for name, (low, high) in (("share", share_interval(hits, groups)), ("mean", mean_interval(hits, groups))):
            held[name] += low <= 0.25 <= high
    assert min(held.values()) >= 0.92 * 400


def test_the_interval_covers_the_repeats_and_grows_with_their_spread() -> None:
    rng = np.random.default_rng(0)
    same = np.repeat((rng.random(100) < 0.3).astype(float)[None], 5, axis=0)
    apart = np.array([np.r_[np.ones(k), np.zeros(100 - k)] for k in (10, 20, 30, 40, 50)])
    assert share_interval(same) == pytest.approx(share_interval(same[:1]))
    low, high = share_interval(apart)
    assert low <= 0.1
    assert high >= 0.5


# ---- the first sentence ---------------------------------------------------------------------------------------------

QUICK = Procedure(repeats=1)


def test_at_most_one_of_twenty_tables_of_noise_claims_more_than_guessing() -> None:
    found = [claims(seed, largest=2_500) for seed in range(20)]
    assert sum(claimed for claimed, _ in found) <= 1, "\n".join(line for _, line in found)


def test_copies_of_noise_are_at_chance_and_the_headline_says_why() -> None:
    rng = np.random.default_rng(0)
    rows = np.repeat(np.arange(60), 4)
    X, y = rng.normal(size=(60, 80))[rows], rng.permutation(np.arange(60) % 2)[rows]
    table = Table({f"x{j}": X[:, j] for j in range(80)} | {"y": text(y)})
    facts = run_study(prepare(table, Question("y")), QUICK).facts
    assert facts["performance"]["error_interval"][1] > facts["performance"]["baseline_error"]
    page = render(facts)
    assert "Identical rows" in page[: page.index('class="cards"')]
    assert "features are enough" not in page
    assert "holds for any data" not in page
    apart = prepare(table, Question("y", group="none"))  # what the default protects from
    assert run_study(apart, QUICK).facts["performance"]["error"] < facts["performance"]["error"] - 0.2


def test_groups_with_random_labels_are_at_chance_when_named() -> None:
    kind, table = noise_table(2)
    assert kind == "groups"
    data = data_of(kind, table)
    assert "patient" not in " ".join(data.encoder.features)
    facts = run_study(data, QUICK).facts
    assert facts["verdict"]["state"] == "guessing"
    assert facts["verdict"]["sentence"] in render(facts)
    assert "All rows of one 'patient'" in facts["plan"]
    assert facts["performance"]["units"] == len(np.unique(table.columns["patient"]))
    for train, test in make_plan(data.X, data.y, data.units, QUICK).repeats[0]:
        assert not set(table.columns["patient"][train]) & set(table.columns["patient"][test])


def wanted(seed: int = 0, n: int = 200, p: int = 12) -> Table:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, p))
    y = X[:, 0] - X[:, 1] + rng.normal(size=n) > 0
    return Table({f"x{j}": X[:, j] for j in range(p)} | {"y": text(y)})


def test_a_real_signal_is_claimed_beside_luck_and_beside_all_features() -> None:
    facts = run_study(prepare(wanted(), Question("y")), Procedure()).facts
    assert facts["verdict"]["state"] == "better"
    assert facts["performance"]["repeats"] == 5
    luck = facts["shuffled"]
    assert luck is not None
    assert luck["error"] > facts["performance"]["error"] + 0.1
    page = render(facts)
    assert "Shuffled labels." in page
    assert "cannot show leaks" in page
    assert "ridge model of all 12 features" in page
    low, high = facts["performance"]["error_range"]
    assert low <= facts["performance"]["error"] <= high
    assert facts["performance"]["error_interval"][0] <= low
    assert np.sum(facts["confusion"]) == pytest.approx(200)
    assert json.loads(report_json(facts)) == facts
    without = run_study(prepare(wanted(), Question("y")), Procedure(shuffle=False, repeats=1)).facts
    assert without["shuffled"] is None
    assert "Shuffled labels." not in render(without)


def test_the_ridge_of_wide_data_is_the_ridge_of_all_features() -> None:
    from smaller import RMLR

    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(40, 90)), np.tile([0, 1], 20)
    ours, _ = fit_ridge(X, y, QUICK)
    Z = (X - X.mean(axis=0)) / X.std(axis=0)
    direct = RMLR(alpha=ours.model.alpha, tol=1e-8).fit(Z, y)
    assert np.allclose(ours.predict_proba(X), direct.predict_proba(Z), atol=1e-3)


def test_a_feature_in_use_is_found_on_the_way_to_its_strength() -> None:
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(100, 5)), np.tile([0, 1], 50)
    X[:, 2] += y
    assert PathTo(alpha=5.0).fit(X, y).coef_[0, 2] > 0
    assert not PathTo(alpha=1e6).fit(X, y).coef_.any()


# ---- order and identifiers ------------------------------------------------------------------------------------------


def test_order_predicts_the_future_and_says_so() -> None:
    table = wanted()
    table.columns["day"] = np.arange(200.0)[::-1]
    data = prepare(table, Question("y", order="day"))
    assert "day" not in data.encoder.features
    facts = run_study(data, Procedure()).facts
    assert facts["performance"]["rows"] == 100
    assert "come before it in 'day'" in facts["plan"]


def test_dates_order_rows_though_they_are_no_features(tmp_path: Any) -> None:
    from smaller.app.tables import read_table

    rows = "".join(f"20{i % 90 + 10}-05-01,{i % 7},{'uw'[i % 2]}\n" for i in range(80))
    (tmp_path / "t.csv").write_text("day,a,y\n" + rows)
    data = prepare(read_table(tmp_path / "t.csv"), Question("y", order="day"))
    assert data.encoder.features == ["a"]
    assert data.units.ordered


@pytest.mark.parametrize(
    ("question", "words"),
    [
        (Question("y", group="site"), "only 2 values"),
        (Question("y", group="gaps"), "empty cells"),
        (Question("y", group="nobody"), "did you mean"),
        (Question("y", group="y"), "cannot be group"),
        (Question("y", group="single"), "cannot be both learnt and held out"),
        (Question("y", group="single", order="x1"), "not both"),
        (Question("y", order="site"), "holds text"),
        (Question("y", missing="guess"), "--missing"),
    ],
)
def test_what_cannot_hold_rows_together_is_refused_with_advice(question: Question, words: str) -> None:
    table = wanted()
    table.columns["site"] = text(np.arange(200) % 2)
    table.columns["gaps"] = np.where(np.arange(200) % 5, np.arange(200.0), np.nan)
    table.columns["single"] = np.where(table.columns["y"] == "True", 0.0, np.arange(200) % 9 + 1.0)
    with pytest.raises(TableError, match=words):
        prepare(table, question)
