"""One chat turn with the official openai Python SDK and its own retries: prints what an application would see, as JSON.

Usage: retry.py BASE_URL KEY CONVERSATION QUESTION
"""

import json
import sys

from openai import OpenAI

base_url, key, conversation, question = sys.argv[1:5]
client = OpenAI(base_url=base_url, api_key=key, default_headers={"X-Conversation": conversation})  # two retries
completion = client.chat.completions.create(model="m", messages=[{"role": "user", "content": question}])
extension = completion.model_extra["extensions"]["mcp_via_llm"]
print(json.dumps({"text": completion.choices[0].message.content, "called": extension["mcp_tools_called"]}))
