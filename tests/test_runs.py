"""Runs in parts: the same bits whoever draws, and nothing that was finished is lost, whatever happens."""

import errno
import gc
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from netsor import (
    Gram,
    Histogram,
    IllFormed,
    MixtureHistogram,
    Moments,
    Program,
    Quantiles,
    compare,
    elementwise,
    load,
    mean,
    simulate,
    stream,
    vector,
)
from netsor.cli import main
from netsor.runs import job as jobs
from netsor.runs.job import Arrays, Draw, Job
from netsor.runs.pool import WorkerWarning
from netsor.runs.run import How, results
from netsor.runs.store import DamageWarning, Store

P = load("attention", {"tokens": "2", "heads": "1"})
REQUEST: dict[str, Any] = {"width": 64, "runs": 20_000, "rng": 3, "outputs": {"y": {"i": 0}, "p": {"a": 0}}, "engine": "lazy"}
ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def whole() -> dict[str, np.ndarray]:
    return dict(simulate(P, **REQUEST))


def same(one: Any, two: Any) -> bool:
    return set(one) == set(two) and all(np.array_equal(one[k], two[k]) for k in one)


# ---- a job that is quick, and can go wrong on purpose


class Numbers(Job):
    """Part k is the number k. `mishap` happens in a worker at part 3, once: a file remembers that it did."""

    def __init__(self, count: int = 8, mishap: str = "", once: str = "") -> None:
        self.parts, self.mishap, self.once = count, mishap, once

    @property
    def count(self) -> int:
        return self.parts

    @property
    def remote(self) -> Draw:
        return numbers

    def draw(self, part: int) -> Arrays:
        return {"x": np.array([part])}

    def data(self) -> dict[str, Any]:
        return {"parts": self.parts, "mishap": self.mishap, "once": self.once}


def numbers(text: str, part: int) -> Arrays:
    data = json.loads(text)
    if part == 3 and data["mishap"] and not (data["once"] and Path(data["once"]).exists()):
        if data["once"]:
            Path(data["once"]).touch()
        if data["mishap"] == "die":
            os._exit(1)
        if data["mishap"] == "refuse":
            raise jobs.stopped("three", "no", "four")
        raise OSError("the network is down")
    return {"x": np.array([part])}


def drawn(job: Job, how: How) -> list[int]:
    return [int(arrays["x"][0]) for arrays in results(job, how)]


@pytest.fixture(autouse=True)
def importable(monkeypatch: pytest.MonkeyPatch) -> None:
    """Workers import this module for `numbers`."""
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT / "tests"), os.environ.get("PYTHONPATH", "")]))


class Later(Executor):
    """Runs in this process, the last that was submitted first."""

    _max_workers = 3

    def __init__(self) -> None:
        self.waiting: list[tuple[Future[Any], Callable[..., Any], Any]] = []

    def submit(self, fn: Callable[..., Any], /, *args: Any, **_: Any) -> Future[Any]:
        future: Future[Any] = Future()
        self.waiting.append((future, fn, args))
        if len(self.waiting) == 4 or args[1] >= 5:
            for waiting, call, values in reversed(self.waiting):
                waiting.set_result(call(*values))
            self.waiting.clear()
        return future


# ---- the same bits


def test_workers_change_no_bit(whole: dict[str, np.ndarray], tmp_path: Path) -> None:
    assert same(simulate(P, **REQUEST, workers=2), whole)
    assert same(simulate(P, **REQUEST, workers=2, out=tmp_path), whole)
    ticks: list[int] = []
    again = simulate(P, **REQUEST, out=tmp_path, progress=ticks.append)
    assert same(again, whole)
    assert sum(ticks) == REQUEST["runs"]


def test_an_executor_changes_no_bit(whole: dict[str, np.ndarray]) -> None:
    with ThreadPoolExecutor(2) as threads:
        assert same(simulate(P, **REQUEST, executor=threads), whole)


@pytest.mark.parametrize("engine", ["dense", "lazy", "collapsed"])
def test_engines_and_the_limit_draw_the_same_in_workers(engine: str) -> None:
    request: dict[str, Any] = {"width": 96, "runs": 40, "rng": 1, "engine": engine}
    assert same(simulate(P, **request), simulate(P, **request, workers=2))


