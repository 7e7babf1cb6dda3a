// A conversation with the official openai Node SDK, unmodified: prints what an application would see, as JSON lines.
//
// Usage: node chat.mjs NODE_MODULES BASE_URL stream|whole MODEL ANSWER MESSAGE…
//
// Each MESSAGE is the user's next one. Calls of the function mcp_elicit are answered with ANSWER; the application has no
// functions of its own.
import { createRequire } from "node:module";

const [modules, baseURL, how, model, answer, ...questions] = process.argv.slice(2);
const { default: OpenAI } = createRequire(modules + "/")("openai");

const client = new OpenAI({ baseURL, apiKey: "test-key", maxRetries: 0 });
const messages = [];

async function complete() {
  if (how === "whole") return await client.chat.completions.create({ model, messages });
  // .stream() is the SDK's own accumulator: it throws on a stream that does not add up.
  const stream = client.chat.completions.stream({ model, messages, stream_options: { include_usage: true } });
  return await stream.finalChatCompletion();
}

for (const content of questions) {
  messages.push({ role: "user", content });
  for (;;) {
    const choice = (await complete()).choices[0];
    const calls = choice.message.tool_calls ?? [];
    console.log(JSON.stringify({ text: choice.message.content ?? null, finish: choice.finish_reason, calls: calls.map((c) => c.function.name) }));
    messages.push(choice.message);
    if (calls.length === 0) break;
    for (const call of calls) {
      JSON.parse(call.function.arguments);
      messages.push({ role: "tool", tool_call_id: call.id, content: answer });
    }
  }
}
