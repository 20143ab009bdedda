"""Client certificates: who stands behind them, and whom they name."""

import datetime

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes

from kscheduler.serving import client_certificate
from kscheduler.serving.client_certificate import (
    Authorities,
    UntrustedCertificateError,
    load_chain,
    user_of,
    verify,
)
from tests.serving.minting import DAY, NOW, SERVER, mint, mint_authority

ROOT = mint_authority()
TRUSTED = Authorities.from_pem(ROOT.pem)
MIDDLE = mint_authority("middle", by=ROOT)
UNKNOWN = x509.UnrecognizedExtension(x509.ObjectIdentifier("1.2.3.4"), b"\x05\x00")
NAMES = x509.SubjectAlternativeName([x509.DNSName("joe.example")])
CONSTRAINED = x509.NameConstraints([x509.DNSName("other.example")], None)


@pytest.mark.parametrize(
    "minted",
    [
        pytest.param(mint("joe", by=ROOT), id="signed by an authority"),
        pytest.param(mint("joe", by=MIDDLE), id="signed by one that an authority has signed"),
        pytest.param(mint("joe", by=mint_authority("low", by=MIDDLE)), id="and so on"),
        pytest.param(mint("joe", by=ROOT, usages=()), id="for any purpose"),
        pytest.param(
            mint("joe", by=ROOT, usages=(x509.OID_SERVER_AUTH, x509.OID_CLIENT_AUTH)),
            id="for this purpose among others",
        ),
        pytest.param(mint("joe", by=ROOT, extensions=[(UNKNOWN, False)]), id="with a remark"),
        pytest.param(ROOT, id="an authority itself"),
        pytest.param(
            mint("joe", by=mint_authority("m", by=ROOT, extensions=[(CONSTRAINED, True)])),
            id="no name that could be constrained",
        ),
    ],
)
def test_good_certificates_are_believed(minted):
    verify(minted.chain, TRUSTED, NOW)


FOREIGN = mint_authority("somebody else")
NAMESAKE = mint_authority()


@pytest.mark.parametrize(
    ("minted", "why"),
    [
        pytest.param(mint("joe", by=FOREIGN), "signed by unknown authority", id="wrong authority"),
        pytest.param(mint("joe", by=NAMESAKE), "signed by unknown authority", id="a namesake"),
        pytest.param(mint("joe"), "signed by unknown authority", id="signed by itself"),
        pytest.param(
            mint("joe", by=ROOT, ends=NOW - DAY / 2), "has expired or is not yet valid", id="old"
        ),
        pytest.param(
            mint("joe", by=ROOT, starts=NOW + DAY / 2), "has expired or is not yet valid", id="new"
        ),
        pytest.param(
            mint("joe", by=mint_authority("m", by=ROOT, ends=NOW - DAY / 2)),
            "signed by unknown authority",
            id="signed by who may no longer",
        ),
        pytest.param(
            mint("joe", by=mint("jim", by=ROOT)), "signed by unknown authority", id="by a user"
        ),
        pytest.param(
            mint("joe", by=mint_authority("m", by=ROOT, may_sign=False)),
            "signed by unknown authority",
            id="by who may sign other things",
        ),
        pytest.param(
            mint("joe", by=mint_authority("low", by=mint_authority("m", by=ROOT, path_length=0))),
            "signed by unknown authority",
            id="too many in between",
        ),
        pytest.param(
            mint("joe", by=ROOT, usages=(SERVER,)), "incompatible key usage", id="other purpose"
        ),
        pytest.param(
            mint("joe", by=ROOT, extensions=[(UNKNOWN, True)]),
            "unhandled critical extension",
            id="with a condition nobody understands",
        ),
        pytest.param(
            mint(
                "joe",
                by=mint_authority("m", by=ROOT, extensions=[(CONSTRAINED, True)]),
                extensions=[(NAMES, False)],
            ),
            "signed by unknown authority",
            id="a name that might not be allowed",
        ),
    ],
)
def test_others_are_not(minted, why):
    with pytest.raises(UntrustedCertificateError, match=why):
        verify(minted.chain, TRUSTED, NOW)


def test_who_is_between_must_be_shown():
    with pytest.raises(UntrustedCertificateError):
        verify([mint("joe", by=MIDDLE).certificate], TRUSTED, NOW)


def test_validity_is_judged_anew_each_time():
    minted = mint("joe", by=ROOT, ends=NOW + DAY / 2)
    verify(minted.chain, TRUSTED, NOW)
    with pytest.raises(UntrustedCertificateError, match="is after"):
        verify(minted.chain, TRUSTED, NOW + datetime.timedelta(hours=13))


def test_a_hostile_chain_costs_a_bounded_number_of_checks(monkeypatch):
    monkeypatch.setattr(client_certificate, "MAX_SIGNATURE_CHECKS", 10)
    twins = [mint_authority("twin", by=mint_authority("twin")) for _ in range(12)]
    leaf = mint("joe", by=twins[0])
    chain = (leaf.certificate, *(twin.certificate for twin in twins))
    with pytest.raises(UntrustedCertificateError):
        verify(chain, TRUSTED, NOW)


def test_the_user_is_named_by_the_certificate():
    minted = mint("joe", "dev", "ops", by=ROOT, uids=["u1"])
    user = user_of(minted.certificate)
    assert (user.username, user.uid, user.groups) == ("joe", "u1", ("dev", "ops"))
    (fingerprint,) = user.extra["authentication.kubernetes.io/credential-id"]
    digest = minted.certificate.fingerprint(hashes.SHA256()).hex()
    assert fingerprint == f"X509SHA256={digest}"


def test_a_certificate_without_a_name_names_nobody():
    assert user_of(mint("", "dev", by=ROOT).certificate) is None


def test_two_uids_are_one_too_many():
    with pytest.raises(UntrustedCertificateError, match="expected 1 UID"):
        user_of(mint("joe", by=ROOT, uids=["a", "b"]).certificate)


def test_what_is_no_certificate_is_refused():
    with pytest.raises(UntrustedCertificateError, match="malformed"):
        load_chain([b"nonsense"])
