"""evaluators.timing: what makes a speedup, who judges a solution, which tasks are refused. Clocks: test_stopwatch."""

from __future__ import annotations

import math
import os
import pickle
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from progevo.domain import try_out
from progevo.errors import BadOutput, TaskError
from progevo.evaluators.timing import Examiner, Failed, Instance, Loader, Reference, Speedup, TooSlow, drawn, typed
from progevo.evaluators.timing.instances import large_enough
from progevo.evaluators.timing.score import CUT, CUT_OFF, LEAST_CUT_S, ROOM_S, Taken
from progevo.types import Answer, Execution, Job, Limits, Program, Timing, Usage

#: A task by itself; its words are changed in some tests.
TASK = """
import os, time

def generate_problem(n, random_seed):
    return {"n": n, "items": [random_seed * 10 + k for k in range(n)], "salt": os.urandom(8)}

def solve(problem):
    return {"sum": float(sum(problem["items"])), "kept": problem["salt"]}

def is_solution(problem, solution):
    return abs(solution["sum"] - sum(problem["items"])) < 1e-6
"""


@pytest.fixture
def examiner(tmp_path):
    """Makes an examiner of a task's text; all are ended afterwards."""
    made: list[Examiner] = []

    def make(text: str = TASK) -> Examiner:
        file = tmp_path / f"task_{len(made)}.py"
        file.write_text(text)
        made.append(Examiner(Loader(file=file)))
        return made[-1]

    yield make
    for each in made:
        each.close()


def verdict(examiner: Examiner, solution: object, *, seed: int = 1, within_s: float = 20.0, not_finite=None) -> str:
    problem = examiner.generate(3, seed, 20.0)
    return examiner.check(problem, typed.whole(solution), not_finite or {}, within_s)


@pytest.mark.skipif(
    not hasattr(os, "pidfd_open"), reason="only Linux tells of the end of a process that is not one's own"
)
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_task_that_never_comes_back_ends_with_its_host(tmp_path, number):
    """Else it computes on, and on a host that was killed nobody is left to end it."""
    file, begun = tmp_path / "task.py", tmp_path / "begun"
    file.write_text(
        f"def generate_problem(n, random_seed):\n    open({str(begun)!r}, 'w').close()\n    while True: pass\n"
    )
    host = (
        "import sys; from pathlib import Path; from progevo.evaluators.timing import Examiner, Loader;"
        "Examiner(Loader(file=Path(sys.argv[1]))).generate(1, 1, 60.0)"
    )
    with subprocess.Popen([sys.executable, "-c", host, file]) as process:
        deadline = time.monotonic() + 60
        while not begun.exists() and time.monotonic() < deadline:
            time.sleep(0.05)
        (task,) = psutil.Process(process.pid).children()
        process.send_signal(number)
        process.wait()
        gone, alive = psutil.wait_procs([task], timeout=10)
        for each in alive:
            each.kill()
    assert gone == [task]


def test_a_task_leaves_half_the_memory_to_others(examiner):
    text = TASK.replace("import os, time", "import os, resource, time")
    limited = text.replace('"sum": float(', '"limit": resource.getrlimit(resource.RLIMIT_AS)[0], "sum": float(')
    found = examiner(limited)
    problem = found.generate(3, 1, 20.0)
    limit = typed.unpacked(found.solve(problem, 20.0)["output"])["limit"]
    assert limit == os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2


