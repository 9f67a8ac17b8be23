"""The golden models: their settings, their parameters and their loss, in plain PyTorch.

Shapes: B batch, T time, C width, F feed-forward width, H query heads, G key/value heads, D head width, V vocabulary.
"""
import dataclasses
import math

import torch
import torch.nn.functional as F


@dataclasses.dataclass(frozen=True)
class Model:
    """The recipe keys of model.* that a golden model sets, under their own names."""
    micro_batch_size: int
    encoder_seq_length: int
    hidden_size: int
    ffn_hidden_size: int
    num_attention_heads: int
    num_query_groups: int
    kv_channels: int
    vocab_size: int
    num_layers: int = 2
    normalization: str = 'layernorm'
    layernorm_epsilon: float = 1e-5
    position_embedding_type: str = 'rope'
    rotary_percentage: float = 1.0
    rotary_base: float = 10000.0
    activation: str = 'gelu'
    bias: bool = True
    share_embeddings_and_output_weights: bool = False
    parallel_residual: bool = False

    def rotary_dims(self):
        return int(self.kv_channels * self.rotary_percentage) // 2 * 2


# The numbers that could be mistaken for one another differ wherever the architecture lets them: B, T, H and D are small and
# unlike, V is no multiple of anything, and `improved` has H*D != C.
MODELS = {
    'gpt3': Model(micro_batch_size=4, encoder_seq_length=10, hidden_size=24, ffn_hidden_size=96, num_attention_heads=3,
                  num_query_groups=3, kv_channels=8, vocab_size=61, position_embedding_type='learned_absolute',
                  share_embeddings_and_output_weights=True),
    'neox': Model(micro_batch_size=3, encoder_seq_length=17, hidden_size=32, ffn_hidden_size=96, num_attention_heads=2,
                  num_query_groups=2, kv_channels=16, vocab_size=37, rotary_percentage=0.25, activation='gelu_erf',
                  parallel_residual=True),
    'llama': Model(micro_batch_size=3, encoder_seq_length=13, hidden_size=32, ffn_hidden_size=48, num_attention_heads=4,
                   num_query_groups=2, kv_channels=8, vocab_size=53, normalization='rmsnorm', layernorm_epsilon=1e-3,
                   activation='swiglu', bias=False),
    'improved': Model(micro_batch_size=2, encoder_seq_length=19, hidden_size=32, ffn_hidden_size=40, num_attention_heads=2,
                      num_query_groups=2, kv_channels=12, vocab_size=47, normalization='layernorm1p', rotary_percentage=0.5,
                      rotary_base=1000.0, activation='swiglu', bias=False),
}


def parameter_shapes(m):
    """name -> shape, linear weights as [out, in]."""
    C, ffn = m.hidden_size, m.ffn_hidden_size
    H, G, D = m.num_attention_heads, m.num_query_groups, m.kv_channels
    shapes = {}

    def norm(name):
        shapes[f'{name}.weight'] = (C,)
        if m.normalization != 'rmsnorm':
            shapes[f'{name}.bias'] = (C,)

    def linear(name, outputs, inputs):
        shapes[f'{name}.weight'] = (outputs, inputs)
        if m.bias:
            shapes[f'{name}.bias'] = (outputs,)

    shapes['embedding.word'] = (m.vocab_size, C)
    if m.position_embedding_type == 'learned_absolute':
        shapes['embedding.position'] = (m.encoder_seq_length, C)
    for i in range(m.num_layers):
        norm(f'blocks.{i}.norm1')
        linear(f'blocks.{i}.attention.qkv', (H + 2 * G) * D, C)  # rows: all heads of q, then of k, then of v
        linear(f'blocks.{i}.attention.out', C, H * D)
        norm(f'blocks.{i}.norm2')
        linear(f'blocks.{i}.mlp.up', 2 * ffn if m.activation == 'swiglu' else ffn, C)  # swiglu: rows of gate, then of up
        linear(f'blocks.{i}.mlp.down', C, ffn)
    norm('final_norm')
    if not m.share_embeddings_and_output_weights:
        shapes['head.weight'] = (m.vocab_size, C)
    return shapes


