"""Tasks of the figures of the Kernel Evolution Model, read from ``settings.toml``."""

import json
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from experiments.kem.methods import METHODS, Memoryless, variant
from experiments.kem.studies import LoadedStudy
from experiments.results import Options, slug
from experiments.settings import read
from kem_pymc._system.files import write_atomically
from kem_pymc.comparison.methods import Method, Sampling, Training
from kem_pymc.comparison.output import Evidence
from kem_pymc.comparison.stored import digest
from kem_pymc.comparison.task import FULL, ComparisonTask, Scale, tasks_of
from kem_pymc.evolutions.evolutions import Evolutions
from kem_pymc.priors import Priors

#: File in the folder of a training that describes it; written once the training is complete.
TRAINING = "training.json"

#: Number of steps of a Memoryless search for previews.
QUICK_STEPS = 200

#: Sampling of the joint posterior, and for previews.
SCALES = {
    False: replace(FULL, sampling=FULL.sampling | {"joint": Sampling(2, 500, 100)}),
    True: Scale({"cut": Sampling(2, 20, 20), "joint": Sampling(2, 10, 10)}, trials=1, test_users=3),
}


@dataclass(frozen=True)
class KEMTask(ComparisonTask):
    """A task whose evolutions are kept as well, for other methods and figures.

    Attributes
    ----------
    out : Path
        Folder of the experiment.
    """

    out: Path = Path()

    def learn(self, training: Training, plain: Priors) -> None:
        """Learn evolutions, or read those that were learned before."""
        folder = self.folder
        try:
            described = json.loads((folder / TRAINING).read_text("utf-8"))
        except OSError:
            super().learn(training, plain)
            folder.mkdir(parents=True, exist_ok=True)
            for name, evolutions in training.evolutions.items():
                evolutions.save(folder / f"{slug(name)}.json")
            described = {
                "evolutions": list(training.evolutions),
                "seconds": training.seconds,
                "r_hats": training.r_hats,
                "of": self.key(),
            }
            write_atomically(folder / TRAINING, json.dumps(described, indent=1).encode())
            return
        training.seconds, training.r_hats = described["seconds"], described["r_hats"]
        training.evolutions.update(self.evolutions())

    @property
    def folder(self) -> Path:
        """The folder of the training."""
        name = f"{self.method.training}-{digest(self.key())}"
        return self.out / "runs" / self.study.name / f"trial-{self.trial:02d}" / name

    def evolutions(self) -> dict[str, Evolutions]:
        """Return the evolutions that were learned, by name."""
        names = json.loads((self.folder / TRAINING).read_text("utf-8"))["evolutions"]
        return {name: Evolutions.load(self.folder / f"{slug(name)}.json") for name in names}


class KEMEvidence(Evidence):
    """Results in which users of different trials may be different ones."""

    def persons(self, table: pd.DataFrame) -> pd.Series:
        """Return labels of distinct users, with the trial if every trial has different users."""
        new = [n for n, s in self.studies.items() if isinstance(s, LoadedStudy) and s.new_users]
        labels = table["trial"].astype(str) + ": " + table["user"]
        return table["user"].mask(table["study"].isin(new), labels)


class KEMSettings(NamedTuple):
    """Studies, methods and figures of the Kernel Evolution Model, by name.

    Attributes
    ----------
    studies : dict of str to LoadedStudy
    methods : dict of str to Method
    figures : dict of str to dict
        Names of `studies` and `methods`, and optionally `trials`, `folds`, and a `seed` that is
        added to that of the experiment, so that a figure from which options are chosen doesn't use
        the same users as the figures that report results. `only` has the studies of methods that
        can't be used on all.
    scales : dict of bool to Scale
        Without and with ``--quick``.
    """

    studies: dict[str, LoadedStudy]
    methods: dict[str, Method]
    figures: dict[str, dict[str, Any]]
    scales: dict[bool, Scale] = SCALES

    @classmethod
    def of(cls, tables: dict[str, Any]) -> "KEMSettings":
        """Return the settings of TOML tables."""
        studies = {name: _study(name, **options) for name, options in tables["studies"].items()}
        variants = {name: variant(**options) for name, options in tables.get("methods", {}).items()}
        return cls(studies, METHODS | variants, tables["figures"])

    def tasks(self, name: str, options: Options) -> list[KEMTask]:
        """Return the tasks of a figure, one for each study, trial and training."""
        figure = self.figures[name]
        methods = {m: method for m, method in self.methods.items() if m in figure["methods"]}
        if options.quick:
            methods = {m: _quick(method) for m, method in methods.items()}
        scale = self.scales[options.quick]
        seed, folds = options.seed + figure.get("seed", 0), figure.get("folds")
        tasks: list[ComparisonTask] = []
        for key in figure["studies"]:
            study, only = self.studies[key], figure.get("only", {})
            own = {m: method for m, method in methods.items() if key in only.get(m, [key])}
            most = figure.get("trials", study.trials)
            most = min(most, options.trials or (scale.trials or most))
            if folds:  # a trial for each fold; a preview uses one draw of users
                study = replace(study, folds=folds, target="next")
                most = folds * (1 if options.quick else most)
            tasks += tasks_of(study, own, most, replace(scale, trials=None), seed)
        tasks.sort(key=lambda task: task.trial)
        return [KEMTask(**vars(task), out=options.out) for task in tasks]

    def evidence(self, tasks: Iterable[KEMTask], out: Path) -> Evidence:
        """Return the stored results of tasks."""
        return KEMEvidence(list(tasks), out, dict(self.studies), self.methods)


@cache
def settings() -> KEMSettings:
    """Return the settings of ``settings.toml``."""
    return KEMSettings.of(read())


def _study(name: str, pool: str | list[str], **fields: Any) -> LoadedStudy:
    if isinstance(pool, str):
        return LoadedStudy(name=name, pool_name=pool, **fields)
    return LoadedStudy(name=name, pool=tuple(pool), **fields)


def _quick(method: Method) -> Method:
    if not isinstance(method, Memoryless):
        return method
    return replace(method, options={"steps": QUICK_STEPS} | method.options)
