--- The names of OpenTelemetry's semantic conventions for generative AI that ponder uses. They are
--- in development and change; this is the only place that has them.
---
--- From github.com/open-telemetry/semantic-conventions-genai at 024a4f944a12, whose schema is
--- gen-ai-dev/1.42.0-dev, on the general conventions 1.44.0. Names that begin with ponder. are
--- ours.

return {
    SCHEMA_URL = "https://opentelemetry.io/schemas/gen-ai-dev/1.42.0-dev",

    ERROR_TYPE = "error.type",
    ERROR_OTHER = "_OTHER",
    HTTP_STATUS = "http.response.status_code",
    SERVICE_NAME = "service.name",
    SERVICE_VERSION = "service.version",

    OPERATION = "gen_ai.operation.name",
    OPERATION_CHAT = "chat",
    OPERATION_TOOL = "execute_tool",
    OPERATION_WORKFLOW = "invoke_workflow",

    WORKFLOW = "gen_ai.workflow.name",
    PROVIDER = "gen_ai.provider.name",
    OUTPUT_TYPE = "gen_ai.output.type",

    REQUEST_MODEL = "gen_ai.request.model",
    REQUEST_CHOICES = "gen_ai.request.choice.count",
    REQUEST_FREQUENCY_PENALTY = "gen_ai.request.frequency_penalty",
    REQUEST_MAX_TOKENS = "gen_ai.request.max_tokens",
    REQUEST_PRESENCE_PENALTY = "gen_ai.request.presence_penalty",
    REQUEST_REASONING = "gen_ai.request.reasoning.level",
    REQUEST_SEED = "gen_ai.request.seed",
    REQUEST_STOP = "gen_ai.request.stop_sequences",
    REQUEST_TEMPERATURE = "gen_ai.request.temperature",
    REQUEST_TOP_K = "gen_ai.request.top_k",
    REQUEST_TOP_P = "gen_ai.request.top_p",

    RESPONSE_FINISH_REASONS = "gen_ai.response.finish_reasons",
    FINISH_ERROR = "error",
    FINISH_TOOL_CALL = "tool_call",
    RESPONSE_ID = "gen_ai.response.id",
    RESPONSE_MODEL = "gen_ai.response.model",

    USAGE_INPUT = "gen_ai.usage.input_tokens",
    USAGE_OUTPUT = "gen_ai.usage.output_tokens",
    USAGE_CACHE_READ = "gen_ai.usage.cache_read.input_tokens",
    USAGE_CACHE_WRITE = "gen_ai.usage.cache_write.input_tokens",
    USAGE_REASONING = "gen_ai.usage.reasoning.output_tokens",

    TOOL_NAME = "gen_ai.tool.name",
    TOOL_TYPE = "gen_ai.tool.type",
    TOOL_TYPE_FUNCTION = "function",

    -- Only with --content.
    INPUT = "gen_ai.input.messages",
    OUTPUT = "gen_ai.output.messages",
    SYSTEM = "gen_ai.system_instructions",
    TOOL_ARGUMENTS = "gen_ai.tool.call.arguments",
    TOOL_RESULT = "gen_ai.tool.call.result",

    OWN_CALL = "ponder.call.id",
    OWN_COST = "ponder.cost.usd",
    OWN_ORIGIN = "ponder.call.origin",
    OWN_PURPOSE = "ponder.call.purpose",
    OWN_ATTEMPT = "ponder.attempt",
    OWN_ATTEMPTS = "ponder.call.attempts",
    OWN_RUN = "ponder.run.id",
    OWN_STATUS = "ponder.run.status",
    OWN_SEARCH = "ponder.search.id",
    OWN_SEARCH_KIND = "ponder.search.kind",
    OWN_SEARCH_REASON = "ponder.search.reason",
    OWN_NODE = "ponder.node.id",
    OWN_DEPTH = "ponder.node.depth",
    OWN_SCORE = "ponder.score",
}
