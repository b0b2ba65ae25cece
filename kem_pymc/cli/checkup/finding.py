"""Findings of the checks of ``kem doctor``: facts, and problems with their remedies."""

from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Problem:
    """A problem that exists or is likely to occur soon.

    Attributes
    ----------
    what, remedy : str
        Description of the problem and of its remedy, each a sentence.
    fails : bool
        Whether the problem keeps the package from working; otherwise the package works less well.
    """

    what: str
    remedy: str
    fails: bool = False


@dataclass(frozen=True)
class Finding:
    """Result of one check.

    Attributes
    ----------
    title : str
        Title of the check.
    facts : dict of str to str
        Facts to print, by name.
    problems : list of Problem
        Problems that the check found.
    """

    title: str
    facts: dict[str, str] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)

    def doubt(self, what: str, remedy: str, fails: bool = False) -> None:
        """Add a problem."""
        self.problems.append(Problem(what, remedy, fails))


#: Function that adds facts and problems to a finding that has only a title.
type Check = Callable[[Finding], None]


def examined(title: str, check: Check) -> Finding:
    """Run a check and return its finding; an exception is added to it as a problem."""
    finding = Finding(title)
    try:
        check(finding)
    except Exception as error:  # a broken installation may break any check
        reason = f"{type(error).__name__}: {error}".rstrip(".: ")
        finding.doubt(
            f"This check failed ({reason}).", "Report it with the output of kem doctor --json."
        )
    return finding


def size(count: float) -> str:
    """Return a number of bytes as text, with a unit."""
    for unit in ("bytes", "KB", "MB", "GB"):
        if count < 1000:
            return f"{count:.0f} {unit}" if unit in ("bytes", "KB") else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.1f} TB"
