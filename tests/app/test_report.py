"""The report: what it must say, that names cannot break it, and that it needs nothing from outside."""

from __future__ import annotations

import csv
import html
import io
import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from smaller.app.report import features_csv, render, report_json
from smaller.app.report.confusion import confusion_chart
from smaller.app.report.svg import nice_ticks
from smaller.app.report.words import name as shown_name
from smaller.app.study import Procedure, Question, Study, UnusableModelError, prepare, run_study
from smaller.app.study import facts as say
from smaller.app.study.judgement import calibration, confusion, decision_tables, performance
from smaller.app.tables import Table

HOSTILE = ["</script><script>alert(1)</script>", '"><img src=x onerror=alert(1)>', "a & b", "$title ${body}", "=1+1"]


def study(n_classes: int = 2, model: str = "smlr", *, shuffle: bool = True) -> Study:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(90, len(HOSTILE)))
    score = X[:, 0] - X[:, 1] + 0.5 * rng.normal(size=90)
    codes = np.digitize(score, np.quantile(score, np.linspace(0, 1, n_classes + 1)[1:-1]))
    labels = np.array(["</title>no", "<i>yes</i>", "per'haps"], dtype=object)[codes]
    table = Table({name: X[:, j] for j, name in enumerate(HOSTILE)} | {"<target>": labels})
    data = prepare(replace(table, notes=["note <b>"]), Question("<target>"))
    return run_study(data, Procedure(model, repeats=1, shuffle=shuffle))


@pytest.fixture(scope="module")
def two() -> Study:
    return study(2)


@pytest.fixture(scope="module")
def three() -> Study:
    return study(3)


