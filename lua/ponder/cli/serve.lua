--- `ponder serve POLICY...`: serves policies as models to OpenAI and Anthropic clients.

local args = require "ponder.args"
local cli = require "ponder.cli.shared.main"
local confined = require "ponder.cli.shared.confined"
local guard = require "ponder.serve.http.guard"
local host = require "ponder.core.host"
local logged = require "ponder.run.log.command"
local logging = require "ponder.cli.shared.logging"
local logs = require "ponder.show.server.logs"
local model = require "ponder.model"
local policies = require "ponder.cli.shared.policies"
local prompts = require "ponder.serve.mcp.prompts"
local queues = require "ponder.serve.queue.status"
local read_file = require("ponder.base.file").read
local redis = require "ponder.redis"
local resources = require "ponder.show.resources"
local server = require "ponder.serve"
local view = require "ponder.show.server"
local strategy = require "ponder.strategy"
local task = require "ponder.task"

local serve = cli.command({ parse = policies.parse, files = true, logs_requests = true }, {
    { title = "Policies",
        { "model", value = "NAME",
            help = "model of strategies and of chat (default: $PONDER_MODEL)" },
        { "embeddings", value = "NAME", help = "model that answers /v1/embeddings" },
        { "reload", help = "reload changed policy files for new requests" },
        { "log", value = "FILE", files = true,
            help = "log each request as a run in FILE, new or from an earlier start" },
        { "log_max_runs", value = "N", type = "integer", min = 1,
            help = "keep only the newest N requests in the log (default: all)" },
        logging.RULES.sync,
        { "queues", value = "URL", help = "show the queues of this Redis in /metrics" },
    },
    { title = "Access",
        { "listen", value = "ADDRESS", help = "HOST:PORT or unix:PATH (default: 127.0.0.1:8321)" },
        { "key_file", value = "FILE", files = true,
            help = "allowed keys: KEY [NAME [USD]] per line" },
        { "cors", value = "ORIGIN,...", type = "list", help = "allow web pages of these origins" },
    },
    policies.server_flags("Limits", { "concurrency", "max_queue", "queue_timeout_ms", "timeout_ms",
        "max_cost", "max_cost_per_request", "max_calls_per_request", "max_kept_answers",
        "max_kept_bytes", "drain_ms" }),
    policies.server_flags("Connections", server.connection_options),
    { title = "Untrusted policies", confined.OPTIONS },
})

serve.summary = "serve policies to OpenAI and Anthropic clients"
serve.words = table.move(strategy.names, 1, #strategy.names, 2, { "chat" })

serve.about = [[
ponder serve [OPTION...] POLICY...

Serves policies as models at http://127.0.0.1:8321/v1: chat completions, responses (OpenAI) and
messages (Anthropic), whole or streamed; also /v1/models, /healthz, /readyz, /metrics. The latest
answers of /v1/responses are kept for previous_response_id, item_reference and GET, unless the
client sends store = false. At /mcp policies are MCP tools (ponder mcp --help), and with --log and
at most one key the runs are resources.

POLICY is FILE.lua or NAME=FILE.lua, or tot, got, trm, cot or chat, which take --model, --tools,
--mcp and their own flags (ponder tot --help). A file returns function(request), a strategy
(whose model is --model), or a table of these by name. `request` has messages, prompt, model,
params, the client's tools, and the methods think(text) and write(text). The result is the answer: a
text, or a table with `answer`, and `truncated = true` if it is cut at the length that the client
allows, or with calls of the tools, tool_calls = { { name = "search", arguments = {} } }; nothing if
write was called. Or it is nil, message, code: the client gets both, as an error. What the function
raises is only logged:

  return function(request)
      return request.prompt:upper()
  end

With --log, GET / is the page of its runs (ponder view); its URL, with a token, is printed at start.
ponder replay FILE#3 and ponder fork FILE#3 answer the request of run 3 again. Answers have an
x-request-id, but for those to what is not valid HTTP (a wrong Content-Length, a URL that is too
long). Without --key-file the server accepts connections from this machine only. For TLS, use a
proxy and --key-file:

  Caddyfile   example.com { reverse_proxy 127.0.0.1:8321 { flush_interval -1 } }
  nginx       location /v1/ { proxy_pass http://127.0.0.1:8321; proxy_buffering off;
                              proxy_read_timeout 10m; }

After SIGTERM or Ctrl-C running requests may finish (--drain); a second signal cancels them. Exit
status: 0 when all requests were answered, 143 (130 after Ctrl-C) when some were cancelled.]]

-------------------------------------------------------------------------------

local REDIS = { timeout_ms = 2000, connect_timeout_ms = 1000 } -- short, since a scraper waits

local function server_options(given, list, keys)
    -- With several keys, each would see the runs of the others.
    local shows_runs = given.log and (not keys or #keys == 1)
    local opts = policies.server_options(serve.rules, given)
    opts.policies, opts.keys, opts.listen, opts.cors = list, keys, given.listen, given.cors
    opts.prompts, opts.version = prompts.catalog, host.version
    opts.embeddings = given.embeddings
        and cli.expect_flag("--embeddings", model.try_open(given.embeddings)) or nil
    opts.resources = shows_runs and resources.of(given.log) or nil
    return opts
end

local BUDGETS = { "max_cost", "max_cost_per_request", "max_calls_per_request" }

-- A message of the server, with its options as flags.
local function explain(message)
    return message and message:gsub("^.-serve%.new: ", ""):gsub("^opts%.policies: ", "")
        :gsub("opts%.keys", "--key-file FILE"):gsub("opts%.([%w_]+)", args.flag)
end

-- The server.
local function prepare(given, operands, page)
    local keys
    if given.key_file then
        local text = cli.expect_flag("--key-file", read_file(given.key_file))
        keys = cli.expect_flag("--key-file: " .. given.key_file, guard.read_keys(text))
    end
    local client = given.queues and cli.expect_flag("--queues", redis.open(given.queues, REDIS))
    local opts = server_options(given, policies.load(operands, given), keys)
    opts.page, opts.gauges = page, client and function()
        return task.with_context("outside", true, queues.gauges, client)
    end or nil
    local ok, made = pcall(server.new, opts)
    cli.expect(ok, not ok and explain(made))
    return made
end

function serve.run(given, operands, arguments)
    cli.refuse(not logged.is_played() and (#operands == 0
        and "expected a policy: ponder serve FILE.lua, or ponder serve tot --model NAME"
        or given.untrusted and given.reload and "--reload cannot be combined with --untrusted"))
    confined.check(given, BUDGETS)
    local status = policies.begin("serve", serve.rules, given, operands, arguments)
    if status then
        return status
    end
    local shown <close> = view.new { logs = logs.new({ given.log }, host.absolute) }
    local made = prepare(given, operands, given.log and shown)
    local address, problem = made:start()
    cli.need(address, explain(problem))
    local stop = made:follow_signals()
    local url = address:find "^unix:" and address or "http://" .. address .. "/v1"
    io.stderr:write(("ponder serve: %s at %s\n"):format(table.concat(made.names, ", "), url))
    if given.log and not address:find "^unix:" then
        io.stderr:write(("ponder serve: runs at %s\n"):format(shown:url(address)))
    end
    local finished = made:wait()
    stop()
    return finished and 0 or made.signalled == "interrupt" and 130 or 143
end

return serve
