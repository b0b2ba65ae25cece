"""Evolutions by hand: probabilities, summaries, files, and reading a posterior."""

import json
from dataclasses import replace
from io import StringIO

import numpy as np
import pytest
import xarray as xr
from rich.console import Console

from kem_pymc.errors import InputError
from kem_pymc.evolution.clusters import Cluster, representatives, summarise
from kem_pymc.evolution.evolutions import Evolutions
from kem_pymc.evolution.files import content_hash, readable
from kem_pymc.kernels.composition import Composition
from kem_pymc.kernels.pool import CandidatePool
from kem_pymc.scaling import Scaling

POOL = CandidatePool(["PER0", "LIN0", "SE0"])
WHITE, LIN, SE, BOTH = (Composition.parse(t) for t in ("WHITE", "LIN0", "SE0", "LIN0 + PER0"))


def cluster(draw, parent, child, count, level=0.0):
    size = {WHITE: 1, LIN: 3, SE: 3, BOTH: 6}[child]
    return Cluster(draw, parent, child, count, tuple(level + 0.1 * i for i in range(size)))


CLUSTERS = (
    # Draw 0: below WHITE two clusters of LIN0 and one of SE0; below LIN0 one of LIN0 + PER0.
    cluster(0, WHITE, LIN, 3, level=1.0),
    cluster(0, WHITE, LIN, 1, level=2.0),
    cluster(0, WHITE, SE, 1),
    cluster(0, LIN, BOTH, 2),
    # Draw 1: below WHITE LIN0 alone, and nothing below LIN0 but below SE0.
    cluster(1, WHITE, LIN, 5, level=1.5),
    cluster(1, SE, SE, 4),
)


def evolutions(clusters=CLUSTERS, n_draws=2, **fields):
    return Evolutions(
        **{
            "pool": POOL,
            "scaling": Scaling(np.array([0.1]), np.array([7.3]), 1 / 3, 2 / 7),
            "features": ("week",),
            "target": "steps",
            "clusters": clusters,
            "n_draws": n_draws,
            "concentration": 2.0,
            "priors": {"stay": 0.9},
            "settings": {"feedback": "cut", "likelihood_power": 0.1 + 0.2},
            "versions": {"kem_pymc": "0.1.0"},
        }
        | fields
    )


def by_name(children):
    return {str(c.composition): c for c in children}


def test_probabilities_are_posterior_means_over_draws_with_the_parent():
    children = by_name(evolutions().children(WHITE))
    assert children["LIN0"].probability == pytest.approx((4 / 7 + 5 / 7) / 2)
    assert children["SE0"].probability == pytest.approx((1 / 7 + 0) / 2)
    assert children["LIN0"].count == pytest.approx(4.5)
    assert children["SE0"].count == pytest.approx(0.5)
    below = by_name(evolutions().children("LIN0"))
    assert below["LIN0 + PER0"].probability == pytest.approx(2 / 4)  # draw 1 has no such parent
    assert below["LIN0 + PER0"].occurrence == pytest.approx(1 / 2)


def test_probabilities_and_the_new_kernels_add_up_to_one():
    learned = evolutions()
    for parent in learned.parents:
        seen = sum(c.probability for c in learned.children(parent))
        assert seen + learned.probability_of_new(parent) == pytest.approx(1)


def test_probability_of_new_by_hand():
    assert evolutions().probability_of_new("WHITE") == pytest.approx(2 / 7)
    assert evolutions().probability_of_new(LIN) == pytest.approx(2 / 4)
    assert evolutions().probability_of_new("PER0") == 1.0


def test_probabilities_use_the_alpha_of_every_draw():
    learned = evolutions(concentration=(2.0, 0.5))
    children = by_name(learned.children(WHITE))
    assert children["LIN0"].probability == pytest.approx((4 / 7 + 5 / 5.5) / 2)
    assert by_name(learned.children("SE0"))["SE0"].probability == pytest.approx(4 / 4.5)
    assert learned.probability_of_new("WHITE") == pytest.approx((2 / 7 + 0.5 / 5.5) / 2)
    assert learned.probability_of_new("LIN0") == pytest.approx(2 / 4)
    assert learned.single_draw(1).concentration == (0.5,)
    assert learned.single_draw(1).probability_of_new("SE0") == pytest.approx(0.5 / 4.5)


