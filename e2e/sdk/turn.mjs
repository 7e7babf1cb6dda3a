// One chat turn with the official openai Node SDK, unmodified: prints what an application would see, as JSON.
//
// Usage: node turn.mjs NODE_MODULES BASE_URL stream|whole MODEL QUESTION
import { createRequire } from "node:module";

const [modules, baseURL, how, model, question] = process.argv.slice(2);
const { default: OpenAI } = createRequire(modules + "/")("openai");

const client = new OpenAI({ baseURL, apiKey: "test-key", maxRetries: 0 });
const request = { model, messages: [{ role: "user", content: question }] };

let completion;
let extensions;
if (how === "stream") {
  // .stream() is the SDK's own accumulator: it throws on a stream that does not add up.
  const stream = client.chat.completions.stream({ ...request, stream_options: { include_usage: true } });
  for await (const chunk of stream) extensions = chunk.extensions ?? extensions;
  completion = await stream.finalChatCompletion();
} else {
  completion = await client.chat.completions.create(request);
  extensions = completion.extensions;
}

const choice = completion.choices[0];
console.log(
  JSON.stringify({
    text: choice.message.content,
    role: choice.message.role,
    finish: choice.finish_reason,
    tool_calls: choice.message.tool_calls?.length ?? 0,
    total_tokens: completion.usage.total_tokens,
    tools_called: extensions?.mcp_via_llm.mcp_tools_called ?? null,
  }),
);