def test_the_limit_and_comparisons_are_the_same_in_workers() -> None:
    L = P.limit()
    assert same(L.sample(9000, rng=2), L.sample(9000, rng=2, workers=2))
    with ThreadPoolExecutor(2) as threads:
        compared = [compare(P, "y", i=0, widths=[16, 32], runs=512, **how) for how in ({}, {"executor": threads})]  # type: ignore[arg-type]
    assert str(compared[0]) == str(compared[1])


def test_shards_come_in_order(whole: dict[str, np.ndarray]) -> None:
    shards = list(stream(P, **REQUEST))
    assert len(shards) > 1
    assert np.array_equal(np.concatenate([s["y"] for s in shards]), whole["y"])
    assert np.array_equal(np.concatenate([s["p"] for s in shards], axis=-1), whole["p"])
    assert drawn(Numbers(), How(executor=Later())) == list(range(8))
    assert drawn(Numbers(50), How(workers=3)) == list(range(50))


def test_code_stays_in_this_process(tmp_path: Path) -> None:
    Q = Program("mine", y=elementwise(np.arctan)(vector("x")))
    assert simulate(Q, width=4, runs=8, rng=0)["y"].shape == (8, 1)
    for how in ({"workers": 2}, {"out": tmp_path / "nowhere"}):
        with pytest.raises(IllFormed, match="NS310") as error:
            simulate(Q, width=4, runs=8, rng=0, **how)  # type: ignore[call-overload]
        assert "arctan" in str(error.value)
    assert "workers=1" in str(error.value)


@pytest.mark.parametrize("workers", [0, -1, True, 1.5, "2"])
def test_a_number_of_workers(workers: Any) -> None:
    with pytest.raises(IllFormed, match="NS306"):
        simulate(P, width=8, runs=8, rng=0, workers=workers)


@pytest.mark.parametrize("engine", ["dense", "lazy", "collapsed"])
def test_a_shard_is_freed_when_it_is_done(engine: str) -> None:
    """Without the garbage collector: thousands of shards would fill the memory before it runs."""
    shards = stream(load("gpt"), width=16, runs=100_000, rng=0, engine=engine)
    next(shards)
    gc.collect()
    gc.disable()
    try:
        next(shards)
        assert gc.collect() == 0
    finally:
        gc.enable()


# ---- accumulators


REDUCE = {
    "m": Moments("y"),
    "h": Histogram("y", -3, 3, 60),
    "q": Quantiles("y"),
    "g": Gram(("y", "p")),
}


def test_accumulators_agree_with_numpy(whole: dict[str, np.ndarray]) -> None:
    found = simulate(P, **REQUEST, reduce=REDUCE)
    y = whole["y"].ravel()
    m = found["m"]
    assert m.count == y.size
    z = (y - y.mean()) / y.std()
    expected = (y.mean(), y.var(), (z**3).mean(), (z**4).mean() - 3)
    assert np.allclose([m.mean, m.variance, m.skewness, m.excess_kurtosis], expected, atol=1e-12)
    assert 0.5 < m.mean.error / (y.std() / np.sqrt(y.size)) < 2
    counts, _ = np.histogram(y, found["h"].edges)
    assert np.array_equal(found["h"].counts, counts)
    assert counts.sum() + found["h"].below + found["h"].above == y.size
    for q in (0.01, 0.3, 0.5, 0.99):
        exact = np.quantile(y, q, method="inverted_cdf")
        assert abs(found["q"](q) - exact) <= 1.1e-3 * abs(exact) + 1e-4
    x = np.concatenate([whole["y"], whole["p"].reshape(-1, y.size).T], axis=1)
    assert np.allclose(found["g"].values, x.T @ x / y.size)
    assert found["g"].sizes == (1, 4)


