"""Runs on Ray: the same bytes as in one process, deaths survived, a node removed."""

from __future__ import annotations

import contextlib
import ipaddress
import os
import signal
import sys
import threading
import time
from pathlib import Path

import pytest

from runs_helpers import (
    HANG,
    HOLD,
    POISON,
    TIMEOUT_SECONDS,
    assert_same_run,
    at_startup,
    children,
    done_count,
    finish_run,
    kill_and_resume,
    needs_proc,
    real_corpus,
    start_run,
    toy_corpus,
    wait_until,
)
from wordprob import runs
from wordprob.errors import ModelError, OptionError
from wordprob.runs.executors import ray as ray_executor

pytest.importorskip("ray", reason="needs ray: pip install 'wordprob[ray]'")

TOY = ("--model", "exact:bow", "--threads", 1)
RAY = ("--engine", "ray", "--workers", 2)


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    return toy_corpus(tmp_path_factory.mktemp("corpus") / "corpus.txt", 1200)


@pytest.fixture(scope="module")
def reference(corpus, tmp_path_factory):
    folder = tmp_path_factory.mktemp("reference") / "out"
    assert runs.run(corpus, folder, model="exact:bow", threads=1, shard_texts=60).complete
    return folder


def test_killed_and_resumed(corpus, reference, tmp_path):
    kill_and_resume((corpus, *TOY, "--shard-texts", 60), RAY, 1, tmp_path, reference)


@pytest.mark.slow
def test_killed_many_times(corpus, reference, tmp_path):
    kill_and_resume((corpus, *TOY, "--shard-texts", 60), RAY, 6, tmp_path, reference)


@pytest.mark.slow
def test_the_same_bytes_on_a_real_model(tmp_path, monkeypatch, small_model_directory):
    corpus = real_corpus(tmp_path / "corpus.txt", 8)
    monkeypatch.setitem(ray_executor.INIT_OPTIONS, "object_store_memory", 200 << 20)
    settings = {"model": str(small_model_directory("small-llama2")), "threads": 1, "shard_texts": 2}
    runs.run(corpus, tmp_path / "local", **settings)
    runs.run(corpus, tmp_path / "ray", **settings, engine="ray", workers=2)
    assert_same_run(tmp_path / "ray", tmp_path / "local")


@pytest.mark.slow
def test_a_worker_that_dies(corpus, tmp_path, monkeypatch):
    """One shard kills its worker whenever it is tried: it alone fails, after two attempts; the others are scored."""
    lines = corpus.read_text().split("\n")[:200]
    lines[105] = "She saw the poison"
    (tmp_path / "poisoned.txt").write_text("\n".join(lines))
    startup = at_startup(tmp_path / "startup", POISON)
    command = (tmp_path / "poisoned.txt", *TOY, *RAY, "--shard-texts", 20, "-o", tmp_path / "out")
    code, stderr = finish_run(*command, startup=startup)
    status = runs.status(tmp_path / "out")
    assert (code, status.done, status.failed) == (1, 9, {5: "its worker died 2 times"}), stderr
    monkeypatch.setenv("POISON_ONCE", str(tmp_path / "died"))
    code, stderr = finish_run("--resume", tmp_path / "out", *RAY, startup=startup)
    assert (tmp_path / "died").exists()
    assert code == 0, stderr
    runs.run(tmp_path / "poisoned.txt", tmp_path / "reference", model="exact:bow", threads=1, shard_texts=20)
    assert_same_run(tmp_path / "out", tmp_path / "reference")


