#!/usr/bin/env python3
"""Makes the golden files: small models trained for six steps by PyTorch in double precision.

  make_golden.py [NAME ...]     writes NAME.safetensors beside this script; all four models when none is named
  make_golden.py --deviation    writes nothing; trains the stored parameters again in float32 and prints how far that strays

Needs torch and numpy. README.md says what a file holds and what a test may expect of it.
"""
import argparse
import dataclasses
import json
import math
from pathlib import Path

import numpy
import torch

from golden_model import MODELS, loss_of, parameter_shapes

FOLDER = Path(__file__).resolve().parent
# Rises and falls, so that a learning rate taken one step early or late shows.
LEARNING_RATES = [1e-3, 2e-3, 3e-3, 2.5e-3, 1.5e-3, 5e-4]
CLIP = 0.5
BETAS = (0.9, 0.95)
ADAM_EPSILON = 1e-8
WEIGHT_DECAY = 0.1


def draw_parameters(m, random):
    """Values much larger than a real initialisation: every nonlinearity is then far from its linear part, and no gradient is
    so small that rounding hides a mistake. Norm weights differ from channel to channel, biases from zero."""
    parameters = {}
    for name, shape in parameter_shapes(m).items():
        normal = random.standard_normal(shape)
        if name.startswith('embedding.'):
            values = 0.7 * normal
        elif len(shape) == 2:
            values = 1.2 / math.sqrt(shape[1]) * normal
        elif 'norm' in name and name.endswith('.weight'):
            values = 0.2 * normal + (0 if m.normalization == 'layernorm1p' else 1)
        else:
            values = 0.2 * normal
        parameters[name] = values.astype(numpy.float32)
    return parameters


def draw_batch(m, random):
    """tokens and targets, [B,T] int32; a target is the next token, two of them are masked."""
    B, T = m.micro_batch_size, m.encoder_seq_length
    text = random.integers(0, m.vocab_size, (B, T + 1), dtype=numpy.int32)
    tokens, targets = text[:, :-1].copy(), text[:, 1:].copy()
    targets[0, 0] = targets[B - 1, T - 2] = -1
    return tokens, targets


def train(m, parameters, tokens, targets, dtype):
    """Six AdamW steps on one batch, from float32 numpy parameters. Returns the gradients of the first step, the parameters after
    the last, and the losses and gradient norms (before clipping) of all."""
    p = {name: torch.tensor(values, dtype=dtype, requires_grad=True) for name, values in parameters.items()}
    groups = [{'params': [t for t in p.values() if t.dim() == 2], 'weight_decay': WEIGHT_DECAY},
              {'params': [t for t in p.values() if t.dim() == 1], 'weight_decay': 0.0}]
    optimizer = torch.optim.AdamW(groups, betas=BETAS, eps=ADAM_EPSILON)
    tokens, targets = torch.from_numpy(tokens).long(), torch.from_numpy(targets).long()
    losses, grad_norms, first_gradients = [], [], None
    for learning_rate in LEARNING_RATES:
        optimizer.zero_grad()
        loss = loss_of(m, p, tokens, targets)
        loss.backward()
        if first_gradients is None:
            first_gradients = {name: t.grad.numpy().copy() for name, t in p.items()}
        # The norm it returns is the one before clipping; the factor is min(1, CLIP / (norm + 1e-6)).
        grad_norms.append(torch.nn.utils.clip_grad_norm_(list(p.values()), CLIP).item())
        losses.append(loss.item())
        for group in optimizer.param_groups:
            group['lr'] = learning_rate
        optimizer.step()
    return first_gradients, {name: t.detach().numpy() for name, t in p.items()}, losses, grad_norms


def recipe_keys(m):
    """The settings of the run under their recipe keys, as YAML scalars."""
    def text(value):
        return str(value).lower() if isinstance(value, bool) else str(value)
    keys = {f'model.{name}': text(value) for name, value in dataclasses.asdict(m).items()}
    keys |= {
        'model.global_batch_size': text(m.micro_batch_size),
        'model.max_position_embeddings': text(m.encoder_seq_length),
        'model.hidden_dropout': '0',
        'model.attention_dropout': '0',
        'model.optim.name': 'adamw',
        'model.optim.weight_decay': text(WEIGHT_DECAY),
        'model.optim.betas': text(list(BETAS)),
        'model.optim.eps': text(ADAM_EPSILON),
        'trainer.gradient_clip_val': text(CLIP),
        'trainer.max_steps': text(len(LEARNING_RATES)),
        'trainer.precision': '32',
    }
    return keys


