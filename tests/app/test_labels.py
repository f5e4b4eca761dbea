"""Classes with few rows: left out, or made one, and remembered by the model."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import smaller
from smaller.app.labels import RareClasses, rare_classes
from smaller.app.study import Question, prepare
from smaller.app.tables import Table, TableError

COUNTS = {"a": 40, "b": 30, "c": 4, "d": 3, "e": 1}


def columns(counts: dict[Any, int]) -> dict[str, Any]:
    """A table whose feature tells the classes apart, in mixed order."""
    rng = np.random.default_rng(0)
    y = np.repeat(list(counts), list(counts.values()))
    x = np.repeat(np.arange(len(counts)) * 2.0, list(counts.values())) + rng.normal(size=len(y))
    order = rng.permutation(len(y))
    return {"x": x[order], "noise": rng.normal(size=len(y)), "y": y[order]}


def written(folder: Path, counts: dict[Any, int], name: str = "t.csv") -> Path:
    table = columns(counts)
    lines = [",".join(table), *(",".join(map(str, row)) for row in zip(*table.values(), strict=True))]
    path = folder / name
    path.write_text("\n".join(lines) + "\n")
    return path


@given(st.lists(st.integers(0, 9), min_size=1, max_size=60), st.integers(2, 8), st.booleans())
def test_rare_classes_are_those_of_few_rows(labels: list[int], least: int, merge: bool) -> None:
    counts = Counter(labels)
    few = {label for label, count in counts.items() if count < least}
    found = rare_classes(np.array(labels), **{"merge" if merge else "drop": least})
    left, kept = found.settle(np.array(labels))
    if not merge:
        assert kept.tolist() == [i for i, label in enumerate(labels) if label not in few]
        assert left.tolist() == [label for label in labels if label not in few]
    elif len(few) < 2:  # nothing to merge it with
        assert left.tolist() == labels
    else:
        assert left.tolist() == ["other" if label in few else str(label) for label in labels]
        assert kept.tolist() == list(range(len(labels)))


def test_one_sentence_names_all_of_them() -> None:
    y = columns(COUNTS)["y"]
    assert rare_classes(y, drop=5).sentence == (
        "3 classes with fewer than 5 rows ('c': 4, 'd': 3, 'e': 1) were left out: 8 rows."
    )
    assert rare_classes(y, drop=2).sentence == "1 class with fewer than 2 rows ('e': 1) was left out: 1 row."
    assert "('c': 4, 'd': 3, 'e': 1) became one class 'other' of 8 rows" in rare_classes(y, merge=5).sentence
    assert "keeps its name" in rare_classes(y, merge=2).sentence
    assert "No class has fewer than 2 rows" in rare_classes(np.repeat([0, 1], 5), drop=2).sentence
    assert rare_classes(y) == RareClasses()


def test_a_class_called_other_takes_the_rare_ones_in() -> None:
    y = np.repeat(["a", "other", "z"], [9, 8, 1])
    found = rare_classes(y, merge=5)
    assert found.sentence == "1 class with fewer than 5 rows ('z': 1) joined the class 'other', now 9 rows."
    assert Counter(found.settle(y)[0].tolist()) == {"a": 9, "other": 9}


@pytest.mark.parametrize(
    ("counts", "asked", "words"),
    [
        (
            COUNTS,
            {},
            r"3 classes of 'y' have fewer than 5 rows \('c': 4, 'd': 3, 'e': 1\).*--drop-rare 5.*--merge-rare",
        ),
        (COUNTS, {"drop_rare": 4}, r"1 class of 'y' has fewer than 5 rows \('c': 4\)"),
        (COUNTS, {"merge_rare": 4}, r"2 classes of 'y' have fewer than 5 rows \('c': 4, 'other': 4\)"),
        (COUNTS, {"drop_rare": 35}, "only one class, 'a'"),
        (COUNTS, {"drop_rare": 99}, "no class with enough rows"),
        (COUNTS, {"drop_rare": 1}, "at least 2, not 1"),
        (COUNTS, {"drop_rare": 5, "merge_rare": 5}, "choose one"),
        (dict.fromkeys(range(10, 400), 6), {}, "390 different values.*--merge-rare N"),
        (dict.fromkeys(range(10_001), 1), {"drop_rare": 5}, "10001 different values, too many"),
    ],
)
def test_what_cannot_be_learnt_is_refused_with_advice(counts: Any, asked: dict[str, int], words: str) -> None:
    with pytest.raises(TableError, match=words):
        prepare(Table(columns(counts)), Question("y", **asked))


def test_the_rows_that_are_left_keep_their_features_and_numbers() -> None:
    table = columns(COUNTS)
    data = prepare(Table(table), Question("y", drop_rare=5))
    expected = [i for i, label in enumerate(table["y"]) if label in ("a", "b")]
    assert data.numbers is not None
    assert data.numbers.tolist() == expected
    assert data.X[:, 0].tolist() == table["x"][expected].tolist()
    assert data.y.tolist() == table["y"][expected].tolist()


def test_the_command_says_it_and_a_second_table_is_treated_alike(run: Callable[..., Any], tmp_path: Path) -> None:
    train, second = written(tmp_path, COUNTS), written(tmp_path, {"a": 30, "b": 20, "d": 7, "e": 5}, "second.csv")
    quick = ("-t", "y", "--repeats", 1, "--no-shuffle", "--threads", 1)
    code, _, err = run("fit", train, *quick, "--out", tmp_path / "none")
    assert code == 2
    assert "--merge-rare" in err
    for option, classes, counts in (
        ("--drop-rare", ["a", "b"], [40, 30]),
        ("--merge-rare", ["a", "b", "other"], [40, 30, 8]),
    ):
        out = tmp_path / option
        code, _, err = run("fit", train, *quick, option, 5, "--out", out)
        facts = json.loads((out / "report.json").read_text())
        assert code == 0
        assert "3 classes with fewer than 5 rows" in err
        assert (facts["classes"], facts["class_counts"]) == (classes, counts)
        assert "&#x27;c&#x27;: 4" in (out / "report.html").read_text()
        code, printed, _ = run("evaluate", out / "model.smaller", second, "--json")
        judged = json.loads(printed)
        assert code == 0
        assert judged["rows"] == (50 if option == "--drop-rare" else 62)
        assert judged["unlabelled"] == 0
        assert ("12 rows of classes that were left out" in " ".join(judged["notes"])) == (option == "--drop-rare")
    code, _, err = run("fit", train, "-t", "x", "--task", "regression", "--drop-rare", 5, "--out", tmp_path / "r")
    assert code == 2
    assert "--drop-rare is for classes" in err


def test_from_python_numbers_become_names_where_they_are_merged() -> None:
    counts = {1: 40, 2: 30, 7: 4, 9: 4}
    answer = smaller.study(columns(counts), "y", merge_rare=5, repeats=1, shuffle=False)
    assert answer.to_dict()["classes"] == ["1", "2", "other"]
    assert set(answer.predict(columns(counts)).tolist()) <= {"1", "2", "other"}
    dropped = smaller.study(columns(counts), "y", drop_rare=5, repeats=1, shuffle=False)
    assert dropped.model.classes.tolist() == [1, 2]


def test_models_made_before_there_was_a_choice_know_of_no_rare_classes() -> None:
    y = np.array(["a", "b"])
    assert RareClasses.remembered(None).settle(y)[0] is y
    found = rare_classes(columns(COUNTS)["y"], merge=5)
    assert RareClasses.remembered(found.facts).settle(y)[0].tolist() == found.settle(y)[0].tolist()