def test_accumulators_merge_to_the_same_bits(tmp_path: Path) -> None:
    one = simulate(P, **REQUEST, reduce=REDUCE)
    for how in ({"workers": 2}, {"out": tmp_path}, {"out": tmp_path, "workers": 2}):
        other = simulate(P, **REQUEST, reduce=REDUCE, **how)  # type: ignore[call-overload]
        assert other["m"] == one["m"]
        assert other["m"].variance.error == one["m"].variance.error
        assert all(np.array_equal(other[k].counts, one[k].counts) for k in ("h", "q"))
        assert np.array_equal(other["g"].values, one["g"].values)


def test_moments_of_many_shards_keep_few_batches() -> None:
    rng = np.random.default_rng(0)
    x = 1e6 + rng.standard_normal((1000, 10))
    acc = Moments("x")
    state = acc.state({"x": x[0]})
    for row in x[1:]:
        state = acc.merge(state, acc.state({"x": row}))
    assert len(state["sums"]) <= 64
    assert state["sums"][:, 0].sum() == x.size
    found = acc.result(state)
    assert np.allclose([found.mean, found.variance], [x.mean(), x.var()], rtol=1e-9)
    assert 0.5 < found.mean.error / (x.std() / 100) < 2


def test_a_mixture_histogram() -> None:
    m = mean(vector("h"))
    Q = Program("p", m=m, v=1 + m * m)
    acc = MixtureHistogram("m", -4, 4, 16, variance="v")
    found = simulate(Q, width=4, runs=3000, rng=0, reduce={"h": acc})["h"]
    draws = simulate(Q, width=4, runs=3000, rng=0)
    sampled = draws["m"] + np.sqrt(draws["v"]) * np.random.default_rng(1).standard_normal(3000)
    assert np.isclose(found.counts.sum() + found.below + found.above, 3000)
    assert np.abs(found.counts - np.histogram(sampled, found.edges)[0]).max() < 5 * np.sqrt(3000 / 4)
    assert np.isclose((found.density * np.diff(found.edges)).sum(), found.counts.sum() / 3000)


@pytest.mark.parametrize(
    ("reduce", "code"), [({}, "NS309"), ({"m": 3}, "NS309"), ([Moments("y")], "NS309"), ({"m": Moments("nothing")}, "NS311")]
)
def test_wrong_accumulators(reduce: Any, code: str) -> None:
    with pytest.raises(IllFormed, match=code):
        simulate(P, width=8, runs=8, rng=0, reduce=reduce)


@pytest.mark.parametrize(
    "make",
    [
        lambda: Histogram("y", 1, 1),
        lambda: Histogram("y", 0, float("inf")),
        lambda: Histogram("y", 0, 1, 0),
        lambda: MixtureHistogram("m", 0, float("nan")),
        lambda: Quantiles("y", 0),
        lambda: Quantiles("y", float("nan")),
    ],
)
def test_settings_of_accumulators(make: Callable[[], Any]) -> None:
    with pytest.raises(IllFormed, match="NS306"):
        make()


def test_labelled_arrays(tmp_path: Path) -> None:
    xarray = pytest.importorskip("xarray")
    draws = simulate(P, width=8, runs=16, rng=0, outputs={"y": {"coordinates": 2}, "x": {"coordinates": 3}, "p": {}})
    data = draws.to_xarray()
    assert dict(data.sizes) == {"i": 2, "j": 2, "a": 1, "run": 16, "coordinate_y": 2, "coordinate_x": 3}
    assert np.array_equal(data["p"].values, draws["p"])
    pytest.importorskip("netCDF4")
    with pytest.raises(SystemExit, match="0"):
        main(["simulate", "attention", "y", "--width", "8", "--runs", "16", "-o", str(tmp_path / "y.nc")])
    with xarray.open_dataset(tmp_path / "y.nc") as back:
        assert np.array_equal(back["y"].values, simulate(load("attention"), width=8, runs=16, rng=0, outputs={"y": {}})["y"])


# ---- workers that fail


def test_a_worker_that_dies_is_replaced(tmp_path: Path) -> None:
    with pytest.warns(WorkerWarning, match="part 3 is drawn again"):
        assert drawn(Numbers(8, "die", str(tmp_path / "died")), How(workers=2)) == list(range(8))


