"""The errors and warnings that a user of the package meets.

Every message has two short sentences: what is wrong, and what to do about it.
"""


class InputError(ValueError):
    """Something the user gave cannot be used as it is.

    The command line turns it into exit code 2 without a traceback.
    """


class SamplingError(RuntimeError):
    """No chain of a run gave draws to go on with; what the files of the run hold stays there."""


class WorkerError(RuntimeError):
    """Workers on other machines, or in other processes, kept dying."""


class DataWarning(UserWarning):
    """The data can be used, but a person should look at them."""


class SelectionWarning(UserWarning):
    """A kernel was selected, but under circumstances a person should know of."""


class SamplingWarning(UserWarning):
    """A run ended early or lost a chain; its draws can be used, and the run can go on."""
