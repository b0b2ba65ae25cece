"""Optimisation of a sequence of functions that can be called."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from kem_pymc.errors import InputError
from kem_pymc.lifelong.optimizer import LifelongOptimizer, whole
from kem_pymc.lifelong.space import Space, SpaceExhausted

#: A function of a point; None stands for a failed evaluation.
type Evaluate = Callable[[dict[str, Any]], float | None]


def minimize_sequence(
    functions: Mapping[str, Callable[[dict[str, Any]], float]]
    | Sequence[Callable[[dict[str, Any]], float]],
    space: Space | Mapping[str, Any],
    *,
    evaluations: int = 50,
    catch: type[Exception] | Iterable[type[Exception]] = (),
    **options: Any,
) -> LifelongOptimizer:
    """Minimise functions one after the other.

    Parameters
    ----------
    functions : mapping of str to callable, or sequence of callables
        Functions of a point, a dict of values by name. With `out`, functions that are finished
        aren't called again, and those with new names become further tasks; in a sequence the names
        are numbers. Only the last task is continued if `evaluations` is larger than before.
    space : Space or mapping of str to Distribution
    evaluations : int
        Number of evaluations of each function; fewer if the space has fewer points.
    catch : exception or iterable of exceptions
        Exceptions that count as a failed evaluation. Others end the search; with `out` it can be
        continued.
    **options
        Of :class:`LifelongOptimizer`.

    Returns
    -------
    LifelongOptimizer
        Its tasks have all points and values.

    Raises
    ------
    InputError
        As for :class:`LifelongOptimizer`, or if `evaluations` is below 1, a function can't be
        called, two names are the same as text, or `catch` has anything but exceptions.
    """
    if callable(functions):
        raise InputError("functions is one function. Give a list of functions.")
    if not isinstance(functions, Iterable):
        raise InputError(f"functions is {functions!r}. Give a list of functions.")
    if not isinstance(functions, Mapping):
        functions = {str(i): function for i, function in enumerate(functions, start=1)}
    for name, function in functions.items():
        if not callable(function):
            raise InputError(f"The function {name} is {function!r}. Give one that can be called.")
    caught = tuple(catch) if isinstance(catch, Iterable) else (catch,)
    if not all(isinstance(own, type) and issubclass(own, Exception) for own in caught):
        raise InputError(f"catch is {catch!r}. Give exceptions, such as ValueError.")

    def valued(function: Callable[[dict[str, Any]], float]) -> Evaluate:
        def evaluate(point: dict[str, Any]) -> float | None:
            try:
                return function(point)
            except caught:
                return None

        return evaluate

    tasks = named({name: valued(own) for name, own in functions.items()})
    optimizer = LifelongOptimizer(space, **options)
    run(optimizer, tasks, evaluations)
    return optimizer


def named[Value](given: Mapping[Any, Value]) -> dict[str, Value]:
    """Return values by name, as text.

    Raises
    ------
    InputError
        If two names are the same as text.
    """
    found = {str(name): value for name, value in given.items()}
    if len(found) < len(given):
        raise InputError(
            f"Of the names {', '.join(map(repr, given))} two are the same as text. Rename one."
        )
    return found


def run(optimizer: LifelongOptimizer, functions: Mapping[str, Evaluate], evaluations: int) -> None:
    """Evaluate each function as often as is asked, from where the optimiser stopped.

    The evaluations of a function end early when all points of the space have been tried.

    Parameters
    ----------
    optimizer : LifelongOptimizer
    functions : mapping of str to callable
        Functions of a point; None stands for a failed evaluation.
    evaluations : int
        Number of evaluations of each function.

    Raises
    ------
    InputError
        If `evaluations` is below 1.
    """
    evaluations = whole("evaluations", evaluations, at_least=1)
    for name, function in functions.items():
        names = [task.name for task in optimizer.tasks]
        if name not in names:
            optimizer.next_task(name)
        elif name != names[-1]:
            continue  # a task ends when the next one begins
        while len(optimizer.task.points) < evaluations:
            try:
                point = optimizer.task.pending[0] if optimizer.task.pending else optimizer.ask()
            except SpaceExhausted:
                break
            optimizer.tell(point, function(dict(point)))
