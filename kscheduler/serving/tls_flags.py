"""The --tls-… flags in OpenSSL's terms: cipher suites, key exchange groups, versions, key pairs."""

import ssl
from collections.abc import Sequence

from kscheduler.client.tls import check_pair
from kscheduler.config.options import CertKey
from kscheduler.errors import ConfigError
from kscheduler.gotext import files
from kscheduler.gotext.strconv import quote

# Go's names, which are IANA's; those of TLS 1.3 are accepted but cannot be chosen.
CIPHER_SUITES = {
    "TLS_AES_128_GCM_SHA256": "",
    "TLS_AES_256_GCM_SHA384": "",
    "TLS_CHACHA20_POLY1305_SHA256": "",
    "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA": "ECDHE-ECDSA-AES128-SHA",
    "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA256": "ECDHE-ECDSA-AES128-SHA256",
    "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256": "ECDHE-ECDSA-AES128-GCM-SHA256",
    "TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA": "ECDHE-ECDSA-AES256-SHA",
    "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384": "ECDHE-ECDSA-AES256-GCM-SHA384",
    "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305": "ECDHE-ECDSA-CHACHA20-POLY1305",
    "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256": "ECDHE-ECDSA-CHACHA20-POLY1305",
    "TLS_ECDHE_ECDSA_WITH_RC4_128_SHA": "",
    "TLS_ECDHE_RSA_WITH_3DES_EDE_CBC_SHA": "",
    "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA": "ECDHE-RSA-AES128-SHA",
    "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA256": "ECDHE-RSA-AES128-SHA256",
    "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256": "ECDHE-RSA-AES128-GCM-SHA256",
    "TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA": "ECDHE-RSA-AES256-SHA",
    "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384": "ECDHE-RSA-AES256-GCM-SHA384",
    "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305": "ECDHE-RSA-CHACHA20-POLY1305",
    "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256": "ECDHE-RSA-CHACHA20-POLY1305",
    "TLS_ECDHE_RSA_WITH_RC4_128_SHA": "",
    "TLS_RSA_WITH_3DES_EDE_CBC_SHA": "",
    "TLS_RSA_WITH_AES_128_CBC_SHA": "AES128-SHA",
    "TLS_RSA_WITH_AES_128_CBC_SHA256": "AES128-SHA256",
    "TLS_RSA_WITH_AES_128_GCM_SHA256": "AES128-GCM-SHA256",
    "TLS_RSA_WITH_AES_256_CBC_SHA": "AES256-SHA",
    "TLS_RSA_WITH_AES_256_GCM_SHA384": "AES256-GCM-SHA384",
    "TLS_RSA_WITH_RC4_128_SHA": "",
}
VERSIONS = {
    "": ssl.TLSVersion.TLSv1_2,
    "VersionTLS10": ssl.TLSVersion.TLSv1,
    "VersionTLS11": ssl.TLSVersion.TLSv1_1,
    "VersionTLS12": ssl.TLSVersion.TLSv1_2,
    "VersionTLS13": ssl.TLSVersion.TLSv1_3,
}
CURVES = {
    23: "prime256v1",
    24: "secp384r1",
    25: "secp521r1",
    29: "X25519",
    4587: "SecP256r1MLKEM768",
    4588: "X25519MLKEM768",
    4589: "SecP384r1MLKEM1024",
}
MAX_CURVE = 65535


def openssl_ciphers(suites: Sequence[str]) -> str:
    """OpenSSL's list for the chosen suites; "" leaves the choice to it."""
    for suite in suites:
        if suite not in CIPHER_SUITES:
            raise ConfigError(f"Cipher suite {suite} not supported or doesn't exist")
    return ":".join(name for suite in suites if (name := CIPHER_SUITES[suite]))


def curve_names(numbers: Sequence[int]) -> tuple[str, ...]:
    seen: set[int] = set()
    for number in numbers:
        if not 0 < number <= MAX_CURVE:
            raise ConfigError(f"curve preference {number} is out of range (must be 1-{MAX_CURVE})")
        if number in seen:
            raise ConfigError(f"duplicate curve preference {number}")
        seen.add(number)
        if number not in CURVES:
            raise ConfigError(
                f"curve preference {number} is not supported by the current Go version"
            )
    return tuple(CURVES[number] for number in numbers)


def minimum_version(name: str) -> ssl.TLSVersion:
    if name not in VERSIONS:
        raise ConfigError(f"unknown tls version {quote(name)}")
    return VERSIONS[name]


def read_pair(pair: CertKey, purpose: str = "serving-cert") -> tuple[bytes, bytes]:
    """Certificate and key as PEM, if they exist and belong together."""
    if not pair.cert_file or not pair.key_file:
        raise ConfigError("missing filename for serving cert")
    certificate, key = files.read(pair.cert_file), files.read(pair.key_file)
    if not certificate or not key:
        name = f"{purpose}::{pair.cert_file}::{pair.key_file}"
        raise ConfigError(f"missing content for serving cert {quote(name)}")
    check_pair(certificate, key)
    return certificate, key