class TestExaminer:
    def test_a_right_solution_holds_and_a_wrong_one_does_not(self, examiner):
        found = examiner()
        assert verdict(found, {"sum": 33.0}) == ""
        assert verdict(found, {"sum": 34.0}) == "the task's check says no"

    @pytest.mark.parametrize(
        ("solution", "word"),
        [
            (None, "the check raised TypeError"),
            ({}, "the check raised KeyError"),
            ([], "the check raised TypeError"),
            ({"sum": math.nan}, "holds 1 nan, the reference's holds finite numbers alone"),
            (math.inf, "holds 1 inf"),
            ({"sum": 33.0, "more": [-math.inf, math.nan, math.nan]}, "1 -inf and 2 nan"),
        ],
        ids=str,
    )
    def test_what_a_check_stumbles_over_or_would_let_pass_is_wrong(self, examiner, solution, word):
        assert word in verdict(examiner(), solution)

    def test_numbers_that_the_reference_has_too_are_let_through(self, examiner):
        lax = examiner(TASK.replace('abs(solution["sum"] - sum(problem["items"])) < 1e-6', "True"))
        assert verdict(lax, {"sum": math.inf}, not_finite={"inf": 1}) == ""
        assert "holds 2 inf" in verdict(lax, [math.inf] * 2, not_finite={"inf": 1})
        assert "finite numbers alone" in verdict(lax, 1.0, not_finite={"inf": 1})

    def test_bytes_that_are_no_value_are_wrong(self, examiner):
        found = examiner()
        assert "cannot be read" in found.check(found.generate(3, 1, 20.0), b"\x80\x04K\x01.", {}, 20.0)

    def test_every_solution_is_checked_against_a_fresh_problem(self, examiner):
        spoiling = TASK.replace(
            "    return abs(", '    total = sum(problem["items"])\n    problem["items"].clear()\n    return abs('
        )
        spoiling = spoiling.replace('sum(problem["items"])) < 1e-6', "total) < 1e-6")
        found = examiner(spoiling)
        assert [verdict(found, {"sum": 33.0}) for _ in range(2)] == ["", ""]

    def test_a_check_has_a_time_of_its_own(self, examiner):
        found = examiner(TASK.replace("    return abs(", "    time.sleep(solution['sleep'])\n    return abs("))
        with pytest.raises(TooSlow, match="more than"):
            verdict(found, {"sum": 33.0, "sleep": 60.0}, within_s=0.5)
        assert verdict(found, {"sum": 33.0, "sleep": 0.0}) == ""  # it goes on

    def test_a_task_that_dies_is_started_again(self, examiner):
        found = examiner(
            TASK.replace("    return abs(", "    os._exit(3) if solution['sum'] < 0 else None\n    return abs(")
        )
        with pytest.raises(Failed, match="ended with 3"):
            verdict(found, {"sum": -1.0})
        assert verdict(found, {"sum": 33.0}) == ""

    def test_its_task_prints_to_nobody(self, examiner, capfd):
        found = examiner(TASK.replace("    return abs(", "    print('loud'); os.write(2, b'louder')\n    return abs("))
        assert verdict(found, {"sum": 33.0}) == ""
        assert capfd.readouterr() == ("", "")

    def test_it_can_be_handed_to_another_process(self, examiner):
        found = examiner()
        assert verdict(found, {"sum": 33.0}) == ""
        copy = pickle.loads(pickle.dumps(found))
        assert verdict(copy, {"sum": 33.0}) == ""
        copy.close()

    def test_a_file_that_does_not_load_is_a_task_error(self, examiner):
        with pytest.raises(TaskError, match="cannot be loaded: ModuleNotFoundError"):
            verdict(examiner("import nothing_of_this_name"), 1)


class TestInstances:
    def test_a_generator_that_draws_anew_each_time_is_asked_once(self, examiner):
        one, two = drawn(examiner(), "toy", 3, [1, 2])
        salt = typed.unpacked(one.problem)["salt"]
        assert typed.unpacked(one.solution) == {"sum": 33.0, "kept": salt}
        assert one.sha256 != two.sha256

    def test_a_task_whose_reference_fails_its_own_check_is_refused(self, examiner):
        with pytest.raises(TaskError, match="of its own reference's solution"):
            drawn(examiner(TASK.replace("float(sum(", "1.0 + float(sum(")), "toy", 3, [1])

    @pytest.mark.parametrize(
        ("text", "word"),
        [
            (TASK.replace('return {"sum"', 'raise OSError("no") #'), "its own reference fails .n = 3.: OSError: no"),
            (TASK.replace("return abs(", "raise OSError #"), "the check raised OSError"),
            (TASK.replace("random_seed * 10", "0").replace("os.urandom(8)", "b''"), "the same problem for different"),
            (
                TASK.replace('"salt": os', '"salt": open(os.devnull), "no": os'),
                "its own reference fails.*TextIOWrapper",
            ),
        ],
        ids=["reference", "check", "constant", "a problem that cannot be handed over"],
    )
    def test_a_task_that_cannot_be_used_says_why(self, examiner, text, word):
        with pytest.raises(TaskError, match=word):
            drawn(examiner(text), "toy", 3, [1, 2])

    def test_not_finite_numbers_of_the_reference_are_known(self, examiner):
        [instance] = drawn(examiner(TASK.replace('"kept":', '"far": float("inf"), "kept":')), "toy", 3, [1])
        assert instance.not_finite == {"inf": 1}

    def test_n_grows_until_the_reference_is_slow_enough(self, examiner):
        """The work grows with the cube of n, and what is handed over not at all."""
        text = TASK.replace('return {"sum"', 'sum(k for k in range(problem["n"] ** 3)); return {"sum"')
        text = text.replace("range(n)]", "range(3)]")
        found = large_enough(examiner(text), "toy", 2, 1)
        assert 4 < found.n < 200
        assert not found.coarse

    def test_n_stays_where_growing_does_not_help_and_is_called_coarse(self, examiner):
        found = large_enough(examiner(), "toy", 1000, 1)
        assert found.n == 1000
        assert found.coarse
        assert 0 < found.trips < 20