def write_safetensors(path, tensors, metadata):
    """Written by hand so that equal contents give equal bytes: the library orders the metadata at random."""
    names = {numpy.dtype('float64'): 'F64', numpy.dtype('float32'): 'F32', numpy.dtype('int32'): 'I32'}
    # Widest first keeps every tensor aligned to its own elements.
    ordered = sorted(tensors.items(), key=lambda item: (-item[1].itemsize, item[0]))
    header, begin = {'__metadata__': dict(sorted(metadata.items()))}, 0
    for name, values in ordered:
        end = begin + values.nbytes
        header[name] = {'dtype': names[values.dtype], 'shape': list(values.shape), 'data_offsets': [begin, end]}
        begin = end
    text = json.dumps(header, separators=(',', ':')).encode()
    text += b' ' * (-len(text) % 8)
    body = b''.join(numpy.ascontiguousarray(values).tobytes() for _, values in ordered)
    path.write_bytes(len(text).to_bytes(8, 'little') + text + body)


def golden(name):
    """(path, tensors, metadata) of a golden model."""
    m = MODELS[name]
    random = numpy.random.default_rng(sorted(MODELS).index(name))
    parameters = draw_parameters(m, random)
    tokens, targets = draw_batch(m, random)
    gradients, final, losses, grad_norms = train(m, parameters, tokens, targets, torch.float64)
    tensors = {'tokens': tokens, 'targets': targets, 'losses': numpy.array(losses), 'grad_norms': numpy.array(grad_norms),
               'lrs': numpy.array(LEARNING_RATES)}
    tensors |= {f'param.{key}': values for key, values in parameters.items()}
    tensors |= {f'grad.{key}': values.astype(numpy.float32) for key, values in gradients.items()}
    tensors |= {f'final.{key}': values.astype(numpy.float32) for key, values in final.items()}
    return FOLDER / f'{name}.safetensors', tensors, recipe_keys(m)


def is_key_bias(m, name):
    """Which entries of a parameter belong to the bias of the keys: see README.md."""
    H, G, D = m.num_attention_heads, m.num_query_groups, m.kv_channels
    rows = slice(H * D, (H + G) * D) if name.endswith('qkv.bias') else slice(0)
    mask = numpy.zeros(parameter_shapes(m)[name], dtype=bool)
    mask[rows] = True
    return mask


def print_deviation(name):
    """How far PyTorch itself strays when it makes the same steps in float32: the yardstick for the tolerances of a test."""
    m, (_, tensors, _) = MODELS[name], golden(name)
    parameters = {key.removeprefix('param.'): values for key, values in tensors.items() if key.startswith('param.')}
    gradients, final, losses, grad_norms = train(m, parameters, tensors['tokens'], tensors['targets'], torch.float32)
    gradient_error = max(numpy.abs(gradients[key] - tensors[f'grad.{key}']).max() / numpy.abs(tensors[f'grad.{key}']).max()
                         for key in parameters)
    final_error = {key: numpy.abs(final[key] - tensors[f'final.{key}']) for key in parameters}
    key_bias_error = max(error.max(where=is_key_bias(m, key), initial=0) for key, error in final_error.items())
    other_error = max(error.max(where=~is_key_bias(m, key), initial=0) for key, error in final_error.items())
    print(f'| {name} | {numpy.abs(losses - tensors["losses"]).max():.1e} '
          f'| {numpy.abs(grad_norms / tensors["grad_norms"] - 1).max():.1e} | {gradient_error:.1e} | {other_error:.1e} '
          f'| {key_bias_error:.1e} |')


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('names', nargs='*', metavar='NAME', help=', '.join(MODELS))
    parser.add_argument('--deviation', action='store_true', help='print how far float32 strays, write nothing')
    arguments = parser.parse_args()
    torch.set_num_threads(1)  # one order of summation
    unknown = sorted(set(arguments.names) - set(MODELS))
    if unknown:
        parser.error(f'unknown model {unknown[0]}; choose from {", ".join(MODELS)}')
    if arguments.deviation:
        print('| model | loss | grad norm, relative | grad, relative to the largest of its tensor | final | final, key biases |')
        print('|---|---|---|---|---|---|')
    for name in arguments.names or MODELS:
        if arguments.deviation:
            print_deviation(name)
            continue
        path, tensors, metadata = golden(name)
        write_safetensors(path, tensors, metadata)
        losses, norms = (' '.join(f'{value:.4f}' for value in tensors[key]) for key in ('losses', 'grad_norms'))
        print(f'{path.name}: {path.stat().st_size / 1024:.0f} KiB, losses {losses}, grad norms {norms}')


if __name__ == '__main__':
    main()
