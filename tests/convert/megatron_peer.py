#!/usr/bin/env python3
"""The side of Megatron-LM in the tests of export and import: its own code writes and loads checkpoints of tiny models on CPU ranks.

  megatron_peer.py MEGATRON write FOLDER KIND FORMAT TP PP [optimizer]   save_checkpoint to FOLDER, and FOLDER/logits.safetensors
  megatron_peer.py MEGATRON load FOLDER KIND TP                          load_checkpoint from FOLDER, and FOLDER/logits.safetensors
  megatron_peer.py MEGATRON golden                                       writes golden/megatron beside this script

MEGATRON is a checkout of Megatron-LM (core_v0.15.3), KIND one of gpt3, llama, gated, FORMAT torch or torch_dist. The weights are
drawn by name, so that all layouts have the same. Megatron runs without a GPU here because what it asks of CUDA is answered by the
CPU: random states are made up, and Tensor.cuda() returns the tensor.
Needs torch, safetensors and einops.
"""
import contextlib
import os
import re
import shutil
import sys
import tarfile
import warnings
import zlib
from argparse import Namespace
from pathlib import Path

warnings.filterwarnings('ignore')
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
import torch.utils.cpp_extension
from safetensors.torch import save_file

KINDS = {
    'gpt3': '--position-embedding-type learned_absolute',
    'llama': '--position-embedding-type rope --rotary-base 5000 --swiglu --normalization RMSNorm --disable-bias-linear '
             '--untie-embeddings-and-output-weights --group-query-attention --num-query-groups 2',
    'gated': '--position-embedding-type rope --rotary-percent 0.5 --swiglu --untie-embeddings-and-output-weights',
}
TOKENS = [3, 21, 0, 7, 19, 19, 29, 2, 11, 24, 5]
VOCABULARY = 29  # and the end of a document, which NullTokenizer adds
# The arguments that say what model it is. The others would make the golden files large.
KEPT = '''num_layers hidden_size ffn_hidden_size num_attention_heads kv_channels group_query_attention num_query_groups seq_length
max_position_embeddings position_embedding_type use_rotary_position_embeddings rotary_base rotary_percent rotary_interleaved
normalization norm_epsilon apply_layernorm_1p swiglu squared_relu openai_gelu bias_gelu_fusion add_bias_linear add_qkv_bias
untie_embeddings_and_output_weights attention_dropout hidden_dropout init_method_std make_vocab_size_divisible_by padded_vocab_size
micro_batch_size global_batch_size seed train_iters clip_grad lr min_lr lr_warmup_iters lr_decay_style weight_decay adam_beta1
adam_beta2 adam_eps consumed_train_samples tensor_model_parallel_size pipeline_model_parallel_size num_experts qk_layernorm
attention_backend params_dtype'''.split()


def without_cuda():
    def refuse(*_, **__):
        raise RuntimeError('there is no CUDA here')
    torch.utils.cpp_extension.load_inline = refuse
    torch.cuda.get_rng_state = lambda *_, **__: torch.zeros(16, dtype=torch.uint8)
    torch.cuda.set_rng_state = lambda *_, **__: None
    torch.cuda.current_device = lambda: 'cpu'
    torch.cuda.synchronize = lambda *_, **__: None
    torch.Tensor.cuda = lambda self, *_, **__: self
    type_of = torch.Tensor.type
    for name in ('tensor', 'zeros', 'empty', 'ones'):
        def on_cpu(*a, make=getattr(torch, name), device=None, **k):
            return make(*a, device='cpu' if device == 'cuda' else device, **k)
        setattr(torch, name, on_cpu)
    torch.Tensor.type = lambda self, *a, **k: type_of(self, *a, **k) if a or k else type_of(self).replace('torch.', 'torch.cuda.')


def arguments_of(kind, form, tp, pp, folder, rank, optimizer):
    from megatron.training.arguments import core_transformer_config_from_args, parse_args, validate_args
    saved = sys.argv
    sys.argv = (f'peer --num-layers 2 --hidden-size 16 --num-attention-heads 4 --ffn-hidden-size 24 --seq-length 12 '
                f'--max-position-embeddings 12 --micro-batch-size 1 --global-batch-size 4 --train-iters 10 --lr 1e-3 '
                f'--tensor-model-parallel-size {tp} --pipeline-model-parallel-size {pp} --make-vocab-size-divisible-by 8 '
                f'--tokenizer-type NullTokenizer --vocab-size {VOCABULARY} --transformer-impl local --use-cpu-initialization '
                f'--no-masked-softmax-fusion --no-gradient-accumulation-fusion --no-persist-layer-norm --no-bias-gelu-fusion '
                f'--no-bias-swiglu-fusion --no-bias-dropout-fusion --no-rope-fusion --attention-dropout 0 --hidden-dropout 0 '
                f'--distributed-backend gloo --save {folder} --load {folder} --ckpt-format {form} --weight-decay 0.1 '
                f'--adam-beta2 0.95 --no-save-rng {"" if optimizer else "--no-save-optim"} {KINDS[kind]}').split()
    args = parse_args()
    sys.argv = saved
    args.rank, args.world_size = rank, tp * pp
    with contextlib.suppress(AssertionError):  # its last checks want a GPU
        validate_args(args)
    args.padded_vocab_size = 32
    args.consumed_train_samples = 28
    args.use_dist_ckpt = form != 'torch'
    args.exit_on_missing_checkpoint = True
    config = core_transformer_config_from_args(args)
    config.pipeline_dtype = torch.float32
    return args, config


