import pytest

from kem_pymc.kernels import base
from kem_pymc.kernels.base import BaseKernel
from kem_pymc.kernels.composition import Candidate, Composition
from kem_pymc.kernels.prose import TIMES, describe, named, sentence
from tests.refusals import refused


def wave(x, z, period):
    return x * z / period


FEATURES = ("day", "week", "age")


@pytest.mark.parametrize(
    ("label", "name"),
    [
        ("WHITE", "noise only"),
        ("CONST + LIN0", "CONST + LIN(day)"),
        ("PER1 x SE0 + SE2 #2", "PER(week) x SE(day) + SE(age) #2"),
        ("RQ0 + ARD", "RQ(day) + ARD"),
    ],
)
def test_names_have_the_features(label, name):
    """The same for labels and compositions; factors in the order of the composition."""
    parts = sorted(named(label, FEATURES).replace(TIMES, " x ").split(" + "))
    assert parts == sorted(name.split(" + "))
    assert named(label, FEATURES) == named(Composition.parse(label, 3), FEATURES)
    assert named("LIN0", ("day",)) == "LIN(day)"


@pytest.mark.parametrize(
    ("label", "words"),
    [
        ("WHITE", "noise only"),
        ("LIN0", "a straight line in day"),
        ("CONST", "a constant level"),
        ("CONST + LIN0", "a constant level plus a straight line in day"),
        ("LIN0 + PER1", "a straight line in day plus a rhythm in week"),
        ("SE2", "a smooth curve in age"),
        ("RQ0", "a curve in day with slow and fast changes"),
        ("MATERN12_0", "a random walk in day"),
        ("MATERN32_0", "a jagged curve in day"),
        ("MATERN52_0", "a fairly smooth curve in day"),
        ("LIN0 x LIN0", "a parabola in day"),
        ("LIN0 x LIN0 x LIN0", "a curve of degree 3 in day"),
        ("LIN0 x LIN1", "a straight line in day that grows or shrinks in proportion to week"),
        ("LIN0 x PER1", "a rhythm in week that grows or shrinks in proportion to day"),
        ("CAT1", "differences between levels of week"),
        ("CAT1 x SE0", "a smooth curve in day that differs between levels of week"),
        ("CAT1 x LIN0", "a straight line in day that differs between levels of week"),
        ("LIN0 x SE1", "a smooth curve in week that grows or shrinks in proportion to day"),
        ("PER0 x SE0", "a rhythm in day that changes smoothly along day"),
        ("PER0 x PER0", "a rhythm in day with two multiplied patterns"),
        ("PS0", "a series of spikes at regular intervals of day"),
        (
            "PS0 x SE1",
            "a series of spikes at regular intervals of day that changes smoothly along week",
        ),
        ("PER0 x PER1", "a rhythm in day that repeats with a rhythm in week"),
        ("SE0 x SE1", "a smooth surface over day and week together"),
        ("SE0 x SE1 x SE2", "a smooth function of all 3 features together"),
        (
            "LIN0 x PER1 x SE2",
            "a rhythm in week that changes smoothly along age "
            "and that grows or shrinks in proportion to day",
        ),
    ],
)
def test_words_of_compositions(label, words):
    composition = Composition.parse(label.replace("_", ""))
    assert describe(composition, FEATURES) == words


def test_values_give_rhythms_a_period_and_curves_a_length():
    values = {
        "PER1.period": 7.04,
        "PER1.lengthscale": 1.0,
        "SE0.lengthscale": 250.4,
        "LIN0 x PER1.PER1.period": 0.25,
        "PER0 x PER0.PER0#1.period": 2.0,
        "PER0 x PER0.PER0#2.period": 5.0,
    }
    message = {
        "PER1": "a rhythm in week (repeating every 7)",
        "SE0": "a smooth curve in day (changing over about 250)",
        "LIN0 x PER1": "a rhythm in week (repeating every 0.25) "
        "that grows or shrinks in proportion to day",
        "PER0 x PER0": "a rhythm in day with two multiplied patterns "
        "(repeating every 2; repeating every 5)",
        "SE2": "a smooth curve in age",  # its length isn't known
    }
    for label, words in message.items():
        assert describe(Composition.parse(label), FEATURES, values) == words


def test_sentences_name_the_target():
    assert sentence(Composition(), FEATURES, "steps") == "A user's steps is noise only."
    message = sentence(Composition.parse("LIN0"), FEATURES, "steps")
    assert message == "A user's steps is a straight line in day, plus noise."
    message = sentence(Composition.parse("LIN0"), FEATURES, "log(steps)", shares=True)
    assert message.startswith("A user's log(steps), beyond what all users share, is a straight")


def test_names_are_taken_as_they_are():
    names = ("{age}", "{0}", "<b>")
    assert describe(Composition.parse("LIN0 + SE1 x SE2"), names) == (
        "a straight line in {age} plus a smooth surface over {0} and <b> together"
    )


def test_surfaces_of_some_features():
    four = (*FEATURES, "sleep")
    assert describe([Candidate.parse("SE0 x SE1 x SE3")], four) == (
        "a smooth function of day, week and sleep together"
    )


@pytest.mark.usefixtures("cosine")
def test_kernels_of_users_have_words_without_being_asked():
    assert describe(Composition.parse("COS0"), FEATURES) == "a pattern of kind COS in day"
    assert describe(Composition.parse("COS0 x SE1"), FEATURES) == (
        "a pattern of kind COS in day that changes smoothly along week"
    )
    assert describe(Composition.parse("COS0 x PER1"), FEATURES) == (
        "a rhythm in week that changes along day"
    )


@pytest.mark.usefixtures("registry")
def test_kernels_of_users_bring_their_own_words():
    words = {"phrase": "a wave in {feature}", "detail": "as long as {period}"}
    base.register_kernel(BaseKernel("COS", ("period",), wave, **words))
    message = describe(Composition.parse("COS0"), FEATURES, {"COS0.period": 3.0})
    assert message == "a wave in day (as long as 3)"


@pytest.mark.parametrize(
    "words",
    [
        {"phrase": "a wave in {features}"},
        {"phrase": "a wave in {"},
        {"modifier": "that waves along {}"},
        {"detail": "as long as {lengthscale}"},
    ],
)
def test_words_that_cant_be_filled_in(words):
    refused(lambda: BaseKernel("COS", ("period",), wave, **words), "COS")
