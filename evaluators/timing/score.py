"""Speedup: how many times faster than a reference a program solves problems, both timed by the same stopwatch."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from progevo.errors import BadOutput
from progevo.evaluators.timing.examiner import Examiner, Failed, Loader, TooSlow
from progevo.evaluators.timing.instances import CHECK_S, LEAST_TRIPS, Instance
from progevo.types import Answer, Execution, Inputs, Job, Limits, Program, Score, Stopwatch, Timing, Usage

HERE = Path(__file__).resolve().parent

#: Gives the warm-up's own value back when it is timed: what a round trip takes with nothing in between.
ECHO = Program("""\
kept = []


def solve(problem):
    kept.append(problem)
    return kept[0]
""")
#: A program is cut at so many times the reference, and never sooner than `LEAST_CUT_S`: a machine may hiccup.
CUT, LEAST_CUT_S = 10.0, 0.25
#: What the reference itself may take.
REFERENCE_S = 60.0
#: What a run may take beside the caps of its stopwatch: from the last byte of the output to the end of its process.
ROOM_S = 5.0
#: How the stopwatch's word of a call begins that was too slow: such a one may have been the machine's fault.
CALL = "its timed call"
#: In place of the time of a call that was cut.
CUT_OFF = Timing(ready_s=0.0, warm_up_s=0.0, call_s=math.inf, output=b"")

Run = Callable[[Job], Execution]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reference:
    """The program that candidates are compared with, and the name of what it defines."""

    program: Program
    entrypoint: str


class Speedup:
    """An `Evaluator` for programs that solve a problem: by how much faster than the reference, if they solve it right.

    Args:
        loader: where the trusted task is, which judges.
        reference: runs in sandboxes of its own, between those of the candidate.
        instances: for each split.
        runs: of the reference and of the candidate, on each instance; the fastest of each counts.
        ready_s: what a program may take to be imported.
        check_s: what the check of one solution may take.
    """

    def __init__(
        self,
        *,
        loader: Loader,
        reference: Reference,
        instances: Mapping[str, Sequence[Instance]],
        runs: int = 3,
        ready_s: float = 10.0,
        check_s: float = CHECK_S,
    ) -> None:
        self.examiner = Examiner(loader)
        self.reference, self.runs, self.ready_s, self.check_s = reference, runs, ready_s, check_s
        self.instances = {split: tuple(of) for split, of in instances.items()}
        #: By problem: what a round trip takes, once it has been measured.
        self._trips: dict[str, tuple[Timing, ...]] = {}

    @property
    def harness(self) -> Path:
        return HERE / "harness.py"

    def inputs(self, split: str, /) -> Inputs:
        """What every run is given; the problems themselves come through the stopwatch."""
        return Inputs(
            request={"problems": [instance.sha256 for instance in self.instances[split]]},
            files={"typed.py": HERE / "typed.py"},
        )

    def trial(self, split: str, job: Job, run: Run, /) -> Execution:
        """The candidate on every instance, `runs` times, each time in a process of its own right after the reference.

        The answer holds, for each instance, the round trips, the reference's timings and the candidate's. A run that
        was cut is one of them; the candidate has failed where each of them was.
        """
        # Every run has the same surroundings, and so the same source of processes.
        job = replace(job, inputs=Inputs(files=job.inputs.files))
        timings: list[Timing] = []
        usages: list[Usage] = []
        report: list[str] = []
        instances = self.instances[split]
        for number, instance in enumerate(instances):
            warm_up = instances[number - 1].problem if len(instances) > 1 else instance.problem
            trips = self._round_trips(instance, job, run)
            if isinstance(trips, Execution):
                return trips
            references: list[Timing] = []
            candidates: list[Timing] = []
            reason, log = "", ""
            for _ in range(self.runs):
                done = run(self._job(job, self.reference, warm_up, instance.problem, REFERENCE_S))
                timing = _timing(done)
                if timing is None:
                    return _lost(f"the reference ended as {done.status}: {done.reason}")
                references.append(timing)
                least = min(timing.call_s for timing in references)
                own = Reference(program=job.program, entrypoint=job.entrypoint)
                cut_s = max(CUT * least, LEAST_CUT_S)
                done = run(self._job(job, own, warm_up, instance.problem, cut_s))
                usages.append(done.usage)
                usage, log = Usage.together(usages), done.log_tail or log
                done = _beyond(usage, job.limits) or done
                timing = _timing(done)
                if timing is None and done.status == "ok":
                    done = replace(done, status="bad_output", answer=None, reason="it spoke past its harness")
                if timing is None and not (done.status == "timeout" and done.reason.startswith(CALL)):
                    return replace(done, reason=f"problem {number}: {done.reason}", log_tail=log, usage=usage)
                reason = done.reason
                candidates.append(timing or CUT_OFF)
            if all(timing is CUT_OFF for timing in candidates):
                reason = (
                    f"problem {number}: {reason}, the reference {least:.3g} s, {self.runs} times out of {self.runs}"
                )
                return Execution(status="timeout", reason=reason, log_tail=log, usage=usage)
            report.append(f"problem {number}: {_line(trips, references, candidates)}")
            timings += [*trips, *references, *candidates]
        log = "\n".join([*report, log])
        return Execution(status="ok", answer=Answer(timings=tuple(timings)), log_tail=log, usage=usage)

    def score(self, split: str, answer: Answer, /) -> Score:
        """The mean speedup over the instances. Raises `BadOutput` where a single solution does not hold."""
        instances = self.instances[split]
        if len(answer.timings) != 3 * self.runs * len(instances):
            raise BadOutput("the answer does not hold the timings of every problem")
        taken = [Taken.of(answer.timings[3 * self.runs * n :], self.runs) for n in range(len(instances))]
        for number, (instance, found) in enumerate(zip(instances, taken, strict=True)):
            for output in dict.fromkeys(found.outputs):
                self._check(number, instance, output)
        cases = tuple(each.speedup for each in taken)
        count = len(cases)
        metrics = {
            "speedup": math.fsum(cases) / count,
            "at_least": float(sum(each.at_least for each in taken)),
            "reference_ms": 1e3 * math.fsum(each.reference_s for each in taken) / count,
            "solver_ms": 1e3 * math.fsum(each.solver_s for each in taken) / count,
            "round_trip_ms": 1e3 * math.fsum(each.trip_s for each in taken) / count,
            "reference_trips": min(each.reference_s / each.trip_s for each in taken),
            "import_ms": 1e3 * max(each.import_s for each in taken),
        }
        return Score(score=metrics["speedup"], metrics=metrics, cases=cases)

    def _check(self, number: int, instance: Instance, output: bytes) -> None:
        try:
            wrong = self.examiner.check(instance.problem, output, instance.not_finite, self.check_s)
        except TooSlow:
            wrong = f"its check took more than {self.check_s:g} s"
        except Failed as error:
            wrong = f"its check failed: {error}"
        if wrong:
            raise BadOutput(f"invalid: problem {number}: {wrong}")

    def _round_trips(self, instance: Instance, job: Job, run: Run) -> tuple[Timing, ...] | Execution:
        """What it takes to hand the problem over and the reference's solution back, timed by the same stopwatch."""
        known = self._trips.get(instance.sha256)
        if known is not None:
            return known
        echo = Reference(program=ECHO, entrypoint="solve")
        found = []
        for _ in range(self.runs):
            done = run(self._job(job, echo, instance.solution, instance.problem, REFERENCE_S))
            timing = _timing(done)
            if timing is None:
                return _lost(f"the round trip could not be timed: {done.status}, {done.reason}")
            found.append(timing)
        self._trips[instance.sha256] = tuple(found)
        return self._trips[instance.sha256]

    def _job(self, job: Job, what: Reference, warm_up: bytes, problem: bytes, call_s: float) -> Job:
        """One run: the first look of its process at the problem."""
        watch = Stopwatch(
            warm_up=warm_up, problem=problem, ready_s=self.ready_s, warm_up_s=self.ready_s + call_s, call_s=call_s
        )
        wall_s = watch.ready_s + watch.warm_up_s + watch.call_s + ROOM_S
        return replace(
            job,
            program=what.program,
            entrypoint=what.entrypoint,
            inputs=replace(job.inputs, stopwatch=watch),
            limits=replace(job.limits, wall_s=wall_s),
        )


