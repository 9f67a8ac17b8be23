#!/usr/bin/env python3
"""How long the page of `trireme serve` takes, and what following a run costs the run.

    bench/serve/measure.py page [--rounds 3] [--report]        # headless Chromium on this machine; needs 2 GB of disk
    bench/serve/measure.py follower [--rounds 3] [--report]    # a run alone, with a page, with a terminal, in turns

page: for runs of 10,000 and 1,000,000 steps, 200 runs of 10,000 steps and a folder of 10,000 runs, the time from the navigation to
the first curve and to the last one, and from the end of a drag over the loss to the redrawn charts. The browser measures them
(performance.now).

follower: the demo with one step of one sample, the shortest step that it has. A page is a client that asks what the page asks, as
often: the browser itself runs elsewhere. A terminal is `trireme watch` in a terminal of its own. What a follower costs has two
parts, and neither needs a quiet machine:

- What the run itself does for it: its calls to the kernel that read and write, the bytes that it writes, and its CPU time per step,
  alone and followed. A run knows nothing of its followers, so the calls are the same.
- What the follower takes: its CPU time per second of the run, with that of its start and its end. On a machine without an idle core
  that is the most that steps can lose.

Step times are shown too; they can be cited from a quiet machine only.
"""
import argparse
import datetime
import http.client
import json
import os
import pty
import re
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / 'bench/cpu'))
from report import commit, machine, without_machine_names  # noqa: E402

from browser import Page  # noqa: E402
from make_runs import make_run  # noqa: E402

TRIREME = str(ROOT / 'build/trireme')
OBSERVE = """
window.times = {};
new MutationObserver(() => {
  const curves = document.querySelectorAll('#charts .curve').length;
  if (curves && !times.first) times.first = performance.now();
}).observe(document, { subtree: true, childList: true });
"""
# Nothing is being read, and as many curves as wanted are there.
WHOLE = "(() => { const n = document.querySelectorAll('#charts .curve').length; return n >= %d && document.getElementById('notice').hidden && performance.now(); })()"


class Server:
    def __init__(self, runs):
        self.process = subprocess.Popen([TRIREME, 'serve', str(runs), '--port', '0'], stdout=subprocess.PIPE, text=True)
        self.address = self.process.stdout.readline().split()[0]

    def get(self, path):
        with urllib.request.urlopen(self.address + path) as reply:
            return json.load(reply)

    def wait_for_scan(self):
        start = time.monotonic()
        while True:
            reply = self.get('api/runs')
            if reply['complete']:
                return reply['runs'], time.monotonic() - start
            time.sleep(0.01)

    def resident_mib(self):
        return int(re.search(r'VmRSS:\s*(\d+)', Path(f'/proc/{self.process.pid}/status').read_text())[1]) / 1024

    def close(self):
        """Returns the CPU time that it took in all."""
        self.process.terminate()
        _, _, usage = os.wait4(self.process.pid, 0)
        self.process.returncode = 0
        return usage.ru_utime + usage.ru_stime


# ------------------------------------------------------------------------------------------------------------------ page
def time_page(runs, state, curves):
    """A new server and a new browser, so that nothing is there from before."""
    server = Server(runs)
    found, scan = server.wait_for_scan()
    ids = ','.join(run['id'] for run in found)
    page = Page()
    try:
        page.call('Page.addScriptToEvaluateOnNewDocument', source=OBSERVE)
        page.call('Page.navigate', url=server.address + state.replace('IDS', ids))
        first = page.wait_for('window.times?.first')
        whole = page.wait_for(WHOLE % curves)
        again = None
        if curves:
            box = page.value("(() => { const b = document.querySelector('#charts svg').getBoundingClientRect(); return [b.left, b.width, b.top + b.height / 2]; })()")
            page.value("(() => { const seen = new MutationObserver(() => { times.zoomed = performance.now(); });"
                       "addEventListener('pointerup', () => { times.released = performance.now(); }, true);"
                       "seen.observe(document.documentElement, { attributes: true, attributeFilter: ['data-zoom-milliseconds'] }); })()")
            page.drag(box[0] + box[1] * 0.45, box[0] + box[1] * 0.55, box[2])
            again = page.wait_for('times.zoomed && times.zoomed - times.released')
        return {'scan': scan * 1e3, 'first': first, 'whole': whole, 'zoom': again, 'memory': server.resident_mib()}
    finally:
        page.close()
        server.close()


def make_many(folder, count):
    for number in range(count):
        run = folder / f'team-{number // 500}' / f'run-{number:05}'
        run.mkdir(parents=True)
        (run / 'recipe.yaml').write_text(f'model: {{seed: {number}}}\n')
        (run / 'metrics.csv').write_text('step,reduced_train_loss\n' + ''.join(f'{step},{3 - step / 100}\n' for step in range(20)))


