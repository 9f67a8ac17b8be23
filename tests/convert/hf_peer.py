#!/usr/bin/env python3
"""The side of transformers in the tests of export and import.

  hf_peer.py golden            writes golden/NAME beside this script: four small models with their logits, which are committed
  hf_peer.py models FOLDER     writes FOLDER/NAME, models with the options that the golden ones do not have, with their logits
  hf_peer.py logits FOLDER     loads the model in FOLDER as a user would and writes its logits there, for the tokens of its tokens.json
  hf_peer.py text FOLDER TEXT  prints the tokens of TEXT by the tokenizer in FOLDER, and the text of those tokens, as JSON

Logits are made in double precision from the stored weights, but for what transformers always computes in single precision (RMSNorm,
rotary angles): close to the exact answer, not another implementation's rounding of it.
Needs torch, transformers and safetensors.
"""
import json
import os
import sys
import warnings
from pathlib import Path

os.environ['TRANSFORMERS_VERBOSITY'] = 'error'
warnings.filterwarnings('ignore')

import torch
import transformers
from safetensors.torch import save_file

TOKENS = [3, 41, 0, 7, 19, 19, 30, 2, 11, 44, 5, 28, 46]


def gpt2(**options):
    return transformers.GPT2Config(**{**dict(vocab_size=53, n_positions=20, n_embd=24, n_layer=2, n_head=3, n_inner=40,
                                             bos_token_id=None, eos_token_id=None), **options})


def gpt_neox(**options):
    return transformers.GPTNeoXConfig(**{**dict(vocab_size=47, hidden_size=32, num_hidden_layers=2, num_attention_heads=2,
                                                intermediate_size=56, max_position_embeddings=20), **options})


def llama(**options):
    return transformers.LlamaConfig(**{**dict(vocab_size=61, hidden_size=24, num_hidden_layers=2, num_attention_heads=4,
                                              num_key_value_heads=2, head_dim=8, intermediate_size=40,
                                              max_position_embeddings=20), **options})


# Of the eight frequencies of a head of 16, some stay, some are divided, and some are between.
LLAMA3 = {'rope_type': 'llama3', 'rope_theta': 50.0, 'factor': 4.0, 'low_freq_factor': 1.0, 'high_freq_factor': 2.5,
          'original_max_position_embeddings': 40}
# name: (configuration, type of the weights, largest file)
GOLDEN = {
    'gpt2': (gpt2(), torch.float32, '1GB'),
    'gpt_neox': (gpt_neox(), torch.float16, '1GB'),
    'llama': (llama(), torch.bfloat16, '12KB'),
    'llama3': (llama(head_dim=16, rope_parameters=LLAMA3), torch.bfloat16, '1GB'),
    'linear': (llama(rope_parameters={'rope_type': 'linear', 'rope_theta': 500.0, 'factor': 2.5}), torch.bfloat16, '1GB'),
}
MODELS = {
    'gpt2_untied': (gpt2(tie_word_embeddings=False, activation_function='gelu'), torch.float32, '20KB'),
    'gpt2_default_inner': (gpt2(n_inner=None, layer_norm_epsilon=1e-3), torch.bfloat16, '1GB'),
    'neox_sequential': (gpt_neox(use_parallel_residual=False, hidden_act='gelu_new', layer_norm_eps=1e-3), torch.float32, '1GB'),
    'neox_whole_heads': (gpt_neox(rope_parameters={'rope_type': 'default', 'rope_theta': 500.0, 'partial_rotary_factor': 1.0}),
                         torch.float32, '1GB'),
    'neox_linear': (gpt_neox(rope_parameters={'rope_type': 'linear', 'rope_theta': 500.0, 'factor': 3.0,
                                              'partial_rotary_factor': 0.5}), torch.float32, '1GB'),
    'neox_tied_without_bias': (gpt_neox(tie_word_embeddings=True, attention_bias=False), torch.float32, '1GB'),
    'llama_biases': (llama(attention_bias=True, mlp_bias=True), torch.float32, '1GB'),
    'llama_attention_bias': (llama(attention_bias=True, head_dim=6), torch.float32, '1GB'),
    'llama_tied': (llama(tie_word_embeddings=True, num_key_value_heads=4, rms_norm_eps=1e-3,
                         rope_parameters={'rope_type': 'default', 'rope_theta': 500.0}), torch.float16, '10KB'),
}


def draw(config, seed):
    """Values much larger than a real initialisation, so that every nonlinearity is far from its linear part; norm weights and
    biases that differ from channel to channel."""
    torch.manual_seed(seed)
    model = transformers.AutoModelForCausalLM.from_config(config)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.dim() == 2:
                parameter.normal_(0, 0.3)
            else:
                is_norm = name.endswith('.weight')
                parameter.normal_(1 if is_norm else 0, 0.2)
    return model


def write_logits(model, folder, tokens):
    """logits.safetensors: tokens [T] i32, logits [T,V] f64."""
    with torch.no_grad():
        logits = model.double().eval()(torch.tensor([tokens])).logits[0]
    save_file({'tokens': torch.tensor(tokens, dtype=torch.int32), 'logits': logits.contiguous()}, folder / 'logits.safetensors')


def write_loaded_logits(folder, tokens):
    model, report = transformers.AutoModelForCausalLM.from_pretrained(folder, output_loading_info=True, dtype=torch.float32)
    troubles = {kind: sorted(names) for kind, names in report.items() if names}
    if troubles:
        sys.exit(f'{folder}: {troubles}')
    write_logits(model, folder, tokens)


def write_models(models, folder):
    for seed, (name, (config, dtype, shard)) in enumerate(models.items()):
        model = draw(config, seed).to(dtype)
        model.save_pretrained(folder / name, max_shard_size=shard)
        (folder / name / 'generation_config.json').unlink(missing_ok=True)
        # Loaded as a user would: a model cast here has rounded its rotary frequencies as well.
        write_loaded_logits(folder / name, TOKENS)


def print_text(folder, text):
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    tokens = tokenizer(text)['input_ids']
    print(json.dumps({'tokens': tokens, 'text': tokenizer.decode(tokens), 'end': tokenizer.eos_token_id}))


def main():
    command, arguments = sys.argv[1], sys.argv[2:]
    torch.set_num_threads(1)
    if command == 'golden':
        write_models(GOLDEN, Path(__file__).resolve().parent / 'golden')
    elif command == 'models':
        write_models(MODELS, Path(arguments[0]))
    elif command == 'logits':
        for folder in arguments:
            write_loaded_logits(Path(folder), json.loads((Path(folder) / 'tokens.json').read_text()))
    elif command == 'text':
        print_text(arguments[0], arguments[1])
    else:
        sys.exit(__doc__)


if __name__ == '__main__':
    main()
