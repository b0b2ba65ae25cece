"""The ``kem`` command-line program: its commands, and how errors become messages and exit codes.

Exit codes are 0 for success, 2 for invalid input, 1 for any other error, and 130 for Ctrl-C.
Modules that are slow to import are imported by the commands when they run, so that ``kem --help``
responds at once.
"""

import errno
import os
import shlex
import sys
import warnings
from _thread import interrupt_main
from inspect import cleandoc
from io import TextIOWrapper
from pathlib import Path
from threading import Timer
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from kem_pymc.cli import (
    compare,
    diagnose,
    doctor,
    effects,
    fit,
    init,
    quickstart,
    report,
    screen,
    search,
    select,
    trial,
)
from kem_pymc.errors import (
    DataWarning,
    InputError,
    SamplingError,
    SelectionWarning,
    WorkerError,
    in_python,
)

#: Arguments whose option has another name, and what stands for arguments without an option.
OTHER_NAMES = {"gaps": "skip_gaps", "short": "drop_short"}
INSTEAD = {"scope": "kem effects", "priors": "a study file"}

#: Errors of full disks, and what to do.
FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
ROOM = "Make room, and run the command again."

#: Seconds until Ctrl-C is pressed again, by which the callback that swallowed it has ended.
AGAIN = 0.1


class _Kem(TyperGroup):
    """Command group that prints errors as messages, with a traceback only under ``--debug``."""

    def invoke(self, ctx: Any) -> Any:
        """Run the requested command; turn an exception into a message and an exit code."""
        debug = ctx.params["debug"]
        with warnings.catch_warnings():
            if not debug:  # users of the command line can't act on warnings of other packages
                warnings.simplefilter("ignore")
                for category in (DataWarning, SelectionWarning):
                    warnings.simplefilter("always", category)
                warnings.showwarning = lambda message, *_, **__: screen.warn(str(message))
            try:
                _check_folder()
                return super().invoke(ctx)
            except (KeyboardInterrupt, Exception) as error:
                # Ctrl-C within compiled code is the cause of another error.
                if isinstance(error, KeyboardInterrupt) or (
                    isinstance(error, SystemError)
                    and isinstance(error.__cause__, KeyboardInterrupt)
                ):
                    screen.warn("Interrupted before the command was complete.")
                    raise typer.Exit(130) from None
                if isinstance(error, typer.Abort | BrokenPipeError) or hasattr(error, "exit_code"):
                    raise  # typer handles these
                if debug:
                    screen.errors.print_exception()
                known = isinstance(error, InputError | SamplingError | WorkerError)
                full = isinstance(error, OSError) and error.errno in FULL
                what = f"The results can't be written: {error}. {ROOM}" if full else str(error)
                screen.error(what if known or full else _fault(error, debug))
                raise typer.Exit(2 if isinstance(error, InputError) else 1) from error


class _Command(TyperCommand):
    """Command whose errors name options in the place of Python arguments.

    With a study file, errors keep the arguments, since study files are written in Python.
    """

    def invoke(self, ctx: Any) -> Any:
        """Run the command; if it raises an `InputError`, name options in its message."""
        try:
            return super().invoke(ctx)
        except InputError as error:
            if ctx.params.get("study") is not None:
                raise
            raise InputError(error.worded(self.as_option)) from error

    def as_option(self, name: str, value: Any) -> str:
        """Return an argument as an option, or as in Python if the command has no such option."""
        option = OTHER_NAMES.get(name, name)
        parameter = next((p for p in self.params if p.name == option), None)
        if parameter is None or not parameter.opts[0].startswith("--"):
            return INSTEAD.get(name) or in_python(name, value)
        if value is ... or getattr(parameter, "is_flag", False):
            return parameter.opts[0]
        return f"{parameter.opts[0]} {'none' if value is None else value}"


def _check_folder() -> None:
    try:
        Path.cwd()
    except OSError as error:
        raise InputError(
            "The folder in which you are doesn't exist any more. Change to another one."
        ) from error


def _fault(error: Exception, shown: bool) -> str:
    what = f"{type(error).__name__}: {error}".rstrip(".: ")
    see = f"To see the traceback, run: {shlex.join(['kem', '--debug', *sys.argv[1:]])}"
    remedy = "Report it with the traceback above." if shown else see
    return f"kem failed unexpectedly: {what}. {remedy}"


app = typer.Typer(
    cls=_Kem,
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(value: bool) -> None:
    if value:
        from importlib.metadata import version

        screen.console.print(f"kem_pymc {version('kem-pymc')}")
        raise typer.Exit


@app.callback(epilog="Example: kem quickstart --out kem-quickstart")
def kem(
    debug: Annotated[bool, typer.Option("--debug", help="Show tracebacks and warnings.")] = False,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Learn from pilot users how kernels evolve, then select a kernel for each new user."""


def _add(group: typer.Typer, command: Any, example: str) -> None:
    """Add a command to a group."""
    paragraphs = cleandoc(command.__doc__).split("\n\n")  # Typer would keep their line breaks
    group.command(
        cls=_Command,
        epilog=example,
        help="\n\n".join(paragraph.replace("\n", " ") for paragraph in paragraphs),
    )(command)


for module in (quickstart, fit, effects, diagnose, select, report, init, compare, search, doctor):
    _add(app, getattr(module, module.__name__.rpartition(".")[2]), module.EXAMPLE)

running = typer.Typer(no_args_is_help=True, rich_markup_mode="rich")
for command, words in trial.COMMANDS.items():
    _add(running, command, f"Example: kem trial {command.__name__} {words}")
app.add_typer(
    running,
    name="trial",
    help="Run a trial: participants' data in a database, a selection for each time step.",
    epilog=f"Example: kem trial init {trial.COMMANDS[trial.init]}",
)


def main() -> None:
    """Run the ``kem`` command."""
    for stream in (sys.stdout, sys.stderr):  # some encodings lack characters
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="replace")
    os.environ.setdefault("MPLBACKEND", "agg")  # pictures are saved, and none is shown
    usual = sys.unraisablehook

    def again(lost: Any) -> None:
        """Press Ctrl-C again if a callback, such as a weak reference's, swallowed it."""
        if issubclass(lost.exc_type, KeyboardInterrupt):
            Timer(AGAIN, interrupt_main).start()
        else:
            usual(lost)

    sys.unraisablehook = again
    app()
