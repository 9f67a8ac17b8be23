"""Headless Chromium over its debugging protocol: as much as measure.py needs, with the standard library only."""
import base64
import json
import os
import re
import shutil
import socket
import struct
import subprocess
import tempfile
import time
import urllib.request
from pathlib import Path


class Page:
    """A page of a browser that this object starts."""

    def __init__(self, width=1280, height=900):
        program = next((name for name in ('chromium', 'chromium-browser', 'google-chrome') if shutil.which(name)), None)
        if program is None:
            raise SystemExit('chromium is not there; install it')
        self.folder = tempfile.mkdtemp(prefix='trireme-browser-')
        self.process = subprocess.Popen(
            [program, '--headless=new', '--no-sandbox', '--disable-gpu', '--remote-debugging-port=0', '--remote-allow-origins=*',
             f'--user-data-dir={self.folder}', f'--window-size={width},{height}', 'about:blank'],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        port_file = Path(self.folder) / 'DevToolsActivePort'
        while not port_file.exists() or '\n' not in port_file.read_text():
            time.sleep(0.02)
        port = int(port_file.read_text().split()[0])
        while True:
            pages = [page for page in json.load(urllib.request.urlopen(f'http://127.0.0.1:{port}/json')) if page['type'] == 'page']
            if pages:
                break
            time.sleep(0.02)
        self.socket = socket.create_connection(('127.0.0.1', port))
        path = re.sub(r'^ws://[^/]*', '', pages[0]['webSocketDebuggerUrl'])
        key = base64.b64encode(os.urandom(16)).decode()
        self.socket.sendall(f'GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n'
                            f'Sec-WebSocket-Key: {key}\r\nSec-WebSocket-Version: 13\r\n\r\n'.encode())
        self.received = b''
        while b'\r\n\r\n' not in self.received:
            self.received += self.socket.recv(4096)
        self.received = self.received.split(b'\r\n\r\n', 1)[1]
        self.number = 0
        self.call('Page.enable')

    def _take(self, count):
        while len(self.received) < count:
            self.received += self.socket.recv(1 << 20)
        taken, self.received = self.received[:count], self.received[count:]
        return taken

    def _message(self):
        text = b''
        while True:
            first, second = self._take(2)
            size = second & 127
            if size == 126:
                size = struct.unpack('>H', self._take(2))[0]
            elif size == 127:
                size = struct.unpack('>Q', self._take(8))[0]
            text += self._take(size)
            if first & 0x80:
                return json.loads(text)

    def call(self, method, **parameters):
        self.number += 1
        text = json.dumps({'id': self.number, 'method': method, 'params': parameters}).encode()
        size = struct.pack('>BBH', 0x81, 0x80 | 126, len(text)) if len(text) > 125 else struct.pack('>BB', 0x81, 0x80 | len(text))
        self.socket.sendall(size + b'\0\0\0\0' + text)  # masked with zeros
        while True:
            message = self._message()
            if message.get('id') == self.number:
                return message.get('result', message)

    def value(self, expression):
        return self.call('Runtime.evaluate', expression=expression, returnByValue=True, awaitPromise=True)['result'].get('value')

    def wait_for(self, expression, seconds=120):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            value = self.value(expression)
            if value:
                return value
            time.sleep(0.02)
        raise SystemExit(f'not within {seconds} s: {expression}')

    def drag(self, x0, x1, y):
        for kind, x in (('mousePressed', x0), ('mouseMoved', (x0 + x1) / 2), ('mouseMoved', x1), ('mouseReleased', x1)):
            self.call('Input.dispatchMouseEvent', type=kind, x=x, y=y, button='left', buttons=1, clickCount=1)

    def close(self):
        self.process.terminate()
        self.process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)
