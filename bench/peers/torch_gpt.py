#!/usr/bin/env python3
"""The PyTorch peer of bench/cpu and bench/gpu: a GPT-3 trainer in plain PyTorch, as fast as we could make it.

  torch_gpt.py [--device cuda|cpu] [--modes default,reduce-overhead,eager] [--dtype bf16|fp32] [--fp8] [--steps N] CASE:MBS[:ACCUM] ...
  torch_gpt.py --ceilings                     copy, GEMM and attention ceilings of the GPU

Weights and Adam states are bf16 without fp32 masters, which is less work than trireme does. Fused AdamW, gradient clipping, SDPA
(cuDNN on a GPU), no dropout, torch.compile.
--fp8: linear layers of the blocks in FP8 with per-tensor current scaling, LM head in bf16.
One line per run: tokens/s, model TFLOP/s by 72 B T L C^2 (1 + T/(6C) + V/(12 L C)), peak memory, loss of the last step.
A comparison counts the fastest mode.
"""
import argparse, time, torch, torch.nn as nn, torch.nn.functional as F
from torch.nn.attention import sdpa_kernel, SDPBackend
from contextlib import nullcontext

V = 50304
CASES = {  # layers, width, heads, sequence
    '10m': (6, 384, 6, 512), '124m-1k': (12, 768, 12, 1024), '126m': (12, 768, 12, 2048), '1.3b': (24, 2048, 16, 2048),
    '5b': (24, 4096, 32, 2048), '175b-2layers': (2, 12288, 96, 2048)}


class Fp8Linear(torch.autograd.Function):
    @staticmethod
    def quantize(t, dtype, top):
        scale = top / t.abs().amax().float().clamp(min=1e-12)
        return (t * scale).to(dtype), 1 / scale

    @staticmethod
    def forward(ctx, x, w):
        xq, xs = Fp8Linear.quantize(x, torch.float8_e4m3fn, 448.)
        wq, ws = Fp8Linear.quantize(w, torch.float8_e4m3fn, 448.)
        ctx.save_for_backward(xq, xs, wq, ws)
        return torch._scaled_mm(xq, wq.t(), scale_a=xs, scale_b=ws, out_dtype=torch.bfloat16, use_fast_accum=True)

    @staticmethod
    def backward(ctx, g):
        xq, xs, wq, ws = ctx.saved_tensors
        gq, gs = Fp8Linear.quantize(g, torch.float8_e5m2, 57344.)
        dx = torch._scaled_mm(gq, wq.t().contiguous().t(), scale_a=gs, scale_b=ws, out_dtype=torch.bfloat16)
        dw = torch._scaled_mm(gq.t().contiguous(), xq.t().contiguous().t(), scale_a=gs, scale_b=xs, out_dtype=torch.bfloat16)
        return dx, dw


class Linear(nn.Linear):
    fp8 = False

    def forward(self, x):
        if not self.fp8: return super().forward(x)
        return Fp8Linear.apply(x.reshape(-1, x.shape[-1]), self.weight).view(*x.shape[:-1], -1) + self.bias


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads, self.norm1, self.norm2 = heads, nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.proj = Linear(width, 3 * width), Linear(width, width)
        self.up, self.down = Linear(width, 4 * width), Linear(4 * width, width)

    def forward(self, x):
        B, T, C = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(B, T, 3, self.heads, C // self.heads).permute(2, 0, 3, 1, 4)
        a = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(B, T, C)
        x = x + self.proj(a)
        return x + self.down(F.gelu(self.up(self.norm2(x)), approximate='tanh'))


class GPT(nn.Module):
    def __init__(self, layers, width, heads, seq):
        super().__init__()
        self.token, self.position = nn.Embedding(V, width), nn.Embedding(seq, width)
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, V, bias=False)
        self.head.weight = self.token.weight
        for p in self.parameters():
            if p.dim() > 1: nn.init.normal_(p, std=0.02)

    def forward(self, ids, targets):
        x = self.token(ids) + self.position.weight[:ids.shape[1]]
        for b in self.blocks: x = b(x)
        return F.cross_entropy(self.head(self.norm(x)).view(-1, V).float(), targets.view(-1))


