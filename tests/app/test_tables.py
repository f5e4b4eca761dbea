"""Reading tables and turning columns into features: what works, and what is refused with advice."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from smaller.app.columns import Column, TableEncoder, codes_of
from smaller.app.labels import class_labels
from smaller.app.tables import Table, TableError, read_table, unique_names
from smaller.persistence import load, save

pa = pytest.importorskip("pyarrow")

ODD = ["plain", 'with "quotes"', "<script>alert(1)</script>", "ümläut 😀", "a,b", "plain", "", "=SUM(A1)"]


def written(folder: Path, text: str | bytes, name: str = "t.csv") -> Path:
    path = folder / name
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def test_csv_numbers_text_and_gaps(tmp_path: Path) -> None:
    table = read_table(written(tmp_path, "a,b,c,d\n1,x,,true\n2,NA,2.5,false\n?,z,nan,\n"))
    assert np.array_equal(table.columns["a"], [1.0, 2.0, np.nan], equal_nan=True)
    assert table.columns["b"].tolist() == ["x", None, "z"]
    assert np.array_equal(table.columns["c"], [np.nan, 2.5, np.nan], equal_nan=True)
    assert table.columns["d"].tolist() == ["true", "false", None]
    assert table.n_rows == 3


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("t.tsv", "a\tb\n1\tx\n2,5\ty\n"),
        ("t.csv", "a;b\n1,5;x\n2,5;y\n"),
        ("t.csv", "\ufeffa,b\r\n1.5,x\r\n2.5,y\r\n"),
        ("t.csv", 'a,b\n1.5,"x\ny"\n2.5,y\n'),
    ],
)
def test_dialects(name: str, text: str, tmp_path: Path) -> None:
    table = read_table(written(tmp_path, text, name))
    assert list(table.columns) == ["a", "b"]
    assert table.n_rows == 2


def test_every_format_gives_the_same_table(tmp_path: Path) -> None:
    from pyarrow import feather, parquet

    data = {"x": [1.5, None, 3.0], "k": ["a", None, "b"], "n": [1, 2, 3]}
    arrow = pa.table(data)
    parquet.write_table(arrow, tmp_path / "t.parquet")
    feather.write_feather(arrow, tmp_path / "t.feather")
    (tmp_path / "t.csv").write_text("x,k,n\n1.5,a,1\n,,2\n3.0,b,3\n")
    for name in ("t.parquet", "t.feather", "t.csv"):
        table = read_table(tmp_path / name)
        assert np.array_equal(table.columns["x"], [1.5, np.nan, 3.0], equal_nan=True)
        assert table.columns["k"].tolist() == ["a", None, "b"]
        assert table.columns["n"].tolist() == [1, 2, 3]


def test_npz_and_svmlight(tmp_path: Path) -> None:
    np.savez(tmp_path / "t.npz", X=np.arange(6.0).reshape(3, 2), y=np.array(["a", "b", "a"]))
    table = read_table(tmp_path / "t.npz")
    assert list(table.columns) == ["X0", "X1", "y"]
    table = read_table(written(tmp_path, "1 1:0.5 4:2\n-1 2:1\n", "t.svm"))
    assert table.block.shape == (2, 4)
    assert table.columns["target"].tolist() == [1.0, -1.0]


@given(st.lists(st.text(max_size=4), min_size=1, max_size=20))
def test_names_become_unique_and_unique_names_stay(names: list[str]) -> None:
    made = unique_names(names)
    assert len(set(made)) == len(names)
    assert all(name.strip() for name in made)
    assert all(new == old for new, old in zip(made, names, strict=True) if names.count(old) == 1 and old.strip())


def test_odd_names_are_kept_apart(tmp_path: Path) -> None:
    import csv

    with (tmp_path / "t.csv").open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([ODD, range(len(ODD)), range(len(ODD))])
    names = list(read_table(tmp_path / "t.csv").columns)
    assert names == [*ODD[:5], "plain (2)", "column 7", ODD[7]]


def encoded(**columns: Any) -> tuple[TableEncoder, list[str], Any]:
    table = Table({name: np.asarray(values, dtype=object if isinstance(values[0], str) else None)
                   for name, values in columns.items()})  # fmt: skip
    encoder, notes = TableEncoder.learn(table, "y")
    return encoder, notes, encoder.transform(table)


def test_categories_become_indicators() -> None:
    encoder, _, X = encoded(
        c=["r", "g", "b", "r"], two=["no", "yes", "no", "no"], v=[1.0, 2.0, 3.0, 4.0], y=[0, 1, 0, 1]
    )
    assert encoder.features == ["c = b", "c = g", "c = r", "two = yes", "v"]
    assert X.tolist() == [[0, 0, 1, 0, 1], [0, 1, 0, 1, 2], [1, 0, 0, 0, 3], [0, 0, 1, 0, 4]]


def test_gaps_are_marked_when_there_are_enough() -> None:
    values = np.r_[np.full(6, np.nan), np.arange(10.0)]
    encoder, notes, X = encoded(v=values, y=np.tile([0, 1], 8))
    assert encoder.features == ["v", "v is missing"]
    assert X[:, 1].sum() == 6
    assert "6 missing values (38%)" in notes[0]


def test_useless_columns_are_left_out_and_reported() -> None:
    ids = [f"id-{i}" for i in range(30)]
    encoder, notes, _ = encoded(i=ids, one=[3.0] * 30, none=[np.nan] * 30, v=np.arange(30.0), y=[0, 1] * 15)
    assert encoder.features == ["v"]
    assert ["identifier" in notes[0], "constant" in notes[1], "empty" in notes[2]] == [True] * 3


def test_an_unknown_level_is_no_level_and_is_reported() -> None:
    encoder, _, _ = encoded(c=["r", "g", "b"] * 4, y=[0, 1] * 6)
    new = Table({"c": np.array(["g", "violet"], dtype=object)})
    assert encoder.transform(new).tolist() == [[0, 1, 0], [0, 0, 0]]
    assert "1 values not seen" in encoder.unknown_levels(new)[0]


def test_numbers_where_training_had_text_match_by_their_text() -> None:
    column = Column("c", ("1", "2", "x"))
    assert [feature.tolist() for feature in column.encode(np.array([1, 2]))] == [[1, 0], [0, 1], [0, 0]]


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        ({"z": np.array([1.0])}, "lacks the column"),
        ({"v": np.array(["text"], dtype=object)}, "must hold numbers"),
        ({"v": np.array([np.inf])}, "infinite"),
    ],
)
def test_a_table_that_does_not_fit_the_model_is_refused(columns: Any, words: str) -> None:
    encoder, _, _ = encoded(v=np.arange(12.0), y=[0, 1] * 6)
    with pytest.raises(TableError, match=words):
        encoder.transform(Table(columns))


def test_an_encoder_survives_a_model_file(tmp_path: Path) -> None:
    encoder, _, _ = encoded(c=["r", "g", "<b>"] * 4, v=np.arange(12.0), y=[0, 1] * 6)
    save(encoder, tmp_path / "e.smaller")
    assert load(tmp_path / "e.smaller") == encoder


def test_labels_stay_numbers_or_text_and_rows_without_are_left_out() -> None:
    table = Table({"y": np.array([1.0, 2.0, np.nan] + [1.0, 2.0] * 5)})
    labels, rows = class_labels(table, "y")
    assert labels.dtype == np.int64
    assert rows.tolist() == [0, 1, *range(3, 13)]


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ([0.5, 1.5] * 10, "fractional"),
        ([1] * 20, "only one class"),
        ([np.nan] * 20, "no values"),
        ([0] * 19 + [1], "1 class of 'y' has fewer than 5 rows"),
        (list(range(200)), "too many"),
    ],
)
def test_a_column_that_is_no_target_is_refused(values: list[Any], words: str) -> None:
    with pytest.raises(TableError, match=words):
        class_labels(Table({"y": np.array(values)}), "y")


def test_dates_are_refused_unless_dropped(tmp_path: Path) -> None:
    table = read_table(written(tmp_path, "d,v,y\n" + "2020-01-01,1,a\n2021-01-01,2,b\n" * 6))
    with pytest.raises(TableError, match="dates"):
        TableEncoder.learn(table, "y")
    encoder, _ = TableEncoder.learn(table, "y", drop=["d"])
    assert encoder.features == ["v"]


def test_sparse_blocks_keep_their_width() -> None:
    from scipy import sparse

    table = Table({"target": np.array([0, 1] * 6)}, sparse.csr_array(np.eye(12, 4)), [f"f{j}" for j in range(4)])
    encoder, _ = TableEncoder.learn(table, "target")
    for width in (2, 4, 7):
        assert encoder.transform(Table({}, sparse.csr_array(np.eye(3, width)), [])).shape == (3, 4)


def test_values_are_found_among_levels_by_their_text() -> None:
    text = np.array(["b", None, "a", "", "c", "b"], dtype=object)
    assert codes_of(text, ["a", "b"]).tolist() == [1, -1, 0, -1, -1, 1]
    assert codes_of(text, ["", "a"]).tolist() == [-1, -1, 1, 0, -1, -1]
    assert codes_of(np.array([1.0, np.nan, 2.5, 1.0]), ["1", "2.5"]).tolist() == [0, -1, 1, 0]


def test_text_of_a_file_is_one_object_a_value(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    cells = rng.choice(["red", "green", "NA"], 2000)
    read = read_table(written(tmp_path, "c,v\n" + "".join(f"{cell},1\n" for cell in cells))).columns["c"]
    assert read.tolist() == [None if cell == "NA" else cell for cell in cells]
    assert len({id(cell) for cell in read.tolist()}) == 3
