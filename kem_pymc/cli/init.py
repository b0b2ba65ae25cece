"""``kem init``: write a study file to start from."""

from importlib.resources import files
from pathlib import Path
from typing import Annotated

import typer

from kem_pymc.cli.screen import info
from kem_pymc.errors import InputError

EXAMPLE = "Example: kem init study.py"


def init(
    name: Annotated[Path, typer.Argument(metavar="NAME.py", help="File to write.")],
) -> None:
    """Write a commented study file to start from, with data, candidates, priors and sampler."""
    if name.suffix != ".py":
        raise InputError(f"{name} isn't the name of a Python file. End it with .py.")
    template = files("kem_pymc.cli").joinpath("study_template.txt").read_text("utf-8")
    try:
        with name.open("x", encoding="utf-8") as file:
            file.write(template)
    except FileExistsError as error:
        raise InputError(f"The file {name} exists. Choose another name.") from error
    except OSError as error:
        raise InputError(
            f"The file {name} can't be written ({error.strerror}). Choose another folder."
        ) from error
    info(f"Wrote {name}. Edit it, then run: kem fit {name}")
