"""The cases are those of Go's own tests of httpproxy, and some about what client-go adds."""

from urllib.parse import urlsplit

import pytest

from kscheduler.client.http.proxies import IN_CGI, proxy_for
from kscheduler.errors import ConfigError


def found(url="http://example.com", **environ):
    return proxy_for(urlsplit(url), environ)


@pytest.mark.parametrize(
    ("named", "url"),
    [
        ("127.0.0.1:8080", "http://127.0.0.1:8080"),
        ("cache.corp.example.com:1234", "http://cache.corp.example.com:1234"),
        ("cache.corp.example.com", "http://cache.corp.example.com"),
        ("localhost", "http://localhost"),
        ("https://cache.corp.example.com", "https://cache.corp.example.com"),
        ("http://127.0.0.1:8080", "http://127.0.0.1:8080"),
        ("https://127.0.0.1:8080", "https://127.0.0.1:8080"),
        ("socks5://127.0.0.1", "socks5://127.0.0.1"),
        ("foo://host", "foo://host"),
        ("", ""),
        ("%zz", ""),
        ("[::1", ""),
    ],
)
def test_proxy_is_a_url_or_a_host(named, url):
    assert found(HTTP_PROXY=named) == url


@pytest.mark.parametrize(
    ("url", "proxy"),
    [
        ("http://insecure.tld/", "http://http.proxy.tld"),
        ("https://secure.tld/", "https://secure.proxy.tld"),
        ("ftp://insecure.tld/", ""),
    ],
)
def test_each_scheme_has_a_proxy_of_its_own(url, proxy):
    named = {"HTTP_PROXY": "http.proxy.tld", "HTTPS_PROXY": "https://secure.proxy.tld"}
    assert found(url, **named) == proxy
    assert found("https://secure.tld/", HTTP_PROXY="http.proxy.tld") == ""


def test_lower_case_comes_first_unless_it_is_empty():
    both = {"HTTP_PROXY": "upper", "http_proxy": "lower"}
    assert found(**both) == "http://lower"
    assert found(**{**both, "http_proxy": ""}) == "http://upper"
    assert found(**both, NO_PROXY="example.com", no_proxy="elsewhere") == "http://lower"
    assert found(**both, NO_PROXY="elsewhere", no_proxy="example.com") == ""


def test_web_server_cannot_be_told_by_its_clients_which_proxy_to_use():
    with pytest.raises(ConfigError) as raised:
        found(HTTP_PROXY="http://10.1.2.3:8080", REQUEST_METHOD="GET")
    assert str(raised.value) == IN_CGI
    assert found("https://secure.tld/", HTTPS_PROXY="p", REQUEST_METHOD="GET") == "http://p"
    assert found(REQUEST_METHOD="GET") == ""


@pytest.mark.parametrize(
    ("no_proxy", "url", "is_proxied"),
    [
        ("example.com", "http://example.com/", False),
        (".example.com", "http://example.com/", True),
        ("ample.com", "http://example.com/", True),
        ("example.com", "http://foo.example.com/", False),
        (".foo.com", "http://example.com/", True),
        (".示例.com", "http://www.示例.com", False),
        ("xn--fsq092h.com", "http://www.示例.com", False),
        ("示例.com", "http://www.xn--fsq092h.com", False),
        ("example.com", "http://[1000::%25.example.com]:123", True),
        (":1", "http://example.com/", True),
        ("EXAMPLE.com", "http://Example.COM/", False),
        ("example.com:443", "https://example.com/", False),
        ("example.com:80", "https://example.com/", True),
        ("*.example.com:8443", "https://a.example.com:8443/", False),
        ("*.example.com:8443", "https://a.example.com/", True),
        ("10.0.0.0/8", "https://10.96.0.1:443", False),
        ("10.96.0.1/16", "https://10.96.5.5", False),
        ("10.0.0.0/8", "https://10.example.com", True),
        ("10.0.0.0/33", "https://10.96.0.1", True),
        ("10.0.0.0/255.0.0.0", "https://10.96.0.1", True),
        ("::ffff:10.0.0.0/104", "https://10.96.0.1", False),
        ("10.96.0.1", "https://[::ffff:10.96.0.1]", False),
        ("fd00::/8", "https://[fd00::1]:6443", False),
        ("[fd00::1]:6443", "https://[fd00::1]:6443", False),
        ("[fd00::1]", "https://[fd00::1]:6443", True),
        ("a, *", "https://10.96.0.1", False),
        (", ,", "https://10.96.0.1", True),
    ],
)
def test_exceptions(no_proxy, url, is_proxied):
    proxy = "http://proxy" if is_proxied else ""
    assert found(url, HTTP_PROXY="proxy", HTTPS_PROXY="proxy", NO_PROXY=no_proxy) == proxy


MANY = (
    "foobar.com, .barbaz.net, *.wildcard.io, 192.168.1.1, 192.168.1.2:81, 192.168.1.3:80, "
    "10.0.0.0/30, 2001:db8::52:0:1, [2001:db8::52:0:2]:443, [2001:db8::52:0:3]:80, "
    "2002:db8:a::45/64"
)
HOSTS = {
    "localhost": False,
    "127.0.0.1": False,
    "127.0.0.2": False,
    "[::1]": False,
    "[::ffff:127.0.0.1]": False,
    "[::2]": True,
    "192.168.1.1": False,
    "192.168.1.2": True,
    "192.168.1.3": False,
    "192.168.1.4": True,
    "10.0.0.2": False,
    "[2001:db8::52:0:1]": False,
    "[2001:db8::52:0:2]": True,
    "[2001:db8::52:0:3]": False,
    "[2002:db8:a::123]": False,
    "[fe80::424b:c8be:1643:a1b6]": True,
    "barbaz.net": True,
    "www.barbaz.net": False,
    "foobar.com": False,
    "www.foobar.com": False,
    "foofoobar.com": True,
    "baz.com": True,
    "localhost.net": True,
    "local.localhost": True,
    "barbarbaz.net": True,
    "wildcard.io": True,
    "nested.wildcard.io": False,
    "awildcard.io": True,
}


@pytest.mark.parametrize(("host", "is_proxied"), HOSTS.items())
def test_many_exceptions_at_once(host, is_proxied):
    assert bool(found(f"http://{host}:80", HTTP_PROXY="proxy", no_proxy=MANY)) == is_proxied
    assert found(f"http://{host}:80", HTTP_PROXY="proxy", no_proxy="*") == ""


def test_networks_of_the_upper_case_variable_count_beside_the_lower_case_one():
    named = {"https_proxy": "proxy", "NO_PROXY": "10.0.0.0/8, 11.0.0.0/8", "no_proxy": "a.example"}
    assert found("https://10.96.0.1", **named) == ""
    assert found("https://11.96.0.1", **named) == "http://proxy"  # as Go: a space before it
    assert found("https://a.example", **named) == ""