def timing(call_s: float, output: bytes = b"") -> Timing:
    return Timing(ready_s=0.125, warm_up_s=0.5, call_s=call_s, output=output)


class TestSpeedup:
    def test_the_fastest_run_of_each_counts(self):
        runs = [timing(t) for t in (0.002, 0.001, 0.003, 0.1, 0.2, 0.15, 0.04, 0.02, 0.03)]
        found = Taken.of(runs, 3)
        assert found.speedup == pytest.approx(5.0)
        assert (found.trip_s, found.reference_s, found.solver_s) == (0.001, 0.1, 0.02)
        assert not found.at_least
        assert found.import_s == 0.125

    def test_a_program_that_is_mostly_round_trip_is_at_least_so_fast(self):
        for fast, bound in ((0.0019, True), (0.001, True), (0.0005, True), (0.0021, False)):
            found = Taken.of([timing(t) for t in (0.001, 0.1, fast)], 1)
            assert found.at_least is bound
            assert found.speedup == pytest.approx(0.1 / fast)

    def test_a_round_trip_that_a_busy_machine_made_long_makes_nothing_faster(self):
        quick, slow = (Taken.of([timing(t) for t in (trip, 0.1, 0.02)], 1) for trip in (0.0001, 0.015))
        assert quick.speedup == slow.speedup
        assert (quick.at_least, slow.at_least) == (False, True)

    @pytest.mark.parametrize("least", [0.0, -1.0, math.nan])
    def test_a_time_that_is_none_is_never_a_speedup(self, least):
        with pytest.raises(BadOutput, match="not measured"):
            Taken.of([timing(t) for t in (0.001, 0.1, least)], 1)


class Runs:
    """A sandbox that is told how its runs end: for each program, one ending after another."""

    def __init__(self, **endings):
        self.endings = {name: list(of) for name, of in endings.items()}
        self.jobs: list[Job] = []

    def __call__(self, job: Job) -> Execution:
        self.jobs.append(job)
        name = "echo" if "kept" in job.program.source else job.program.source
        ending = self.endings[name].pop(0) if len(self.endings[name]) > 1 else self.endings[name][0]
        if isinstance(ending, Execution):
            return ending
        usage = Usage(wall_s=1.0, cpu_s=0.5, max_rss_bytes=100)
        return Execution(status="ok", answer=Answer(timings=(timing(ending, b"out"),)), usage=usage)

    @property
    def order(self) -> list[str]:
        return ["echo" if "kept" in job.program.source else job.program.source for job in self.jobs]


CUT_SHORT = Execution(status="timeout", reason="its timed call took more than 1 s", usage=Usage(wall_s=2.0, cpu_s=0.5))
INSTANCES = [Instance(problem=b"p%d" % n, solution=b"s%d" % n) for n in range(3)]


def speedup(**changes) -> Speedup:
    given = {
        "loader": Loader(file=Path("task.py")),
        "reference": Reference(program=Program("reference"), entrypoint="solve"),
    }
    return Speedup(**{**given, "instances": {"search": INSTANCES[:2], "test": INSTANCES[2:]}, "runs": 2, **changes})