def measure_page(arguments, say):
    with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
        folder = Path(folder)
        cases = [('one run of 10,000 steps', folder / 'short', '', 3), ('one run of 1,000,000 steps', folder / 'long', '', 3),
                 ('200 runs of 10,000 steps', folder / 'many', '#runs=IDS', 200), ('10,000 runs in the folder', folder / 'all', '', 1)]
        make_run(folder / 'short/run', 10_000, 8, 1, 'finished')
        make_run(folder / 'long/run', 1_000_000, 8, 1, 'finished')
        for seed in range(200):
            make_run(folder / f'many/run-{seed:03}', 10_000, 1, seed, 'finished')
        make_many(folder / 'all', 10_000)
        results = {name: [] for name, *_ in cases}
        for number in range(arguments.rounds):
            for name, runs, state, curves in cases:
                times = time_page(runs, state, curves)
                results[name].append(times)
                say(f'PAGE round={number + 1} case="{name}" ' + ' '.join(f'{key}={value:.0f}' for key, value in times.items()))
    rows = ['| | runs found | first curve | all curves | zoom | memory of the server |', '|---|---:|---:|---:|---:|---:|']
    for name, all_times in results.items():
        def cell(key):
            values = [times[key] for times in all_times]
            return f'{statistics.median(values):,.0f} ({min(values):,.0f}-{max(values):,.0f})'
        rows.append(f'| {name} | {cell("scan")} ms | {cell("first")} ms | {cell("whole")} ms | {cell("zoom")} ms | {cell("memory")} MiB |')
    return rows


# -------------------------------------------------------------------------------------------------------------- follower
class PageClient(threading.Thread):
    """Asks what the page asks: what is new every 2 s, the log with it, the ranks every 20 s. It stands for a browser on another
    machine, so it takes only what the run leaves."""

    def __init__(self, server):
        super().__init__(daemon=True)
        self.connection = http.client.HTTPConnection(server.address.split('/')[2])
        self.is_over, self.asked = False, 0

    def get(self, path):
        self.connection.request('GET', '/api/' + path)
        return self.connection.getresponse().read()

    def run(self):
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), 19)
        generation, have, known, looks = 0, '', 0, 0
        while not self.is_over:
            reply = json.loads(self.get(f'runs?since={known}'))
            known = reply['version']
            for run in reply['runs']:
                series = json.loads(self.get(f"series?run={run['id']}&points=700&x=step&generation={generation}&have={have}"))
                generation = series['generation']
                have = ','.join(f"{key}:{curve['group']}:{curve['steps'][-1]}" for key, curve in series['series'].items()
                                if len(curve['steps']) > 1)
                self.get(f"log?run={run['id']}&rank=0&lines=200")
                if looks % 10 == 0:
                    self.get(f"ranks?run={run['id']}")
                self.asked += 1
            looks += 1
            time.sleep(2)


def train(folder, arguments):
    """Step times of the run; its CPU seconds, read and write calls, and bytes, per step."""
    process = subprocess.Popen([TRIREME, 'train', 'demo', '--benchmark', '--json', 'trainer.backend=cpu', f'trainer.max_steps={arguments.steps}',
                                *arguments.model, f'exp_manager.explicit_log_dir={folder}'], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, cwd=ROOT)
    output = process.stdout.read()
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)  # its counts are there until it is reaped
    counts = dict(line.split(': ') for line in Path(f'/proc/{process.pid}/io').read_text().splitlines())
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        raise SystemExit(f'the run ended with status {process.returncode}')
    own = {'cpu': usage.ru_utime + usage.ru_stime, 'reads': int(counts['syscr']), 'writes': int(counts['syscw']), 'written': int(counts['wchar'])}
    return {**json.loads(output)['step_seconds'], **{key: value / arguments.steps for key, value in own.items()}}


def follow_with_page(folder, arguments):
    start = time.monotonic()
    server = Server(folder.parent)
    client = PageClient(server)
    client.start()
    seconds = train(folder, arguments)
    client.is_over = True
    client.join()
    return seconds, server.close() / (time.monotonic() - start), client.asked


def follow_with_terminal(folder, arguments):
    result = {}
    runner = threading.Thread(target=lambda: result.update(seconds=train(folder, arguments)))
    start = time.monotonic()
    runner.start()
    while not (folder / 'dllogger/rank-0/dllogger.json').exists():
        time.sleep(0.05)
    pid, terminal = pty.fork()
    if pid == 0:
        os.environ['TERM'] = 'xterm'
        os.execv(TRIREME, [TRIREME, 'watch', str(folder)])
    frames = 0
    try:
        while chunk := os.read(terminal, 65536):
            frames += chunk.count(b'\x1b[H')
    except OSError:
        pass  # the program has ended and its terminal with it
    _, _, usage = os.wait4(pid, 0)
    runner.join()
    return result['seconds'], (usage.ru_utime + usage.ru_stime) / (time.monotonic() - start), frames


