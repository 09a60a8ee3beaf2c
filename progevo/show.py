"""What people read: outcomes, results and nodes as lines of text, and the facts behind them as JSON."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

from progevo import channel
from progevo.record import Record
from progevo.types import Outcome
from progevo.visible import visible


def words(value: Any) -> str:
    """A value as doctor prints it."""
    return ", ".join(f"{name} {word}" for name, word in value.items()) if isinstance(value, dict) else str(value)


def number(value: float | None, digits: int = 5) -> str:
    """A number, or the word that it is unknown."""
    return "unknown" if value is None else f"{value:.{digits}f}"


def outcome_facts(outcome: Outcome) -> dict[str, Any]:
    """What is known of an outcome, as JSON."""
    usage = outcome.usage
    return {
        "status": outcome.status,
        "reason": outcome.reason,
        "stage": outcome.stage or None,
        "metrics": {name: value if math.isfinite(value) else None for name, value in outcome.metrics.items()},
        "measured": {"wall_s": usage.wall_s, "cpu_s": usage.cpu_s, "max_rss_bytes": usage.max_rss_bytes},
        "log_tail": outcome.log_tail,
    }


def usage_lines(outcome: Outcome) -> list[str]:
    """What a candidate used, and the end of its log."""
    usage = outcome.usage
    if usage.wall_s is None:
        return []
    size = "unknown" if usage.max_rss_bytes is None else f"{usage.max_rss_bytes / 2**20:.0f} MiB"
    lines = [f"wall {number(usage.wall_s, 2)} s, CPU {number(usage.cpu_s, 2)} s, largest resident size {size}"]
    return [*lines, "log (end):", outcome.log_tail.rstrip()] if outcome.log_tail.strip() else lines


def result_lines(result: dict[str, Any]) -> list[str]:
    """A result in a few lines; search and test apart."""
    metric, seed, found, gain = result["metric"], result["seed_program"], result["best"], result["gain"]
    name = f"{metric['name']} ({metric['direction']})"
    failed = ", ".join(f"{n} {status}" for status, n in result["counts"].items() if n and status != "ok")
    lines = [
        f"task      {result['task']}, data {result['data']['source']}, proposer {result['proposer']['name']}",
        f"search    {result['search']['name']}: {result['spent']['iterations']} iterations,"
        f" {result['counts']['ok']} ok with the seed{', ' + failed if failed else ''},"
        f" {result['duplicates']} duplicates, {result['no_ops']} no-ops; {ending(result['stop_reason'])}",
        f"search {name}: seed {number(seed['search'])}, best {number(found['search'])} (node {found['node']})",
        f"test   {name}: seed {number(seed['test'])}, best {number(found['test'])}",
    ]
    before, after = seed["test_metrics"] or {}, found["test_metrics"] or {}
    if beside := [name for name in before if name in after and None not in (before[name], after[name])]:
        both = (f"{name} {before[name]:.5g} and {after[name]:.5g}" for name in beside)
        lines.append(f"  seed and best on test: {', '.join(both)}")
    both_told = (("seed", seed), ("best", found))
    lines += [f"  {word} on test: {told['test_reason']}" for word, told in both_told if told["test_reason"]]
    if result["reply_damage"]["drawn"]:
        lines += damage_lines(result["reply_damage"])[:2]
    if islands := result.get("islands"):
        lines.insert(2, islands_line(islands))
    if found["node"] == 0:
        lines.append("nothing better than the seed was found")
        if result["stop_reason"] == "interrupted" and not result["held_out"]["looks"]:
            lines[-1] += ", so the test part stays closed; progevo resume goes on, and scores it in the end"
    elif gain["test"] is not None:
        word = {True: "resolved", False: "unresolved: inside its noise", None: "its noise is unknown"}[gain["resolved"]]
        error = f" ± {gain['test_se']:.5f} (standard error)" if gain["test_se"] is not None else ""
        lines.append(f"gain on test: {gain['test']:+.5f}{error}, {word}; on search {number(gain['search'])}")
        if gain["interval"] is not None:
            low, high = gain["interval"]
            level = 100 * (1 - 0.05 / 2 ** (result["held_out"]["looks"] - 1))
            lines.append(f"  {level:g} % interval {low:+.5f} to {high:+.5f}; the least that could be resolved is")
            lines[-1] += f" {gain['resolvable']:.5f}"
        if gain["catastrophic"] is not None:
            lines.append(
                f"  test cases: {gain['gained']} newly right, {gain['lost']} no longer right,"
                f" {gain['catastrophic']} of these now wrong altogether"
            )
    if result["held_out"]["looks"] > 1:
        lines.append(f"the test part has been opened {result['held_out']['looks']} times: its bar is higher now")
    if result["drift"]:
        lines.append(f"changed since the start: {', '.join(each['name'] for each in result['drift'])}")
    return lines


def ending(stop_reason: str | None) -> str:
    """How a run ended, in words."""
    return f"stopped by {stop_reason}" if stop_reason is not None else "it has not ended"


def islands_line(islands: list[dict[str, Any]]) -> str:
    """How many programs, cells and generations the islands hold, in order."""
    each = {name: [island[name] for island in islands] for name in ("programs", "cells", "generation")}
    listed = {name: " ".join(map(str, values)) for name, values in each.items()}
    return (
        f"islands   {len(islands)}: {sum(each['programs'])} programs ({listed['programs']}), {sum(each['cells'])} cells"
        f" ({listed['cells']}), generations {listed['generation']}"
    )


def node_facts(record: Record, index: int) -> dict[str, Any]:
    """What is known of one node of a run, its program included, as JSON."""
    node = record.nodes[index]
    program = node.candidate.program
    path = record.folder / record.logs[index] if index in record.logs else None
    return {
        "index": node.index,
        "step": node.step,
        "parent": node.parent,
        "origin": node.candidate.origin,
        "twin_of": node.twin_of,
        "same_answer_as": node.same_answer_as,
        "score": node.score if node.outcome.ok else None,
        "program": program.id if program is not None else None,
        "source": program.source if program is not None else None,
        **outcome_facts(node.outcome),
        "log_tail": path.read_text("utf-8", "replace") if path is not None and path.exists() else "",
    }


def node_lines(found: dict[str, Any]) -> list[str]:
    """A node: what became of it, its log, its program; what a terminal would obey or hide is shown by its number."""
    names = ("index", "parent", "origin", "status", "score", "reason", "stage", "program")
    lines = [f"{name:<9} {found[name]}" for name in names if found[name] not in (None, "")]
    lines += [f"{name:<9} {value:g}" for name, value in found["metrics"].items() if value is not None]
    lines += [f"{name:<9} {value:g}" for name, value in found["measured"].items() if value is not None]
    log = ["", "log (end):", found["log_tail"].rstrip()] if found["log_tail"].strip() else []
    return [visible(line) for line in (*lines, *log, "", found["source"] or "")]


def reply_facts(record: Record) -> dict[str, Any]:
    """What the model channel did to a run, and every reply that was drawn, as JSON."""
    nodes, attempts = record.nodes, record.start.settings.get("reply_attempts") if record.start is not None else None
    replies = [
        {"node": node.index, "step": node.step, "attempt": attempt, **dataclasses.asdict(draw)}
        for node in nodes
        for attempt, draw in enumerate(node.candidate.draws, start=1)
    ]
    return {
        "reply_damage": channel.reply_damage(nodes, attempts),
        "models": channel.models(nodes),
        "replies": replies,
    }


def damage_lines(damage: dict[str, Any]) -> list[str]:
    """`reply_damage` in a few lines."""
    if not damage["drawn"]:
        return ["no model was asked"]
    low, high = damage["interval"]
    again = damage["redraws"]
    tokens = "unknown" if again["tokens"] is None else again["tokens"]
    lines = [
        f"replies   {damage['drawn']} drawn: {damage['damaged']} damaged, {damage['recovered']} recovered,"
        f" {damage['drawn'] - damage['damaged'] - damage['recovered']} whole",
        f"damaged   {damage['rate']:.1%} (95 % interval {low:.1%} to {high:.1%})",
        f"redraws   {again['count']}, {tokens} tokens, {again['seconds']:.1f} s;"
        f" {damage['attempts_allowed'] or 'unknown'} attempts allowed for a candidate",
    ]
    for word, counts in (("by fault", damage["by_fault"]), ("by kind", damage["by_kind"])):
        if counts:
            lines.append(f"{word:<9} " + ", ".join(f"{count} {name}" for name, count in counts.items()))
    return lines


def reply_lines(found: dict[str, Any]) -> list[str]:
    """What the model channel did, and one line a reply."""
    lines = damage_lines(found["reply_damage"])
    for model in found["models"]:
        counted = ", ".join(f"{kind} {number(count, 0)}" for kind, count in model["tokens"].items())
        lines.append(
            f"model     {model['name']}: {model['drawn']} replies, {model['damaged']} damaged,"
            f" {model['nodes']} programs; tokens: {counted}; US dollars {number(model['cost_usd'], 4)}"
        )
    for reply in found["replies"]:
        what = f"{reply['kind']} ({reply['fault']})" if reply["verdict"] == "damaged" else ", ".join(reply["steps"])
        lines.append(
            f"node {reply['node']:>5}  attempt {reply['attempt']}  {reply['verdict']:<9} {what:<40}"
            f" {reply['model']}  {reply['file'] or ''}".rstrip()
        )
    return lines


def preview_lines(plan: dict[str, Any]) -> list[str]:
    """A plan, the first prompt, and what the run may cost."""
    lines = [
        f"task      {plan['task']}, data {plan['data']}",
        f"search    {plan['search']}, {plan['iterations']} iterations, workers {plan['workers']}, seed {plan['seed']}",
        f"proposer  {plan['proposer']}",
    ]
    if plan.get("problems", 1) > 1:
        lines.append(f"problems  {plan['problems']}, each in a run like this one, of the first")
    if not plan["models"]:
        return [*lines, "no model is asked: this costs nothing but the time of the sandbox"]
    lines.append(f"endpoint  {plan['base_url']}; {plan['reply_attempts']} attempts a candidate, edit {plan['edit']}")
    for model in plan["models"]:
        lines.append(
            f"model     {model['name']}: share {model['share']:.2f} ({plan['model_policy']}), temperature"
            f" {'its own' if model['temperature'] is None else model['temperature']}, price"
            f" {model['price_source'] or 'unknown'}; a call: US dollars {number(model['call_usd'], 4)} estimated,"
            f" {number(model['call_usd_at_most'], 4)} at most"
        )
    caps = {name: cap for name, cap in plan["budget"].items() if cap is not None}
    lines.append(f"budget    {words(caps) if caps else 'none for calls, tokens and money'}")
    guess = plan["estimate"]
    lines.append(
        f"estimate  {guess['calls']} calls without redraws, {guess['prompt_tokens_a_call']} tokens in the first prompt"
        f" (four characters each), {guess['reply_tokens_a_call'] or 'an unknown number of'} in a reply at most:"
        f" US dollars {number(guess['cost_usd'], 4)}"
    )
    for message in plan["prompt"]:
        lines += ["", f"---- {message['role']}", message["content"].rstrip()]
    return lines


def replay_lines(found: dict[str, Any]) -> list[str]:
    """What a replay found, and what the best scored again."""
    lines = [*found["differences"]] or [f"{found['nodes']} nodes: the search asks for the same, the files are the same"]
    for row in found["rescored"] or []:
        word = {True: "the same", False: "DIFFERENT", None: "a noisy task"}[row["same"]]
        again = number(row["again"]) if row["again"] is not None else row["status"]
        lines.append(f"node {row['node']}: recorded {number(row['recorded'])}, again {again}: {word}")
    return lines


def bench_search_lines(found: dict[str, Any]) -> list[str]:
    """The tables of `progevo bench search`."""
    trees, islands = tree_lines(found["rows"]), island_lines(found["islands"])
    return ["Flat PUCT", *trees, "", "islands", *islands, "", "the whole loop", *loop_lines(found)]


def loop_lines(found: dict[str, Any]) -> list[str]:
    """What the loop costs around candidates."""
    journal = found["journal"]
    lines = [f"journal: {journal['events_per_s']:.0f} events a second on disk ({journal['ms']['median']:.2f} ms each)"]
    for row in found["outside"]:
        per_node = f"{row['wall_ms']:.2f} ms wall, {row['cpu_ms']:.2f} ms CPU a node"
        lines.append(f"outside candidates, {row['workers']} in flight, at {row['nodes']} nodes: {per_node}")
    for row in found["loop"] or []:
        rate = f"{row['candidates_per_s']:.1f} candidates a second, {row['outside_share']:.0%} of the time outside them"
        lines.append(f"recorded replies, {row['workers']} in flight, sandbox {row['sandbox']}: {rate}")
    return lines if found["loop"] else [*lines, "no sandbox here: progevo doctor says why"]


def island_lines(rows: list[dict[str, Any]]) -> list[str]:
    """What the islands cost, beside OpenEvolve's database."""
    head = f"{'nodes':>8} {'living':>6} {'ask+tell ms CPU':>18} {'p95':>8} {'OpenEvolve ms CPU':>18} {'ratio':>8}"
    lines = [head]
    for row in rows:
        theirs = row["openevolve"]
        beside = f"{theirs['cpu_ms']['median']:>18.4f} {row['ratio']:>8.1f}" if theirs else f"{'not installed':>18}"
        cost = row["cpu_ms"]
        lines.append(f"{row['nodes']:>8} {row['programs']:>6} {cost['median']:>18.4f} {cost['p95']:>8.4f} {beside}")
    if any(row["openevolve"] is None for row in rows):
        lines.append("OpenEvolve's own database is measured beside them where it is installed: pip install openevolve")
    else:
        lines.append(f"OpenEvolve {rows[0]['openevolve']['version']}, its database alone")
    return lines


def tree_lines(rows: list[dict[str, Any]]) -> list[str]:
    """What Flat PUCT costs, beside its formula."""
    head = f"{'nodes':>8} {'depth':>6} {'ask+tell ms CPU':>18} {'p95':>8} {'plain ms CPU':>14} {'ratio':>8}"
    return [
        head,
        *(
            f"{row['nodes']:>8} {row['depth']:>6} {row['cpu_ms']['median']:>18.4f} {row['cpu_ms']['p95']:>8.4f}"
            f" {row['plain']['cpu_ms']['median']:>14.4f} {row['ratio']:>8.1f}"
            for row in rows
        ),
    ]