def run(a, case, mbs, accum, mode):
    layers, width, heads, seq = CASES[case]
    Linear.fp8 = a.fp8
    cuda = a.device == 'cuda'
    torch.manual_seed(0)
    torch.set_default_dtype(torch.bfloat16 if a.dtype == 'bf16' else torch.float32)
    with torch.device(a.device): model = GPT(layers, width, heads, seq)
    torch.set_default_dtype(torch.float32)
    opt = torch.optim.AdamW(model.parameters(), lr=1e-4, betas=(.9, .95), weight_decay=.1, fused=True)
    step_fn = model if mode == 'eager' else torch.compile(model, mode=None if mode == 'default' else mode)
    graphs = mode == 'reduce-overhead'  # gradients then need fixed addresses
    if graphs:
        for p in model.parameters(): p.grad = torch.zeros_like(p)
    data = [[x.contiguous() for x in (d[:, :-1], d[:, 1:])] for d in (torch.randint(0, V, (mbs, seq + 1), device=a.device) for _ in range(4))]
    sync = torch.cuda.synchronize if cuda else (lambda: None)

    def step():
        total = torch.zeros((), device=a.device)
        for j in range(accum):
            if graphs: torch.compiler.cudagraph_mark_step_begin()
            with sdpa_kernel(SDPBackend.CUDNN_ATTENTION) if cuda else nullcontext():
                loss = step_fn(*data[j % 4]) / accum
            loss.backward()
            total += loss.detach()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        opt.step(); opt.zero_grad(set_to_none=not graphs)
        return total

    for _ in range(4 if cuda else 2): step()
    sync(); times = []
    for _ in range(a.steps):
        t = time.perf_counter(); loss = step(); sync(); times.append(time.perf_counter() - t)
    t = sorted(times)[len(times) // 2]; tokens = mbs * accum * seq
    flops = 72 * tokens * layers * width * width * (1 + seq / (6 * width) + V / (12 * width * layers))
    mem = torch.cuda.max_memory_allocated() / 2**30 if cuda else 0
    print(f'PEER torch {torch.__version__} {case} {"fp8" if a.fp8 else a.dtype} mbs={mbs} accum={accum} mode={mode} step_ms={t*1e3:.2f} '
          f'tok/s={tokens/t:.0f} TFLOP/s={flops/t/1e12:.2f} mem_GiB={mem:.1f} loss={loss.item():.4f}', flush=True)


def ceilings():
    def timed(f, n=10):
        for _ in range(3): f()
        s, e = torch.cuda.Event(True), torch.cuda.Event(True); s.record()
        for _ in range(n): f()
        e.record(); torch.cuda.synchronize(); return s.elapsed_time(e) / n / 1e3
    x = torch.empty(2**31, dtype=torch.bfloat16, device='cuda'); y = torch.empty_like(x)
    print(f'CEIL copy {2 * x.nbytes / timed(lambda: y.copy_(x)) / 1e12:.2f} TB/s', flush=True); del x, y
    for M, N, K in [(8192, 8192, 8192), (4096, 49152, 12288), (4096, 12288, 49152), (4096, 36864, 12288), (16384, 3072, 768), (16384, 768, 3072), (16384, 50304, 768)]:
        x, w = (torch.randn(r, K, device='cuda', dtype=torch.bfloat16) for r in (M, N))
        xq, wq, one = x.to(torch.float8_e4m3fn), w.to(torch.float8_e4m3fn), torch.ones((), device='cuda')
        f = 2 * M * N * K / 1e12
        print(f'CEIL gemm {M}x{N}x{K} bf16={f / timed(lambda: x @ w.t()):.0f} '
              f'fp8={f / timed(lambda: torch._scaled_mm(xq, wq.t(), scale_a=one, scale_b=one, out_dtype=torch.bfloat16, use_fast_accum=True)):.0f} TFLOP/s', flush=True)
    for B, H, T, D in [(16, 12, 2048, 64), (2, 96, 2048, 128)]:
        q, k, v = (torch.randn(B, H, T, D, device='cuda', dtype=torch.bfloat16, requires_grad=True) for _ in range(3))
        with sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
            g = torch.randn_like(F.scaled_dot_product_attention(q, k, v, is_causal=True))
            fwd = timed(lambda: F.scaled_dot_product_attention(q, k, v, is_causal=True))
            both = timed(lambda: F.scaled_dot_product_attention(q, k, v, is_causal=True).backward(g))
        f = 2 * B * H * T * T * D / 1e12
        print(f'CEIL attention B{B} H{H} T{T} D{D} forward={f / fwd:.0f} backward={2.5 * f / (both - fwd):.0f} TFLOP/s (causal FLOPs)', flush=True)


if __name__ == '__main__':
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument('--device', default='cuda' if torch.cuda.is_available() else 'cpu'); p.add_argument('--modes', default='default')
    p.add_argument('--dtype', default='bf16', choices=['bf16', 'fp32']); p.add_argument('--fp8', action='store_true')
    p.add_argument('--steps', type=int, default=8); p.add_argument('--ceilings', action='store_true'); p.add_argument('cases', nargs='*')
    a = p.parse_args()
    if a.ceilings: ceilings()
    for c in a.cases:
        case, mbs, accum = (c.split(':') + ['1', '1'])[:3]
        for mode in a.modes.split(','):
            try: run(a, case, int(mbs), int(accum), mode)
            except Exception as e: print(f'PEER torch {c} mode={mode} FAILED {type(e).__name__} {str(e)[:200]}', flush=True)
            torch._dynamo.reset()
            if torch.cuda.is_available(): torch.cuda.empty_cache(); torch.cuda.reset_peak_memory_stats()
