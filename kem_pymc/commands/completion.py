"""Completion of the command in shells.

Typer would guess the shell from the processes above this one, which fails in containers, editors
and scripts. Here the shell is named.
"""

from typing import Annotated, Literal

import typer
from typer.completion import completion_init, install_callback, show_callback

Shell = Literal["bash", "zsh", "fish"]

ShowCompletion = Annotated[
    Shell | None,
    typer.Option(
        "--show-completion",
        callback=show_callback,
        is_eager=True,
        help="Print what makes a shell complete kem's commands.",
        show_default=False,
    ),
]
InstallCompletion = Annotated[
    Shell | None,
    typer.Option(
        "--install-completion",
        callback=install_callback,
        is_eager=True,
        help="Add it to the start-up files of a shell.",
        show_default=False,
    ),
]

#: Makes known how each shell asks.
prepare = completion_init
