"""The server: requests and responses, access rules and limits, the process and its signals, the page."""

import json
import logging
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from http.client import HTTPConnection

import numpy as np
import pytest
from support.classes import CLASS_TEMPLATES, CLASS_TRAIN
from support.commands import sigint_ignored
from support.trees import ARC_TEMPLATES, LABELLED_TREES, SENTENCES, conll

from mtlstruct import cli, load
from mtlstruct.errors import MtlError
from mtlstruct.formats import columns
from mtlstruct.serve import server as server_module
from mtlstruct.serve.app import make_app, respond
from mtlstruct.serve.requests import Limits, RequestReader
from mtlstruct.serve.server import bound, checked_token, is_loopback, make_server

SENTENCES_OF_WORDS = [
    [pair.rsplit("/", 1) for pair in line.split()]
    for line in (
        "Ann/B-PER lives/O in/O Oslo/B-LOC ./O",
        "Bo/B-PER Smith/I-PER sees/O Ann/B-PER in/O Rome/B-LOC",
        "it/O rains/O in/O Oslo/B-LOC",
    )
]


def column_text(row):
    """The labelled sentences with a row of cells for each token."""
    rows = ([row.format(w=w, last=w[-1], y=y) for w, y in sentence] for sentence in SENTENCES_OF_WORDS)
    return "\n\n".join(map("\n".join, rows)) + "\n"