def test_every_draw_needs_its_alpha():
    with pytest.raises(InputError, match=r"are 3 concentrations and 2 draws\. Give"):
        evolutions(concentration=(1.0, 2.0, 3.0))


def test_children_come_most_probable_first_and_parents_most_frequent_first():
    learned = evolutions()
    assert [str(c.composition) for c in learned.children(WHITE)] == ["LIN0", "SE0"]
    assert learned.parents == (WHITE, SE, LIN)
    assert learned.children("PER0") == ()


def test_centre_and_spread_weigh_by_members():
    child = by_name(evolutions().children(WHITE))["LIN0"]
    levels, counts = np.array([1.0, 2.0, 1.5]), np.array([3, 1, 5])
    centre = np.average(levels, weights=counts)
    sd = np.sqrt(np.average((levels - centre) ** 2, weights=counts))
    np.testing.assert_allclose(child.centre, centre + np.array([0, 0.1, 0.2]))
    np.testing.assert_allclose(child.spread, sd)


def test_spread_has_a_floor_and_a_value_for_lone_clusters():
    child = by_name(evolutions().children(WHITE))["SE0"]
    np.testing.assert_array_equal(child.spread, 0.4)
    near = summarise([cluster(0, WHITE, LIN, 1, 1.0), cluster(1, WHITE, LIN, 1, 1.001)])
    np.testing.assert_array_equal(near.spread, 0.1)


def test_representatives_cover_groups_and_never_repeat():
    rng = np.random.default_rng(0)
    groups = np.array([[0.0, 0.0], [5.0, 0.0], [0.0, 5.0], [9.0, 9.0]])
    values = np.repeat(groups, [40, 30, 20, 10], axis=0) + 0.1 * rng.normal(size=(100, 2))
    chosen = representatives(values, np.ones(100), np.ones(2))
    nearest = np.abs(chosen[:, None] - groups).sum(-1).argmin(axis=1)
    assert set(nearest[:4]) == {0, 1, 2, 3}
    assert len(chosen) == len(np.unique(chosen, axis=0)) == 5
    np.testing.assert_array_equal(chosen, representatives(values, np.ones(100), np.ones(2)))
    assert representatives(values[[0, 0, 1]], np.ones(3), np.ones(2)).shape == (2, 2)


def test_typical_pools_over_parents():
    learned = evolutions()
    typical = learned.typical("SE0")
    np.testing.assert_allclose(typical.centre, [0, 0.1, 0.2])
    assert learned.typical("PER0") is None


def test_single_draws_split_the_clusters():
    learned = evolutions()
    first, second = learned.single_draw(0), learned.single_draw(1)
    assert by_name(first.children(WHITE))["LIN0"].probability == pytest.approx(4 / 7)
    assert by_name(second.children(WHITE))["LIN0"].probability == pytest.approx(5 / 7)
    assert second.children(LIN) == ()
    assert learned.draws_with(LIN).tolist() == [0]
    assert {learned.draw(seed) is first for seed in range(20)} == {True, False}
    with pytest.raises(InputError, match=r"no draw 2\. Give 0 to 1"):
        learned.single_draw(2)


def test_the_most_probable_graph_is_the_most_frequent_one():
    draws = [
        (cluster(0, WHITE, LIN, 2),),
        (cluster(1, WHITE, LIN, 1), cluster(1, WHITE, SE, 1)),
        (cluster(2, WHITE, LIN, 1), cluster(2, WHITE, LIN, 1, level=2.0)),
        (cluster(3, WHITE, SE, 2),),
    ]
    found = evolutions(sum(draws, ()), n_draws=4).most_probable()
    assert found.n_draws == 2
    assert [c.draw for c in found.clusters] == [0, 1, 1]
    assert set(found.graph().edges) == {("WHITE", "LIN0")}
    # Without the third draw every graph is there once: both edges occur in 2 of 3 draws.
    rest = tuple(replace(c, draw=min(c.draw, 2)) for c in sum(draws[:2] + draws[3:], ()))
    found = evolutions(rest, n_draws=3).most_probable()
    assert set(found.graph().edges) == {("WHITE", "LIN0"), ("WHITE", "SE0")}


