"""The tables of a trial for other programs."""

import json

import numpy as np
import pandas as pd
import pytest

from kem_pymc.trial import exporting
from tests.refusals import refused


def test_tables_say_what_the_trial_knows(trial, rows, tmp_path, monkeypatch):
    trial.add(rows, register=True)
    trial.add([{"id": "ann", "week": 1, "steps": 0.25}])
    trial.update()
    served = trial.predict("ann", [[5.0], [6.0]])
    trial.remove("cid")
    folder = trial.export(tmp_path / "tables")
    refused(lambda: trial.export(folder), "exists already")
    found = {path.stem: pd.read_parquet(path) for path in folder.iterdir()}
    live = found["observations"].query("state == 'live'").astype({"week": float})
    expected = rows[rows["id"] != "cid"].copy()
    expected.loc[1, "steps"] = 0.25
    both = [one.sort_values(["id", "week"])[["id", "week", "steps"]] for one in (live, expected)]
    pd.testing.assert_frame_equal(*(one.reset_index(drop=True) for one in both))
    entries = found["entries"].set_index("entry")
    corrected = found["observations"].query("state == 'superseded'").iloc[0]
    assert json.loads(entries.loc[corrected["entry"], "content"])["steps"] == rows["steps"][1]
    assert found["selections"]["composition"].notna().sum() == 10  # cid's is gone
    kernels = found["kernels"].query("selection == @served.selection")
    assert kernels["weight"].sum() == pytest.approx(1)
    selection = trial.selection("ann")
    best = kernels[kernels["shared"]].iloc[0]
    assert best["composition"] == selection.label()
    assert json.loads(best["hyperparameters"]) == selection.hyperparameters
    assert best["weight"] == (1 - selection.departure) * selection.considered[0].weight
    np.testing.assert_array_equal(found["predictions"]["mean"], served.prediction.mean)
    np.testing.assert_array_equal(found["predictions"]["high_95"], served.quantiles["high_95"])
    assert list(found["predictions"]["week"]) == [5, 6]
    parts = served.to_frame().drop(columns=["sd", *served.quantiles])
    np.testing.assert_allclose(parts.drop(columns="mean").sum(axis=1), parts["mean"], atol=1e-12)

    tree = trial.to_datatree()
    cell = {"participant": "ann", "time_step": 4}
    assert tree["selections"]["composition"].sel(cell).item() == selection.label()
    weights = tree["weights"]["weight"].sel(cell)
    assert float(weights.sum()) == pytest.approx(1)
    own = kernels.groupby("composition")["weight"].sum()
    for composition, weight in own.items():
        assert float(weights.sel(composition=composition)) == pytest.approx(weight)
    assert tree["observed_data"].sizes["point"] == 10

    def full(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(pd.DataFrame, "to_parquet", full)
    refused(lambda: trial.export(tmp_path / "more"), "No space left")
    assert not (tmp_path / "more").exists()


def test_a_trial_without_participants_has_tables(trial, tmp_path):
    assert len(list(trial.export(tmp_path / "tables").iterdir())) == 8
    assert "selections" in trial.to_datatree().children
    assert len(exporting.tables(trial._store)["participants"]) == 0
