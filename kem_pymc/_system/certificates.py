"""TLS certificates by which a Dask cluster and its clients authenticate each other."""

import os
from pathlib import Path
from typing import TYPE_CHECKING

from kem_pymc.errors import InputError

if TYPE_CHECKING:
    from distributed.security import Security

#: Environment variable that names the folder with the certificates of a cluster.
VARIABLE = "KEM_CERTIFICATES"

#: Files in that folder, in PEM format: the certificate authority, the certificate, and its key.
AUTHORITY, CERTIFICATE, KEY = "ca.pem", "cert.pem", "key.pem"


def certificates(folder: Path) -> "Security":
    """Return Dask's security settings from certificates; both sides of a connection check them.

    Parameters
    ----------
    folder : Path
        Folder with the files ``ca.pem``, ``cert.pem`` and ``key.pem``.

    Raises
    ------
    InputError
        If a file is missing, or can't be used.
    """
    import ssl

    from distributed.security import Security

    missing = [name for name in (AUTHORITY, CERTIFICATE, KEY) if not (folder / name).is_file()]
    if missing:
        raise InputError(
            f"The folder {folder} has no {missing[0]}. "
            f"Give a folder with {AUTHORITY}, {CERTIFICATE} and {KEY} from `kem cluster`."
        )
    authority, certificate, key = (str(folder / name) for name in (AUTHORITY, CERTIFICATE, KEY))
    try:
        context = ssl.create_default_context(cafile=authority)
        context.load_cert_chain(certificate, key)
    except OSError as error:
        raise InputError(
            f"The certificates in {folder} can't be used ({error}). "
            f"Give a folder with {AUTHORITY}, {CERTIFICATE} and {KEY} from `kem cluster`."
        ) from error
    sides = {f"tls_{side}_cert": certificate for side in ("client", "scheduler", "worker")}
    keys = {f"tls_{side}_key": key for side in ("client", "scheduler", "worker")}
    return Security(require_encryption=True, tls_ca_file=authority, **sides, **keys)


def make_certificates(folder: Path) -> None:
    """Make a self-signed certificate, and write it to a new or empty folder.

    Raises
    ------
    InputError
        If the folder can't be written to, or the package cryptography isn't installed.
    """
    from distributed.security import Security

    try:
        made = Security.temporary()
    except ImportError:
        raise InputError(
            "Certificates are made by the package cryptography, which isn't installed. "
            "Install kem-pymc[cluster], or give a folder with certificates."
        ) from None
    texts = {
        AUTHORITY: made.tls_ca_file,
        CERTIFICATE: made.tls_scheduler_cert,
        KEY: made.tls_scheduler_key,
    }
    try:
        folder.mkdir(parents=True, exist_ok=True)
        folder.chmod(0o700)
        for name, text in texts.items():
            # Other users may not read the key, not even while it is being written.
            with open(folder / name, "x", opener=_private, encoding="ascii") as file:
                file.write(text)
    except OSError as error:
        raise InputError(
            f"Certificates can't be written to {folder} ({error.strerror}). Give another folder."
        ) from error


def given_certificates() -> "Security | None":
    """Return the certificates in the folder that ``KEM_CERTIFICATES`` names; None if it isn't set.

    Raises
    ------
    InputError
        If a certificate is missing, or can't be used.
    """
    folder = os.environ.get(VARIABLE)
    return certificates(Path(folder)) if folder else None


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)
