"""One chat turn with the official openai Python SDK, unmodified: prints what an application would see, as JSON.

Usage: turn.py BASE_URL stream|whole MODEL QUESTION
"""

import json
import sys

from openai import OpenAI

base_url, how, model, question = sys.argv[1:5]
client = OpenAI(base_url=base_url, api_key="test-key", max_retries=0)
request = {"model": model, "messages": [{"role": "user", "content": question}]}


def extensions_of(model):
    return (model.model_extra or {}).get("extensions")


if how == "stream":
    extensions = None
    # .stream() is the SDK's own accumulator: it raises on a stream that does not add up.
    with client.chat.completions.stream(**request, stream_options={"include_usage": True}) as stream:
        for event in stream:
            if event.type == "chunk":
                extensions = extensions_of(event.chunk) or extensions
        completion = stream.get_final_completion()
else:
    completion = client.chat.completions.create(**request)
    extensions = extensions_of(completion)

choice = completion.choices[0]
print(
    json.dumps(
        {
            "text": choice.message.content,
            "role": choice.message.role,
            "finish": choice.finish_reason,
            "tool_calls": len(choice.message.tool_calls or []),
            "total_tokens": completion.usage.total_tokens,
            "tools_called": extensions and extensions["mcp_via_llm"]["mcp_tools_called"],
        }
    )
)
