"""Building extenders: what it changes in a configuration and what it refuses."""

import base64
import datetime

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
)
from cryptography.x509.oid import NameOID

from kscheduler.config.extenders import with_built_extenders
from kscheduler.config.model import Extender, ExtenderTLSConfig, KubeSchedulerConfiguration
from kscheduler.errors import ConfigError
from kscheduler.gotext.duration import Duration


def make_pair():
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "extender")])
    start = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(start)
        .not_valid_after(start + datetime.timedelta(days=1))
        .sign(key, hashes.SHA256())
    )
    private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return certificate.public_bytes(Encoding.PEM), private


CERTIFICATE, KEY = make_pair()
_, OTHER_KEY = make_pair()
OTHER_BLOCK = b"-----BEGIN X-----\nAAAA\n-----END X-----\n"


def build(**tls):
    extender = Extender(
        url_prefix="https://a", enable_https=True, tls_config=ExtenderTLSConfig(**tls)
    )
    return with_built_extenders(KubeSchedulerConfiguration(extenders=(extender,)))


def test_a_missing_timeout_becomes_five_seconds():
    config = KubeSchedulerConfiguration(
        extenders=(Extender(), Extender(http_timeout=Duration.of(-1)))
    )
    timeouts = [extender.http_timeout for extender in with_built_extenders(config).extenders]
    assert timeouts == [Duration.of(5), Duration.of(-1)]


def test_resources_of_extenders_replace_those_fit_ignores_in_every_profile(load):
    config = load("""
profiles:
- schedulerName: a
  pluginConfig: [{name: NodeResourcesFit, args: {ignoredResources: [e.com/mine]}}]
- schedulerName: b
extenders:
- managedResources: [{name: e.com/a, ignoredByScheduler: true}, {name: e.com/b}]
- managedResources: [{name: e.com/c, ignoredByScheduler: true}]
""")
    built = with_built_extenders(config)
    ignored = [
        entry.args.ignored_resources
        for profile in built.profiles
        for entry in profile.plugin_config
        if entry.name == "NodeResourcesFit"
    ]
    assert ignored == [("e.com/a", "e.com/c")] * 2


def test_without_fit_nobody_could_ignore_a_resource(load):
    config = load("""
profiles: [{plugins: {multiPoint: {disabled: [{name: NodeResourcesFit}]}}}]
extenders: [{managedResources: [{name: e.com/a, ignoredByScheduler: true}]}]
""")
    with pytest.raises(ConfigError) as caught:
        with_built_extenders(config)
    message = "couldn't build extenders: can't find NodeResourcesFitArgs in plugin config"
    assert str(caught.value) == message


GOOD = {
    "nothing": {},
    "insecure": {"insecure": True},
    "authority": {"ca_data": CERTIFICATE},
    "authority among other things": {"ca_data": OTHER_BLOCK + CERTIFICATE},
    "client certificate": {"cert_data": CERTIFICATE, "key_data": KEY},
    "certificate without key": {"cert_data": b"unused"},
}


@pytest.mark.parametrize("tls", GOOD.values(), ids=GOOD)
def test_usable_tls_settings(tls):
    assert build(**tls).extenders[0].tls_config == ExtenderTLSConfig(**tls)


def test_files_that_are_reloaded_later_only_have_to_exist(tmp_path):
    (tmp_path / "pair").write_bytes(b"not yet")
    path = str(tmp_path / "pair")
    assert build(cert_file=path, key_file=path)


BAD = {
    "insecure with authority": (
        {"insecure": True, "ca_data": CERTIFICATE},
        "specifying a root certificates file with the insecure flag is not allowed",
    ),
    "missing file": ({"ca_file": "/none"}, "open /none: no such file or directory"),
    "no PEM": (
        {"ca_data": b"hello"},
        "unable to load root certificates: unable to parse bytes as PEM block",
    ),
    "PEM of something else": (
        {"ca_data": OTHER_BLOCK},
        "unable to load root certificates: no valid certificate authority data seen",
    ),
    "PEM of rubbish": (
        {"ca_data": OTHER_BLOCK.replace(b" X", b" CERTIFICATE")},
        "unable to load root certificates: failed to parse certificate: "
        "x509: malformed certificate",
    ),
    "certificate is no PEM": (
        {"cert_data": b"hello", "key_data": KEY},
        "tls: failed to find any PEM data in certificate input",
    ),
    "swapped": (
        {"cert_data": KEY, "key_data": CERTIFICATE},
        "tls: failed to find certificate PEM data in certificate input, but did find a private "
        "key; PEM inputs may have been switched",
    ),
    "certificate of another type": (
        {"cert_data": OTHER_BLOCK, "key_data": KEY},
        'tls: failed to find "CERTIFICATE" PEM block in certificate input after skipping PEM '
        "blocks of the following types: [X]",
    ),
    "key is no PEM": (
        {"cert_data": CERTIFICATE, "key_data": b"hello"},
        "tls: failed to find any PEM data in key input",
    ),
    "key is a certificate": (
        {"cert_data": CERTIFICATE, "key_data": CERTIFICATE},
        "tls: found a certificate rather than a key in the PEM for the private key",
    ),
    "key of another type": (
        {"cert_data": CERTIFICATE, "key_data": OTHER_BLOCK},
        'tls: failed to find PEM block with type ending in "PRIVATE KEY" in key input after '
        "skipping PEM blocks of the following types: [X]",
    ),
    "unreadable key": (
        {"cert_data": CERTIFICATE, "key_data": OTHER_BLOCK.replace(b" X", b" PRIVATE KEY")},
        "tls: failed to parse private key",
    ),
    "key of another certificate": (
        {"cert_data": CERTIFICATE, "key_data": OTHER_KEY},
        "tls: private key does not match public key",
    ),
}


@pytest.mark.parametrize(("tls", "message"), BAD.values(), ids=BAD)
def test_unusable_tls_settings(tls, message):
    with pytest.raises(ConfigError) as caught:
        build(**tls)
    assert str(caught.value) == f"couldn't build extenders: {message}"


def test_tls_data_stands_in_the_file_as_base64(load):
    text = base64.b64encode(CERTIFICATE).decode()
    config = load(f"extenders: [{{tlsConfig: {{caData: {text}}}}}]")
    assert config.extenders[0].tls_config == ExtenderTLSConfig(ca_data=CERTIFICATE)