@pytest.mark.slow
def test_a_node_is_removed(corpus, reference, tmp_path, monkeypatch):
    """One of two nodes with a worker is removed, with its shard and with results that it had not handed over."""
    import ray
    from ray.cluster_utils import Cluster

    for name, value in ray_executor.QUIET_ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    small = {"num_cpus": 1, "object_store_memory": 100 << 20}
    cluster = Cluster(initialize_head=True, head_node_args={**small, "num_cpus": 0, "include_dashboard": False})
    some_shards_done = threading.Event()

    def remove(node):
        some_shards_done.wait(TIMEOUT_SECONDS)
        cluster.remove_node(node)

    def watch(progress):
        if progress.shards >= 4:
            some_shards_done.set()

    try:
        nodes = [cluster.add_node(**small) for _ in range(2)]
        removal = threading.Thread(target=remove, args=nodes[:1])
        removal.start()
        ray.init(address=cluster.address, logging_level="ERROR", log_to_driver=False)
        settings = {"model": "exact:bow", "threads": 1, "shard_texts": 60}
        status = runs.run(corpus, tmp_path / "out", **settings, engine="ray", workers=2, watch=watch)
        removal.join()
        assert len([node for node in ray.nodes() if node["Alive"]]) == 2, "the node is gone"
        assert status.complete
        assert_same_run(tmp_path / "out", reference)
    finally:
        ray.shutdown()
        cluster.shutdown()


# --- a run that waits in the middle ----------------------------------------------------------------------------------


@pytest.fixture
def held_run(corpus, tmp_path, monkeypatch):
    """A run on Ray, some shards done, that does not end by itself."""
    monkeypatch.setenv("HOLD_UNTIL", str(tmp_path / "released"))
    lines = corpus.read_text().split("\n")
    lines[700] = "She saw the hold"
    (tmp_path / "held.txt").write_text("\n".join(lines))
    command = (tmp_path / "held.txt", *TOY, *RAY, "--shard-texts", 60, "-o", tmp_path / "out")
    process = start_run(*command, startup=at_startup(tmp_path / "startup", HOLD))
    wait_until(lambda: process.poll() is not None or done_count(tmp_path / "out") >= 2)
    yield process
    process.kill()
    process.wait()


@needs_proc
def test_ray_listens_to_this_machine_only_and_ends_cleanly(held_run, tmp_path):
    listening = listening_addresses(descendants(held_run.pid))
    assert len(listening) > 3, "Ray has started"
    assert {address for address in listening if not address.is_loopback} == set()
    held_run.send_signal(signal.SIGTERM)
    _, stderr = held_run.communicate(timeout=TIMEOUT_SECONDS)
    assert held_run.returncode == 130, stderr.decode()
    assert b"finished shards are kept. Resume with: wordprob run --resume" in stderr
    assert b"Traceback" not in stderr
    assert 2 <= runs.status(tmp_path / "out").done < 20


@pytest.mark.slow
@pytest.mark.parametrize("seconds", [0.5, 1.5, 2.5, 4.0])
def test_a_run_that_is_terminated_while_ray_starts(corpus, tmp_path, seconds):
    process = start_run(corpus, *TOY, *RAY, "--shard-texts", 60, "-o", tmp_path / "out")
    wait_until((tmp_path / "out/manifest.json").exists)
    time.sleep(seconds)
    process.send_signal(signal.SIGTERM)
    _, stderr = process.communicate(timeout=TIMEOUT_SECONDS)
    assert process.returncode in (0, 130), stderr.decode()
    assert b"Traceback" not in stderr
    assert runs.resume(tmp_path / "out").complete


@pytest.mark.slow
def test_a_worker_that_hangs(corpus, reference, tmp_path, monkeypatch):
    monkeypatch.setenv("HANG_ONCE", str(tmp_path / "hung"))
    lines = corpus.read_text().split("\n")
    lines[700] = "She saw the hang"
    (tmp_path / "hanging.txt").write_text("\n".join(lines))
    command = (tmp_path / "hanging.txt", *TOY, *RAY, "--shard-texts", 60, "--worker-timeout", 5)
    code, stderr = finish_run(*command, "-o", tmp_path / "out", startup=at_startup(tmp_path / "startup", HANG))
    assert (tmp_path / "hung").exists()
    assert code == 0, stderr
    runs.run(tmp_path / "hanging.txt", tmp_path / "reference", model="exact:bow", threads=1, shard_texts=60)
    assert_same_run(tmp_path / "out", tmp_path / "reference")


