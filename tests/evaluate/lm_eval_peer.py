#!/usr/bin/env python3
"""The side of EleutherAI's lm-eval in the tests of trireme evaluate.

  lm_eval_peer.py MODEL DATA OUT.json [--num-fewshot N]
  lm_eval_peer.py --with-begin-token MODEL FOLDER

The second form copies a model, with a tokenizer that puts a token of its own before every text, as those of Llama do.

Scores the model of transformers in the folder MODEL on the files of DATA, which are in the formats of the published datasets, and
writes for each task its metrics and the log-likelihood of every request. The tasks are those that come with lm-eval, with the columns
that it finds in its copies of the datasets. Needs lm_eval, torch and transformers; nothing is downloaded.
"""
import argparse
import importlib.util
import json
import os
import shutil
import tempfile
from pathlib import Path

os.environ['HF_HUB_OFFLINE'] = os.environ['HF_DATASETS_OFFLINE'] = '1'
os.environ['TRANSFORMERS_VERBOSITY'] = 'error'
os.environ['DISABLE_MULTIPROC'] = '1'

import lm_eval
import torch
import yaml
from lm_eval.models.huggingface import HFLM

TASKS = Path(lm_eval.__file__).parent / 'tasks'


def lines(path):
    return [json.loads(line) for line in Path(path).read_text(encoding='utf-8').splitlines()]


def piqa(split):
    def read(data):
        folder = data / 'physicaliqa-train-dev'
        labels = (folder / f'{split}-labels.lst').read_text().split()
        return [{**row, 'label': int(label)} for row, label in zip(lines(folder / f'{split}.jsonl'), labels)]
    return read


def boolq(split):
    return lambda data: [{**row, 'label': int(row['label'])} for row in lines(data / f'BoolQ/{split}.jsonl')]


def hellaswag(split):
    # The column ctx is not read, and empty where it would only repeat the two others.
    return lambda data: [{**row, 'label': str(row['label'])} for row in lines(data / f'hellaswag/hellaswag_{split}.jsonl')]


def winogrande(split):
    return lambda data: lines(data / f'winogrande_1.1/{split}.jsonl')


def arc(kind, split):
    def read(data):
        rows = lines(data / f'ARC-V1-Feb2018-2/ARC-{kind}/ARC-{kind}-{split}.jsonl')
        return [{'id': row['id'], 'question': row['question']['stem'], 'answerKey': row['answerKey'],
                 'choices': {key: [choice[key] for choice in row['question']['choices']] for key in ('text', 'label')}}
                for row in rows]
    return read


def race(data):
    rows = []
    for path in sorted((data / 'RACE/test/high').glob('*.txt')):
        row = json.loads(path.read_text(encoding='utf-8'))
        problems = [{'question': question, 'answer': answer, 'options': options}
                    for question, answer, options in zip(row['questions'], row['answers'], row['options'])]
        rows.append({'article': row['article'], 'problems': repr(problems)})
    return rows


def wikitext(name):
    """Pages as EleutherAI's wikitext_document_level divides them."""
    def read(data):
        pages, page = [], []
        for line in (data / name / 'wiki.test.raw').read_text(encoding='utf-8').split('\n'):
            heading = line.replace('= = =', '===').replace('= =', '==').strip()
            if heading.startswith('= ') and heading.endswith(' ='):
                if '\n'.join(page).strip():
                    pages.append({'page': '\n'.join(page)})
                page = []
            page.append(line)
        return pages + [{'page': '\n'.join(page)}]
    return read


# Our name: (the task file of lm-eval, its documents, those for training).
CASES = {
    'lambada': ('lambada/lambada_openai.yaml', lambda data: lines(data / 'lambada/lambada_test.jsonl'), None),
    'hellaswag': ('hellaswag/hellaswag.yaml', hellaswag('val'), hellaswag('train')),
    'piqa': ('piqa/piqa.yaml', piqa('dev'), piqa('train')),
    'winogrande': ('winogrande/default.yaml', winogrande('dev'), winogrande('train_xl')),
    'boolq': ('super_glue/boolq/default.yaml', boolq('val'), boolq('train')),
    'race': ('race/race.yaml', race, None),
    'arc_easy': ('arc/arc_easy.yaml', arc('Easy', 'Test'), arc('Easy', 'Train')),
    'arc_challenge': ('arc/arc_easy.yaml', arc('Challenge', 'Test'), arc('Challenge', 'Train')),
    'wikitext2': ('wikitext/wikitext.yaml', wikitext('wikitext-2-raw'), None),
    'wikitext103': ('wikitext/wikitext.yaml', wikitext('wikitext-103-raw'), None),
}


