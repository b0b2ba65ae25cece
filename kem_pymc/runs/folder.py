"""Folder of a run: ``run.json`` with its plan and model, and a folder of chunks per chain."""

import json
import os
from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self

import numpy as np
from annotated_types import Le, MaxLen, MinLen

from kem_pymc._system.files import locked, read_part_of_run, write_atomically
from kem_pymc._system.options import check_seed, check_whole
from kem_pymc.errors import InputError
from kem_pymc.runs.fingerprint import differences
from kem_pymc.runs.storage import ChainFiles

SCHEMA_VERSION = 1

NAME = "run.json"


#: How Pydantic reads the classes below from ``run.json``, of which they are the schema.
STRICT = {"extra": "forbid", "strict": True, "allow_inf_nan": False}

#: Maximum number of draws, and of chains, of a run, and of characters of a text.
LONGEST, CHAINS, CHARACTERS = 1_000_000_000, 10_000, 100_000

Text = Annotated[str, MaxLen(CHARACTERS)]


@dataclass(frozen=True)
class Plan:
    """Requested numbers of draws and chains of a run, and its random seed.

    Parameters
    ----------
    draws, tune, chains : int
        Posterior draws per chain, tuning draws before them, and number of chains.
    random_seed : int
    chunk : int
        Maximum number of draws per file.

    Raises
    ------
    InputError
        If a number is out of range.
    """

    __pydantic_config__: ClassVar = STRICT

    draws: Annotated[int, Le(LONGEST)]
    tune: Annotated[int, Le(LONGEST)]
    chains: Annotated[int, Le(CHAINS)]
    random_seed: int
    chunk: int

    def __post_init__(self) -> None:
        check_whole(1, LONGEST, draws=self.draws, chunk=self.chunk)
        check_whole(0, LONGEST, tune=self.tune)
        check_whole(1, CHAINS, chains=self.chains)
        check_seed(random_seed=self.random_seed)
        for name, value in asdict(self).items():
            object.__setattr__(self, name, int(value))

    @property
    def total(self) -> int:
        """Number of draws per chain, including tuning draws."""
        return self.tune + self.draws

    def generators(self) -> list[np.random.Generator]:
        """Return the random generators of the chains, as ``pm.sample`` makes them from the seed."""
        made = np.random.default_rng(self.random_seed).spawn(self.chains)
        for generator in made:
            generator.integers(2**30)  # pm.sample draws this number for the starting point
        return made


@dataclass(frozen=True)
class RunFile:
    """Content of ``run.json``.

    Attributes
    ----------
    schema_version : int
    plan : Plan
    hyperparameters : dict of str to list of str
        Names of the hyperparameters of every candidate, in order.
    model : dict
        Fingerprint of the model.
    """

    __pydantic_config__: ClassVar = STRICT

    schema_version: Literal[1]
    plan: Plan
    hyperparameters: dict[Text, list[Text]]
    model: dict[Annotated[str, MinLen(1), MaxLen(1000)], Any]


@dataclass(frozen=True)
class Run:
    """A run that is stored in a folder.

    Attributes
    ----------
    path : Path
        Path of the folder.
    file : RunFile
    """

    path: Path
    file: RunFile

    @classmethod
    def create(
        cls, path: Path, plan: Plan, model: Mapping[str, Any], hyperparameters: Mapping[str, list]
    ) -> Self:
        """Create a run in a folder that doesn't contain a run.

        Parameters
        ----------
        path : Path
            Path of the folder, which is created if it doesn't exist.
        plan : Plan
        model : mapping
            Fingerprint of the model.
        hyperparameters : mapping
            Names of the hyperparameters of every candidate, in order.

        Raises
        ------
        InputError
            If the folder contains a run, or can't be written to.
        """
        if (path / NAME).exists():
            raise InputError(
                f"The folder {path} already contains a run. Resume it, or choose another folder."
            )
        file = RunFile(1, plan, dict(hyperparameters), dict(model))
        try:
            path.mkdir(parents=True, exist_ok=True)
            write_atomically(path / NAME, (json.dumps(asdict(file), indent=2) + "\n").encode())
        except OSError as error:
            raise InputError(
                f"The run can't be written to {path} ({error.strerror}). Choose another folder."
            ) from error
        return cls(path, file)

    @classmethod
    def open(cls, path: Path) -> Self:
        """Read the run in a folder.

        Raises
        ------
        InputError
            If there is no run, it can't be read, or its format is of another version.
        """
        file = path / NAME
        if not os.path.isfile(file):
            raise InputError(f"There is no run in {path}. Give the folder of a run.")
        names = ("model", "versions", "kem-pymc")
        return cls(path, read_part_of_run(RunFile, file, SCHEMA_VERSION, *names))

    @property
    def plan(self) -> Plan:
        """Requested numbers of draws and chains."""
        return self.file.plan

    @property
    def counts(self) -> np.ndarray:
        """Number of hyperparameters of every candidate (C,)."""
        return np.array([len(names) for names in self.file.hyperparameters.values()], np.int64)

    def check(self, model: Mapping[str, Any]) -> None:
        """Check that the run was made with a model of this fingerprint.

        Raises
        ------
        InputError
            If it was made with another model; the message states which parts differ.
        """
        changes = differences(self.file.model, model)
        if changes:
            raise InputError(
                f"The run in {self.path} can't be resumed, because of a change in "
                f"{', '.join(changes)}. Undo the change, or start a new run.",
                see="A run that can't be resumed",
            )

    def chain(self, number: int) -> ChainFiles:
        """Return the files of a chain."""
        return ChainFiles(self.path / f"chain-{number}", self.counts)

    def length(self, chain: int) -> int:
        """Return the number of written draws of a chain.

        Raises
        ------
        InputError
            If a file can't be read, or is missing.
        """
        return sum(len(chunk) for chunk in self.chain(chain).chunks())

    def locked(self) -> AbstractContextManager[None]:
        """Lock the run against other processes, on systems that can lock files.

        Raises
        ------
        InputError
            If another process has locked the run, or the folder can't be written to.
        """
        busy = (
            f"The run in {self.path} is in use by another process. "
            "Wait until that process ends, or stop it."
        )
        return locked(self.path, busy, ".lock", "Make it writable, then resume the run.")