@pytest.mark.slow
def test_a_worker_that_the_system_stopped(corpus, tmp_path, monkeypatch):
    """The worker that hangs at a text is stopped: it cannot end itself, so the run must notice its silence."""
    monkeypatch.setenv("HANG_ONCE", str(tmp_path / "hung"))
    lines = corpus.read_text().split("\n")
    lines[700] = "She saw the hang"
    (tmp_path / "hanging.txt").write_text("\n".join(lines))
    command = (tmp_path / "hanging.txt", *TOY, *RAY, "--shard-texts", 60, "--worker-timeout", 8)
    process = start_run(*command, "-o", tmp_path / "out", startup=at_startup(tmp_path / "startup", HANG))
    wait_until((tmp_path / "hung").exists)
    workers = [pid for pid in descendants(process.pid) if b"ray::" in command_line(pid) and b"Map" in command_line(pid)]
    assert workers
    for worker in workers:
        os.kill(worker, signal.SIGSTOP)
    _, stderr = process.communicate(timeout=TIMEOUT_SECONDS)
    assert process.returncode == 0, stderr.decode()
    runs.run(tmp_path / "hanging.txt", tmp_path / "reference", model="exact:bow", threads=1, shard_texts=60)
    assert_same_run(tmp_path / "out", tmp_path / "reference")


def command_line(pid):
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def descendants(process):
    """Return a process, and all that it has started, directly or not."""
    try:
        started = children(process)
    except OSError:
        return [process]
    return [process, *(pid for child in started for pid in descendants(child))]


def listening_addresses(processes):
    """Return the addresses at which processes wait for connections."""
    sockets = set()
    for process in processes:
        for descriptor in Path(f"/proc/{process}/fd").iterdir():
            with contextlib.suppress(OSError):
                sockets.add(str(descriptor.readlink()))
    found = []
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
            _, local, _, state, *_, inode = line.split()[:10]
            if state == "0A" and f"socket:[{inode}]" in sockets:
                found.append(parse_address(local.split(":")[0]))
    return found


def parse_address(hexadecimal):
    """Return an address as /proc writes it: words of four bytes, each in the order of the processor."""
    data = bytes.fromhex(hexadecimal)
    words = [data[n : n + 4] for n in range(0, len(data), 4)]
    address = ipaddress.ip_address(b"".join(word[::-1] if sys.byteorder == "little" else word for word in words))
    return getattr(address, "ipv4_mapped", None) or address


def test_more_than_the_cluster_has(corpus, tmp_path, monkeypatch):
    monkeypatch.setitem(ray_executor.INIT_OPTIONS, "object_store_memory", 100 << 20)
    with pytest.raises(
        OptionError, match=r"needs 1 GPUs, but the Ray cluster has 0; specify a smaller gpus_per_worker"
    ):
        runs.run(corpus, tmp_path / "out", model="exact:bow", engine="ray", gpus_per_worker=1, threads=1)


def test_no_cluster_at_the_address(corpus, tmp_path):
    with pytest.raises(OptionError, match="no Ray cluster answers at '127.0.0.1:1'"):
        runs.run(corpus, tmp_path / "out", model="exact:bow", engine="ray", ray_address="127.0.0.1:1", threads=1)


def test_ray_cannot_be_started(corpus, tmp_path, monkeypatch):
    import ray

    def fail(**_):
        raise Exception("The current node timed out during startup.\nMore about it")  # as Ray does

    monkeypatch.setattr(ray, "init", fail)
    with pytest.raises(ModelError, match=r"Ray could not be started: The current node timed out during startup\."):
        runs.run(corpus, tmp_path / "out", model="exact:bow", engine="ray", threads=1)


def test_ray_is_not_installed(corpus, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(OptionError, match=r"pip install 'wordprob\[ray\]'"):
        runs.run(corpus, tmp_path / "out", model="exact:bow", engine="ray")
    assert not (tmp_path / "out").exists()
