"""Settings and keys bring the tools of the web; without them nothing is offered or loaded."""

import subprocess
import sys
from pathlib import Path

import pytest

from hermes.app.policy import describe_call, open_policy
from hermes.app.tools.tooling import build_tooling, host_capabilities
from hermes.core.actions import Action, Decision
from hermes.core.messages import Risk, ToolCall
from hermes.settings.load import LoadedSettings, load
from hermes.tools.toolsets import check_availability
from hermes.tools.web import EXTRACT_NEEDS, SEARCH_NEEDS, WebSearchTool

VARIABLES = {"PATH": "/usr/bin:/bin", "OPENROUTER_API_KEY": "sk-or-example"}
WEB_TOOLS = {"web_search", "web_extract"}


def loaded_from(home: Path, config: str = "", **variables: str) -> LoadedSettings:
    (home / "config.yaml").write_text(config)
    return load(home=home, variables=VARIABLES | {"HOME": str(home)} | variables)


def web_tools_of(loaded: LoadedSettings) -> set[str]:
    return WEB_TOOLS & set(build_tooling(loaded).catalogue.tools)


@pytest.mark.parametrize(
    ("config", "variables", "expected"),
    [
        ("", {}, set()),
        ("", {"BRAVE_API_KEY": "k"}, WEB_TOOLS),
        ("", {"TAVILY_API_KEY": "k"}, WEB_TOOLS),
        ("", {"EXA_API_KEY": "k"}, WEB_TOOLS),
        ("", {"FIRECRAWL_API_KEY": "k"}, WEB_TOOLS),
        ("", {"SEARXNG_URL": "http://127.0.0.1:8888"}, WEB_TOOLS),
        ("systems: {searxng: {url: 'http://127.0.0.1:8888'}}", {}, WEB_TOOLS),
        ("tools: {web: {search: [duckduckgo]}}", {}, WEB_TOOLS),
        ("tools: {web: {extract: true}}", {}, {"web_extract"}),
        ("tools: {disabled: [web]}", {"BRAVE_API_KEY": "k"}, set()),
    ],
)
def test_a_key_an_address_or_a_setting_brings_them(
    tmp_path: Path, config: str, variables: dict[str, str], expected: set[str]
) -> None:
    assert web_tools_of(loaded_from(tmp_path, config, **variables)) == expected


def test_what_is_missing_is_told_with_the_command_that_brings_it(tmp_path: Path) -> None:
    present = host_capabilities(loaded_from(tmp_path))
    search = check_availability("web_search", [SEARCH_NEEDS], present)
    assert search.why.startswith("missing: one of systems.searxng.url, BRAVE_API_KEY")
    assert "hermes config set SEARXNG_URL <url>" in search.how
    extract = check_availability("web_extract", [EXTRACT_NEEDS], present)
    assert extract.how == "hermes config set tools.web.extract true"
    present = host_capabilities(loaded_from(tmp_path, EXA_API_KEY="k"))
    assert check_availability("web_search", [SEARCH_NEEDS], present).available


def test_an_address_of_ones_own_comes_before_keys(tmp_path: Path) -> None:
    loaded = loaded_from(
        tmp_path, BRAVE_API_KEY="key-of-brave", SEARXNG_URL="http://127.0.0.1:8888/"
    )
    tool = build_tooling(loaded).catalogue.tools["web_search"]
    assert isinstance(tool, WebSearchTool)
    assert tool.request({"query": "x"}).url == "http://127.0.0.1:8888/search?q=x&format=json"
    named = loaded_from(tmp_path, "tools: {web: {search: [brave]}}", BRAVE_API_KEY="key-of-brave")
    tool = build_tooling(named).catalogue.tools["web_search"]
    assert isinstance(tool, WebSearchTool)
    shown = tool.request({"query": "x"})
    assert shown.url == "https://api.search.brave.com/res/v1/web/search?q=x&count=5"
    assert "key-of-brave" not in str(ToolCall("c", "web_search", {"request": shown}))


def test_the_policy_explains_a_page_as_it_decides_about_it(tmp_path: Path) -> None:
    loaded = loaded_from(tmp_path, "tools: {web: {extract: true}}")
    policy = open_policy(loaded, tmp_path, isolated=False)

    def decide(url: str) -> Decision:
        action = Action(
            call=ToolCall("c", "web_extract", {"urls": [url]}),
            risk=Risk.CHANGE,
            run="r",
            origin="cli",
            environment="local",
            target="here",
            isolated=False,
        )
        return policy.decide(describe_call(loaded, action))

    assert (decide("https://nginx.org/").verdict, decide("https://nginx.org/").effects) == (
        "allow",
        ("network-read",),
    )
    assert decide("http://169.254.169.254/").verdict == "ask"


@pytest.mark.command
def test_nothing_is_loaded_before_the_first_call(tmp_path: Path) -> None:
    def loaded_modules(**variables: str) -> list[str]:
        code = (
            "import sys; from pathlib import Path\n"
            "from hermes.app.tools.tooling import build_tooling\n"
            f"from hermes.settings.load import load; home = Path({str(tmp_path)!r})\n"
            f"tools = build_tooling(load(home=home, variables={VARIABLES | variables!r}))\n"
            f"assert ('web_search' in tools.catalogue.tools) is {bool(variables)}\n"
            "names = ('trafilatura', 'lxml', 'pypdf', 'httpx2', 'hermes.integrations.web',\n"
            "         'hermes.tools.web', 'hermes.core.web_content')\n"
            "print(','.join(name for name in names if name in sys.modules))"
        )
        done = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True
        )
        return done.stdout.split()

    assert loaded_modules() == []
    assert loaded_modules(BRAVE_API_KEY="k") == ["hermes.tools.web,hermes.core.web_content"]
