--- `ponder chat "..."`: asks a model, which may call tools, and streams its reply.

local args = require "ponder.args"
local cli = require "ponder.cli"
local base64 = require "ponder.base64"
local closing = require "ponder.report.closing"
local converse = require "ponder.strategy.converse"
local files = require "ponder.log.files"
local json = require "ponder.json"
local kept = require "ponder.log.kept"
local limits = require "ponder.cli.shared.limits"
local log = require "ponder.log"
local logging = require "ponder.cli.shared.logging"
local log_run = require "ponder.log.run"
local model = require "ponder.model"
local options = require "ponder.options"
local quote = require "ponder.quote"
local read_file = require("ponder.file").read
local reader = require "ponder.log.reader"
local task = require "ponder.task"
local toolbox = require "ponder.cli.shared.toolbox"
local verbose = require "ponder.model.verbose"

-- Flags to options of the call.
local CALL = { system = "system", temperature = "temperature", max_output_tokens = "max_tokens",
    seed = "seed", reasoning_effort = "reasoning_effort", timeout_ms = "timeout_ms" }

local chat = cli.command({ expects = { 1, math.huge, "a prompt: ponder chat PROMPT..." } }, {
    { title = "Prompt",
        { "model", value = "NAME", help = "provider:model (default: $PONDER_MODEL)" },
        { "system", value = "TEXT", help = "the system prompt" },
        { "c", alias = "continue", help = "continue the last logged conversation" },
        { "attach", value = "FILE", files = true, many = true,
            help = "attach a text or an image to the prompt; may be repeated" },
        { "schema", value = "FILE", files = true,
            help = "JSON schema that the reply must match; prints only its JSON" },
    },
    { title = "Limits of the whole run (default: none)",
        limits.RULES.max_cost,
        { "max_total_tokens", value = "N", type = "integer", min = 0,
            help = "tokens of prompt and reply, including retries" },
        limits.RULES.timeout,
    },
    { title = "Output",
        { "json", help = "print the whole reply as one JSON object" },
        { "verbose", help = "show requests and replies on standard error, redacted" },
    },
    { title = "Each call",
        { "temperature", value = "X", type = "number", min = 0, help = "sampling temperature" },
        { "max_output_tokens", value = "N", type = "integer", min = 1, alias = "max_tokens",
            help = "limit for the reply, in tokens" },
        { "seed", value = "N", type = "integer", help = "seed of sampling, if supported" },
        { "reasoning_effort", value = "LEVEL", help = "none, minimal, low, medium, high" },
        { "base_url", value = "URL", help = "base URL of the provider's API" },
        { "timeout_ms", value = "TIME", type = "duration", unit = "ms", min = 1,
            help = "timeout of each attempt (default: 10m; a bare number: milliseconds)" },
        limits.RULES.cache,
    },
    { title = "Tools",
        toolbox.OPTIONS,
        { "max_tool_round_trips", value = "N", type = "integer", min = 0, default = 20,
            help = "how often the model may ask for tools (default: 20)" },
        { "tool_timeout_ms", value = "TIME", type = "duration", unit = "ms", min = 1,
            default = 60000, help = "timeout of each tool call (default: 60s)" },
    },
    { title = "Run log", logging.OPTIONS },
})

chat.summary = "ask a model and stream its reply"

chat.about = [[
ponder chat [OPTION...] PROMPT...
ponder chat [OPTION...] -

Asks a model and prints its reply as it arrives. `-` reads the prompt from standard input. The
model's reasoning and its tool calls go to standard error. -c continues the newest conversation in
ponder log (which omits those with --no-log or --log FILE).]]

-- The prompt; if it was read from standard input, also the input.
local function prompt_of(operands)
    if operands[1] == "-" and not operands[2] then
        local input = log_run.read_input()
        return input, input
    end
    return table.concat(operands, " ")
end

-- The newest conversation: {system, messages}.
local function last_conversation()
    for _, file in ipairs(kept.list()) do
        local opened <close> = not file.damage and reader.open(file.path) or nil
        local run = opened and opened:run()
        if run and run.command == "chat" and type(run.answer) == "table" then
            return run.answer.conversation
        end
    end
end

local MAX_ATTACHED_BYTES = 20 * 1024 * 1024

local IMAGES = { { "^\x89PNG\r\n\x1A\n", "image/png" }, { "^\xFF\xD8\xFF", "image/jpeg" },
    { "^GIF8[79]a", "image/gif" }, { "^RIFF....WEBP", "image/webp" } }

-- An attached file in the form that the log records.
local function read_attached(path)
    local bytes, message = read_file(path, MAX_ATTACHED_BYTES)
    if not bytes then
        return nil, message
    end
    for _, image in ipairs(IMAGES) do
        if bytes:find(image[1]) then
            return { media_type = image[2], data = base64.encode(bytes) }
        end
    end
    if not utf8.len(bytes) or bytes:find "%z" then
        return nil, path .. ": neither an image (PNG, JPEG, GIF, WebP) nor UTF-8 text"
    end
    return { text = bytes }
