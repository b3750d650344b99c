"""Clients of Dask clusters: of one that runs, or of one of processes here."""

import importlib.util
import logging
import os
import re
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from streamrf.errors import ClusterError, ParameterError, SourceNotFoundError, first_line

if TYPE_CHECKING:
    from distributed import Client, LocalCluster

logger = logging.getLogger("streamrf")

# Dask has its workers give every freed page back; the buffers of each block would be new pages.
MALLOC = {"MALLOC_TRIM_THRESHOLD_": 256 << 20, "MALLOC_MMAP_THRESHOLD_": 32 << 20}
PATIENCE = 20.0  # seconds for a scheduler to answer

# A terminal sends Ctrl-C to all processes of a command; what began the workers ends them.
DEAF = """import signal

signal.signal(signal.SIGINT, signal.SIG_IGN)
"""


@dataclass(frozen=True)
class ClusterAddress:
    """Where a cluster is, or is to be.

    Parameters
    ----------
    scheduler : address such as "tcp://host:8786", or None
    workers : worker processes to start here instead, or None
    tls_ca, tls_cert, tls_key : PEM files of a "tls://" scheduler: the authority that signs, and the
        certificate and key to show
    """

    scheduler: str | None = None
    workers: int | None = None
    tls_ca: str | None = None
    tls_cert: str | None = None
    tls_key: str | None = None

    @property
    def is_here(self) -> bool:
        """Whether there is no cluster at all."""
        return self.scheduler is None and self.workers is None

    def check(self) -> None:
        """Raise an error where options contradict each other.

        Raises
        ------
        ParameterError
            Both a scheduler and workers; TLS without its three files, or without a scheduler.
        SourceNotFoundError
            A TLS file that is missing.
        """
        host = None if self.scheduler is None else _host_without_port(self.scheduler)
        if host is not None:
            raise ParameterError(
                f"--scheduler {self.scheduler} has no port; give that too, as in {host}:8786"
            )
        files = {"--tls-ca": self.tls_ca, "--tls-cert": self.tls_cert, "--tls-key": self.tls_key}
        given = [name for name, path in files.items() if path is not None]
        if self.scheduler is not None and self.workers is not None:
            raise ParameterError(
                "--scheduler names a cluster that runs and --workers starts one here; give one"
            )
        if given and self.scheduler is None:
            raise ParameterError(f"{given[0]} is for a scheduler; give --scheduler tls://HOST:PORT")
        if given and len(given) < len(files):
            missing = next(name for name in files if name not in given)
            raise ParameterError(f"{missing} is missing; TLS needs {', '.join(files)}")
        wants = self.scheduler is not None and self.scheduler.startswith("tls://")
        if wants and not given:
            raise ParameterError(f"{self.scheduler} wants TLS; give {', '.join(files)}")
        if given and not wants:
            raise ParameterError(
                f"{given[0]} is for an address with TLS; give --scheduler tls://HOST:PORT, or "
                f"leave out {', '.join(files)}"
            )
        for name, path in files.items():
            if path is not None and not os.path.isfile(path):
                raise SourceNotFoundError(f"{name}: there is no file {path}")
        if given:
            self._check_key()

    def _check_key(self) -> None:
        """Raise ParameterError for a TLS file that is none, or a key that does not fit."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        try:
            context.load_verify_locations(self.tls_ca)
        except (ssl.SSLError, OSError) as error:
            raise ParameterError(
                f"--tls-ca {self.tls_ca} holds no certificate in PEM ({first_line(error)})"
            ) from error
        try:
            context.load_cert_chain(str(self.tls_cert), self.tls_key, password=self._encrypted)
        except (ssl.SSLError, OSError) as error:
            if getattr(error, "reason", None) == "KEY_VALUES_MISMATCH":
                what = "is not the key of"
            else:
                what = f"is no key in PEM, or there is no certificate in PEM ({error}) in"
            raise ParameterError(
                f"--tls-key {self.tls_key} {what} --tls-cert {self.tls_cert}; give the pair that "
                "was made together"
            ) from error

    def _encrypted(self) -> str:
        raise ParameterError(
            f"--tls-key {self.tls_key} is encrypted, and nobody is asked for a passphrase; make "
            "a plain one: openssl pkey -in KEY -out PLAIN"
        )


@contextmanager
def connected(address: ClusterAddress, n_threads: int | None = None) -> Iterator["Client | None"]:
    """Yield a client of the cluster, or None where there is to be none; closed on leaving.

    Parameters
    ----------
    address : where the cluster is
    n_threads : threads that workers started here share; None means one for each processor

    Raises
    ------
    ClusterError
        If there is no scheduler, or it refuses, or workers cannot be started here.
    """
    address.check()
    if address.is_here:
        yield None
        return
    with _quiet():
        if address.workers is None:
            with _client(address) as client:
                yield client
        else:
            with _processes(address.workers, n_threads) as client:
                yield client


@contextmanager
def _quiet() -> Iterator[None]:
    """Leave out what Dask's client logs of a scheduler that is gone: an error of ours says it."""

    def is_told(record: logging.LogRecord) -> bool:
        return not record.exc_info

    logs = logging.getLogger("distributed.client")
    logs.addFilter(is_told)
    try:
        yield
    finally:
        logs.removeFilter(is_told)


