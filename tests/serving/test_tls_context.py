"""Who is greeted with which certificate, and who is not greeted at all."""

import asyncio
import datetime
import ssl

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

from kscheduler.config.options import CertKey
from kscheduler.serving import tls_context
from kscheduler.serving.tls_flags import read_pair

NOW = datetime.datetime.now(datetime.UTC)


def pair_for(common_name, *dns_names):
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])
    builder = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(NOW - datetime.timedelta(hours=1))
        .not_valid_after(NOW + datetime.timedelta(hours=1))
    )
    if dns_names:
        names = x509.SubjectAlternativeName([x509.DNSName(dns) for dns in dns_names])
        builder = builder.add_extension(names, critical=False)
    certificate = builder.sign(key, hashes.SHA256())
    return certificate.public_bytes(Encoding.PEM), key.private_bytes(
        Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()
    )


async def greeted(client, trusting, server_name=None, **limits):
    """The common name of the certificate a client is shown."""
    context = trusting()
    for name, value in limits.items():
        setattr(context, name, value)
    client.context, client.server_name = context, server_name or "127.0.0.1"
    _, writer = await client.connect()
    shown = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
    subject = x509.load_der_x509_certificate(shown).subject
    return subject.get_attributes_for_oid(NameOID.COMMON_NAME)[0].value.partition("@")[0]


async def test_hosts_get_the_certificate_made_for_them(serving, trusting):
    sni_pairs = (
        (pair_for("first", "a.example", "*.wild.example"), ()),
        (pair_for("second", "a.example", "b.example"), ()),
        (pair_for("given", "c.example"), ("b.example", "*.given.example")),
    )
    wanted = {
        None: "localhost",
        "other.example": "localhost",
        "a.example": "first",  # of two certificates for a name the first one counts
        "A.Example": "first",
        "x.wild.example": "first",
        "x.y.wild.example": "localhost",
        "second": "second",  # a common name is a name
        "b.example": "given",  # names on the command line beat names in certificates
        "c.example": "localhost",  # and replace them
        "x.given.example": "given",
    }
    async with serving(tls=True, sni_pairs=sni_pairs) as client:
        shown = {name: await greeted(client, trusting, name) for name in wanted}
    assert shown == wanted


async def test_the_chain_can_be_verified(serving, trusting, pair):
    async with serving(tls=True) as client:
        for name in ("localhost", "127.0.0.1"):
            client.context, client.server_name = trusting(pair[0]), name
            assert (await client.ask())[0] == 200


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
async def test_old_versions_are_refused(serving, trusting, version):
    async with serving(tls=True, min_version=version) as client:
        assert await greeted(client, trusting) == "localhost"
        if version is ssl.TLSVersion.TLSv1_3:
            with pytest.raises((ssl.SSLError, ConnectionError)):
                await greeted(client, trusting, maximum_version=ssl.TLSVersion.TLSv1_2)


async def test_listed_ciphers_are_the_only_ones_and_fit_the_made_certificate(serving, trusting):
    suite = "ECDHE-RSA-AES128-GCM-SHA256"
    async with serving(tls=True, ciphers=suite, curves=("prime256v1",)) as client:
        client.context, client.server_name = trusting(), "localhost"
        client.context.maximum_version = ssl.TLSVersion.TLSv1_2
        _, writer = await client.connect()
        assert writer.get_extra_info("ssl_object").cipher()[0] == suite
        client.context.set_ciphers("ECDHE-RSA-AES256-GCM-SHA384")
        with pytest.raises((ssl.SSLError, ConnectionError)):
            await client.connect()


async def test_http_1_1_is_what_we_speak(serving, trusting):
    async with serving(tls=True) as client:
        client.context, client.server_name = trusting(), "localhost"
        client.context.set_alpn_protocols(["h2", "http/1.1"])
        _, writer = await client.connect()
        assert writer.get_extra_info("ssl_object").selected_alpn_protocol() == "http/1.1"
        client.context.set_alpn_protocols(["h2"])
        with pytest.raises((ssl.SSLError, ConnectionError)):
            await client.connect()


@pytest.fixture
def at_once(monkeypatch):
    """Files are looked at whenever somebody connects."""
    monkeypatch.setattr(tls_context, "CHECK_SECONDS", 0.0)


def write_pair(folder, pair):
    for name, content in zip(("tls.crt", "tls.key"), pair, strict=True):
        path = folder / f"new-{name}"
        path.write_bytes(content)
        path.rename(folder / name)


async def test_new_files_are_served_to_who_comes_afterwards(serving, trusting, tmp_path, at_once):
    write_pair(tmp_path, pair_for("old"))
    files = CertKey(str(tmp_path / "tls.crt"), str(tmp_path / "tls.key"))
    named = CertKey(files.cert_file, files.key_file, ("sni.example",))
    current = read_pair(files)
    settings = {"make_pair": lambda: current, "pair_files": files}
    settings |= {"sni_pairs": ((current, named.names),), "sni_files": (named,)}
    async with serving(tls=True, **settings) as client:
        assert await greeted(client, trusting) == "old"
        reader, writer = await client.connect()
        write_pair(tmp_path, pair_for("new"))
        assert await greeted(client, trusting) == "new"
        assert await greeted(client, trusting, "sni.example") == "new"
        writer.write(b"GET / HTTP/1.1\r\nHost: h\r\n\r\n")  # who was there before stays
        assert (await asyncio.wait_for(reader.read(12), 5)) == b"HTTP/1.1 200"


@pytest.mark.parametrize("broken", ["", "garbage", "mismatched"])
async def test_broken_files_leave_the_last_good_pair(
    serving, trusting, tmp_path, at_once, broken, capfd
):
    write_pair(tmp_path, pair_for("old"))
    files = CertKey(str(tmp_path / "tls.crt"), str(tmp_path / "tls.key"))
    current = read_pair(files)
    async with serving(tls=True, make_pair=lambda: current, pair_files=files) as client:
        assert await greeted(client, trusting) == "old"
        certificate, _ = pair_for("new")
        content = certificate if broken == "mismatched" else broken.encode()
        (tmp_path / "tls.crt").write_bytes(content)
        assert await greeted(client, trusting) == "old"
        assert "keeping the last" in capfd.readouterr().err
        write_pair(tmp_path, pair_for("new"))
        assert await greeted(client, trusting) == "new"


async def test_without_access_to_openssl_it_serves_all_the_same(serving, trusting, monkeypatch):
    monkeypatch.setattr(tls_context, "_library", lambda: None)
    async with serving(tls=True) as client:
        assert await greeted(client, trusting) == "localhost"