# Far larger than real weights, so that every nonlinearity is far from its linear part.
def draw_weights(model, args, tp_rank):
    for name, parameter in model.named_parameters():
        layer = re.match(r'decoder\.layers\.(\d+)\.', name)
        if layer:
            number = model.decoder.layers[int(layer.group(1))].layer_number - 1
            name = name.replace(layer.group(0), f'decoder.layers.{number}.')
        if 'output_layer' in name and not args.untie_embeddings_and_output_weights:
            name = 'embedding.word_embeddings.weight'
        tp = args.tensor_model_parallel_size
        cut = parameter.partition_dim if getattr(parameter, 'tensor_model_parallel', False) else None
        shape = list(parameter.shape)
        if cut is not None:
            shape[cut] *= tp
        values = torch.randn(shape, generator=torch.Generator().manual_seed(zlib.crc32(name.encode())))
        values = values * (0.2 if parameter.dim() > 1 else 0.3) + (1 if 'norm' in name and name.endswith('weight') else 0)
        if cut is not None:
            halves = values.chunk(2) if 'linear_fc1' in name and args.swiglu else [values]
            values = torch.cat([half.chunk(tp, cut)[tp_rank] for half in halves])
        parameter.data.copy_(values)


def logits_of(model, args):
    tokens = torch.tensor([TOKENS])
    length = tokens.shape[1]
    mask = torch.triu(torch.ones(1, 1, length, length), diagonal=1).bool()
    with torch.no_grad():
        logits = model(tokens, torch.arange(length)[None], mask)
    return {'tokens': tokens[0].int(), 'logits': logits[0, :, :args.padded_vocab_size].double().contiguous()}


def run(rank, megatron, action, folder, kind, form, tp, pp, optimizer, port):
    os.environ.update(MASTER_ADDR='127.0.0.1', MASTER_PORT=str(port), RANK=str(rank), WORLD_SIZE=str(tp * pp), LOCAL_RANK=str(rank))
    sys.path.insert(0, megatron)
    torch.set_num_threads(1)
    without_cuda()
    dist.init_process_group('gloo', rank=rank, world_size=tp * pp)
    import megatron.training.global_vars as global_vars
    from megatron.core import parallel_state, tensor_parallel
    from megatron.core.models.gpt import GPTModel
    from megatron.core.models.gpt.gpt_layer_specs import get_gpt_layer_local_spec
    from megatron.training import checkpointing
    args, config = arguments_of(kind, form, tp, pp, folder, rank, optimizer)
    parallel_state.initialize_model_parallel(tp, pp)
    global_vars._GLOBAL_ARGS = args
    type(tensor_parallel.get_cuda_rng_tracker()).fork = lambda *_, **__: contextlib.nullcontext()
    model = GPTModel(config=config, transformer_layer_spec=get_gpt_layer_local_spec(normalization=args.normalization),
                     vocab_size=args.padded_vocab_size, max_sequence_length=args.max_position_embeddings,
                     pre_process=parallel_state.is_pipeline_first_stage(), post_process=parallel_state.is_pipeline_last_stage(),
                     parallel_output=False, position_embedding_type=args.position_embedding_type,
                     share_embeddings_and_output_weights=not args.untie_embeddings_and_output_weights,
                     rotary_percent=args.rotary_percent, rotary_base=args.rotary_base)
    if action == 'load':
        checkpointing.load_checkpoint([model], None, None, strict=True)
    else:
        draw_weights(model, args, parallel_state.get_tensor_model_parallel_rank())
    if pp == 1:
        logits = logits_of(model, args)
    models, optimizer_ = [model], None
    if optimizer:
        from megatron.core.distributed import DistributedDataParallel, DistributedDataParallelConfig
        from megatron.core.optimizer import OptimizerConfig, get_megatron_optimizer
        models = [DistributedDataParallel(config, DistributedDataParallelConfig(grad_reduce_in_fp32=True), model)]
        optimizer_ = get_megatron_optimizer(OptimizerConfig(optimizer='adam', lr=1e-3, weight_decay=0.1), models)
        for name, parameter in models[0].named_parameters():
            gradient = torch.randn(parameter.shape, generator=torch.Generator().manual_seed(zlib.crc32(name.encode()) + 1))
            parameter.main_grad.copy_(gradient * 0.01)
        optimizer_.step()
        logits = logits_of(model, args)
    if action != 'load':
        generate = checkpointing.generate_state_dict
        short = Namespace(**{key: getattr(args, key) for key in KEPT})
        checkpointing.generate_state_dict = lambda _, *a, **k: {**generate(args, *a, **k), 'args': short}
        checkpointing.save_checkpoint(7, models, optimizer_, None, 0)
    if rank == 0 and pp == 1:
        save_file(logits, f'{folder}/logits.safetensors')
    dist.barrier()
    dist.destroy_process_group()


