"""Shell completion for the ``kem`` command.

By default, Typer guesses the shell from the parent processes, which fails in containers, editors
and scripts. Here the user names the shell.
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
        help="Print the completion script of kem for a shell.",
        show_default=False,
    ),
]
InstallCompletion = Annotated[
    Shell | None,
    typer.Option(
        "--install-completion",
        callback=install_callback,
        is_eager=True,
        help="Add the completion script to the start-up files of a shell.",
        show_default=False,
    ),
]

#: Registers Typer's completion classes, one for each shell.
prepare = completion_init