def test_workers_that_always_die(tmp_path: Path) -> None:
    job = Numbers(8, "die")
    with pytest.raises(IllFormed, match="NS312") as error, pytest.warns(WorkerWarning):
        drawn(job, How(workers=2, out=tmp_path))
    assert "part 3" in str(error.value)
    finished = {int(path.name[:6]) for path in (tmp_path / "parts").iterdir()}
    assert finished
    assert drawn(job, How(out=tmp_path)) == list(range(8))  # in this process nothing dies


def test_errors_of_netsor_come_through_and_others_are_tried_again(tmp_path: Path) -> None:
    with pytest.raises(IllFormed, match="NS312") as error:
        drawn(Numbers(8, "refuse"), How(workers=2))
    assert error.value.statement == "three"
    with pytest.warns(WorkerWarning, match="the network is down"):
        assert drawn(Numbers(8, "fail", str(tmp_path / "failed")), How(workers=2)) == list(range(8))


def test_an_executor_that_is_shut_down() -> None:
    executor = ThreadPoolExecutor(1)
    executor.shutdown()
    with pytest.raises(IllFormed, match="NS312"):
        drawn(Numbers(), How(executor=executor))


# ---- folders


def parts(folder: Path) -> list[Path]:
    return sorted((folder / "parts").iterdir())


def contents(folder: Path) -> dict[str, bytes]:
    """All files but the lock and the manifest."""
    return {path.name: path.read_bytes() for path in parts(folder)}


def flipped(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(bytes(content))


def truncated(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-100])


def emptied(path: Path) -> None:
    path.write_bytes(b"")


@pytest.mark.parametrize("damage", [flipped, truncated, emptied])
def test_damaged_parts_are_drawn_again(damage: Callable[[Path], None], tmp_path: Path, whole: dict[str, np.ndarray]) -> None:
    simulate(P, **REQUEST, out=tmp_path)
    before = contents(tmp_path)
    damage(parts(tmp_path)[0])
    with pytest.warns(DamageWarning, match="part 0"):
        assert same(simulate(P, **REQUEST, out=tmp_path), whole)
    parts(tmp_path)[-1].unlink()
    assert same(simulate(P, **REQUEST, out=tmp_path), whole)
    assert contents(tmp_path) == before


def test_a_part_that_is_damaged_while_it_is_read(tmp_path: Path) -> None:
    assert drawn(Numbers(), How(out=tmp_path)) == list(range(8))
    found = results(Numbers(), How(out=tmp_path))
    next(found)
    flipped(parts(tmp_path)[5])
    assert [int(a["x"][0]) for a in found] == list(range(1, 8))


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"rng": 4}, "seed.entropy is 3, and that of this call is 4"),
        ({"runs": 20_001}, "runs is 20000"),
        ({"width": 32}, "width is 64"),
        ({"engine": "dense"}, 'engine is "lazy"'),
        ({"outputs": {"y": {"i": 1}}}, "outputs"),
    ],
)
def test_another_request_is_refused(change: dict[str, Any], says: str, tmp_path: Path) -> None:
    simulate(P, **REQUEST, out=tmp_path)
    before = contents(tmp_path)
    with pytest.raises(IllFormed, match="NS312") as error:
        simulate(P, **{**REQUEST, **change}, out=tmp_path)
    assert says in str(error.value)
    assert contents(tmp_path) == before


def test_another_program_or_version_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    simulate(P, **REQUEST, out=tmp_path)
    with pytest.raises(IllFormed, match="NS312") as error:
        simulate(load("attention", {"tokens": "3", "heads": "1"}), **REQUEST, out=tmp_path)
    assert "program.plates[0].size" in str(error.value)
    monkeypatch.setattr("netsor.__version__", "9.9")
    with pytest.raises(IllFormed, match="NS312") as error:
        simulate(P, **REQUEST, out=tmp_path)
    assert "version of netsor" in str(error.value)