def test_graph_and_frame_show_the_same_evolutions():
    learned = evolutions()
    graph, frame = learned.graph(), learned.to_frame()
    assert set(graph.edges) == set(zip(frame.parent, frame.child, strict=True))
    assert graph.edges["WHITE", "LIN0"]["probability"] == pytest.approx(9 / 14)
    one = {"probability": 4 / 6, "lower": 4 / 6, "upper": 4 / 6, "count": 4.0, "occurrence": 0.5}
    assert graph.edges["SE0", "SE0"] == pytest.approx(one)
    # 4/7 in one draw and 5/7 in the other: the interval's ends lie between them.
    ends = (4 / 7 + 0.05 / 7, 5 / 7 - 0.05 / 7)
    assert by_name(learned.children(WHITE))["LIN0"].interval == pytest.approx(ends)
    assert set(learned.graph(0.6).edges) == {("WHITE", "LIN0"), ("SE0", "SE0")}


def test_it_shows_itself():
    learned = evolutions()
    assert "2 draws, 3 parents: week -> steps" in repr(learned)
    assert "WHITE -> LIN0 0.64, SE0 0.07" in repr(learned)
    assert "<td>LIN0 + PER0</td>" in learned._repr_html_()
    console = Console(file=StringIO(), width=100)
    console.print(learned)
    assert "LIN0 + PER0" in console.file.getvalue()


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"clusters": ()}, "no clusters"),
        ({"features": ("a", "b")}, "2 features and 1 dimensions"),
        ({"clusters": (Cluster(0, WHITE, LIN, 1, (0.0,)),)}, "LIN0 doesn't fit"),
        ({"clusters": (cluster(2, WHITE, LIN, 1),)}, "LIN0 doesn't fit"),
        ({"clusters": (Cluster(0, WHITE, Composition.parse("RQ0"), 1, (0.0,)),)}, "RQ0 is not in"),
    ],
)
def test_parts_must_fit_together(fields, message):
    with pytest.raises(InputError, match=message):
        evolutions(**fields)


def test_a_saved_file_loads_as_equal(tmp_path):
    learned = evolutions()
    path = tmp_path / "evolutions.json"
    learned.save(path)
    loaded = Evolutions.load(path)
    assert loaded == learned
    assert loaded.clusters == learned.clusters  # to the last bit
    assert loaded.scaling.to_dict() == learned.scaling.to_dict()
    assert (loaded.pool, loaded.settings) == (learned.pool, learned.settings)
    assert loaded.content_hash == json.loads(path.read_text())["sha256"]
    assert [p.name for p in tmp_path.iterdir()] == ["evolutions.json"]
    assert loaded != evolutions(concentration=1.0)


def test_files_can_be_read_by_people(tmp_path):
    path = tmp_path / "evolutions.json"
    evolutions().save(path)
    text = path.read_text()
    assert '    {"draw": 0, "parent": "LIN0", "child": "LIN0 + PER0", "count": 2,' in text
    assert json.loads(text)["coordinates"]["LIN0"] == [
        "log LIN0.amplitude",
        "LIN0.shift",
        "log noise",
    ]


def test_ard_keeps_its_name_in_files(tmp_path):
    pool = CandidatePool(["LIN0", "ARD"], dimension=2)
    ard = Composition.parse("ARD", 2)
    learned = evolutions(
        (Cluster(0, WHITE, ard, 1, (0.0,) * 4),),
        pool=pool,
        features=("a", "b"),
        scaling=Scaling.identity(2),
    )
    learned.save(tmp_path / "e.json")
    assert '"child": "ARD"' in (tmp_path / "e.json").read_text()
    assert Evolutions.load(tmp_path / "e.json").children("WHITE")[0].composition == ard


def test_an_interrupted_save_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "e.json"
    evolutions().save(path)
    before = path.read_bytes()

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("pathlib.Path.replace", full)
    with pytest.raises(InputError, match=r"No space left on device\)\. Give"):
        evolutions(concentration=1.0).save(path)
    assert path.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["e.json"]


def test_a_missing_folder_is_named(tmp_path):
    with pytest.raises(
        InputError, match=r"can't be written .*\. Give a file in an existing folder"
    ):
        evolutions().save(tmp_path / "nowhere" / "e.json")


def tampered(path, change):
    data = json.loads(path.read_text())
    change(data)
    path.write_text(json.dumps(data))


