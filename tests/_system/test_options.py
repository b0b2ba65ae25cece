"""What counts and objects given as options may be."""

from collections.abc import Mapping, Sequence
from fractions import Fraction

import numpy as np
import numpy.typing as npt
import pandas as pd
import pytest

import kem_pymc as kem
from kem_pymc._system.display import printable
from kem_pymc._system.executors import make_executor
from kem_pymc._system.options import checked
from kem_pymc.bandits.bandit import Bandit
from kem_pymc.bandits.objective import Weighted
from kem_pymc.bandits.space import Points
from kem_pymc.data.datasets import synthetic
from kem_pymc.errors import InputError
from kem_pymc.gp.process import GaussianProcess
from kem_pymc.kernels.composition import Factor
from kem_pymc.kernels.pool import CandidatePool
from kem_pymc.search.run import search
from kem_pymc.selection.ard import ARDSelector
from tests.refusals import refused

SE0, ONE = kem.Composition.parse("SE0"), np.ones(1)
VALUES = {"SE0.amplitude": 1.0, "SE0.lengthscale": 1.0}


@pytest.mark.parametrize(
    ("name", "call"),
    [
        ("weights", Weighted),
        ("dimension", ARDSelector),
        ("dimension", lambda count: CandidatePool(["SE0"], count)),
        ("budget", lambda count: search(range(9), [1, 2, 0, 4, 1, 3, 2, 5, 1], budget=count)),
        ("users", lambda count: synthetic(users=count)),
        ("cores", make_executor),
    ],
)
def test_counts_are_whole_and_not_too_large(name, call):
    """10**30 took all memory, or raised an OverflowError; 10**5000 can't even be printed."""
    for count in (10**30, 10**5000, 0, -1, True):
        message = refused(lambda count=count: call(count), f"{name} is ", "a whole number")
        assert len(message) < 200


@pytest.mark.parametrize(
    ("words", "call"),
    [
        ("space is 3. Give a Points or a Box", lambda: Bandit(3, [], Weighted(1))),
        ("objective is 'x'", lambda: Bandit(Points([1, 2]), [], "x")),
        ("evolutions is None. Give an Evolutions", lambda: kem.KEMSelector(None)),
        ("priors is 3. Give a Priors or None", lambda: kem.ARDSelector(1, priors=3)),
        ("cohort is 3. Give a Cohort", lambda: kem.EvolutionModel(3, None)),
        ("cohort is 3. Give a Cohort", lambda: kem.PopulationModel(3)),
        ("0.4. Give variances, like", lambda: kem.priors.default(CandidatePool(["SE0"]), 0.4)),
        ("posterior is 3", lambda: kem.plots.mean_curves(3)),
        ("idata is 3. Give a DataTree", lambda: kem.plots.co_clustering(3)),
        ("selections is [3]", lambda: kem.plots.few_and_many([3])),
        ("source is 3", lambda: kem.plots.trajectories(3)),
        ("selector is 3", lambda: kem.select_online(3, None)),
        ("text is b'SE0'. Give text", lambda: kem.Composition.parse(b"SE0")),
        ("candidates is [3]", lambda: CandidatePool([3])),
        ("interactions is 'yes'", lambda: CandidatePool.from_base(["SE"], 1, "yes")),
        ("values is 3. Give a mapping", lambda: kem.priors.synthetic().at(3)),
        ("The priors have no hyperparameters", lambda: kem.Priors.from_dict({})),
        ("inclusion is [1, 0]. Give 1 number", lambda: CandidatePool(["SE0"]).active([1, 0])),
        ("dimension is ", lambda: kem.Candidate.ard(10**9)),
        ("dimension is 1.5", lambda: Factor("SE", 1.5)),
        ("dimension is a whole number", lambda: Factor("SE", 10**5000)),
        ("There is no base kernel []", lambda: Factor([], 0)),
        ("factors is 'SE0'. Give an iterable of Factors", lambda: kem.Candidate("SE0")),
        ("factors is (3,)", lambda: kem.Candidate((3,))),
        ("copy is '2'", lambda: kem.Candidate((), "2")),
        ("candidates is ('SE0',)", lambda: kem.Composition(("SE0",))),
        ("candidates is 3", lambda: kem.Composition(3)),
        ("SE0.lengthscale is None", lambda: SE0.to_pymc({**VALUES, "SE0.lengthscale": None}, 1)),
        ("SE0.lengthscale is ", lambda: SE0.to_pymc({**VALUES, "SE0.lengthscale": [1, 2]}, 1)),
        ("dimension is None", lambda: SE0.to_pymc(VALUES, None)),
        ("name is 3. Give text", lambda: kem.kernels.BaseKernel(3, (), len)),
        ("kernel is 3. Give a BaseKernel", lambda: kem.register_kernel(3)),
        ("model is 3. Give an EvolutionModel", lambda: kem.sample(3)),
        ("include_noise is array", lambda: kem.gp.Prediction.of(ONE, ONE, 0.0, None, np.zeros(3))),
        ("candidates is array(1.)", lambda: CandidatePool(np.array(1.0))),
        ("aren't searches to draw", lambda: kem.plots.search_path({})),
        ("aren't searches to draw", lambda: kem.plots.search_path({"a": 1})),
        ("draws is -1", lambda: kem.gp.draw_functions(SE0, [0.0], VALUES, draws=-1)),
        ("mean is a whole number", lambda: GaussianProcess.of(SE0, VALUES, 0.1, mean=10**5000)),
    ],
)
def test_objects_of_another_kind_are_refused_with_what_to_give(words, call):
    """Each was a raw AttributeError or TypeError, or endless."""
    refused(call, words)


