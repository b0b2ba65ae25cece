"""Compositions and their evolutions: members, or users who nearly are."""

from kem_pymc.reports.report import report


def test_a_kernel_that_nobody_has_shows_its_users_once(wide_study, tmp_path):
    html = report(wide_study, tmp_path / "r.html").read_text("utf-8")
    kernels = html.split('<details class="kernel"')[1:]
    counts = [kernel.count("no cluster of the representative clustering has") for kernel in kernels]
    assert max(counts) == 1
