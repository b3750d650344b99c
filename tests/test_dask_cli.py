"""The command line on clusters: processes started for it, and schedulers with and without TLS."""

import json
import logging
import shutil
import subprocess
import sys

import h5py
import numpy as np
import pytest
from typer.testing import CliRunner

from clusters import by_hand
from streamrf.cli import app
from streamrf.engine import ClusterAddress, connected
from streamrf.errors import ParameterError

N, WIDTH = 2000, 6


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    rng = np.random.default_rng(0)
    path = tmp_path_factory.mktemp("rows") / "rows.h5"
    X = rng.normal(size=(N, WIDTH)).astype(np.float32)
    with h5py.File(path, "w") as file:
        file.create_dataset("X", data=X, chunks=(100, WIDTH))
        file["y"] = (X[:, 0] * X[:, 1] > 0).astype(int)
    return path


FIT = ["--components", "64", "--map", "maclaurin", "--degree", "2"]


def streamrf(*arguments, status=0):
    """Run in this process, with standard output and error apart."""
    done = CliRunner().invoke(app, [str(argument) for argument in arguments])
    if not isinstance(done.exception, SystemExit | None):
        raise done.exception
    assert done.exit_code == status, done.output
    return done


def program(*arguments):
    """Run as a program of its own."""
    done = subprocess.run(
        [sys.executable, "-m", "streamrf", *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    return done


def test_the_files_are_those_of_one_process(path, tmp_path):
    """The workers are new processes of the program, which must not run it again."""
    alone, together = tmp_path / "alone.model.h5", tmp_path / "together.model.h5"
    streamrf("fit", path, *FIT, "--model", alone)
    spill = tmp_path / "spill"
    options = ["--workers", 2, "--parts", 4, "--spill", spill, "--json"]
    done = program("fit", path, *FIT, "--model", together, *options)
    assert together.read_bytes() == alone.read_bytes()
    assert len(list(spill.glob("shard-*.h5"))) == 4
    assert "4 shards on 2 workers, each of which will use up to" in done.stderr
    cluster = json.loads(done.stdout)["cluster"]
    assert (cluster["workers"], cluster["shards"]) == (2, 4)
    assert 0 < cluster["worker_memory_bytes_peak"] <= cluster["worker_memory_bytes_planned"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--workers", 2, "--scheduler", "tcp://127.0.0.1:1"], "give one"),
        (["--scheduler", "tls://127.0.0.1:1"], "wants TLS; give --tls-ca, --tls-cert, --tls-key"),
        (["--scheduler", "tls://h:1", "--tls-ca", "ca.pem"], "--tls-cert is missing"),
        (["--tls-ca", "ca.pem"], "--tls-ca is for a scheduler"),
        (
            ["--scheduler", "tcp://h:1", "--tls-ca", "a", "--tls-cert", "b", "--tls-key", "c"],
            "--tls-ca is for an address with TLS; give --scheduler tls://HOST:PORT",
        ),
    ],
)
def test_options_that_do_not_go_together_are_refused(path, tmp_path, options, message):
    done = streamrf("fit", path, *FIT, "--model", tmp_path / "m.h5", *options, status=1)
    assert message in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_spill_folder_is_for_a_cluster(path, tmp_path):
    done = streamrf("fit", path, "--model", tmp_path / "m.h5", "--spill", tmp_path, status=2)
    assert "is for a cluster" in " ".join(done.stderr.split())


@pytest.fixture(scope="module")
def certificates(tmp_path_factory):
    """An authority, and a certificate and key that it has signed; and those of a stranger."""
    if shutil.which("openssl") is None:
        pytest.skip("openssl, which makes the certificates, is not installed")
    folder = tmp_path_factory.mktemp("certificates")

    def openssl(*arguments):
        subprocess.run(["openssl", *arguments], cwd=folder, check=True, capture_output=True)

    new = ["req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    for name in ("ours", "stranger"):
        openssl(
            *new, "-subj", f"/CN={name}", "-x509", "-days", "2", "-keyout", f"{name}-ca.key",
            "-out", f"{name}-ca.pem",
        )  # fmt: skip
        openssl(*new, "-subj", "/CN=host", "-keyout", f"{name}.key", "-out", f"{name}.csr")
        openssl(
            "x509", "-req", "-days", "2", "-in", f"{name}.csr", "-CA", f"{name}-ca.pem",
            "-CAkey", f"{name}-ca.key", "-CAcreateserial", "-out", f"{name}.pem",
        )  # fmt: skip
    openssl(
        "x509", "-req", "-days", "0", "-in", "ours.csr", "-CA", "ours-ca.pem",
        "-CAkey", "ours-ca.key", "-CAcreateserial", "-out", "expired.pem",
    )  # fmt: skip
    shutil.copy(folder / "ours.key", folder / "expired.key")
    return folder


def shown(certificates, name, ca="ours"):
    return [
        "--tls-ca", certificates / f"{ca}-ca.pem",
        "--tls-cert", certificates / f"{name}.pem",
        "--tls-key", certificates / f"{name}.key",
    ]  # fmt: skip


@pytest.fixture(scope="module")
def scheduler(certificates, tmp_path_factory):
    """The address of a scheduler that wants certificates, with one worker."""
    files = zip(TLS, ("ours-ca.pem", "ours.pem", "ours.key"), strict=True)
    options = [word for option, name in files for word in (option, certificates / name)]
    folder = tmp_path_factory.mktemp("cluster")
    with by_hand(folder, protocol="tls", options=options) as (address, *_):
        yield address


TLS = ("--tls-ca-file", "--tls-cert", "--tls-key")


def test_with_the_certificate_a_client_is_let_in(path, tmp_path, scheduler, certificates):
    model, data = tmp_path / "m.h5", [path]
    cluster = ["--scheduler", scheduler, *shown(certificates, "ours")]
    streamrf("fit", *data, *FIT, "--model", model, *cluster)
    report = streamrf("evaluate", model, *data, *cluster, "--json").stdout
    assert json.loads(report)["n_rows"] == N
    for name, options in (("together.h5", cluster), ("alone.h5", [])):
        streamrf("predict", model, *data, "--output", tmp_path / name, *options)
    assert (tmp_path / "together.h5").read_bytes() == (tmp_path / "alone.h5").read_bytes()


@pytest.mark.parametrize(
    ("name", "key", "message"),
    [
        ("ours", "stranger.key", r"--tls-key .*stranger.key is not the key of --tls-cert .*ours"),
        ("ours", "secret.key", r"--tls-key .*secret.key is encrypted.* openssl pkey"),
        ("ours", "ours.csr", r"--tls-key .*ours.csr is no key in PEM"),
        ("ours-ca.key", "ours.key", r"or there is no certificate in PEM .* --tls-cert"),
    ],
)
def test_a_key_that_does_not_fit_is_named(name, key, message, certificates):
    plain, secret = certificates / "ours.key", certificates / "secret.key"
    openssl = ["openssl", "pkey", "-in", plain, "-aes256", "-passout", "pass:x", "-out", secret]
    subprocess.run(openssl, check=True, capture_output=True)
    cert = name if "." in name else f"{name}.pem"
    files = [certificates / file for file in ("ours-ca.pem", cert, key)]
    with pytest.raises(ParameterError, match=message):
        ClusterAddress("tls://127.0.0.1:1", None, *map(str, files)).check()


def test_an_authority_that_is_none_is_named(certificates):
    files = [certificates / file for file in ("ours.key", "ours.pem", "ours.key")]
    with pytest.raises(ParameterError, match=r"--tls-ca .*ours.key holds no certificate"):
        ClusterAddress("tls://127.0.0.1:1", None, *map(str, files)).check()


@pytest.mark.parametrize("address", ["10.0.0.1", "tcp://head-node", "tls://head.node"])
def test_an_address_without_a_port_is_told_with_one(address):
    with pytest.raises(ParameterError, match=rf"has no port; give that too, as in {address}:8786"):
        ClusterAddress(address).check()


def test_without_the_certificate_a_client_is_refused(path, tmp_path, scheduler, certificates):
    fit = ["fit", path, *FIT, "--model", tmp_path / "m.h5", "--scheduler"]
    plain = scheduler.replace("tls://", "tcp://")
    refused = [[scheduler, *shown(certificates, name)] for name in ("stranger", "expired")]
    for options in ([plain], *refused):
        done = streamrf(*fit, *options, status=1)
        assert "no scheduler that lets us in answers" in done.stderr
    assert not (tmp_path / "m.h5").exists()


def test_what_is_told_by_an_error_is_not_logged_with_its_traceback(path, scheduler, certificates):
    """A scheduler that was killed left thirty lines of Dask's before ours."""
    logs, shown = logging.getLogger("distributed.client"), []
    handler = logging.Handler()
    handler.emit = lambda record: shown.append(record.getMessage())
    logs.addHandler(handler)
    try:
        files = [str(certificates / f"ours{end}") for end in ("-ca.pem", ".pem", ".key")]
        with connected(ClusterAddress(scheduler, None, *files)):
            logs.error("a traceback", exc_info=OSError("gone"))
            logs.error("a line")
        logs.error("one of another client", exc_info=OSError("gone"))
    finally:
        logs.removeHandler(handler)
    assert [text for text in shown if text.startswith(("a ", "one "))] == [
        "a line",
        "one of another client",
    ]
