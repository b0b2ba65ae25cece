"""The graph of evolutions: what its boxes and arrows lead to."""

import kem_pymc as kem
from tests.reports.conftest import TARGET


def test_graph_says_what_is_behind_boxes_and_arrows(study, page):
    learned = kem.Evolutions.load(study / "evolutions.json")
    links = {a["href"]: a["data-tip"] for a in page.all("a") if "data-tip" in a}
    edges = {tip.split("\n")[0]: tip for href, tip in links.items() if "evolution" in href}
    assert edges
    for child in learned.children("WHITE"):
        tip = edges.get(f"noise only → {child.composition}")
        if tip and str(child.composition) != "WHITE":
            low, high = child.interval
            assert f"Probability {child.probability:.2f}" in tip
            assert f"90 % interval {low:.2f} to {high:.2f}" in tip
            assert f"In {child.occurrence:.0%} of the posterior draws" in tip
    boxes = {tip.split("\n")[0]: tip for href, tip in links.items() if "composition" in href}
    assert f"{TARGET} is noise only." in boxes["noise only"]
    assert all("noise sd" in tip for tip in boxes.values())
    assert all(a["aria-label"] for a in page.all("a") if "data-tip" in a)
