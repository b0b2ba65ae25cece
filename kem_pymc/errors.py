"""Errors and warnings that the package raises for its users.

Every message has two short sentences: what is wrong, and how to fix it.
"""

import re
from collections.abc import Callable
from math import inf
from typing import Any

#: Numbers of characters of a message, and of a word in it, beyond which it is shortened, and of
#: each of the ends that are left of a word.
LONGEST, WORD, ENDS = 3000, 300, 40


class InputError(ValueError):
    """Invalid input from the user.

    The command line reports it without a traceback and with exit code 2.

    Parameters
    ----------
    message : str
        Message, in which arguments are placeholders: "Drop the rows with {missing}."
    see : str, optional
        Heading of docs/reference/pitfalls.md under which there is more to say.
    **arguments
        Name and value of each placeholder, like ``missing="drop"``. The message then has the
        argument as in Python, ``missing='drop'``; the command line writes its option instead,
        ``--missing drop``. The value ``...`` stands for any value, of which nothing is said.
    """

    def __init__(self, message: str, *, see: Any = "", **arguments: Any) -> None:
        super().__init__(message)
        self.see, self.arguments = see, arguments

    def __str__(self) -> str:
        return self.worded(in_python)

    def worded(self, write: Callable[[str, Any], str]) -> str:
        """Return the message, in which `write` writes every argument from its name and value."""
        message = str(self.args[0])
        for name, value in self.arguments.items():  # data in messages may have other braces
            message = message.replace(f"{{{name}}}", write(name, value))
        more = f' (More: "{self.see}" in the documentation, under Messages.)' if self.see else ""
        return shortened(message, LONGEST) + more


class Problems:
    """Errors of several checks, raised together: ``with problems: check(...)``, then `check`."""

    def __init__(self) -> None:
        self.errors: list[InputError] = []

    def __enter__(self) -> None: ...

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> bool:
        if isinstance(error, InputError):
            self.errors.append(error)
        return isinstance(error, InputError)

    def add_problem(self, message: str, **arguments: Any) -> None:
        """Add an :class:`InputError` with these arguments."""
        self.errors.append(InputError(message, **arguments))

    def check(self) -> None:
        """Raise an error with the messages of all problems, if there are any.

        Raises
        ------
        InputError
        """
        if self.errors:
            messages = dict.fromkeys(str(error.args[0]) for error in self.errors)
            arguments = {k: v for error in self.errors for k, v in error.arguments.items()}
            see = next((error.see for error in self.errors if error.see), "")
            raise InputError("\n".join(messages), see=see, **arguments) from (
                self.errors[0].__cause__
            )


class SamplingError(RuntimeError):
    """Chains of a run failed, and no other has posterior draws; files in its folder are kept."""


class WorkerError(RuntimeError):
    """Workers in other processes or on other machines died repeatedly."""


class DataWarning(UserWarning):
    """The data can be used, but the user should check them."""


class SelectionWarning(UserWarning):
    """A kernel was selected, but under circumstances that the user should consider."""


class SamplingWarning(UserWarning):
    """A run was interrupted or a chain failed; its draws can be used, and it can be resumed."""


def shortened(text: str, longest: float = inf) -> str:
    """Return text in which words and quoted names that are too long have only their ends.

    If there are more than `longest` characters then, the text has only its ends, too.
    """
    quoted = rf"(?<=(?<!\w)')[^'\n]{{{WORD},}}(?='(?!\w))"  # not from one "can't" to the next
    for pattern in (quoted, rf"\S{{{WORD},}}"):
        text = re.sub(pattern, lambda match: f"{match[0][:ENDS]} ... {match[0][-ENDS:]}", text)
    if len(text) <= longest:
        return text
    return f"{text[: int(longest) - ENDS]} ... {text[-ENDS:]}"


def in_python(name: str, value: Any) -> str:
    """Return an argument as it is written in Python; without a value if that is ``...``."""
    return f"{name}=" if value is ... else f"{name}={value!r}"
