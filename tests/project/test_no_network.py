"""Nothing but `serve` opens a socket: training, prediction and reports work where sockets are forbidden."""

import socket

import pytest
from support.commands import TRAIN


@pytest.fixture
def _forbidden(monkeypatch):
    def refuse(*arguments, **options):
        raise AssertionError(f"a socket was asked for: {arguments} {options}")

    names = ("socket", "create_connection", "create_server", "getaddrinfo", "gethostbyname", "socketpair")
    for name in names:
        monkeypatch.setattr(socket, name, refuse)


@pytest.mark.usefixtures("_forbidden")
def test_nothing_opens_a_socket(run, tmp_path):
    data, templates, model = tmp_path / "a.txt", tmp_path / "a.tpl", tmp_path / "a.mtl"
    data.write_text(TRAIN)
    templates.write_text("U0:%x[0,0]\nU1:%x[-1,0]/%x[0,1]\nB\n")
    with pytest.raises(AssertionError, match="a socket was asked for"):
        socket.create_connection(("localhost", 1))
    for arguments in (
        ("train", templates, data, model, "--valid", data, "-q"),
        ("predict", model, data),
        ("evaluate", model, data, "--json"),
        ("weights", model, "--json"),
        ("explain", model, data, "--json"),
        ("report", model, tmp_path / "a.html"),
        ("templates", "check", templates, "--data", data),
        ("export", model, tmp_path / "a.crfpp"),
    ):
        ran = run(*arguments)
        assert ran.code == 0, (arguments, ran.err)