def tried(evaluator: Speedup, run: Runs, split: str = "search", **limits) -> Execution:
    job = Job(
        program=Program("candidate"),
        entrypoint="Solver",
        harness=evaluator.harness,
        inputs=evaluator.inputs(split),
        limits=Limits(**{"wall_s": 50.0, "cpu_s": 20, **limits}),
    )
    return try_out(evaluator, split, job, run)


class TestTrial:
    def test_reference_and_candidate_take_turns_and_every_run_is_a_process_of_its_own(self):
        run = Runs(echo=[0.001], reference=[0.1], candidate=[0.02])
        done = tried(speedup(), run)
        one = ["echo", "echo", *["reference", "candidate"] * 2]
        assert run.order == one * 2
        assert done.status == "ok"
        assert [timing.call_s for timing in done.answer.timings] == [0.001, 0.001, 0.1, 0.1, 0.02, 0.02] * 2
        assert done.usage == Usage(wall_s=4.0, cpu_s=2.0, max_rss_bytes=100)

    def test_it_is_warmed_up_on_another_problem_than_it_is_timed_on(self):
        run = Runs(echo=[0.001], reference=[0.1], candidate=[0.02])
        tried(speedup(), run)
        watches = [job.inputs.stopwatch for job, name in zip(run.jobs, run.order, strict=True) if name != "echo"]
        assert {(watch.warm_up, watch.problem) for watch in watches} == {(b"p1", b"p0"), (b"p0", b"p1")}

    def test_nothing_that_a_candidate_is_given_tells_the_problem(self):
        evaluator = speedup()
        inputs = evaluator.inputs("search")
        assert inputs.stopwatch is None
        assert inputs.request == {"problems": [instance.sha256 for instance in INSTANCES[:2]]}
        assert [path.name for path in inputs.files.values()] == ["typed.py"]
        run = Runs(echo=[0.001], reference=[0.1], candidate=[0.02])
        tried(evaluator, run)
        assert all(job.inputs.request == {} for job in run.jobs)

    def test_the_round_trip_is_measured_once_with_what_the_reference_answers(self):
        evaluator = speedup()
        run = Runs(echo=[0.001], reference=[0.1], candidate=[0.02])
        tried(evaluator, run)
        tried(evaluator, run)
        echoes = [job.inputs.stopwatch for job, name in zip(run.jobs, run.order, strict=True) if name == "echo"]
        assert [(watch.warm_up, watch.problem) for watch in echoes] == [(b"s0", b"p0")] * 2 + [(b"s1", b"p1")] * 2

    def test_a_candidate_is_cut_at_ten_times_the_fastest_reference(self):
        run = Runs(echo=[0.001], reference=[0.3, 0.1, 0.2, 0.02], candidate=[0.02])
        tried(speedup(), run)
        cuts = [
            job.inputs.stopwatch.call_s for job, name in zip(run.jobs, run.order, strict=True) if name == "candidate"
        ]
        assert cuts == pytest.approx([CUT * 0.3, CUT * 0.1, CUT * 0.2, LEAST_CUT_S])
        job = run.jobs[-1]
        assert job.limits.wall_s == pytest.approx(10.0 + 10.0 + LEAST_CUT_S + LEAST_CUT_S + ROOM_S)

    def test_one_cut_run_may_be_the_machines_fault_and_two_of_two_are_the_programs(self):
        done = tried(speedup(), Runs(echo=[0.001], reference=[0.1], candidate=[CUT_SHORT, 0.05, 0.02]))
        assert done.status == "ok"
        assert CUT_OFF in done.answer.timings
        done = tried(speedup(), Runs(echo=[0.001], reference=[0.1], candidate=[0.02, 0.02, CUT_SHORT]))
        assert done.status == "timeout"
        assert done.reason == "problem 1: its timed call took more than 1 s, the reference 0.1 s, 2 times out of 2"
        assert done.usage.wall_s == 6.0

    @pytest.mark.parametrize(
        "ending",
        [
            Execution(status="crashed", reason="ValueError: no (line 3)"),
            Execution(status="bad_output", reason="the solution holds a value of type builtins.generator"),
            Execution(status="memory_limit", reason="too much"),
            Execution(status="timeout", reason="its import took more than 10 s"),
            Execution(status="timeout", reason="its warm-up took more than 10 s"),
            Execution(status="sandbox_lost", reason="gone"),
        ],
        ids=lambda ending: f"{ending.status} {ending.reason[:10]}",
    )
    def test_any_other_failure_ends_it_at_once_with_its_own_words(self, ending):
        run = Runs(echo=[0.001], reference=[0.1], candidate=[0.02, 0.02, ending])
        done = tried(speedup(), run)
        assert (done.status, done.reason) == (ending.status, f"problem 1: {ending.reason}")
        assert run.order.count("candidate") == 3

    def test_an_answer_without_a_time_is_none(self):
        quiet = Execution(status="ok", answer=Answer())
        done = tried(speedup(), Runs(echo=[0.001], reference=[0.1], candidate=[quiet]))
        assert (done.status, done.reason) == ("bad_output", "problem 0: it spoke past its harness")

    def test_limits_hold_for_all_runs_together(self):
        done = tried(speedup(), Runs(echo=[0.001], reference=[0.1], candidate=[0.02]), wall_s=2.5)
        assert done.status == "timeout"
        assert "more than 2.5 s of wall time, all its runs together" in done.reason
        done = tried(speedup(), Runs(echo=[0.001], reference=[0.1], candidate=[0.02]), cpu_s=1)
        assert done.status == "cpu_limit"

    @pytest.mark.parametrize("who", ["echo", "reference"])
    def test_a_reference_that_fails_is_no_word_about_the_candidate(self, who):
        endings = {"echo": [0.001], "reference": [0.1], "candidate": [0.02], who: [CUT_SHORT]}
        done = tried(speedup(), Runs(**endings))
        assert done.status == "sandbox_lost"
        assert "its timed call took more than 1 s" in done.reason

    def test_the_log_says_what_every_problem_took(self):
        done = tried(speedup(), Runs(echo=[0.001], reference=[0.101], candidate=[0.0202]))
        assert done.log_tail.startswith(
            "problem 0: 5 times faster: reference 101.000 ms, program 20.200 ms, round trip 1.000 ms"
            " (the reference takes 101 of them), import 125.0 ms\nproblem 1: 5 times faster"
        )


