#!/usr/bin/env python3
"""Trains one model with trireme and with the PyTorch peer from the same weights on the same batches, and compares the losses.

  bench/gpu/loss_curve.py --text FILE                    126m, 200 steps of 8 sequences, bf16; writes a report
  bench/gpu/loss_curve.py --text FILE --case 10m --batch 4 --steps 20 --device cpu --peer-dtypes fp32 --precision 32

The peer's model is made by its own code and handed over as a GPT-2 of transformers (`trireme import`); the text is read as bytes. Both
sides use AdamW (1e-4, betas 0.9 and 0.95, decay 0.1 on matrices) and clip gradients at 1. The peer keeps weights and moments in its
dtype; in fp32 it is the curve that bf16 runs should follow.
"""
import argparse
import csv
import datetime
import importlib.util
import json
import shlex
import statistics
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy
import torch

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path.insert(0, str(ROOT / 'bench/cpu'))
from report import commit, without_machine_names  # noqa: E402

WINDOW = 20  # steps that are averaged: single losses depend on their batch


def load_peer(path):
    specification = importlib.util.spec_from_file_location('peer', path)
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


def write_safetensors(path, tensors):
    header, begin = {}, 0
    for name, tensor in tensors.items():
        size = tensor.numel() * 4
        header[name] = {'dtype': 'F32', 'shape': list(tensor.shape), 'data_offsets': [begin, begin + size]}
        begin += size
    text = json.dumps(header).encode()
    with open(path, 'wb') as file:
        file.write(struct.pack('<Q', len(text)) + text)
        for tensor in tensors.values():
            file.write(tensor.detach().float().cpu().contiguous().numpy().tobytes())


def write_gpt2(model, heads, sequence, folder):
    """transformers stores the matrices of GPT-2 as [in, out]."""
    names = {'norm1': 'ln_1', 'norm2': 'ln_2', 'qkv': 'attn.c_attn', 'proj': 'attn.c_proj', 'up': 'mlp.c_fc', 'down': 'mlp.c_proj'}
    tensors = {'transformer.wte.weight': model.token.weight, 'transformer.wpe.weight': model.position.weight,
               'transformer.ln_f.weight': model.norm.weight, 'transformer.ln_f.bias': model.norm.bias}
    for number, block in enumerate(model.blocks):
        for name, theirs in names.items():
            layer = getattr(block, name)
            matrix = layer.weight.t() if layer.weight.dim() == 2 else layer.weight
            tensors[f'transformer.h.{number}.{theirs}.weight'] = matrix
            tensors[f'transformer.h.{number}.{theirs}.bias'] = layer.bias
    vocabulary, width = model.token.weight.shape
    config = {'model_type': 'gpt2', 'architectures': ['GPT2LMHeadModel'], 'vocab_size': vocabulary, 'n_positions': sequence,
              'n_ctx': sequence, 'n_embd': width, 'n_layer': len(model.blocks), 'n_head': heads, 'n_inner': 4 * width,
              'activation_function': 'gelu_new', 'layer_norm_epsilon': 1e-5, 'resid_pdrop': 0.0, 'embd_pdrop': 0.0,
              'attn_pdrop': 0.0, 'tie_word_embeddings': True}
    folder.mkdir()
    (folder / 'config.json').write_text(json.dumps(config, indent=1))
    write_safetensors(folder / 'model.safetensors', tensors)


def new_model(peer, arguments, dtype):
    layers, width, heads, sequence = peer.CASES[arguments.case]
    torch.manual_seed(0)
    with torch.device(arguments.device):
        return peer.GPT(layers, width, heads, sequence).bfloat16().to(dtype)  # all start from weights that bf16 holds exactly


def peer_losses(peer, arguments, tokens, dtype):
    model = new_model(peer, arguments, dtype)
    sequence = peer.CASES[arguments.case][3]
    groups = [{'params': [p for p in model.parameters() if (p.dim() > 1) == matrices], 'weight_decay': 0.1 * matrices}
              for matrices in (True, False)]
    optimizer = torch.optim.AdamW(groups, lr=1e-4, betas=(.9, .95), fused=True)
    losses = []
    for step in range(arguments.steps):
        first = step * arguments.batch
        rows = numpy.stack([tokens[(first + i) * sequence:(first + i + 1) * sequence + 1] for i in range(arguments.batch)])
        ids = torch.from_numpy(rows.astype(numpy.int64)).to(arguments.device)
        loss = model(ids[:, :-1].contiguous(), ids[:, 1:].contiguous())
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.detach())
    return [loss.item() for loss in losses]