def norm_forward(m, p, name, x):
    """x [B,T,C]."""
    weight = p[f'{name}.weight']
    if m.normalization == 'rmsnorm':
        return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + m.layernorm_epsilon) * weight
    if m.normalization == 'layernorm1p':
        weight = 1 + weight
    return F.layer_norm(x, (m.hidden_size,), weight, p[f'{name}.bias'], m.layernorm_epsilon)


def linear_forward(p, name, x):
    return F.linear(x, p[f'{name}.weight'], p.get(f'{name}.bias'))


def rotate(m, heads):
    """Turns the first dims channels of heads [B,heads,T,D]: channel i with channel i + dims/2, by position * base^(-2i/dims)."""
    dims = m.rotary_dims()
    half = dims // 2
    frequency = m.rotary_base ** (-2 * torch.arange(half, dtype=torch.float64) / dims)
    angle = torch.arange(heads.shape[2], dtype=torch.float64)[:, None] * frequency  # [T, half]
    cos, sin = angle.cos().to(heads.dtype), angle.sin().to(heads.dtype)
    a, b, rest = heads[..., :half], heads[..., half:dims], heads[..., dims:]
    return torch.cat([a * cos - b * sin, b * cos + a * sin, rest], dim=-1)


def attention_forward(m, p, name, x):
    """x [B,T,C]."""
    B, T, _ = x.shape
    H, G, D = m.num_attention_heads, m.num_query_groups, m.kv_channels
    qkv = linear_forward(p, f'{name}.qkv', x).view(B, T, H + 2 * G, D).transpose(1, 2)
    q, k, v = qkv.split([H, G, G], dim=1)  # [B,heads,T,D]
    if m.position_embedding_type == 'rope':
        q, k = rotate(m, q), rotate(m, k)
    k, v = (t.repeat_interleave(H // G, dim=1) for t in (k, v))  # query head h reads key/value head h / (H/G)
    scores = q @ k.transpose(2, 3) / math.sqrt(D)
    scores = scores.masked_fill(torch.ones(T, T, dtype=torch.bool).triu(1), -math.inf)
    out = (scores.softmax(-1) @ v).transpose(1, 2).reshape(B, T, H * D)
    return linear_forward(p, f'{name}.out', out)


def mlp_forward(m, p, name, x):
    """x [B,T,C]."""
    up = linear_forward(p, f'{name}.up', x)
    if m.activation == 'swiglu':
        gate, up = up.chunk(2, dim=-1)
        hidden = F.silu(gate) * up
    else:
        hidden = F.gelu(up, approximate='tanh' if m.activation == 'gelu' else 'none')
    return linear_forward(p, f'{name}.down', hidden)


def loss_of(m, p, tokens, targets):
    """Mean cross entropy over the targets that are not masked."""
    x = p['embedding.word'][tokens]  # [B,T,C]
    if m.position_embedding_type == 'learned_absolute':
        x = x + p['embedding.position']
    for i in range(m.num_layers):
        block = f'blocks.{i}'
        attention = attention_forward(m, p, f'{block}.attention', norm_forward(m, p, f'{block}.norm1', x))
        if m.parallel_residual:
            x = x + attention + mlp_forward(m, p, f'{block}.mlp', norm_forward(m, p, f'{block}.norm2', x))
        else:
            x = x + attention
            x = x + mlp_forward(m, p, f'{block}.mlp', norm_forward(m, p, f'{block}.norm2', x))
    head = p['embedding.word'] if m.share_embeddings_and_output_weights else p['head.weight']
    logits = norm_forward(m, p, 'final_norm', x) @ head.T
    return F.cross_entropy(logits.flatten(0, 1), targets.flatten(), ignore_index=-1)