class TestScore:
    @pytest.fixture
    def evaluator(self, examiner, tmp_path):
        found = examiner()
        return speedup(loader=found.loader, instances={"search": drawn(found, "toy", 3, [1, 2])}, runs=1)

    def answer(self, *outputs: object, call_s: float = 0.0202) -> Answer:
        runs = [[timing(0.001), timing(0.101), timing(call_s, typed.whole(output))] for output in outputs]
        return Answer(timings=tuple(each for run in runs for each in run))

    def test_the_mean_over_problems(self, evaluator):
        score = evaluator.score("search", self.answer({"sum": 33.0}, {"sum": 63.0}))
        assert score.cases == pytest.approx([5.0, 5.0])
        assert score.score == pytest.approx(5.0)
        assert score.metrics == pytest.approx(
            {"speedup": 5.0, "at_least": 0.0, "reference_ms": 101.0, "solver_ms": 20.2, "round_trip_ms": 1.0}
            | {"reference_trips": 101.0, "import_ms": 125.0}
        )
        evaluator.examiner.close()

    def test_one_wrong_solution_and_there_is_no_score(self, evaluator):
        with pytest.raises(BadOutput, match=r"invalid: problem 1: the task's check says no"):
            evaluator.score("search", self.answer({"sum": 33.0}, {"sum": 33.0}))
        with pytest.raises(BadOutput, match=r"invalid: problem 0: the check raised TypeError"):
            evaluator.score("search", self.answer(None, {"sum": 63.0}))
        evaluator.examiner.close()

    def test_every_run_is_checked_and_not_the_fastest_alone(self, evaluator):
        twice = speedup(loader=evaluator.examiner.loader, instances={"search": evaluator.instances["search"][:1]})
        right, wrong = ({"sum": value} for value in (33.0, 34.0))
        runs = (
            [timing(0.001)] * 2
            + [timing(0.1)] * 2
            + [timing(0.02, typed.whole(right)), timing(0.03, typed.whole(wrong))]
        )
        with pytest.raises(BadOutput, match="says no"):
            twice.score("search", Answer(timings=tuple(runs)))
        twice.examiner.close()

    def test_too_few_timings_are_refused(self, evaluator):
        with pytest.raises(BadOutput, match="every problem"):
            evaluator.score("search", self.answer({"sum": 33.0}))
