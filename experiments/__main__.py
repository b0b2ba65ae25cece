"""Reproduce a paper's figure: ``uv run python -m experiments kem-fig4 --quick --out quick``."""

import sys
from typing import Any

import typer
from typer.core import TyperCommand

from experiments.command import EXAMPLE, reproduce
from kem_pymc.cli import screen
from kem_pymc.errors import InputError


class _Command(TyperCommand):
    """Command that prints invalid input as a message."""

    def invoke(self, ctx: Any) -> Any:
        """Run the command."""
        try:
            return super().invoke(ctx)
        except InputError as error:
            screen.error(str(error))
            raise typer.Exit(2) from error


app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
app.command("experiments", cls=_Command, epilog=EXAMPLE)(reproduce)

if __name__ == "__main__":
    sys.exit(app(prog_name="python -m experiments"))
