--- `ponder serve POLICY...`: policies as models that existing clients can call.

local args = require "ponder.args"
local cli = require "ponder.cli"
local files = require "ponder.log.files"
local flags = require "ponder.report.flags"
local guard = require "ponder.serve.guard"
local host = require "ponder.core.host"
local model = require "ponder.model"
local policies = require "ponder.serve.policies"
local server = require "ponder.serve"

local serve = {}

local function duration(help)
    return { value = "TIME", type = "duration", min = 0, help = help }
end

local function count(help, min)
    return { value = "N", type = "integer", min = min or 1, help = help }
end

local RULES = {
    listen = { value = "ADDRESS", help = "HOST:PORT or unix:PATH (default: 127.0.0.1:8321)" },
    model = { value = "NAME", help = "of tot, got, trm, cot and chat (default: $PONDER_MODEL)" },
    reload = { help = "read changed policy files again for new requests" },
    key_file = { value = "FILE", files = true, help = "who may ask: KEY [NAME [USD]] a line" },
    cors = { value = "ORIGIN", help = "let pages of an origin ask (several: A,B)" },
    concurrency = count "requests that run at once (default: 64)",
    max_queue = count("requests that wait for a place (default: 256)", 0),
    queue_timeout = duration "how long one waits (default: 60s)",
    timeout = duration "of a request (default: 10m)",
    drain = duration "how long running requests may finish after SIGTERM (default: 30s)",
    max_cost = { value = "USD", type = "number", min = 0, help = "of all requests together" },
    max_cost_per_request = { value = "USD", type = "number", min = 0, help = "of each" },
    max_calls_per_request = count "model calls of each",
    max_connections = count "open at once (default: 10000)",
    max_connections_per_address = count "from one address (default: 10000)",
    max_header_bytes = count("of a request (default: 16384)", 1024),
    max_body_bytes = count "of a request (default: 16 MiB)",
    header_timeout = duration "for a request's headers (default: 10s)",
    body_timeout = duration "for its body (default: 60s)",
    idle_timeout = duration "between requests (default: 75s)",
}
local SECTIONS = {
    { title = "Policies", names = { "model", "reload" } },
    { title = "Who may ask", names = { "listen", "key_file", "cors" } },
    { title = "Limits", names = { "concurrency", "max_queue", "queue_timeout", "timeout",
        "max_cost", "max_cost_per_request", "max_calls_per_request", "drain" } },
    { title = "Connections", names = { "max_connections", "max_connections_per_address",
        "max_header_bytes", "max_body_bytes", "header_timeout", "body_timeout",
        "idle_timeout" } },
}

serve.summary = "offer policies to OpenAI and Anthropic clients"
serve.rules, serve.sections, serve.files = RULES, SECTIONS, true
serve.words = { "tot", "got", "trm", "cot", "chat" }

