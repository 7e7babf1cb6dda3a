"""A conversation with the official openai Python SDK, unmodified: prints what an application would see, as JSON lines.

Usage: chat.py BASE_URL stream|whole MODEL ANSWER MESSAGE…

Each MESSAGE is the user's next one. Calls of the function mcp_elicit are answered with ANSWER; the application has no
functions of its own.
"""

import json
import sys

from openai import OpenAI

base_url, how, model, answer, *questions = sys.argv[1:]
client = OpenAI(base_url=base_url, api_key="test-key", max_retries=0)
messages = []


def complete():
    if how == "whole":
        return client.chat.completions.create(model=model, messages=messages)
    # .stream() is the SDK's own accumulator: it raises on a stream that does not add up.
    with client.chat.completions.stream(model=model, messages=messages, stream_options={"include_usage": True}) as stream:
        return stream.get_final_completion()


for question in questions:
    messages.append({"role": "user", "content": question})
    while True:
        choice = complete().choices[0]
        calls = choice.message.tool_calls or []
        print(json.dumps({"text": choice.message.content, "finish": choice.finish_reason, "calls": [c.function.name for c in calls]}))
        messages.append(choice.message.model_dump(exclude_none=True, exclude={"parsed"}))
        if not calls:
            break
        for call in calls:
            json.loads(call.function.arguments)
            messages.append({"role": "tool", "tool_call_id": call.id, "content": answer})
