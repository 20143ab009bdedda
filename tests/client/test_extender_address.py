"""URLs of extenders: what is asked for where, and which of them nobody can be asked at."""

import pytest

from kscheduler.client.extender import AddressError, address


@pytest.mark.parametrize(
    ("url", "server", "target"),
    [
        ("http://h/filter", "http://h", "/filter"),
        ("HTTPS://h:9/a/filter", "https://h:9", "/a/filter"),
        ("http://[::1]:8/e", "http://[::1]:8", "/e"),
        ("http://h:/e", "http://h", "/e"),
        ("http://h/a b/ü", "http://h", "/a%20b/%C3%BC"),
        ("http://h/%41%2f/[x]!", "http://h", "/%41%2f/[x]!"),
        ("http://h/a?x=1/filter", "http://h", "/a?x=1/filter"),
        ("http://h?q/filter", "http://h", "/?q/filter"),
        ("http://h/a#f/filter", "http://h", "/a"),
    ],
)
def test_what_is_asked_for_where(url, server, target):
    found = address(url)
    assert (found.server, found.target, found.authorization) == (server, target, "")


def test_a_user_is_named_to_the_server_and_the_password_to_nobody_else():
    found = address("http://u:p%40@h/e")
    assert found.authorization == "Basic dTpwQA=="
    assert found.server == "http://h"
    assert found.shown == '"http://u:***@h/e"'


@pytest.mark.parametrize(
    ("url", "told"),
    [
        (
            "127.0.0.1:80/e",
            'parse "127.0.0.1:80/e": first path segment in URL cannot contain colon',
        ),
        ("localhost:80/e", 'Post "localhost:80/e": unsupported protocol scheme "localhost"'),
        ("h/e", 'Post "h/e": unsupported protocol scheme ""'),
        ("a b/e", 'Post "a%20b/e": unsupported protocol scheme ""'),
        ("ftp://h/e", 'Post "ftp://h/e": unsupported protocol scheme "ftp"'),
        ("http:/e", 'Post "http:/e": http: no Host in request URL'),
        ("http:///e", 'Post "http:///e": http: no Host in request URL'),
        ("http://h:70000/e", 'Post "http://h:70000/e": dial tcp: address 70000: invalid port'),
        (":x", 'parse ":x": missing protocol scheme'),
        ("http://[::1/e", """parse "http://[::1/e": missing ']' in host"""),
        ("http://h:x/e", 'parse "http://h:x/e": invalid port ":x" after host'),
        ("http://h h/e", 'parse "http://h h/e": invalid character " " in host name'),
        ("http://h%41/e", 'parse "http://h%41/e": invalid URL escape "%41"'),
        ("http://u u@h/e", 'parse "http://u u@h/e": net/url: invalid userinfo'),
        ("http://h/%zz", 'parse "http://h/%zz": invalid URL escape "%zz"'),
        ("http://h/\n", 'parse "http://h/\\n": net/url: invalid control character in URL'),
    ],
)
def test_where_nobody_can_be_asked(url, told):
    with pytest.raises(AddressError) as refused:
        address(url)
    assert str(refused.value) == told
