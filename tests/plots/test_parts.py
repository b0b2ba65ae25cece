"""The components of a prediction, each in a panel of its own kind."""

from dataclasses import replace

import numpy as np
import pytest

from kem_pymc.data.scaling import Scaling
from kem_pymc.data.transforms import Transform
from kem_pymc.plots import components
from tests.plots.test_curves import Weekly, line


class Study:
    features = ("age", "bmi", "day")
    target = "steps"


def test_curves_are_the_components_and_crosses_leave_only_noise(make_selection, points):
    x, y = points(15)
    selection = make_selection("LIN0 + PER0", x, y)
    _, linear, periodic = components(selection)
    fitted = selection.predict(x)
    for ax, name in ((linear, "LIN0"), (periodic, "PER0")):
        assert ax.get_title(loc="left") == f"{name[:-1]}(x)"
        at = line(ax, "mean").get_xdata()
        share = selection.predict(at).components[name]
        np.testing.assert_allclose(line(ax, "mean").get_ydata(), share.mean)
        crosses = line(ax, "data minus the other components").get_ydata()
        np.testing.assert_allclose(crosses - fitted.components[name].mean, y - fitted.mean)
        assert ax.get_title(loc="right") == f"sd {fitted.components[name].mean.std():.2g}"
    assert linear.get_ylim() == periodic.get_ylim()


@pytest.mark.parametrize("transform", ["log", "count"])
def test_components_add_up_on_a_scale_of_their_own(make_selection, points, of_a_family, transform):
    x, y = points(12)
    if transform == "log":
        scaling = Scaling(np.zeros(1), np.ones(1), 0.5, 2.0, Transform("log"))
        selection = make_selection("LIN0 + PER0", x, np.exp(y), scaling=scaling)
    else:
        selection = of_a_family(make_selection("LIN0 + PER0", x, y), "count", np.arange(12.0))
    _, first, _ = components(selection, study=Weekly)
    crosses = [one for one in first.lines if one.get_label().startswith("data")]
    if transform == "count":
        assert (first.get_ylabel(), crosses) == ("contribution to the log rate of steps", [])
        return
    assert first.get_ylabel() == "contribution to steps by log"
    parts = selection.predict(x).components
    np.testing.assert_allclose(crosses[0].get_ydata(), y - 0.5 - parts["PER0"].mean)


def test_every_kind_of_component_has_its_axes_named(make_selection, points):
    x, y = points(12, dimension=3)
    selection = make_selection("CONST + SE2 + LIN0 x SE1 + ARD", x, y)
    axes = components(selection, study=Study)
    named = {ax.get_title(loc="left"): (ax.get_xlabel(), ax.get_ylabel()) for ax in axes[1:]}
    product = next(name for name in named if name.startswith("LIN("))
    assert named.pop(product) == ("age", "bmi")
    assert named == {
        "CONST": ("age", "contribution to steps"),
        "SE(day)": ("day", "contribution to steps"),
        "ARD": ("observed steps", "contribution to steps"),
    }
    bars = [ax for ax in axes[0].figure.axes if ax.get_label() == "<colorbar>"]
    assert [bar.get_ylabel() for bar in bars] == ["contribution to steps"]


def test_a_map_is_centred_on_no_effect(make_selection, points):
    x, y = points(12, dimension=2)
    _, ax = components(make_selection("LIN0 x SE1", x, y))
    image = ax.collections[0]
    for targets in (y, -y):
        low, high = (
            components(make_selection("LIN0 x SE1", x, targets))[1].collections[0].get_clim()
        )
        assert low == -high
    np.testing.assert_allclose(ax.lines[0].get_xydata(), x)
    # Rows are values of the second feature.
    grid = np.array([[x[:, 0].max(), x[:, 1].min()]])
    selection = make_selection("LIN0 x SE1", x, y)
    corner = selection.predict(grid).components["LIN0 x SE1"].mean[0]
    np.testing.assert_allclose(image.get_array().reshape(60, 60)[0, -1], corner)


def test_the_named_composition_is_drawn_alone(make_selection, points):
    """An average over compositions would have a share of a component that another one lacks."""
    alone = make_selection("LIN0 + PER0", *points(15), others=["SE0"])
    other = make_selection("SE0", *points(15))
    rows = (replace(alone.considered[0], weight=0.7), replace(other.considered[0], weight=0.3))
    mixed = replace(alone, considered=rows)
    first, second = (components(selection) for selection in (mixed, alone))
    for one, other in zip(first, second, strict=True):
        np.testing.assert_allclose(
            line(one, "mean").get_ydata(), line(other, "mean").get_ydata(), rtol=1e-9
        )
    assert first[0].get_title().endswith("weight 70 %")


def test_white_has_no_components(make_selection, points):
    axes = components(make_selection("WHITE", *points(3), others=["SE0"]))
    assert axes.shape == (1,)
