"""Runs on Ray: the same bytes as in one process, deaths survived, a node removed."""

from __future__ import annotations

import sys
import threading

import pytest
from runs_helpers import (
    POISON,
    TIMEOUT_SECONDS,
    assert_same_run,
    at_startup,
    finish_run,
    kill_and_resume,
    real_corpus,
    toy_corpus,
)

from conftest import shared
from wordprob import runs
from wordprob.errors import OptionError
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
def test_the_same_bytes_on_a_real_model(tmp_path, monkeypatch):
    corpus = real_corpus(tmp_path / "corpus.txt", shared("data/text/austen_pride.txt"), 8)
    monkeypatch.setitem(ray_executor.INIT_OPTIONS, "object_store_memory", 200 << 20)
    settings = {"model": str(shared("models/stories15M")), "threads": 1, "shard_texts": 2}
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


def test_more_than_the_cluster_has(corpus, tmp_path, monkeypatch):
    monkeypatch.setitem(ray_executor.INIT_OPTIONS, "object_store_memory", 100 << 20)
    with pytest.raises(
        OptionError, match=r"needs 1 GPUs, but the Ray cluster has 0; specify a smaller gpus_per_worker"
    ):
        runs.run(corpus, tmp_path / "out", model="exact:bow", engine="ray", gpus_per_worker=1, threads=1)


def test_no_cluster_at_the_address(corpus, tmp_path):
    with pytest.raises(OptionError, match="no Ray cluster answers at '127.0.0.1:1'"):
        runs.run(corpus, tmp_path / "out", model="exact:bow", engine="ray", ray_address="127.0.0.1:1", threads=1)


def test_ray_is_not_installed(corpus, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(OptionError, match=r"pip install 'wordprob\[ray\]'"):
        runs.run(corpus, tmp_path / "out", model="exact:bow", engine="ray")
    assert not (tmp_path / "out").exists()
