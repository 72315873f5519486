"""The same on Ray: the same bytes, deaths survived, a node taken away."""

from __future__ import annotations

import threading
import time

import pytest
from runs_helpers import POISON, at_start, finish, same_run, survives, toy_corpus

from conftest import shared
from wordprob import runs
from wordprob.errors import OptionError
from wordprob.runs.executors import ray as ray_engine

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


def test_killed_at_random_moments(corpus, reference, tmp_path):
    survives((corpus, *TOY, "--shard-texts", 60), RAY, 3, 9, tmp_path, reference)


def test_the_same_bytes_on_a_real_model(tmp_path, monkeypatch):
    model, text = shared("models/stories15M"), shared("data/text/austen_pride.txt")
    lines = [line for line in text.read_text(encoding="utf-8").splitlines() if 80 < len(line) < 300][:8]
    (tmp_path / "corpus.txt").write_text("\n".join(lines))
    monkeypatch.setitem(ray_engine.OPTIONS, "object_store_memory", 200 << 20)
    settings = {"model": str(model), "threads": 1, "shard_texts": 2}
    runs.run(tmp_path / "corpus.txt", tmp_path / "local", **settings)
    runs.run(tmp_path / "corpus.txt", tmp_path / "ray", **settings, engine="ray", workers=2)
    same_run(tmp_path / "ray", tmp_path / "local")


def test_a_worker_that_dies(corpus, tmp_path, monkeypatch):
    """One shard kills its worker whenever it is tried: it alone fails, after two tries, and the others go on."""
    lines = corpus.read_text().split("\n")[:200]
    lines[105] = "She saw the poison"
    (tmp_path / "poisoned.txt").write_text("\n".join(lines))
    command = (tmp_path / "poisoned.txt", *TOY, *RAY, "--shard-texts", 20, "-o", tmp_path / "out")
    code, said = finish(*command, python_path=at_start(tmp_path / "site", POISON))
    found = runs.status(tmp_path / "out")
    assert (code, found.done, found.failed) == (1, 9, {5: "its worker died 2 times"}), said
    monkeypatch.setenv("POISON_ONCE", str(tmp_path / "died"))
    code, said = finish("--resume", tmp_path / "out", *RAY, python_path=at_start(tmp_path / "site", POISON))
    assert (tmp_path / "died").exists()
    assert code == 0, said
    runs.run(tmp_path / "poisoned.txt", tmp_path / "reference", model="exact:bow", threads=1, shard_texts=20)
    same_run(tmp_path / "out", tmp_path / "reference")


def test_a_node_is_taken_away(corpus, reference, tmp_path, monkeypatch):
    """Three nodes; one that holds a worker goes, with the shard in its hands and what it had not handed over."""
    import ray
    from ray.cluster_utils import Cluster

    for name, value in ray_engine.QUIET.items():
        monkeypatch.setenv(name, value)
    small = {"num_cpus": 1, "object_store_memory": 100 << 20}
    cluster = Cluster(initialize_head=True, head_node_args={**small, "num_cpus": 0, "include_dashboard": False})
    try:
        node, _ = [cluster.add_node(**small) for _ in range(2)]
        seen = threading.Event()
        gone = threading.Thread(target=lambda: (seen.wait(60), cluster.remove_node(node)))
        gone.start()
        ray.init(address=cluster.address, logging_level="ERROR", log_to_driver=False)
        found = runs.run(
            corpus,
            tmp_path / "out",
            model="exact:bow",
            threads=1,
            shard_texts=60,
            engine="ray",
            workers=2,
            watch=lambda progress: seen.set() if progress.shards >= 4 else None,
        )
        gone.join()
        assert len([n for n in ray.nodes() if n["Alive"]]) == 2, "the node is gone"
        assert found.complete
        same_run(tmp_path / "out", reference)
    finally:
        ray.shutdown()
        cluster.shutdown()
        time.sleep(0.5)


def test_more_than_the_cluster_has(corpus, tmp_path, monkeypatch):
    monkeypatch.setitem(ray_engine.OPTIONS, "object_store_memory", 100 << 20)
    with pytest.raises(OptionError, match=r"wants 1 GPUs, but the Ray cluster has 0; use --gpus-per-worker"):
        runs.run(corpus, tmp_path / "out", model="exact:bow", engine="ray", gpus_per_worker=1, threads=1)
    with pytest.raises(OptionError, match="no Ray cluster answers at '127.0.0.1:1'"):
        runs.run(corpus, tmp_path / "out", model="exact:bow", engine="ray", ray_address="127.0.0.1:1", threads=1)


def test_without_ray(corpus, tmp_path, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "ray", None)
    with pytest.raises(OptionError, match=r"pip install 'wordprob\[ray\]'"):
        runs.run(corpus, tmp_path / "out", model="exact:bow", engine="ray")
    assert not (tmp_path / "out").exists()
