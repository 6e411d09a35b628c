/** The agent of both clients: it can look up the weather. */
export function agentOf({ RealtimeAgent, tool }) {
  const weather = tool({
    name: "weather",
    description: "The weather in a city.",
    parameters: {
      type: "object",
      properties: { city: { type: "string" } },
      required: ["city"],
      additionalProperties: false,
    },
    execute: async ({ city }) => `It rains in ${city}.`,
  });
  return new RealtimeAgent({ name: "Lark", instructions: "Be brief.", tools: [weather] });
}

/** What a session was told and did, for the test to judge. */
export function record(session) {
  const log = { types: [], truncated: [], interruptions: 0, calls: [], errors: [], history: [] };
  session.transport.on("*", (event) => {
    log.types.push(event.type);
    if (event.type === "conversation.item.truncated") log.truncated.push(event);
  });
  session.on("audio_interrupted", () => log.interruptions++);
  session.on("agent_tool_end", (_context, _agent, tool, result) => log.calls.push([tool.name, result]));
  session.on("error", (error) => log.errors.push(JSON.stringify(error)));
  session.on("history_updated", (history) => (log.history = history));
  return log;
}