def read_task(path):
    """A task file with its functions, whose modules are beside it."""
    def function(loader, node):
        module, name = node.value.rsplit('.', 1)
        spec = importlib.util.spec_from_file_location(module, path.parent / f'{module}.py')
        loaded = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(loaded)
        return getattr(loaded, name)
    loader = type('TaskLoader', (yaml.SafeLoader,), {})
    loader.add_constructor('!function', function)
    return yaml.load(path.read_text(), loader)


def task_of(name, data, folder):
    """The task with the splits that lm-eval reads: which of them there are decides where examples come from."""
    path, asked, training = CASES[name]
    config = read_task(TASKS / path)
    for key in ('dataset_name', 'tag', 'should_decontaminate', 'doc_to_decontamination_query'):
        config.pop(key, None)
    if config['output_type'] == 'loglikelihood_rolling':
        config['num_fewshot'] = 0  # else lm-eval draws examples that it does not use
    files = {}
    for key, documents in (('test_split' if config.get('test_split') else 'validation_split', asked), ('training_split', training)):
        if documents is None:
            continue
        files[key] = str(folder / f'{name}-{key}.jsonl')
        Path(files[key]).write_text(''.join(json.dumps(row) + '\n' for row in documents(data)))
    for key in ('training_split', 'validation_split', 'test_split'):
        config[key] = key if key in files else None
    return {**config, 'task': name, 'dataset_path': 'json', 'dataset_kwargs': {'data_files': files}}


def write_with_begin_token(model, folder):
    import transformers
    from tokenizers.processors import TemplateProcessing
    shutil.copytree(model, folder)
    tokenizer = transformers.AutoTokenizer.from_pretrained(model)
    begin = '\u0100'  # the token of byte 0, which no text has
    number = tokenizer.convert_tokens_to_ids(begin)
    tokenizer.bos_token = begin
    tokenizer.backend_tokenizer.post_processor = TemplateProcessing(single=f'{begin} $A', special_tokens=[(begin, number)])
    tokenizer.save_pretrained(folder)
    for name in ('vocab.json', 'merges.txt'):
        (Path(folder) / name).unlink(missing_ok=True)
    again = transformers.AutoTokenizer.from_pretrained(folder)
    assert again('bread')['input_ids'][0] == number and again.bos_token_id == number


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument('--with-begin-token', action='store_true')
    parser.add_argument('--num-fewshot', type=int, default=0)
    parser.add_argument('names', nargs='+')
    arguments = parser.parse_args()
    if arguments.with_begin_token:
        write_with_begin_token(*arguments.names)
        return
    model, data, out = arguments.names
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        os.environ['HF_DATASETS_CACHE'] = folder
        tasks = [task_of(name, Path(data), Path(folder)) for name in CASES]
        found = lm_eval.simple_evaluate(HFLM(model, device='cpu', dtype='float32', batch_size=3), tasks=tasks, bootstrap_iters=2,
                                        num_fewshot=arguments.num_fewshot or None)
    written = {}
    for name, metrics in found['results'].items():
        samples = sorted(found['samples'][name], key=lambda sample: sample['doc_id'])
        responses = [[response[0] for response in sample['resps']] for sample in samples]
        written[name] = {'metrics': {key: value for key, value in metrics.items() if isinstance(value, float)},
                         'responses': [[[r, False] if isinstance(r, float) else [float(r[0]), bool(r[1])] for r in sample]
                                       for sample in responses],
                         'arguments': [[list(arguments) for arguments in sample['arguments']] for sample in samples]}
    Path(out).write_text(json.dumps({'lm_eval': lm_eval.__version__, 'tasks': written}, indent=1, ensure_ascii=False, default=float) + '\n')


if __name__ == '__main__':
    main()