def _timing(done: Execution) -> Timing | None:
    """What the stopwatch of one run has measured, if it has."""
    return done.answer.timings[0] if done.answer is not None and done.answer.timings else None


def _beyond(usage: Usage, limits: Limits) -> Execution | None:
    """How a candidate ends whose runs are too much, all of them together; `None` where they are not."""
    if usage.wall_s is not None and usage.wall_s > limits.wall_s:
        reason = f"more than {limits.wall_s:g} s of wall time, all its runs together (limit wall_s)"
        return Execution(status="timeout", reason=reason)
    if usage.cpu_s is not None and usage.cpu_s > limits.cpu_s:
        reason = f"more than {limits.cpu_s} s of CPU time, all its runs together (limit cpu_s)"
        return Execution(status="cpu_limit", reason=reason)
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Taken:
    """What one instance took, as measured, the fastest run of each kind; and what the candidate answered."""

    trip_s: float
    reference_s: float
    solver_s: float
    import_s: float
    outputs: tuple[bytes, ...]

    @classmethod
    def of(cls, timings: Sequence[Timing], runs: int) -> Taken:
        """From the round trips, the reference's runs and the candidate's, in this order."""
        trips, references, candidates = (timings[runs * n : runs * (n + 1)] for n in range(3))
        whole = [timing for timing in candidates if timing.call_s != math.inf]
        return cls(
            trip_s=_least(trips),
            reference_s=_least(references),
            solver_s=_least(whole),
            import_s=max(timing.ready_s for timing in whole),
            outputs=tuple(timing.output for timing in whole),
        )

    @property
    def at_least(self) -> bool:
        """Whether the program may be faster than was measured: half of what was timed is the round trip."""
        return self.solver_s < 2 * self.trip_s

    @property
    def speedup(self) -> float:
        """The reference's time over the program's, both with the round trip that they share.

        It is not taken off: an estimate of it that is too large, as on a busy machine, would make fast programs faster.
        So what is said is a little closer to 1 than what is, and no more than the reference's time over the trip's.
        """
        return self.reference_s / self.solver_s


def _least(timings: Sequence[Timing]) -> float:
    least = min(timing.call_s for timing in timings)
    if not 0 < least < math.inf:
        raise BadOutput(f"a call that took {least} s was not measured")
    return least


def _line(trips: Sequence[Timing], references: Sequence[Timing], candidates: Sequence[Timing]) -> str:
    """What one instance took, for people."""
    found = Taken.of([*trips, *references, *candidates], len(trips))
    share = found.reference_s / found.trip_s
    coarse = f", less than {LEAST_TRIPS:g}: coarse" if share < LEAST_TRIPS else ""
    bound = "at least " if found.at_least else ""
    return (
        f"{bound}{found.speedup:.3g} times faster: reference {1e3 * found.reference_s:.3f} ms,"
        f" program {1e3 * found.solver_s:.3f} ms, round trip {1e3 * found.trip_s:.3f} ms"
        f" (the reference takes {share:.0f} of them{coarse}), import {1e3 * found.import_s:.1f} ms"
    )


def _lost(reason: str) -> Execution:
    """The host's fault, or the task's: no word about the candidate."""
    return Execution(status="sandbox_lost", reason=reason)
