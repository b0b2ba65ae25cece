"""What all users share: the shares of the variance, in total and by feature."""

from dataclasses import replace

import kem_pymc as kem
from kem_pymc.reports.report import report
from kem_pymc.reports.shared import NOTHING, shared_part
from tests.evolutions.by_hand import evolutions
from tests.reports.conftest import FEATURE, Page


def test_what_users_share_is_reported_by_feature(sharing, tmp_path):
    page = Page(report(sharing, tmp_path / "r.html").read_text("utf-8"))
    section = page.text[page.text.index("What users share Users share") :]
    assert "Users share a constant level plus a straight line in" in section
    assert ": 50% of the variance." in section
    for row in ("in common 50 %", "own function 30 %", "noise 20 %", "age 42 % 0 %"):
        assert row in section
    assert f"{' '.join(FEATURE.split())} 11 % 5 %" in section
    assert section.index("age 42 %") < section.index("11 % 5 %")  # the most relevant one first
    labels = [a["aria-label"] for a in page.all("svg") if a.get("role") == "img"]
    assert [label.split(":")[0] for label in labels] == [
        f"Shared part as a function of {name}" for name in ("age", FEATURE)
    ]


def test_a_study_may_share_nothing_and_not_know_where_users_end_up(page):
    assert "Users share nothing in this study" in page.text
    assert "Where users end up" not in page.text
    assert not [a for a in page.all("rect") if a["class"] == "end"]


def test_earlier_files_lack_the_shares_by_feature(sharing, tmp_path):
    learned = kem.Evolutions.load(sharing / "evolutions.json")
    replace(learned, settings={}).save(tmp_path / "evolutions.json")
    page = Page(report(tmp_path).read_text("utf-8"))
    assert "a smooth curve in age." in page.text
    assert "Total effect" not in page.text


def test_nothing_shared_has_no_rows():
    found = shared_part(evolutions())
    assert found.sentence == NOTHING
    assert (found.shares, found.rows, found.pictures, found.groups) == ([], [], [], [])
