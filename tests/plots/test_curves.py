"""Predictions: what is drawn where, and that it is what the selection predicts."""

import numpy as np
import pytest
from matplotlib.colors import to_hex
from matplotlib.figure import Figure

from kem_pymc.data.scaling import Scaling
from kem_pymc.errors import InputError
from kem_pymc.plots import few_and_many, predictions, style


class Study:
    features = ("age", "bmi")
    target = "steps"


class Weekly:
    features = ("week",)
    target = "steps"


def line(ax, label):
    return next(one for one in ax.lines if one.get_label() == label)


def band(ax, label):
    """Return lower and upper border of a band, by x."""
    path = next(c for c in ax.collections if c.get_label() == label).get_paths()[0]
    borders = {}
    for x, y in path.vertices:
        borders.setdefault(round(x, 9), []).append(y)
    return {x: (min(ys), max(ys)) for x, ys in borders.items()}


def test_mean_bands_points_and_truth_are_those_of_the_selection(make_selection, points):
    x, y = points(12)
    scaling = Scaling(np.array([-1.0]), np.array([4.0]), 3.0, 2.0)
    selection = make_selection("PER0", x, y, scaling=scaling)
    at = np.linspace(0, 5, 11)
    ax = predictions(selection, truth=(at[::-1, None], np.sin(3 * at[::-1])))
    grid = line(ax, "mean").get_xdata()
    predicted = selection.predict(grid)
    np.testing.assert_allclose(line(ax, "data").get_xydata(), np.column_stack([x[:, 0], y]))
    np.testing.assert_allclose(line(ax, "mean").get_ydata(), predicted.mean)
    np.testing.assert_allclose(line(ax, "truth").get_ydata(), np.sin(3 * at))
    assert line(ax, "truth").get_color() == "black"
    noisy = np.sqrt(predicted.sd**2 + predicted.noise)
    for label, sd in (("function ± 2 sd", predicted.sd), ("observation ± 2 sd", noisy)):
        borders = band(ax, label)
        for i in (3, 7):
            expected = predicted.mean[i] - 2 * sd[i], predicted.mean[i] + 2 * sd[i]
            assert borders[round(grid[i], 9)] == pytest.approx(expected)


def test_the_grid_spans_points_and_truth(make_selection, points):
    x, y = points(6)
    ax = predictions(make_selection("SE0", x, y), truth=([-3, 8], [0, 0]))
    across = line(ax, "mean").get_xdata()
    assert across[0] < -3
    assert across[-1] > 8
    one = predictions(make_selection("SE0", x[:1], y[:1]))
    assert np.ptp(line(one, "mean").get_xdata()) > 0


def test_title_and_axes_have_the_names_of_the_study(make_selection, points, typed):
    selection = make_selection("LIN0 x PER0 + PER0 x PER0 + SE0", *points(6))
    ax = predictions(selection, study=Weekly)
    title = ax.get_title().replace("\n", " ")
    assert typed(title) == "LIN(week) x PER(week) + PER(week) x PER(week) + SE(week), 6 points"
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("week", "steps")
    ax = predictions(make_selection("WHITE", *points(1), others=["SE0"]))
    assert ax.get_title() == "noise only, 1 point"
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("x", "y")


def test_a_long_title_is_broken_into_lines_of_its_panel(make_selection, points):
    long = "LIN0 x PER0 + LIN0 x SE0 + PER0 + PER0 x PER0 + PER0 x SE0 + SE0"
    title = predictions(make_selection(long, *points(6))).get_title()
    assert max(map(len, title.split("\n"))) <= 45


def test_given_axes_are_drawn_on_with_the_legend_inside(make_selection, points, drawn):
    ax = Figure().add_subplot()
    assert predictions(make_selection("SE0", *points(6)), ax=ax) is ax
    renderer = drawn(ax)
    assert ax.get_legend().get_window_extent(renderer).x1 <= ax.bbox.x1
    assert predictions(make_selection("SE0", *points(6)), legend=False).get_legend() is None


def test_several_features_give_leave_one_out_predictions(make_selection, points):
    x, y = points(8, dimension=2)
    scaling = Scaling(np.zeros(2), np.array([2.0, 4.0]), 1.0, 3.0)
    selection = make_selection("SE0 + LIN1", x, y, scaling=scaling)
    ax = predictions(selection, study=Study)
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("leave-one-out prediction", "observed steps")
    shown = line(ax, "data").get_xydata()
    left, right = np.array(ax.collections[0].get_segments())[:, :, 0].T
    for i in range(8):
        others = np.arange(8) != i
        alone = make_selection("SE0 + LIN1", x[others], y[others], scaling=scaling)
        predicted = alone.predict(x[i : i + 1], include_noise=True)
        assert shown[i] == pytest.approx([predicted.mean[0], y[i]])
        assert (right - left)[i] == pytest.approx(4 * predicted.sd[0])