end

-- The content of a message with a question and files: text; or, with images, parts in the
-- provider's form.
local function content_of(question, paths, m)
    local texts, images = {}, {}
    for _, path in ipairs(paths) do
        local file = cli.expect_flag("--attach", log.record("chat.attach", { path = path },
            read_attached, path))
        if file.text then
            texts[#texts + 1] = quote.tagged("file", ("%s\n\n%s"):format(path, file.text),
                math.maxinteger)
        else
            local image = cli.expect_flag("--attach", m.target.provider.image,
                ("%s: %s does not take images"):format(path, m.name))
            images[#images + 1] = image(file.media_type, file.data)
        end
    end
    texts[#texts + 1] = question
    local text = table.concat(texts, "\n\n")
    if not images[1] then
        return text
    end
    images[#images + 1] = { type = "text", text = text }
    return images
end

-- The options of the call.
local function call_of(opts, m, question)
    local call = { messages = {} }
    for flag, option in pairs(CALL) do
        call[option] = opts[flag]
    end
    if opts.c then
        local before = log.record("chat.conversation", json.object {}, last_conversation)
        cli.expect_flag("-c", before, "no conversation is logged")
        call.messages = before.messages
        call.system = call.system or before.system
    end
    if opts.schema then
        local text, problem = files.read(opts.schema, "data")
        call.response_format = text and json.decode(text)
        cli.expect_flag("--schema", type(call.response_format) == "table"
            and call.response_format[1] == nil, problem or opts.schema .. ": not a JSON schema")
        call.repair = true
    end
    table.insert(call.messages, { role = "user",
        content = content_of(question, opts.attach or {}, m) })
    return call
end

-- Returns write(text, kind), which prints text on standard output and reasoning on standard error,
-- and a function that flushes both and ends the line.
local function printer()
    local clean = { reasoning = quote.terminal_pieces(), text = quote.terminal_pieces() }
    local last = "\n"
    local function write(text, kind)
        local out = kind == "reasoning" and io.stderr or io.stdout
        local piece = clean[kind](text)
        last = kind == "text" and piece:sub(-1):match "." or last
        out:write(piece)
        out:flush()
    end
    return write, function()
        write(nil, "reasoning")
        write(nil, "text")
        if last ~= "\n" then
            write("\n", "text")
        end
    end
end

local function finish(opts, reply)
    if opts.json then
        cli.print_json(reply)
    elseif opts.schema then
        cli.print_json(reply.json)
    end
    if reply.truncated or reply.finish_reason == "length" then
        io.stderr:write("ponder chat: the reply was truncated\n")
    end
    for option, why in pairs(reply.dropped or {}) do
        io.stderr:write(("ponder chat: %s was omitted: %s\n"):format(args.flag(option), why))
    end
    return 0
end

-- Logs the reply, with the conversation so far for -c.
local function log_answer(call, reply)
    local answer, messages = options.merge({}, reply), table.move(call.messages, 1,
        #call.messages, 1, {})
    messages[#messages + 1] = reply.message
    answer.conversation = { system = call.system, messages = messages }
    log_run.answer(answer)
end

-- Asks, and prints the reply as it arrives.
local function ask(opts, m, call, box)
    local end_line = function() end
    if not opts.json and not opts.schema then
        call.on_delta, end_line = printer()
    end
    local _ <close> = opts.verbose and verbose.start() or nil
    limits.begin(opts)
    local reply, message, code = task.with_budget(limits.of(opts), converse.run, m, call, {
        tools = function() return box:current() end,
        max_tool_round_trips = opts.max_tool_round_trips, tool_timeout_ms = opts.tool_timeout_ms,
        on_tool = function(name, arguments)
            end_line()
            io.stderr:write(("ponder chat: %s %s\n"):format(quote.line(name),
                quote.line(arguments)))
        end })
    end_line()
    if reply then
        log_answer(call, reply)
        return finish(opts, reply)
    end
    log_run.failure(("%s [%s]"):format(message, code))
    return 1, ("%s [%s]"):format(message, code)
end

---See ponder.cli.
function chat.run(opts, operands, list)
    local question, input = prompt_of(operands)
    if not question:find "%S" and not opts.attach then
        return nil, "the prompt is empty"
    end
    logging.begin(opts, { command = "chat", arguments = list, input = input })
    local m = cli.need(model.try_open(opts.model, { base_url = opts.base_url }))
    local call = call_of(opts, m, question)
    local _ <close> = limits.cache(opts.cache)
    local box <close> = toolbox.open(opts)
    return closing.around("chat", ask, opts, m, call, box)
end

return chat