def test_a_damaged_manifest(tmp_path: Path, whole: dict[str, np.ndarray]) -> None:
    """The parts prove whose they are: this request goes on, another one is refused and removes nothing."""
    simulate(P, **REQUEST, out=tmp_path)
    manifest = tmp_path / "manifest.json"
    data = json.loads(manifest.read_text())
    assert data["checksums"] == {path.name[:6]: path.stem[7:] for path in parts(tmp_path)}
    assert {"netsor", "numpy", "python"} <= set(data["versions"])
    for damage in (flipped, truncated, emptied):
        damage(manifest)
        before = contents(tmp_path)
        with pytest.raises(IllFormed, match="manifest is missing or damaged"):
            simulate(P, **{**REQUEST, "rng": 9}, out=tmp_path)
        assert contents(tmp_path) == before
        assert same(simulate(P, **REQUEST, out=tmp_path), whole)
        assert json.loads(manifest.read_text()) == data


def test_a_seed_that_was_not_given_is_kept(tmp_path: Path) -> None:
    request = {**REQUEST, "rng": None, "runs": 64}
    assert same(simulate(P, **request, out=tmp_path), simulate(P, **request, out=tmp_path))


def test_a_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, whole: dict[str, np.ndarray]) -> None:
    real = os.fsync
    left = [4]  # the manifest, and its folder, and one part, and its folder

    def full(handle: int) -> None:
        left[0] -= 1
        if left[0] < 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        real(handle)

    monkeypatch.setattr("netsor.runs.store.os.fsync", full)
    with pytest.raises(IllFormed, match="NS312") as error:
        simulate(P, **REQUEST, out=tmp_path)
    assert "No space left on device" in str(error.value)
    assert "1 of" in str(error.value)
    assert "make room" in str(error.value)
    assert len(parts(tmp_path)) == 1
    assert not list(tmp_path.glob(".*"))
    finished = parts(tmp_path)[0]
    stamp = finished.stat().st_mtime_ns
    monkeypatch.undo()
    assert same(simulate(P, **REQUEST, out=tmp_path), whole)
    assert finished.stat().st_mtime_ns == stamp


def test_folders_that_cannot_be(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for out in (tmp_path / "file", tmp_path / "file" / "inner"):
        with pytest.raises(IllFormed, match="NS312"):
            simulate(P, width=8, runs=8, rng=0, out=out)


def test_leftovers_and_strangers_in_the_folder(tmp_path: Path) -> None:
    assert drawn(Numbers(), How(out=tmp_path)) == list(range(8))
    (tmp_path / ".000003.npz.tmp").write_bytes(b"half")
    (tmp_path / "parts" / "notes.txt").write_text("mine")
    assert drawn(Numbers(), How(out=tmp_path)) == list(range(8))
    assert not (tmp_path / ".000003.npz.tmp").exists()
    assert (tmp_path / "parts" / "notes.txt").exists()


def test_two_at_one_folder(tmp_path: Path) -> None:
    found = results(Numbers(), How(out=tmp_path))
    next(found)
    with pytest.raises(IllFormed, match="NS312") as error:
        drawn(Numbers(), How(out=tmp_path))
    assert f"process {os.getpid()} on" in str(error.value)
    found.close()  # type: ignore[attr-defined]  # a generator
    assert drawn(Numbers(), How(out=tmp_path)) == list(range(8))


# ---- the whole process


COMMAND = ["simulate", "attention", "y", "--width", "256", "--runs", "300000", "--seed", "5", "--keep"]


def started(folder: Path, *options: str) -> subprocess.Popen[str]:
    code = "from netsor.cli import main; main()"
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", code, *COMMAND, str(folder), *options]
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment, cwd=folder.parent
    )


def wait_for_parts(folder: Path, count: int, process: subprocess.Popen[str]) -> None:
    while process.poll() is None and len(list((folder / "parts").glob("*.npz"))) < count:
        time.sleep(0.01)