local ABOUT = [[
ponder serve [OPTION...] POLICY...

Offers policies as models at http://127.0.0.1:8321/v1: chat completions, responses (OpenAI) and
messages (Anthropic), whole or streamed; /v1/models, /healthz, /readyz, /metrics.

POLICY is FILE.lua or NAME=FILE.lua, or tot, got, trm, cot or chat, which take --model and their own
flags (ponder tot --help). A file returns function(request), a strategy, or a table of several by
name. `request` has messages, prompt, model, params, and the methods think(text), write(text):

  return function(request)
      return request.prompt:upper()
  end

Without --key-file it listens to this machine alone. TLS is a proxy's work:

  Caddyfile   example.com { reverse_proxy 127.0.0.1:8321 { flush_interval -1 } }
  nginx       location /v1/ { proxy_pass http://127.0.0.1:8321; proxy_buffering off; }

SIGTERM or Ctrl-C finishes what runs (--drain); the second one ends it. Exit status: 0 when all
requests were answered, 143 (130 after Ctrl-C) when some were cancelled.]]

local function usage_text()
    local parts = { ABOUT }
    for _, section in ipairs(SECTIONS) do
        parts[#parts + 1] = section.title .. ":\n" .. args.help(RULES, section.names)
    end
    return table.concat(parts, "\n\n")
end
serve.usage = usage_text()

-------------------------------------------------------------------------------
-- Policies

local STRATEGIES = { tot = true, got = true, trm = true, cot = true }

-- The rules of this command and of the strategies that are named among its arguments.
local function rules_for(arguments)
    local rules = {}
    for _, word in ipairs(arguments) do
        if STRATEGIES[word] then
            for name, rule in pairs((flags.of(require("ponder.strategy." .. word).options()))) do
                rules[name] = rule
            end
        end
    end
    for name, rule in pairs(RULES) do
        rules[name] = rule
    end
    return rules
end

-- The options of one strategy, out of the flags of several.
local function strategy_policy(name, given)
    local strategy = require("ponder.strategy." .. name)
    local own = flags.of(strategy.options())
    local opts, message = flags.options(given, own)
    if not opts then
        return nil, message
    end
    opts.model = given.model
    opts.max_cost, opts.timeout = nil, nil -- the server's
    local ok, made = pcall(strategy.new, opts)
    if not ok then
        return nil, (tostring(made):gsub("^.-strategy%.%w+%.new: ", ""))
    end
    return policies.of(name, made)
end

-- One streamed call of a model.
local function chat_policy(given)
    local ok, m = pcall(model.open, given.model)
    if not ok then
        return nil, (tostring(m):gsub("^.-model%.open: ", ""))
    end
    return policies.of("chat", { description = m.name, run = function(request)
        local params = request.params
        local reply, message, code = m:chat { messages = request.messages,
            temperature = tonumber(params.temperature), top_p = tonumber(params.top_p),
            seed = request.seed, max_tokens = request.max_output_tokens,
            on_delta = function(text, kind)
                if kind == "reasoning" then
                    request:think(text)
                else
                    request:write(text)
                end
            end }
        if not reply then
            return nil, message, code
        end
        return request:text() == "" and reply.text or nil
    end })
end

local function load_policies(name, path)
    local chunk, message = files.load(path, "script")
    if not chunk then
        return nil, message
    end
    local ok, value = pcall(chunk)
    if not ok then
        return nil, tostring(value)
    end
    return policies.of(name, value)
end

-- What its file gives now, where the text has changed since; what cannot be read changes nothing.
local function reloader(name, path)
    local seen = files.read(path, "script")
    local current = {}
    return function(policy)
        return function()
            local text = files.read(path, "script")
            if text and text ~= seen then
                local list, message = load_policies(name, path)
                seen = text
                if not list then
                    io.stderr:write(("ponder serve: %s was not read again: %s\n"):format(path,
                        message))
                end
                for _, one in ipairs(list or {}) do
                    current[one.name] = one
                end
            end
            return current[policy.name]
        end
    end
end

local function file_policies(word, given)
    local name, path = word:match "^([%w_.-]+)=(.+)$"
    path = path or word
    name = name or path:match "([^/]+)$":gsub("%.lua$", "")
    host.set_script_folder(path:match "^(.*)/[^/]*$" or ".")
    local list, message = load_policies(name, path)
    if list and given.reload then
        local reload = reloader(name, path)
        for _, policy in ipairs(list) do
            policy.reload = reload(policy)
        end
    end
    return list, message
end

local function all_policies(operands, given)
    local all = {}
    for _, word in ipairs(operands) do
        local list, message
        if STRATEGIES[word] then
            list, message = strategy_policy(word, given)
        elseif word == "chat" then
            list, message = chat_policy(given)
        else
            list, message = file_policies(word, given)
        end
        if not list then
            return nil, ("%s: %s"):format(word, message)
        end
        table.move(list, 1, #list, #all + 1, all)
    end
    return all
end

-------------------------------------------------------------------------------

local function ms(seconds)
    return seconds and math.max(math.floor(seconds * 1000 + 0.5), 1)
end

local function server_options(given, list, keys)
    local origins = {}
    for origin in (given.cors or ""):gmatch "[^,%s]+" do
        origins[#origins + 1] = origin
    end
    return { policies = list, listen = given.listen, keys = keys, cors = origins,
        concurrency = given.concurrency, max_queue = given.max_queue,
        queue_timeout_ms = ms(given.queue_timeout), timeout_ms = ms(given.timeout),
        drain_ms = ms(given.drain), max_cost = given.max_cost,
        max_cost_per_request = given.max_cost_per_request,
        max_calls_per_request = given.max_calls_per_request,
        max_connections = given.max_connections,
        max_connections_per_address = given.max_connections_per_address,
        max_header_bytes = given.max_header_bytes, max_body_bytes = given.max_body_bytes,
        header_timeout_ms = ms(given.header_timeout), body_timeout_ms = ms(given.body_timeout),
        idle_timeout_ms = ms(given.idle_timeout) }
end

local function read_keys(path)
    local file, message = io.open(path, "r")
    if not file then
        return nil, message
    end
    local text <close> = file
    local keys, problem = guard.read_keys(text:read "a")
    return keys, problem and path .. ": " .. problem
end

-- Everything that may be wrong before it listens.
local function prepare(arguments)
    local given, operands = args.parse("ponder serve", arguments, rules_for(arguments))
    if not given then
        return nil, operands
    elseif #operands == 0 then
        return nil, "ponder serve: expected a policy: ponder serve FILE.lua, or ponder serve tot "
            .. "--model NAME"
    end
    local keys, list, message
    if given.key_file then
        keys, message = read_keys(given.key_file)
        if not keys then
            return nil, "ponder serve: --key-file: " .. message
        end
    end
    list, message = all_policies(operands, given)
    if not list then
        return nil, "ponder serve: " .. message
    end
    local ok, made = pcall(server.new, server_options(given, list, keys))
    if not ok then
        return nil, "ponder serve: " .. made:gsub("^.-serve%.new: ", ""):gsub("opts%.([%w_]+)",
            function(name) return args.flag(name) end)
    end
    return made
end

-- Policies print where the server does: what they say is nothing for clients.
local function print_to_stderr(...)
    local texts = table.pack(...)
    for i = 1, texts.n do
        texts[i] = tostring(texts[i])
    end
    io.stderr:write(table.concat(texts, "\t"), "\n")
end

---@param arguments string[]
---@return integer status 0; 143 or 130 when requests were cancelled; 1 when it cannot listen; 2 for
---  a usage error
function serve.run(arguments)
    print = print_to_stderr -- luacheck: ignore 121
    local made, problem = prepare(arguments)
    if not made then
        return cli.usage_error(problem)
    end
    local address, message = made:start()
    if not address then
        io.stderr:write("ponder serve: ", message, "\n")
        return 1
    end
    local stop = made:follow_signals()
    local url = address:find "^unix:" and address or "http://" .. address .. "/v1"
    io.stderr:write(("ponder serve: %s at %s\n"):format(table.concat(made.names, ", "), url))
    local finished = made:wait()
    stop()
    return finished and 0 or made.signalled == "interrupt" and 130 or 143
end

return serve
