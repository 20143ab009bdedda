"""--tls-… flags: names, numbers and key pairs."""

import datetime
import ssl

import pytest

from kscheduler.config.options import CertKey
from kscheduler.errors import ConfigError
from kscheduler.serving.certificate import self_signed
from kscheduler.serving.tls_flags import (
    CIPHER_SUITES,
    curve_names,
    minimum_version,
    openssl_ciphers,
    read_pair,
)

NOW = datetime.datetime.now(datetime.UTC)


def refusal(function, *args):
    with pytest.raises(ConfigError) as refused:
        function(*args)
    return str(refused.value)


def test_openssl_knows_every_suite_we_translate():
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.set_ciphers(openssl_ciphers(list(CIPHER_SUITES)) + ":@SECLEVEL=0")


def test_suites():
    assert openssl_ciphers([]) == ""
    assert openssl_ciphers(["TLS_AES_128_GCM_SHA256", "TLS_RSA_WITH_AES_128_CBC_SHA"]) == (
        "AES128-SHA"
    )
    assert refusal(openssl_ciphers, ["foo"]) == "Cipher suite foo not supported or doesn't exist"


@pytest.mark.parametrize(
    ("numbers", "why"),
    [
        ([0], "curve preference 0 is out of range (must be 1-65535)"),
        ([70000], "curve preference 70000 is out of range (must be 1-65535)"),
        ([23, 23], "duplicate curve preference 23"),
        ([9999], "curve preference 9999 is not supported by the current Go version"),
    ],
)
def test_curves_that_are_refused(numbers, why):
    assert refusal(curve_names, numbers) == why


def test_curves_and_versions():
    assert curve_names([29, 23]) == ("X25519", "prime256v1")
    assert minimum_version("") is ssl.TLSVersion.TLSv1_2
    assert minimum_version("VersionTLS13") is ssl.TLSVersion.TLSv1_3
    assert refusal(minimum_version, "foo") == 'unknown tls version "foo"'


class TestPairs:
    @pytest.fixture
    def pair(self, tmp_path):
        files = CertKey(str(tmp_path / "a.crt"), str(tmp_path / "a.key"))
        self.write(files, *self_signed("127.0.0.1", now=NOW))
        return files

    @staticmethod
    def write(files, certificate, key):
        for path, content in ((files.cert_file, certificate), (files.key_file, key)):
            with open(path, "wb") as file:
                file.write(content)

    def test_a_matching_pair_is_read(self, pair):
        certificate, key = read_pair(pair)
        assert certificate.startswith(b"-----BEGIN CERTIFICATE-----")
        assert b"PRIVATE KEY" in key

    def test_keys_of_another_certificate_are_refused(self, pair):
        certificate, _ = read_pair(pair)
        _, other = self_signed("127.0.0.1", now=NOW)
        self.write(pair, certificate, other)
        assert refusal(read_pair, pair) == "tls: private key does not match public key"

    def test_what_is_not_there(self, pair):
        assert (
            refusal(read_pair, CertKey(pair.cert_file, "")) == "missing filename for serving cert"
        )
        missing = CertKey("/nonexistent/a.crt", pair.key_file)
        assert refusal(read_pair, missing) == "open /nonexistent/a.crt: no such file or directory"

    def test_what_is_no_pem(self, pair):
        certificate, key = read_pair(pair)
        self.write(pair, b"x", key)
        assert refusal(read_pair, pair) == ("tls: failed to find any PEM data in certificate input")
        self.write(pair, certificate, b"x")
        assert refusal(read_pair, pair) == "tls: failed to find any PEM data in key input"
        self.write(pair, certificate, b"")
        name = f"serving-cert::{pair.cert_file}::{pair.key_file}"
        assert refusal(read_pair, pair) == f'missing content for serving cert "{name}"'
