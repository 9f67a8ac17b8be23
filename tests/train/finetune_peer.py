#!/usr/bin/env python3
"""The side of transformers and PEFT in the tests of fine-tuning.

  finetune_peer.py full MODEL CHATS OUT.json             20 losses of full fine-tuning
  finetune_peer.py adapter MODEL FOLDER TARGETS          an adapter with made-up A and B, as PEFT saves it
  finetune_peer.py lora MODEL CHATS OUT.json ADAPTER     20 losses of LoRA that begins with the adapter, and its last weights
  finetune_peer.py logits MODEL OUT.json ADAPTER         the logits of a text with an adapter that we wrote

Every step is over all examples of CHATS, each in a row of its own: nothing is packed here, so what packing changes would show.
Needs torch, transformers and peft.
"""
import json
import os
import sys

os.environ['TRANSFORMERS_VERBOSITY'] = 'error'

import torch
import transformers

STEPS, RATE, DECAY, CLIP = 20, 2e-3, 0.1, 1.0
TEXT = 'The old keeper of the lighthouse went up the stairs.'


def load(folder):
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation='eager')
    return model.eval(), transformers.AutoTokenizer.from_pretrained(folder)


def examples(chats, tokenizer):
    """Tokens, and labels that are -100 in the prompt."""
    rows = []
    for line in open(chats, encoding='utf-8'):
        row = json.loads(line)
        prompt = tokenizer(row['input'] + '\n')['input_ids']
        response = tokenizer(row['output'])['input_ids'] + [tokenizer.eos_token_id]
        rows.append((prompt + response, [-100] * len(prompt) + response))
    return rows


def groups(model):
    """Weights of two dimensions decay, as ours do."""
    parameters = [p for p in model.parameters() if p.requires_grad]
    return [{'params': [p for p in parameters if p.dim() > 1], 'weight_decay': DECAY},
            {'params': [p for p in parameters if p.dim() <= 1], 'weight_decay': 0.0}]


def train(model, rows):
    optimizer = torch.optim.AdamW(groups(model), lr=RATE, betas=(0.9, 0.95), eps=1e-8)
    targets = sum(label != -100 for _, labels in rows for label in labels[1:])
    losses = []
    for _ in range(STEPS):
        optimizer.zero_grad()
        total = 0
        for tokens, labels in rows:
            logits = model(torch.tensor([tokens])).logits[0, :-1]
            loss = torch.nn.functional.cross_entropy(logits, torch.tensor(labels[1:]), reduction='sum') / targets
            loss.backward()
            total += loss.item()
        torch.nn.utils.clip_grad_norm_([p for p in model.parameters() if p.requires_grad], CLIP)
        optimizer.step()
        losses.append(total)
    return losses


def make_adapter(model, folder, targets):
    import peft
    torch.manual_seed(3)
    config = peft.LoraConfig(r=4, lora_alpha=12, target_modules=targets.split(','), lora_dropout=0.0, task_type='CAUSAL_LM',
                             fan_in_fan_out=model.config.model_type == 'gpt2')
    adapted = peft.get_peft_model(model, config)
    with torch.no_grad():
        for name, parameter in adapted.named_parameters():
            if 'lora_' in name:
                parameter.normal_(0, 0.05)
    adapted.save_pretrained(folder)


def main():
    command, folder, *rest = sys.argv[1:]
    torch.set_num_threads(1)
    model, tokenizer = load(folder)
    if command == 'adapter':
        make_adapter(model, *rest)
        return
    found = {'torch': torch.__version__, 'transformers': transformers.__version__}
    if command == 'full':
        chats, out = rest
        found['losses'] = train(model, examples(chats, tokenizer))
    else:
        import peft
        found['peft'] = peft.__version__
        adapted = peft.PeftModel.from_pretrained(model, rest[-1], is_trainable=command == 'lora')
        out = rest[-2]
        if command == 'lora':
            found['losses'] = train(adapted, examples(rest[0], tokenizer))
            found['adapter'] = {name: parameter.detach().flatten().tolist() for name, parameter in adapted.named_parameters()
                                if 'lora_' in name}
        else:
            tokens = tokenizer(TEXT)['input_ids']
            found['tokens'] = tokens
            with torch.no_grad():
                found['logits'] = adapted(torch.tensor([tokens])).logits[0].flatten().tolist()
    with open(out, 'w', encoding='utf-8') as file:
        json.dump(found, file)
        file.write('\n')


if __name__ == '__main__':
    main()