def our_losses(arguments, folder, log):
    command = [arguments.trireme, 'import', folder / 'gpt2', '--output', folder / 'imported']
    train = [arguments.trireme, 'train', folder / 'imported/recipe.yaml', f'trainer.precision={arguments.precision}',
             f'trainer.max_steps={arguments.steps}', 'trainer.val_check_interval=0', 'trainer.log_every_n_steps=1',
             'trainer.gradient_clip_val=1.0', f'model.micro_batch_size={arguments.batch}',
             f'model.global_batch_size={arguments.batch}',
             'model.data.data_impl=flat', f'model.data.data_prefix=[{folder / "train.bin"}]', 'model.data.window_order=sequential',
             'model.hidden_dropout=0', 'model.attention_dropout=0', 'model.optim.name=adamw', 'model.optim.lr=1e-4',
             'model.optim.weight_decay=0.1', 'model.optim.betas=[0.9,0.95]', 'model.optim.sched.name=constant',
             'exp_manager.create_checkpoint_callback=false', f'exp_manager.explicit_log_dir={folder / "run"}', *arguments.settings]
    for words in (command, train):
        words = [str(word) for word in words]
        log.append(shlex.join(words))
        done = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if done.returncode != 0:
            sys.exit(f'{shlex.join(words)}: exit status {done.returncode}\n{done.stdout}')
    with open(folder / 'run/metrics.csv', newline='') as file:
        return [float(row['reduced_train_loss']) for row in csv.DictReader(file) if row['reduced_train_loss']]


def arguments_of(command_line):
    words = lambda text: text.split(',')  # noqa: E731
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--text', type=Path, required=True, help='any file; read as bytes')
    parser.add_argument('--case', default='126m', help='a model of the peer')
    parser.add_argument('--batch', type=int, default=8, help='sequences a step')
    parser.add_argument('--steps', type=int, default=200)
    parser.add_argument('--device', default='cuda')
    parser.add_argument('--precision', default='bf16', help='ours')
    parser.add_argument('--peer-dtypes', type=words, default=['bf16', 'fp32'])
    parser.add_argument('--trireme', type=Path, default=ROOT / 'build/trireme')
    parser.add_argument('--peer', type=Path, default=ROOT / 'bench/peers/torch_gpt.py')
    parser.add_argument('--commit', help='of the sources, where they are no git checkout')
    parser.add_argument('--report', type=Path, help='the file to write')
    parser.add_argument('settings', nargs='*', help='of our recipe, e.g. model.fp8=true')
    return parser.parse_args(command_line)


def main(command_line):
    arguments = arguments_of(command_line)
    torch.backends.cuda.matmul.allow_tf32 = True
    peer = load_peer(arguments.peer)
    _, _, heads, sequence = peer.CASES[arguments.case]
    needed = int(1.1 * arguments.steps * arguments.batch * sequence) + sequence  # a little goes to validation
    text = arguments.text.read_bytes()[:needed]
    if len(text) < needed:
        sys.exit(f'{arguments.text} has {len(text)} bytes; {needed} are needed')
    tokens = numpy.frombuffer(text, dtype=numpy.uint8).astype(numpy.uint16)
    log = []
    with tempfile.TemporaryDirectory(prefix='trireme-bench-') as name:
        folder = Path(name)
        tokens.tofile(folder / 'train.bin')
        write_gpt2(new_model(peer, arguments, torch.bfloat16), heads, sequence, folder / 'gpt2')
        curves = {f'trireme {arguments.precision}': our_losses(arguments, folder, log)}
    for dtype in arguments.peer_dtypes:
        curves[f'torch {dtype}'] = peer_losses(peer, arguments, tokens, {'bf16': torch.bfloat16, 'fp32': torch.float32}[dtype])
    lines = ['| steps | ' + ' | '.join(curves) + ' |', '|' + '---|' * (1 + len(curves))]
    window = min(WINDOW, arguments.steps)
    for begin in range(0, arguments.steps - window + 1, window):
        means = [statistics.fmean(curve[begin:begin + window]) for curve in curves.values()]
        lines.append(f'| {begin + 1} to {begin + window} | ' + ' | '.join(f'{mean:.4f}' for mean in means) + ' |')
    ours = next(iter(curves.values()))
    facts = [f'largest difference of a single step to {name}: {max(abs(a - b) for a, b in zip(ours, curve)):.4f}'
             for name, curve in list(curves.items())[1:]]
    machine = torch.cuda.get_device_name() if arguments.device == 'cuda' else 'CPU'
    now = datetime.datetime.now(datetime.timezone.utc)
    facts += [f'command: `bench/gpu/loss_curve.py {shlex.join(command_line)}`', f'commit: {arguments.commit or commit(ROOT)}',
              f'date: {now:%Y-%m-%d %H:%M} UTC', f'machine: {machine}; PyTorch {torch.__version__}', *(f'`{line}`' for line in log)]
    text = '\n'.join(['# Losses beside PyTorch, same weights and batches', '', *lines, '', *(f'- {fact}' for fact in facts)]) + '\n'
    print(text)
    if arguments.report:
        arguments.report.write_text(without_machine_names(text))


if __name__ == '__main__':
    main(sys.argv[1:])