def test_collections_and_numbers_of_any_type_are_taken():
    """Catches a check by type alone: arrays, iterators, NumPy's numbers, and what is unknown."""

    @checked
    def take(
        several: Sequence[str] | None = None,
        number: float = 0.0,
        whole: int = 0,
        flag: bool = False,
        names: Mapping[str, float] | None = None,
        array: "npt.ArrayLike" = 0,
        unknown: "Nowhere | int" = 0,  # noqa: F821
        **others: int,
    ) -> tuple:
        return several, number, whole, flag, names, array, unknown, others

    for several in (["a"], ("a",), iter(["a"]), np.array(["a"]), pd.Index(["a"]), {"a": 1}, None):
        assert take(several)
    for number in (1, True, np.float32(1), np.array(1.0), Fraction(1)):
        assert take(number=number)
    assert take(whole=np.int8(1), flag=np.bool_(True), names={"a": 1}, array="x", unknown="x", z="")
    for wrong in ({"several": "a"}, {"several": [1]}, {"number": "1"}, {"names": ["a"]}):
        refused(lambda wrong=wrong: take(**wrong), *wrong, "Give ")
    refused(lambda: take(whole=1.0), "whole is 1.0. Give a whole number")
    with pytest.raises(TypeError, match="multiple values"):
        take(None, several=None)


def test_long_names_are_shortened_in_messages():
    """A name of 10,000 characters was printed in full, and names of all candidates."""
    name = "n" * 10_000
    message = refused(lambda: CandidatePool(["SE0"]).unconstrained({name: 1.0}), "nnn ... nnn")
    assert len(message) < 250
    words = "a b " * 2000
    assert len(refused(lambda: kem.Cohort((1,), (), (), (), (words,)).subset([1]), "Give")) < 400
    assert len(str(printable(f"User {name} has one row."))) < 150
    path = "/folder" * 40
    assert path in str(InputError(f"{path} isn't a file. " + "word " * 1000))
    apart = f"It can't be read. {'word ' * 80}It can't."  # which isn't a name in quotes
    hint = ' (More: "Gaps" in the documentation, under Messages.)'
    assert str(InputError(apart, see="Gaps")) == apart + hint
    assert str(InputError("word " * 1000, see="Gaps")).endswith(hint)
