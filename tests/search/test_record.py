import json

import numpy as np
import pytest

from kem_pymc.search.record import EVALUATIONS, SETTINGS, search_folder
from tests.refusals import refused
from tests.search.conftest import paths, quiet, series

X, Y = series(30)


class TestFolders:
    @pytest.mark.parametrize("method", ["cks", "boms"])
    def test_a_search_is_continued(self, method, tmp_path):
        options = {"method": method, "draws": 16, "seed": 3}
        whole = quiet(X, Y, budget=7, **options)
        quiet(X, Y, budget=3, out=tmp_path / "a", **options)
        lines = (tmp_path / "a" / EVALUATIONS).read_text().splitlines()
        assert len(lines) == 4  # with the constant
        rest = quiet(X, Y, budget=7, out=tmp_path / "a", **options)
        assert paths(rest).equals(paths(whole))
        assert (tmp_path / "a" / EVALUATIONS).read_text().splitlines()[:4] == lines
        assert (np.diff(rest.path["elapsed"]) > 0).all()

    def test_a_line_cut_off_is_computed_again(self, tmp_path):
        file = tmp_path / EVALUATIONS
        quiet(X, Y, budget=3, out=tmp_path)
        complete = file.read_bytes()
        file.write_bytes(complete[:-20])
        result = quiet(X, Y, budget=3, out=tmp_path)
        again = [json.loads(line) for line in file.read_text().splitlines()]
        before = [json.loads(line) for line in complete.splitlines()]
        assert [a["expression"] for a in again] == [b["expression"] for b in before]
        assert again[3]["modes"] == before[3]["modes"]
        assert len(result.evaluations) == 4

    def test_refusals(self, tmp_path):
        quiet(X, Y, budget=1, out=tmp_path / "a")
        again = lambda *data, **o: lambda: quiet(*data, budget=2, out=tmp_path / "a", **o)  # noqa: E731
        refused(again(X, Y + X), "different data")
        refused(again(X, Y, seed=5), "different seed")
        refused(again(X, Y, method="boms"), "different method")
        file = tmp_path / "a" / EVALUATIONS
        line = file.read_text().splitlines()[0]
        whole = json.loads(line)
        changed = [
            {**whole, name: other} for name in whole for other in (None, [], {}, "x", -1e308)
        ]
        changed += [
            {**whole, "modes": [{**whole["modes"][0], name: other}]}
            for name in whole["modes"][0]
            for other in (None, [None], "x", [1e308])
        ]
        more = line.replace('"values": [', '"values": [1.0, ')
        for damaged in ("{}", more, *map(json.dumps, changed)):
            file.write_text(f"{damaged}\n")
            refused(again(X, Y), "Line 1", "damaged")
        (tmp_path / "a" / SETTINGS).write_text("no")
        refused(again(X, Y), "damaged")
        (tmp_path / "b").mkdir()
        (tmp_path / "b" / "thesis.tex").write_text("")
        refused(lambda: quiet(X, Y, out=tmp_path / "b"), "isn't empty")
        refused(lambda: quiet(X, Y, out=tmp_path / "b" / "thesis.tex"), "can't be written to")

    def test_another_versions_path_is_refused(self, tmp_path):
        quiet(X, Y, budget=1, out=tmp_path)
        file = tmp_path / EVALUATIONS
        one, two = file.read_text().splitlines(keepends=True)
        file.write_text(two + one)
        refused(lambda: quiet(X, Y, budget=2, out=tmp_path), "Evaluation 1", "would evaluate")

    def test_one_process_at_a_time(self, tmp_path):
        pytest.importorskip("fcntl")
        with search_folder(tmp_path, {}, X[:, None], Y).locked():
            refused(lambda: quiet(X, Y, budget=2, out=tmp_path), "Another process writes to")