def rehashed(**entries):
    def change(data):
        data.update(entries)
        data.pop("sha256")
        data["sha256"] = content_hash(data)

    return change


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda d: d["clusters"][0].update(count=4), r"was changed after .*\. Save"),
        (lambda d: d.update(concentration=1.0), r"was changed after"),
        (lambda d: d.update(schema_version=2), r"written by a newer version of .*\. Update"),
        (lambda d: d.pop("sha256"), r"doesn't hold evolutions\. Give"),
        (lambda d: d.pop("schema_version"), r"doesn't hold evolutions\. Give"),
        (lambda d: d.update(schema_version="1"), r"doesn't hold evolutions\. Give"),
        (rehashed(pool=["FOO0"]), r"'FOO0' is not a base kernel"),
        (rehashed(pool=["SE0"]), r"not in the candidate pool\. Add"),
        (rehashed(coordinates={"LIN0": ["slope"]}), r"are others than when .*\. Register"),
    ],
)
def test_files_that_were_changed_are_refused(tmp_path, change, message):
    path = tmp_path / "e.json"
    evolutions().save(path)
    tampered(path, change)
    with pytest.raises(InputError, match=message):
        Evolutions.load(path)


@pytest.mark.parametrize("text", ["not JSON", "[1, 2]", "", "\xff"])
def test_files_of_something_else_are_refused(tmp_path, text):
    path = tmp_path / "e.json"
    path.write_bytes(text.encode("latin-1"))
    with pytest.raises(InputError, match=r"e\.json (is not a JSON file|doesn't hold).*\. Give"):
        Evolutions.load(path)


def test_files_keep_the_alpha_of_every_draw(tmp_path):
    learned = evolutions(concentration=(2.0, 0.1 + 0.2))
    learned.save(tmp_path / "kem.json")
    loaded = Evolutions.load(tmp_path / "kem.json")
    assert loaded == learned
    assert loaded.concentration == learned.concentration


def test_missing_files_are_refused(tmp_path):
    for path in (tmp_path / "none.json", tmp_path):
        with pytest.raises(InputError, match=r"can't be read .*\. Give the file"):
            Evolutions.load(path)


def test_readable_json_reads_back():
    data = {"a": [{"b": 1}, {"b": [1.5]}], "c": {"d": "e"}, "f": [], "g": [1, 2]}
    assert json.loads(readable(data)) == data


def posterior(chains=2, draws=3, **settings):
    """Return a posterior of two users with 2 and 1 time steps.

    User 0 goes WHITE -> LIN0 -> LIN0 + PER0. User 1 shares the first cluster in even draws, and is
    alone with WHITE in odd ones. The shift of LIN0 tells chain and draw.
    """
    shape = (chains, draws, 2, 2)
    names = [h.name for h in POOL.hyperparameters]
    assignment = np.full(shape, -1)
    inclusion = np.zeros((*shape, 3), dtype=np.int8)
    hyperparameters = np.full((*shape, len(names)), np.nan)
    noise = np.full(shape, np.nan)
    shift, amplitude = names.index("LIN0.shift"), names.index("LIN0.amplitude")
    for c in range(chains):
        for d in range(draws):
            together = d % 2 == 0
            assignment[c, d] = [[0, 1], [0 if together else 2, -1]]
            inclusion[c, d, 0] = [[0, 1, 0], [1, 1, 0]]
            inclusion[c, d, 1, 0, 1] = together
            hyperparameters[c, d, 0, :, amplitude] = 2.0
            hyperparameters[c, d, 0, :, shift] = c + d / 10
            hyperparameters[c, d, 0, 1, :3] = 3.0
            hyperparameters[c, d, 1] = hyperparameters[c, d, 0, 0] if together else np.nan
            noise[c, d] = [[0.5, 0.25], [0.5 if together else 0.75, np.nan]]
    dims = ("chain", "draw", "user", "time_step")
    block = {
        "pool": POOL.names,
        "dimension": 1,
        "features": ["week"],
        "target": "steps",
        "scaling": Scaling.identity(1).to_dict(),
        "priors": {"stay": 0.9},
        "concentration": 1.0,
        "feedback": "cut",
        "likelihood_power": 1.0,
        "versions": {"kem_pymc": "0.1.0"},
    } | settings
    labels = [f"{name}: {json.dumps(value)}" for name, value in block.items()]
    group = xr.Dataset(
        {
            "assignment": (dims, assignment),
            "inclusion": ((*dims, "candidate"), inclusion),
            "hyperparameters": ((*dims, "hyperparameter"), hyperparameters),
            "noise": (dims, noise),
        },
        coords={"candidate": POOL.names, "hyperparameter": names},
    )
    study = xr.Dataset({"study": ("setting", np.zeros(len(labels)))}, coords={"setting": labels})
    return xr.DataTree.from_dict({"posterior": group, "constant_data": study})


