#!/usr/bin/env python3
"""Makes fp16.safetensors: the gpt3 model trained in fp16 by PyTorch's GradScaler, with the hysteresis of NeMo's.

Every tensor that is fp16 here is rounded to it, forward and backward, and everything else is double precision. So an overflow
happens where fp16 overflows, and nowhere else. Needs torch and numpy. README.md says what the file holds.
"""
import numpy
import torch
import torch.nn.functional as F

import make_golden
from golden_model import MODELS, norm_forward

STEPS = 24
INIT_SCALE, GROWTH_INTERVAL, HYSTERESIS = 2.0**24, 4, 2
LARGEST = 65504
MARGIN = 0.02  # no gradient may be so close to overflowing that another order of summation could decide


class Activation(torch.autograd.Function):
    """An fp16 tensor whose gradient is fp16 too."""
    largest = 0.0  # finite gradient so far, in this step

    @staticmethod
    def forward(ctx, x):
        return x.half().to(x.dtype)

    @staticmethod
    def backward(ctx, gradient):
        finite = gradient.abs().nan_to_num(posinf=0.0)
        Activation.largest = max(Activation.largest, finite.max().item())
        return gradient.half().to(gradient.dtype)


class Weight(torch.autograd.Function):
    """An fp16 copy of a master, whose gradient is added up in more bits."""

    @staticmethod
    def forward(ctx, x):
        return x.half().to(x.dtype)

    @staticmethod
    def backward(ctx, gradient):
        return gradient


act = Activation.apply


class Rounded:
    """The functions of golden_model with every activation rounded."""

    def __init__(self, m, p):
        self.m, self.p = m, {name: Weight.apply(values) for name, values in p.items()}

    def linear(self, name, x):
        return act(F.linear(x, self.p[f'{name}.weight'], self.p.get(f'{name}.bias')))

    def norm(self, name, x):
        return act(norm_forward(self.m, self.p, name, x))

    def attention(self, name, x):
        m, (B, T, _) = self.m, x.shape
        H, D = m.num_attention_heads, m.kv_channels
        q, k, v = self.linear(f'{name}.qkv', x).view(B, T, 3 * H, D).transpose(1, 2).split([H, H, H], dim=1)
        scores = q @ k.transpose(2, 3) / D**0.5
        scores = scores.masked_fill(torch.ones(T, T, dtype=torch.bool).triu(1), -torch.inf)
        return self.linear(f'{name}.out', act((scores.softmax(-1) @ v).transpose(1, 2).reshape(B, T, H * D)))

    def mlp(self, name, x):
        return self.linear(f'{name}.down', act(F.gelu(self.linear(f'{name}.up', x), approximate='tanh')))

    def loss(self, tokens, targets):
        x = act(self.p['embedding.word'][tokens] + self.p['embedding.position'])
        for i in range(self.m.num_layers):
            x = act(x + self.attention(f'blocks.{i}.attention', self.norm(f'blocks.{i}.norm1', x)))
            x = act(x + self.mlp(f'blocks.{i}.mlp', self.norm(f'blocks.{i}.norm2', x)))
        logits = act(self.norm('final_norm', x) @ self.p['embedding.word'].T)
        return F.cross_entropy(logits.flatten(0, 1), targets.flatten(), ignore_index=-1)


class Scaler(torch.amp.GradScaler):
    """NeMo's rule: the scale is lowered after HYSTERESIS overflows in a row, and then after every further one."""
    patience = HYSTERESIS

    def update_after(self, finite):
        if finite:
            self.patience = HYSTERESIS
            return self.update()
        self.patience -= 1
        if self.patience <= 0:
            return self.update()
        self._growth_tracker.fill_(0)
        self._per_optimizer_states.clear()


def train(m, parameters, tokens, targets):
    p = {name: torch.tensor(values, dtype=torch.float64, requires_grad=True) for name, values in parameters.items()}
    groups = [{'params': [t for t in p.values() if t.dim() == 2], 'weight_decay': make_golden.WEIGHT_DECAY},
              {'params': [t for t in p.values() if t.dim() == 1], 'weight_decay': 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=5e-3, betas=make_golden.BETAS, eps=1e-5)
    scaler = Scaler('cpu', init_scale=INIT_SCALE, growth_interval=GROWTH_INTERVAL)
    tokens, targets = torch.from_numpy(tokens).long(), torch.from_numpy(targets).long()
    rows = []
    for _ in range(STEPS):
        optimizer.zero_grad()
        Activation.largest = 0.0
        loss = Rounded(m, p).loss(tokens, targets)
        scale = scaler.get_scale()
        scaler.scale(loss).backward()
        closest = abs(Activation.largest / LARGEST - 1)
        assert closest > MARGIN, f'a gradient is {closest} from overflowing; change INIT_SCALE or the model'
        scaler.unscale_(optimizer)
        finite = all(t.grad.isfinite().all().item() for t in p.values())
        norm = torch.nn.utils.clip_grad_norm_(list(p.values()), make_golden.CLIP).item() if finite else 0.0
        scaler.step(optimizer)
        scaler.update_after(finite)
        rows.append((loss.item(), norm, scale, float(finite)))
    return numpy.array(rows).T


def main():
    torch.set_num_threads(1)
    m = MODELS['gpt3']
    random = numpy.random.default_rng(7)
    parameters = {name: (0.3 * values).astype(numpy.float32) if 'norm' not in name else values
                  for name, values in make_golden.draw_parameters(m, random).items()}
    tokens, targets = make_golden.draw_batch(m, random)
    losses, norms, scales, finite = train(m, parameters, tokens, targets)
    tensors = {'tokens': tokens, 'targets': targets, 'losses': losses, 'grad_norms': norms, 'loss_scales': scales, 'finite': finite}
    tensors |= {f'param.{key}': values for key, values in parameters.items()}
    keys = make_golden.recipe_keys(m) | {
        'trainer.precision': '16', 'trainer.max_steps': str(STEPS), 'model.optim.eps': '1e-5', 'model.optim.lr': '5e-3',
        'model.native_amp_init_scale': str(int(INIT_SCALE)), 'model.native_amp_growth_interval': str(GROWTH_INTERVAL),
        'model.hysteresis': str(HYSTERESIS)}
    make_golden.write_safetensors(make_golden.FOLDER / 'fp16.safetensors', tensors, keys)
    for row in zip(losses, norms, scales, finite):
        print('loss {:.4f}  grad norm {:.4f}  scale 2^{:.0f}  finite {:.0f}'.format(row[0], row[1], numpy.log2(row[2]), row[3]))


if __name__ == '__main__':
    main()
