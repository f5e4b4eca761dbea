"""A model file gives back the same model to the bit, and a hostile one gives an error and nothing else."""

from __future__ import annotations

import functools
import hashlib
import io
import json
import os
import pickle
import signal
import subprocess
import sys
import textwrap
import time
import tracemalloc
import warnings
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from fuzz_model import mutate, valid_file
from smaller import (
    IVM,
    JCFO,
    KLR,
    RMLR,
    SBMLR,
    SMLR,
    SMLRCV,
    MinimumRiskClassifier,
    PriorShiftClassifier,
    RejectOptionClassifier,
    SparseProbit,
    SparseRegressor,
)
from smaller.persistence import ModelFileError, atomic_write, load, save, write_together

RNG = np.random.default_rng(0)
X = RNG.normal(size=(40, 5))
Y = {"numbers": RNG.integers(0, 3, 40), "text": np.array(["a", "é", '"<b>'])[RNG.integers(0, 3, 40)]}
TWO = (X[:, 0] > 0).astype(int)


def estimators() -> list[Any]:
    frozen = FrozenEstimator(SMLR().fit(X, TWO))
    return [
        SMLR(),
        SMLR(kernel="rbf", gamma=0.3, class_weight={0: 1.0, 1: 2.0}),
        SMLR(kernel="poly", degree=2),
        SMLR(coding="reference", penalty_factors=np.arange(1.0, 6.0)),
        RMLR(kernel="linear"),
        SMLRCV(alphas=8, eps=0.1, cv=StratifiedKFold(2), rule="1se"),
        KLR(alpha=0.5),
        IVM(alpha=0.5),
        SBMLR(),
        SparseProbit(prior="laplace"),
        JCFO(),
        make_pipeline(StandardScaler(), SMLR(0.3)),
        PriorShiftClassifier(SMLR(), new_priors=[0.2, 0.8]),
        RejectOptionClassifier(MinimumRiskClassifier(frozen, loss=[[0.0, 1.0], [4.0, 0.0]]), threshold=0.2),
    ]


def roundtrip(model: Any, folder: Path) -> Any:
    save(model, folder / "m.smaller")
    return load(folder / "m.smaller")


@pytest.mark.parametrize("model", estimators(), ids=lambda m: type(m).__name__)
def test_predictions_are_identical_to_the_bit(model: Any, tmp_path: Path) -> None:
    model.fit(X, TWO)
    same = roundtrip(model, tmp_path)
    assert type(same) is type(model)
    new = RNG.normal(size=(23, 5))
    assert same.predict_proba(new).tobytes() == model.predict_proba(new).tobytes()
    assert same.predict(new).tobytes() == model.predict(new).tobytes()
    assert repr(same.get_params()) == repr(model.get_params())
    assert same.fit(X, TWO) is same  # and it is an estimator like any other


def test_a_regressor_is_stored_too(tmp_path: Path) -> None:
    model = SparseRegressor(prior="laplace").fit(X, X[:, 0] - 2.0 * X[:, 1] + RNG.normal(size=40))
    assert roundtrip(model, tmp_path).predict(X).tobytes() == model.predict(X).tobytes()


@pytest.mark.parametrize("labels", ["numbers", "text"])
@pytest.mark.parametrize("form", ["dense", "sparse", "frame"])
def test_labels_sparse_rows_and_names_survive(labels: str, form: str, tmp_path: Path) -> None:
    pd = pytest.importorskip("pandas")
    names = ["plain", "", "x,\n", "<script>", "ümlaut \U0001f600"]
    rows = {"dense": X, "sparse": sparse.csr_array(X), "frame": pd.DataFrame(X, columns=names)}[form]
    model = SMLR(kernel="rbf").fit(rows, Y[labels])
    same = roundtrip(model, tmp_path)
    assert same.predict(rows).tolist() == model.predict(rows).tolist()
    assert same.classes_.dtype == model.classes_.dtype
    assert same.predict_proba(rows).tobytes() == model.predict_proba(rows).tobytes()
    assert list(getattr(same, "feature_names_in_", [])) == list(getattr(model, "feature_names_in_", []))


def test_the_certificate_survives(tmp_path: Path) -> None:
    model = SMLR(0.5).fit(X, Y["numbers"])
    same = roundtrip(model, tmp_path)
    assert same.solution_.status is model.solution_.status
    assert (same.solution_.gap, same.solution_.objective) == (model.solution_.gap, model.solution_.objective)


