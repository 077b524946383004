"""The command line as a process of its own: pipes, signals, full disks, and what is imported."""

import os
import resource
import signal
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.process

COMMAND = [sys.executable, "-m", "mtlstruct"]
TEMPLATES = "U0:%x[-1,0]\nU1:%x[0,0]\nU2:%x[1,0]\nB\n"
TRAIN = "a X\nb Y\n\nb Y\na X\nc X\n"


def call(*arguments, **options):
    line = [*COMMAND, *map(str, arguments)]
    return subprocess.run(line, capture_output=True, timeout=120, check=False, **options)


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A folder with data and a model."""
    folder = tmp_path_factory.mktemp("cli")
    (folder / "a.tpl").write_text(TEMPLATES)
    (folder / "train.txt").write_text(TRAIN)
    done = call("train", folder / "a.tpl", folder / "train.txt", folder / "m.mtl")
    assert done.returncode == 0, done.stderr
    return folder


def test_help_is_quick_and_predict_loads_no_learner(place):
    watch = "import sys; from mtlstruct import cli; cli.run(sys.argv[1:]); print(*sys.modules)"

    def modules(*arguments):
        line = [sys.executable, "-c", watch, *arguments]
        done = subprocess.run(line, capture_output=True, timeout=60, check=True, text=True)
        return set(done.stdout.splitlines()[-1].split())

    heavy = {
        "numpy",
        "numba",
        "scipy",
        "rich.live",
        "matplotlib",
        "mtlstruct.model.model",
        "mtlstruct.training.train",
    }
    assert not modules("--help") & heavy
    loaded = modules("predict", str(place / "m.mtl"), str(place / "train.txt"))
    assert "mtlstruct.model.model" in loaded
    unwanted = ("numba", "scipy", "psutil", "sklearn", "matplotlib", "rich.live")  # few tokens need no kernel
    ours = (
        "mtlstruct.solvers",
        "mtlstruct.solvers.cutting_plane",
        "mtlstruct.training.train",
        "mtlstruct.training.methods",
    )
    assert not [name for name in loaded if name.startswith(unwanted + ours)]


def test_a_closed_pipe_is_no_error(place):
    many = place / "many.txt"
    many.write_text("a\n\n" * 200_000)
    command = [*COMMAND, "predict", str(place / "m.mtl"), str(many)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout.readline() == b"a\tX\n"
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait(60) == 0


def test_answers_come_while_the_input_is_still_open(place):
    command = [*COMMAND, "predict", str(place / "m.mtl")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        for word, label in ((b"a", b"X"), (b"b", b"Y")):
            process.stdin.write(word + b"\n\n")
            process.stdin.flush()
            assert process.stdout.readline() + process.stdout.readline() == word + b"\t" + label + b"\n\n"
        process.stdin.close()
        assert process.wait(60) == 0


def test_memory_does_not_grow_with_the_input(place):
    def most_memory(sentences):
        measure = (
            "import sys, resource; from mtlstruct import cli; cli.run(sys.argv[1:]);"
            "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, file=sys.stderr)"
        )
        line = [sys.executable, "-c", measure, "predict", str(place / "m.mtl"), "-", "-o", "/dev/null"]
        text = b"a\nb\nc\n\n" * sentences
        return int(subprocess.run(line, input=text, capture_output=True, timeout=120, check=True).stderr)

    assert most_memory(400_000) < most_memory(40_000) * 1.15


@pytest.mark.parametrize(("number", "code", "word"), [
    (signal.SIGINT, 130, "interrupted"), (signal.SIGTERM, 143, "terminated"),
])  # fmt: skip
def test_an_interrupt_in_the_middle_of_training(place, number, code, word):
    old = (place / "m.mtl").read_bytes(), (place / "m.mtl.log.jsonl").read_bytes()
    big = place / "big.txt"
    big.write_text(
        "".join(f"w{i % 997} {'XY'[i * i % 7 % 2]}\n" + "\n" * (i % 9 == 0) for i in range(60_000))
    )
    arguments = ["train", str(place / "a.tpl"), str(big), str(place / "m.mtl"), "--gap", "1e-12", "-c", "100"]
    with subprocess.Popen([*COMMAND, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        while not process.stderr.readline().startswith(b"pass "):
            assert process.poll() is None
        process.send_signal(number)
        rest = process.stderr.read().splitlines()
        assert process.wait(60) == code
    assert rest[-1] == f"mtlstruct: {word}; existing files are unchanged".encode()
    assert b"Traceback" not in b"".join(rest)
    assert ((place / "m.mtl").read_bytes(), (place / "m.mtl.log.jsonl").read_bytes()) == old
    assert not list(place.glob(".*.part"))


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
@pytest.mark.parametrize("how", ["-o", "stdout", "json"])
def test_a_full_disk_is_a_sentence(place, how):
    arguments = (
        ["weights", place / "m.mtl", "--json"]
        if how == "json"
        else ["predict", place / "m.mtl", place / "train.txt"]
    )
    if how == "-o":
        done = call(*arguments, "-o", "/dev/full")
    else:
        with open("/dev/full", "wb") as full:
            line = [*COMMAND, *map(str, arguments)]
            done = subprocess.run(line, stdout=full, stderr=subprocess.PIPE, timeout=60, check=False)
    assert done.returncode == 2
    assert done.stderr.startswith(
        b"mtlstruct: /dev/full: cannot" if how == "-o" else b"mtlstruct: standard output: "
    )
    assert done.stderr.count(b"\n") == 1
    assert Path("/dev/full").is_char_device()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_log_that_cannot_be_written_leaves_the_new_model(place):
    target = place / "logless.mtl"
    done = call("train", place / "a.tpl", place / "train.txt", target, "-q", "--log", "/dev/full")
    assert done.returncode == 2
    assert done.stderr.startswith(
        f"mtlstruct: saved {target}, but not its log: /dev/full: cannot write".encode()
    )
    assert call("predict", target, place / "train.txt").returncode == 0


def test_a_named_pipe_is_waited_for_with_a_note(place):
    pipe = place / "pipe"
    os.mkfifo(pipe)
    line, piped = [*COMMAND, "predict", place / "m.mtl", pipe], subprocess.PIPE
    with subprocess.Popen(line, stdout=piped, stderr=piped) as child:
        assert b"is a named pipe: waiting" in child.stderr.readline()
        pipe.write_bytes(b"Ana N\n")
        out, _ = child.communicate(timeout=60)
    assert child.returncode == 0
    assert out.startswith(b"Ana\tN\t")


def test_a_full_disk_leaves_an_older_model(place):
    old = (place / "m.mtl").read_bytes()

    def small_files():
        resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000))

    # Only to be had in a child that writes no kernel caches: those are in place since the model was trained.
    done = call("train", place / "a.tpl", place / "train.txt", place / "m.mtl", "-q", preexec_fn=small_files)
    assert done.returncode == 2
    assert done.stderr.startswith(f"mtlstruct: {place / 'm.mtl'}: cannot write: File too large".encode())
    assert (place / "m.mtl").read_bytes() == old
    assert not list(place.glob(".*.part"))


@pytest.mark.parametrize("terminal", ["dumb", "xterm-256color"])
def test_a_terminal_shows_progress_without_escapes_on_stdout(place, terminal):
    import pty

    main, end = pty.openpty()
    line = [*COMMAND, "train", str(place / "a.tpl"), str(place / "train.txt"), str(place / "tty.mtl")]
    environment = os.environ | {"TERM": terminal}
    done = subprocess.run(line, stdout=subprocess.PIPE, stderr=end, env=environment, timeout=120, check=False)
    os.close(end)
    shown = b""
    try:
        while chunk := os.read(main, 65536):
            shown += chunk
    except OSError:  # the other end is closed
        pass
    os.close(main)
    assert done.returncode == 0
    assert b"\x1b" not in done.stdout
    assert b"read 2 sentences" in shown
    assert b"pass " in shown
