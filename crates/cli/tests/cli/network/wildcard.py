"""A server with TLS at an address of its own, and clients that go to it by name through the proxy."""

import http.server
import ssl
import subprocess
import sys
import threading
import urllib.request

ADDRESS, PORT = sys.argv[1], int(sys.argv[2])
CERTIFICATE, KEY = "/tmp/certificate", "/tmp/key"


class Page(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(self.headers["Host"].split(":")[0].encode())

    def log_message(self, *arguments):
        pass


def make_certificate(*names):
    names = ",".join("DNS:" + name for name in names)
    options = f"-subj /CN=test -addext subjectAltName={names} -keyout {KEY} -out {CERTIFICATE}"
    kind = "-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 1"
    command = f"openssl req -x509 {kind} {options}"
    subprocess.run(command.split(), check=True, capture_output=True)


def serve():
    server = http.server.ThreadingHTTPServer((ADDRESS, PORT), Page)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(CERTIFICATE, KEY)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()


def curl(url, *options):
    command = ["curl", "-s", "--cacert", CERTIFICATE, url, *options]
    done = subprocess.run(command, capture_output=True, text=True)
    return done.stdout or f"curl: {done.returncode}"


make_certificate("*.wild.test", "b.c.wild.test", "wild.test", "other.test")
serve()
for host in ["a.wild.test", "b.c.wild.test", "wild.test", "other.test"]:
    print(host, curl(f"https://{host}:{PORT}/"))
print("another port", curl(f"https://a.wild.test:{PORT + 1}/"))
print("without TLS", curl(f"http://a.wild.test:{PORT}/"))
print("no proxy", curl(f"https://{ADDRESS}:{PORT}/", "--noproxy", "*"))
context = ssl.create_default_context(cafile=CERTIFICATE)
print("urllib", urllib.request.urlopen(f"https://a.wild.test:{PORT}/", context=context).read())
