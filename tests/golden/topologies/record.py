#!/usr/bin/env python3
"""Writes mpirun.txt: where Open MPI's mpirun would bind each rank on the machines described here.

usage: record.py [FILE TOPOLOGY...]      needs mpirun of Open MPI 4; the descriptions were made with lstopo --input, see README.md
"""
import os
import pathlib
import re
import subprocess
import sys

FOLDER = pathlib.Path(__file__).parent
UNITS = {"1s-1n": (1, 1), "1s-1n-smt": (1, 1), "1s-4n": (1, 4), "2s-2n": (2, 2), "2s-4n-smt": (2, 4), "2s-8n": (2, 8),
         "2s-2n-gpus": (2, 2)}
OPTIONS = ["ppr:1:numa", "ppr:2:numa", "ppr:1:numa:pe=2", "ppr:2:numa:pe=1", "ppr:2:numa:pe=2", "ppr:4:numa:pe=1", "ppr:4:numa:pe=2",
           "ppr:2:socket", "ppr:2:socket:pe=2", "ppr:4:socket:pe=1", "ppr:4:node", "ppr:4:node:pe=1", "ppr:8:node:pe=1",
           "ppr:2:numa --bind-to core", "ppr:2:numa --bind-to hwthread", "ppr:2:socket:pe=3 --bind-to hwthread",
           "ppr:2:numa --bind-to none"]


def bindings(topology, ranks, options):
    command = ["mpirun", "--allow-run-as-root", "--host", f"localhost:{ranks}", "--map-by", *options.split(), "--do-not-launch",
               "--display-map", "true"]
    environment = dict(os.environ, HWLOC_XMLFILE=str(FOLDER / f"{topology}.xml"), HWLOC_THISSYSTEM="0")
    output = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60)
    lines = re.findall(r"Process rank: (\d+) Bound: (.*)", output.stdout + output.stderr)
    if not lines:
        return ["refused"]
    return [f"{rank} {'unbound' if ':[' not in text else '[' + text.split(':[', 1)[1]}" for rank, text in lines]


def main():
    file, *topologies = sys.argv[1:] or [FOLDER / "mpirun.txt", *UNITS]
    blocks = []
    for topology in topologies:
        sockets, numas = UNITS[topology]
        for options in OPTIONS:
            _, each, unit = options.split()[0].split(":")[:3]
            ranks = int(each) * {"numa": numas, "socket": sockets, "node": 1}[unit]
            blocks.append("\n".join([f"{topology} {ranks} {options}", *bindings(topology, ranks, options)]))
    pathlib.Path(file).write_text("\n\n".join(blocks) + "\n")


if __name__ == "__main__":
    main()