def killed_and_resumed(folder: Path, times: int, *options: str) -> None:
    """Killed at random moments, then run to the end: every finished part is used, and the result is the whole one."""
    rng = np.random.default_rng(0)
    kept: dict[Path, int] = {}
    for k in range(times):
        process = started(folder, *options)
        wait_for_parts(folder, min(len(kept) + int(rng.integers(0, 2)), 10), process)
        time.sleep(rng.random() * (0.6 if k % 2 else 0.1))
        process.kill()
        process.communicate()
        if (folder / "parts").exists():
            now = {path: path.stat().st_mtime_ns for path in parts(folder)}
            assert kept.items() <= now.items()
            kept = now
    process = started(folder, *options)
    out, err = process.communicate()
    assert process.returncode == 0, err
    assert kept.items() <= {path: path.stat().st_mtime_ns for path in parts(folder)}.items()
    expected = simulate(load("attention"), width=256, runs=300_000, rng=5, outputs={"y": {}})
    resumed = simulate(load("attention"), width=256, runs=300_000, rng=5, outputs={"y": {}}, out=folder)
    assert same(expected, resumed)
    assert "300000 runs" in out


def test_killed_three_times(tmp_path: Path) -> None:
    killed_and_resumed(tmp_path / "run", 3)


@pytest.mark.nightly
@pytest.mark.parametrize("options", [(), ("--workers", "2")])
def test_killed_twenty_times(options: tuple[str, ...], tmp_path: Path) -> None:
    killed_and_resumed(tmp_path / "run", 20, *options)


@pytest.mark.parametrize("options", [(), ("--workers", "2")])
def test_interrupted(options: tuple[str, ...], tmp_path: Path) -> None:
    """Ctrl-C says what is finished and how to go on; no worker is left."""
    folder = tmp_path / "run"
    process = started(folder, *options)
    wait_for_parts(folder, 2, process)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "parts are finished in" in err
    assert "the same call continues from there" in err
    assert len(parts(folder)) >= 2
    store_of = json.loads((folder / "manifest.json").read_text())
    assert "checksums" not in store_of


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
def test_workers_end_with_a_killed_parent(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    process = started(folder, "--workers", "2")
    wait_for_parts(folder, 1, process)
    children = [int(path.name) for path in Path("/proc").glob("[0-9]*") if parent(path) == process.pid]
    process.kill()
    process.communicate()
    deadline = time.time() + 30
    assert len(children) == 2
    while any(fields(Path(f"/proc/{c}"))[0] != "Z" for c in children):
        assert time.time() < deadline
        time.sleep(0.05)


def fields(process: Path) -> list[str]:
    """The state of a process, its parent, ...; a zombie where it is gone."""
    try:
        return (process / "stat").read_text().rpartition(")")[2].split()
    except OSError:
        return ["Z", "0"]


def parent(process: Path) -> int:
    return int(fields(process)[1])


# ---- Dask


def test_a_scheduler_that_cannot_be_reached(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("distributed")
    start = time.time()
    with pytest.raises(SystemExit, match="2"):
        main(["simulate", "attention", "y", "--width", "8", "--scheduler", "tcp://127.0.0.1:9"])
    assert time.time() - start < 30
    assert "NS312" in capsys.readouterr().err


@pytest.mark.filterwarnings("default")  # of its own libraries
def test_a_dask_cluster(whole: dict[str, np.ndarray], tmp_path: Path) -> None:
    """On loopback: the same bits; a worker that dies in the middle is survived."""
    distributed = pytest.importorskip("distributed")
    with (
        distributed.LocalCluster(n_workers=2, threads_per_worker=2, host="127.0.0.1", dashboard_address=None) as cluster,
        distributed.Client(cluster) as client,
    ):
        executor = client.get_executor()
        assert same(simulate(P, **REQUEST, executor=executor), whole)
        assert same(simulate(P, **REQUEST, executor=executor, out=tmp_path / "run"), whole)
        job = Numbers(8, "die", str(tmp_path / "died"))
        assert drawn(job, How(executor=executor)) == list(range(8))
        assert (tmp_path / "died").exists()
        with pytest.raises(SystemExit, match="0"):
            main(["simulate", "attention", "y", "--width", "8", "--scheduler", cluster.scheduler_address])


def test_the_store_is_not_left_locked(tmp_path: Path) -> None:
    with pytest.raises(IllFormed):
        drawn(Numbers(8, "refuse"), How(workers=2, out=tmp_path))
    assert drawn(Numbers(8, "refuse"), How(out=tmp_path)) == list(range(8))
    assert Store.__doc__