MODELS = {
    "text": ("sequence", "U0:%x[0,0]\nU1:%x[-1,0]\nU2:%case[0,0]\nB\n", column_text("{w} {y}")),
    "columns": ("sequence", "U0:%x[0,0]\nU1:%x[-1,2]/%x[0,2]\nB\n", column_text("{w} x {last} {y}")),
    "words": ("segmentation", "U0:%x[0,0]\nU1:%x[-1,0]/%x[0,0]\nB\n", "ab c def\nab c\nc c ab\nabdef c\n"),
    "classes": ("multiclass", CLASS_TEMPLATES, CLASS_TRAIN),
    "trees": ("dependency", ARC_TEMPLATES, conll(SENTENCES)),
    "labels": ("dependency", ARC_TEMPLATES, LABELLED_TREES, "--labels"),
}
TOKEN = "a-token-of-twenty-four-x"
JSON = {"Content-Type": "application/json"}
POST = (
    "POST /v1/tag HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 9\r\n\r\n{"
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with a model of every task."""
    place = tmp_path_factory.mktemp("serve")
    for name, (task, templates, data, *options) in MODELS.items():
        (place / f"{name}.tpl").write_text(templates)
        (place / f"{name}.txt").write_text(data)
        files = [str(place / f"{name}.{end}") for end in ("tpl", "txt", "mtl")]
        assert cli.run(["train", *files, "--task", task, "-c", "10", "-q", "--no-log", *options]) == 0
    lines = [
        {"tokens": [{"w": w, "v": [len(w), 1.5]} for w, _ in s], "labels": [y for _, y in s]}
        for s in SENTENCES_OF_WORDS
    ]
    (place / "dicts.jsonl").write_text("\n".join(map(json.dumps, lines)))
    assert cli.run(["train", str(place / "dicts.jsonl"), str(place / "dicts.mtl"), "-q", "--no-log"]) == 0
    return place


@dataclass(frozen=True)
class Response:
    """A response of the server."""

    status: int
    headers: dict[str, str]
    text: str

    def json(self):
        return json.loads(self.text)


def request(port, method, path, body=None, headers=None):
    """Send one request; a body that is not bytes is sent as JSON."""
    if body is not None and not isinstance(body, bytes):
        body, headers = json.dumps(body).encode(), JSON | (headers or {})
    with closing(HTTPConnection("127.0.0.1", port, timeout=30)) as connection:
        connection.request(method, path, body, headers or {})
        got = connection.getresponse()
        found = {name.lower(): value for name, value in got.getheaders()}
        return Response(got.status, found, got.read().decode())


def exchange(port, sent):
    """Send bytes and no more; return all that the server sends until it closes the connection."""
    with socket.create_connection(("localhost", port), timeout=30) as connection:
        connection.sendall(sent)
        return b"".join(iter(lambda: connection.recv(65536), b""))


class Local:
    """A server in this process, on its own thread and port, and a client of it."""

    def __init__(self, app):
        self.socket = bound("127.0.0.1", 0)
        self.port = self.socket.getsockname()[1]
        self.server = make_server(app)
        self.thread = threading.Thread(target=self.server.run, kwargs={"sockets": [self.socket]})
        self.thread.start()

    def close(self):
        self.server.should_exit = True
        self.thread.join()
        self.socket.close()

    def get(self, path, headers=None):
        return request(self.port, "GET", path, headers=headers)

    def post(self, body, headers=None):
        return request(self.port, "POST", "/v1/tag", body, headers)


@pytest.fixture(scope="module")
def client(folder):
    """A server for a model and options, started when first asked for."""
    running: dict[str, Local] = {}

    def connect(name, **options):
        key = f"{name} {options}"
        if key not in running:
            running[key] = Local(make_app(load(folder / f"{name}.mtl"), name=name, **options))
        return running[key]

    yield connect
    for one in running.values():
        one.close()


def tag(one, status=200, **asked):
    response = one.post(asked)
    assert response.status == status, response.text
    return dict(response.json())


def each(answer, key):
    """Return one entry of each token of each sentence."""
    return [[token[key] for token in sentence["tokens"]] for sentence in answer["sentences"]]


def labels(answer):
    return each(answer, "label")


def test_text_is_cut_into_tokens_and_labelled(client):
    found = tag(client("text"), text="Ann lives in Oslo.\n\nBo Smith sees Rome")
    words = [[["Ann"], ["lives"], ["in"], ["Oslo"], ["."]], [["Bo"], ["Smith"], ["sees"], ["Rome"]]]
    assert each(found, "cells") == words
    assert labels(found)[0] == ["B-PER", "O", "O", "B-LOC", "O"]


@pytest.mark.parametrize(
    "text", ["don't stop", "3.14 e.g. x-y", "a,b;c", "中文 字", "🙂 ok", "\u00a0a\u3000b"]
)
def test_tokens_hold_all_letters_of_the_text(client, text):
    words = [cells[0] for sentence in each(tag(client("text"), text=text), "cells") for cells in sentence]
    assert "".join(words) == "".join(text.split())


def test_rows_have_all_columns_with_or_without_label_or_those_that_the_model_needs(client, folder):
    one = client("columns")
    rows = [[row.split() for row in part.splitlines()] for part in MODELS["columns"][2].split("\n\n")]
    needed = [[[row[0], row[2]] for row in sentence] for sentence in rows]
    model, corpus = load(folder / "columns.mtl"), columns.read(folder / "columns.txt")
    best = [model.labels[y] for y in model.predict(corpus).tolist()]
    expected = [best[span] for span in corpus.sentences()]
    for given in (rows, [[row[:3] for row in sentence] for sentence in rows], needed):
        assert labels(tag(one, rows=given)) == expected
        text = "\n\n".join("\n".join(" ".join(row) for row in sentence) for sentence in given)
        assert labels(tag(one, columns=text)) == expected


def test_n_best_gold_and_feature_dicts(client, folder):
    """Labellings are those of `predict --nbest`, labels of rows come back as gold, dicts as in `Model.predict`."""
    found = client("text").post({"text": "Ann sees Oslo", "nbest": 3}).json()["sentences"][0]
    assert [row["label"] for row in found["tokens"]] == found["nbest"][0]["labels"]
    chances = [one["probability"] for one in found["nbest"]]
    assert chances == sorted(chances, reverse=True)
    assert len({tuple(one["labels"]) for one in found["nbest"]}) == 3
    tokens = client("columns").post({"columns": "Ann x n O\nruns x s O"}).json()["sentences"][0]["tokens"]
    assert [(token["label"], token["gold"]) for token in tokens] == [("B-PER", "O"), ("O", "O")]
    local = client("dicts")
    model, X = load(folder / "dicts.mtl"), [[{"w": "Ann", "v": [1, 2.5]}, {"w": "in"}], [{"w": "Oslo"}]]
    answer = local.post({"dicts": X, "explain": 2, "nbest": 2, "probabilities": True}).json()["sentences"]
    given = [[{k: np.array(v) if k == "v" else v for k, v in token.items()} for token in x] for x in X]
    assert [[token["label"] for token in one["tokens"]] for one in answer] == model.predict(given)
    assert answer[0]["tokens"][0]["explanation"]["templates"]
    assert "takes feature dicts" in local.post({"text": "Ann"}).json()["error"]
    for wrong, problem in (
        ("Ann", "as a list of sentences"),
        ([], "no sentences"),
        ([[3]], "a dict of features"),
    ):
        assert problem in local.post({"dicts": wrong}).json()["error"]


def test_the_model_is_described_for_the_page(client):
    facts = client("columns").get("/v1/model").json()
    assert (facts["text"], facts["width"]) == (False, 3)
    assert [column["number"] for column in facts["columns"]] == [0, 2]
    assert client("text").get("/v1/model").json()["text"] is True
    assert [c["name"] for c in client("trees").get("/v1/model").json()["columns"]] == ["FORM", "POSTAG"]


def test_segmentation_returns_words_and_items_have_a_class_each(client):
    found = tag(client("words"), text="abc ab\ncdef")
    assert [sentence["words"] for sentence in found["sentences"]] == [["ab", "c", "ab"], ["c", "def"]]
    assert [len(sentence["tokens"]) for sentence in found["sentences"]] == [5, 4]
    found = tag(client("classes"), text="casa\ncome alto", probabilities=True)
    assert labels(found) == [["N"], ["V"], ["A"]]
    assert all(0 < s["tokens"][0]["probability"] <= 1 for s in found["sentences"])


def test_trees_from_conll_lines_and_from_words_with_tags(client):
    one = client("trees")
    whole = tag(one, columns=conll(SENTENCES[:2], heads=False))
    short = tag(one, columns="the D\ncat N\nsleeps V\n. .\n\na D\ndog N\nsees V\nthe D\ncat N\n. .")
    for found in (whole, short):
        assert each(found, "head") == [[2, 3, 0, 3], [2, 3, 0, 5, 3, 3]]
    assert short["sentences"][0]["tokens"][0]["head_word"] == "cat"


def test_trees_have_relations_probabilities_and_drawings(client):
    rows = "the D\ncat N\nsleeps V\n. ."
    plain = tag(client("trees"), columns=rows)["sentences"][0]
    assert "drawing" not in plain
    assert not {"relation", "probability"} & set(plain["tokens"][0])
    whole = conll(SENTENCES[:1], heads=False)
    found = tag(client("labels"), columns=whole, probabilities=True, drawing=True, explain=2)["sentences"][0]
    assert [token["relation"] for token in found["tokens"]] == ["det", "subj", "root", "punct"]
    assert all(0 < token["probability"] <= 1 for token in found["tokens"])
    assert found["drawing"].startswith("<svg")
    assert found["tokens"][0]["explanation"]["relation"]["label"] == "det"


@pytest.mark.parametrize("name", ["text", "classes", "words", "trees"])
def test_explanations_sum_to_the_margin(client, name):
    given = {"columns": "the D\ncat N\nsleeps V"} if name == "trees" else {"text": "Ann sees Oslo"}
    found = tag(client(name), explain=2, **given)
    for said in (said for sentence in each(found, "explanation") for said in sentence):
        assert len(said["templates"]) <= 2
        if said["margin"] is not None:
            total = (
                sum(template["value"] for template in said["templates"]) + said["others"] + said["elsewhere"]
            )
            assert total == pytest.approx(said["margin"], abs=1e-4)


@pytest.mark.parametrize(
    ("request_", "problem"),
    [
        ({}, "got none"),
        ({"text": "a", "rows": []}, "text and rows"),
        ({"text": 3}, "expected a string"),
        ({"text": ""}, "no sentences"),
        ({"text": " \n\n "}, "no sentences"),
        ({"text": "a", "more": 1}, "unknown key 'more'"),
        ({"text": "a\0"}, "NUL"),
        ({"text": "a\ud800"}, "surrogate"),
        ({"rows": [[["a\ud800"]]]}, "surrogate"),
        ({"rows": "a"}, "list of sentences"),
        ({"rows": [["a"]]}, "lists of strings"),
        ({"rows": [[[""]]]}, "not empty"),
        ({"rows": [[["a"], ["a", "b", "c", "d"]]]}, "sentence 1: expected 1 columns, got 4"),
        ({"columns": "a\na b c d"}, "line 2: expected 1 columns, got 4"),
        ({"text": "a", "explain": True}, "from 0 to"),
        ({"text": "a", "explain": 99}, "from 0 to"),
        ({"text": "a", "probabilities": 1}, "true or false"),
        ([1], "JSON object"),
    ],
)
def test_bad_requests_are_rejected_with_one_sentence(client, request_, problem):
    response = client("text").post(request_)
    assert response.status == 400
    assert problem in response.json()["error"]


def test_text_for_a_model_of_columns_is_rejected_with_their_names(client):
    assert "column 0, column 2" in tag(client("columns"), 400, text="Ann")["error"]
    assert "FORM, POSTAG" in tag(client("trees"), 400, text="the cat")["error"]
    assert "expected text" in tag(client("words"), 400, columns="a")["error"]


@pytest.mark.parametrize(
    ("body", "kind", "status"),
    [
        *((body, "application/json", 400) for body in (b"{", b"\xff", b"", b"[" * 100_000)),
        *((b'{"text": "a"}', kind, 415) for kind in ("text/plain", "multipart/form-data", "")),
    ],
)
def test_bodies_that_are_not_json_are_rejected(client, body, kind, status):
    response = client("text").post(body, {"Content-Type": kind})
    assert response.status == status
    assert "expected " in response.json()["error"]


def test_limits_are_enforced_and_named(client):
    one = client("text", limits=Limits(bytes=200, tokens=8, sentence=5, explained=3))
    assert "200 bytes" in tag(one, 413, text="a" * 300)["error"]
    assert "a request may have 8 tokens, got 9" in tag(one, 413, text="a b c\na b c\na b c")["error"]
    assert "a sentence may have 5 tokens, got 6" in tag(one, 413, text="a b c d e f")["error"]
    assert "with explain may have 3 tokens, got 4" in tag(one, 413, text="a b c d", explain=1)["error"]
    assert tag(one, text="a b c d e")["sentences"]
    assert one.get("/v1/model").json()["limits"]["bytes"] == 200


def test_pages_of_other_sites_are_rejected(client):
    one = client("text")
    for origin in ("http://evil.example", "null", "http://localhost.evil.example", "http://localhost"):
        assert one.post({"text": "a"}, {"Origin": origin}).status == 403
    assert one.post({"text": "a"}, {"Origin": f"http://127.0.0.1:{one.port}"}).status == 200
    allowed = request(one.port, "OPTIONS", "/v1/tag", headers={"Origin": "http://evil.example"}).headers
    assert not [name for name in allowed if name.startswith("access-control")]


@pytest.mark.parametrize(
    ("status", "hosts"),
    [
        (400, ["evil.example", "evil.example:8377", "127.0.0.1.evil.example", ""]),
        (200, ["localhost:8377", "127.0.0.1", "[::1]:80", "LOCALHOST"]),
    ],
)
def test_on_loopback_the_host_must_be_a_name_of_this_machine(client, status, hosts):
    found = [client("text").get("/v1/model", {"Host": host}).status for host in hosts]
    assert found == [status] * len(hosts)


def test_a_token_is_asked_for_and_compared(client):
    one = client("text", token=TOKEN, loopback=False)
    for given in (None, "Bearer", f"Bearer {TOKEN[:-1]}X", f"Basic {TOKEN}", "Bearer \xff"):
        for path in ("/v1/model", "/v1/tag", "/nothing"):
            response = one.get(path, {} if given is None else {"Authorization": given})
            assert (response.status, response.headers["www-authenticate"]) == (401, "Bearer")
    assert one.get("/v1/model", {"Authorization": f"Bearer {TOKEN}", "Host": "example.org"}).status == 200
    assert "B-LOC" not in one.get("/").text, "the public page says nothing of the model"


def test_tokens_are_made_where_the_network_can_reach_the_server():
    assert checked_token(None, "127.0.0.1") is None
    made = {checked_token(None, "0.0.0.0") for _ in range(3)}
    assert len(made) == 3
    assert min(len(token or "") for token in made) >= 32
    for bad in ("short", "with blank in the middle", "ünicode-ünicode-ü"):
        with pytest.raises(MtlError, match="16 ASCII"):
            checked_token(bad, "127.0.0.1")
    assert all(map(is_loopback, ("localhost", "127.0.0.1", "127.9.9.9", "::1")))
    assert not any(map(is_loopback, ("0.0.0.0", "::", "example.org")))


def test_other_methods_and_paths(client):
    one = client("text")
    for method, path, status in (("GET", "/v1/tag", 405), ("POST", "/v1/model", 405), ("GET", "/x", 404)):
        response = request(one.port, method, path)
        assert response.status == status
        assert response.json()["error"]
    assert one.get("/healthz").status == 204
    headers = one.get("/").headers
    assert headers["x-frame-options"] == "DENY"
    assert headers["cache-control"] == "no-store"


def test_an_internal_error_is_reported_without_details(client, monkeypatch):
    one = client("text")
    monkeypatch.setattr("mtlstruct.serve.app.respond", lambda model, question: 1 / 0)
    assert "internal error" in tag(one, 500, text="a")["error"]
    monkeypatch.undo()
    assert tag(one, text="a")["sentences"]


@pytest.mark.parametrize(
    "said", [b"", b"POST /v1/tag HT", b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\nGE"]
)
def test_a_connection_without_a_whole_head_is_closed_in_time(folder, monkeypatch, said):
    monkeypatch.setattr(server_module, "HEAD_SECONDS", 0.2)
    with closing(Local(make_app(load(folder / "text.mtl")))) as one:
        assert exchange(one.port, said).startswith(b"HTTP/1.1 204") == said.startswith(b"GET")


@pytest.mark.parametrize(
    "said",
    [
        b"\x00\xff nonsense\r\n\r\n",
        b"POST /v1/tag HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        POST.encode(),
    ],
)
def test_protocol_errors_of_clients_are_not_logged(client, caplog, monkeypatch, said):
    one = client("text")
    monkeypatch.setattr(logging.getLogger("uvicorn"), "propagate", True)
    with socket.create_connection(("localhost", one.port), timeout=30) as connection:
        connection.sendall(said)
        connection.shutdown(socket.SHUT_WR)
        b"".join(iter(lambda: connection.recv(65536), b""))
    assert tag(one, text="Ann")["sentences"]
    assert not caplog.records


def test_too_many_connections_are_rejected_at_once(folder, monkeypatch):
    monkeypatch.setattr(server_module, "MAX_CONNECTIONS", 2)
    app = make_app(load(folder / "text.mtl"))
    with closing(Local(app)) as one, socket.create_connection(("localhost", one.port)):
        assert one.get("/healthz").status == 503


def test_slow_answers_and_slow_bodies_are_given_up(client, monkeypatch):
    one = client("text", limits=Limits(seconds=0.2))
    assert exchange(one.port, POST.encode()).startswith(b"HTTP/1.1 408")
    monkeypatch.setattr("mtlstruct.serve.app.respond", lambda model, question: time.sleep(0.5))
    assert "no answer within 0.2 s" in tag(one, 503, text="Ann")["error"]


@pytest.fixture
def server(folder):
    """Starts `mtlstruct serve` on a free port; returns the process and the port."""
    running: list[subprocess.Popen[str]] = []

    def start(name, *options, **environment):
        command = [sys.executable, "-m", "mtlstruct", "serve", str(folder / f"{name}.mtl"), "--port", "0"]
        process = subprocess.Popen(
            [*command, *options], stderr=subprocess.PIPE, text=True, env=os.environ | environment
        )
        running.append(process)
        said = process.stderr.readline()
        found = re.search(r"http://[^ ]*?:(\d+)/", said)
        assert found, said + process.stderr.read()
        return process, int(found[1])

    yield start
    for process in running:
        if process.poll() is None:
            process.kill()
        process.wait()
        process.stderr.close()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.process
def test_a_signal_ends_the_process_with_exit_code_0(server, tmp_path, number):
    """Check also that the token comes from a file or from the environment."""
    (tmp_path / "token").write_text(TOKEN + "\n")
    if number == signal.SIGINT:
        process, port = server("text", "--token-file", str(tmp_path / "token"))
    else:
        process, port = server("text", MTLSTRUCT_TOKEN=TOKEN)
    known = {"Authorization": f"Bearer {TOKEN}"}
    assert [request(port, "POST", "/v1/tag", {"text": "Ann"}, given).status for given in ({}, known)] == [
        401,
        200,
    ]
    process.send_signal(number)
    assert process.wait(30) == 0
    assert process.stderr.read() == "stopped\n"


def test_a_signal_that_is_ignored_at_the_start_stays_ignored(folder):
    with sigint_ignored():
        server = make_server(make_app(load(folder / "text.mtl")))
        with server.capture_signals():
            signal.raise_signal(signal.SIGINT)
            assert not server.should_exit
            signal.raise_signal(signal.SIGTERM)
            assert server.should_exit
        assert signal.getsignal(signal.SIGINT) == signal.SIG_IGN


def test_under_load_every_answer_is_right(client, folder):
    """Compare the answers to twelve clients at once, each with its own connection, with those of the model."""
    port = client("text").port
    model = load(folder / "text.mtl")
    reader = RequestReader(model, Limits())
    texts = [f"Ann {n} lives in Oslo " * (1 + n % 7) for n in range(24)]
    expected = [respond(model, reader.read({"text": text})) for text in texts]

    def ask(number):
        right = 0
        with closing(HTTPConnection("127.0.0.1", port, timeout=30)) as connection:
            for step in range(20):
                at = (number * 5 + step) % len(texts)
                connection.request("POST", "/v1/tag", json.dumps({"text": texts[at]}), JSON)
                response = connection.getresponse()
                right += response.status == 200 and json.loads(response.read()) == expected[at]
        return right

    with ThreadPoolExecutor(12) as pool:
        assert sum(pool.map(ask, range(12))) == 240


def test_a_port_that_is_taken_and_a_missing_library(client, folder, capsys, monkeypatch):
    port = client("text").port
    assert cli.run(["serve", str(folder / "text.mtl"), "--port", str(port)]) == 2
    assert f"cannot listen on 127.0.0.1, port {port}" in capsys.readouterr().err
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert cli.run(["serve", str(folder / "text.mtl")]) == 2
    assert 'pip install "mtlstruct[serve]"' in capsys.readouterr().err


def write(browser, text):
    script = """
        const box = document.querySelector('textarea');
        box.value = arguments[0];
        box.dispatchEvent(new Event('input'));
    """
    browser.run(script, text)


def point_at(browser, selector):
    """Move the pointer to an element; return the explanation that is shown."""
    browser.wait(f"document.querySelector('{selector}')")
    browser.run("document.querySelector(arguments[0]).dispatchEvent(new Event('pointerenter'))", selector)
    return browser.texts(".why")[0]


def test_the_page_labels_what_is_typed_and_explains_it(browser, client):
    port = client("text").port
    browser.resize(1200)
    browser.open(f"http://127.0.0.1:{port}/")
    browser.wait("document.querySelector('textarea')")
    write(browser, "Ann <b>lives</b> in Oslo")
    tokens = "[...document.querySelectorAll('.token')].map(t => t.childNodes[0].textContent)"
    found = browser.wait(f"document.querySelectorAll('.token').length && {tokens}")
    assert found == ["Ann", "<", "b", ">", "lives", "<", "/", "b", ">", "in", "Oslo"]
    assert browser.texts(".output b") == []
    explanation = point_at(browser, ".token")
    assert "B-PER" in explanation
    assert "U0:%x[0,0]" in explanation
    write(browser, f"Ann lives in {'Oslo' * 40}")
    browser.wait("[...document.querySelectorAll('.token')].some(t => t.textContent.includes('OsloOslo'))")
    browser.check_widths()
    assert browser.complaints() == []
    assert browser.requests()
    assert all(url.startswith(f"http://127.0.0.1:{port}/") for url in browser.requests())


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("columns", "Ann n\nsees s", "This model looks at 2 columns: column 0, column 2"),
        ("words", "abcab", "one sentence per line"),
        ("classes", "casa come", "items, one per line"),
        ("trees", "the D\ncat N\nsleeps V", "CoNLL lines are taken too"),
        ("labels", conll(["the/D/2 cat/N/3 sleeps/V/0"]), "CoNLL lines are taken too"),
    ],
)
def test_every_task_has_its_page(browser, client, name, text, expected):
    browser.resize(400)
    browser.open(f"http://localhost:{client(name).port}/")
    browser.wait("document.querySelector('textarea')")
    assert expected in browser.texts("main")[0]
    write(browser, text)
    assert ":%" in point_at(browser, ".token, table.heads tbody tr")
    browser.check_widths()
    arcs = browser.value("document.querySelectorAll('svg.tree path.line').length")
    assert arcs == (3 if name in ("trees", "labels") else 0)
    write(browser, "a b c d e f g h i j k\nx" if name != "words" else "a")
    if name in ("columns", "trees", "labels"):
        assert "expected" in browser.wait("document.querySelector('.problem').textContent")
    noise = "the server responded with a status of 400"
    assert [c for c in browser.complaints() if noise not in c] == []


def test_the_page_asks_for_the_token(browser, client):
    port = client("text", token=TOKEN).port
    browser.open(f"http://127.0.0.1:{port}/")
    browser.wait("document.querySelector('input[type=password]')")
    browser.type("input[type=password]", TOKEN + "\n")
    browser.wait("document.querySelector('textarea')")
    browser.open("about:blank")
    browser.open(f"http://127.0.0.1:{port}/#token={TOKEN}")
    browser.wait("document.querySelector('textarea')")
    assert TOKEN not in browser.value("location.href")
