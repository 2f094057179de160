--- `ponder chat "..."`: one streamed call.

local args = require "ponder.args"
local cli = require "ponder.cli"
local json = require "ponder.json"
local quote = require "ponder.quote"
local limits = require "ponder.report.limits"
local log_flags = require "ponder.log.flags"
local log_run = require "ponder.log.run"
local model = require "ponder.model"
local task = require "ponder.task"
local verbose = require "ponder.model.verbose"

local RULES = {
    model = { value = "NAME", help = "provider:model (default: $PONDER_MODEL)" },
    system = { value = "TEXT", help = "the system prompt" },
    temperature = { value = "N", type = "number", min = 0, help = "how freely to sample" },
    max_output_tokens = { value = "N", type = "integer", min = 1, alias = "max_tokens",
        help = "longest reply" },
    seed = { value = "N", type = "integer", help = "for repeatable sampling, where supported" },
    reasoning_effort = { value = "LEVEL", help = "none, minimal, low, medium, high" },
    base_url = { value = "URL", help = "where the provider's API is" },
    timeout_ms = { value = "TIME", type = "duration", unit = "ms", min = 1,
        help = "of each attempt; a bare number is in milliseconds" },
    max_total_tokens = { value = "N", type = "integer", min = 0,
        help = "tokens of prompt and reply, retries too" },
    max_cost = limits.RULES.max_cost,
    timeout = limits.RULES.timeout,
    cache = limits.RULES.cache,
    json = { help = "print the whole reply as one JSON object" },
    verbose = { help = "show requests and replies on standard error, redacted" },
}
local ORDER = { "model", "system", "temperature", "max_output_tokens", "seed",
    "reasoning_effort", "base_url", "timeout_ms", "max_total_tokens", "max_cost", "timeout",
    "cache", "json", "verbose" }
log_flags.add(RULES, ORDER)
-- Options of the call, by the flag.
local CALL = { system = "system", temperature = "temperature", max_output_tokens = "max_tokens",
    seed = "seed", reasoning_effort = "reasoning_effort", timeout_ms = "timeout_ms" }

local chat = { rules = RULES, order = ORDER }

chat.summary = "ask a model one thing and stream its reply"

chat.usage = [[
ponder chat [OPTION...] PROMPT...
ponder chat [OPTION...] -

Asks a model and prints its reply as it comes. `-` reads the prompt from standard input. On a
terminal the model's reasoning, where it shows any, goes to standard error.

]] .. args.help(RULES, ORDER)

-- The prompt, and what was read from standard input for it.
local function prompt_of(operands)
    if operands[1] == "-" and not operands[2] then
        local input = log_run.read_input()
        return input, input
    end
    return table.concat(operands, " ")
end

-- Text to standard output at once; reasoning beside it. The second function ends both.
local function printer()
    local clean = { reasoning = quote.terminal_pieces(), text = quote.terminal_pieces() }
    local function write(text, kind)
        local out = kind == "reasoning" and io.stderr or io.stdout
        out:write(clean[kind](text))
        out:flush()
    end
    return write, function()
        write(nil, "reasoning")
        write(nil, "text")
    end
end

local function finish(opts, reply)
    if opts.json then
        print(quote.terminal_json(json.encode(reply)))
    elseif reply.text:sub(-1) ~= "\n" then
        print()
    end
    if reply.truncated or reply.finish_reason == "length" then
        io.stderr:write("ponder chat: the reply was cut short\n")
    end
    for option, why in pairs(reply.dropped or {}) do
        io.stderr:write(("ponder chat: %s was left out: %s\n"):format(args.flag(option), why))
    end
    return 0
end

---@param arguments string[]
---@return integer status 0; 1 when the call failed; 2 for a usage error
function chat.run(arguments)
    local opts, operands = args.parse("ponder chat", arguments, RULES)
    if not opts then return cli.usage_error(operands) end
    if #operands == 0 then
        return cli.usage_error("ponder chat: expected a prompt: ponder chat PROMPT...")
    end
    local question, input = prompt_of(operands)
    local begun, problem = log_flags.begin(opts, { command = "chat", arguments = arguments,
        input = input })
    if not begun then return cli.usage_error("ponder chat: " .. problem) end
    local ok, m = pcall(model.open, opts.model, { base_url = opts.base_url })
    if not ok then
        io.stderr:write("ponder chat: ", m:match("model%.open: (.*)") or m, "\n")
        return 1
    end
    local call, end_printing = { messages = { { role = "user", content = question } } }, nil
    if not opts.json then call.on_delta, end_printing = printer() end
    for flag, option in pairs(CALL) do call[option] = opts[flag] end
    local _ <close>, refused = limits.cache(opts.cache)
    if refused then return cli.usage_error("ponder chat: --cache: " .. refused) end
    local stop = opts.verbose and verbose.start()
    limits.begin(opts)
    local reply, message, code = task.with_budget({ max_cost = opts.max_cost,
        max_tokens = opts.max_total_tokens, timeout = opts.timeout }, m.chat, m, call)
    if stop then stop() end
    if end_printing then end_printing() end
    if reply then
        log_run.answer(reply)
        return finish(opts, reply)
    end
    log_run.failure(("%s [%s]"):format(message, code))
    io.stderr:write(("ponder chat: %s [%s]\n"):format(quote.terminal(message), code))
    return 1
end

return chat
