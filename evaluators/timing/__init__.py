"""Speed: how many times faster than a reference a program solves problems, right and by a clock that is not its own."""

from progevo.evaluators.timing.examiner import Examiner, Failed, Loader, TooSlow
from progevo.evaluators.timing.instances import Instance, Size, drawn, large_enough
from progevo.evaluators.timing.score import Reference, Speedup

__all__ = [
    "Examiner",
    "Failed",
    "Instance",
    "Loader",
    "Reference",
    "Size",
    "Speedup",
    "TooSlow",
    "drawn",
    "large_enough",
]
