"""The command line: what it prints and writes, and that every broken input gives one sentence and writes nothing."""

from __future__ import annotations

import csv
import io
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("typer")
pytest.importorskip("rich")
pa = pytest.importorskip("pyarrow")
from joblib import Parallel, delayed, effective_n_jobs  # noqa: E402
from pyarrow import feather, parquet  # noqa: E402
from threadpoolctl import threadpool_info, threadpool_limits  # noqa: E402

import smaller  # noqa: E402
from smaller import SMLR, threads  # noqa: E402
from smaller.app.cli import main  # noqa: E402
from smaller.app.commands import fit as fit_command  # noqa: E402
from smaller.app.commands import steps  # noqa: E402
from smaller.app.study import facts as say  # noqa: E402
from smaller.persistence import load, save, write_together  # noqa: E402

ROWS = 60
NAMES = ["plain", 'q"uote', "<script>alert(1)</script>", "ümlaut 😀", "plain", "colour", "gaps", "kind"]
Run = Callable[..., tuple[int, str, str]]


def odd_table(folder: Path) -> Path:
    """Write a table with categories, gaps, and names that are quoted, hostile, foreign and repeated."""
    rng = np.random.default_rng(0)
    v = rng.normal(size=(ROWS, 5))
    with (folder / "odd.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(NAMES)
        for i, row in enumerate(v):
            kind = "yes" if row[0] - row[2] + 0.3 * rng.normal() > 0 else "<b>no</b>"
            gap = "" if i % 6 == 0 else f"{row[4]:.4f}"
            writer.writerow([*(f"{x:.4f}" for x in row[:4]), f"{row[3] ** 2:.4f}", "rgb"[i % 3], gap, kind])
    return folder / "odd.csv"


@pytest.fixture(scope="module")
def fitted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the odd table and the results of `smaller fit` on it."""
    folder = tmp_path_factory.mktemp("fitted")
    table, old = odd_table(folder), sys.argv
    sys.argv = ["smaller", "fit", str(table), "-t", "kind", "--out", str(folder / "out"), "-q"]
    try:
        with pytest.raises(SystemExit) as stopped:
            main()
    finally:
        sys.argv = old
    assert stopped.value.code == 0
    return folder


def test_fit_writes_four_files_and_the_report_escapes_every_name(fitted: Path) -> None:
    out = fitted / "out"
    assert sorted(path.name for path in out.iterdir()) == [
        "features.csv",
        "model.smaller",
        "report.html",
        "report.json",
    ]
    page = (out / "report.html").read_text("utf-8")
    assert "<script>alert" not in page
    assert "<b>no</b>" not in page
    facts = json.loads((out / "report.json").read_text())
    assert facts["settings"]["target"] == "kind"
    assert 0.0 <= facts["performance"]["error"] < 0.4
    used = [row["name"] for row in facts["chosen"]["features"]]
    assert {"plain", "<script>alert(1)</script>"} <= set(used)
    with (out / "features.csv").open(newline="", encoding="utf-8") as file:
        assert {row["feature"] for row in csv.DictReader(file)} == set(used)


def test_predict_gives_what_the_model_gives(fitted: Path, run: Run) -> None:
    code, out, _ = run("predict", fitted / "out" / "model.smaller", fitted / "odd.csv")
    assert code == 0
    rows = list(csv.DictReader(io.StringIO(out)))
    from smaller.app.tables import read_table

    model = load(fitted / "out" / "model.smaller")
    proba = model.predict_proba(read_table(fitted / "odd.csv"))
    assert [float(row["p(yes)"]) for row in rows] == proba[:, 1].tolist()
    assert [row["label"] for row in rows] == model.classes[proba.argmax(axis=1)].tolist()


def test_predict_can_reject_and_use_new_priors(fitted: Path, run: Run) -> None:
    model, table = fitted / "out" / "model.smaller", fitted / "odd.csv"
    _, out, _ = run("predict", model, table, "--reject", "0.05", "--json")
    assert any(row["label"] is None for row in json.loads(out))
    assert all((row["label"] is None) == (row["risk"] > 0.05) for row in json.loads(out))
    _, out, _ = run("predict", model, table, "--priors", "yes=1,<b>no</b>=0")
    assert {row["label"] for row in csv.DictReader(io.StringIO(out))} == {"yes"}


def test_inspect_path_compare_and_doctor(fitted: Path, run: Run) -> None:
    code, out, _ = run("inspect", fitted / "out" / "model.smaller", "--json")
    assert code == 0
    assert json.loads(out)["classes"] == ["<b>no</b>", "yes"]
    code, out, _ = run("path", fitted / "odd.csv", "-t", "kind", "--alphas", "5")
    assert code == 0
    assert len({row["alpha"] for row in csv.DictReader(io.StringIO(out))}) == 5
    code, out, _ = run("doctor", "--json")
    assert code == 0
    assert "smlr" in json.loads(out)["models"]


def test_json_goes_to_standard_output_alone(fitted: Path, run: Run, tmp_path: Path) -> None:
    code, out, err = run("fit", fitted / "odd.csv", "-t", "kind", "--out", tmp_path / "o", "--json", "--rule", "min")
    assert (code, err) == (0, "")
    assert json.loads(out)["settings"]["rule"] == "min"


def test_a_seed_gives_the_same_results_on_any_number_of_threads(fitted: Path, run: Run, tmp_path: Path) -> None:
    assert run("fit", fitted / "odd.csv", "-t", "kind", "--out", tmp_path / "o", "-q", "--threads", 3)[0] == 0
    first, second = (json.loads((out / "report.json").read_text()) for out in (fitted / "out", tmp_path / "o"))
    for facts in (first, second):
        del facts["seconds"], facts["command"]
    assert first == second


def test_threads_go_to_the_folds_of_small_tables_and_to_the_algebra_of_large_ones() -> None:
    np.ones((2, 2)) @ np.ones((2, 2))  # linear algebra is loaded
    with threadpool_limits(2):  # libraries built for one thread, which other tests may have loaded, stay at one
        able = {part["filepath"] for part in threadpool_info() if part["num_threads"] == 2}

    def shared(rows: int) -> tuple[int, set[int]]:
        with steps.shared_threads(2, np.broadcast_to(0.0, (rows, 3))):
            algebra = {part["num_threads"] for part in threadpool_info() if part["filepath"] in able}
            workers = Parallel()(delayed(threads.carried(threads.count))() for _ in range(3))
            return effective_n_jobs(None), algebra | {threads.count(), *workers}

    assert able
    assert shared(100) == (2, {1})
    before = dict(os.environ)
    assert shared(100_000) == (1, {2})
    assert dict(os.environ) == before


def test_the_demo_ends_with_the_path_of_its_report(run: Run, tmp_path: Path) -> None:
    code, out, _ = run("demo", "--data", "wines", "--out", tmp_path / "demo")
    assert code == 0
    assert out.splitlines()[-1] == f"report: {tmp_path / 'demo' / 'report.html'}"
    assert "features used" in out
    assert (tmp_path / "demo" / "report.html").stat().st_size < 2_000_000


def test_a_model_that_did_not_converge_is_written_with_a_caution(
    fitted: Path, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = say.certificate
    monkeypatch.setattr(say, "certificate", lambda model: real(model) | {"converged": False})
    code, out, _ = run("fit", fitted / "odd.csv", "-t", "kind", "--out", tmp_path / "o")
    assert code == 0
    assert "caution: The final model is not certified" in " ".join(out.split())
    assert "Caution." in (tmp_path / "o" / "report.html").read_text("utf-8")


def test_an_unusable_model_has_an_exit_code_of_its_own_and_writes_nothing(
    fitted: Path, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = say.certificate
    monkeypatch.setattr(say, "certificate", lambda model: real(model) | {"objective": float("nan")})
    code, out, error = run("fit", fitted / "odd.csv", "-t", "kind", "--out", tmp_path / "o")
    assert (code, out) == (4, "")
    assert error.startswith("smaller: ")
    assert error.count("\n") == 1
    assert not (tmp_path / "o").exists()


# ---- broken inputs --------------------------------------------------------------------------------------------------

CLASSES = "a,y\n" + "1.5,u\n2.5,w\n" * 10


def csv_case(text: str | bytes, *options: str, name: str = "t.csv") -> Callable[[Path, Path], list[object]]:
    def make(folder: Path, fitted: Path) -> list[object]:
        (folder / name).write_bytes(text.encode() if isinstance(text, str) else text)
        return ["fit", folder / name, "-t", "y", *options]

    return make


def arrow_case(columns: dict[str, Any], write: Callable[[Any, Path], Any], name: str, cut: int | None = None) -> Any:
    def make(folder: Path, fitted: Path) -> list[object]:
        write(pa.table(columns), folder / name)
        if cut is not None:
            content = (folder / name).read_bytes()
            (folder / name).write_bytes(content[: len(content) * cut // 100])
        return ["fit", folder / name, "-t", "y"]

    return make


def model_case(change: Callable[[bytes], bytes]) -> Callable[[Path, Path], list[object]]:
    def make(folder: Path, fitted: Path) -> list[object]:
        (folder / "m.smaller").write_bytes(change((fitted / "out" / "model.smaller").read_bytes()))
        return ["predict", folder / "m.smaller", fitted / "odd.csv"]

    return make


def bomb(content: bytes) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("model.json", b"0" * 50_000_000)
    return buffer.getvalue()


def traveller(content: bytes) -> bytes:
    buffer = io.BytesIO(content)
    with zipfile.ZipFile(buffer, "a") as archive:
        archive.writestr("../../../tmp/evil", b"x")
    return buffer.getvalue()


def other_model(folder: Path, fitted: Path) -> list[object]:
    save(SMLR().fit([[0.0], [1.0], [2.0], [3.0]], [0, 0, 1, 1]), folder / "m.smaller")
    return ["predict", folder / "m.smaller", fitted / "odd.csv"]


def npz_case(**arrays: Any) -> Callable[[Path, Path], list[object]]:
    def make(folder: Path, fitted: Path) -> list[object]:
        np.savez(folder / "t.npz", **arrays)
        return ["fit", folder / "t.npz", "-t", "y"]

    return make


def predict_case(text: str, *options: str) -> Callable[[Path, Path], list[object]]:
    def make(folder: Path, fitted: Path) -> list[object]:
        (folder / "t.csv").write_text(text)
        return ["predict", fitted / "out" / "model.smaller", folder / "t.csv", *options]

    return make


def quoted(names: list[str]) -> str:
    return ",".join('"' + name.replace('"', '""') + '"' for name in names)


def with_odd(*options: object) -> Callable[[Path, Path], list[object]]:
    return lambda folder, fitted: ["predict", fitted / "out" / "model.smaller", fitted / "odd.csv", *options]


GOOD = {"a": list(range(20)), "y": ["u", "w"] * 10}
BROKEN: dict[str, tuple[Callable[[Path, Path], list[object]], str]] = {
    "no such file": (lambda folder, fitted: ["fit", folder / "none.csv", "-t", "y"], "no such file"),
    "a folder": (lambda folder, fitted: ["fit", folder, "-t", "y"], "unknown"),
    "unknown ending": (csv_case(CLASSES, name="t.xls"), "ending"),
    "Excel in name only": (csv_case(CLASSES, name="t.xlsx"), "Excel"),
    "gzip in name only": (csv_case(CLASSES, name="t.csv.gz"), "gzip"),
    "svmlight with a far index": (csv_case("1 1:1 2147483646:1\n0 1:0.5\n" * 30, name="t.svm"), "large gaps"),
    "unknown encoding": (csv_case(CLASSES, "--encoding", "klingon"), "unknown: try utf-8"),
    "wrong encoding": (csv_case("a,y\n1,caf\xe9\n".encode("latin-1") * 9, "--encoding", "ascii"), "not text in ascii"),
    "Shift-JIS": (csv_case("a,\u3001\n1,\u30bd\n".encode("shift_jis") * 9), "--encoding"),
    "empty file": (csv_case(""), "empty"),
    "only a newline": (csv_case("\n"), "cannot be read|no rows|no column|empty"),
    "header only": (csv_case("a,y\n"), "no rows"),
    "binary junk": (csv_case(bytes(range(256)) * 10), "binary"),
    "junk without zeros": (csv_case(bytes(range(1, 256)) * 10), "cannot be read|UTF-8|no column|no rows"),
    "ragged rows": (csv_case("a,y\n1,u\n2\n3,w,4\n"), "cannot be read"),
    "open quote": (csv_case('a,y\n"1,u\n2,w\n'), "cannot be read|no column|no rows"),
    "wrong target": (csv_case(CLASSES.replace("y", "Y")), "did you mean 'Y'"),
    "target dropped too": (csv_case(CLASSES, "--drop", "a"), "No column is left"),
    "unknown drop": (csv_case(CLASSES, "--drop", "b"), "no column 'b'"),
    "one class": (csv_case("a,y\n" + "1,u\n2,u\n" * 9), "only one class"),
    "rare class": (csv_case(CLASSES + "3,v\n"), "fewer than 5 rows .*--drop-rare 5"),
    "all rows missing a target": (csv_case("a,y\n" + "1,\n2,NA\n" * 9), "no values"),
    "all features missing": (csv_case("a,y\n" + ",u\n,w\n" * 9), "No column is left"),
    "NaN strings everywhere": (csv_case("a,y\n" + "NaN,nan\n" * 9), "no values"),
    "constant feature": (csv_case("a,y\n" + "1,u\n1,w\n" * 9), "No column is left"),
    "identifiers only": (csv_case("a,y\n" + "".join(f"id{i},{'uw'[i % 2]}\n" for i in range(40))), "No column is left"),
    "fractional target": (csv_case("a,y\n" + "1,0.5\n2,1.5\n" * 9), "fractional"),
    "too many classes": (csv_case("a,y\n" + "".join(f"{i},k{i}\n" for i in range(300))), "too many"),
    "infinite numbers": (csv_case("a,y\n" + "inf,u\n2,w\n" * 9), "infinite"),
    "too many levels": (
        csv_case("a,y\n" + "".join(f"id{i % 250},{'uw'[i % 2]}\n" for i in range(1000))), "group them"
    ),
    "dates": (csv_case("a,y\n" + "2020-01-01,u\n2020-01-02,w\n" * 9), "dates"),
    "missing refused": (csv_case(CLASSES + ",u\n", "--missing", "refuse"), "1 missing value:"),
    "unknown policy for gaps": (csv_case(CLASSES, "--missing", "guess"), "--missing"),
    "unknown model": (csv_case(CLASSES, "--model", "forest"), "--model must be one of"),
    "unknown rule": (csv_case(CLASSES, "--rule", "best"), "--rule"),
    "negative seed": (csv_case(CLASSES, "--seed", "-1"), "seed"),
    "no threads": (csv_case(CLASSES, "--threads", "0"), "threads"),
    "unknown option": (csv_case(CLASSES, "--fast"), "fast"),
    "out is a file": (csv_case(CLASSES, "--out", __file__), "not a folder"),
    "truncated Parquet": (arrow_case(GOOD, parquet.write_table, "t.parquet", cut=60), "Parquet"),
    "Parquet in name only": (csv_case(CLASSES, name="t.parquet"), "Parquet"),
    "nested Parquet": (
        arrow_case({"a": [[1], [2]] * 10, "y": ["u", "w"] * 10}, parquet.write_table, "t.parquet"), "neither number"
    ),
    "Parquet without rows": (arrow_case({"a": [], "y": []}, parquet.write_table, "t.parquet"), "no rows"),
    "truncated Feather": (arrow_case(GOOD, feather.write_feather, "t.feather", cut=50), "Feather"),
    "Feather in name only": (csv_case(CLASSES, name="t.arrow"), "Feather"),
    "NPZ of objects": (npz_case(a=np.array([{}, {}], dtype=object), y=np.array(["u", "w"])), "NPZ"),
    "NPZ of unequal lengths": (npz_case(a=np.arange(3.0), y=np.array(["u", "w"])), "different numbers of rows"),
    "NPZ cube": (npz_case(a=np.zeros((2, 2, 2)), y=np.array(["u", "w"])), "dimensions"),
    "NPZ in name only": (csv_case(CLASSES, name="t.npz"), "NPZ"),
    "broken svmlight": (csv_case("1 a:b\n2 x\n", name="t.svm"), "svmlight"),
    "no model": (lambda folder, fitted: ["predict", folder / "m.smaller", fitted / "odd.csv"], "no such file"),
    "model is a table": (lambda folder, fitted: ["predict", fitted / "odd.csv", fitted / "odd.csv"], "model file"),
    "truncated model": (model_case(lambda content: content[: len(content) // 2]), "model file"),
    "model with a flipped byte": (
        model_case(lambda content: content[:5000] + bytes([content[5000] ^ 255]) + content[5001:]), "model file"
    ),
    "zip bomb": (model_case(bomb), "model file"),
    "path trick": (model_case(traveller), "unknown member"),
    "another kind of model": (other_model, "not a model that"),
    "predict lacks a column": (predict_case("plain,colour\n1,r\n"), "lacks the column"),
    "predict text for numbers": (predict_case(quoted(NAMES) + "\nx,1,1,1,1,r,1,u\n"), "must hold numbers"),
    "reject out of range": (with_odd("--reject", "2"), "reject"),
    "priors without numbers": (with_odd("--priors", "yes"), "--priors must look like"),
    "priors of an unknown class": (with_odd("--priors", "yes=1,maybe=0"), "name every class"),
    "priors that add up to more than one": (with_odd("--priors", "yes=.5,<b>no</b>=.6"), "add up to 1.1, not to 1"),
    "out is the table": (
        lambda folder, fitted: [
            "predict", fitted / "out" / "model.smaller", fitted / "odd.csv", "--out", fitted / "odd.csv"
        ],
        "would overwrite",
    ),
    "negative priors": (with_odd("--priors", "yes=-1,<b>no</b>=2"), "at least 0"),
    "no arguments to fit": (lambda folder, fitted: ["fit"], "(?i)missing"),
    "unknown command": (lambda folder, fitted: ["learn"], "learn"),
}  # fmt: skip


def test_there_are_at_least_fifty_broken_inputs() -> None:
    assert len(BROKEN) >= 50


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_input_gives_one_sentence_a_code_and_no_file(
    name: str, fitted: Path, run: Run, tmp_path: Path
) -> None:
    make, words = BROKEN[name]
    arguments = make(tmp_path, fitted)
    out = tmp_path / "written"
    if arguments[0] == "fit" and "--out" not in arguments:
        arguments += ["--out", out]
    before = sorted(tmp_path.rglob("*"))
    code, printed, error = run(*arguments)
    assert code == 2, error
    assert printed == ""
    assert error.startswith("smaller: ")
    assert error.count("\n") == 1
    assert "Traceback" not in error
    assert re.search(words, error), error
    assert sorted(tmp_path.rglob("*")) == before


def test_the_program_alone_prints_its_help_and_every_line_of_it_is_whole(run: Run) -> None:
    for arguments in ([], ["--help"]):
        code, out, err = run(*arguments)
        assert (code, err) == (0, "")
        assert "  predict " in out
        assert "..." not in out.split("Commands:")[1]
    code, out, _ = run("--version")
    assert (code, out) == (0, f"smaller {smaller.__version__}\n")


@pytest.mark.parametrize("package", ["typer", "rich", "pyarrow"])
def test_without_the_extra_one_sentence_names_it(package: str, tmp_path: Path) -> None:
    code = f"""
import sys
class Lacking:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] == {package!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
sys.meta_path.insert(0, Lacking())
sys.argv = ["smaller", "fit", "t.csv", "-t", "y"]
from smaller.app.cli import main
main()
"""
    (tmp_path / "t.csv").write_text(CLASSES)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path, check=False)
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert "'cli'" in done.stderr or "smaller[cli]" in done.stderr


def test_huge_integers_are_numbers(run: Run, tmp_path: Path) -> None:
    rows = "".join(f"{10**25 + i * 10**23},{'uw'[i % 2]}\n" for i in range(30))
    (tmp_path / "t.csv").write_text("a,y\n" + rows)
    assert run("fit", tmp_path / "t.csv", "-t", "y", "--out", tmp_path / "o", "-q")[0] == 0


def test_interrupting_leaves_nothing_behind(
    fitted: Path, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = fit_command.run_study

    def interrupted(*arguments: Any, tick: Any, **keywords: Any) -> Any:
        def stop(stage: str) -> None:
            tick(stage)
            if "stability" in stage:
                os.kill(os.getpid(), signal.SIGINT)

        return real(*arguments, tick=stop, **keywords)

    monkeypatch.setattr(fit_command, "run_study", interrupted)
    code, out, error = run("fit", fitted / "odd.csv", "-t", "kind", "--out", tmp_path / "o")
    assert (code, out, error) == (130, "", "smaller: interrupted; nothing was written.\n")
    assert not (tmp_path / "o").exists()


@pytest.mark.parametrize("encoding", ["latin-1", "cp1252", "utf-16", "utf-16-le", "utf-8-sig"])
def test_accents_in_names_and_values_survive_every_common_encoding(encoding: str, run: Run, tmp_path: Path) -> None:
    colours = ["blau", "gr\xfcn"]
    rows = "".join(f"{i % 2 + i / 40:.3f},{colours[i % 2]}\n" for i in range(40))
    (tmp_path / "t.csv").write_bytes(("\xe2ge \xb5g,caf\xe9\n" + rows).encode(encoding))
    code, _, err = run("fit", tmp_path / "t.csv", "-t", "caf\xe9", "--out", tmp_path / "o")
    assert code == 0, err
    facts = json.loads((tmp_path / "o" / "report.json").read_text())
    assert facts["classes"] == ["blau", "gr\xfcn"]
    assert [row["name"] for row in facts["chosen"]["features"]] == ["\xe2ge \xb5g"]
    assert ("was read as" in err) == (encoding != "utf-8-sig")


def test_no_table_that_is_written_holds_a_formula(run: Run, tmp_path: Path) -> None:
    link = '=HYPERLINK("x")'
    rows = "".join(f"{i % 2 + (i * 7 % 5) / 4:.3f},{link if i % 2 else '-1+1'}\n".replace('"', "'") for i in range(60))
    (tmp_path / "t.csv").write_text("@a,y\n" + rows)
    assert run("fit", tmp_path / "t.csv", "-t", "y", "--out", tmp_path / "o", "-q")[0] == 0
    written = [(tmp_path / "o" / "features.csv").read_text()]
    written.append(run("predict", tmp_path / "o" / "model.smaller", tmp_path / "t.csv")[1])
    written.append(run("path", tmp_path / "t.csv", "-t", "y", "--alphas", "5")[1])
    for text in written:
        cells = {cell for row in csv.reader(io.StringIO(text)) for cell in row if cell}
        assert "'@a" in cells or "'=HYPERLINK('x')" in cells
        assert not [
            cell for cell in cells if cell[0] in "=+-@\t\r" and not re.fullmatch(r"[-+]?[\d.]+(e[-+]?\d+)?", cell)
        ]


def test_extreme_columns_that_cannot_be_computed_with_are_no_defect(
    fitted: Path, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*arguments: Any, **keywords: Any) -> Any:
        raise np.linalg.LinAlgError("Eigenvalues did not converge")

    monkeypatch.setattr(fit_command, "run_study", fails)
    code, _, error = run("fit", fitted / "odd.csv", "-t", "kind", "--out", tmp_path / "o")
    assert code == 4
    assert "extreme range" in error
    assert not (tmp_path / "o").exists()


@pytest.mark.parametrize("obstacle", ["folder", "read-only"])
@pytest.mark.parametrize("name", ["report.html", "features.csv", "model.smaller"])
def test_a_file_that_cannot_be_replaced_leaves_all_as_they_were(
    name: str, obstacle: str, fitted: Path, run: Run, tmp_path: Path
) -> None:
    folder = tmp_path / "out"
    shutil.copytree(fitted / "out", folder)
    if obstacle == "folder":
        (folder / name).unlink()
        (folder / name).mkdir()
    else:
        (folder / name).chmod(0o444)
    before = {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}
    code, _, error = run("fit", fitted / "odd.csv", "-t", "kind", "--out", folder)
    assert code == 2
    assert f"{name}: is " in error
    assert {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()} == before


KILLED = """
import json, os, shutil, signal, sys
from pathlib import Path
from smaller.app.commands import steps # noqa: E402
from smaller.app.study import Study
from smaller.persistence import load
start, folders = Path(sys.argv[1]), Path(sys.argv[2])
facts = json.loads((start / "report.json").read_text()) | {"seconds": 1e9}
study = Study(load(start / "model.smaller"), facts)
real = os.replace
def die(*arguments):
    os.kill(os.getpid(), signal.SIGKILL)
for case in sys.argv[3:]:
    shutil.copytree(start, folders / case)
    child = os.fork()
    if not child:
        victim, left = case.split("-")[0], [int(case.split("-")[1])]
        def replace(old, new):
            left[0] -= 1
            return die() if left[0] < 0 else real(old, new)
        if victim == "replace":
            os.replace = replace
        else:
            setattr(steps, victim, die)
        steps.write(study, folders / case)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork and SIGKILL")
def test_kill_while_the_results_are_written_leaves_the_old_ones_or_the_new(
    fitted: Path, run: Run, tmp_path: Path
) -> None:
    cases = ["model_bytes-0", "render-0", *(f"replace-{count}" for count in range(5))]
    before = {path.name: path.read_bytes() for path in (fitted / "out").iterdir()}
    done = subprocess.run([sys.executable, "-c", KILLED, fitted / "out", tmp_path, *cases], check=False)
    assert done.returncode == 0
    for case in cases:
        folder = tmp_path / case
        if case.endswith("-0"):  # nothing was decided yet
            assert {name: (folder / name).read_bytes() for name in before} == before
        assert run("inspect", folder / "model.smaller")[0] == 0  # whoever comes next finishes what was decided
        is_new = ["1000000000.0" in (folder / name).read_text("utf-8") for name in ("report.json", "report.html")]
        assert is_new == [not case.endswith("-0")] * 2
        assert not list(folder.glob(".smaller*"))
        write_together(folder, before)
        assert {path.name: path.read_bytes() for path in folder.iterdir()} == before  # a dead run's leftovers are gone


def test_grades(run: Run, tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    X = rng.normal(size=(150, 4))
    grades = np.array(["low", "middle", "high"])
    y = grades[np.digitize(2.0 * X[:, 0] - X[:, 1] + rng.logistic(size=150), [-1.0, 1.0])]
    lines = ["a,b,c,d,stage", *(",".join([*(f"{x:.4f}" for x in row), label]) for row, label in zip(X, y, strict=True))]
    table = tmp_path / "stages.csv"
    table.write_text("\n".join(lines), encoding="utf-8")
    out = tmp_path / "report"
    fit = ("fit", table, "--target", "stage", "--repeats", "1", "--no-shuffle", "--alphas", "20")
    code, _, _ = run(*fit, "--ordinal", "low, middle,high", "--out", out)
    assert code == 0
    facts = json.loads((out / "report.json").read_text())
    assert facts["classes"] == ["low", "middle", "high"]
    assert facts["class_counts"] == [int((y == grade).sum()) for grade in grades]
    assert {row["name"] for row in facts["chosen"]["features"]} >= {"a", "b"}
    assert len(facts["chosen"]["intercepts"]) == 2
    confusion = np.array(facts["confusion"])
    assert confusion.sum(axis=1).tolist() == facts["class_counts"]
    assert np.trace(confusion) > np.trace(confusion[:, ::-1])
    page = (out / "report.html").read_text(encoding="utf-8")
    assert "the odds of <b>each step up</b> (low → middle → high)" in page
    with (out / "features.csv").open(encoding="utf-8") as file:
        assert {row["class"] for row in csv.DictReader(file)} == {"each step up"}
    model = load(out / "model.smaller")
    assert model.classes.tolist() == grades.tolist()
    code, said, _ = run("predict", out / "model.smaller", table)
    assert code == 0
    header = said.splitlines()[0]
    assert header.index("p(low)") < header.index("p(middle)") < header.index("p(high)")
    for extra, words in (
        (("--ordinal", "low,high"), "--ordinal must name every class"),
        (("--ordinal", "low,middle,high", "--model", "ivm"), "--ordinal has a model of its own"),
    ):
        code, _, error = run(*fit, *extra, "--out", tmp_path / "never")
        assert code == 2
        assert words in error
