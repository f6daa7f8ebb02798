"""What each dialect demands of a request, as a provider would check it."""

import json
import re
from typing import Any


def openai_complaints(headers: dict[str, str], body: dict[str, Any]) -> list[str]:
    found = []
    if not body.get("model"):
        found.append("model is required")
    if body.get("stream_options") and not body.get("stream"):
        found.append("stream_options without stream")
    for tool in body.get("tools", []):
        if tool.get("type") != "function" or not tool["function"].get("name"):
            found.append(f"not a tool: {tool}")
    if "tools" in body and not body["tools"]:
        found.append("tools must not be empty")
    return found + _openai_messages(body.get("messages") or [])


def _openai_messages(messages: list[dict[str, Any]]) -> list[str]:
    found = [] if messages else ["messages must not be empty"]
    open_calls: list[str] = []
    for message in messages:
        role = message.get("role")
        if role not in ("system", "user", "assistant", "tool"):
            found.append(f"no such role: {role}")
        if role == "tool":
            if message.get("tool_call_id") not in open_calls:
                found.append(f"a result without its call: {message.get('tool_call_id')}")
            else:
                open_calls.remove(message["tool_call_id"])
            if not isinstance(message.get("content"), str):
                found.append("a tool's content must be a string")
            continue
        if open_calls:
            found.append(f"calls without results: {open_calls}")
        open_calls = [call["id"] for call in message.get("tool_calls", [])]
        found += _openai_content(message)
    return found + ([f"calls without results: {open_calls}"] if open_calls else [])


def _openai_content(message: dict[str, Any]) -> list[str]:
    found = []
    if message.get("content") is None and not message.get("tool_calls"):
        found.append("content is required")
    if "tool_calls" in message and not message["tool_calls"]:
        found.append("tool_calls must not be empty")
    for call in message.get("tool_calls", []):
        if not isinstance(json.loads(call["function"]["arguments"]), dict):
            found.append("arguments must be a JSON object in a string")
        if call.get("type") != "function" or not call.get("id"):
            found.append(f"not a call: {call}")
    ids = [call["id"] for call in message.get("tool_calls", [])]
    if len(set(ids)) != len(ids):
        found.append(f"ids repeat: {ids}")
    allowed = {"role", "content", "tool_calls", "reasoning_content", "reasoning_details"}
    found += [f"unknown field: {name}" for name in set(message) - allowed]
    return found + _openai_parts(message.get("content"))


def _openai_parts(content: Any) -> list[str]:
    found = []
    for part in content if isinstance(content, list) else ():
        url = part.get("image_url", {}).get("url", "")
        if part.get("type") == "image_url" and not url.startswith("data:image/"):
            found.append(f"not a picture: {url[:50]}")
        if part.get("type") == "text" and not part["text"].strip():
            found.append("text must not be empty")
        if part.get("type") not in ("text", "image_url"):
            found.append(f"no such part: {part.get('type')}")
    return found


def anthropic_complaints(headers: dict[str, str], body: dict[str, Any]) -> list[str]:
    found = [
        f"the header {name} is required"
        for name in ("x-api-key", "anthropic-version")
        if not headers.get(name)
    ]
    if not isinstance(body.get("max_tokens"), int):
        found.append("max_tokens is required")
    for tool in body.get("tools", []):
        if not tool.get("name") or not isinstance(tool.get("input_schema"), dict):
            found.append(f"not a tool: {tool}")
    if "'tool_use'" in str(body.get("messages")) and not body.get("tools"):
        found.append("a conversation with tool_use blocks must define tools")
    marks = str(body).count("'cache_control'")
    if marks > 4:
        found.append(f"{marks} cache breakpoints, at most 4")
    thinking = body.get("thinking") or {}
    if thinking.get("type") == "enabled" and thinking["budget_tokens"] >= body["max_tokens"]:
        found.append("max_tokens must be greater than budget_tokens")
    return found + _anthropic_messages(body.get("messages") or [])


def _anthropic_messages(messages: list[dict[str, Any]]) -> list[str]:
    found = [] if messages else ["messages must not be empty"]
    if messages and messages[0]["role"] != "user":
        found.append("the first message must be the user's")
    pending: list[str] = []
    for number, message in enumerate(messages):
        if number and message["role"] == messages[number - 1]["role"]:
            found.append("roles must alternate")
        blocks = message["content"]
        found += [complaint for block in blocks for complaint in _anthropic_block(block)]
        results = [b["tool_use_id"] for b in blocks if b["type"] == "tool_result"]
        if sorted(results) != sorted(pending):
            found.append(f"results {results} do not answer the calls {pending}")
        if results and blocks[0]["type"] != "tool_result":
            found.append("results come first")
        pending = [block["id"] for block in blocks if block["type"] == "tool_use"]
    return found + ([f"calls without results: {pending}"] if pending else [])


def _anthropic_block(block: dict[str, Any]) -> list[str]:
    kind = block.get("type")
    if kind == "text":
        return [] if block["text"].strip() else ["text must not be empty"]
    if kind == "image":
        source = block["source"]
        ok = source["type"] == "base64" and source["media_type"].startswith("image/")
        return [] if ok and source["data"] else [f"not a picture: {str(source)[:80]}"]
    if kind == "tool_result" and isinstance(block["content"], list):
        return [complaint for inner in block["content"] for complaint in _anthropic_block(inner)]
    if kind == "tool_use":
        ok = re.fullmatch(r"[a-zA-Z0-9_-]+", block["id"]) and isinstance(block["input"], dict)
        return [] if ok else [f"not a call: {block}"]
    if kind == "thinking":
        complete = block.get("signature") and "cache_control" not in block
        return [] if complete else [f"thinking must come back as it was: {block}"]
    return [] if kind in ("tool_result", "redacted_thinking") else [f"no such block: {kind}"]