def test_equal_models_give_equal_files(tmp_path: Path) -> None:
    for name in ("a", "b"):
        save(SMLR().fit(X, TWO), tmp_path / name)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def rational(A: Any, B: Any) -> Any:
    return 1.0 / (1.0 + ((A[:, None, :] - B[None, :, :]) ** 2).sum(axis=2))


@pytest.mark.parametrize(
    ("model", "words"),
    [
        (SMLR(kernel=rational), "no code"),
        (SMLR(random_state=np.random.RandomState(0)), "no code"),
    ],
)
def test_what_is_not_data_is_refused_with_advice(model: Any, words: str, tmp_path: Path) -> None:
    with pytest.raises(ModelFileError, match=words):
        save(model.fit(X, TWO), tmp_path / "m.smaller")
    assert list(tmp_path.iterdir()) == []


def test_an_unfitted_model_is_refused(tmp_path: Path) -> None:
    with pytest.raises(NotFittedError):
        save(SMLR(), tmp_path / "m.smaller")


def test_non_finite_weights_are_refused_both_ways(tmp_path: Path) -> None:
    model = SMLR().fit(X, TWO)
    model.coef_[0, 0] = np.nan
    with pytest.raises(ModelFileError, match="NaN or infinity"):
        save(model, tmp_path / "m.smaller")
    array = np.full((1, 5), np.inf)
    with pytest.raises(ModelFileError, match="NaN or infinity"):
        load(io.BytesIO(forged(lambda head, arrays: arrays.__setitem__(where(head, "coef_"), npy_bytes(array)))))


def test_an_object_array_is_refused() -> None:
    bad = npy_bytes(np.array([{"a": 1}], dtype=object), allow_pickle=True)
    with pytest.raises(ModelFileError, match="dtype"):
        load(io.BytesIO(forged(lambda head, arrays: arrays.__setitem__(0, bad))))


# ---- hostile files --------------------------------------------------------------------------------------------------


def npy_bytes(array: Any, allow_pickle: bool = False) -> bytes:
    buffer = io.BytesIO()
    np.lib.format.write_array(buffer, array, allow_pickle=allow_pickle)
    return buffer.getvalue()


def parts() -> tuple[dict[str, Any], list[bytes]]:
    with zipfile.ZipFile(io.BytesIO(valid_file())) as archive:
        head = json.loads(archive.read("model.json"))
        return head, [archive.read(f"{i}.npy") for i in range(len(head["arrays"]))]


def where(head: dict[str, Any], field: str) -> int:
    return int(head["model"]["state"][field]["array"])


def assemble(head: Any, arrays: list[bytes], extra: dict[str, bytes] | None = None, **zip_options: Any) -> bytes:
    """Write a file whose checksums are right, whatever it says."""
    text = head if isinstance(head, bytes) else json.dumps(head).encode()
    buffer = io.BytesIO()
    with warnings.catch_warnings(), zipfile.ZipFile(buffer, "w", **zip_options) as archive:
        warnings.simplefilter("ignore")  # repeated member names are part of the attack
        archive.writestr("model.json", text)
        archive.writestr("sha256", hashlib.sha256(text).hexdigest())
        for i, data in enumerate(arrays):
            archive.writestr(f"{i}.npy", data)
        for name, data in (extra or {}).items():
            archive.writestr(name, data)
    return buffer.getvalue()


def forged(change: Callable[[dict[str, Any], list[bytes]], Any]) -> bytes:
    head, arrays = parts()
    change(head, arrays)
    head["arrays"] = [hashlib.sha256(data).hexdigest() for data in arrays]
    return assemble(head, arrays)


def changed_state(**state: Any) -> bytes:
    return forged(lambda head, arrays: head["model"]["state"].update(state))


def huge_header(shape: tuple[int, ...], descr: str = "<f8") -> bytes:
    buffer = io.BytesIO()
    np.lib.format.write_array_header_1_0(buffer, {"descr": descr, "fortran_order": False, "shape": shape})
    return buffer.getvalue()


