#!/usr/bin/env python3
"""Makes folders of runs as `trireme train` writes them, with made-up values: for measurements of `trireme serve`.

    bench/serve/make_runs.py FOLDER --runs 200 --steps 10000 --ranks 4
"""
import argparse
import datetime
import math
import random
from pathlib import Path

RECIPE = """trainer: {{max_steps: {steps}, devices: {ranks}, num_nodes: 1, precision: bf16}}
model:
  global_batch_size: 256
  micro_batch_size: 1
  encoder_seq_length: 2048
  num_layers: 24
  hidden_size: 1024
  num_attention_heads: 16
  tensor_model_parallel_size: 1
  pipeline_model_parallel_size: 1
  seed: {seed}
  optim: {{lr: {lr}}}
"""


def clock(seconds):
    return datetime.datetime.fromtimestamp(seconds).strftime('%Y-%m-%d %H:%M:%S')


def make_run(folder, steps, ranks, seed, end=None):
    folder.mkdir(parents=True)
    draw = random.Random(seed)
    lr = draw.choice([1e-4, 2e-4, 3e-4, 6e-4])
    (folder / 'recipe.yaml').write_text(RECIPE.format(steps=steps, ranks=ranks, seed=seed, lr=lr))
    (folder / 'joblog.log').write_text('JOB_ID=1\nSTARTED=2026-01-01 00:00:00\n' + ('' if end is None else f'ENDED=\nSTEPS_DONE={steps}\nSTATUS={end}\n'))
    log = folder / 'dllogger/rank-0/dllogger.json'
    log.parent.mkdir(parents=True)
    texts = [open(folder / f'nemo_log_globalrank-{rank}_localrank-{rank}.txt', 'w') for rank in range(ranks)]
    now = 1.79e9
    with open(log, 'w') as file:
        for step in range(steps):
            seconds = 0.4 + 0.02 * draw.random() + (0.3 if draw.random() < 0.002 else 0)
            now += seconds
            loss = 2.2 + 0.1 * (seed % 7) + 8.5 * math.exp(-step / (0.06 * steps + 1)) + 0.05 * draw.gauss(0, 1)
            rate = lr * min(1, (step + 1) / 100)
            tokens = 256 * 2048 / seconds
            validation = f', "val_loss": {loss + 0.03:.6f}' if step % max(100, steps // 20) == 0 and step else ''
            file.write(f'DLLL {{"timestamp": "{now:.6f}", "datetime": "{clock(now)}.000000", "elapsedtime": "{now - 1.79e9:.6f}", "type": "LOG", '
                       f'"step": {step}, "data": {{"reduced_train_loss": {loss:.7f}, "lr": {rate:.12f}, "global_step": {step}.0, '
                       f'"consumed_samples": {256 * (step + 1)}.0, "grad_norm": {0.8 + 0.3 * draw.random():.7f}, '
                       f'"train_step_timing in s": {seconds:.7f}, "train_step_timing_raw in s": {seconds:.7f}, "epoch": 0, "steady_step": 1, '
                       f'"global_batch_size": 256.0, "tokens_per_second": {tokens:.3f}, "tflops_per_device": {tokens * 2.4e-3 / ranks:.5f}, '
                       f'"mfu": {min(0.6, tokens * 2.4e-6 / ranks):.7f}, "memory_allocated": 60129542144.0, '
                       f'"peak_memory_usage": 61203283968.0{validation}}}}}\n')
            if step % max(1, steps // 5000) == 0:
                for rank, text in enumerate(texts):
                    own = seconds * (1 + 0.02 * draw.random() + (0.2 if rank == 2 and step > steps / 2 else 0))
                    text.write(f'[NeMo I {clock(now)} train:{step + 1}] step  {step + 1}/{steps}  loss {loss:7.4f}  grad   0.900  lr {rate:.2e}  '
                               f'{own * 1e3:6.1f} ms  {tokens / 1e3:5.1f}k tok/s  MFU 41.0%\n')


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('folder')
    parser.add_argument('--runs', type=int, default=1)
    parser.add_argument('--steps', type=int, default=1000)
    parser.add_argument('--ranks', type=int, default=1)
    arguments = parser.parse_args()
    for seed in range(arguments.runs):
        make_run(Path(arguments.folder) / f'group-{seed // 50}' / f'run-{seed:05}', arguments.steps, arguments.ranks, seed, 'finished')


if __name__ == '__main__':
    main()