class Outline(HTMLParser):
    """Collects tags, and complains about what a report must not have."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.outside: list[str] = []
        self.handlers: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        for name, value in attrs:
            if name.startswith("on"):
                self.handlers.append(name)
            if name in ("src", "href") and not (value or "").startswith("#"):
                self.outside.append(value or "")


def outline(page: str) -> Outline:
    parsed = Outline()
    parsed.feed(page)
    return parsed


@pytest.mark.parametrize("which", ["two", "three"])
def test_names_cannot_break_the_page(which: str, request: pytest.FixtureRequest) -> None:
    parsed = outline(render(request.getfixturevalue(which).facts))
    assert parsed.tags.count("script") == 2  # the data and the page's own
    assert parsed.tags.count("title") >= 1
    assert not {"img", "i", "iframe", "link", "object"} & set(parsed.tags)
    assert parsed.handlers == []


def test_the_page_needs_nothing_from_outside_and_is_small(two: Study) -> None:
    page = render(two.facts)
    assert outline(page).outside == []
    assert "http" not in page.replace("http-equiv", "")
    assert "default-src 'none'" in page
    assert len(page.encode()) < 2_000_000


@pytest.mark.parametrize("which", ["two", "three"])
def test_the_page_has_every_section(which: str, request: pytest.FixtureRequest) -> None:
    page = render(request.getfixturevalue(which).facts)
    headings = [
        "The features and their direction",
        "Would other rows have given the same features?",
        "How good is it?",
        "Can the probabilities be trusted?",
        "Use it",
        "How many features?",
        "Certificate and bound" if which == "two" else "Certificate",
        "Method and citation",
        "To reproduce",
    ]
    positions = [page.index(heading) for heading in headings]
    assert positions == sorted(positions)
    assert page.index("better than guessing") < positions[0]  # the answer first
    assert 'id="threshold"' in page
    assert "prefers-color-scheme: dark" in page
    assert "@media print" in page


def test_the_data_for_the_sliders_are_aggregates(two: Study) -> None:
    page = render(two.facts)
    data = json.loads(re.search(r'id="facts">(.*?)</script>', page, re.DOTALL)[1])  # type: ignore[index]
    assert set(data) == {"decisions", "shares"}
    table = np.array(data["decisions"]["tables"])
    assert table.shape == (1, 20, 41, 2)
    assert table.min() >= 0
    assert table.max() <= 1


def test_a_kernel_model_shows_its_import_path_instead_of_weights() -> None:
    facts = study(2, "ivm", shuffle=False).facts
    page = render(facts)
    assert "The features and their direction" not in page
    assert "How many reference points?" in page
    assert page.count('class="dot"') >= 2 * len(facts["import_path"]["objective"])  # objective, and error held back


def test_joint_selection_shows_its_scales() -> None:
    facts = study(2, "jcfo", shuffle=False).facts
    page = render(facts)
    assert "Which features count?" in page
    assert 0 < len(facts["scales"]) <= len(HOSTILE)


def test_a_model_that_did_not_converge_says_so_first(two: Study) -> None:
    facts = json.loads(report_json(two.facts))
    assert facts["caution"] is None
    facts["caution"] = "The final model is not certified <as> the best one."
    page = render(facts)
    assert page.index("not certified &lt;as&gt;") < page.index('class="cards"')


def test_a_model_far_from_the_optimum_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    real = say.certificate
    monkeypatch.setattr(say, "certificate", lambda model: real(model) | {"converged": False, "gap": 1e3})
    with pytest.raises(UnusableModelError, match="no model was written"):
        study(2)
    monkeypatch.setattr(say, "certificate", lambda model: real(model) | {"converged": False})
    assert "not certified" in study(2).facts["caution"]


def test_the_bound_is_given_for_two_classes_and_is_no_smaller_than_the_error(two: Study, three: Study) -> None:
    bound = two.facts["bound"]
    assert three.facts["bound"] is None
    assert bound is None or two.facts["performance"]["error"] <= bound["gibbs"] <= bound["error"] < 1.0


def test_stability_tells_what_is_in_the_model(two: Study) -> None:
    top = two.facts["stability"]["top"]
    used = {row["name"] for row in two.facts["chosen"]["features"]}
    assert [row["frequency"] for row in top] == sorted((row["frequency"] for row in top), reverse=True)
    assert all(row["used"] == (row["name"] in used) for row in top)


def test_json_has_no_nan_and_comes_back(two: Study) -> None:
    assert json.loads(report_json(two.facts)) == two.facts


def test_features_csv_is_harmless_in_a_spreadsheet(two: Study) -> None:
    facts = json.loads(json.dumps(two.facts))
    facts["chosen"]["features"][0]["name"] = "=cmd()"
    rows = list(csv.DictReader(io.StringIO(features_csv(facts))))
    assert rows[0]["feature"] == "'=cmd()"
    assert float(rows[0]["weight_per_unit"]) == facts["chosen"]["features"][0]["original"][0]


def test_original_units_give_the_same_log_odds(three: Study) -> None:
    chosen, pipeline = three.facts["chosen"], three.model.pipeline
    X = np.random.default_rng(1).normal(size=(5, len(HOSTILE))) * 3 + 1
    names = three.model.encoder.features
    eta = np.tile(chosen["intercepts"], (5, 1))
    for row in chosen["features"]:
        eta += np.outer(X[:, names.index(row["name"])], row["original"])
    assert np.allclose(eta, pipeline.decision_function(X))


# ---- the numbers ----------------------------------------------------------------------------------------------------

probabilities = st.integers(2, 4).flatmap(
    lambda K: st.lists(
        st.tuples(st.integers(0, K - 1), st.lists(st.floats(0.01, 1.0), min_size=K, max_size=K)),
        min_size=20,
        max_size=60,
    )
)


def arrays(rows: list[Any]) -> tuple[Any, Any]:
    P = np.array([p for _, p in rows])
    return np.array([c for c, _ in rows]), P / P.sum(axis=1, keepdims=True)


@given(probabilities)
def test_the_numbers_agree_with_each_other(rows: list[Any]) -> None:
    codes, proba = arrays(rows)
    judged, table = performance(codes, proba), np.array(confusion(codes, proba))
    assert table.sum() == len(codes)
    assert judged["wrong"] == table.sum() - np.trace(table)
    low, high = judged["error_interval"]
    assert 0 <= low <= judged["error"] <= high <= 1
    assert sum(part["rows"] for part in calibration(codes, proba)["bins"]) == len(codes)


@given(probabilities)
def test_tables_start_from_the_plain_error_and_rejecting_more_never_answers_more(rows: list[Any]) -> None:
    codes, proba = arrays(rows)
    K = proba.shape[1]
    counts = np.bincount(codes, minlength=K)
    if counts.min() == 0:
        return
    tables = decision_tables(codes, proba, counts / counts.sum())
    assert tables is not None
    values = np.array(tables["tables"])
    assert values.shape[0] == (1 if K == 2 else K)
    plain = (proba.argmax(axis=1) != codes).mean()
    assert np.allclose(values[:, 0, -1, 0], 0.0)
    assert np.allclose(values[:, 0, -1, 1], plain, atol=1e-5)
    assert (np.diff(values[..., 0], axis=2) <= 1e-9).all()


@given(st.floats(-1e6, 1e6), st.floats(1e-6, 1e6))
def test_ticks_are_inside_and_few(low: float, span: float) -> None:
    ticks = nice_ticks(low, low + span)
    assert 1 <= len(ticks) <= 7
    assert all(low - 1e-6 * span - 1e-9 <= tick <= low + span * (1 + 1e-6) + 1e-9 for tick in ticks)


@given(st.text())
def test_names_are_short_and_escaped(text: str) -> None:
    assert not set('<>"') & set(shown_name(text))
    assert len(html.unescape(shown_name(text, 20))) <= 20


def test_many_classes_become_a_heat_map_that_holds_every_name_twice() -> None:
    labels = [f"class {k}" for k in range(26)]
    table = np.full((26, 26), 2) + 90 * np.eye(26, dtype=int)
    drawn = confusion_chart(labels, table.tolist())
    texts = re.findall(r">([^<>]+)</text>", drawn)
    assert all(texts.count(label) == 2 for label in labels)
    assert texts.count("92") == 26
    assert texts.count("65%") == 26  # 92 of 142 are found
    width, height = map(int, re.search(r'viewBox="0 0 (\d+) (\d+)"', drawn).groups())  # type: ignore[union-attr]
    assert all(float(x) + 25 <= width for x in re.findall(r'<rect class="\w+" x="(\d+)"', drawn))
    assert all(float(y) + 25 <= height for y in re.findall(r'<rect[^>]* y="(\d+)"', drawn))
    assert "<svg" not in confusion_chart(labels[:3], table[:3, :3].tolist())
