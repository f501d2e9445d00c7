# SPDX-License-Identifier: Apache-2.0
"""Reports of gpu_suite: text for people, JSON, and a page of results."""

import dataclasses
import datetime
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile

from gpu.runner import ROOT


def command_output(command):
    try:
        return subprocess.run(command, capture_output=True, text=True,
                              timeout=30, check=True).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return ""


def gpu_bytes(gpu):
    """Memory size in nvidia-smi's first line, or 0 if it is missing."""
    mib = re.search(r", (\d+) MiB", gpu.partition("\n")[0])
    return int(mib.group(1)) << 20 if mib else 0


def describe_machine():
    gpu = command_output(["nvidia-smi", "--query-gpu=name,driver_version,"
                          "memory.total,clocks.sm,clocks.mem",
                          "--format=csv,noheader"])
    names = {}
    for module in ("torch", "jax", "triton"):
        version = command_output(
            [sys.executable, "-c", "import importlib.metadata as m; "
             f"print(m.version('{module}'))"])
        if version:
            names[module] = version
    # CUDA libraries from Python packages have no version in their file names.
    nvidia = command_output(
        [sys.executable, "-c", "import importlib.metadata as m\n"
         "for d in m.distributions():\n"
         "  n = d.metadata['Name'] or ''\n"
         "  if n.startswith('nvidia-'): print(n, d.version)"])
    nvcc = re.search(r"release (\S+),", command_output(["nvcc", "--version"]))
    return {"gpus": gpu.splitlines(), "host": " ".join(os.uname()[i]
                                                       for i in (0, 2, 4)),
            "cores": os.cpu_count(), "python": sys.version.split()[0],
            "nvcc": nvcc.group(1) if nvcc else "", "packages": names,
            "nvidia_packages": dict(
                line.split() for line in sorted(nvidia.splitlines())),
            "gpu_bytes": gpu_bytes(gpu), "libraries": {}}


def version_of(suite):
    if suite.bundle:
        return (suite.bundle / "VERSION").read_text().split()[1]
    return command_output(["git", "-C", str(ROOT), "describe", "--always",
                           "--dirty"])


def libraries_of(suite):
    """Maps the CUDA libraries that our programs loaded, as reported by them, to
    the resolved file, whose name often includes the version."""
    found = {}
    for path in sorted(suite.logs.glob("*.txt")):
        text = path.read_text(encoding="utf-8", errors="replace")
        for line in re.findall(r'^\{"schema":1,"libraries":.*\}$', text, re.M):
            for library in json.loads(line)["libraries"]:
                name = os.path.basename(library).split(".so")[0]
                found[name] = os.path.realpath(library)
        for version in re.findall(r"NCCL version (\S+)", text):
            found["NCCL"] = version
    return found


def write_reports(suite, machine, reason):
    """Writes all reports; returns the text and the exit status. Called before
    and after each part, so that a killed suite leaves its results so far."""
    machine["libraries"] = libraries_of(suite)
    now = datetime.datetime.now(datetime.timezone.utc)
    outcomes = suite.outcomes
    failed = [outcome for outcome in outcomes if outcome.status == "failed"]
    counts = {status: sum(outcome.status == status for outcome in outcomes)
              for status in ("passed", "failed", "skipped", "unfinished")}
    report = {
        "schema": 1, "date": now.isoformat(timespec="seconds"),
        "command": " ".join(["scripts/gpu_suite", *sys.argv[1:]]),
        "version": version_of(suite),
        "device": suite.device, "machine": machine, "no_device": reason,
        "parts": [dataclasses.asdict(outcome) for outcome in outcomes]}
    (suite.out / "report.json").write_text(json.dumps(report, indent=1) + "\n")

    text = [f"gpu_suite {now:%Y-%m-%d %H:%M} UTC, version {report['version']}, "
            f"device {suite.device}",
            "GPU   " + ("; ".join(machine["gpus"]) or "nvidia-smi shows none"),
            f"host  {machine['host']}, {machine['cores']} cores, nvcc "
            f"{machine['nvcc'] or 'none'}, " + ", ".join(
                f"{k} {v}" for k, v in machine["packages"].items())]
    text += [f"      {name}: {path}"
             for name, path in machine["libraries"].items()]
    if machine["nvidia_packages"]:
        text.append("      " + ", ".join(
            f"{k} {v}" for k, v in machine["nvidia_packages"].items()))
    if reason:
        text.append(f"no device: {reason}")
    for outcome in outcomes:
        text.append("")
        text.append(f"== {outcome.part}: {outcome.status}, "
                    f"{outcome.seconds:.0f} s")
        text += [f"   {note}" for note in outcome.notes]
    text += ["", f"{counts['passed']} parts passed, {counts['failed']} failed, "
             f"{counts['skipped']} skipped" +
             (f", {counts['unfinished']} unfinished" if counts["unfinished"]
              else "")]
    for outcome in failed:
        text += [f"FAILED {outcome.part}: {note[7:]}"
                 for note in outcome.notes if note.startswith("FAILED ")]
    text = "\n".join(text) + "\n"
    (suite.out / "report.txt").write_text(text)
    (suite.out / "results.md").write_text(results_page(
        now, report, outcomes, machine))
    return text, 1 if failed else 0


def pack_logs(suite):
    with tarfile.open(suite.out / "logs.tar.gz", "w:gz") as logs:
        logs.add(suite.logs, "logs")
    shutil.rmtree(suite.logs, ignore_errors=True)


def results_page(now, report, outcomes, machine):
    """Page for benchmarks/results/: the measurements, the machine, the command."""
    lines = [f"# {now:%Y-%m-%d}, "
             f"{(machine['gpus'] or ['no GPU'])[0].split(',')[0]}", "",
             "; ".join(machine["gpus"]) or "nvidia-smi shows no GPU.", "",
             f"Version {report['version']}; {machine['host']}, nvcc "
             f"{machine['nvcc'] or 'none'}; " +
             ", ".join(f"{k} {v}" for k, v in machine["packages"].items()) +
             ".", "", ", ".join(os.path.basename(library) for library in
                                machine["libraries"].values()), "",
             "```sh", report["command"], "```", ""]
    rows = [(outcome, figure) for outcome in outcomes
            for figure in outcome.figures]
    lines += ["| benchmark | program | value | unit | ms | spread |",
              "|---|---|---|---|---|---|"]
    for _, figure in rows:
        if "skipped" in figure:
            lines.append(f"| {figure['benchmark']} | {figure['program']} | "
                         f"skipped: {figure['skipped']} | | | |")
            continue
        least = (f", at least {figure['least']}" if "least" in figure else "")
        lines.append(
            f"| {figure['benchmark']} | {figure['program']} | "
            f"{figure['value']:.6g}{least} | {figure['unit']} | "
            f"{figure.get('milliseconds', '')} | {figure.get('spread', '')} |")
    lines += ["", "| part | | seconds |", "|---|---|---|"]
    lines += [f"| {outcome.part} | {outcome.status} | {outcome.seconds:.0f} |"
              for outcome in outcomes]
    return "\n".join(lines) + "\n"