def test_a_posterior_with_a_known_answer():
    learned = Evolutions.from_posterior(posterior())
    assert learned.n_draws == 6
    first = [c for c in learned.clusters if c.draw == 0]
    log = np.log
    assert first == [
        Cluster(0, WHITE, LIN, 2, (log(2.0), 0.0, log(0.5))),
        Cluster(0, LIN, BOTH, 1, (log(3.0), log(3.0), log(3.0), log(2.0), 0.0, log(0.25))),
    ]
    odd = [c for c in learned.clusters if c.draw == 1]
    assert [(c.parent, c.child, c.count) for c in odd] == [
        (WHITE, LIN, 1),
        (LIN, BOTH, 1),
        (WHITE, WHITE, 1),
    ]
    assert odd[2].values == (log(0.75),)
    children = by_name(learned.children(WHITE))
    assert children["LIN0"].probability == pytest.approx((4 * 2 / 3 + 2 * 1 / 3) / 6)
    assert learned.settings == {"feedback": "cut", "likelihood_power": 1.0}
    assert (learned.features, learned.target, learned.priors) == (("week",), "steps", {"stay": 0.9})


def test_a_learned_alpha_comes_from_the_draws_that_are_kept():
    prior = {"shape": 3.0, "rate": 2.0}
    tree = posterior(chains=3, draws=10, concentration=prior)
    values = np.arange(30.0).reshape(3, 10) + 0.5
    alpha = xr.Dataset({"concentration": (("draw", "chain"), values.T)})
    tree["posterior"] = tree["posterior"].to_dataset().merge(alpha)
    learned = Evolutions.from_posterior(tree, max_draws=6)
    assert learned.concentration == (2.5, 7.5, 12.5, 17.5, 22.5, 27.5)
    assert learned.settings["concentration"] == prior
    without = posterior(chains=3, draws=10, concentration=prior)
    with pytest.raises(InputError, match="lacks the concentration"):
        Evolutions.from_posterior(without)


def test_thinning_spreads_over_all_chains():
    learned = Evolutions.from_posterior(posterior(chains=3, draws=10), max_draws=6)
    shifts = [c.values[1] for c in learned.clusters if c.child == LIN]
    assert learned.n_draws == 6
    np.testing.assert_allclose(shifts, [0.2, 0.7, 1.2, 1.7, 2.2, 2.7])


def test_the_order_of_dimensions_does_not_matter():
    tree = posterior()
    turned = tree["posterior"].to_dataset().transpose("user", "candidate", ...)
    turned = xr.DataTree.from_dict({"posterior": turned, "constant_data": tree["constant_data"]})
    assert Evolutions.from_posterior(turned) == Evolutions.from_posterior(tree)


def test_a_posterior_that_went_through_a_file_gives_the_same(tmp_path):
    tree = posterior()
    tree.to_zarr(tmp_path / "posterior.zarr", consolidated=False)
    with xr.open_datatree(tmp_path / "posterior.zarr", engine="zarr", consolidated=False) as opened:
        assert Evolutions.from_posterior(opened) == Evolutions.from_posterior(tree)


def test_posteriors_of_something_else_are_refused():
    tree = posterior()
    without_study = xr.DataTree.from_dict({"posterior": tree["posterior"]})
    with pytest.raises(InputError, match=r"no settings of a study\. Sample"):
        Evolutions.from_posterior(without_study)
    without_noise = xr.DataTree.from_dict(
        {
            "posterior": tree["posterior"].to_dataset().drop_vars("noise"),
            "constant_data": tree["constant_data"],
        }
    )
    with pytest.raises(InputError, match=r"lacks noise by user and time step\. Sample"):
        Evolutions.from_posterior(without_noise)
    with pytest.raises(InputError, match=r"aren't those of its settings\. Sample"):
        Evolutions.from_posterior(posterior(pool=["SE0", "LIN0", "PER0"]))
    with pytest.raises(InputError, match=r"max_draws=0 keeps no draw\. Give"):
        Evolutions.from_posterior(tree, max_draws=0)