@contextmanager
def _processes(n_workers: int, n_threads: int | None) -> Iterator["Client"]:
    import dask
    from distributed import Client

    environment = dask.config.get("distributed.nanny.pre-spawn-environ") | MALLOC
    preloads = dask.config.get("distributed.worker.preload", None) or []
    preloads = [preloads] if isinstance(preloads, str) else [*preloads]
    words = dask.config.get("distributed.worker.preload-argv", None) or []
    of_each = bool(words) and not isinstance(words[0], str)
    settings = {
        "distributed.nanny.pre-spawn-environ": environment,
        "distributed.worker.preload": [*preloads, DEAF],
        "distributed.worker.preload-argv": [*words, []] if of_each else words,
        # What looks at a worker's stacks every 10 ms, at each event loop every 20 ms and for tasks
        # to steal every 100 ms takes several per cent of a core, and our tasks take seconds.
        "distributed.worker.profile.enabled": False,
        "distributed.admin.tick.interval": "1s",
        "distributed.scheduler.work-stealing-interval": "1s",
    }
    with (
        dask.config.set(settings),
        _started(n_workers, n_threads) as cluster,
        # Not by way of the scheduler: a total of 67 MB came in 0.2 s instead of 0.9 s.
        Client(cluster, direct_to_workers=True) as client,
    ):
        if importlib.util.find_spec("bokeh") is not None:  # which Dask's pages need
            logger.info("the dashboard of the workers is at %s", cluster.dashboard_link)
        yield client


def _started(n_workers: int, n_threads: int | None) -> "LocalCluster":
    from distributed import LocalCluster
    from distributed.system import MEMORY_LIMIT

    class Workers(LocalCluster):
        def __init__(self, **options: Any) -> None:
            try:
                super().__init__(**options)
            except BaseException:  # as Ctrl-C
                self.shutdown_on_close = False  # at exit, where Dask fails on what has not begun
                raise

    try:
        return Workers(
            n_workers=n_workers,
            threads_per_worker=max(1, (n_threads or len(os.sched_getaffinity(0))) // n_workers),
            processes=True,
            memory_limit=MEMORY_LIMIT // n_workers,
            host="127.0.0.1",  # whoever reaches a port can run code
            dashboard_address="127.0.0.1:0",
            silence_logs=logging.CRITICAL,  # what a task raises is raised here too
        )
    except (OSError, RuntimeError) as error:
        raise ClusterError(
            f"--workers {n_workers} could not be started ({first_line(error)}); start fewer, or "
            "allow more open files and processes (ulimit -n, ulimit -u)"
        ) from error


def _is_here(address: str) -> bool:
    """Return whether an address is one that other machines cannot reach."""
    host = address.partition("://")[2].rpartition(":")[0].strip("[]")
    return host == "localhost" or host == "::1" or host.startswith("127.")


def _host_without_port(scheduler: str) -> str | None:
    """Return the address of a host, where it is one alone.

    Examples
    --------
    >>> _host_without_port("10.0.0.1"), _host_without_port("tls://host:8786")
    ('10.0.0.1', None)
    """
    found = re.fullmatch(r"((tcp|tls)://)?[\w.-]+", scheduler)
    return None if found is None else scheduler


def _unlike(address: ClusterAddress) -> str:
    """Return what may not be as the scheduler has it."""
    if address.tls_ca is None:
        return "whether it wants TLS: --scheduler tls://HOST:PORT with certificates"
    return (
        "whether it has TLS at all (else --scheduler tcp://HOST:PORT), and whether --tls-cert is "
        "of the authority --tls-ca and has not expired"
    )


def _client(address: ClusterAddress) -> "Client":
    from distributed import Client, Security

    security = None
    if address.tls_ca is not None:
        security = Security(
            tls_ca_file=address.tls_ca,
            tls_client_cert=address.tls_cert,
            tls_client_key=address.tls_key,
            require_encryption=True,
        )
    elif not _is_here(str(address.scheduler)):
        logger.warning(
            "%s is without TLS: anyone who reaches its port, or sees what passes, can run code on "
            "the cluster and read the rows; start it with certificates (docs/cluster.md)",
            address.scheduler,
        )
    try:
        return Client(address.scheduler, security=security, timeout=PATIENCE)
    except (OSError, ValueError, TypeError) as error:
        raise ClusterError(
            f"no scheduler that lets us in answers at {address.scheduler} ({first_line(error)}); "
            f"start one with: dask scheduler, or check address, port and {_unlike(address)}"
        ) from error
