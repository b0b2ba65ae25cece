"""Errors and warnings that the package raises for its users.

Every message has two short sentences: what is wrong, and how to fix it.
"""


class InputError(ValueError):
    """Invalid input from the user.

    The command line reports it without a traceback and with exit code 2.
    """


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