def measure_follower(arguments, say):
    kinds = {'alone': lambda folder, arguments: (train(folder, arguments), 0.0, 0), 'page': follow_with_page, 'terminal': follow_with_terminal}
    results = {name: [] for name in kinds}
    with tempfile.TemporaryDirectory(dir=arguments.folder) as place:
        for number in range(arguments.rounds):
            for name, run in kinds.items():
                folder = Path(place) / f'{name}-{number}' / 'run'
                folder.parent.mkdir()
                seconds, cpu, looks = run(folder, arguments)
                results[name].append({**seconds, 'follower': cpu})
                say(f'FOLLOWER round={number + 1} kind={name} median_ms={seconds["median"] * 1e3:.3f} mean_ms={seconds["mean"] * 1e3:.3f} '
                    f'run_cpu_ms={seconds["cpu"] * 1e3:.4f} reads={seconds["reads"]:.4f} writes={seconds["writes"]:.4f} '
                    f'written={seconds["written"]:.2f} follower_cpu={cpu:.5%} looks={looks}')
    cores = len(os.sched_getaffinity(0))

    def cell(rounds, key, scale, digits):
        values = [one[key] * scale for one in rounds]
        return f'{statistics.median(values):.{digits}f} ({min(values):.{digits}f}-{max(values):.{digits}f})'
    rows = ['| | CPU time of the run per step | read calls per step | write calls per step | bytes written per step | median step |',
            '|---|---:|---:|---:|---:|---:|']
    for name, rounds in results.items():
        rows.append(f'| {name} | {cell(rounds, "cpu", 1e3, 3)} ms | {cell(rounds, "reads", 1, 3)} | {cell(rounds, "writes", 1, 3)} | '
                    f'{cell(rounds, "written", 1, 1)} | {cell(rounds, "median", 1e3, 2)} ms |')
    rows += ['', f'| follower | CPU time per second of the run | share of {cores} cores: the most that it takes from a step |', '|---|---:|---:|']
    for name in ('page', 'terminal'):
        share = statistics.median(one['follower'] for one in results[name])
        most = max(one['follower'] for one in results[name])
        rows.append(f'| {name} | {share * 1e3:.3f} ms (most {most * 1e3:.3f} ms) | {share / cores:.4%} (most {most / cores:.4%}) |')
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('what', choices=['page', 'follower'])
    parser.add_argument('--rounds', type=int, default=3)
    parser.add_argument('--steps', type=int, default=300, help='of each run of follower')
    parser.add_argument('--model', nargs='*', default=['model.global_batch_size=1', 'model.micro_batch_size=1'], help='settings of the demo for follower')
    parser.add_argument('--folder', default=tempfile.gettempdir(), help='where the runs are put')
    parser.add_argument('--report', action='store_true', help='write a report beside this script')
    arguments = parser.parse_args()
    lines = []

    def say(text):
        print(text, flush=True)
        lines.append(text)

    before = os.getloadavg()[0]
    rows = (measure_page if arguments.what == 'page' else measure_follower)(arguments, say)
    after = os.getloadavg()[0]
    print('\n' + '\n'.join(rows))
    if not arguments.report:
        return
    made_at = commit(str(ROOT))
    is_follower = arguments.what == 'follower'
    broken = [rule for rule, is_broken in (('the working tree has changes', 'with changes' in made_at), ('fewer than three rounds', arguments.rounds < 3),
                                           ('the machine was busy before', before > 0.5 and not is_follower)) if is_broken]
    cited = f'no: {", ".join(broken)}' if broken else 'yes, but for step times: the machine was busy before' if before > 0.5 else 'yes'
    name = f'{datetime.datetime.now():%Y-%m-%d-%H%M}-{arguments.what}'
    chromium = subprocess.run(['chromium', '--version'], capture_output=True, text=True).stdout.strip() if arguments.what == 'page' else 'none'
    explanation = re.search('^follower: .*' if is_follower else '^page: .*?(?=\n\n)', __doc__, re.MULTILINE | re.DOTALL)[0].strip()
    report = '\n'.join([f'# {"The page of trireme serve" if arguments.what == "page" else "What following a run costs it"}, {name[:10]}', '',
                        explanation, '', f'Medians of {arguments.rounds} rounds in turns, with lowest and highest.', '', *rows, '',
                        f'- command: `bench/serve/measure.py {" ".join(sys.argv[1:])}`', f'- commit: {made_at}', f'- machine: {machine()}',
                        f'- browser: {chromium}', f'- load average {before:.2f} before, {after:.2f} after',
                        f'- may be cited: {cited}', f'- raw lines: [{name}.log]({name}.log)', ''])
    output = Path(__file__).parent / 'reports'
    output.mkdir(exist_ok=True)
    (output / f'{name}.md').write_text(without_machine_names(report))
    (output / f'{name}.log').write_text(without_machine_names('\n'.join(lines) + '\n'))


if __name__ == '__main__':
    main()
