"""The head of a report: main findings, and where users end up."""

from dataclasses import replace
from types import SimpleNamespace

import pandas as pd
import pytest

import kem_pymc as kem
from kem_pymc import Composition, Evolutions
from kem_pymc.reports.gather import Material
from kem_pymc.reports.report import report
from kem_pymc.reports.summary import ends, lines, missing, rows
from tests.evolutions.by_hand import BOTH, LIN, SE, WHITE, cluster, evolutions
from tests.reports.conftest import Page


def test_where_users_end_up_is_listed_and_marked(sharing, tmp_path):
    """Catches the children of another parent than WHITE, and frames around other boxes."""
    final = kem.Evolutions.load(sharing / "evolutions.json").final
    page = Page(report(sharing, tmp_path / "r.html").read_text("utf-8"))
    table = page.text[page.text.index("Where users end up") :]
    table = table[: table.index("What users share")]
    rows = [child for child in final.children("WHITE") if child.probability >= 0.01]
    assert len(rows) > 1
    for child in rows:
        low, high = child.interval
        assert f"{child.probability:.2f} {low:.2f}\N{EN DASH}{high:.2f}" in table
    assert f"With probability {1 - sum(c.probability for c in rows):.2f} it is another" in table
    likely = {str(c.composition) for c in rows if c.probability >= 0.05}
    frames = [a for a in page.all("rect") if a["class"] == "end"]
    assert 0 < len(frames) <= 2 * len(likely)  # in the graph, and in that of phones
    assert "Second frame" in page.text


@pytest.mark.parametrize(("noise", "hint"), [(0.8, True), (0.4, False)])
def test_users_who_all_have_noise_are_a_reason_to_look_again(study, noise, hint):
    """By the probability of noise only, whatever the most probable kernels are."""
    rows = [{"kind": "part", "probability": 0.5}, {"kind": "nothing", "probability": noise}]
    found = SimpleNamespace(parts=pd.DataFrame(rows), mean_changes=1.0)
    moment = SimpleNamespace(composition=Composition(), share=0.4)
    user_reports = [SimpleNamespace(moments=[moment])]
    look = SimpleNamespace(label=str, words=str)
    message = " ".join(lines(Evolutions.load(study / "evolutions.json"), look, user_reports, found))
    assert ("--feedback joint" in message) == hint
    assert "has probability 0.40 on average" in message


def test_probable_evolutions_are_listed_by_parent():
    """Fails where improbable ones aren't counted, or parents aren't kept together."""
    rare = [cluster(draw, WHITE, BOTH, 1) for draw in range(1)]
    common = [
        cluster(draw, WHITE, child, count)
        for draw in range(200)
        for child, count in ((LIN, 30), (SE, 60))
    ]
    later = [cluster(draw, LIN, BOTH, 40) for draw in range(200)]
    learned = evolutions((*rare, *common, *later), n_draws=200)
    kept, others = rows(learned)
    assert [(str(p), str(c.composition)) for p, c in kept] == [
        *(("WHITE", "SE0"), ("WHITE", "LIN0"), ("LIN0", "LIN0 + PER0"))
    ]
    assert others == 1
    assert ends(learned) == ([], 0.0)
    listed, rest = ends(replace(learned, final=learned))
    assert [str(child.composition) for child in listed] == ["SE0", "LIN0"]
    assert rest == pytest.approx(1 - 90 / 92, abs=1e-3)


def test_what_a_folder_lacks_is_named_with_its_command():
    material = Material("t", evolutions())
    assert [command for _, command in missing(material)] == [
        *("kem fit", "kem select --out FOLDER/selections.csv")
    ]
    selected = replace(material, selections=pd.DataFrame())
    assert missing(selected)[1][1].startswith("kem select --predictions")
