"""Tables as people really have them: the sentence that must appear, and the number that must not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from smaller.app.cells import parse_numbers
from smaller.app.columns import TableEncoder, counts_rows, is_id_name
from smaller.app.report import render
from smaller.app.study import Procedure, Question, prepare, run_study
from smaller.app.tables import Table, TableError, read_table

QUICK = Procedure(repeats=1, shuffle=False)
rng = np.random.default_rng(0)
N = 200
SIGNAL = rng.normal(size=N)
LABELS = np.array(["ill" if value > 0 else "well" for value in SIGNAL + rng.normal(size=N)], dtype=object)


def texts(values: Any) -> Any:
    return np.array([None if value is None else str(value) for value in values], dtype=object)


def table(**columns: Any) -> Table:
    return Table({"signal": SIGNAL, "noise": rng.normal(size=N)} | columns | {"y": LABELS})


def findings(given: Table, **question: Any) -> dict[str, str]:
    return {finding.kind: finding.sentence for finding in prepare(given, Question("y", **question)).findings}


# ---- cells ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("odd", "value", "words"),
    [
        ("unknown", np.nan, "1 cell that is no number ('unknown') is taken as missing"),
        ("<0.01", 0.01, "1 limit ('<0.01') is taken at its value"),
        (">90", 90.0, "1 limit ('>90') is taken at its value"),
        ("3+", 3.0, "1 limit ('3+') is taken at its value"),
        ("$48", 48.0, "1 cell with a sign or unit ('$48') is read as a number"),
        ("1,234", 1234.0, "1 cell with a sign or unit"),
        ("1 234.5", 1234.5, "1 cell with a sign or unit"),
        ("12 mg", 12.0, "1 cell with a sign or unit"),
        ("\u22123", -3.0, None),
        ("2e3", 2000.0, None),
    ],
)
def test_one_bad_cell_leaves_a_column_of_numbers(odd: str, value: float, words: str | None) -> None:
    cells = texts([*np.round(np.linspace(1, 80, 59), 1), odd])
    given = Table({"age": cells, "y": texts(np.arange(60) % 2)})
    encoder, notes = TableEncoder.learn(given, "y")
    assert encoder.features == ["age"]
    assert np.array_equal(encoder.transform(given)[:, 0], [*cells[:-1].astype(float), value], equal_nan=True)
    if words:
        assert words in notes[0]
        assert "age" in notes[0]


@pytest.mark.parametrize(
    ("cells", "expected"),
    [
        (["12%", "7.5%", "100 %"], [12.0, 7.5, 100.0]),
        (["12%", "7.5%", "3%", "9%", "1%", "0.12"], [12.0, 7.5, 3.0, 9.0, 1.0, np.nan]),  # a share among percents
        (["3 mg", "4 mg", "5 mg", "6 mg", "0.007 g"], [3.0, 4.0, 5.0, 6.0, np.nan]),
        (["1,5", "2,25", "3"], [1.5, 2.25, 3.0]),
        (["1.234,5", "2,0"], [1234.5, 2.0]),
        (["1,234", "12,345", "1,234,567.5"], [1234.0, 12345.0, 1234567.5]),
        (["\u20ac 3", "4\u20ac"], [3.0, 4.0]),
    ],
)
def test_notations_are_read_as_they_are_meant(cells: list[str], expected: list[float]) -> None:
    found = parse_numbers(texts(cells))
    assert found is not None
    assert np.array_equal(found.values, expected, equal_nan=True)


@pytest.mark.parametrize(
    "cells", [["red", "green"], ["a1", "b2"], ["1", "x", "y"], ["12.5.2020"], ["10:30"], ["-"], []]
)
def test_text_stays_text(cells: list[str]) -> None:
    assert parse_numbers(texts(cells)) is None


@given(st.lists(st.floats(-1e12, 1e12, allow_nan=False), min_size=1, max_size=20))
def test_plain_numbers_are_read_exactly(values: list[float]) -> None:
    found = parse_numbers(texts([repr(value) for value in values]))
    assert found is not None
    assert found.values.tolist() == values
    assert found.remarks == []


@given(st.lists(st.one_of(st.none(), st.text(max_size=12)), max_size=30))
def test_any_text_is_numbers_or_not_and_never_an_error(cells: list[str | None]) -> None:
    found = parse_numbers(np.array([*cells, None], dtype=object)[:-1])
    assert found is None or len(found.values) == len(cells)


def test_new_rows_are_read_as_the_training_rows_were() -> None:
    dose = texts([f"{value} mg" for value in range(1, 61)])
    encoder, _ = TableEncoder.learn(Table({"dose": dose, "y": texts(np.arange(60) % 2)}), "y")
    new = Table({"dose": texts(["7 mg", "8", "0.009 g", "?"])})
    assert np.array_equal(encoder.transform(new)[:, 0], [7.0, 8.0, np.nan, np.nan], equal_nan=True)
    with pytest.raises(TableError, match="must hold numbers"):
        encoder.transform(Table({"dose": texts(["much"])}))


def test_a_csv_with_dirty_cells_from_the_file_to_the_page(tmp_path: Path) -> None:
    lines = ["age,crp,price,share,y"]
    for i in range(N):
        age = "unknown" if i == 3 else f"{50 + 10 * SIGNAL[i]:.1f}"
        crp = "<0.01" if i % 50 == 0 else f"{abs(SIGNAL[i]):.3f}"
        lines.append(f'{age},{crp},"$1,{100 + i}",{i % 37}%,{LABELS[i]}')
    (tmp_path / "t.csv").write_text("\n".join(lines))
    data = prepare(read_table(tmp_path / "t.csv"), Question("y"))
    assert data.encoder.features == ["age", "crp", "price", "share"]
    page = render(run_study(data, QUICK).facts)
    assert "&#x27;unknown&#x27;" in page
    assert "age = " not in page


def test_a_gap_where_training_had_none_is_filled_with_the_mean() -> None:
    model = run_study(prepare(table(), Question("y")), QUICK).model
    new = {"signal": np.array([np.nan, SIGNAL.mean()]), "noise": np.zeros(2)}
    proba = model.predict_proba(Table(new))
    assert np.allclose(proba[0], proba[1])


# ---- the audit ------------------------------------------------------------------------------------------------------


def test_gaps_in_many_columns_are_one_line() -> None:
    X = rng.normal(size=(N, 300))
    X[rng.random(X.shape) < 0.02] = np.nan
    data = prepare(table(**{f"g{j}": X[:, j] for j in range(300)}), Question("y"))
    assert len(data.notes) == 1
    assert "columns have gaps (2." in data.notes[0]
    page = render(run_study(data, QUICK).facts)
    assert page.count("missing value") == 0


def test_patients_with_visits_withhold_the_interval_until_it_is_answered() -> None:
    visits = table(patient=texts([f"P{i // 10}" for i in range(N)]))
    data = prepare(visits, Question("y"))
    assert "200 rows, 20 values of 'patient'" in data.findings[0].sentence
    facts = run_study(data, QUICK).facts
    assert facts["verdict"]["state"] == "withheld"
    page = render(facts)
    low, high = facts["performance"]["error_interval"]
    assert "--group &#x27;patient&#x27;" in page
    assert "with 95% confidence" not in page
    assert f"{100 * low:.0f}% to {100 * high:.0f}%" not in page
    for answer in ("patient", "none"):
        facts = run_study(prepare(visits, Question("y", group=answer)), QUICK).facts
        assert facts["verdict"]["state"] == "better"
        assert "with 95% confidence" in render(facts)


@pytest.mark.parametrize(
    ("name", "values", "likely"),
    [
        ("patient", np.arange(N) // 10, True),
        ("PatientID", np.arange(N) // 4, True),
        ("subject_nr", np.arange(N) // 2, True),
        ("patient_age", np.arange(N) % 60, False),
        ("colour", np.arange(N) % 7, False),
        ("patient", np.arange(N) % 2, False),
        ("family_size", np.arange(N) % 9, False),
    ],
)
def test_which_columns_are_taken_for_groups(name: str, values: Any, likely: bool) -> None:
    for column in (values, texts(values)):
        assert ("group" in findings(table(**{name: column}))) == likely


def test_a_column_of_any_name_whose_values_have_one_label_each_is_a_likely_group() -> None:
    code = np.arange(N) // 5
    labels = texts(np.random.default_rng(1).integers(0, 2, size=N // 5)[code])
    given = Table({"x": rng.normal(size=N), "quux": texts(code), "y": labels})
    assert "all rows of one value have one label" in findings(given)["group"]
    assert "group" not in findings(Table({"x": rng.normal(size=N), "quux": texts(code), "y": LABELS}))


def test_a_copy_of_the_target_is_called_too_good() -> None:
    code = np.array([7.0 if label == "ill" else 3.0 for label in LABELS])
    found = findings(table(y_code=code, other=rng.normal(size=N)))
    assert "'y_code' alone predicts almost everything: too good?" in found["too good"]
    spread = code + 0.1 * rng.normal(size=N)
    assert "'result'" in findings(table(result=spread))["too good"]
    assert "too good" not in findings(table())


def test_numbers_that_name_rows_are_left_out_or_asked_about() -> None:
    order = np.argsort(LABELS.astype(str), kind="stable")
    ids = np.empty(N)
    ids[order] = np.arange(1001.0, 1201.0)  # sorted by class, as many tables are
    data = prepare(table(patient_id=ids), Question("y"))
    assert "patient_id" not in data.encoder.features
    assert "like an identifier, and was left out" in " ".join(data.notes)
    kept = prepare(table(patient_id=ids), Question("y", features=("patient_id",)))
    assert "patient_id" in kept.encoder.features
    asked = prepare(table(weight=np.arange(float(N))), Question("y"))
    assert "weight" in asked.encoder.features
    assert "an identifier? Then --id 'weight'" in asked.findings[0].sentence


def test_the_index_column_of_a_spreadsheet_is_no_feature(tmp_path: Path) -> None:
    rows = "".join(f"{i},{SIGNAL[i]},{LABELS[i]}\n" for i in range(N))
    (tmp_path / "t.csv").write_text(",a,y\n" + rows)
    data = prepare(read_table(tmp_path / "t.csv"), Question("y"))
    assert data.encoder.features == ["a"]


def test_batches_that_go_with_the_target_are_named() -> None:
    batch = np.where(LABELS == "ill", "b1", "b2").astype(object)
    batch[:30] = "b3"
    assert "'batch' goes with the target" in findings(table(batch=batch))["site"]
    assert "site" not in findings(table(batch=texts(np.arange(N) % 3)))
    assert "site" not in findings(table(batch=batch), group="none", drop=("batch",))


def test_small_classes_are_counted_together() -> None:
    labels = LABELS.copy()
    labels[:7], labels[7:13] = "rare", "odd"
    given = Table({"x": SIGNAL, "y": labels})
    assert "2 classes have fewer than 10 rows: odd (6), rare (7)" in findings(given)["rare class"]


def test_copies_lead_the_audit() -> None:
    rows = np.repeat(np.arange(N // 2), 2)
    given = Table({"a": SIGNAL[rows], "y": LABELS[rows]})
    assert "100 of 200 rows repeat another one exactly" in findings(given)["copies"]
    assert findings(given, group="none") == {}


def test_a_clean_table_gives_no_finding() -> None:
    from sklearn.datasets import load_breast_cancer, load_iris, load_wine

    for load in (load_breast_cancer, load_wine):
        X, y = load(return_X_y=True)
        given = Table({f"x{j}": X[:, j] for j in range(X.shape[1])} | {"y": y})
        assert findings(given) == {}
    X, y = load_iris(return_X_y=True)
    assert set(findings(Table({f"x{j}": X[:, j] for j in range(4)} | {"y": y}))) <= {"copies"}


def test_names_of_identifiers() -> None:
    assert all(map(is_id_name, ["id", "ID", "patient_id", "PatientID", "sampleNr", "Unnamed: 0", "column 1", "index"]))
    assert not any(map(is_id_name, ["width", "acid", "video", "nose", "indexed", "idle"]))
    assert counts_rows("v", np.arange(30.0))
    assert not counts_rows("v", np.arange(30.0) / 2)
    assert not counts_rows("id", np.repeat(np.arange(15.0), 2))
