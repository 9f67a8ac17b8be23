#!/usr/bin/env python3
"""The side of EleutherAI's lm-eval in the tests of trireme evaluate.

  lm_eval_peer.py MODEL DATA OUT.json [MAX_LENGTH]

Scores the model of transformers in the folder MODEL on the files of DATA, which are in the formats of the published datasets, and
writes for each task its metrics and the log-likelihood of every request. The tasks are those that come with lm-eval, with the columns
that it finds in its copies of the datasets. Needs lm_eval, torch and transformers; nothing is downloaded.
"""
import importlib.util
import json
import os
import sys
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


def piqa(data):
    folder = data / 'physicaliqa-train-dev'
    labels = (folder / 'dev-labels.lst').read_text().split()
    return [{**row, 'label': int(label)} for row, label in zip(lines(folder / 'dev.jsonl'), labels)]


def boolq(data):
    return [{**row, 'label': int(row['label'])} for row in lines(data / 'BoolQ/val.jsonl')]


def arc(kind):
    def read(data):
        rows = lines(data / f'ARC-V1-Feb2018-2/ARC-{kind}/ARC-{kind}-Test.jsonl')
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


# Our name: (the task file of lm-eval, its documents).
CASES = {
    'lambada': ('lambada/lambada_openai.yaml', lambda data: lines(data / 'lambada/lambada_test.jsonl')),
    'hellaswag': ('hellaswag/hellaswag.yaml', lambda data: [
        {**row, 'label': str(row['label'])} for row in lines(data / 'hellaswag/hellaswag_val.jsonl')]),
    'piqa': ('piqa/piqa.yaml', piqa),
    'winogrande': ('winogrande/default.yaml', lambda data: lines(data / 'winogrande_1.1/dev.jsonl')),
    'boolq': ('super_glue/boolq/default.yaml', boolq),
    'race': ('race/race.yaml', race),
    'arc_easy': ('arc/arc_easy.yaml', arc('Easy')),
    'arc_challenge': ('arc/arc_easy.yaml', arc('Challenge')),
    'wikitext2': ('wikitext/wikitext.yaml', wikitext('wikitext-2-raw')),
    'wikitext103': ('wikitext/wikitext.yaml', wikitext('wikitext-103-raw')),
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
    path, documents = CASES[name]
    config = read_task(TASKS / path)
    for key in ('dataset_name', 'training_split', 'validation_split', 'tag', 'should_decontaminate', 'doc_to_decontamination_query'):
        config.pop(key, None)
    file = folder / f'{name}.jsonl'
    file.write_text(''.join(json.dumps(row) + '\n' for row in documents(data)))
    return {**config, 'task': name, 'dataset_path': 'json', 'dataset_kwargs': {'data_files': {'test': str(file)}}, 'test_split': 'test'}


def main():
    model, data, out = sys.argv[1:4]
    most = {'max_length': int(sys.argv[4])} if len(sys.argv) > 4 else {}
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        os.environ['HF_DATASETS_CACHE'] = folder
        tasks = [task_of(name, Path(data), Path(folder)) for name in CASES]
        found = lm_eval.simple_evaluate(HFLM(model, device='cpu', dtype='float32', batch_size=3, **most), tasks=tasks, bootstrap_iters=2)
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
