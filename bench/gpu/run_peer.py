#!/usr/bin/env python3
"""Runs a PyTorch program unchanged, `run_peer.py PROGRAM ARGUMENTS`, and when it asks for its peak memory also prints what its CUDA
graphs hold: the peak leaves most of that out, because a graph uses its memory without allocating it again.
"""
import runpy
import sys

import torch

peak = torch.cuda.max_memory_allocated


def peak_beside_graphs(*arguments):
    if sys._getframe(1).f_globals['__name__'] == '__main__':  # torch itself asks too
        segments = torch.cuda.memory_snapshot()
        graphs = sum(segment['total_size'] for segment in segments if tuple(segment['segment_pool_id']) != (0, 0))
        print(f'GRAPHS held_GiB={graphs / 2**30:.2f}', flush=True)
    return peak(*arguments)


torch.cuda.max_memory_allocated = peak_beside_graphs
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name='__main__')
