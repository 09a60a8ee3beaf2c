"""What `progevo bench sandbox` found, for people: a text and a picture."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Any

from progevo import complaint
from progevo.errors import ConfigError
from progevo.files import check_place
from progevo.types import MIB


def sandbox_lines(found: dict[str, Any]) -> list[str]:
    """The tables of a report of `bench_sandbox`."""
    machine = found["machine"]
    load = " ".join(f"{value:.1f}" for value in machine["load"])
    lines = [f"{machine['cores']} cores, load {load}, Linux {machine['kernel']}, Python {machine['python']}", ""]
    lines += [
        f"{'candidate':<10} {'profile':<8} {'form':<11} {'wall ms':>9} {'p95':>9} {'CPU ms':>9} {'p95':>9}"
        f" {'per s':>8} {'cold/it wall':>13} {'CPU':>7}"
    ]
    for row in found["rows"]:
        wall, cpu, ratio = row["wall_ms"], row["cpu_ms"], row["ratio_to_cold"]
        lines.append(
            f"{row['candidate']:<10} {row['profile']:<8} {row['form']:<11} {wall['median']:>9.1f} {wall['p95']:>9.1f}"
            f" {cpu['median']:>9.1f} {cpu['p95']:>9.1f} {row['candidates_per_s']:>8.2f}"
            f" {1 / ratio['wall']:>13.1f} {1 / ratio['cpu']:>7.1f}"
        )
    lines += ["", f"{'limit':<12} {'of each':<8} {'asked':>8} {'reached':>8} {'ratio':>6} {'after ms':>9}  ends as"]
    for bite in found["limits"]:
        asked, reached = (_amount(bite["limit"], bite[key]) for key in ("value", "reached"))
        ratio = "unknown" if bite["overshoot"] is None else f"{bite['overshoot']:.2f}"
        lines.append(
            f"{bite['limit']:<12} {bite['of']:<8} {asked:>8} {reached:>8} {ratio:>6} {bite['wall_ms']:>9.0f}"
            f"  {bite['status']}"
        )
    lines += ["", "MiB of memory_bytes with which it still answers"]
    lines += [
        f"{each['candidate']:<10} {each['profile']:<8} {_mib(each['memory_bytes'])}" for each in found["least_memory"]
    ]
    lines += ["", f"a kill with {found['kill']['daemons']} daemons inside: ms until all are gone"]
    for form in ("cold", "warm"):
        each = found["kill"][form]
        gone = each["gone_ms"]
        lines.append(f"{form:<10} {gone['median']:>6.1f}, p95 {gone['p95']:.1f}; {each['left']} left")
    lines += ["", "MiB of its own (and with its part of what is shared)"]
    heads = ("its files", "zygote", "a child waits", "it works", "cold, it works")
    lines += [f"{'profile':<10} {heads[0]:>10} " + " ".join(f"{head:>16}" for head in heads[1:])]
    for each in found["memory"]:
        kinds = (each[kind] for kind in ("zygote", "waiting", "busy", "cold_busy"))
        sizes = [f"{_mib(kind['uss_bytes'])} ({_mib(kind['pss_bytes'])})" for kind in kinds]
        lines.append(
            f"{each['profile']:<10} {_mib(each['files_bytes']):>10} " + " ".join(f"{size:>16}" for size in sizes)
        )
    if soak := found.get("soak"):
        before, after = soak["before"], soak["after"]
        lines += [
            "",
            f"soak: {soak['candidates']} mixed candidates, {len(soak['unexpected'])} ended otherwise than meant,"
            f" {soak['left']} processes left",
            f"zygote {_mib(before['zygote_rss_bytes'])} -> {_mib(after['zygote_rss_bytes'])} MiB resident,"
            f" {before['zygote_descriptors']} -> {after['zygote_descriptors']} descriptors;"
            f" host {before['host_descriptors']} -> {after['host_descriptors']} descriptors",
        ]
    return lines


def can_plot(file: Path) -> None:
    """For before anything has been measured. Raises `ConfigError` where matplotlib is missing or does not know the
    kind of file, `RunError` where something stands in the file's way.
    """
    if find_spec("matplotlib") is None:
        raise ConfigError("a plot needs matplotlib; pip install 'progevo[plot]'")
    from matplotlib.figure import Figure

    kinds = Figure().canvas.get_supported_filetypes()
    if file.suffix[1:].lower() not in kinds:
        raise ConfigError(f"{file} has no ending of a picture; such are .png, .svg and .pdf")
    check_place(file)


def plot(found: dict[str, Any], file: Path) -> None:
    """Draws CPU and wall of every form, one panel a candidate. Raises `ConfigError` as `can_plot` does."""
    can_plot(file)
    from matplotlib.figure import Figure

    panels: dict[str, list[dict[str, Any]]] = {}
    for row in found["rows"]:
        panels.setdefault(f"{row['candidate']}, {row['profile']}", []).append(row)
    figure = Figure(figsize=(3.2 * len(panels), 3.6), layout="constrained")
    axes = figure.subplots(1, len(panels), sharey=True, squeeze=False)[0]
    for axis, (title, rows) in zip(axes, panels.items(), strict=True):
        for shift, kind, colour in ((-0.2, "wall_ms", "tab:blue"), (0.2, "cpu_ms", "tab:orange")):
            medians = [row[kind]["median"] for row in rows]
            above = [max(0.0, row[kind]["p95"] - row[kind]["median"]) for row in rows]
            places = [place + shift for place in range(len(rows))]
            axis.bar(places, medians, 0.4, yerr=[[0.0] * len(rows), above], color=colour, label=kind)
        axis.set_xticks(range(len(rows)), [row["form"] for row in rows], rotation=45, ha="right")
        axis.set_title(title)
        axis.set_yscale("log")
    axes[0].set_ylabel("ms a candidate: median, whisker to p95")
    axes[0].legend()
    try:
        figure.savefig(file)
    except OSError as error:
        raise ConfigError(f"the plot cannot be written to {file}: {complaint.of_writing(file, error)}") from None


def _amount(limit: str, value: float | None) -> str:
    """MiB for bytes, seconds for seconds."""
    return _mib(value) if limit.endswith("_bytes") or value is None else f"{value:.2f}"


def _mib(size: float | None) -> str:
    return "unknown" if size is None else f"{size / MIB:.1f}"