def start(megatron, action, folder, kind, form='torch', tp=1, pp=1, optimizer=False):
    import socket
    with socket.socket() as free:
        free.bind(('127.0.0.1', 0))
        port = free.getsockname()[1]
    values = (megatron, action, str(folder), kind, form, int(tp), int(pp), optimizer, port)
    mp.spawn(run, args=values, nprocs=int(tp) * int(pp))


# An archive with the members that NeMo 1.22 gives it for a GPT model without Megatron Core: NLPSaveRestoreConnector.save_to and
# _make_nemo_file_from_folder, whose calls these are. NeMo itself does not run without a GPU.
def write_nemo(folder, file, mode):
    shards = folder / 'gpt3-torch/iter_0000007'
    packed = folder / 'packed'
    legacy = [('decoder.', 'encoder.'), ('linear_qkv', 'query_key_value'), ('linear_proj', 'dense'), ('linear_fc1', 'dense_h_to_4h'),
              ('linear_fc2', 'dense_4h_to_h'), ('pre_mlp_layernorm', 'post_attention_layernorm')]
    for tp in range(2):
        for pp in range(2):
            held = torch.load(shards / f'mp_rank_{tp:02}_{pp:03}/model_optim_rng.pt', weights_only=False)['model']
            state = {}
            for name, value in held.items():
                for ours, theirs in legacy:
                    name = name.replace(ours, theirs)
                if name == 'output_layer.weight':
                    state['model.word_embeddings.weight'] = value
                elif value is not None:
                    state['model.language_model.' + name] = value
            place = packed / f'tp_rank_{tp:02}_pp_rank_{pp:03}'
            place.mkdir(parents=True)
            torch.save(state, place / 'model_weights.ckpt')
    (packed / 'model_config.yaml').write_text(
        'micro_batch_size: 1\nglobal_batch_size: 4\ntensor_model_parallel_size: 2\npipeline_model_parallel_size: 2\n'
        'encoder_seq_length: 12\nmax_position_embeddings: ${.encoder_seq_length}\nnum_layers: 2\nhidden_size: 16\n'
        'ffn_hidden_size: 24\nnum_attention_heads: 4\nactivation: gelu\nbias_activation_fusion: false\nnormalization: layernorm\n'
        'layernorm_epsilon: 1e-5\nmake_vocab_size_divisible_by: 8\nhidden_dropout: 0.0\nattention_dropout: 0.0\n'
        'tokenizer:\n  library: megatron\n  type: GPT2BPETokenizer\n  vocab_file: nemo:0123_vocab.json\n'
        '  merge_file: nemo:4567_merges.txt\ntarget: nemo.collections.nlp.models.language_modeling.megatron_gpt_model.MegatronGPTModel\n'
        'nemo_version: 1.22.0\n')
    words = [chr(ord('a') + i) for i in range(26)] + ['th', 'he', 'in', '<|endoftext|>']
    (packed / '0123_vocab.json').write_text('{' + ', '.join(f'"{word}": {i}' for i, word in enumerate(words)) + '}')
    (packed / '4567_merges.txt').write_text('#version: 0.2\nt h\nh e\ni n\n')
    with tarfile.open(file, mode) as tar:
        tar.add(packed, arcname='.')
    shutil.rmtree(packed)


def write_golden(megatron):
    sys.path.insert(0, megatron)  # whose names are in its files
    without_cuda()
    golden = Path(__file__).parent / 'golden/megatron'
    shutil.rmtree(golden, ignore_errors=True)
    for name, values in {'gpt3-torch': ('gpt3', 'torch', 2, 2), 'llama-dist': ('llama', 'torch_dist', 2, 1),
                         'gpt3-optimizer': ('gpt3', 'torch_dist', 1, 1, True), 'gated-torch': ('gated', 'torch', 2, 1)}.items():
        start(megatron, 'write', golden / name, *values)
    start(megatron, 'write', golden / 'whole', 'gpt3', 'torch', 1, 1)  # for the logits of those with stages
    shutil.copy(golden / 'whole/logits.safetensors', golden / 'gpt3-torch')
    shutil.rmtree(golden / 'whole')
    write_nemo(golden, golden / 'gpt3.nemo', 'w:gz')


if __name__ == '__main__':
    source, action, *rest = sys.argv[1:]
    if action == 'golden':
        write_golden(source)
    elif action == 'load':
        start(source, 'load', rest[0], rest[1], 'torch', rest[2])
    else:
        start(source, 'write', *rest[:5], optimizer='optimizer' in rest[5:])
