"""Measures the moves of S3E1: each on the seed alone, combined by the search, and the same ones applied at random.

    python scripts/measure_moves.py --data train.csv          # about half an hour on two cores

Prints the tables of docs/s3e1-moves.md as Markdown. Programs are chosen by their score on the search rows; the test
rows only stand beside it.
"""

from __future__ import annotations

import argparse
import random
import statistics
import tempfile
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from progevo import Candidate, Domain, Move, Node, Outcome, Program, evaluate, find_domain, run
from progevo.domain import SEARCH, TEST
from progevo.journal import read_run
from progevo.sandbox import Sandbox
from progevo.sandbox.probe import open_sandbox

#: Draws of one move on the seed (enough to see all that it can do), and of a random walk until a move applies.
DRAWS, ATTEMPTS = 40, 100


@dataclass(frozen=True, kw_only=True)
class Bench:
    """Where programs are scored."""

    domain: Domain
    sandbox: Sandbox
    workers: int

    def errors(self, programs: Sequence[Program], split: str) -> list[float]:
        """The RMSE of each program on a split, infinite for one that fails."""
        with ThreadPoolExecutor(self.workers) as pool:
            return [-outcome.score for outcome in pool.map(lambda program: self.outcome(program, split), programs)]

    def outcome(self, program: Program, split: str) -> Outcome:
        return evaluate(self.domain, Candidate(program=program, origin="measured"), split, self.sandbox)


def alone(move: Move, source: str) -> list[Program]:
    """What one move makes of a program in a few draws, each text once."""
    drawn = (move.rewrite(source, random.Random(f"measure {move.name} {draw}")) for draw in range(DRAWS))
    return list({program.twin: program for program in map(Program, filter(None, drawn))}.values())


def print_gains(bench: Bench) -> None:
    """One row a move: how many different draws, the median RMSE on both splits, and the lowest on either."""
    seed = bench.domain.seed
    [search], [test] = (bench.errors([seed], split) for split in (SEARCH, TEST))
    print(f"\nThe seed scores {search:.4f} on the search rows and {test:.4f} on the test rows.\n")
    print("| move | draws | search, median | gain | test, median | gain | lowest of either |")
    print("|---|---:|---:|---:|---:|---:|---:|")
    for move in bench.domain.moves:
        programs = alone(move, seed.source)
        if not programs:
            print(f"| `{move.name}` | 0 | does not apply to the seed | | | | |", flush=True)
            continue
        on_search, on_test = (bench.errors(programs, split) for split in (SEARCH, TEST))
        a, b = statistics.median(on_search), statistics.median(on_test)
        row = f"{a:.4f} | {search - a:+.4f} | {b:.4f} | {test - b:+.4f} | {min(*on_search, *on_test):.4f}"
        print(f"| `{move.name}` | {len(programs)} | {row} |", flush=True)


def print_search(bench: Bench, seeds: Sequence[int], iterations: int) -> None:
    """One row a seed: what `progevo run era` finds."""
    print("\n| seed | search | test | best node | steps | failed | seconds | its moves |")
    print("|---:|---:|---:|---:|---:|---:|---:|---|")
    for seed in seeds:
        with tempfile.TemporaryDirectory() as parent:
            folder = Path(parent) / "run"
            found = run(bench.domain, iterations=iterations, workers=bench.workers, seed=seed, out=folder)
            record = read_run(folder)
            nodes = record.nodes
        best = record.best_node()
        moves = [node.candidate.origin for node in lineage(nodes, best)][1:]
        row = f"{found['best']['search']:.4f} | {found['best']['test']:.4f} | {best.index} | {len(moves)}"
        failed = sum(not node.outcome.ok for node in nodes)
        print(f"| {seed} | {row} | {failed} | {found['spent']['seconds']:.0f} | {', '.join(moves)} |", flush=True)


def lineage(nodes: Sequence[Node], node: Node) -> list[Node]:
    """The seed, then every node down to this one."""
    line = [node]
    while line[-1].parent is not None:
        line.append(nodes[line[-1].parent])
    return line[::-1]


#: Chooses the parent of the next program among those made so far.
Choice = Callable[[Sequence[Program], random.Random], Program]


def at_random(domain: Domain, seed: int, count: int, choose: Choice) -> Iterator[Program]:
    """`count` new programs, each by a move drawn uniformly, applied to a parent that no score chooses."""
    rng = random.Random(f"measure at random {seed}")
    made = [domain.seed]
    known = {made[0].twin}
    while len(made) <= count:
        for _ in range(ATTEMPTS):
            changed = rng.choice(domain.moves).rewrite(choose(made, rng).source, rng)
            if changed is not None and Program(changed).twin not in known:
                made.append(Program(changed))
                known.add(made[-1].twin)
                break
        else:
            return
        yield made[-1]


def print_random(bench: Bench, seeds: Sequence[int], iterations: int) -> None:
    """One row a seed and a way to choose parents: the best of as many programs as a search has."""
    ways: dict[str, Choice] = {
        "the seed, always": lambda made, rng: made[0],
        "any earlier program": lambda made, rng: rng.choice(made),
    }
    print("\n| parent | seed | programs | search, best | test of that |")
    print("|---|---:|---:|---:|---:|")
    for way, choose in ways.items():
        for seed in seeds:
            programs = list(at_random(bench.domain, seed, iterations, choose))
            search, best = min(zip(bench.errors(programs, SEARCH), programs, strict=True), key=lambda pair: pair[0])
            [test] = bench.errors([best], TEST)
            print(f"| {way} | {seed} | {len(programs)} | {search:.4f} | {test:.4f} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("--data", type=Path, help="train.csv of the competition; else what progevo has installed")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--iterations", type=int, default=40)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--only", choices=("gains", "search", "random"), help="one of the three tables")
    given = parser.parse_args()

    domain = find_domain("s3e1", data=given.data)
    sandbox = open_sandbox(domain.profile)
    bench = Bench(domain=domain, sandbox=sandbox, workers=given.workers)
    print(f"Data: {domain.data.source}, sha256 {domain.data.sha256}")
    try:
        if given.only in (None, "gains"):
            print_gains(bench)
        if given.only in (None, "search"):
            print_search(bench, given.seeds, given.iterations)
        if given.only in (None, "random"):
            print_random(bench, given.seeds, given.iterations)
    finally:
        sandbox.close()


if __name__ == "__main__":
    main()