@functools.cache
def hostile() -> dict[str, bytes]:
    good = valid_file()
    head, arrays = parts()
    nested: Any = 1
    for _ in range(200):
        nested = {"list": [nested]}
    deep = b'{"model":' + b"[" * 100_000 + b"]" * 100_000 + b"}"
    return {
        "empty": b"",
        "junk": bytes(range(256)) * 20,
        "pickle": pickle.dumps({"a": 1}),
        "truncated": good[: len(good) // 2],
        "tail cut": good[:-10],
        "bit flip in an array": good.replace(arrays[0][-8:], bytes(8), 1),
        "zip without model": assemble(b"{}", []),
        "another format": forged(lambda head, arrays: head.update(format="x")),
        "newer version": forged(lambda head, arrays: head.update(version=999)),
        "compressed (bomb)": assemble(head, [*arrays, bytes(10**7)], compression=zipfile.ZIP_DEFLATED),
        "extra member": assemble(head, arrays, {"readme.txt": b"x"}),
        "path trick": assemble(head, arrays, {"../../etc/passwd": b"x"}),
        "absolute path": assemble(head, arrays, {"/tmp/x": b"x"}),
        "windows path": assemble(head, arrays, {"C:\\x.npy": b"x"}),
        "repeated member": assemble(head, arrays, {"0.npy": arrays[0]}),
        "unlisted array": assemble(head, arrays, {f"{len(arrays)}.npy": arrays[0]}),
        "huge shape": forged(lambda head, arrays: arrays.__setitem__(0, huge_header((10**12,)))),
        "overflowing shape": forged(lambda head, arrays: arrays.__setitem__(0, huge_header((2**62, 2**62)))),
        "endless empty strings": forged(lambda head, arrays: arrays.__setitem__(0, huge_header((10**15,), "<U0"))),
        "negative shape": forged(lambda head, arrays: arrays.__setitem__(0, huge_header((-1, -1)))),
        "structured dtype": forged(lambda head, arrays: arrays.__setitem__(0, npy_bytes(np.zeros(2, "i4,f8")))),
        "dates": forged(lambda head, arrays: arrays.__setitem__(0, npy_bytes(np.zeros(2, "M8[s]")))),
        "bad characters": forged(
            lambda head, arrays: arrays.__setitem__(
                where(head, "classes_"), huge_header((1,), "<U1") + b"\xff\xff\xff\x7f"
            )
        ),
        "deep JSON": assemble(deep, []),
        "deep tree": changed_state(alpha=nested),
        "NaN in JSON": assemble(json.dumps(head).replace("1.0", "NaN").encode(), arrays),
        "infinite number": assemble(json.dumps(head).replace("1.0", "1e999").encode(), arrays),
        "huge integer": assemble(json.dumps(head).replace("1.0", "9" * 5000).encode(), arrays),
        "repeated key": assemble(b'{"format":"smaller-model","format":"smaller-model"}', []),
        "unknown type": forged(lambda head, arrays: head["model"].update(object="os.system")),
        "other module's type": forged(lambda head, arrays: head["model"].update(object="subprocess.Popen")),
        "method replaced": changed_state(predict={"list": []}),
        "dunder": changed_state(__class__=1),
        "not an identifier": changed_state(**{"a b": 1}),
        "array out of range": changed_state(coef_={"array": 10**6}),
        "negative array": changed_state(coef_={"array": -1}),
        "list as value": changed_state(alpha=[1]),
        "unknown kind": changed_state(alpha={"eval": "1"}),
        "lone surrogate": changed_state(solver="\ud800"),
        "nan number": changed_state(alpha={"float": "nan"}),
        "missing parameter": forged(lambda head, arrays: head["model"]["state"].pop("alpha")),
        "bad scalar": changed_state(alpha={"scalar": ["float64", "x"]}),
        "bad sparse": changed_state(coef_={"sparse": ["csr_array", [10**9, 5], *([{"array": 0}] * 3)]}),
        "unknown enum": changed_state(solution_={"enum": ["smaller.problem.Status", "NOPE"]}),
        "not an enum": changed_state(solution_={"enum": ["smaller.problem.Solution", "w"]}),
        "dataclass fields": changed_state(_likelihood={"object": "smaller.likelihoods.Multinomial", "state": {"a": 1}}),
        "unhashable key": changed_state(alpha={"dict": [[{"list": []}, 1]]}),
        "state is a list": forged(lambda head, arrays: head["model"].update(state=[])),
        "model is missing": forged(lambda head, arrays: head.pop("model")),
        "colliding keys": changed_state(alpha={"dict": [[k * (2**61 - 1), 0] for k in range(1, 40_000)]}),
        "tuples as keys": changed_state(alpha={"dict": [[{"tuple": [1]}, 0]]}),
        "a million empty lists": assemble(b'{"model":[' + b"[]," * 1_000_000 + b"[]]}", []),
        "millions of names": assemble(b'{"model":[' + b'"a",' * 4_000_000 + b'"a"]}', []),
        "arrays is a number": assemble({**head, "arrays": 3}, arrays),
    }


@pytest.mark.parametrize("name", hostile())
def test_a_hostile_file_gives_one_clear_error(name: str) -> None:
    with pytest.raises(ModelFileError) as caught:
        load(io.BytesIO(hostile()[name]))
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 400


@pytest.mark.parametrize("name", ["colliding keys", "a million empty lists", "millions of names"])
def test_a_hostile_file_takes_little_time_and_memory(name: str) -> None:
    content = hostile()[name]
    start = time.process_time()
    tracemalloc.start()
    with pytest.raises(ModelFileError):
        load(io.BytesIO(content))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert time.process_time() - start < 3.0
    assert peak < 4 * len(content) + 40_000_000


def test_labels_of_any_plain_kind_stay_keys(tmp_path: Path) -> None:
    weights = {0: 1.0, 1: 2.0, "a": 1.0, 2**60: 1.0, None: 0.5, np.int64(3): 1.0, 0.5: 1.0}
    assert roundtrip(SMLR(class_weight={0: 1.0, 1: 2.0}).fit(X, TWO), tmp_path).class_weight == {0: 1.0, 1: 2.0}
    model = SMLR().fit(X, TWO).set_params(class_weight=weights)
    assert roundtrip(model, tmp_path).class_weight == weights


def test_a_valid_file_passes_the_same_machinery() -> None:
    head, arrays = parts()
    assert load(io.BytesIO(assemble(head, arrays))).predict(X[:3, :2]).shape == (3,)


def test_a_large_file_is_refused_unread() -> None:
    with pytest.raises(ModelFileError, match="max_bytes"):
        load(io.BytesIO(valid_file()), max_bytes=100)


def test_a_missing_file_is_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        load(tmp_path / "none.smaller")


@settings(max_examples=100)
@given(st.data())
def test_a_mutated_file_is_read_or_refused(data: st.DataObject) -> None:
    content = mutate(data.draw)
    try:
        model = load(io.BytesIO(content))
    except ModelFileError:
        return
    assert model is None or not callable(model)


# ---- writing --------------------------------------------------------------------------------------------------------


def test_a_failed_write_leaves_the_old_file(tmp_path: Path) -> None:
    target = tmp_path / "out"
    target.write_text("before")

    def write() -> None:
        with atomic_write(target) as file:
            file.write(b"half")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write()
    assert target.read_text() == "before"
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_a_read_only_file_and_a_folder_are_not_replaced(tmp_path: Path) -> None:
    (tmp_path / "old").write_text("x")
    (tmp_path / "old").chmod(0o444)
    (tmp_path / "folder").mkdir()
    for name, words in (("old", "read-only"), ("folder", "is a folder")):
        with pytest.raises(OSError, match=words), atomic_write(tmp_path / name):
            pass
    assert sorted(path.name for path in tmp_path.iterdir()) == ["folder", "old"]


def test_a_forged_ledger_moves_nothing(tmp_path: Path) -> None:
    (tmp_path / "victim").write_text("x")
    for forged_ledger in ('[["victim", "taken"]]', '[["../a", "b"]]', "junk", "[1]"):
        (tmp_path / ".smaller-renames.json").write_text(forged_ledger)
        write_together(tmp_path, {"new": b"1"})
    assert sorted(path.name for path in tmp_path.iterdir()) == ["new", "victim"]


def test_permissions_follow_the_umask_and_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old, new = tmp_path / "old", tmp_path / "new"
    old.write_text("x")
    old.chmod(0o640)
    mask = os.umask(0)
    os.umask(mask)
    with monkeypatch.context() as patch:
        patch.delattr(os, "umask")  # not even for a moment: other threads would notice
        for path in (old, new):
            with atomic_write(path) as file:
                (temporary,) = tmp_path.glob(f".{path.name}.*.tmp")
                assert temporary.stat().st_mode & ~0o640 & 0o777 == 0 or path == new
                file.write(b"y")
    assert old.stat().st_mode & 0o777 == 0o640
    assert new.stat().st_mode & 0o777 == 0o666 & ~mask


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="needs SIGKILL")
def test_kill_in_the_middle_of_writing_loses_nothing(tmp_path: Path) -> None:
    target = tmp_path / "m.smaller"
    save(SMLR().fit(X, TWO), target)
    before = target.read_bytes()
    script = textwrap.dedent(
        f"""
        import os, signal
        from smaller.persistence import atomic_write
        with atomic_write({str(target)!r}) as file:
            file.write(b"half of a model")
            file.flush()
            os.kill(os.getpid(), signal.SIGKILL)
        """
    )
    done = subprocess.run([sys.executable, "-c", script], check=False)
    assert done.returncode == -signal.SIGKILL
    assert target.read_bytes() == before
