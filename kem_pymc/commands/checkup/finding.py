"""What a check of ``kem doctor`` finds: facts, and problems with their remedies."""

from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Problem:
    """Something that is wrong, or soon will be.

    Attributes
    ----------
    what, remedy : str
        A sentence each.
    fails : bool
        Whether the package can't work; else it works worse than it could.
    """

    what: str
    remedy: str
    fails: bool = False


@dataclass(frozen=True)
class Finding:
    """What one check found.

    Attributes
    ----------
    title : str
    facts : dict of str to str
    problems : list of Problem
    """

    title: str
    facts: dict[str, str] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)

    def doubt(self, what: str, remedy: str, fails: bool = False) -> None:
        """Add a problem."""
        self.problems.append(Problem(what, remedy, fails))


#: Fills in a finding that has its title.
type Check = Callable[[Finding], None]


def examined(title: str, check: Check) -> Finding:
    """Return what a check finds; that it failed, if it does, beside what it had found."""
    finding = Finding(title)
    try:
        check(finding)
    except Exception as error:  # whatever is broken here may break any check
        reason = f"{type(error).__name__}: {error}".rstrip(".: ")
        finding.doubt(f"This check failed ({reason}).", "Report it, with kem doctor --json.")
    return finding


def size(count: float) -> str:
    """Return a number of bytes in words."""
    for unit in ("bytes", "KB", "MB", "GB"):
        if count < 1000:
            return f"{count:.0f} {unit}" if unit in ("bytes", "KB") else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.1f} TB"