@pytest.mark.parametrize("name", ["count", "binary"])
def test_left_out_targets_of_a_family_are_predicted_on_their_own_scale(
    make_selection, points, of_a_family, name
):
    x, y = points(8, dimension=2)
    noise, targets = np.linspace(0.2, 3, 8), np.arange(8.0) % 2
    scaling = Scaling(np.zeros(2), np.array([2.0, 4.0]), 0.5, 1.5)
    selection = of_a_family(
        make_selection("SE0 + LIN1", x, y, scaling=scaling), name, targets, noise
    )
    shown = predictions(selection, study=Study).collections[0].get_segments()
    for i in range(8):
        others = np.arange(8) != i
        alone = make_selection("SE0 + LIN1", x[others], y[others], scaling=scaling)
        alone = of_a_family(alone, name, targets[others], noise=noise[others])
        response = alone.predict(x[i : i + 1]).observation
        quantile = response.curve_quantile if name == "binary" else response.quantile
        expected = [quantile(p)[0] for p in (0.025, 0.975)]
        np.testing.assert_allclose(shown[i], np.transpose([expected, [targets[i]] * 2]))


@pytest.mark.parametrize("feature", ["bmi", 1])
def test_a_section_holds_the_other_features_at_their_median(make_selection, points, feature, typed):
    x, y = points(9, dimension=2)
    selection = make_selection("SE0 + LIN1", x, y)
    ax = predictions(selection, feature=feature, study=Study)
    across = line(ax, "mean").get_xdata()
    expected = selection.predict([[np.median(x[:, 0]), b] for b in across]).mean
    np.testing.assert_allclose(line(ax, "mean").get_ydata(), expected)
    np.testing.assert_allclose(line(ax, "data").get_xdata(), x[:, 1])
    assert typed(ax.get_xlabel()) == "bmi (others at their median)"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"feature": "weight", "study": Study}, "no feature 'weight'"),
        ({"feature": 2}, "no feature 2"),
        ({"truth": ([0], [0])}, "Choose one with feature="),
        ({"truth": ([0], [0, 1]), "feature": 0}, "truth isn't a function"),
        ({"truth": ([0],), "feature": 0}, "truth isn't a function"),
        ({"colour": "blackish"}, "colour is 'blackish'"),
        ({"study": Weekly}, "number of features is 1 in the study, but 2"),
    ],
)
def test_what_can_not_be_drawn_is_refused(make_selection, points, options, message):
    with pytest.raises(InputError, match=message):
        predictions(make_selection("SE0", *points(5, dimension=2)), **options)


def test_few_and_many_share_axes_and_one_legend(make_selection, points):
    x, y = points(20)
    pair = [make_selection("LIN0", x[:4], y[:4]), make_selection("PER0", x, y)]
    axes = few_and_many(pair, truth=([0, 5], [0, 0]), study=Weekly)
    assert axes.shape == (1, 2)
    assert [ax.get_title() for ax in axes[0]] == ["LIN(week), 4 points", "PER(week), 20 points"]
    assert axes[0, 0].get_ylim() == axes[0, 1].get_ylim()
    assert axes[0, 0].get_xlim() == axes[0, 1].get_xlim()
    assert all(ax.get_legend() is None for ax in axes[0])
    (legend,) = axes[0, 0].figure.legends
    labels = [text.get_text() for text in legend.get_texts()]
    assert labels == ["data", "truth", "mean", "function ± 2 sd", "observation ± 2 sd"]


def test_methods_make_rows_of_different_colours_in_a_given_figure(make_selection, points):
    x, y = points(20)
    figure = Figure(layout="constrained")
    row = [make_selection("SE0", x[:4], y[:4]), make_selection("SE0", x, y)]
    axes = few_and_many({"Final": row, "KEM": row}, figure=figure)
    assert axes.shape == (2, 2)
    assert all(ax.figure is figure for ax in axes.ravel())
    assert [ax.get_ylabel() for ax in axes[:, 0]] == ["Final\ny", "KEM\ny"]
    colours = {line(ax, "mean").get_color() for ax in axes[:, 0]}
    assert len(colours) == 2
    *_, mean, dark, light = figure.legends[0].legend_handles
    assert to_hex(mean.get_color()) not in colours
    assert to_hex(dark.get_facecolor()) == to_hex(light.get_facecolor()) == style.MUTED
    assert dark.get_alpha() > light.get_alpha() > 0


def test_rows_of_unequal_length_or_none_are_refused(make_selection, points):
    selection = make_selection("SE0", *points(4))
    with pytest.raises(InputError, match="the same number of selections"):
        few_and_many({"KEM": [selection], "ARD": [selection] * 2})
    with pytest.raises(InputError, match="at least one"):
        few_and_many([])
