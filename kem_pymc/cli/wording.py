"""Reword messages about Python arguments as messages about options of the command line."""

import re
from collections.abc import Collection

#: Replacements of phrases that don't correspond to an option of the same name and value.
PHRASES = {
    "gaps='skip'": "--skip-gaps",
    "scope='new', ": "",
    "shared=None": "--shared none",
    "overwrite=True": "--overwrite",
    "Pass them as priors=": "Add the study file that has them",
    "data_home= or ": "",
}

#: Python call, as in "Sample kem.final_model(cohort, pool, shared=None)", which isn't reworded.
CALL = re.compile(r"([\w.]+\([^()]*\))")

#: Argument in a message, with or without a value.
ARGUMENT = re.compile(r"\b(?P<name>[a-z_]+)=(?:'(?P<text>[^']*)'|(?P<value>-?\w+(?:\.\w+)*))?")

#: Option that a message names twice, because it named the argument and the option.
TWICE = re.compile(r"(--[\w-]+) \(\1\)|(--[\w-]+), \2\b")


def at_command_line(message: str, options: Collection[str]) -> str:
    """Return a message with options in place of arguments.

    Parameters
    ----------
    message : str
        Message of an error of the package, like "Allow gaps with gaps='skip' (--skip-gaps)."
    options : collection of str
        Options of the command, like ``--skip-gaps``. Arguments without such an option are kept.

    Returns
    -------
    str
        The reworded message.
    """
    parts = CALL.split(message)
    parts[::2] = [_reworded(part, options) for part in parts[::2]]
    return TWICE.sub(lambda found: found[1] or found[2], "".join(parts))


def _reworded(text: str, options: Collection[str]) -> str:
    for phrase, instead in PHRASES.items():
        text = text.replace(phrase, instead)

    def option(found: re.Match[str]) -> str:
        name = f"--{found['name'].replace('_', '-')}"
        value = found["text"] or found["value"]
        return " ".join(filter(None, (name, value))) if name in options else found[0]

    return ARGUMENT.sub(option, text)
